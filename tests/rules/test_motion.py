"""The local exponent against curves whose exponent is known, its words, and a stop by the clock in every view."""

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedhalt
from fedhalt import AnyOf, Budget, EarlyStopper, GrowthRate, Plateau, RelativeUpdate, Status, Trajectory, replay
from fedhalt.rules import RULES, motion
from fedhalt.views import words

np = pytest.importorskip("numpy")
NAN, INF = math.nan, math.inf


def last(rows):
    """Exponent and word after rows, or after plain distances."""
    rows = [row if isinstance(row, dict) else {"distance": row} for row in rows]
    return motion.of([{"round": r, **row} for r, row in enumerate(rows, start=1)])


def walk(points):
    """The record of a model that visits these points, the first being theta_0."""
    return [
        {"distance": float(np.linalg.norm(now - points[0])), "update_norm": float(np.linalg.norm(now - before))}
        for before, now in itertools.pairwise(points)
    ]


@pytest.mark.parametrize("a, word", [
    (-0.3, "saturated"), (0.2, "saturated"), (0.24, "saturated"), (0.26, "diffusing"), (0.5, "diffusing"),
    (0.74, "diffusing"), (0.76, "still moving"), (1.0, "still moving"), (1.49, "still moving"), (1.7, "diverging"),
])  # fmt: skip
@pytest.mark.parametrize("rounds", [2, 3, 50, 500])
def test_a_power_law_has_its_exponent_from_the_second_round_on(a, word, rounds):
    found = last([3.7 * r**a for r in range(1, rounds + 1)])
    assert found.exponent == pytest.approx(a, abs=1e-9) and found.word == word


def test_rounds_that_are_missing_change_nothing_on_a_power_law():
    rounds = [2, 3, 7, 8, 20, 90, 91]
    statuses = list(replay(GrowthRate(), [{"round": r, "distance": 5 * r**0.6} for r in rounds]))
    assert statuses[0].exponent is None
    assert [status.exponent for status in statuses[1:]] == pytest.approx([0.6] * 6, abs=1e-9)


def test_by_hand():
    """Round 3 of distances 1, 2, 2: (8/27) ln 2 over (8/27) ln 2 + ln(3/2)."""
    weight = (2 / 3) ** 3 * math.log(2)
    assert last([1.0, 2.0, 2.0]).exponent == pytest.approx(weight / (weight + math.log(1.5)), abs=1e-12)


@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=40), st.floats(1e-6, 1e6))
def test_scaling_the_model_changes_nothing(distances, scale):
    rows = [{"distance": d, "update_norm": 1.0} for d in distances]
    scaled = [{name: value * scale for name, value in row.items()} for row in rows]
    assert last(scaled).exponent == pytest.approx(last(rows).exponent, rel=1e-6, abs=1e-9)


def test_a_walk_of_many_dimensions_diffuses():
    draw = np.random.default_rng(0)
    found = last(walk(np.cumsum(draw.normal(size=(401, 2000)), axis=0)))
    assert found.exponent == pytest.approx(0.5, abs=0.05) and found.word == "diffusing"


def test_a_distance_that_settles_is_saturated_whatever_is_measured_besides():
    distances = [1 - math.exp(-r / 20) for r in range(1, 301)]
    assert last(distances).word == "saturated" and 0 <= last(distances).exponent < 0.01
    points = [np.array([0.0]), *(np.array([d]) for d in distances)]
    assert last(walk(points)).word == "saturated"


def test_updates_that_undo_each_other_go_nowhere():
    points = [np.array([0.0, 0.0]), *(np.array([10.0, float((-1) ** r)]) for r in range(400))]
    found = walk(points)
    assert last(found).word == "going nowhere"
    assert last([{"distance": row["distance"]} for row in found]).word == "saturated"  # nobody measured the updates
    found[100]["update_norm"] = None
    assert last(found).word == "saturated"  # nor all of them


@pytest.mark.parametrize("distances, expected", [
    ([1.0], (None, "")), ([0.0], (None, "")), ([0.0, 0.0], (0.0, "going nowhere")), ([2.0] * 9, (0.0, "saturated")),
    ([1.0, 0.0], (None, "")), ([1.0, 0.0, 0.0], (0.0, "going nowhere")), ([0.0, 1.0], (None, "")),
    ([1.0, NAN], (None, "diverging")), ([INF], (None, "diverging")), ([1.0, NAN, 1.0], (None, "")),
    ([1.0, 1.0, NAN, 3.0, 3.0], (0.0, "saturated")), ([1e-320, 1e300], (None, "")), ([1e300, 1e-320], (None, "")),
    ([1.0, 2.0, None], (None, "")), ([1.0, 2.0, "far"], (None, "")), ([1.0, 2.0, True], (None, "")),
    ([1.0, 2.0, -1.0], (None, "")),
])  # fmt: skip
def test_zeros_and_what_is_no_number(distances, expected):
    assert last(distances) == expected


def test_after_zero_the_average_begins_anew_and_a_round_without_distance_leaves_it():
    state = motion.begin()
    for r, distance in enumerate([0.0, 0.0, 0.0], start=1):
        state, _ = motion.step(state, r, {"distance": distance})
    state, _ = motion.step(state, 4, {"distance": 4.0})
    assert motion.step(state, 5, {"val_loss": 1.0})[0] == state
    assert motion.step(state, 6, {"distance": 6.0})[1].exponent == pytest.approx(1.0, abs=1e-12)


def test_a_reason_says_what_the_rule_saw_and_a_motion_what_the_model_does():
    assert words.format_stop("saturated", "diffusing", "growth") == "growth below threshold; model diffusing"
    assert words.format_stop("plateau", "still moving", "val-loss") == "loss not improving; model still moving"
    assert words.format_stop("saturated and plateau", "") == "signal below threshold, no improvement"
    assert words.format_stop("diverged", "diverging", "growth") == "diverged"
    assert words.format_motion(-1e-9, "saturated") == "saturated (0.00)" and words.format_motion(None, "") == "-"
    assert words.format_motion(1.0, "still moving", 2) == "-" != words.format_motion(1.0, "still moving", 3)


def test_only_a_saturation_can_come_by_the_clock():
    assert words.is_clock("saturated", "diffusing", "growth") and words.is_clock("saturated", "still moving", "forward")
    assert not words.is_clock("saturated", "saturated", "growth") and not words.is_clock(
        "plateau", "diffusing", "growth"
    )
    assert not words.is_clock("saturated", "diffusing", "relative-update")


def test_every_rule_is_described():
    assert all(words.WATCHED.get(name) for name in RULES)
    assert {"val-loss", "val-accuracy", "client-loss", "client-accuracy"} == set(words.METRICS)


class SixFields:
    """Somebody's rule of before, whose rounds are its own."""

    reads = ("distance",)

    def begin(self):
        return {"round": -1}

    def step(self, state, row):
        return {"round": state["round"] + 1}, Status(state["round"] + 1, 1.0, None, 0, False, "")


def test_every_rule_is_explained_and_says_what_it_said_before():
    rows = [{"distance": r**0.42, "update_norm": 1.0, "val_loss": 1.0} for r in range(1, 60)]
    exponents = [status.exponent for status in replay(GrowthRate(), rows)]
    for rule in (Budget(9), Plateau("val_loss"), RelativeUpdate(), AnyOf(GrowthRate(), Plateau("val_loss"))):
        state, bare = rule.begin(), []
        for row in rows:
            state, status = rule.step(state, row)
            bare.append(status)
        explained = list(replay(rule, rows))
        assert [status[:6] for status in explained] == [status[:6] for status in bare]
        assert [status.exponent for status in explained] == exponents
    assert [status.motion for status in replay(Plateau("val_loss"), [1.0, 2.0])] == ["", ""]
    assert [status.round for status in replay(SixFields(), [1.0, 1.0, 1.0])] == [0, 1, 2]


def test_live_replayed_and_loaded_agree(tmp_path):
    draw = np.random.default_rng(1)
    points = np.cumsum(draw.normal(size=(40, 50)), axis=0)
    for rule in (GrowthRate(), RelativeUpdate()):
        folder = tmp_path / type(rule).__name__
        path = folder / "t.jsonl"
        stopper = EarlyStopper(points[0], rule=rule, trajectory=path)
        live = []
        for index, point in enumerate(points[1:]):
            if index in (1, 2, 17):
                stopper.save(folder)
                stopper = EarlyStopper.load(folder)
            live.append(stopper.update(point))
        assert live == list(replay(rule, Trajectory.load(path))) and live[-1].motion == "diffusing"
        assert ("update_norm" in Trajectory.load(path).columns) == ("update_norm" in rule.reads)  # measures no more


def test_a_stopper_saved_before_there_were_exponents_goes_on(tmp_path):
    stopper = EarlyStopper(rule=RelativeUpdate())
    for r in range(1, 31):
        stopper.observe(r**0.5, update_norm=1.0)
    stopper.save(tmp_path)
    file = tmp_path / "stopper.json"
    sealed = fedhalt.files.from_json(file.read_text())
    saved = fedhalt.files.from_json(sealed["saved"])
    del saved["motion"], saved["status"]["exponent"], saved["status"]["motion"]
    text = fedhalt.files.to_json(saved)
    file.write_text(fedhalt.files.to_json({**sealed, "saved": text, "digest": fedhalt.files.digest(text.encode())}))
    old = EarlyStopper.load(tmp_path)
    assert old.status is not None and stopper.status is not None
    assert old.status[:6] == stopper.status[:6] and old.status.exponent is None
    found = [old.observe(30**0.5, update_norm=9.0) for _ in range(9)]
    assert found[0].exponent is None and found[-1].exponent == 0.0
    assert found[-1].motion == "saturated"  # the updates before were not summed, so nobody can say that they cancel


def test_a_resumed_simulator_says_the_same(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    from fedhalt.rules import named_rules
    from fedhalt.simulation.runner import run
    from fedhalt.simulation.spec import RunSpec

    spec = RunSpec(clients=12, cohort=4, epochs=1, lr=0.05, c=0.5)
    watch = named_rules(["growth", "wandering"], {"threshold": [0.3], "patience": [2]})
    told = {"whole": [], "parts": []}
    options = {"watch": watch, "stop": "never", "workers": 1}
    whole = run(spec, tmp_path / "whole", rounds=8, progress=told["whole"].append, **options)
    for rounds in (3, 8):
        parts = run(spec, tmp_path / "parts", rounds=rounds, progress=told["parts"].append, **options)
    assert [now.statuses for now in told["whole"]] == [now.statuses for now in told["parts"]]
    rows = Trajectory.load(f"{whole.run}/trajectory.jsonl").rows
    assert [now.statuses[0] for now in told["whole"]] == list(replay(watch[0].rule, rows))
    ends = [(one.exponent, one.motion) for one in (whole, parts)]
    assert ends == [tuple(motion.of(rows))] * 2 and whole.motion
    by_rule = [[(rule.exponent, rule.motion) for rule in one.rules] for one in (whole, parts)]
    assert by_rule[0] == by_rule[1]


@pytest.fixture
def clock(tmp_path):
    """A run whose distance is r^0.42: the paper's rule stops it at round 52, by the clock."""
    trajectory = Trajectory.create(tmp_path / "clock" / "trajectory.jsonl")
    for r in range(1, 101):
        trajectory.append({"distance": r**0.42, "test_accuracy": 1 - 1 / (r + 1)})
    return trajectory.path.parent


def test_replay_says_it(clock, fedhalt):
    out = fedhalt("replay", clock)[1]
    assert "growth below threshold" in out and "The model was still moving at the stop" in out
    assert "diffusing (0.42)" in fedhalt("replay", clock, "--wide")[1]
    stopped, never = json.loads(fedhalt("replay", clock, "--threshold", "0.01,1e-9", "--json")[1])
    assert (
        stopped["stop_round"] == 52 and stopped["exponent"] == pytest.approx(0.42) and stopped["motion"] == "diffusing"
    )
    assert never["stop_round"] is None and never["exponent"] == pytest.approx(0.42) and never["motion"] == "diffusing"


def test_a_run_says_it_while_it_goes_on_and_at_the_end(tmp_path, fedhalt):
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    options = "--clients 12 --cohort 4 --epochs 1 --lr 0.05 --c 0.5 --rounds 6 --threshold 9 --patience 3".split()
    code, out, _ = fedhalt("run", "--out", tmp_path, *options)
    (summary,) = (json.loads(path.read_text()) for path in tmp_path.glob("*/summary.json"))
    (rule,) = summary["rules"]
    assert code == 0 and rule["stop_round"] == 4 and rule["exponent"] is not None
    assert f"growth stops at round 4: {words.format_stop('saturated', rule['motion'], 'growth')}" in out  # the line
    assert "growth  no data     4    33%" in out and "growth below threshold\n" in out  # the closing table
    assert "round 1/6  accuracy" in out and "stopped after 4 of 6 rounds: 33% of the work saved" in out


def test_notebooks_and_figures_say_it(clock):
    run = Trajectory.load(clock / "trajectory.jsonl")
    assert "stops at round 52 (growth below threshold; model diffusing)" in run._repr_html_()
    short = Trajectory(run.rows[:20])
    assert "does not stop it (model diffusing (0.42))" in short._repr_html_()
    pytest.importorskip("matplotlib")
    assert run.plot().get_suptitle() == "stop at round 52 (growth below threshold; model diffusing)"
    assert short.plot().get_suptitle() == "no stop (model diffusing (0.42))"


def test_the_page_says_it(visit, clock, tmp_path):
    from fedhalt.views.page import report

    report([clock], tmp_path / "one.html")
    page = visit((tmp_path / "one.html").as_uri())
    says = page.locator("#says").text_content()
    assert "growth below threshold; model diffusing. The model was still moving: growth fell because" in says
    assert "growth below threshold; model diffusing" in page.locator("#tiles").text_content()
    assert "model diffusing (0.42)" in page.locator("output").text_content()
    assert page.locator("figcaption", has_text="xponent").count() == 1
    rows = page.locator("#detail table").first.locator("tbody tr").all_text_contents()
    assert "growth below thresholddiffusing (0.42)" in rows[0]
    page.fill("#threshold", "0.000001")
    page.locator("#says", has_text="does not stop this run within its 100 rounds").wait_for()


def test_the_page_counts_stops_by_the_clock(visit, clock, tmp_path):
    from fedhalt.views.page import report

    settled = Trajectory.create(tmp_path / "settled" / "trajectory.jsonl")
    for r in range(1, 101):
        settled.append({"distance": 1.0 + 1e-6 * r, "test_accuracy": 1 - 1 / (r + 1)})
    report([clock, settled.path], tmp_path / "two.html")
    page = visit((tmp_path / "two.html").as_uri())
    assert "In 1 run the model was still moving" in page.locator("#says").text_content()
    place = page.locator("#table thead th").evaluate_all("(all) => all.map((one) => one.dataset.key)").index("exponent")
    cells = page.locator(f"#table tbody tr > :nth-child({place + 1})").all_text_contents()
    assert cells == ["diffusing (0.42)", "saturated (0.00)"]
    dot = page.locator("#scatter .dot title").first.text_content()
    assert "round 52 of 100 (growth below threshold; model diffusing)" in dot


def test_a_record_that_is_being_written_is_followed(tmp_path):
    pytest.importorskip("torch")
    from fedhalt.records.tail import TrajectoryTail

    path = tmp_path / "trajectory.jsonl"
    following = TrajectoryTail(path)
    assert following.poll() == {} and following.motion == (None, "")
    written = Trajectory.create(path)
    for r in range(1, 9):
        written.append({"distance": r**0.6})
        assert following.poll()["round"] == r
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"round": 9, "dist')
    assert following.poll()["round"] == 8 and following.motion == motion.of(written.rows)
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:7]))  # cut back to its header and six rounds
    assert following.poll()["round"] == 6 and following.motion == motion.of(written.rows[:6])
