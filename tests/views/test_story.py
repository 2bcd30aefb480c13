"""What the page says first: when would it have stopped, and what would it have cost; words that explain themselves."""

import itertools
import json
from pathlib import Path

import pytest

from fedhalt import GrowthRate, Trajectory, rules, stop_round
from fedhalt.views.page import glossary, report
from fedhalt.views.page.data import described, loaded
from fedhalt.views.page.document import page
from fedhalt.views.page.signals import on_page

BOXES = """(all) => all.map((one) => one.getBoundingClientRect())
    .map(({ left, right, top, bottom }) => [left, right, top, bottom])"""
DASH = "\N{EN DASH}"
DOCS = Path(__file__).parents[2] / "docs"


def rows(rounds=60, rise=0.8, **more):
    """A model that settles, and learns by so much."""
    return [
        {"distance": 1 - 0.8**r, "update_norm": 0.8**r, "test_accuracy": 0.1 + rise * (1 - 0.7**r), "seconds": 2.0,
         **{name: value(r) for name, value in more.items()}}
        for r in range(1, rounds + 1)
    ]  # fmt: skip


def run_folder(folder, rounds=60, budget=None, **header):
    trajectory = Trajectory.create(folder / "trajectory.jsonl", **header)
    for row in rows(rounds):
        trajectory.append(row)
    if budget is not None:
        (folder / "summary.json").write_text(json.dumps({"budget": budget, "rules": []}))
    return folder / "trajectory.jsonl"


@pytest.fixture
def show(visit, tmp_path):
    def open_runs(*raws, hash="", **options):
        (tmp_path / "page.html").write_text(page("title", {"live": False, "runs": list(raws)}))
        return visit((tmp_path / "page.html").as_uri() + hash, **options)

    return open_runs


def tile(page, title):
    return page.locator("#tiles div", has_text=title).inner_text()


def test_the_budget_is_the_summarys_then_the_headers_then_the_record(tmp_path):
    assert loaded(run_folder(tmp_path / "a", budget=500), "a")["budget"] == 500
    assert loaded(run_folder(tmp_path / "b"), "b")["budget"] is None
    (tmp_path / "c").mkdir()
    both = Trajectory.create(tmp_path / "c" / "trajectory.jsonl", budget=300)
    both.append({"distance": 1.0})
    assert loaded(both.path, "c")["budget"] == 300
    for said, budget in ((500, 500), (0, 300), (-1, 300), ("x", 300), (True, 300), (None, 300)):
        (tmp_path / "c" / "summary.json").write_text(json.dumps({"budget": said}))
        assert loaded(both.path, "c")["budget"] == budget


def test_rounds_are_saved_against_the_budget(show):
    record = Trajectory(rows(30))
    stop = stop_round(GrowthRate(), record)
    page = show({**described(record, "run"), "budget": 500})
    assert f"{(500 - stop) / 500:.1%}" in tile(page, "Rounds saved") and f"{500 - stop} of 500" in tile(
        page, "Rounds saved"
    )
    assert f"after round {stop} of 500" in page.locator("#says").inner_text()
    assert f"{(500 - stop) * 2 / 60:.1f} min" in tile(page, "Time saved")  # 2 seconds a round, also those not run
    assert "Recorded to round 30 of a budget of 500 rounds" in page.locator("#hero").inner_text()
    wandering = page.locator("#detail tbody tr", has_text="wandering").inner_text().split("\t")
    assert wandering[1] == "not by 30" and wandering[-1] == DASH  # the record does not say what comes later
    page.select_option("#rule", "wandering")
    page.locator("#says", has_text="has not stopped this run by round 30, of a budget of 500").wait_for()
    assert DASH in tile(page, "Rounds saved")


def test_a_run_that_never_learned_is_left_out_of_the_accuracy_kept(show):
    page = show(described(Trajectory(rows()), "good"), described(Trajectory(rows(rise=0.01)), "idle"))
    alone = show(described(Trajectory(rows()), "good"))
    kept = tile(page, "Accuracy kept")
    assert "1 run that never learned left out" in kept
    score, best = alone.evaluate("[chosen(runs[0]).score, runs[0].best]")
    assert f"{score / best:.1%}" in kept and "never learned" not in alone.locator("#tiles").inner_text()
    only = show(described(Trajectory(rows(rise=0.01)), "idle"))
    assert "it never learned" in tile(only, "Accuracy there")


def test_a_rule_that_cannot_judge_says_nothing(show):
    page = show(described(Trajectory(rows()), "a"), described(Trajectory(rows()), "b"), hash="#rule=val-loss")
    assert "can judge no run here" in page.locator("#says").inner_text()
    assert DASH in tile(page, "Accuracy kept") and DASH in tile(page, "Rounds saved")
    assert page.locator("#ways tbody tr").first.inner_text().split("\t")[1:] == ["0 of 0", *[DASH] * 6]
    one = show(described(Trajectory(rows()), "a"))
    cells = one.locator("#detail tbody tr", has_text="val-loss").inner_text().split("\t")
    assert cells[1:] == ["not judged", "val_loss is not recorded", *[DASH] * 6]


def test_the_averaged_model_is_shown_beside_the_last_one(show):
    record = Trajectory(rows(test_accuracy_average=lambda r: 0.95, my_loss=lambda r: 1 / r))
    page = show(described(record, "run"))
    assert page.evaluate("runs[0].scoreName") == "test_accuracy"
    assert "averaged model" in page.locator("#hero .legend").first.inner_text()
    assert "95.0%" in page.locator("#detail tbody tr").first.inner_text().split("\t")
    assert "The averaged model has 95.0% there." in page.locator("#says").inner_text()
    score = page.evaluate("chosen(runs[0]).score")
    assert f"{100 * (0.95 - score):.1f} points above the last model" in tile(page, "Averaged model")
    both = show(described(record, "a"), described(Trajectory(rows()), "b"))
    assert "95.0%" in both.locator("#table tbody").inner_text()
    assert "averaged model" in both.locator("#table thead").inner_text()
    plain = show(described(Trajectory(rows()), "run"))
    assert "averaged model" not in plain.locator("#hero").inner_text()


def test_every_rule_has_a_look_of_its_own(show):
    looks = show(described(Trajectory(rows()), "run")).evaluate("COLOURS")
    assert set(looks) == set(on_page())
    for part in ("colour", "dash", "shape"):
        assert len({look[part] for look in looks.values()}) == len(looks)


@pytest.mark.parametrize("width", [1280, 390])
def test_labels_cover_neither_curves_nor_each_other(show, width):
    more = {
        "val_loss": lambda r: 1 / r,
        "val_accuracy": lambda r: 1 - 1 / r,
        "alignment": lambda r: 0.5,
        "parameter_norm": lambda r: 9.0,
    }
    page = show(described(Trajectory(rows(**more)), "run"), viewport={"width": width, "height": 900})
    boxes = page.locator("#hero figure").first.locator("text").evaluate_all(BOXES)
    assert len(boxes) > 9 + 3
    for a, b in itertools.combinations(boxes, 2):
        assert a[1] <= b[0] + 1 or b[1] <= a[0] + 1 or a[3] <= b[2] + 3 or b[3] <= a[2] + 3, (a, b)
    curve = (
        page.locator("#hero figure")
        .first.locator("path.heavy")
        .evaluate_all("(all) => all.map((one) => one.getBoundingClientRect()).map(({ top, bottom }) => [top, bottom])")
    )
    frame = page.locator("#hero svg").first.bounding_box()
    for left, right, top, bottom in boxes:
        assert frame["x"] <= left and right <= frame["x"] + frame["width"] + 1
        if left > frame["x"] + 60:  # right of the axis
            assert bottom <= curve[0][0] + 3 or top >= curve[0][1] - 3


@pytest.mark.parametrize("way", ["hover", "focus", "tap"])
def test_a_word_explains_itself(show, way):
    touch = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
    page = show(described(Trajectory(rows()), "run"), **(touch if way == "tap" else {}))
    word = page.locator("#detail .term", has_text="exponent").first
    getattr(word, way)()
    tip = page.locator("#tip")
    tip.wait_for(state="visible")
    assert glossary.TERMS["exponent"][1] in tip.inner_text()
    assert word.get_attribute("aria-describedby") == "tip"
    box, size = tip.bounding_box(), page.viewport_size
    assert 0 <= box["x"] and box["x"] + box["width"] <= size["width"]
    assert 0 <= box["y"] and box["y"] + box["height"] <= size["height"]
    page.keyboard.press("Escape")
    tip.wait_for(state="hidden")


def test_the_keyboard_gets_from_a_word_to_all_words(show):
    page = show(described(Trajectory(rows()), "run"))
    page.locator("#tiles .term", has_text="Accuracy there").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("dt[data-word=regret]:focus").wait_for()
    words = page.locator("#words-list").inner_text()
    for name in (*on_page(), "streak", "regret", "still moving", "going nowhere"):
        assert name in words
    assert "#rule=" in page.url or "#" not in page.url  # the settings stay


def test_the_chosen_rule_says_what_it_does(show):
    page = show(described(Trajectory(rows()), "run"))
    listed = page.locator("#rule option").evaluate_all("all => all.map((one) => one.value)")
    assert "growth" in listed and "client-loss" not in listed
    for name in listed:
        page.select_option("#rule", name)
        assert page.locator("#rule-note").inner_text() == glossary.RULES[name]
    page.locator("#rule-label").hover()
    page.locator("#tip", has_text="Decides when to stop").wait_for()


def test_headings_explain_and_sort(show):
    page = show(described(Trajectory(rows()), "a"), described(Trajectory(rows(50)), "b"))
    page.locator("#table th[data-key=regret] button").click()
    page.locator("#tip", has_text="percentage points").wait_for()
    assert page.locator("#table th[data-key=regret]").get_attribute("aria-sort") == "ascending"


def test_every_word_names_a_page_of_the_documentation_and_every_rule_and_reason_has_words():
    said = glossary.words()
    assert all((DOCS / term["page"]).is_file() for term in said["terms"].values())
    assert set(glossary.RULES) == set(rules.RULES)
    assert {
        "saturated",
        "plateau",
        "frozen",
        "wandering",
        "stationary",
        "screened",
        "budget",
        "target",
        "time",
        "traffic",
    } == set(said["reasons"])


def test_methods_are_written_as_their_papers_write_them():
    pytest.importorskip("torch")
    from fedhalt.methods import METHODS

    assert {name: method.facts.title for name, method in METHODS.items()} == glossary.METHODS


def test_a_wide_table_says_that_it_scrolls_and_prints_whole(show):
    wide = {f"val{k}_accuracy": lambda r: 0.5 for k in range(3)}
    page = show(described(Trajectory(rows(**wide)), "run"), viewport={"width": 390, "height": 844})
    page.locator("#detail .hint").first.wait_for()
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.locator("#detail .hint").first.is_hidden()
    cut = "(all) => all.filter((one) => one.offsetParent && one.scrollWidth > one.clientWidth + 1).length"
    assert page.locator(".scroll").evaluate_all(cut) == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 718
    assert len(page.pdf()) > 10_000


def test_the_table_of_many_runs_prints_whole(show):
    specs = [{"method": "fedavg", "lr": k, "skew": skew, "c": 0.1} for k, skew in enumerate(("iid", "dirichlet"))]
    raws = [
        described(Trajectory(rows(bytes_up=lambda r: 1e6), {"spec": one}), f"run-{k}") for k, one in enumerate(specs)
    ]
    page = show(*raws, viewport={"width": 718, "height": 1000})
    page.locator("#runs .hint").wait_for()
    page.emulate_media(media="print")
    assert page.locator("#table").evaluate("(table) => table.offsetWidth <= table.parentElement.clientWidth + 1")


def test_paper_is_white_in_the_dark_too(show):
    page = show(described(Trajectory(rows()), "run"), color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).getPropertyValue('--paper')") == "#fbfbfa"


@pytest.mark.parametrize("specs, title", [
    ([{"data": "digits", "method": "fedavg"}], "FedAvg on digits"),
    ([{"data": "digits", "method": "fedavg"}, {"data": "digits", "method": "scaffold"}], "2 runs on digits"),
    ([{"data": "digits", "method": "fedavg"}, {"data": "blood", "method": "fedavg"}], "2 runs of FedAvg"),
    ([{"data": "digits", "method": "mine"}], "mine on digits"), ([{}], "run-0"), ([{}, {}], "2 federated runs"),
])  # fmt: skip
def test_the_title_is_in_words(tmp_path, specs, title):
    for k, spec in enumerate(specs):
        run_folder(tmp_path / f"run-{k}", 3, **({"spec": spec} if spec else {}))
    report([tmp_path], tmp_path / "page.html")
    assert f"<h1>{title}</h1>" in (tmp_path / "page.html").read_text()


def test_the_rule_that_ran_along_is_the_one_to_begin_with(show):
    raw = {**described(Trajectory(rows()), "run"), "watched": [{"rule": "growth", "threshold": 0.05, "patience": 3}]}
    page = show(raw)
    assert page.input_value("#threshold") == "0.05" and page.input_value("#patience") == "3"
    assert show(raw, hash="#rule=growth&threshold=0.2&patience=4").input_value("#threshold") == "0.2"
