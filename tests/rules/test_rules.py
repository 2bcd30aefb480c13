"""The other rules, what every rule refuses, and what they have in common."""

import dataclasses
import json
import math

import pytest

import fedhalt
from fedhalt import (
    AllOf,
    AnyOf,
    Budget,
    Difference,
    FedhaltError,
    GrowthRate,
    Plateau,
    RelativeUpdate,
    WeightDiff,
    rules,
)

LOSS, ACCURACY = Plateau("val_loss", 0.1, 2), Plateau("val_accuracy", 0.5, 2)
TABLE = [
    (LOSS, [1.0, 0.95, 0.93], 3),  # neither is better than 1.0 by more than 0.1
    (LOSS, [1.0, 0.95, 0.89, 0.88, 0.87], 5),  # 0.89 is
    (LOSS, [1.0, math.nan, math.nan], 3),  # NaN is no improvement
    (LOSS, [math.nan, math.nan], 2),
    (LOSS, [1.0, None, None, None, 1.0, None, 1.0], 7),  # rounds that were not evaluated do not count
    (ACCURACY, [0.50, 0.504, 0.503], 3),  # percentage points: 50.4 is not above 50 + 0.5
    (ACCURACY, [0.50, 0.506, 0.507, 0.508], 4),  # 50.6 is
    (ACCURACY, [0.001, 0.002], 2),  # the best accuracy starts at 0, not at the first value
    (Plateau("val_accuracy", 0.5, 2, acc_unit="fraction"), [0.6, 0.9, 0.99], 3),
    (Plateau("f1", 0.1, 1, higher_is_better=True, acc_unit="fraction"), [0.2, 0.25], 2),
    (Difference(0.5, 1), [1, 2, 2.5], 3),  # the paper writes <=
    (Difference(0.5, 2), [3, 2, 1], 3),  # signed
    (Budget(3), [9, 9, 9, 9], 3),
]


@pytest.mark.parametrize("rule, values, stop", TABLE)
def test_by_hand(rule, values, stop):
    assert fedhalt.stop_round(rule, values) == stop


def test_plateau_constant_from_round_one_stops_at_patience_plus_one():
    assert fedhalt.stop_round(Plateau("val_accuracy"), [0.125] * 30) == 11
    assert fedhalt.stop_round(Plateau("val_loss"), [2.0] * 30) == 11


def test_relative_update_sees_movement_at_a_constant_distance():
    circle = [{"distance": 1.0, "update_norm": 0.5}] * 20
    assert fedhalt.stop_round(GrowthRate(0.01, 3), circle) == 4
    assert fedhalt.stop_round(RelativeUpdate(0.01, 3), circle) is None
    assert fedhalt.stop_round(RelativeUpdate(0.6, 3), circle) == 4


def test_weight_diff_is_relative_above_norm_one_only():
    rows = [{"update_norm": 1e-3, "parameter_norm": 0.1}, {"update_norm": 1e-3, "parameter_norm": 100.0}]
    assert fedhalt.stop_round(WeightDiff(), rows) == 2
    assert fedhalt.stop_round(WeightDiff(), [{"update_norm": 0.0, "parameter_norm": 0.0}]) == 1


def test_any_of_and_all_of():
    growth, loss = GrowthRate(0.1, 2), Plateau("val_loss", 0.01, 2)
    rows = [{"distance": 1.0 if r < 6 else r, "val_loss": 1.0 / r if r < 8 else 1.0} for r in range(1, 20)]
    assert fedhalt.stop_round(growth, rows) == 3
    assert fedhalt.stop_round(loss, rows) == 9
    assert fedhalt.stop_round(AnyOf(growth, loss), rows) == 3
    assert fedhalt.stop_round(AllOf(growth, loss), rows) == 9  # growth fired at 3 and is remembered
    assert AllOf(growth, loss).reads == ("distance", "val_loss")
    assert next(s for s in fedhalt.replay(AllOf(growth, loss), rows) if s.stop).reason == "frozen and plateau"
    assert fedhalt.stop_round(AnyOf(AllOf(growth, loss), Budget(5)), rows) == 5


EVERY = [
    *(rules.create(name) for name in rules.RULES),
    Plateau("f1", higher_is_better=True),
    *map(rules.create, ("minutes=0.2", "megabytes=0.00002", "val_accuracy>=1.05", "val_loss<=1.05")),
    AnyOf(GrowthRate(), rules.Minutes(0.1)),
    AnyOf(GrowthRate(), Budget(7)),
    AllOf(Plateau("val_loss"), AnyOf(Budget(3))),
]


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: type(rule).__name__)
def test_every_rule_keeps_the_protocol(rule):
    measured = [
        "distance",
        "update_norm",
        "parameter_norm",
        "alignment",
        "drift_5",
        "drift_10",
        "drift_20",
        "distance_average",
    ]
    columns = [*measured, "val_loss", "val_accuracy", "f1", "client_loss", "client_accuracy", "seconds"]
    columns += ["bytes_up", "bytes_down"]
    rows = [{column: 1.0 + 1 / (r + len(column)) for column in columns} for r in range(30)]
    assert rules.from_json(json.loads(json.dumps(rules.to_json(rule)))) == rule
    state, statuses, stepper = rule.begin(), [], rules.Stepper([rule])
    for row in rows:
        state, status = rule.step(json.loads(json.dumps(state)), {name: row[name] for name in rule.reads})
        statuses.append(status)
    assert statuses == [(*status[:6], None, "") for status in fedhalt.replay(rule, rows)]
    statuses = []
    for row in rows:
        stepper.state = json.loads(json.dumps(stepper.state))
        stepper.step(row)
        statuses += stepper.statuses
    assert statuses == list(fedhalt.replay(rule, rows)) == list(fedhalt.replay(rule, fedhalt.Trajectory(rows)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        rule.threshold = 1


@pytest.mark.parametrize("rule", [r for r in rules.RULES if r != "budget"])
@pytest.mark.parametrize("setting, value", [
    ("threshold", 0), ("threshold", -0.1), ("threshold", math.nan), ("threshold", math.inf), ("threshold", "0.1"),
    ("threshold", True), ("patience", 0), ("patience", 2.5), ("patience", math.nan), ("patience", "3"),
    ("patience", True),
])  # fmt: skip
def test_bad_settings_are_refused_with_the_value(rule, setting, value):
    with pytest.raises(FedhaltError, match=setting) as error:
        rules.create(rule, **{setting: value})
    assert repr(value) in str(error.value)


@pytest.mark.parametrize("make, words", [
    (lambda: Budget(0), ["rounds", "0"]),
    (lambda: GrowthRate(start_from_round=0), ["start_from_round", "0"]),
    (lambda: GrowthRate(check_finite="no"), ["check_finite", "'no'"]),
    (lambda: Plateau("val_f1"), ["val_f1", "higher_is_better"]),
    (lambda: Plateau("val_loss", acc_unit="permille"), ["permille", "percent"]),
    (lambda: rules.create("growht"), ["growht", "growth", "val-loss"]),
    (lambda: rules.create("growth", treshold=1), ["treshold", "threshold"]),
    (lambda: AnyOf(), ["at least one"]),
    (lambda: AnyOf([GrowthRate()]), ["one by one"]),
    (lambda: AllOf(GrowthRate), ["one by one"]),
    (lambda: rules.from_json({"type": "os.system"}), ["not a rule"]),
    (lambda: list(fedhalt.replay(GrowthRate(), "trajectory.jsonl")), ["Trajectory.load"]),
    (lambda: list(fedhalt.replay(GrowthRate(), [{"loss": 1.0}])), ["distance", "loss"]),
    (lambda: list(fedhalt.replay(GrowthRate(), [1.0, "2"])), ["round 2", "'2'"]),
    (lambda: list(fedhalt.replay(GrowthRate(), [1.0, -2.0])), ["round 2", "-2.0"]),
    (lambda: list(fedhalt.replay(GrowthRate(), [{"distance": None}])), ["round 1", "None"]),
    (lambda: list(fedhalt.replay(RelativeUpdate(), [1.0])), ["distance, update_norm"]),
    (lambda: list(fedhalt.replay(GrowthRate(), [{"round": 2, "distance": 1.0}] * 2)), ["round 2 after round 2"]),
])  # fmt: skip
def test_mistakes_get_a_sentence(make, words):
    with pytest.raises(FedhaltError) as error:
        make()
    assert all(word in str(error.value) for word in words), str(error.value)


def test_recorded_round_numbers_are_kept():
    rows = [{"round": r, "distance": 1.0} for r in (1, 2, 5, 6)]  # rounds 3 and 4 failed
    assert fedhalt.stop_round(GrowthRate(0.1, 2), rows) == 5


def test_numpy_numbers_are_numbers():
    np = pytest.importorskip("numpy")
    rule = GrowthRate(np.float32(0.5), np.int64(2))
    assert json.loads(json.dumps(rules.to_json(rule)))["threshold"] == 0.5
    assert fedhalt.stop_round(rule, np.ones(5, dtype=np.float32)) == 3
