"""What every adapter shares, on a plain loop: verdicts as in replay, a record, a folder that survives a kill."""

import logging
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from fedhalt import FedhaltError, GrowthRate, MissingExtra, Trajectory, replay
from fedhalt.integrations import host
from fedhalt.integrations.seam import Watch, require

RULE = {"threshold": 0.1, "patience": 3}


def model(r):
    """A model that slows down."""
    return {"w": np.full(4, 1 - 0.8**r), "b": np.full(2, -0.5 * (1 - 0.7**r))}


def train(watch, last=40, done=None, first=1):
    watch.begin(model(0), budget=last, done=done)
    for r in range(first, last + 1):
        if watch.stopped or watch.update(model(r), round=r).stop:
            break
    watch.end()
    return watch


def test_a_run_stops_where_its_record_replayed_says_with_that_rounds_model(tmp_path):
    full = train(Watch(rule=GrowthRate(1e-12, 40), trajectory=tmp_path / "full.jsonl"))
    assert not full.stopped
    stop = next(s for s in replay(GrowthRate(**RULE), Trajectory.load(tmp_path / "full.jsonl")) if s.stop)
    watch = train(Watch(**RULE, trajectory=tmp_path / "run.jsonl"))
    assert watch.status == stop
    assert np.array_equal(watch.model("last")["w"], model(stop.round)["w"])
    record = Trajectory.load(tmp_path / "run.jsonl")
    assert record.header["budget"] == 40 and len(record) == stop.round
    assert watch.told.startswith(f"stopped after round {stop.round} (growth below threshold")


def test_the_average_is_the_mean_of_the_last_models():
    watch = train(Watch(**RULE, average=3))
    last = range(watch.status.round - 2, watch.status.round + 1)
    assert watch.averages
    assert watch.model("average")["w"] == pytest.approx(np.mean([model(r)["w"] for r in last], axis=0))


KILLED = """
    import os, signal, sys
    sys.path[:0] = [{tests!r}]
    from integrations.test_seam import RULE, Watch, model
    watch = Watch(**RULE, state={state!r}, trajectory={trajectory!r}, average=3)
    watch.begin(model(0), budget=40, done=0)
    for r in range(1, 6):
        watch.update(model(r), round=r)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
@pytest.mark.parametrize("restored", [5, 3], ids=["at the saved round", "before it"])
def test_a_killed_run_goes_on_as_if_it_had_not_been(tmp_path, restored):
    whole = train(Watch(**RULE, trajectory=tmp_path / "whole.jsonl", average=3))
    state, trajectory = str(tmp_path / "state"), str(tmp_path / "run.jsonl")
    tests = os.path.dirname(os.path.dirname(__file__))
    program = textwrap.dedent(KILLED.format(tests=tests, state=state, trajectory=trajectory))
    assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL
    resumed = Watch(**RULE, state=state, trajectory=trajectory, average=3)
    train(resumed, done=restored, first=restored + 1)
    assert resumed.status == whole.status
    assert Trajectory.load(trajectory).rows == Trajectory.load(tmp_path / "whole.jsonl").rows
    assert np.array_equal(resumed.model("average")["w"], whole.model("average")["w"])
    again = Watch(**RULE, state=state, trajectory=trajectory, average=3)
    again.begin(model(0), done=whole.status.round)
    assert again.stopped and again.status == whole.status


def test_the_folder_and_the_framework_must_be_at_the_same_place(tmp_path):
    train(Watch(**RULE, state=tmp_path / "state"), last=4)
    for done, says in ((0, "starts over"), (5, "resumes after round 5")):
        with pytest.raises(FedhaltError, match=f"up to round 4, but the training {says}"):
            Watch(**RULE, state=tmp_path / "state").begin(model(4), done=done)
    with pytest.raises(FedhaltError, match="up to round 0, but the training resumes after round 2"):
        Watch(**RULE, state=tmp_path / "other").begin(model(2), done=2)


def test_a_folder_resumes_with_the_options_it_began_with_only(tmp_path):
    train(Watch(**RULE, state=tmp_path, include=["w"]), last=4)
    with pytest.raises(FedhaltError, match="saved with the rule"):
        Watch(threshold=0.2, state=tmp_path, include=["w"]).begin(model(0))
    with pytest.raises(FedhaltError, match="average=None, not 5"):
        Watch(**RULE, state=tmp_path, include=["w"], average=5).begin(model(0))
    with pytest.raises(FedhaltError, match=r"include, exclude = \[\['w'\], None\], not \[None, None\]"):
        Watch(**RULE, state=tmp_path).begin(model(0))
    Watch(**RULE, state=tmp_path, include=("w",)).begin(model(0))


def test_two_processes_do_not_share_a_folder(tmp_path):
    first = Watch(**RULE, state=tmp_path)
    first.begin(model(0))
    with pytest.raises(FedhaltError):
        Watch(**RULE, state=tmp_path).begin(model(0))
    first.end()
    Watch(**RULE, state=tmp_path).begin(model(0))


def test_a_record_is_replaced_only_if_it_may_be(tmp_path):
    path = tmp_path / "run.jsonl"
    train(Watch(**RULE, trajectory=path), last=3)
    with pytest.raises(FedhaltError, match=r"run\.jsonl exists already: .*overwrite=True"):
        Watch(**RULE, trajectory=path)
    train(Watch(**RULE, trajectory=path, overwrite=True), last=2)
    assert len(Trajectory.load(path)) == 2


def test_one_line_per_round_and_the_numbers_for_the_frameworks_metrics(tmp_path, caplog, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.INFO, "fedhalt"):
        watch = train(Watch(threshold=0.002, patience=3, trajectory="run.jsonl", average=10))
    assert {record.name for record in caplog.records} == {"fedhalt"}
    assert caplog.messages[0] == f"fedhalt: recording in {tmp_path / 'run.jsonl'}"
    assert caplog.messages[1] == "fedhalt: round 1, distance 0.452769, streak 0"
    assert "growth below threshold" in caplog.messages[-1] and len(caplog.messages) == watch.status.round + 1
    numbers = watch.metrics
    assert numbers["fedhalt/growth"] == watch.status.signal and numbers["fedhalt/distance"] == watch.status.value
    assert numbers.keys() == {f"fedhalt/{name}" for name in ("distance", "growth", "exponent", "drift", "streak")}


SHOWN = """
    import logging, sys
    {setup}
    from fedhalt.integrations.seam import Watch
    watch = Watch("theirs")
    watch.begin([__import__("numpy").zeros(1)])
    watch.update([__import__("numpy").ones(1)])
"""


@pytest.mark.parametrize(
    "setup, line",
    [
        ("", "fedhalt: round 1, distance 1, streak 0"),
        ("handler = logging.StreamHandler(); handler.setFormatter(logging.Formatter('THEIRS %(message)s'));"
         "logging.getLogger('theirs').addHandler(handler)", "THEIRS fedhalt: round 1, distance 1, streak 0"),
        ("logging.basicConfig(format='%(name)s %(message)s')", "fedhalt fedhalt: round 1, distance 1, streak 0"),
        ("logging.getLogger('fedhalt').setLevel('WARNING')", ""),
    ],
    ids=["nothing set up", "beside the framework's lines", "as the app wants it", "silenced"],
)  # fmt: skip
def test_the_lines_are_seen_once(setup, line):
    program = textwrap.dedent(SHOWN.format(setup=setup))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == line


def test_a_wrong_option_is_said_at_once(tmp_path):
    for wrong in ({"threshold": -1}, {"average": 0}, {"state": 3}, {"overwrite": "yes"}, {"rule": "growth"}):
        with pytest.raises(FedhaltError):
            Watch(**wrong)
    with pytest.raises(FedhaltError, match="has not begun"):
        Watch().update(model(1))


def test_a_rule_may_come_from_a_configuration_file():
    assert Watch(rule={"type": "GrowthRate", "threshold": 0.2, "patience": 3}).rule == GrowthRate(0.2, 3)
    with pytest.raises(FedhaltError, match="not a rule of fedhalt"):
        Watch(rule={"type": "Unknown"})


def test_the_frameworks_version_is_checked(monkeypatch, caplog):
    monkeypatch.setattr(host, "version", lambda package: "2.5.1rc1")
    assert require("frame", "frame", "2.4", "2.5") == "2.5.1rc1"
    assert not caplog.messages
    require("frame", "frame", "2.4", "2.4.9")
    assert "frame 2.5.1rc1 is newer than the releases tested, 2.4 to 2.4.9" in caplog.text
    with pytest.raises(FedhaltError, match=r"frame 2\.5\.1rc1 is too old.*pip install 'frame>=2\.10'"):
        require("frame", "frame", "2.10", "2.11")
    monkeypatch.undo()
    with pytest.raises(MissingExtra, match=r"needs no-such-frame.*pip install '\.\[frame\]'"):
        require("no-such-frame", "frame", "1", "2")
