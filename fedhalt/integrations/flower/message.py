"""EarlyStopping for strategies of Flower's Message API (`flwr.serverapp.strategy`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from ...check import FedhaltError
from ...rules.motion import why
from .state import LOG
from .stopping import EarlyStopping
from .watch import Halt

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


class MessageStopping(EarlyStopping, Strategy):
    """EarlyStopping around a strategy of the Message API."""

    hooks = ("configure_train", "aggregate_train", "configure_evaluate", "aggregate_evaluate", "summary")

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> Result:
        """Flower's own loop over rounds, ended by the rule; what it returns is a normal Result."""
        result: Result = self.run(
            super().start, grid, initial_arrays, num_rounds, timeout, train_config, evaluate_config, evaluate_fn
        )
        return result

    def run(self, start: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """One run of `start`, watched."""
        known = inspect.signature(start)
        if any(part.kind in (part.VAR_POSITIONAL, part.VAR_KEYWORD) for part in known.parameters.values()):
            known = inspect.signature(super().start)  # it passes on what Flower's own takes
        try:
            given = known.bind(*args, **options)
        except TypeError as error:
            raise FedhaltError(f"start(): {error}") from None
        self.watch.begin()
        try:
            self._enter(given.arguments)
            result = start(*given.args, **given.kwargs)
            self.watch.judge()
            return result
        except Halt:
            status = self.watch.status
            assert status is not None
            LOG.info("")
            reason = why(status.reason, status.exponent, status.motion)
            LOG.info("fedhalt: stopped after round %s (%s); nothing more is sent", status.round, reason)
            return self._result()
        finally:
            self.watch.end()

    def _enter(self, arguments: dict[str, Any]) -> None:
        """Puts itself around the evaluation, and the saved model in the place of the initial one."""
        if arguments.get("evaluate_fn") is not None:
            arguments["evaluate_fn"] = self._evaluation(arguments["evaluate_fn"])
        if self.watch.model is not None:
            if "initial_arrays" in arguments:
                self.watch.check_start(arguments["initial_arrays"])
                arguments["initial_arrays"] = self.watch.model
            elif self.watch.done == 0:
                self.watch.forget()

    def summary(self) -> None:
        LOG.info("\t├──> Early stopping: %s", self.watch.rule)
        self.strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        if not self.watch.running:
            raise FedhaltError(
                "EarlyStopping must be the outermost strategy, whose start() is called: "
                "EarlyStopping(DifferentialPrivacy…(FedAvg()))"
            )
        if self.watch.replays(server_round):
            return []
        self.watch.before_round(arrays)
        if self.watch.stopped:
            raise Halt
        messages: Iterable[Message] = self.strategy.configure_train(server_round, arrays, config, grid)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        if self.watch.replays(server_round):
            return self.watch.model, self._recorded("train", server_round)
        arrays, metrics = self.strategy.aggregate_train(server_round, replies)
        self.watch.trained(server_round, arrays, metrics)
        return arrays, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        if self.watch.replays(server_round):
            return []
        messages: Iterable[Message] = self.strategy.configure_evaluate(server_round, arrays, config, grid)
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        if self.watch.replays(server_round):
            return self._recorded("client", server_round)
        metrics: MetricRecord | None = self.strategy.aggregate_evaluate(server_round, replies)
        self.watch.measured("client", server_round, metrics)
        return metrics

    def _evaluation(self, evaluate: Evaluate) -> Evaluate:
        def evaluate_fn(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            if self.watch.replays(server_round):
                return self._recorded("server", server_round)
            metrics = evaluate(server_round, arrays)
            self.watch.measured("server", server_round, metrics)
            return metrics

        return evaluate_fn

    def _recorded(self, kind: str, server_round: int) -> MetricRecord | None:
        found = self.watch.metrics[kind].get(server_round)
        return None if found is None else MetricRecord(found)

    def _result(self) -> Result:
        train, client, server = (
            {r: MetricRecord(metrics) for r, metrics in by_round.items()} for by_round in self.watch.metrics.values()
        )
        return Result(self.watch.model, train, client, server)
