"""Federations small enough for a test."""

import json

SMALL = {"data": "digits", "clients": 12, "cohort": 4, "epochs": 1, "c": 0.5}
SCREEN = {"threshold": 0.95, "patience": 3}
"""A screening stage that decides early."""


def as_options(settings):
    """The words of the command line that say the same."""
    return [word for name, value in settings.items() for word in (f"--{name}", str(value))]


def write_toml(path, **settings):
    """A file of settings, tables after plain values; the path."""
    tables = {name: value for name, value in settings.items() if isinstance(value, dict)}
    lines = [f"{name} = {_as_toml(value)}" for name, value in settings.items() if name not in tables]
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {_as_toml(value)}" for key, value in table.items())]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def _as_toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_as_toml(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)
