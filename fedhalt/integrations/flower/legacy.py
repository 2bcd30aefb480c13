"""EarlyStopping for strategies of Flower's legacy API (`flwr.server.strategy`), also under SecAggPlusWorkflow."""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakValueDictionary

from flwr.common import EvaluateIns, EvaluateRes, FitIns, FitRes, Parameters, Scalar
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from ..host import LOG
from .run import FlowerRun
from .wrapper import StoppingStrategy

Failures = list[tuple[ClientProxy, Any] | BaseException]

_HOLDERS: WeakValueDictionary[str, FlowerRun] = WeakValueDictionary()
"""Who holds a state folder in this process: the legacy API does not say when a run ends, so the next one takes over."""


class LegacyStopping(StoppingStrategy, Strategy):
    """EarlyStopping for a legacy strategy: after the stop, no client is chosen and nothing is evaluated.

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
        if self.run.state is not None:
            key = os.path.abspath(self.run.state)
            if key in _HOLDERS:
                _HOLDERS[key].end()
            _HOLDERS[key] = self.run
        self.run.begin_run()
        parameters: Parameters | None = self.strategy.initialize_parameters(client_manager)
        if self.run.last is None:
            return parameters
        if parameters is not None:
            self.run.check_start(parameters)
        saved: Parameters = self.run.last
        return saved

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        if self._idle(server_round):
            self._explain()
            return []
        self.run.begin_round(parameters)
        chosen: list[tuple[ClientProxy, FitIns]] = self.strategy.configure_fit(server_round, parameters, client_manager)
        self.run.counted("bytes_down", chosen, _size)
        return chosen

    def aggregate_fit(
        self, server_round: int, results: list[tuple[ClientProxy, FitRes]], failures: Failures
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        self.run.counted("bytes_up", results, _size)
        parameters, metrics = self.strategy.aggregate_fit(server_round, results, failures)
        self.run.finish_training(server_round, parameters, metrics)
        return parameters, metrics

    def evaluate(self, server_round: int, parameters: Parameters) -> tuple[float, dict[str, Scalar]] | None:
        if self.run.replays(server_round):
            found = dict(self.run.history["server"].get(server_round, {}))
            return (found.pop("loss"), found) if found else None
        if self.run.stopped:
            return None
        result: tuple[float, dict[str, Scalar]] | None = self.strategy.evaluate(server_round, parameters)
        if result is not None:
            self.run.record("server", server_round, {**result[1], "loss": result[0]})
        return result

    def configure_evaluate(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, EvaluateIns]]:
        if self._idle(server_round):
            return []
        chosen: list[tuple[ClientProxy, EvaluateIns]]
        chosen = self.strategy.configure_evaluate(server_round, parameters, client_manager)
        self.run.counted("bytes_down", chosen, _size)
        if not chosen:
            self.run.judge()
        return chosen

    def aggregate_evaluate(
        self, server_round: int, results: list[tuple[ClientProxy, EvaluateRes]], failures: Failures
    ) -> tuple[float | None, dict[str, Scalar]]:
        loss, metrics = self.strategy.aggregate_evaluate(server_round, results, failures)
        if loss is not None:
            self.run.record("client", server_round, {**metrics, "loss": loss})
        self.run.judge()
        return loss, metrics

    def _explain(self) -> None:
        """Says once why Flower's log goes on after the stop."""
        if self.run.stopped and not self.run.explained:
            self.run.explained = True
            LOG.info(
                "fedhalt: %s; Flower's legacy loop cannot be left, so its remaining rounds pass by empty: nothing is "
                "sent, and nothing changes",
                self.run.told,
            )

    def _idle(self, server_round: int) -> bool:
        """Nothing is sent in this round: it is over already, or the run is."""
        return self.run.replays(server_round) or self.run.stopped


def _size(sent: tuple[ClientProxy, FitIns | FitRes | EvaluateIns]) -> int:
    """The bytes of the parameters for one client, or from it."""
    return sum(map(len, sent[1].parameters.tensors))
