"""The readers that need torch: run folders, settings, plans, data, caches, the paper's rows. Each imports its own."""

import io
import json
import re

import numpy as np
import pytest

from fedhalt import files
from helpers.images import write_fashion, write_npz
from helpers.places import ROOT

from .mutators import zipped
from .reader import Reader, tree_of


def spec():
    from fedhalt.simulation.spec import RunSpec

    return RunSpec(method="scaffold", clients=4, cohort=2)


ORIGIN = {"data": "ab", "theta0": "cd"}


def run_folders(place):
    """A run of three rounds with two clients' memories, as a kill leaves it: the first round and the last are whole."""
    import torch

    from fedhalt.simulation import store
    from fedhalt.simulation.engine import Round

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "SYNC_EVERY", 1e9)
        folder = store.RunFolder(place, spec())
        folder.check_origin(ORIGIN)
        folder.recover()
        for r in (1, 2, 3):
            for client in (0, 1) if r != 2 else (1,):
                folder.memory[client] = {"c": torch.full((2,), float(10 * client + r))}
            if r == 3:
                folder.save_model("growth", {"w": torch.full((3,), 3.0)}, {"round": "3"})
            done = Round(r, {"x": torch.full((3,), float(r))}, folder.memory, {}, [0, 1], [1, 1], 0, 0, 0)
            folder.commit(done, {"round": r, "distance": float(r), "growth": None, "seconds": 0.1, "cohort": [0, 1]})
        folder.write_summary({"rounds": 3, "rules": []})
        folder.close()
    killed = tree_of(place)
    last = {name: data for name, data in killed.items() if "-1." not in name and "-2." not in name}
    return [killed, {**last, "memory/1-3.safetensors": killed["memory/1-3.safetensors"]}]


def read_run_folder(place):
    """Everything that a run goes on with: its round, what is recorded up to it, state, memory, model."""
    from fedhalt.simulation.store import RunFolder

    folder = RunFolder(place, spec())
    try:
        model = folder.model("growth")
        folder.check_origin(ORIGIN)
        folder.recover()
        resumed = folder.resume()
        memory = {client: folder.memory[client]["c"].tolist() for client in folder.memory}
        state = resumed[1]["x"].tolist() if resumed else None
        rows = files.to_json(list(folder.trajectory.table.entries()))
        return {"round": resumed[0] if resumed else 0, "rows": rows, "state": state, "memory": memory,
                "model": model is not None}  # fmt: skip
    finally:
        folder.close()


def is_earlier(found, whole):
    """The run goes on after one of its rounds, as it was then."""
    r = found["round"]
    memory = {1: {0: [1.0] * 2, 1: [11.0] * 2}, 3: {0: [3.0] * 2, 1: [13.0] * 2}}
    rows = json.loads(whole["rows"])
    return json.loads(found["rows"]) == rows[:r] and (
        r == 0 or (found["state"] == [float(r)] * 3 and found["memory"] == memory[r])
    )


def settings_files(place):
    whole = b"""data = "digits"\nmethod = "fedprox"\nlam = 0.01\nclients = 12\ncohort = 4\nskew = "dirichlet"\nc = 0.5
lr = 0.05\nclip = 0\nresize = 32\nrule = ["growth", "val-loss"]\nthreshold = 0.02\npatience = 5\nrounds = 20
stop = "first"\nworkers = 1\nout = "runs"\ntrack = []\nseed = 3\nheld-out = 0.2\nevaluate-every = 2\n"""
    return [{"run.toml": whole}, {"run.toml": b'method = "feddyn"\nmodel = "resnet18"\nbuffers = "average"\n'}]


def read_settings_file(place):
    from fedhalt.cli import run

    return run._read(place / "run.toml", {}, {})


def check_settings(found, sample):
    assert not re.search("[\x00-\x1f]", found.spec.id) and files.from_json(files.to_json(found.spec.to_json()))


def plans(place):
    examples = [{"sweep.toml": (ROOT / "examples" / name).read_bytes()} for name in ("sweep.toml", "digits.toml")]
    own = b"""rounds = 9\nobjective = "none"\nscreen = false\nsampler = "random"\ntrials = 3\ntrack = "x"\n[space]
lr = {low = 1e-3, high = 1.0, log = true}\nbatch = {low = 8, high = 64, step = 8}\nmethod = ["fedavg", "fedprox"]
phi = [0.1, 0.01]\n[converge]\nrule = "growth"\nthreshold = 0.02\n"""
    return [*examples, {"sweep.toml": own}]


def read_plan(place):
    from fedhalt.tuning.plans import load

    return load(place / "sweep.toml", {})


def check_plan(found, sample):
    plan, _ = found
    assert plan.space.size() is None or plan.space.size() >= 1
    assert all(each.id for each in plan.space.random(3, seed=0))


def data_files(place):
    found = []
    for colour in (True, False):
        write_npz(place / "x.npz", counts=(6, 4, 4), size=4, classes=3, colour=colour, train_patient=np.arange(6))
        with np.load(place / "x.npz") as archive:
            found.append({"data.npz": zipped({f"{name}.npy": _npy(archive[name]) for name in archive.files})})
    return found


def _npy(array):
    made = io.BytesIO()
    np.save(made, array)
    return made.getvalue()


def read_data(place):
    from fedhalt.simulation.datasets import from_npz

    return from_npz(place / "data.npz")


def idx_files(place):
    write_fashion(place)
    return [tree_of(place)]


def read_idx(place):
    from fedhalt.simulation.datasets import fashion

    return fashion(place)


def check_data(found, sample):
    for split in (found.train, found.val, found.test):
        assert split.images.ndim == 4 and len(split.images) == len(split.labels) >= 1
        assert 0 <= int(split.labels.min()) <= int(split.labels.max()) < found.classes
        assert split.images.shape[1:] == found.train.images.shape[1:]
    assert found.digest()


def pictures(place):
    from PIL import Image

    tree = {}
    for index, name in enumerate(("a/1.png", "a/2.bmp", "b/3.gif", "b/4.jpg", "b/5.tiff")):
        made = io.BytesIO()
        Image.new("RGB", (5, 4), (index, 9, 200)).save(made, {"jpg": "jpeg"}.get(name[4:], name[4:]))
        tree[name] = made.getvalue()
    return [tree]


def read_pictures(place):
    from fedhalt.simulation.datasets import from_folder

    return from_folder(place, 8)


def cached(place):
    from fedhalt.measure import tensors

    arrays = {split: np.full((2, 3), number, "<f4") for number, split in enumerate(("train", "val", "test"))}
    data = tensors.from_arrays(arrays, {"backbone": "x"})
    return [{f"features-ab-{files.digest(data)}.safetensors": data}]


def read_cache(place):
    """None, to compute what was there again, or what was written."""
    from fedhalt.simulation import backbones

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDHALT_CACHE", str(place))
        found = backbones._cached("features-ab")
    return None if found is None else {name: tensor.tolist() for name, tensor in found.items()}


def paper_rows(place):
    folder = ROOT / "fedhalt" / "paper" / "recorded" / "small"
    return [{name: b"".join((folder / name).read_bytes().splitlines(keepends=True)[:6])
             for name in ("rows.csv", "curves.csv")}]  # fmt: skip


def read_paper_rows(place):
    from fedhalt.paper.rows import Results

    return Results(place)


def check_paper_rows(found, sample):
    assert all(key == row["id"] and type(key) is str for key, row in found.rows.items())
    assert found.select(task="blood") is not None


def torch_models(place):
    import torch

    saved = {"w": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(3), "h": torch.ones(2, dtype=torch.bfloat16)}
    tree = {}
    for name in ("0.pt", "1.pt"):
        made = io.BytesIO()
        torch.save(saved, made)
        tree[name] = made.getvalue()
    old = io.BytesIO()
    torch.save(saved, old, _use_new_zipfile_serialization=False)
    return [tree, {"0.pt": old.getvalue(), "1.pt": old.getvalue()}]


def read_torch_models(place):
    from .readers import read_models

    return read_models(place)


READERS = [
    Reader("run folder", run_folders, read_run_folder, needs=("torch",), same=is_earlier,
           may_change=(".safetensors", "trajectory.jsonl", "origin.json"), weight=3),
    Reader("settings", settings_files, read_settings_file, check_settings, needs=("torch",), weight=10),
    Reader("plans", plans, read_plan, check_plan, needs=("torch",), weight=8),
    Reader("data", data_files, read_data, check_data, needs=("torch",), weight=6),
    Reader("idx", idx_files, read_idx, check_data, needs=("torch",), weight=6),
    Reader("pictures", pictures, read_pictures, check_data, needs=("torch", "PIL"), weight=3),
    Reader("cache", cached, read_cache, needs=("torch",), same=lambda found, whole: found in (None, whole),
           may_change=(".safetensors",), weight=6),
    Reader("paper rows", paper_rows, read_paper_rows, check_paper_rows, needs=("torch", "pandas")),
    Reader("torch models", torch_models, read_torch_models, needs=("torch",), weight=3),
]  # fmt: skip
