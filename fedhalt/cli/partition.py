"""`fedhalt partition`: who would hold what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .. import files
from ..simulation.federation import shares
from ..views.terminal.display import make_console
from ..views.terminal.partition import show_partition
from .options import DataRoot, JsonObject
from .spec_options import Config, read_settings


def partition_command(
    *,
    data_root: DataRoot = None,
    picture: Annotated[Path | None, typer.Option(help="Draw classes by client to this file.")] = None,
    config: Config = None,
    as_json: JsonObject = False,
    given: dict[str, Any],
) -> None:
    """Show how the data would be split among clients."""
    given = {"cohort": "1", **given}  # nobody is sampled here
    if picture is not None:
        from ..views.plots import check_picture

        check_picture(picture)
    spec, besides = read_settings(config, given, {} if data_root is None else {"data_root": data_root})
    counts = shares(spec, besides.get("data_root"))
    if as_json:
        typer.echo(files.to_json({"skew": spec.skew, "c": spec.c, "seed": spec.seed, "counts": counts}))
    else:
        show_partition(make_console(120), spec, counts)
    if picture is not None:
        from ..views.plots import classes_by_client

        classes_by_client(counts, f"{spec.data}, {spec.skew} c={spec.c:g}, seed {spec.seed}", picture)
