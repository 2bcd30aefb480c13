"""FedMethod: the server's half of fedhalt's methods as a Flower strategy."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from ... import files, methods
from ...check import FedhaltError, known, whole
from ...methods import Facts, Setting
from ...replies import Replies
from ...seeds import rng
from ...vector import Vectors
from .client import array_of
from .state import LOG

Numpy = dict[str, Any]

RECORDS = ("weighted_by_key", "arrayrecord_key", "configrecord_key")
"""Options of FedAvg's that name records: the two halves have agreed on them."""

STATISTICS = ("*running_mean", "*running_var")
"""Floating-point arrays of a torch model that are no parameters."""


class FedMethod(FedAvg):
    """Any of the thirteen methods on Flower: `FedMethod("scaffold", cohort=10)`, with `client_app` as its other half.

    Hyperparameters are given by name (`lam=0.01`), Flower's own options too (`fraction_evaluate=0.0`).
    With `cohort` so many clients are drawn a round, by their numbers, from the seed, as `fedhalt run`
    draws them; without it Flower draws (`fraction_train`). `population` is the number of all clients, by
    default of all that are connected. `untrained` are patterns of arrays that are no parameters; running
    statistics among them are averaged if the clients send them.
    """

    fedhalt_state = ("state", "run", "visited", "confirmed")
    """What a continued run needs (`EarlyStopping(…, state=…)`)."""

    def __init__(
        self,
        method: str,
        *,
        cohort: int | None = None,
        population: int | None = None,
        seed: int = 0,
        weighting: str = "uniform",
        untrained: Iterable[str] = STATISTICS,
        compat: str | None = None,
        setting: Setting | None = None,
        **options: Any,
    ) -> None:
        known("method", method, methods.METHODS)
        hyper = methods.hyperparameters(method)
        allowed = set(FedAvg.__init__.__annotations__) - {"return", *RECORDS}
        for name in options:
            known(f"hyperparameter of {method} or option of Flower's FedAvg", name, [*hyper, *sorted(allowed)])
        settings = {name: options.pop(name) for name in hyper if name in options}
        self.cohort = None if cohort is None else whole("cohort", cohort)
        if self.cohort is not None:
            if {"fraction_train", "min_train_nodes"} & set(options):
                raise FedhaltError(f"cohort={cohort} draws the clients: leave fraction_train and min_train_nodes out")
            options.setdefault("min_available_nodes", max(2, self.cohort))
        super().__init__(**options)
        self.method: Any = methods.create(method, compat=compat, setting=setting, **settings)
        self.described = _described(method, self.method, compat, setting)
        self.population = None if population is None else whole("population", population)
        self.seed = whole("seed", seed, least=0)
        self.weighting = known("weighting", weighting, ("uniform", "samples"))
        self.untrained = (untrained,) if isinstance(untrained, str) else tuple(untrained)
        self.state: Numpy | None = None
        """The server's vectors but the parameters, which are the strategy's arrays."""
        self.run: str | None = None
        """Names this federated training to the clients' memories, over restarts."""
        self.visited: list[int] = []
        self.confirmed = 0
        """The last round whose replies arrived: clients keep their memory from then."""
        self._continued: bool | None = None
        self._clients: dict[int, tuple[int, int]] = {}
        self._order: list[int] = []

    @property
    def fedhalt_identity(self) -> str:
        """What must not change when a run goes on."""
        return f"FedMethod({self.described}, cohort={self.cohort}, seed={self.seed}, weighting={self.weighting!r})"

    def summary(self) -> None:
        facts: Facts = self.method.facts
        LOG.info("\t├──> %s: %s", facts.title, self.method)
        super().summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The model under its names, the method's other vectors, and who receives them."""
        if self._continued is None:
            self._continued = self.state is not None
        self._arrays = arrays
        self._trained, self._statistics = self._names(arrays)
        x = self._flat(self._trained)
        if server_round == 1 or self.state is None:
            self.state, self.visited = _numpy(self.method.server_init(x), without="x"), []
            self.run, self.confirmed = secrets.token_hex(8), 0
        state = {"x": x, **_torch(self.state)}
        messages = list(super().configure_train(server_round, arrays, config, grid))
        chosen = self._chosen(server_round, messages, grid)
        self._population = self.population or len(list(grid.get_node_ids()))
        down = {name: array_of(state[name]) for name in self.method.down if name != "x"}
        said: dict[str, Any] = {"method": self.described, "round": server_round, "run": str(self.run)}
        said["confirmed"] = self.confirmed
        names = {"trained": self._trained, "statistics": self._statistics}
        for message in chosen:
            message.content["down"] = ArrayRecord(down)
            message.content["fedhalt"] = ConfigRecord({**said, **names})
        return chosen

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The sums of the replies, in the order of the cohort, turned into the new model by the method."""
        good = []
        for message in replies:
            if message.has_error():
                reason = message.error.reason
                LOG.warning("fedhalt: node %s failed: %s", message.metadata.src_node_id, reason)
            else:
                good.append(_checked(message.content))
        if not good:
            return None, None
        good.sort(key=self._place)
        up = Replies(self._population, weighted=self.weighting == "samples")
        for position, content in enumerate(good):
            up.add(position, _torch(content.array_records["up"]), float(_metrics(content)[self.weighted_by_key]))
        self._note_memory(good)
        state = self.method.server(up, x=self._flat(self._trained), **_torch(self.state or {}))
        self.state, self.confirmed = _numpy(state, without="x"), server_round
        published = self._shaped(self._trained, state["x"])
        if "buffers" in good[0].array_records["up"]:
            published |= self._shaped(self._statistics, up.mean("buffers"))
        arrays = ArrayRecord({name: Array(published.get(name, old.numpy())) for name, old in self._arrays.items()})
        return arrays, self.train_metrics_aggr_fn([_reported(content) for content in good], self.weighted_by_key)

    def _names(self, arrays: ArrayRecord) -> tuple[list[str], list[str]]:
        """The parameters, and the floating-point arrays that are none."""
        floats = [name for name, array in arrays.items() if "float" in array.dtype]
        apart = [name for name in floats if any(fnmatchcase(name, pattern) for pattern in self.untrained)]
        return [name for name in floats if name not in apart], apart

    def _flat(self, names: list[str]) -> torch.Tensor:
        if not names:
            raise FedhaltError(f"no parameters to train: every array is an integer or matches {self.untrained}")
        return torch.cat([torch.from_numpy(self._arrays[name].numpy()).reshape(-1) for name in names])

    def _shaped(self, names: list[str], vector: torch.Tensor) -> Numpy:
        """A flat vector under the names, shapes and types of the model's arrays."""
        olds = [self._arrays[name] for name in names]
        pieces = vector.split([int(np.prod(old.shape)) for old in olds])
        return {
            name: piece.reshape(tuple(old.shape)).numpy().astype(old.dtype)
            for name, old, piece in zip(names, olds, pieces, strict=True)
        }

    def _chosen(self, server_round: int, messages: list[Message], grid: Grid) -> list[Message]:
        """Everybody Flower chose, or the cohort by its numbers."""
        if self.cohort is None:
            self._order = []
            return messages
        self._ask([m.metadata.dst_node_id for m in messages if m.metadata.dst_node_id not in self._clients], grid)
        by_number: dict[int, Message] = {}
        for message in messages:
            client, samples = self._clients.get(message.metadata.dst_node_id, (-1, 0))
            if client in by_number:
                LOG.warning("fedhalt: two nodes have the partition-id %s; the last one takes part", client)
            if samples:
                by_number[client] = message
        eligible = sorted(by_number)
        size = min(self.cohort, len(eligible))
        if size < self.cohort:
            text = f"a cohort of {self.cohort}, but only {size} connected clients answer and hold data"
            if server_round == 1:
                raise FedhaltError(f"{text}; wait for more by min_available_nodes")
            LOG.warning("fedhalt: %s", text)
        draw = rng(self.seed, "cohort", server_round)
        self._order = [eligible[i] for i in draw.choice(len(eligible), size, replace=False)] if size else []
        return [by_number[client] for client in self._order]

    def _ask(self, nodes: list[int], grid: Grid) -> None:
        """Asks nodes that are new for their numbers."""
        messages = [Message(RecordDict({}), dst_node_id=node, message_type=MessageType.QUERY) for node in nodes]
        for reply in grid.send_and_receive(messages) if messages else []:
            if reply.has_error():
                LOG.warning(
                    "fedhalt: node %s does not say who it is: %s", reply.metadata.src_node_id, reply.error.reason
                )
            else:
                found = reply.content.metric_records["fedhalt"]
                self._clients[reply.metadata.src_node_id] = (int(found["client"]), int(found["samples"]))  # type: ignore

    def _place(self, content: RecordDict) -> int:
        client = int(_metrics(content)["client"])
        return self._order.index(client) if self._order else client

    def _note_memory(self, good: list[RecordDict]) -> None:
        """Says whose memory was lost: Flower's contexts end with the run, and with the node."""
        if self.method.facts.keeps:
            clients = {int(_metrics(content)["client"]): int(_metrics(content)["remembered"]) for content in good}
            lost = [c for c, kept in clients.items() if not kept and (c in self.visited or self._unknown(c))]
            if lost:
                LOG.warning(
                    "fedhalt: clients %s came without what they remembered of earlier rounds and begin anew; "
                    "memory=FOLDER in a node's configuration keeps it over a restart",
                    lost,
                )
            self.visited = sorted({*self.visited, *clients})

    def _unknown(self, client: int) -> bool:
        """In a continued run a node without a partition-id has a new number: nobody can tell who it was."""
        return bool(self._continued) and client >= 2**31


def _described(name: str, method: Any, compat: str | None, setting: Setting | None) -> str:
    """The method as its other half reads it."""
    said = {"name": name, "compat": compat, "setting": None if setting is None else asdict(setting)}
    return files.to_json(
        {**said, "hyperparameters": {key: getattr(method, key) for key in methods.hyperparameters(name)}}
    )


def _checked(content: RecordDict) -> RecordDict:
    if "up" not in content.array_records:
        raise FedhaltError(
            "a reply without fedhalt's vectors: FedMethod's other half is a ClientApp made by client_app(…)"
        )
    return content


def _metrics(content: RecordDict) -> Any:
    return content.metric_records["metrics"]


def _reported(content: RecordDict) -> RecordDict:
    """A reply's metrics without what only the two halves need."""
    internal = ("client", "remembered")
    kept = {name: value for name, value in _metrics(content).items() if name not in internal}
    return RecordDict({"metrics": MetricRecord(kept)})


def _torch(arrays: Any) -> Vectors:
    return {
        name: torch.from_numpy(np.array(array if isinstance(array, np.ndarray) else array.numpy()))
        for name, array in arrays.items()
    }


def _numpy(vectors: Vectors, without: str) -> Numpy:
    return {name: vector.numpy() for name, vector in vectors.items() if name != without}
