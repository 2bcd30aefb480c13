"""What version 0.1.0 wrote loads, goes on to the same numbers, and is judged alike; fixtures/v0.1.0/make.py wrote it.

Numbers of rules are compared to the bit wherever there is the same logarithm; those of trained models on the kind of
machine that they were recorded on, and nearly so elsewhere.
"""

import contextlib
import json
import shutil
import warnings

import pytest
from earlier import (
    CUT,
    FIXTURES,
    LENGTH,
    PACKED,
    PACKED_RUNS,
    RUNS,
    STOPPED,
    STOPPERS,
    check,
    feed,
    read,
    same_machine,
    tiny_network,
)
from earlier_records import digest, plain, records, rules, said

from fedhalt import EarlyStopper, FedhaltError, Trajectory, replay
from fedhalt.records import recorded
from fedhalt.rules import from_json, named_rules, to_json
from fedhalt.stopbench.entries import ENTRIES
from fedhalt.stopbench.runs import SUFFIX, unpack
from fedhalt.stopbench.score import stops

try:
    from fedhalt.simulation.runner import run
    from fedhalt.simulation.spec import from_json as spec_from_json
except FedhaltError:  # the light install has no torch
    run = None

same_log = pytest.mark.skipif(not same_machine("log"), reason="another logarithm: its last bit is in the digests")


@pytest.mark.parametrize("name", STOPPERS)
def test_a_saved_stopper_goes_on(name, tmp_path):
    folder = shutil.copytree(FIXTURES / "stoppers" / name, tmp_path / name)
    expected = read("stoppers", "expected.json")[name]
    record = folder / "trajectory.jsonl"
    stopper = EarlyStopper.load(folder, trajectory=record if record.exists() else None)
    assert stopper.rule == STOPPERS[name] and stopper.round == CUT
    check(plain(stopper.status), expected[CUT - 1])
    aside = pytest.warns(UserWarning, match="after-round-8") if record.exists() else contextlib.nullcontext()
    with aside:
        check(feed(name, stopper, CUT + 1), expected[CUT:])
    if record.exists():
        whole = Trajectory.load(FIXTURES / "trajectories" / "whole.jsonl")
        assert (Trajectory.load(record).header, Trajectory.load(record).rows) == (whole.header, whole.rows)


def test_a_trajectory_that_was_moved_is_asked_for():
    with pytest.raises(FedhaltError, match=r"/nowhere/trajectory.jsonl is gone.*trajectory="):
        EarlyStopper.load(FIXTURES / "stoppers" / "Chosen")


def test_a_trajectory_is_read_replayed_and_written_as_a_table():
    record = Trajectory.load(FIXTURES / "trajectories" / "whole.jsonl")
    assert record.header == {"rule": to_json(STOPPERS["Chosen"])}
    rule = from_json(record.header["rule"])
    check([plain(status) for status in replay(rule, record)], read("stoppers", "expected.json")["Chosen"])
    table = FIXTURES / "trajectories" / "whole.csv"
    assert record.to_csv() == table.read_text()
    assert recorded(table).rows == record.rows


def test_a_half_written_line_is_left_out_and_written_anew(tmp_path):
    whole = FIXTURES / "trajectories" / "whole.jsonl"
    path = shutil.copy(FIXTURES / "trajectories" / "half.jsonl", tmp_path)
    rows = Trajectory.load(whole).rows
    with pytest.warns(UserWarning, match="half-written"):
        assert Trajectory.load(path).rows == rows[:-1]
    Trajectory.resume(path).append(rows[-1])
    assert Trajectory.load(path).rows == rows


def untimed(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a killed run's last line
        rows = Trajectory.load(path).rows
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def summarised(summary):
    """A summary without paths and times, and without what 0.1.0 did not know."""
    if isinstance(summary, list):
        return [summarised(part) for part in summary]
    if not isinstance(summary, dict):
        return summary
    left_out = ("run", "model", "seconds", "budget", "accuracy")
    return {key: summarised(part) for key, part in summary.items() if key not in left_out}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_goes_on(name, tmp_path):
    for package in ("torch", "timm", "sklearn"):
        pytest.importorskip(package)
    tiny_network()
    folder = shutil.copytree(FIXTURES / "runs" / name, tmp_path / name)
    (before,) = folder.glob("*/")
    spec = spec_from_json(json.loads((before / "spec.json").read_text()))
    assert spec.id == before.name
    assert untimed(before / "trajectory.jsonl") == untimed(folder / "expected.jsonl")[:STOPPED]
    watch = named_rules(["growth", "val-loss"], {"threshold": [0.5], "patience": [2]})
    fresh = []
    run(spec, folder, rounds=LENGTH, watch=watch, stop="never", workers=1, progress=fresh.append)
    assert [progress.row["round"] for progress in fresh] == [*range(STOPPED + 1, LENGTH + 1)]
    here = ("cpu", "torch", "numpy")
    check(untimed(before / "trajectory.jsonl"), untimed(folder / "expected.jsonl"), *here)
    written = json.loads((before / "summary.json").read_text())
    check(summarised(written), summarised(read("runs", name, "expected.json")), *here)


@pytest.fixture(scope="module")
def made():
    return records()


def test_the_records_are_those_that_were_judged(made):
    assert {kind: digest(each) for kind, each in made.items()} == read("digests", "records.json")


SCORED_ONLY = ("Clock", "Exponent", "Alignment", "Travelled")
"""Candidates of StopBench that got the skeleton of all rules: they say "frozen" too, and refuse a negative distance.
Where they stop is held by their entries below."""


@same_log
@pytest.mark.parametrize(
    "label", [each for each in read("digests", "verdicts.json") if each.split()[0] not in SCORED_ONLY]
)
def test_every_rule_says_what_it_said(label, made):
    assert said(rules()[label], made) == read("digests", "verdicts.json")[label]


@pytest.fixture(scope="module")
def packed():
    return {name: unpack(PACKED / f"{name}{SUFFIX}") for name in PACKED_RUNS}


@same_log
@pytest.mark.parametrize("entry", read("digests", "stops.json"))
def test_every_entry_of_stopbench_stops_where_it_did(entry, packed):
    found = {name: digest(stops(ENTRIES[entry], runs).tolist()) for name, runs in packed.items()}
    assert found == read("digests", "stops.json")[entry]
