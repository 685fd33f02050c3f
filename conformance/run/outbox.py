"""The messages that the harness made for a cell, and its background sends.

A *background send* is the task of a `send`, `resend` or `talk` step with `background`, which goes on while later steps run. The
world of a cell has one `Outbox`; the handlers of these steps fill it, `await` steps and the drain wait for its tasks.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from conformance.scenarios.steps.sending import Send
from conformance.wire.sender import SendResult


@dataclass(slots=True)
class OutMessage:
    """A message of the harness: its name in the scenario (`m#3`), its recipients and octets, its step, and each attempt."""

    name: str
    recipients: tuple[str, ...]
    content: bytes
    step: Send
    attempts: list[SendResult] = field(default_factory=list)


class Outbox:
    """All messages of a cell by name, and its background sends.

    `_sends` has the tasks of background sends, also those that have ended, by the name of their step or conversation. The name
    of a step is the part of its messages' names before `#`.
    """

    def __init__(self) -> None:
        self._messages: dict[str, OutMessage] = {}
        self._sends: dict[str, list[asyncio.Task[None]]] = {}

    def add(self, message: OutMessage) -> None:
        """Add a message under its name. Raises KeyError when the name is taken."""
        if message.name in self._messages:
            raise KeyError(f"a message {message.name} was made before; give the step another `as`")
        self._messages[message.name] = message

    def find(self, name: str) -> list[OutMessage]:
        """Return the messages that `m` (all of a step, in the order of their making) or `m#3` (one) names.

        Raises KeyError when there is none.
        """
        found = [m for key, m in self._messages.items() if key == name or key.partition("#")[0] == name]
        if not found:
            raise KeyError(f"no message {name!r} was made before this step")
        return found

    def add_background_send(self, name: str, task: asyncio.Task[None]) -> None:
        """Note a running task that sends the messages of the step `name` (or `m#3` of it), or holds the conversation of that name."""
        self._sends.setdefault(name.partition("#")[0], []).append(task)

    async def wait_for_sends(self, name: str) -> None:
        """Wait until the background sends of a step or conversation have ended, in the order in which they were begun.

        Raises what one of them raised, without waiting for those begun after it. `m#3` stands for its whole step `m`. Returns at once
        for a name without background sends, also if there is no such step.
        """
        for task in self._sends.get(name.partition("#")[0], []):
            await task

    @property
    def sending(self) -> Iterable[asyncio.Task[None]]:
        """The tasks of the background sends that have not ended."""
        return [task for tasks in self._sends.values() for task in tasks if not task.done()]
