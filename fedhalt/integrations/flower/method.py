"""FedMethod: the server half of fedhalt's methods as a Flower strategy."""

from __future__ import annotations

import inspect
import logging
import secrets
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from ... import files, methods
from ...errors import FedhaltError, positive, require_one_of, whole
from ...measure.arrays import all_finite
from ...methods import Facts, Setting
from ...methods.convert import to_arrays, to_numpy, to_vectors
from ...methods.local import Local
from ...methods.replies import Replies
from ...methods.vector import Vectors
from ...simulation.seeds import rng
from ..host import LOG, show_lines
from .layout import Layout
from .replies import (
    BUFFERS,
    BadReply,
    Form,
    Intake,
    NotOurs,
    Reply,
    metrics_form,
    read_metrics,
    read_reply,
    too_large,
    unlike_most,
)
from .roster import Client, Roster

Numpy = dict[str, Any]

RECORDS = ("weighted_by_key", "arrayrecord_key", "configrecord_key")
"""Options of FedAvg that name records; the two halves have fixed names for them."""

STATISTICS = ("*running_mean", "*running_var")
"""Floating-point arrays of a torch model that are not parameters."""


class FedMethod(FedAvg):
    """Any of the fourteen methods as a Flower strategy. The clients use `client_app`.

    A reply that is not valid (see `replies.py`) counts as lost.

    Args:
        method: The name of the method, such as "scaffold".
        cohort: How many clients to draw per round, from the seed, as `fedhalt run` does. Default: Flower draws
            (`fraction_train`).
        population: The number of all clients. Default: all connected ones.
        seed: The seed of the cohorts.
        weighting: The weights of the mean: "uniform" or "samples".
        untrained: Glob patterns of arrays that are not parameters. Running statistics among them are averaged if the
            clients send them.
        min_replies: A round with fewer valid replies is skipped.
        max_norm_ratio: Drops a reply with a vector whose norm is more than this many times the median of the cohort.
        compat: "authors" computes what the authors' code computes.
        setting: What the authors' code takes from outside the method.
        **options: Hyperparameters of the method (`lam=0.01`), and options of Flower's FedAvg (`fraction_evaluate=0.0`).

    Raises:
        FedhaltError: If a name is unknown, or a setting is out of range.

    Examples:
        >>> from fedhalt.integrations.flower import EarlyStopping, FedMethod
        >>> strategy = EarlyStopping(FedMethod("fedprox", lam=0.01, fraction_evaluate=0.0), threshold=0.01, patience=10)
        >>> strategy.strategy.method
        FedProx(server_lr=1.0, lam=0.01)
    """

    fedhalt_state = ("state", "run", "visited", "confirmed")
    """What a resumed run needs (`EarlyStopping(…, state=…)`)."""

    def __init__(
        self,
        method: str,
        *,
        cohort: int | None = None,
        population: int | None = None,
        seed: int = 0,
        weighting: str = "uniform",
        untrained: Iterable[str] = STATISTICS,
        min_replies: int = 1,
        max_norm_ratio: float | None = None,
        compat: str | None = None,
        setting: Setting | None = None,
        **options: Any,
    ) -> None:
        hyperparameters = _split_hyperparameters(method, options)
        self.cohort = None if cohort is None else whole("cohort", cohort)
        if self.cohort is not None:
            if {"fraction_train", "min_train_nodes"} & set(options):
                raise FedhaltError(f"cohort={cohort} draws the clients: leave fraction_train and min_train_nodes out")
            options.setdefault("min_available_nodes", max(2, self.cohort))
        super().__init__(**options)
        show_lines("flwr")
        self.method: Any = methods.create(method, compat=compat, setting=setting, **hyperparameters)
        self.description = _describe(method, self.method, compat, setting)
        self.population = None if population is None else whole("population", population)
        self.seed = whole("seed", seed, least=0)
        self.weighting = require_one_of("weighting", weighting, ("uniform", "samples"))
        self.untrained = (untrained,) if isinstance(untrained, str) else tuple(untrained)
        self.min_replies = whole("min_replies", min_replies)
        if self.cohort is not None and self.min_replies > self.cohort:
            raise FedhaltError(f"min_replies={min_replies} cannot be more than the cohort of {cohort}")
        self.max_norm_ratio = None if max_norm_ratio is None else positive("max_norm_ratio", max_norm_ratio)
        self.state: Numpy | None = None
        """The server's vectors but the parameters, which are the strategy's arrays."""
        self.run: str | None = None
        """Names this federated training to the clients' memories, over restarts."""
        self.visited: list[int] = []
        self.confirmed = 0
        """The last round whose replies arrived: clients keep their memory from then."""
        self.fedhalt_diverged = False
        """Whether the last round had no finite result: EarlyStopping judges it as diverged; the model stays."""
        self._continued: bool | None = None
        self._roster = Roster()
        self._asked: list[int] = []
        self._forms: dict[str, Form] = {}

    @property
    def fedhalt_identity(self) -> str:
        """What must not change when a run resumes."""
        return f"FedMethod({self.description}, cohort={self.cohort}, seed={self.seed}, weighting={self.weighting!r})"

    def summary(self) -> None:
        facts: Facts = self.method.facts
        drawn = f"a cohort of {self.cohort}, seed {self.seed}" if self.cohort else f"{self.fraction_train:.2f} of them"
        mean = "uniform" if self.weighting == "uniform" else f"weighted by '{self.weighted_by_key}'"
        flower = logging.getLogger("flwr")
        flower.info("\t├──> %s: %s", facts.title, self.method)
        flower.info("\t├──> Sampling:")
        flower.info("\t│\t├──Nodes: train (%s) | evaluate (%.2f of them)", drawn, self.fraction_evaluate)
        flower.info("\t│\t├──Minimum nodes: train (%d) | evaluate (%d)", self.min_train_nodes, self.min_evaluate_nodes)
        flower.info("\t│\t└──Minimum available nodes: %d", self.min_available_nodes)
        flower.info("\t└──> Means: of the updates (%s) | of the metrics (weighted by '%s')", mean, self.weighted_by_key)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The model under its names, the method's other vectors, and who receives them."""
        if self._continued is None:
            self._continued = self.state is not None
        self._layout = Layout(arrays, self.untrained)
        x = self._layout.parameters()
        if server_round == 1 or self.state is None:
            self.state, self.visited = _without_x(self.method.server_init(x)), []
            self.run, self.confirmed, self._forms = secrets.token_hex(8), 0, {}
        state = {"x": x, **to_vectors(self.state)}
        self._forms = self._forms or _reply_forms(self.method, state, self._layout.running_statistics())
        messages = list(super().configure_train(server_round, arrays, config, grid))
        self._connected = set(grid.get_node_ids())
        chosen = self._choose(server_round, messages, grid)
        self._asked = [message.metadata.dst_node_id for message in chosen]
        self._population = self.population or len(self._connected)
        down = {name: Array(to_numpy(state[name])) for name in self.method.down if name != "x"}
        instructions: dict[str, Any] = {
            "method": self.description,
            "round": server_round,
            "run": str(self.run),
            "confirmed": self.confirmed,
            "trained": self._layout.trained,
            "statistics": self._layout.statistics,
        }
        for message in chosen:
            message.content["down"] = ArrayRecord(down)
            message.content["fedhalt"] = ConfigRecord(instructions)
        return chosen

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Sums the replies in the order of the cohort; the method turns the sums into the new model."""
        intake = Intake(replies, self._read)
        intake.drop(unlike_most(intake.good, lambda reply: (metrics_form(reply.metrics), BUFFERS in reply.vectors)))
        if self.max_norm_ratio is not None:
            intake.drop(too_large(intake.good, self.max_norm_ratio))
        _log_failed(intake)
        self._check_halves(intake)
        self.fedhalt_diverged = intake.diverged
        if not intake.good and not intake.failed:
            return None, None
        if intake.diverged or len(intake.good) < self.min_replies:
            return self._skip(server_round, intake)
        good = self._in_order(list(intake.good.values()))
        up = Replies(self._population, weighted=self.weighting == "samples")
        for position, reply in enumerate(good):
            up.add(position, to_vectors(reply.vectors), float(reply.samples))
        self._note_memory(good)
        state = self.method.server(up, x=self._layout.parameters(), **to_vectors(self.state or {}))
        arrays = self._layout.publish(state["x"], up.mean(BUFFERS) if BUFFERS in good[0].vectors else None)
        if not (all_finite(arrays) and all_finite(to_arrays(state))):
            self.fedhalt_diverged = True
            return self._skip(server_round, intake)
        self.state, self.confirmed = _without_x(state), server_round
        contents = [RecordDict({"metrics": MetricRecord(reply.metrics)}) for reply in good]
        metrics = self.train_metrics_aggr_fn(contents, self.weighted_by_key)
        return arrays, MetricRecord({**metrics, **intake.notes()})

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The mean of the clients' metrics. Replies without metrics, or with others than most, are left out."""
        intake = Intake(replies, lambda message: read_metrics(message, self.weighted_by_key))
        intake.drop(unlike_most(intake.good, metrics_form))
        _log_failed(intake)
        if not intake.good:
            return None
        contents = [RecordDict({"metrics": MetricRecord(metrics)}) for metrics in intake.good.values()]
        metrics = self.evaluate_metrics_aggr_fn(contents, self.weighted_by_key)
        return MetricRecord({**metrics, **intake.notes()})

    def _read(self, message: Message) -> Reply:
        """A reply of a node that was asked, under that node's client number."""
        node = message.metadata.src_node_id
        if node not in self._asked:
            raise BadReply("it was not asked")
        reply = read_reply(message, self._forms, self.weighted_by_key)
        self._roster.claim(node, Client(reply.client, reply.samples), self._connected)
        return reply

    def _in_order(self, replies: list[Reply]) -> list[Reply]:
        """In the order in which the cohort was drawn, or by number, so that sums do not depend on who replied first."""
        if self.cohort is not None:
            return sorted(replies, key=lambda reply: self._asked.index(reply.node))
        return sorted(replies, key=lambda reply: reply.client)

    def _skip(self, server_round: int, intake: Intake[Reply]) -> tuple[None, MetricRecord]:
        """A round without a result: the model stays as it is, and the record says so."""
        why = "it has no finite result" if self.fedhalt_diverged else f"{len(intake.good)} replies can be used"
        LOG.warning(
            "fedhalt: round %s is skipped: %s (min_replies=%s); the model stays", server_round, why, self.min_replies
        )
        return None, MetricRecord({"skipped": 1, **intake.notes()})

    def _check_halves(self, intake: Intake[Reply]) -> None:
        """A reply that is not fedhalt's is left out. If all replies are of that kind, the two halves do not fit
        together.
        """
        errors = [error for error in intake.failed.values() if isinstance(error, NotOurs)]
        if errors and len(errors) == len(intake.failed) and not intake.good and not self.confirmed:
            raise FedhaltError(f"no reply can be used: {errors[0]}")

    def _choose(self, server_round: int, messages: list[Message], grid: Grid) -> list[Message]:
        """All nodes that Flower chose, or the cohort by its client numbers."""
        if self.cohort is None:
            return messages
        to_node = {message.metadata.dst_node_id: message for message in messages}
        self._roster.ask(to_node, grid)
        by_number = self._roster.by_number(to_node)
        eligible = list(by_number)
        size = min(self.cohort, len(eligible))
        if size < self.cohort:
            text = f"a cohort of {self.cohort}, but only {size} connected clients answer and hold data"
            if server_round == 1:
                raise FedhaltError(f"{text}; wait for more with min_available_nodes")
            LOG.warning("fedhalt: %s", text)
        if not size:
            return []
        draw = rng(self.seed, "cohort", server_round)
        return [to_node[by_number[eligible[i]]] for i in draw.choice(len(eligible), size, replace=False)]

    def _note_memory(self, replies: list[Reply]) -> None:
        """Warns about lost memory: Flower's contexts end with the run and with the node."""
        if not self.method.facts.keeps:
            return
        empty = [reply.client for reply in replies if not reply.remembered]
        lost = [client for client in empty if client in self.visited or self._unknown(client)]
        if lost:
            LOG.warning(
                "fedhalt: clients %s have lost their memory of earlier rounds and start over; "
                "memory=FOLDER in a node's configuration keeps it over a restart",
                lost,
            )
        self.visited = sorted({*self.visited, *(reply.client for reply in replies)})

    def _unknown(self, client: int) -> bool:
        """In a resumed run, a node without a partition-id has a new number, so it cannot be recognized."""
        return bool(self._continued) and client >= 2**31


def _split_hyperparameters(method: str, options: dict[str, Any]) -> dict[str, Any]:
    """Takes the method's hyperparameters out of the options, which are then Flower's."""
    require_one_of("method", method, methods.METHODS)
    names = methods.hyperparameters(method)
    flower = set(inspect.signature(FedAvg).parameters) - set(RECORDS)
    for name in options:
        require_one_of(f"hyperparameter of {method} or option of Flower's FedAvg", name, [*names, *sorted(flower)])
    return {name: options.pop(name) for name in names if name in options}


def _describe(name: str, method: Any, compat: str | None, setting: Setting | None) -> str:
    """The method as its other half reads it."""
    hyperparameters = {key: getattr(method, key) for key in methods.hyperparameters(name)}
    made_with = {"name": name, "compat": compat, "setting": None if setting is None else asdict(setting)}
    return files.to_json({**made_with, "hyperparameters": hyperparameters})


def _reply_forms(method: Any, state: Vectors, statistics: torch.Tensor) -> dict[str, Form]:
    """What an honest client's reply looks like: that of a visit to a client whose gradient is zero."""
    visit = Local([torch.zeros_like], lr=1.0)
    down = {name: state[name] for name in method.down}
    reply, _ = method.client(visit, **down, **method.client_init(state["x"]))
    arrays = to_arrays({**reply, BUFFERS: statistics})
    return {name: (array.shape, array.dtype.str) for name, array in arrays.items()}


def _without_x(state: Vectors) -> Numpy:
    return {name: array for name, array in to_arrays(state).items() if name != "x"}


def _log_failed(intake: Intake[Any]) -> None:
    for node, error in intake.failed.items():
        LOG.warning("fedhalt: node %s failed: %s", node, error)
