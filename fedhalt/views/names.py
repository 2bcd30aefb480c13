"""Short names of runs: what differs among those that are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .words import printable

PLAIN = ("data", "model", "method")
"""Settings that are named by their value alone; the others by name and value, in this order and then as they come."""
ORDER = (*PLAIN, "lr", "skew", "seed")
QUIET = ("channels_last", "compat")
"""Settings that say little about a run; they count only where nothing else differs."""


def short_names(specs: Sequence[Any], names: Sequence[str]) -> list[str]:
    """A name per run from its configuration; its own name where there is none, or where two would be called alike.

    >>> specs = [{"method": "fedavg", "lr": 0.1, "seed": 0}, {"method": "fedavg", "lr": 0.01, "seed": 0}]
    >>> short_names(specs, ["run-1f", "run-2e"])
    ['lr 0.1', 'lr 0.01']
    >>> short_names(specs[:1], ["run-1f"]), short_names([None], ["run-1f"])
    (['fedavg'], ['run-1f'])
    """
    settings = [_settings(spec) for spec in specs]
    known = [each for each in settings if each]
    differing = [key for key in dict.fromkeys(key for each in known for key in each) if _differs(key, known)]
    loud = [key for key in differing if key not in QUIET] or differing
    keys = sorted(loud or ["data", "method"], key=lambda key: ORDER.index(key) if key in ORDER else len(ORDER))
    made = [" ".join(_text(key, each[key]) for key in keys if key in each) for each in settings]
    times = Counter(made)
    return [short if short and times[short] == 1 else printable(name) for short, name in zip(made, names, strict=True)]


def _settings(spec: Any) -> dict[str, Any]:
    """A configuration as flat settings, the skew with its coefficient; empty where it is none."""
    if not isinstance(spec, Mapping):
        return {}
    own = spec.get("hyperparameters")
    flat = {**spec, **(own if isinstance(own, Mapping) else {})}
    flat.pop("hyperparameters", None)
    if "skew" in flat:
        c = flat.pop("c", None)
        plain = flat["skew"] in ("iid", "natural") or not isinstance(c, (int, float))
        flat["skew"] = flat["skew"] if plain else f"{flat['skew']} {c:g}"
    return {key: value for key, value in flat.items() if isinstance(value, (str, int, float))}


def _differs(key: str, settings: Sequence[Mapping[str, Any]]) -> bool:
    """Whether runs differ in this; in a hyperparameter, runs of one method."""
    groups: dict[Any, set[Any]] = {}
    for each in settings:
        if key in each:
            groups.setdefault(None if key in ORDER else each.get("method"), set()).add(each[key])
    return any(len(values) > 1 for values in groups.values())


def _text(key: str, value: Any) -> str:
    if isinstance(value, str):
        value = value.replace("\\", "/").rstrip("/").split("/")[-1].removesuffix(".npz")
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return printable(shown if key in PLAIN or key == "skew" else f"{key.replace('_', ' ')} {shown}")
