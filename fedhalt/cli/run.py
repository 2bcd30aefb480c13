"""`fedhalt run`: one federation on this machine, stopped by a rule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

from .. import files
from ..errors import about, names_in, whole
from ..integrations.trackers import TRACKERS, Tracking
from ..measure.average import make_average
from ..rules import RULES, NamedRule, named_rules
from ..simulation.evaluation import EVALUATE
from ..simulation.runner import STOPS, Progress, run
from ..simulation.spec import RunSpec
from ..simulation.summary import RunSummary
from ..views.terminal.display import make_console
from ..views.terminal.run import RunDisplay, describe_run, show_summary
from ..views.words import describe_rules
from .interrupt import end_after_this_round
from .options import RULE_LIST, TRACK_LIST
from .spec_options import RUNNING, STOPPING, Config, read_settings
from .types import COUNT, POSITIVE, OneOf, flat, number_or_text

BUDGET = 500


def run_command(
    *,
    rule: Annotated[
        list[Any] | None,
        typer.Option(
            click_type=RULE_LIST, rich_help_panel=STOPPING, help="Rules from the list above. Default: growth."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(click_type=POSITIVE, rich_help_panel=STOPPING, help="Threshold of the rules. Default: 0.01."),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(click_type=COUNT, rich_help_panel=STOPPING, help="Rounds in a row below threshold. Default: 10."),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            click_type=COUNT, rich_help_panel=STOPPING, help=f"Budget: train at most this long. Default: {BUDGET}."
        ),
    ] = None,
    stop: Annotated[
        str | None,
        typer.Option(
            click_type=OneOf("when", STOPS), rich_help_panel=STOPPING,
            help="Stop once all rules have fired, at the first, or never. Default: all.",
        ),
    ] = None,
    average: Annotated[
        str | None,
        typer.Option(
            metavar="ROUNDS", rich_help_panel=STOPPING,
            help="Also evaluate and keep the mean of the last models: 10, running:10. Default: 10 if a rule reads it.",
        ),
    ] = None,
    evaluate: Annotated[
        str | None,
        typer.Option(
            click_type=OneOf("what", EVALUATE), rich_help_panel=RUNNING,
            help="Evaluate rounds, for curves, or only the models at the stops, which is faster. Default: rounds.",
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="FOLDER", rich_help_panel=RUNNING, help="Where runs go. Default: runs.")
    ] = None,
    data_root: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", rich_help_panel=RUNNING, help="Where data files are. Default: $FEDHALT_DATA."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(click_type=COUNT, rich_help_panel=RUNNING, help="Single-thread workers. Default: one per core."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="DEVICE", rich_help_panel=RUNNING, help="cpu or cuda. Default: cuda if there is one."),
    ] = None,
    track: Annotated[
        list[Any] | None,
        typer.Option(click_type=TRACK_LIST, rich_help_panel=RUNNING, help=f"Also write to: {', '.join(TRACKERS)}."),
    ] = None,
    config: Config = None,
    as_json: Annotated[
        bool, typer.Option("--json", rich_help_panel=RUNNING, help="Print the summary as one object.")
    ] = False,
    given: dict[str, Any],
) -> None:  # fmt: skip
    """Train a federation on this machine and stop it by a rule."""
    typed = {"rounds": rounds, "rule": flat(rule) or None, "threshold": threshold, "patience": patience, "stop": stop,
             "average": average, "evaluate": evaluate, "workers": workers, "device": device, "out": out,
             "data_root": data_root, "track": flat(track) or None}  # fmt: skip
    plan = _read(config, given, {name: value for name, value in typed.items() if value is not None})
    summary = _run(plan, as_json)
    if as_json:
        typer.echo(files.to_json(summary.to_json()))
    if summary.reason == "interrupted":
        raise typer.Exit(130)


HELP = f"""Train a federation on this machine and stop it by a rule.

A first run, under a minute, on the digits data set that is included:
  fedhalt run --clients 20 --cohort 5 --c 0.5 --lr 0.05

Choose data, method, learning rate and rules:
  fedhalt run --data blood --method fedprox --lr 0.01 --rule growth,val-loss

Options that you leave out have the paper's settings. The run is recorded in
runs/: the same command resumes it, `fedhalt replay runs/` judges it again,
and `fedhalt report runs/` draws it.

Rules and what they watch (they need no data unless noted):
{describe_rules(RULES)}
minutes=90       time spent
megabytes=500    traffic, up and down
val_accuracy>=0.8, val_loss<=0.3  a recorded metric reaches a target

Stop by a rule, or after 90 minutes:
  fedhalt run --lr 0.05 --rule growth,minutes=90 --stop first
"""


class _Plan(NamedTuple):
    """What is run, and how."""

    spec: RunSpec
    watch: list[NamedRule]
    options: dict[str, Any]
    """What `run` takes besides the spec and the rules."""
    trackers: list[str]
    out: Path


def _read(config: Path | None, given: dict[str, Any], typed: dict[str, Any]) -> _Plan:
    """The plan in the file and, over it, on the command line."""
    spec, besides = read_settings(config, given, typed)
    with about(config):
        trackers = names_in("track", besides.get("track", []))
        out = Path(besides.get("out", "runs"))
        return _Plan(spec, _asked_rules(besides), _run_options(besides), trackers, out)


def _run(plan: _Plan, as_json: bool) -> RunSummary:
    """Runs it and shows progress; with `as_json`, progress goes to standard error."""
    spec, watch, options, trackers, out = plan
    stopping = end_after_this_round()
    console = make_console(stderr=as_json)
    folder = out / spec.id
    _say_what_is_there(console, folder)
    with Tracking(trackers, folder, watch, spec.to_json()) as tracking:
        describe_run(console, spec.to_json(), watch, options.get("stop", "all"), options["rounds"])

        with RunDisplay(console, watch) as shown:

            def progress(now: Progress) -> None:
                shown(now)
                tracking(now.row)

            summary = run(spec, out, watch=watch, progress=progress, interrupted=stopping, **options)
    if not as_json:
        show_summary(console, summary)
    return summary


def _asked_rules(besides: dict[str, Any]) -> list[NamedRule]:
    """The rules to watch, with the settings that were given for all of them."""
    settings = {name: [number_or_text(besides[name])] if name in besides else [] for name in ("threshold", "patience")}
    names = names_in("rule", besides.get("rule", ["growth"]))
    if "budget" in names:
        settings["rounds"] = [_budget(besides)]
    return named_rules(names, settings)


def _run_options(besides: dict[str, Any]) -> dict[str, Any]:
    """What `run` takes besides the spec and the rules."""
    taken = ("stop", "device", "data_root", "average", "evaluate")
    options: dict[str, Any] = {name: besides[name] for name in taken if name in besides}
    if "average" in besides:
        make_average(besides["average"])  # said before anything is shown
    if "workers" in besides:
        options["workers"] = whole("workers", number_or_text(besides["workers"]))
    return {"rounds": _budget(besides), **options}


def _budget(besides: dict[str, Any]) -> int:
    return whole("rounds", number_or_text(besides.get("rounds", BUDGET)))


def _say_what_is_there(console: Console, folder: Path) -> None:
    """Says that the run exists, because a run that ends at once is surprising."""
    record = folder / "trajectory.jsonl"
    if record.is_file():
        number = max(0, record.read_bytes().count(b"\n") - 1)
        console.print(
            f"{folder} already holds {number} rounds; only missing rounds are trained", markup=False, soft_wrap=True
        )
