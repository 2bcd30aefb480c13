"""`fedhalt methods`: what there is to choose from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import typer

from .. import files
from ..views.terminal.display import Column, columns_table, make_console, print_table
from .options import JsonList, Wide

USUAL = ("method", "hyperparameters", "sends", "keeps", "gradients", "optimizer")
COLUMNS: dict[str, Column[Mapping[str, Any]]] = {
    "method": Column("method", lambda entry: entry["method"], words=True),
    "hyperparameters": Column("hyperparameters", lambda entry: _hyperparameters(entry) or "-", words=True),
    "sends": Column("down/up", lambda entry: f"{entry['down']}/{entry['up']}"),
    "keeps": Column("keeps", lambda entry: str(entry["keeps"])),
    "gradients": Column("gradients", lambda entry: str(entry["gradients"])),
    "optimizer": Column("optimizer", lambda entry: "SGD" if entry["sgd_only"] else "any", words=True),
    "phi": Column("tuned", lambda entry: ", ".join(entry["phi"]) or "-", words=True),
    "half": Column("half", lambda entry: entry["half"] or "-", words=True),
    "paper": Column("paper", lambda entry: entry["paper"], words=True),
}


def methods_command(wide: Wide = False, as_json: JsonList = False) -> None:
    """List the federated methods: hyperparameters, what they send and keep, what a step costs."""
    from ..methods import METHODS, hyperparameters

    listed = [
        {"method": name, **dataclasses.asdict(cls.facts), "hyperparameters": hyperparameters(name)}
        for name, cls in METHODS.items()
    ]
    if as_json:
        typer.echo(files.to_json(listed))
        return
    console = make_console()
    chosen = COLUMNS if wide else USUAL
    print_table(columns_table(listed, [COLUMNS[name] for name in chosen]), console, wide)
    console.print(
        "\ndown/up, keeps: vectors of the model's size that are sent each way, and kept\n"
        "by a client; gradients: evaluations per local step. All methods have server_lr.",
        markup=False,
    )


def _hyperparameters(entry: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in entry["hyperparameters"].items() if key != "server_lr")
