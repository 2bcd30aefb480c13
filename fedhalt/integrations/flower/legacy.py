"""EarlyStopping for strategies of Flower's legacy API (`flwr.server.strategy`), also under SecAggPlusWorkflow."""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakValueDictionary

from flwr.common import EvaluateIns, EvaluateRes, FitIns, FitRes, Parameters, Scalar
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from .stopping import EarlyStopping
from .watch import Watch

Failures = list[tuple[ClientProxy, Any] | BaseException]

_HOLDERS: WeakValueDictionary[str, Watch] = WeakValueDictionary()
"""Who holds a state folder in this process: the legacy API does not say when a run ends, so the next one takes over."""


class LegacyStopping(EarlyStopping, Strategy):
    """EarlyStopping around a legacy strategy: after the stop nobody is chosen and nothing is evaluated any more.

    The legacy loop cannot be left, so its remaining rounds pass by empty.
    """

    hooks = (
        "initialize_parameters",
        "configure_fit",
        "aggregate_fit",
        "evaluate",
        "configure_evaluate",
        "aggregate_evaluate",
    )

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters | None:
        if self.watch.state is not None:
            key = os.path.abspath(self.watch.state)
            if key in _HOLDERS:
                _HOLDERS[key].end()
            _HOLDERS[key] = self.watch
        self.watch.begin()
        parameters: Parameters | None = self.strategy.initialize_parameters(client_manager)
        if self.watch.model is None:
            return parameters
        if parameters is not None:
            self.watch.check_start(parameters)
        saved: Parameters = self.watch.model
        return saved

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        if self._idle(server_round):
            return []
        self.watch.before_round(parameters)
        chosen: list[tuple[ClientProxy, FitIns]] = self.strategy.configure_fit(server_round, parameters, client_manager)
        return chosen

    def aggregate_fit(
        self, server_round: int, results: list[tuple[ClientProxy, FitRes]], failures: Failures
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        parameters, metrics = self.strategy.aggregate_fit(server_round, results, failures)
        self.watch.trained(server_round, parameters, metrics)
        return parameters, metrics

    def evaluate(self, server_round: int, parameters: Parameters) -> tuple[float, dict[str, Scalar]] | None:
        if self.watch.replays(server_round):
            found = dict(self.watch.metrics["server"].get(server_round, {}))
            return (found.pop("loss"), found) if found else None
        if self.watch.stopped:
            return None
        result: tuple[float, dict[str, Scalar]] | None = self.strategy.evaluate(server_round, parameters)
        if result is not None:
            self.watch.measured("server", server_round, {**result[1], "loss": result[0]})
        return result

    def configure_evaluate(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, EvaluateIns]]:
        if self._idle(server_round):
            return []
        chosen: list[tuple[ClientProxy, EvaluateIns]]
        chosen = self.strategy.configure_evaluate(server_round, parameters, client_manager)
        if not chosen:
            self.watch.judge()
        return chosen

    def aggregate_evaluate(
        self, server_round: int, results: list[tuple[ClientProxy, EvaluateRes]], failures: Failures
    ) -> tuple[float | None, dict[str, Scalar]]:
        loss, metrics = self.strategy.aggregate_evaluate(server_round, results, failures)
        if loss is not None:
            self.watch.measured("client", server_round, {**metrics, "loss": loss})
        self.watch.judge()
        return loss, metrics

    def _idle(self, server_round: int) -> bool:
        """Nothing is sent in this round: it is over already, or the run is."""
        return self.watch.replays(server_round) or self.watch.stopped
