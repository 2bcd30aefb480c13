"""`fedhalt reproduce`: the paper's tables and figures, from recorded runs or trained anew."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from . import files, reproduce
from .check import FedhaltError, known, parsed, whole
from .cli_run import after_this_round
from .plan import EXECUTORS
from .rules.motion import why
from .trial import ENDED, Following, Trial


def reproduce_command(
    names: Annotated[list[str] | None, typer.Argument(metavar="ITEM...", help="table2, fig-reason, …, or all.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="What there is, how many runs, how many hours here.")] = False,
    scale: Annotated[str, typer.Option(help="small: real images on two cores; paper: exactly the paper's.")] = "small",
    recorded: Annotated[bool, typer.Option("--recorded", help="Draw from the recorded rows; train nothing.")] = False,
    executor: Annotated[str, typer.Option(help="processes or ray.")] = "processes",
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster. Default: one on this machine.")] = None,
    parallel: Annotated[str | None, typer.Option(help="Runs at the same time. Default: one per core.")] = None,
    workers: Annotated[str, typer.Option(help="Workers of each run.")] = "1",
    device: Annotated[str | None, typer.Option(help="cpu, cuda, … Default: a GPU if there is one.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of run folders, shared by all items.")] = Path("runs/paper"),
    results: Annotated[Path | None, typer.Option(help="Rows, tables, figures. Default: docs/results.")] = None,
    data_root: Annotated[str | None, typer.Option(help="Folder of the data files. Default: FEDHALT_DATA.")] = None,
    weights: Annotated[str | None, typer.Option(help="Start from this file instead of the hub's weights.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --list: one object on standard output.")] = False,
) -> None:
    """Draw tables and figures of the paper, ours beside the paper's; train only what is not recorded yet.

    fedhalt reproduce --list
    fedhalt reproduce table2 --scale small
    fedhalt reproduce all --scale paper --executor ray
    """
    modules = reproduce.items(names or ["all"] if listed else _named(names))
    chosen = _scale(scale, weights)
    folder = (results or Path(reproduce.part().__file__).parents[2] / "docs" / "results") / scale
    found = reproduce.part("rows").Results(folder)
    if listed:
        _show(reproduce.overview(chosen, found, modules), chosen, as_json)
        return
    known("executor", executor, EXECUTORS)
    if address is not None and executor != "ray":
        raise FedhaltError(f"an address belongs to a Ray cluster: add --executor ray to {address!r}")
    number = _whole("parallel", parallel) if parallel is not None else os.cpu_count() or 1
    settings = {
        "rounds": chosen.rounds, "out": str(out), "executor": executor, "address": address, "parallel": number,
        "workers": _whole("workers", workers), "device": device, "data_root": data_root,
    }  # fmt: skip
    console = Console(highlight=False)
    merged = reproduce.part("setting").merged
    needs = merged(need for module in modules.values() for need in module.specs(chosen))
    reproduce.collect(found.missing(needs), found, out)
    missing = found.missing(needs)
    if missing and not recorded:
        train(missing, found, settings, console, "the same command goes on, --recorded draws what is there")
    for name, module in modules.items():
        folder.mkdir(parents=True, exist_ok=True)
        for path in module.draw(found, chosen, folder):
            console.print(f"{name}: {path}", markup=False, soft_wrap=True)
    left = found.missing(missing)
    if left:
        console.print(
            f"{len(left)} of the runs are not recorded: their cells are empty or of fewer seeds", markup=False
        )


def train(missing: list[Any], found: Any | None, settings: dict[str, Any], console: Console, then: str) -> None:
    """Records what is missing, with progress and time left; Ctrl-C ends it after the round."""
    stopping = after_this_round()
    cost = reproduce.part("setting").cost
    left = reproduce.TimeLeft([cost(need) for need in missing], settings["parallel"])
    with _Shown(console, left, Path(settings["out"])) as shown:
        trials = reproduce.record(missing, found, settings, shown, stopping)
    failed = [trial for trial in trials if trial.state == "failed"]
    if failed:
        raise FedhaltError(f"the run {failed[0].label} failed: {failed[0].outcome.get('error')}")
    if stopping():
        console.print(f"interrupted; {then}")
        raise typer.Exit(130)


class _Shown:
    """A line for every run that ended, with the time left; on a terminal also the rounds that are being trained."""

    def __init__(self, console: Console, left: reproduce.TimeLeft, out: Path) -> None:
        self.console, self.left, self.out = console, left, out
        self.live = (
            Live(Text(""), console=console, transient=True, refresh_per_second=2) if console.is_terminal else None
        )
        self.said: set[int] = set()
        self.followed: dict[str, Following] = {}

    def __enter__(self) -> _Shown:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live:
            self.live.stop()

    def __call__(self, trials: list[Trial], total: int) -> None:
        for trial in trials:
            if trial.state in ENDED and trial.number not in self.said:
                self.said.add(trial.number)
                found = trial.outcome
                cause = (
                    why(found["reason"], found["exponent"], found["motion"]) if "reason" in found else found["error"]
                )
                text = f"run {len(self.said)}/{total}  {trial.label}  {found.get('rounds', 0)} rounds ({cause})"
                self.console.print(f"{text}  left {self.left(trials)}", markup=False, soft_wrap=True)
        if self.live:
            going = [trial for trial in trials if trial.state == "running"]
            for t in going:
                self.followed.setdefault(t.label, Following(self.out / t.label / "trajectory.jsonl"))
            rows = [f"{t.label} round {self.followed[t.label].look().get('round', 0)}" for t in going]
            self.live.update(Text("\n".join([*rows, f"{len(self.said)} of {total} runs, left {self.left(trials)}"])))


def _show(rows: list[dict[str, Any]], scale: Any, as_json: bool) -> None:
    if as_json:
        typer.echo(files.to_json({"scale": scale.name, "items": rows}))
        return
    made = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("item", "what", "runs", "recorded", "core hours", "left"):
        made.add_column(title, justify="left" if title in ("item", "what") else "right", overflow="fold")
    for row in rows:
        made.add_row(row["item"], row["title"], f"{row['runs']:,}", f"{row['recorded']:,}", f"{row['hours']:,.1f}",
                     f"{row['hours_left']:,.1f}")  # fmt: skip
    console = Console(highlight=False, width=None if Console().is_terminal else 120)
    console.print(made)
    console.print(f"\nscale {scale.name}: {scale.words}", soft_wrap=True)


def _named(names: list[str] | None) -> list[str]:
    if not names:
        raise FedhaltError(f"name what to draw: {', '.join(reproduce.part().ITEMS)}, or all; --list says what they are")
    return names


def _scale(name: str, weights: str | None) -> Any:
    scales = reproduce.part("setting").SCALES
    scale = scales[known("scale", name, scales)]
    if weights is None:
        return scale
    return dataclasses.replace(scale, model={**scale.model, "pretrained": False, "weights": weights})


def _whole(name: str, text: str) -> int:
    number = parsed(text)
    return whole(name, text if number is None else number)
