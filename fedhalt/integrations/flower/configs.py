"""What a strategy decides in the configs that it is handed every round: they are part of its state."""

from __future__ import annotations

from typing import Any

from flwr.app import ConfigRecord

from ..host import LOG

MISSING = object()


class Configs:
    """The configs of one run by kind ("train", "evaluate"): as they were given, and as the strategy left them.

    Flower hands the same ConfigRecord to every round, so a strategy may halve a rate in it once and for
    all. A continued run is given a fresh one: what the strategy had made of the old one is put into it.
    """

    def __init__(self) -> None:
        self._given: dict[str, dict[str, Any]] = {}
        self._left: dict[str, dict[str, Any]] = {}
        self._saved: dict[str, dict[str, Any]] = {}

    def given(self, kind: str, config: ConfigRecord) -> None:
        """The config before the strategy sees it; the first one is what the run began with."""
        self._given.setdefault(kind, dict(config))

    def left(self, kind: str, config: ConfigRecord) -> None:
        """The config as the strategy left it in this round."""
        self._left[kind] = dict(config)

    def to_save(self) -> dict[str, dict[str, Any]]:
        return {kind: {"given": self._given[kind], "left": left} for kind, left in self._left.items()}

    def resume(self, saved: dict[str, dict[str, Any]]) -> None:
        self._saved = saved

    def put_back(self, kind: str, config: ConfigRecord) -> None:
        """Changes this run's config as the strategy had changed the saved run's; newly given values stay."""
        if kind not in self._saved:
            return
        began, left = self._saved[kind]["given"], self._saved[kind]["left"]
        now = self._given[kind]
        anew = {key for key in {**began, **now} if began.get(key, MISSING) != now.get(key, MISSING)}
        for key in anew:
            LOG.warning(
                "fedhalt: %s in the %s config was %r when this run began and is %r now, which counts",
                key,
                kind,
                began.get(key),
                now.get(key),
            )
        for key in {*config, *left} - anew:
            if key in left:
                config[key] = left[key]
            else:
                del config[key]
        self.left(kind, config)
