"""The readers that the base install has, and the list of all."""

import io
import json
import math
from typing import Any

import numpy as np
import safetensors.numpy

from fedhalt import (
    AnyOf,
    Budget,
    EarlyStopper,
    FedhaltError,
    ForwardGrowth,
    GrowthRate,
    Trajectory,
    files,
    rules,
)
from fedhalt.records import checkpoints, judge, recorded
from fedhalt.records.tail import TrajectoryTail
from fedhalt.rules import named_rule
from fedhalt.stopbench import runs as packs
from fedhalt.stopper import STATE
from fedhalt.views.live import LiveRuns
from fedhalt.views.page.data import loaded
from fedhalt.views.server import Handler, Server
from fedhalt.views.terminal.watch import judged, table
from helpers.places import ROOT

from . import readers_flower, readers_torch
from .mutators import forge_lines, forge_seal, zipped
from .reader import Reader, tree_of

EARLIER = ROOT / "tests" / "fixtures" / "v0.1.0"
NAMED = [named_rule(name) for name in ("growth", "forward", "wandering", "val-loss", "growth-authors")]
SCORES = {"val_accuracy": 0.25, "test_balanced_accuracy": 0.5, "alignment": 0.1, "note": "ü"}
ROWS = [
    {"distance": r**0.5, "update_norm": 1 / r, "val_loss": None if r == 3 else 2.0 / r, "cohort": [1, r], **SCORES}
    for r in range(1, 7)
]


def record(path, last=math.nan, **header):
    trajectory = Trajectory.create(path, **header)
    for row in ROWS:
        trajectory.append(row, {"state": "12"} if row["distance"] == 1 else None)
    trajectory.append({"distance": last, "update_norm": math.inf})


def trajectories(place):
    record(place / "t.jsonl", spec={"data": "digits", "lr": 0.1, "hyperparameters": {"lam": 0.1}})
    rule = rules.to_json(AnyOf(GrowthRate(), Budget(5)))
    record(place / "u.jsonl", last=3.0, rule=rule)
    earlier = (EARLIER / "trajectories" / "whole.jsonl").read_bytes().split(b"\n")[:6]
    found = [data for _, data in sorted(tree_of(place).items())]
    return [{"t.jsonl": data} for data in (*found, b"\n".join([*earlier, b""]))]


def read_trajectory(place):
    """Load; whoever else reads the same file must agree as far as they read."""
    path = place / "t.jsonl"
    salvaged, problem = Trajectory.salvage(path)
    TrajectoryTail(path).poll()
    found = Trajectory.load(path)
    assert not problem and [*map(files.to_json, salvaged.rows)] == [*map(files.to_json, found.rows)]
    Trajectory.resume(path, after=3)
    found.to_csv()
    for named in NAMED:
        if len(found) and set(named.rule.reads) <= set(found.columns):
            try:
                files.to_json(judge(str(path), found, named).to_json())
            except FedhaltError as error:
                assert str(path) in str(error) and str(error).isprintable() and len(str(error)) < 1000
    return found


def check_trajectory(found, sample):
    rounds = [row["round"] for row in found.rows]
    assert rounds == sorted(set(rounds)) and all(type(r) is int and r > 0 for r in rounds)
    assert all(found.column(name) is not None for name in found.columns)


def is_part(found, whole):
    """Every row of a file with checksums is one that was written, to the bit; that of version 1 has none."""
    written = set(map(files.to_json, whole.table.entries()))
    return "note" not in whole.columns or all(files.to_json(row) in written for row in found.table.entries())


def resume(place):
    """What it holds, once a round was appended: nothing is lost, what does not belong moves aside."""
    path = place / "t.jsonl"
    before = path.read_bytes()
    trajectory = Trajectory.resume(path, after=3)
    kept = list(map(files.to_json, trajectory.table.entries()))
    trajectory.append({"distance": 9.0})
    found = Trajectory.load(path)
    assert list(map(files.to_json, found.table.entries()))[:-1] == kept and found.rows[-1]["distance"] == 9
    aside = b"".join(other.read_bytes() for other in place.glob("t.jsonl.after-*"))
    there = {*path.read_bytes().split(b"\n"), *aside.split(b"\n")}
    lost = [line for line in before.split(b"\n")[:-1] if line not in there]
    assert b'"version": 1' in before.split(b"\n")[0] or not lost, lost
    return found


def tables(place):
    whole = (EARLIER / "trajectories" / "whole.csv").read_bytes().split(b"\n")
    return [{"t.csv": b"\n".join([*whole[:6], b""])}, {"t.csv": b"round,distance\n1,0.5\n2,0.75\n4,1\n5,1e-3\n"},
            {"t.csv": b'distance,note\r\n0.5,"a, ""b"""\r\n0.75,"x\ny"\r\n'}]  # fmt: skip


def read_table(place):
    found = recorded(place / "t.csv")
    for named in NAMED[:1]:
        judge(str(place / "t.csv"), found, named)
    return found


def models(place):
    arrays = {"a.weight": np.arange(6, dtype="<f4").reshape(2, 3), "b": np.ones(2, "<f2"), "n": np.array([3])}
    half = np.arange(4, dtype="<f8")
    saved = {}
    for name, array in {**arrays, "half": half}.items():
        file = io.BytesIO()
        np.save(file, array)
        saved[f"{name}.npy"] = file.getvalue()
    return [
        {"0.safetensors": safetensors.numpy.save(arrays), "1.safetensors": safetensors.numpy.save(arrays)},
        {"0.npz": zipped(saved), "1.npz": zipped(saved)},
        {"0.npy": saved["half.npy"], "1.npy": saved["half.npy"]},
    ]


def read_models(place):
    """A folder of models as rounds; each also as a file on its own."""
    if not any(place.iterdir()):
        raise FedhaltError(f"{place} is empty")
    found = list(checkpoints.Checkpoints(place, ("distance", "update_norm", "parameter_norm")).rows())
    for path in checkpoints.listed(place):
        checkpoints.read(path)
    return found


def check_models(found, sample):
    assert all(type(row["distance"]) is float for row in found)


def packed(place):
    rows = [{"round": r, **{name: 0.5 + r for name in packs.SEEN}} for r in (1, 2, 3)]
    made = [packs.Run(name, {"data": "digits", "lr": 0.1, "model": "cnn"}, rows, np.full(3, 0.5)) for name in "ab"]
    (path,) = packs.pack(made, place)
    return [{path.name: path.read_bytes()}]


def check_packs(found, sample):
    for run in found:
        assert len(run.rows) == len(run.accuracy) >= 1 and run.columns and type(run.diverged) is bool


def stoppers(place):
    """Folders of stoppers with their trajectories; where these were is taken out, so that they are always equal."""
    found = []
    for number, rule in enumerate((GrowthRate(0.1, 3), AnyOf(ForwardGrowth(0.01, 2), Budget(9)))):
        folder = place / str(number)
        stopper = EarlyStopper(np.zeros(4, "<f4"), rule=rule, trajectory=folder / "t.jsonl", keep_finite=bool(number))
        for r in range(1, 6):
            stopper.update(np.full(4, r**0.5, "<f4"), val_loss=1 / r)
        stopper.save(folder)
        sealed = json.loads((folder / STATE).read_text())
        text = sealed["saved"].replace(str(folder), "/nowhere")
        (folder / STATE).write_text(json.dumps({**sealed, "saved": text, "digest": files.digest(text.encode())}))
        found.append(tree_of(folder))
    earlier = EARLIER / "stoppers" / "Wandering"
    return [*found, tree_of(earlier)]


def read_stopper(place):
    trajectory = place / "t.jsonl"
    stopper = EarlyStopper.load(place, trajectory=trajectory if trajectory.exists() else None)
    meter, finite = stopper._meter, stopper._finite
    arrays = {} if meter is None else {"start": meter.start, "previous": meter.previous, "finite": finite}
    rows = stopper.trajectory.rows if stopper.trajectory is not None else []
    return repr((stopper.rule, stopper.status, stopper._stepper.state, files.to_json(rows),
                 {kind: {name: (array.dtype.str, array.tobytes()) for name, array in sorted((each or {}).items())}
                  for kind, each in arrays.items()}))  # fmt: skip


def pages(place):
    record(place / "trajectory.jsonl", spec={"data": "digits", "lr": 0.1}, rule=rules.to_json(GrowthRate()))
    listed = [{"rule": "growth", "threshold": 0.01, "patience": 10, "stop_round": None}]
    summary = json.dumps({"run": "x", "rounds": 7, "rules": listed}).encode()
    earlier = next((EARLIER / "runs" / "adaptive").glob("digits-*"))
    return [{**tree_of(place), "summary.json": summary},
            {name: (earlier / name).read_bytes() for name in ("trajectory.jsonl", "summary.json")}]  # fmt: skip


def read_page(place):
    """What the page and the table in a terminal show; nothing may be raised, every problem is a sentence."""
    file = place / "trajectory.jsonl"
    return loaded(file, "run"), judged(file, "run", NAMED[0])


def check_page(found, sample):
    for shown in found:
        problem = shown.get("problem", "")
        assert problem.isprintable() and "it cannot be shown" not in problem and len(problem) <= 1000, problem
        assert not problem or "trajectory.jsonl" in problem or "is not recorded" in problem or "round" in problem
    json.loads(files.to_json(found[0]))
    table([found[1]], NAMED[0])


def requests(place):
    lines = ["GET {} HTTP/1.1", "Host: 127.0.0.1:PORT", "Accept: */*", "", ""]
    asked = ("/runs?after=ab12-3", "/runs", "/runs?after=SERVER-1&x=%20", "/")
    return [{"request.http": "\r\n".join(lines).format(path).encode()} for path in asked]


class Offline(Handler):
    """The handler on bytes in the place of a connection."""

    def __init__(self, request, server):
        self.rfile, self.answer = io.BytesIO(request), io.BytesIO()
        self.wfile = self.answer
        super().__init__(None, ("127.0.0.1", 1), server)

    def setup(self):
        pass

    def finish(self):
        pass


def read_request(place, servers={}):  # noqa: B006 - one server for all requests
    if not servers:
        servers["one"] = Server(LiveRuns([place / "none"], loaded), "fuzz")
        servers["one"].server_close()
    server = servers["one"]
    request = (place / "request.http").read_bytes().replace(b"PORT", b"%d" % server.server_address[1])
    return Offline(request, server).answer.getvalue()


def check_request(found, sample):
    assert b" 500 " not in found[:20]


def descriptions(place):
    described = (AnyOf(GrowthRate(0.1, 3), Budget(9)), *(one.rule for one in NAMED))
    return [{"rule.json": files.to_json(rules.to_json(rule)).encode()} for rule in described]


def read_rule(place):
    path = place / "rule.json"
    try:
        return rules.from_json(files.from_json(path.read_text(encoding="utf-8")))
    except ValueError as error:
        if not isinstance(error, FedhaltError):
            raise FedhaltError(f"{path} is no JSON") from None
        raise FedhaltError(f"{path}: {error}") from None


def check_rule(found, sample):
    assert rules.from_json(files.from_json(files.to_json(rules.to_json(found)))) == found
    rows = [{name: 1.0 / r for name in found.reads} for r in range(1, 9)]
    assert len(list(rules.replay(found, rows))) == 8


READERS: list[Any] = [
    Reader("trajectory", trajectories, read_trajectory, check_trajectory, same=is_part,
           forgeries={".jsonl": forge_lines}, weight=12),
    Reader("resume", trajectories, resume, forgeries={".jsonl": forge_lines}, 
           may_change=("t.jsonl", *"0123456789"), weight=6),
    Reader("csv", tables, read_table, check_trajectory, weight=12),
    Reader("models", models, read_models, check_models, weight=8),
    Reader("packs", packed, lambda place: packs.load(place), check_packs, weight=10),
    Reader("stopper", stoppers, read_stopper, same=str.__eq__, 
           forgeries={STATE: forge_seal, ".jsonl": forge_lines}, weight=8),
    Reader("page", pages, read_page, check_page, forgeries={".jsonl": forge_lines}, weight=4),
    Reader("server", requests, read_request, check_request, weight=8),
    Reader("rules", descriptions, read_rule, check_rule, weight=8),
    *readers_torch.READERS,
    *readers_flower.READERS,
]  # fmt: skip
"""All of them; those that need what is not installed are left out."""
