"""Records column by column: many lines at once give what each line gives, and a verdict what a replay gives."""

import itertools
import json
import math
import random

import pytest

from fedhalt import AnyOf, Budget, FedhaltError, Trajectory, files, replay, rules
from fedhalt.records import judge, lines, reading, table
from fedhalt.rules import motion, named_rule, named_rules
from fedhalt.rules.step import end_status

COLUMNS = ("distance", "update_norm", "parameter_norm", "alignment", "val_loss", "val_accuracy", "drift_20")


def values(rng, kind):
    if kind == "plain":
        return 1 + rng.random()
    return rng.choice([1.0, 0.5, 0.0, 2, math.nan, math.inf, None, -1.0, rng.random()])


def rows(seed, kind="plain", rounds=60, gaps=False):
    rng, r = random.Random(seed), 0
    for _ in range(rounds):
        r += rng.choice([1, 1, 3]) if gaps else 1
        yield {"round": r, **{name: values(rng, kind) for name in COLUMNS if kind == "plain" or rng.random() < 0.97}}


@pytest.fixture
def small(monkeypatch):
    """Blocks and chunks of a few rounds, so that a short record has many of them."""
    monkeypatch.setattr(table, "SIZE", 7)
    monkeypatch.setattr(reading, "CHUNK", 1500)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["plain", "mixed"])
def test_rows_are_those_that_were_recorded(tmp_path, small, seed, kind):
    made = list(rows(seed, kind, gaps=bool(seed % 2)))
    written = Trajectory.create(tmp_path / "t.jsonl", seed=seed)
    for row in made:
        written.append(row, {"state": str(row["round"])} if seed % 3 else None)
    read = Trajectory.load(tmp_path / "t.jsonl")
    for found in (written, read, Trajectory(made)):
        assert files.to_json(list(found.table.entries())) == files.to_json(made)
        shown = [{name: row.get(name) for name in found.columns} for row in made]
        assert files.to_json(found.rows) == files.to_json([found.table[k] for k in range(len(made))])
        assert files.to_json(found.rows) == files.to_json(shown) and len(found) == len(made)
        assert files.to_json(found.table[-3:]) == files.to_json(shown[-3:])
    assert read.commits == written.commits and read.columns == written.columns
    assert len(list(read.table.blocks())) > 1
    kept = Trajectory.resume(tmp_path / "t.jsonl", after=made[30]["round"])
    assert files.to_json(kept.rows) == files.to_json(read.rows[:31])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["plain", "mixed"])
def test_a_verdict_is_the_end_of_a_replay(small, seed, kind):
    trajectory = Trajectory(rows(seed, kind, gaps=bool(seed % 2)))
    made = named_rules(list(rules.RULES), {"threshold": [1e-9, 0.3, 2.0], "patience": [1, 4], "rounds": [20]})
    for rule in [*(named.rule for named in made), AnyOf(Budget(30), made[0].rule)]:
        assert outcome(lambda rule=rule: end_status(rule, trajectory.table)) == outcome(
            lambda rule=rule: end(rule, trajectory)
        )
    assert motion.over(trajectory.table) == [motion.of(trajectory.rows[: k + 1]) for k in range(len(trajectory))]


def end(rule, trajectory):
    found = None
    for found in replay(rule, trajectory.rows):
        if found.stop:
            break
    return found


def outcome(work):
    """What it returns or says, NaN equal to itself."""
    try:
        return repr(work())
    except FedhaltError as error:
        return str(error)


def test_a_column_in_place_of_the_distance(small):
    trajectory = Trajectory({"norm": float(r), **({"note": "x"} if r % 5 else {})} for r in range(1, 41))
    verdict = judge("run", trajectory, named_rule("growth", threshold=0.1), column="norm")
    assert (verdict.stop_round, verdict.motion) == (21, "still moving") and verdict.metrics == {"norm": 21.0}
    assert "distance" not in trajectory.columns


LINES = [
    '{"a": 1}', '{"a": 1.5, "b": [1, {"c": 2}]}', '{"a": "NaN"}', '{"a": NaN}', '{"a": "-Infinity", "b": {"c": "NaN"}}',
    ' {"a": 1}', '{"a": 1}\r', '{"a": 1},{"a": 2}', '{"a": [1', ', 2]}', '{"a": "x}', '{"b": "}', "", "[1]", "null",
    "3", '{"a": "é"}',
    '{"a": "{"}', '{"a": 1, "a": 2}', '{"a": 1' + "0" * 5000 + "}", '{"a": ' + "[" * 150 + "]" * 150 + "}",
    '{"a": ' + "[" * 99 + "]" * 99 + "}", "[" * 5000, "\ufeff{}", '{"a": "\\ud800"}',
]  # fmt: skip


def test_many_objects_at_once_are_what_each_of_them_is():
    def alone(text):
        try:
            return files.from_json(text)
        except ValueError:
            return None

    known = {text: alone(text) for text in LINES}
    groups = [*((text,) for text in LINES), *itertools.permutations(LINES, 2), ['{"a": 1}'] * 300, *triples()]
    for group in groups:
        found = files.from_json_objects([text.encode() for text in group])
        if found is not None:
            assert repr(found) == repr([known[text] for text in group]), group
    assert files.from_json_objects([b'{"a": 1}', b'{"a": {"b": 2}}']) == [{"a": 1}, {"a": {"b": 2}}]
    assert files.from_json_objects([b'{"a": "\xff"}']) is None


def triples():
    rng = random.Random(0)
    return [rng.choices(LINES, k=3) for _ in range(3000)]


def test_one_line_that_is_unlike_the_others_is_found(tmp_path):
    sealed = [lines.to_line({"round": r, "distance": 1.0}) for r in range(1, 50)]
    for place, line, words in (
        (7, lines.to_line({"round": 7, "distance": 1.0}), "line 9: round 7 after round 7"),
        (7, lines.to_line({"distance": 1.0}), "line 9: not a round"),
        (7, lines.to_line({"round": 8.0}), "line 9: round 8.0"),
        (20, sealed[20].replace(b"1.0", b"1.1"), "line 22: damaged"),
        (20, lines.to_line({"round": 21, "distance": 2**64}), "line 22: 'distance' is a whole number beyond 64 bits"),
    ):
        path = tmp_path / "t.jsonl"
        path.write_bytes(b"".join([lines.to_header({}), *sealed[:place], line, *sealed[place + 1 :]]))
        with pytest.raises(FedhaltError) as error:
            Trajectory.load(path)
        assert words in str(error.value)
        salvaged, problem = Trajectory.salvage(path)
        assert len(salvaged) == place and problem == str(error.value)
    assert json.loads(sealed[0])["round"] == 1
