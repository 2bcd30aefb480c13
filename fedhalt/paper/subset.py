"""The most informative runs with a network that is trained whole: at the small scale the CNN on blood cells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import render
from .gains import pair
from .rows import Results, Row, mean, spread, stop
from .setting import CNN, PHI, RHO, RHOS, TAU, TAU_BAD, TITLES, VALIDATION, Need, Scale, needs, phis

TITLE = "A network trained whole: the informative subset"
VARIANTS = (("fedavg", None), ("feddyn", None), ("scaffold", None), ("scaffold", "authors"), ("fedsam", None))
SKEWS = (("dirichlet", 0.1), ("quantity", 0.1))
RATES = {"good": TAU, "bad": TAU_BAD}


def network(scale: Scale) -> Scale:
    """The paper's model at its scale; a probe is no network, so the small scale takes the small CNN."""
    return CNN if scale.name == "small" else scale


def specs(scale: Scale) -> Iterator[Need]:
    found = [
        need
        for method, compat in VARIANTS
        for need in needs(network(scale), skews=SKEWS, rates=RATES, methods=[method], compat=compat)
        if need.spec.data == "blood"
    ]
    yield from sorted(found, key=lambda need: (need.spec.seed, need.spec.lr))  # the good rate first


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    whole, rows = network(scale), []
    for skew, c in SKEWS:
        for rate, tau in RATES.items():
            for method, compat in VARIANTS:
                there = _there(results, whole, method, compat, skew, c, rate)
                title = TITLES[method] + (", compat authors" if compat else "")
                rows.append(
                    [f"{skew} {c:g}", title, f"{rate} ({whole.rates[rate]:g})", *_cells(there, tau), str(len(there))]
                )
    header = [
        "skew", "method", "rate", "last round (%)", "best round (%)", "r*", "at r* (%)", "loss stops", "accuracy stops",
        "gain over the better", "seeds",
    ]  # fmt: skip
    text, written = render.table(folder / "subset", header, rows)
    short, files = _short(results, whole, folder)
    note = (
        f"{whole.model['model']}, blood cells, {whole.rounds} rounds, Φ = {PHI:g}, ρ = {RHO}, τ = {TAU:g} at the good "
        f"and {TAU_BAD:g} at the bad rate; balanced accuracy, mean ± standard deviation over seeds. Stops are "
        "means of the seeds that stop; the gain is over the better validation rule, where it and the proposed one stop."
    )
    return [render.page(folder / "subset.md", TITLE, note, text, *short), *written, *files]


def _there(
    results: Results, whole: Scale, method: str, compat: str | None, skew: str, c: float, rate: str
) -> list[Row]:
    found = results.select(
        task="blood", method=method, compat=compat, phi=phis(method, (PHI,))[0], skew=skew, c=c,
        lr=whole.rates[rate], model=whole.model["model"],
    )  # fmt: skip
    return [row for row in found if row["rounds"] >= whole.rounds or row["diverged"]]


def _short(results: Results, whole: Scale, folder: Path) -> tuple[tuple[str, ...], list[Path]]:
    """The stops of all methods and skews together, by the settings of the rule; also τ of the bad rate on good runs."""
    rows = []
    for code in (None, "authors"):
        for rate, tau, rho in (("good", TAU, RHO), ("good", TAU_BAD, RHO), *(("bad", TAU_BAD, rho) for rho in RHOS)):
            there = [
                row for method, compat in VARIANTS if compat == code for skew, c in SKEWS
                for row in _there(results, whole, method, compat, skew, c, rate)
            ]  # fmt: skip
            found = [(row, each) for row in there if (each := pair(row, tau, rho))]
            rounds = [each.proposed.round for _, each in found]
            later = [float(extra) for _, each in found if (extra := each.extra()) is not None]
            gains = [gain for _, each in found if (gain := each.gain("smooth")) is not None]
            rows.append([
                "compat authors" if code else "published", rate, f"{tau:g}", str(rho), f"{len(found)} of {len(there)}",
                f"{mean(rounds):.1f} ({min(rounds)} to {max(rounds)})" if rounds else "–",
                render.number(mean([each.proposed.balanced for _, each in found])),
                render.number(mean([row["best"] for row, _ in found])), render.number(mean(later), sign=True),
                render.number(mean(gains), spread(gains), sign=True),
                render.number(min(gains, default=float("nan")), sign=True),
            ])  # fmt: skip
    header = [
        "code", "rate", "τ", "ρ", "stopped", "r*", "at r* (%)", "best round (%)", "after the earlier validation rule",
        "gain over the better, means of five rounds", "smallest gain",
    ]  # fmt: skip
    text, written = render.table(folder / "subset-short", header, rows)
    return ("## All methods and skews together", text), written


def _cells(there: list[dict[str, float]], tau: float) -> list[str]:
    pairs = [found for row in there if (found := pair(row, tau))]
    gains = [gain for each in pairs if (gain := each.gain()) is not None]
    stops = [[float(s.round) for row in there if (s := stop(row, name, tau, RHO))] for name in VALIDATION]
    columns = [
        [row["final"] for row in there], [row["best"] for row in there], [float(each.proposed.round) for each in pairs],
        [each.proposed.balanced for each in pairs], *stops,
    ]  # fmt: skip
    return [*(render.number(mean(v), spread(v)) for v in columns), render.number(mean(gains), spread(gains), sign=True)]
