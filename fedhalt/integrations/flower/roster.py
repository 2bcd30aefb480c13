"""Which client belongs to which node: asked once per node, never taken from a single reply."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from ..host import LOG
from .replies import LARGEST_COUNT, BadReply

ACTION = "fedhalt"
"""Our own query, so that an app's default one stays the app's."""

QUERY = f"{MessageType.QUERY}.{ACTION}"


class Client(NamedTuple):
    """What a node said about itself when it was asked."""

    number: int
    samples: int


class Roster:
    """The clients of a federation by their nodes.

    A node that another one names itself after does not lose its place: the first to have a number keeps it
    for as long as it is connected. Nodes that are new in the same round come in the order of their ids.
    """

    def __init__(self) -> None:
        self._clients: dict[int, Client] = {}

    def ask(self, nodes: Iterable[int], grid: Grid) -> None:
        """Asks nodes that are new for their numbers."""
        new = sorted(set(nodes) - self._clients.keys())
        if not new:
            return
        messages = [Message(RecordDict({}), dst_node_id=node, message_type=QUERY) for node in new]
        connected = set(grid.get_node_ids())
        for reply in sorted(grid.send_and_receive(messages), key=lambda reply: reply.metadata.src_node_id):
            node = reply.metadata.src_node_id
            try:
                if reply.has_error():
                    raise BadReply(str(reply.error.reason))
                self.claim(node, _read_answer(reply), connected)
            except BadReply as error:
                LOG.warning("fedhalt: node %s does not say who it is: %s", node, error)

    def claim(self, node: int, client: Client, connected: set[int]) -> None:
        """Gives the node its number; BadReply if it has another one, or if another node has it."""
        known = self._clients.get(node)
        if known is not None and known.number != client.number:
            raise BadReply(f"it says it is client {client.number}, but it is client {known.number}")
        for other in [other for other, taken in self._clients.items() if taken.number == client.number]:
            if other != node and other in connected:
                raise BadReply(f"two nodes have the partition-id {client.number}: node {other} keeps it")
            # a node that was started anew has another id
            del self._clients[other]
        self._clients[node] = client

    def by_number(self, nodes: Iterable[int]) -> dict[int, int]:
        """Of these nodes those that hold data, by the number of their client."""
        found = {self._clients[node].number: node for node in nodes if node in self._clients}
        return {number: node for number, node in sorted(found.items()) if self._clients[node].samples}


def _read_answer(reply: Message) -> Client:
    answer: Any = reply.content.metric_records.get("fedhalt", {})
    number, samples = answer.get("client"), answer.get("samples")
    if type(number) is not int or type(samples) is not int or number < 0 or not 0 <= samples <= LARGEST_COUNT:
        raise BadReply(f"its answer is {dict(answer)!r:.80}, not the numbers of a client and of its samples")
    return Client(number, samples)
