"""A rule is added in Python, as CONTRIBUTING.md shows it, and the page has it: no JavaScript is written for a rule."""

from dataclasses import dataclass
from typing import ClassVar

from fedhalt import Trajectory, rules, stop_round
from fedhalt.rules import Listed, Signal, SignalRule
from fedhalt.views.page.data import described
from fedhalt.views.page.document import page


@dataclass(frozen=True)
class Update:
    """||u_r||; it remembers nothing."""

    reads: ClassVar[tuple[str, ...]] = ("update_norm",)
    signed: ClassVar[tuple[str, ...]] = ()

    def begin(self):
        return None

    def step(self, before, r, now):
        return None, now[0]


@dataclass(frozen=True)
class SmallUpdate(SignalRule):
    """||u_r|| < tau for rho rounds in a row."""

    threshold: float = 0.3
    patience: int = 2
    signal: ClassVar[Signal] = Update()


def test_a_rule_that_is_added_in_python_is_on_the_page(monkeypatch, visit, tmp_path):
    monkeypatch.setitem(rules.RULES, "small-update", Listed(SmallUpdate, "update", (1e-3, 1)))
    record = Trajectory([{"distance": float(r), "update_norm": 1 / r} for r in range(1, 13)])
    assert stop_round(SmallUpdate(), record) == 5
    (tmp_path / "page.html").write_text(page("one", {"live": False, "runs": [described(record, "run")]}))
    opened = visit((tmp_path / "page.html").as_uri())
    opened.select_option("#rule", "small-update")
    opened.locator("#says", has_text="small-update").wait_for()
    assert "round 5" in opened.locator("#says").inner_text()
    opened.fill("#threshold", "0.15")
    opened.locator("#says", has_text="0.15").wait_for()
    assert "round 8" in opened.locator("#says").inner_text()
