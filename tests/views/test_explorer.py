"""The page's rules against the Python rules, in a real browser, over many random records."""

import json
import math
import random

import pytest

from fedhalt import FedhaltError, Trajectory, files, rules
from fedhalt.records import judging as judge
from fedhalt.views.page.data import described
from fedhalt.views.page.document import page
from fedhalt.views.page.signals import on_page

NUMBERS = 400
"""Random records; each is judged by every rule under several settings."""

JUDGE = """([raws, asked]) => raws.map((raw) => {
    const run = new Run(raw);
    return asked.map(([rule, settings]) => {
        const found = run.outcome(judge(run, rule, settings));
        return found.problem ? "error" : [found.stop, found.reason, found.exponent, found.motion];
    });
})"""


def curve(draw, length):
    """Numbers as training gives them, and as it does when something is wrong."""
    kind = draw.choice(["power", "walk", "flat", "zero", "steps", "tiny", "huge"])
    power, size = draw.uniform(0.05, 1.2), 10 ** draw.uniform(-3, 3)
    if kind == "power":
        values = [size * r**power * (1 + draw.gauss(0, 0.003)) for r in range(1, length + 1)]
    elif kind == "walk":
        values = [abs(size + draw.gauss(0, size / 50)) for _ in range(length)]
    elif kind == "steps":
        values = [float(r // 7) for r in range(length)]
    else:
        values = [{"flat": size, "zero": 0.0, "tiny": 5e-324, "huge": 1.7e308}[kind]] * length
    for _ in range(draw.choice([0, 0, 0, 1, 2])):
        values[draw.randrange(length)] = draw.choice([math.nan, math.inf, 0.0, -0.0, 1e-7, 1e300, -1.0, 7, True, "n/a"])
    return values


def record(draw):
    """A trajectory with some columns left out, rounds that failed and rounds that were not evaluated."""
    length = draw.choice([1, 2, 5, 30, 60, 120])
    columns = {name: curve(draw, length) for name in ("distance", "update_norm", "parameter_norm", "val_loss")}
    columns["alignment"] = [
        value * draw.uniform(-1, 1) if isinstance(value, float) else value for value in curve(draw, length)
    ]
    columns["val_accuracy"] = [draw.choice([0.0, 1.0, draw.random(), 1 - 1 / (r + 2)]) for r in range(length)]
    every, gaps = draw.choice([1, 1, 3]), draw.random() < 0.2
    for name in draw.sample(sorted(columns), draw.choice([0, 0, 1, 2])):
        del columns[name]
    rows, r = [], 0
    for index in range(length):
        r += 1 + (gaps and draw.random() < 0.2)
        row = {name: values[index] for name, values in columns.items()}
        if r % every:
            row |= {name: None for name in ("val_loss", "val_accuracy") if name in row}
        rows.append({"round": r, **row})
    return Trajectory(rows)


def settings_for(draw, records):
    """Every rule under random settings, also such that a quantity equals the threshold to the last bit."""
    asked = []
    for name in on_page():
        for _ in range(4):
            threshold = draw.choice([0.001, 0.01, 0.1, 0.5, 10 ** draw.uniform(-4, 0)])
            if draw.random() < 0.5:
                threshold = quantity(draw, records, name) or threshold
            given = {"threshold": threshold, "patience": draw.choice([1, 2, 3, 5, 10, 15])}
            asked.append((name, {"rounds": draw.choice([1, 7, 50, 500])} if name == "budget" else given))
    return asked


def quantity(draw, records, name):
    """A number that some record really holds against the threshold."""
    for trajectory in draw.sample(records, 20):
        try:
            held = [status.signal for status in rules.replay(rules.create(name), trajectory) if status.signal]
        except FedhaltError:
            continue
        held = [value for value in held if 0 < value < math.inf]
        if held:
            return draw.choice(held)
    return None


def by_python(trajectory, name, given):
    try:
        found = judge.judge("it", trajectory, rules.named_rule(name, **given))
    except FedhaltError:
        return "error"
    return [found.stop_round, found.reason, found.exponent, found.motion]


def same(ours, theirs):
    """Equal as far as a page shows it."""
    if ours is None or theirs is None:
        return ours is theirs
    return math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-9)


@pytest.fixture
def blank(visit, tmp_path):
    """A page whose rules can be asked anything."""
    trajectory = Trajectory([{"distance": 1.0}])
    (tmp_path / "page.html").write_text(page("rules", {"live": False, "runs": [described(trajectory, "one")]}))
    return visit((tmp_path / "page.html").as_uri())


@pytest.mark.parametrize("seed", range(3))
def test_the_page_stops_where_python_stops(blank, seed):
    draw = random.Random(seed)
    records = [record(draw) for _ in range(NUMBERS)]
    asked = settings_for(draw, records)
    raws = [json.loads(files.to_json(described(trajectory, str(k)))) for k, trajectory in enumerate(records)]
    found = blank.evaluate(JUDGE, [raws, asked])
    stops, reasons, words = 0, set(), set()
    for trajectory, verdicts in zip(records, found, strict=True):
        for (name, given), verdict in zip(asked, verdicts, strict=True):
            python = by_python(trajectory, name, given)
            assert verdict[:2] == python[:2], (name, given, trajectory.rows)
            if verdict != "error":
                assert same(verdict[2], python[2]) and verdict[3] == python[3], (name, given, trajectory.rows)
                words.add(verdict[3])
            reasons.add(verdict if verdict == "error" else verdict[1])
            stops += verdict != "error" and verdict[0] is not None
    assert words == {"", "still moving", "diffusing", "saturated", "going nowhere", "diverging"}
    assert stops > NUMBERS  # they are no records on which nothing ever happens
    assert reasons == {"", "error", "saturated", "frozen", "diverged", "plateau", "wandering", "budget"}


def test_the_page_knows_every_rule_with_its_own_settings(blank):
    known = blank.evaluate(
        "Object.fromEntries(Object.entries(RULES).map(([name, rule]) => [name, [rule.settings, rule.reads]]))"
    )
    expected = {name: [rules.named_rule(name).settings, list(rules.create(name).reads)] for name in on_page()}
    assert known == expected


def stops(page):
    """The column `stops at` by run, as a reader sees it."""
    rows = page.locator("#table tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [row.querySelector('th button').title, row.cells[2].textContent])"
    )
    return dict(rows)


def says(page, words):
    """Waits for the sentence under the tiles; waiting for a function would need eval, which the page forbids."""
    page.locator("#says", has_text=words).wait_for()


@pytest.fixture
def many(visit, tmp_path):
    draw = random.Random(7)
    records = {}
    while len(records) < 25:
        made = record(draw)
        if len(made) > 20 and "distance" in made.columns:
            records[f"run-{len(records)}"] = made
    data = {"live": False, "runs": [described(trajectory, name) for name, trajectory in records.items()]}
    (tmp_path / "page.html").write_text(page("many", data))
    return (tmp_path / "page.html").as_uri(), records


def expected(records, name, **given):
    found = {key: by_python(trajectory, name, given) for key, trajectory in records.items()}
    return {key: "not judged" if v == "error" else "never" if v[0] is None else str(v[0]) for key, v in found.items()}


def test_sliders_numbers_and_the_rule_move_the_stops_of_all_runs(many, visit):
    address, records = many
    page = visit(address)
    assert stops(page) == expected(records, "growth", threshold=0.01, patience=10)
    page.focus("#patience-slide")
    for _ in range(7):
        page.keyboard.press("ArrowLeft")
    says(page, "patience 3)")
    assert stops(page) == expected(records, "growth", threshold=0.01, patience=3)
    page.focus("#threshold-slide")
    page.keyboard.press("End")
    says(page, "threshold 10,")
    assert stops(page) == expected(records, "growth", threshold=10.0, patience=3)
    page.fill("#threshold", "0.0237")
    says(page, "threshold 0.0237,")
    assert stops(page) == expected(records, "growth", threshold=0.0237, patience=3)
    page.select_option("#rule", "budget")  # so that the first one is a change too
    says(page, "budget (")
    for name in on_page():
        page.select_option("#rule", name)
        says(page, f"{name} (")
        assert stops(page) == expected(records, name), name
    totals = page.locator("#tiles dd").all_text_contents()
    never = sum(v == "never" for v in expected(records, "budget").values())
    assert totals[2] == str(never) and totals[0] == f"{25 - never} of 25"


def test_a_slider_that_is_dragged_moves_dots_and_lines_with_it(many, visit):
    address, records = many
    page = visit(address)
    before = page.locator("#multiples .stop").evaluate_all("(lines) => lines.map((line) => line.getAttribute('x1'))")
    box = page.locator("#threshold-slide").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.57, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] / 2, steps=15)
    page.mouse.up()
    threshold = float(page.input_value("#threshold"))
    assert threshold > 0.1
    says(page, f"threshold {threshold:g},")
    assert stops(page) == expected(records, "growth", threshold=threshold, patience=10)
    after = page.locator("#multiples .stop").evaluate_all("(lines) => lines.map((line) => line.getAttribute('x1'))")
    assert before != after


def test_a_link_keeps_the_settings(many, visit):
    address, records = many
    page = visit(address)
    page.select_option("#rule", "difference")
    page.fill("#threshold", "0.5")
    page.fill("#patience", "4")
    page.fill("#search", "run-1")
    page.locator('#link[href*="run-1"]').wait_for()
    link = page.locator("#link").get_attribute("href")
    page.wait_for_url(address + link)
    other = visit(address + link)
    assert other.input_value("#rule") == "difference" and other.input_value("#threshold") == "0.5"
    assert other.input_value("#patience") == "4" and other.input_value("#search") == "run-1"
    some = {name: one for name, one in records.items() if "run-1" in name}
    assert stops(other) == stops(page) == expected(some, "difference", threshold=0.5, patience=4)
    odd = visit(address + "#rule=nothing&threshold=-1&patience=abc&sort=nobody&run=nobody")
    assert stops(odd) == expected(records, "growth", threshold=0.01, patience=10)


@pytest.mark.parametrize("wrong", ["0", "-3", "", "1e999"])
def test_a_setting_that_python_would_refuse_changes_nothing(many, visit, wrong):
    address, records = many
    page = visit(address)
    page.fill("#threshold", wrong)
    page.locator('#threshold[aria-invalid="true"]').wait_for()
    assert stops(page) == expected(records, "growth", threshold=0.01, patience=10)
    page.locator("#threshold").blur()
    assert page.input_value("#threshold") == "0.01"
