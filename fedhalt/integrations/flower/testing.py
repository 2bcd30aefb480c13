"""A Flower federation in one process, for tests: Flower's strategies, messages and apps without a transport."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

__all__ = ["InProcessGrid"]

FIRST_NODE = 1000
"""The id of the node of partition 0; the others follow."""


class InProcessGrid(Grid):
    """Calls the ClientApp of every addressed node, one after the other, each with its own lasting context.

    `sent` lists the message type and the round of every message. To decide on whole replies, override `reply`.

    Args:
        app: The ClientApp.
        nodes: The number of nodes.
        node_config: Settings for the configuration of every node.
        broken: Called with the message type and the round; returns the partitions that reply with an error.

    Examples:
        >>> from flwr.clientapp import ClientApp
        >>> from fedhalt.integrations.flower.testing import InProcessGrid
        >>> grid = InProcessGrid(ClientApp(), nodes=3, broken=lambda message_type, r: (0,) if r == 2 else ())
        >>> len(grid.get_node_ids())
        3
    """

    def __init__(
        self,
        app: ClientApp,
        nodes: int = 3,
        node_config: Mapping[str, Any] | None = None,
        broken: Callable[[str, int], Iterable[int]] = lambda message_type, r: (),
    ) -> None:
        _identify_this_process()
        self.app, self.broken = app, broken
        self.contexts = {
            FIRST_NODE + partition: Context(
                run_id=1,
                node_id=FIRST_NODE + partition,
                node_config={"partition-id": partition, "num-partitions": nodes, **(node_config or {})},
                state=RecordDict(),
                run_config={},
            )
            for partition in range(nodes)
        }
        self.sent: list[tuple[str, int]] = []

    def get_node_ids(self) -> list[int]:
        return list(self.contexts)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        return [self.reply(message) for message in messages]

    def reply(self, message: Message) -> Message:
        """One node's reply: what the ClientApp returns, or an error with what it raised.

        Args:
            message: The message to the node.

        Returns:
            The reply.
        """
        message_type, node = message.metadata.message_type, message.metadata.dst_node_id
        r = round_of(message)
        self.sent.append((message_type, r))
        if node - FIRST_NODE in self.broken(message_type, r):
            return Message(Error(code=0, reason="broken on purpose"), reply_to=message)
        try:
            # a transport shares no object
            return self.app(copy.deepcopy(message), self.contexts[node])
        except Exception as error:
            return Message(Error(code=0, reason=repr(error)), reply_to=message)

    run: Any = SimpleNamespace(run_id=1)

    def set_run(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError("no strategy asks for this")

    create_message = push_messages = pull_messages = set_run


def round_of(message: Message) -> int:
    """The round that a message belongs to; 0 for messages without a round."""
    config: Any = message.content.config_records.get("config", {})
    return int(config.get("server-round", 0))


def _identify_this_process() -> None:
    """Newer releases of flwr ask who creates a message."""
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ImportError:
        return
    TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1
