"""Targets and budgets in minutes and megabytes: sums that a reader can check by hand, live as in replay."""

import numpy as np
import pytest

from fedhalt import (
    AllOf,
    AnyOf,
    EarlyStopper,
    FedhaltError,
    GrowthRate,
    Megabytes,
    Minutes,
    Plateau,
    Target,
    Trajectory,
    replay,
    rules,
    stop_round,
)
from fedhalt.records.stored import named, stored_rules
from fedhalt.rules import create, from_json, named_rule, named_rules, to_json


def rows(**columns):
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize(
    "rule, columns, stop, reason",
    [
        (Minutes(2), {"seconds": [50, 50, 19, 1, 60]}, 4, "time"),
        (Minutes(0.5), {"seconds": [10, None, 10, 10]}, 4, "time"),
        (Minutes(90), {"seconds": [60] * 5}, None, ""),
        (Megabytes(5), {"bytes_up": [10**6] * 4, "bytes_down": [2 * 10**6] * 4}, 2, "traffic"),
        (Target("accuracy", 0.8), {"accuracy": [0.5, 0.79999, 0.8, 0.7]}, 3, "target"),
        (
            Target("client_accuracy", 0.8, patience=2),
            {"client_accuracy": [0.8, 0.7, None, 0.9, None, 0.8]},
            6,
            "target",
        ),
        (Target("val_loss", 0.3), {"val_loss": [float("nan"), 0.4, 0.3]}, 3, "target"),
        (Target("f1", 0.8, higher_is_better=True), {"f1": [float("nan"), 0.81]}, 2, "target"),
        (Plateau("client_loss", 0.01, 2), {"client_loss": [1.0, 0.5, 0.499, 0.6]}, 4, "plateau"),
    ],
)
def test_stops_where_the_numbers_say(rule, columns, stop, reason):
    record = rows(**columns)
    assert stop_round(rule, record) == stop
    assert next((status.reason for status in replay(rule, record) if status.stop), "") == reason


def test_they_combine_with_each_other_and_with_any_rule():
    record = rows(distance=[1.0, 2.0, 3.0, 3.1, 3.2], seconds=[60.0] * 5, client_accuracy=[0.1, 0.5, 0.9, 0.9, 0.9])
    growth = GrowthRate(0.1, 2)
    assert stop_round(AnyOf(growth, Minutes(90)), record) == 5 and stop_round(AnyOf(growth, Minutes(4)), record) == 4
    assert stop_round(AnyOf(Minutes(90), Target("client_accuracy", 0.8)), record) == 3
    both = AllOf(growth, Target("client_accuracy", 0.8))
    assert [status.reason for status in replay(both, record)][-1] == "saturated and target"
    assert from_json(to_json(AnyOf(growth, Minutes(90), Megabytes(5), Target("a", 1, 2, False)))) == AnyOf(
        growth, Minutes(90), Megabytes(5), Target("a", 1, 2, False)
    )


@pytest.mark.parametrize(
    "name, rule",
    [
        ("minutes=90", Minutes(90)),
        ("megabytes=0.5", Megabytes(0.5)),
        ("val_accuracy>=0.8", Target("val_accuracy", 0.8)),
        ("val_loss<=0.3", Target("val_loss", 0.3)),
        ("f1>=0.5", Target("f1", 0.5, higher_is_better=True)),
        ("client-loss", Plateau("client_loss")),
    ],
)
def test_the_name_on_the_command_line_is_the_rule_and_back(name, rule):
    assert create(name) == rule == named_rule(name).rule
    assert named(rule).name == name
    header = {"rule": to_json(rule)}
    assert [str(one).split()[0] for one in stored_rules(Trajectory(header=header), {})] == [name]
    summary = {"rules": [{"rule": name, "threshold": None, "patience": None, "stop_round": 3}], "rounds": 3}
    assert [one.rule for one in stored_rules(Trajectory(), summary)] == [rule]


def test_several_at_once_take_only_their_own_settings():
    made = named_rules(["growth", "minutes=90"], {"threshold": [0.1, 0.2]})
    assert [str(one) for one in made] == [
        "growth threshold=0.1 patience=10", "growth threshold=0.2 patience=10", "minutes=90"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Minutes(0), "minutes must be a finite number above 0, not 0"),
        (lambda: Megabytes("1GB"), "megabytes must be a finite number above 0, not '1GB'"),
        (lambda: Target("f1", 0.8), "say whether a larger 'f1' is better"),
        (lambda: Target("accuracy", None), "target must be a finite number, not None"),
        (lambda: create("minutes"), "did you mean 'minutes=90'"),
        (lambda: create("minutes=soon"), "'soon' is not a number; for example minutes=90"),
        (lambda: create("minutes=90", threshold=1), "setting of the rule minutes=90"),
        (lambda: create("val_accuracy>=high"), "'high' is not a number"),
        (lambda: stop_round(Minutes(1), [-1.0]), "'seconds' must be a finite number, 0 or above, not -1.0"),
        (lambda: stop_round(Megabytes(1), [{"bytes_up": 1}]), "reads 'bytes_down', which is not recorded"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(FedhaltError, match=message):
        make()


def test_a_stopper_measures_seconds_only_for_a_rule_that_reads_them(tmp_path):
    plain = EarlyStopper(np.zeros(1), trajectory=tmp_path / "plain.jsonl")
    plain.update(np.ones(1))
    assert Trajectory.load(tmp_path / "plain.jsonl").columns == ["round", "distance"]

    rule = AnyOf(GrowthRate(), Minutes(1e-6))
    live = EarlyStopper(np.zeros(1), rule=rule, trajectory=tmp_path / "t.jsonl")
    rounds = 0
    while not live.update(np.full(1, 1.0 + rounds)).stop:
        rounds += 1
    record = Trajectory.load(tmp_path / "t.jsonl")
    assert stop_round(rule, record) == live.round == len(record) and live.status.reason == "time"
    assert all(seconds >= 0 for seconds in record.column("seconds"))


def test_seconds_that_are_given_count_and_are_kept_over_a_restart(tmp_path):
    rule = Minutes(1)
    stopper = EarlyStopper(np.zeros(1), rule=rule)
    assert not stopper.update(np.ones(1), seconds=40).stop
    stopper.save(tmp_path)
    resumed = EarlyStopper.load(tmp_path)
    assert resumed.rule == rule and resumed.update(np.ones(1), seconds=20).reason == "time"


def test_every_rule_has_a_word_for_its_reason():
    from fedhalt.views.words import format_reason

    assert [format_reason(reason) for reason in ("target", "time", "traffic")] == [
        "target reached", "time spent", "traffic spent"
    ]  # fmt: skip
    assert {"Target", "Minutes", "Megabytes"} <= set(rules.__all__)
