"""The report in a real browser: by keyboard, on a phone, in the dark, with odd records and odd names."""

import random
import re

import pytest

from fedhalt import Trajectory
from fedhalt.views.page import report
from fedhalt.views.page.data import described
from fedhalt.views.page.document import page

EVIL = '<script>document.title = "taken"</script><img src=x onerror=alert(1)>"\''


def record(seed=0, rounds=40, **spec):
    draw = random.Random(seed)
    rows = [
        {"distance": r**0.5 * (1 + draw.random() / 99), "val_loss": 2 / r, "val_accuracy": 1 - 1 / (r + 1),
         "test_balanced_accuracy": 1 - 1 / (r + draw.random()), "seconds": 0.5, "bytes_down": 1000, "bytes_up": 500}
        for r in range(1, rounds + 1)
    ]  # fmt: skip
    return Trajectory(rows, {"spec": {"hyperparameters": {}, **spec}} if spec else {})


@pytest.fixture
def show(visit, tmp_path):
    def open_runs(runs, hash="", title="title", **options):
        raws = [described(trajectory, name) for name, trajectory in runs.items()]
        (tmp_path / "page.html").write_text(page(title, {"live": False, "runs": raws}))
        return visit((tmp_path / "page.html").as_uri() + hash, **options)

    return open_runs


def grid():
    return {
        f"{method}-{lr}-{skew}": record(k, method=method, lr=lr, skew=skew, c=0.1, data="digits")
        for k, (method, lr, skew) in enumerate(
            (method, lr, skew)
            for method in ("fedavg", "fedsam")
            for lr in (0.05, 0.2, 10.0)
            for skew in ("iid", "quantity")
        )
    }


def settled(page):
    """The page after the frames in which it draws what was just asked of it."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page


def tiles(page):
    """The cards: the text of each by its title."""
    titles, cards = page.locator("#tiles dt"), page.locator("#tiles div")
    return dict(zip(titles.all_text_contents(), cards.all_text_contents(), strict=True))


def column(page, key):
    index = page.locator("#table thead th").evaluate_all("(all) => all.map((one) => one.dataset.key)").index(key)
    settled(page)
    return page.locator(f"#table tbody tr > :nth-child({index + 1})").all_text_contents()


def test_one_run_shows_its_curves_stops_savings_and_configuration(show):
    page = show({"run": record(method="fedavg", lr=0.05)})
    titles = " ".join(page.locator("figcaption").all_text_contents())
    for word in ("Accuracy by round", "Distance", "Signal of growth", "log scale", "Streak", "Loss"):
        assert word in titles
    assert page.locator(".level-label").all_text_contents() == ["threshold 0.01", "patience 10"]
    assert "growth rate" in page.locator("#hero .legend").last.text_content()
    rows = page.locator("#detail table").first.locator("tbody tr").all_text_contents()
    assert len(rows) == 11 and rows[0].startswith("growth") and "(chosen)" in rows[0]
    assert set(tiles(page)) == {"Stops at", "Rounds saved", "Accuracy there", "Time saved", "Traffic saved"}
    assert "never" in tiles(page)["Stops at"] and "\N{EN DASH}" in tiles(page)["Rounds saved"]
    page.fill("#threshold", "0.05")
    page.locator("#says", has_text="stops this run after round").wait_for()
    stop = int(re.search(r"after round (\d+)", page.locator("#says").text_content()).group(1))
    shown = tiles(page)
    assert f"{40 - stop} of 40" in shown["Rounds saved"] and f"{(40 - stop) * 0.5:.1f} s" in shown["Time saved"]
    assert f"{(40 - stop) * 1.5:.3g} kB" in shown["Traffic saved"]
    fields = page.locator(".fields div").all_text_contents()
    assert "methodfedavg" in fields and "lr0.05" in fields
    for hidden in ("#compared", "#runs", "#small"):
        assert page.locator(hidden).is_hidden()


def test_the_numbers_stand_there_as_text(show):
    page = show({"run": record()})
    page.get_by_text("Numbers of all 40 rounds").click()
    page.locator("details table tbody tr").nth(39).wait_for()
    assert page.locator("details table tbody tr").count() == 40
    page.focus("#round")
    page.keyboard.press("Home")
    page.locator("output", has_text="round 1 ·").wait_for()
    assert "distance 1.0" in page.locator("output").text_content()
    page.locator(".charts svg").first.hover(position={"x": 200, "y": 80})
    assert "round 1 " not in settled(page).locator("output").text_content()


def test_the_table_sorts_and_filters_and_opens_a_run(show):
    page = show(grid())
    assert page.locator("#table tbody tr").count() == 12
    assert page.locator("#hero .legend li").all_text_contents()[-2:] == ["FedAvg", "FedSAM"]
    assert column(page, "name")[:3] == ["fedavg lr 0.05 iid", "fedavg lr 0.05 quantity 0.1", "fedavg lr 0.2 iid"]
    page.locator('#table th[data-key="lr"] button').click()
    assert column(page, "lr") == ["0.05"] * 4 + ["0.2"] * 4 + ["10"] * 4
    page.locator('#table th[data-key="lr"] button').click()
    assert column(page, "lr") == ["10"] * 4 + ["0.2"] * 4 + ["0.05"] * 4
    assert page.locator('#table th[data-key="lr"]').get_attribute("aria-sort") == "descending"
    page.select_option("#filter-method", "fedsam")
    page.select_option("#filter-skew", "quantity 0.1")
    assert settled(page).locator("#filter-lr option").all_text_contents() == ["all", "0.05", "0.2", "10"]
    page.select_option("#filter-lr", "0.2")
    assert column(page, "method") == ["fedsam"] and column(page, "skew") == ["quantity 0.1"]
    assert page.locator("#count").text_content() == "1 of 12 runs"
    assert page.locator(".tiny").count() == 1 and page.locator("#scatter .dot[d]").count() == 1 + 3
    page.locator("#table tbody button").click()
    page.locator("figcaption", has_text="Streak").wait_for()  # it is drawn with the next frame
    assert page.locator("#one-title").text_content() == "fedsam lr 0.2 quantity 0.1"
    assert page.locator("#detail > .note").text_content() == "fedsam-0.2-quantity"


def test_everything_is_within_reach_of_the_keyboard(show):
    page = show(grid())
    reached = []
    for _ in range(100):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.dataset.place"))
    for wanted in (
        "rule",
        "threshold-slide",
        "threshold",
        "patience-slide",
        "link",
        "filter-method",
        "search",
        "sort regret",
    ):
        assert wanted in reached
    page.focus("#table thead th[data-key='stop'] button")
    page.keyboard.press("Enter")
    assert settled(page).locator('#table th[data-key="stop"]').get_attribute("aria-sort") == "ascending"
    assert page.evaluate("document.activeElement.dataset.place") == "sort stop"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.focus("#table tbody button")
    page.keyboard.press("Enter")
    page.locator("#one-title:focus").wait_for()


@pytest.mark.parametrize("number", [1, 12])
def test_on_a_phone_nothing_is_cut_off(show, number):
    runs = dict(list(grid().items())[:number])
    page = show(runs, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    wide = page.evaluate(
        "[...document.querySelectorAll('main *')].filter((one) => !one.closest('.scroll, svg') && "
        "one.getBoundingClientRect().right > 361).map((one) => one.outerHTML.slice(0, 80))"
    )
    assert wide == []
    small = page.evaluate(
        "[...document.querySelectorAll('select, input, summary')].filter((one) => one.offsetParent && "
        "one.getBoundingClientRect().height < 24).map((one) => one.id)"
    )
    assert small == []


def luminance(colour):
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_the_light_and_in_the_dark(show, scheme):
    page = show(grid(), color_scheme=scheme)
    pairs = page.evaluate(
        """() => [...document.querySelectorAll("h1, #lead, dt, #tiles dd, caption, td, th, .note, a, .tiny span")]
            .filter((one) => one.offsetParent && one.textContent.trim()).map((one) => {
                let back = one;
                while (back && getComputedStyle(back).backgroundColor === "rgba(0, 0, 0, 0)") back = back.parentElement;
                return [getComputedStyle(one).color, getComputedStyle(back ?? document.body).backgroundColor];
            })"""
    )
    assert (luminance(pairs[0][1]) < 0.1) == (scheme == "dark")
    for ink, paper in {tuple(pair) for pair in pairs}:
        high, low = sorted([luminance(ink), luminance(paper)], reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, paper)
    strokes = page.evaluate(
        "[0, 1, 2, 3, 4, 5, 6, 7].map((k) => getComputedStyle(document.body).getPropertyValue(`--k${k}`))"
    )
    assert len(set(strokes)) == 8


def test_names_are_text_and_nothing_else(show):
    runs = {
        EVIL: record(1, method=EVIL, skew=EVIL, c=EVIL, lr=EVIL, data=EVIL),
        "other": record(2, method="fedavg", lr=1),
    }
    page = show(runs, title=EVIL, hash=f"#run={EVIL}&search=<b>")
    page.fill("#search", "")
    assert page.title() == EVIL and page.locator("h1").text_content() == EVIL
    page.locator("#table tbody button", has_text=EVIL).first.click()
    assert EVIL in settled(page).locator("#one-title").text_content()
    assert page.locator("#detail > .note").text_content() == EVIL
    assert page.locator("main script, main img, header img").count() == 0


def test_odd_records_are_shown_and_break_nothing(show):
    nan, inf = float("nan"), float("inf")
    rows = record().rows
    runs = {
        "one round": Trajectory(rows[:1]),
        "none yet": Trajectory(),
        "diverged": Trajectory(
            [*rows[:9], {"round": 10, "distance": nan, "val_loss": inf, "test_balanced_accuracy": nan}]
        ),
        "frozen": Trajectory([{"distance": 0.0}] * 20),
        "huge": Trajectory([{"distance": 1.7e308, "val_loss": -1.7e308}, {"distance": 5e-324, "val_loss": 1.7e308}]),
        "gaps": Trajectory(
            [{"round": r, "distance": float(r), "accuracy": None if r % 3 else 0.1 * r} for r in (1, 3, 9)]
        ),
        "only loss": Trajectory([{"val_loss": 1.0 / (k + 1)} for k in range(30)]),
        "only text": Trajectory([{"distance": "far", "note": "x"}] * 3),
    }
    page = show(runs)
    for name in runs:
        page.locator(f'#table button[title="{name}"]').click()
        page.locator("#one-title", has_text=name).wait_for()
        for rule in ("growth", "val-loss", "wandering", "budget"):
            page.select_option("#rule", rule)
            page.locator("#says", has_text=f"{rule} (").wait_for()
        page.select_option("#rule", "growth")
    stops = dict(zip([*column(page, "name")], column(page, "stop"), strict=True))
    assert stops == {
        "one round": "never", "none yet": "not judged", "diverged": "10", "frozen": "11", "huge": "never",
        "gaps": "never", "only loss": "not judged", "only text": "not judged",
    }  # fmt: skip


def test_what_accuracy_means_is_said(show):
    page = show({"a": record(), "b": Trajectory([{"distance": 1.0, "my_accuracy": 0.5}])})
    lead = page.locator("#lead").text_content()
    assert "balanced test accuracy" in lead and "my accuracy" in lead and "2 runs, 41 recorded rounds" in lead


def test_three_hundred_runs_follow_the_slider(show):
    runs = {f"run-{k}": record(k, 200, method="fedavg", lr=k, skew="iid") for k in range(300)}
    page = show(runs)
    quickest = page.evaluate(
        """() => Math.min(...Array.from({ length: 10 }, (_, k) => {
            const begin = performance.now();
            state.settings.threshold = 0.002 * (k + 1);
            move();
            return performance.now() - begin;
        }))"""
    )
    assert quickest < 250  # milliseconds; an idle machine needs about a tenth, and a busy one leaves some move alone


def test_a_very_long_run_is_no_problem(show):
    page = show({"long": record(rounds=60_000)})
    assert "recorded rounds" in page.locator("#lead").text_content() and page.locator("figure").count() == 7


def test_a_report_of_files_opens_from_disk(visit, tmp_path):
    for name in ("a", "b"):
        trajectory = Trajectory.create(tmp_path / "runs" / name / "trajectory.jsonl")
        for row in record(rounds=30).rows:
            trajectory.append(row)
    assert report([tmp_path / "runs"], tmp_path / "page.html")["runs"] == 2
    assert visit((tmp_path / "page.html").as_uri()).locator("h1").text_content() == "2 federated runs"
