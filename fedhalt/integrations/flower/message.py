"""EarlyStopping for strategies of Flower's Message API (`flwr.serverapp.strategy`)."""

from __future__ import annotations

import inspect
import io
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from ...errors import FedhaltError
from ...measure.arrays import all_finite
from ..host import LOG
from .wrapper import StoppingStrategy

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


class Halt(BaseException):
    """Leaves Flower's loop over rounds, which has no other door; an `except Exception` in a strategy must not catch it.

    It is raised in `configure_train` and caught in `start_stoppable`, and nowhere else. The hook that would replace it
    is drafted in docs/adapters.md.
    """


@dataclass
class AveragedResult(Result):
    """Flower's Result of a run with `average=`: `arrays` is the average, `last_arrays` the last global model."""

    last_arrays: ArrayRecord = field(default_factory=ArrayRecord)


class MessageStopping(StoppingStrategy, Strategy):
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
        result: Result = self.start_stoppable(
            super().start, grid, initial_arrays, num_rounds, timeout, train_config, evaluate_config, evaluate_fn
        )
        return result

    def start_stoppable(self, start: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """One run of `start`, ended by the rule."""
        signature = inspect.signature(start)
        if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in signature.parameters.values()):
            # it passes on what Flower's own takes
            signature = inspect.signature(super().start)
        try:
            bound = signature.bind(*args, **options)
        except TypeError as error:
            raise FedhaltError(f"start(): {error}") from None
        self.run.begin_run(_planned(bound))
        began = time.time()
        try:
            self._enter(bound.arguments)
            result = start(*bound.args, **bound.kwargs)
            self.run.judge()
            return self._completed(result) if isinstance(result, Result) else result
        except Halt:
            LOG.info("")
            LOG.info("fedhalt: %s; nothing more is sent", self.run.told)
            result = self._result()
            _log_final(result, time.time() - began)
            return result
        finally:
            self.run.end()

    def _enter(self, arguments: dict[str, Any]) -> None:
        """Puts itself around the evaluation; if nothing was trained yet, the saved theta_0 is the initial model."""
        if arguments.get("evaluate_fn") is not None:
            arguments["evaluate_fn"] = self._evaluation(arguments["evaluate_fn"])
        if self.run.last is not None and "initial_arrays" in arguments:
            self.run.check_start(arguments["initial_arrays"])
            if self.run.last_saved == 0:
                arguments["initial_arrays"] = self.run.last
        elif self.run.last_saved == 0:
            self.run.forget()

    def summary(self) -> None:
        LOG.info("\t├──> Early stopping: %s", self.run.rule)
        self.strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        if not self.run.running:
            raise FedhaltError(
                "EarlyStopping must be the outermost strategy, whose start() is called: "
                "EarlyStopping(DifferentialPrivacy…(FedAvg()))"
            )
        if self.run.replays(server_round):
            self._replay_config("train", server_round, config)
            return []
        self.run.begin_round(arrays)
        if self.run.stopped:
            raise Halt
        self.run.configs.given("train", config)
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        self.run.configs.left("train", config)
        return self._counted("bytes_down", messages)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        if self.run.replays(server_round):
            return self._replayed_model(server_round), self._replayed("train", server_round)
        arrays, metrics = self.strategy.aggregate_train(server_round, self._counted("bytes_up", replies))
        self.run.finish_training(server_round, arrays, metrics)
        return arrays, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        if self.run.replays(server_round):
            self._replay_config("evaluate", server_round, config)
            return []
        self.run.configs.given("evaluate", config)
        messages = list(self.strategy.configure_evaluate(server_round, arrays, config, grid))
        self.run.configs.left("evaluate", config)
        return self._counted("bytes_down", messages)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        if self.run.replays(server_round):
            return self._replayed("client", server_round)
        counted = self._counted("bytes_up", replies)
        metrics: MetricRecord | None = self.strategy.aggregate_evaluate(server_round, counted)
        self.run.record("client", server_round, metrics)
        return metrics

    def _counted(self, column: str, messages: Iterable[Message]) -> Iterable[Message]:
        counted: Iterable[Message] = self.run.counted(column, messages, _size)
        return counted

    def _evaluation(self, evaluate: Evaluate) -> Evaluate:
        def evaluate_fn(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            if self.run.replays(server_round):
                return self._replayed("server", server_round)
            metrics = evaluate(server_round, arrays)
            self.run.record("server", server_round, metrics)
            return metrics

        return evaluate_fn

    def _replay_config(self, kind: str, server_round: int, config: ConfigRecord) -> None:
        self.run.configs.given(kind, config)
        if server_round == self.run.last_saved:
            self.run.configs.put_back(kind, config)

    def _replayed_model(self, server_round: int) -> ArrayRecord | None:
        """The saved model, in its own round only: an app that keeps the best must not take it for others."""
        return self.run.last if server_round == self.run.last_saved else None

    def _replayed(self, kind: str, server_round: int) -> MetricRecord | None:
        found = self.run.history[kind].get(server_round) if server_round == self.run.last_saved else None
        return None if found is None else MetricRecord(found)

    def _completed(self, result: Result) -> Result:
        """With the metrics of the replayed rounds, which were not handed out, and with a finite model."""
        saved = self._result()
        for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp"):
            replayed = {r: metrics for r, metrics in getattr(saved, name).items() if self.run.replays(r)}
            setattr(result, name, dict(sorted({**replayed, **getattr(result, name)}.items())))
        if self.run.averages:
            return self._averaged(result)
        if self.run.last is not None and not (len(result.arrays) and all_finite(result.arrays)):
            result.arrays = self.run.last
        return result

    def _result(self) -> Result:
        train, client, server = (
            {r: MetricRecord(metrics) for r, metrics in by_round.items()} for by_round in self.run.history.values()
        )
        result = Result(self.run.last, train, client, server)
        return self._averaged(result) if self.run.averages else result

    def _averaged(self, result: Result) -> AveragedResult:
        """The same with the average in the place of the last model, which stands beside it."""
        metrics = (
            result.train_metrics_clientapp,
            result.evaluate_metrics_clientapp,
            result.evaluate_metrics_serverapp,
        )
        return AveragedResult(self.run.shipped("average"), *metrics, last_arrays=self.run.last)


def _size(message: Message) -> int:
    """The bytes of a message's arrays; an error has none."""
    records = [] if message.has_error() else message.content.array_records.values()
    return sum(len(array.data) for record in records for array in record.values())


def _planned(call: inspect.BoundArguments) -> int | None:
    """The rounds that this call of start() asks for, if it is one that says so."""
    default = call.signature.parameters["num_rounds"].default if "num_rounds" in call.signature.parameters else None
    rounds = call.arguments.get("num_rounds", default)
    return rounds if isinstance(rounds, int) and not isinstance(rounds, bool) and rounds > 0 else None


def _log_final(result: Result, seconds: float) -> None:
    """Flower's own last lines, which its loop writes only when it is not left."""
    flower = logging.getLogger("flwr")
    flower.info("")
    flower.info("Strategy execution finished in %.2fs", seconds)
    flower.info("")
    flower.info("Final results:")
    flower.info("")
    for line in io.StringIO(str(result)):
        flower.info("\t%s", line.strip("\n"))
    flower.info("")
