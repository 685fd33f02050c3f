"""Sinks: the servers at the end of the road, SMTP for outside domains and LMTP for mailboxes.

A sink takes everything, unless it was told to answer otherwise, and records what it took for whom.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from conformance.history.events import Delivered
from conformance.history.recorder import Recorder
from conformance.scenarios.steps.breaking import Answer
from conformance.wire.content import digest
from conformance.wire.link import Address, RecordedSession
from conformance.wire.sink_session import SinkSession
from conformance.wire.sockets import BACKLOG


class Registry(Protocol):
    """Who knows which session a connection belongs to (conformance.wire.links.Links)."""

    def session_behind(self, port: int, dialled: int) -> RecordedSession | None:
        """Return who is behind a connection, by the port it comes from and the port it dialled."""
        ...


@dataclass(slots=True)
class _Scripted:
    answer: Answer
    left: int | None

    def take(self) -> str:
        if self.left is not None:
            self.left -= 1
        return self.answer.reply


class Script:
    """The answers that a sink was told to give; the latest that fits counts, until it is used up."""

    def __init__(self) -> None:
        self._answers: list[_Scripted] = []

    def add(self, answer: Answer) -> None:
        """Take an answer; `accept` ends the earlier ones at its place (for its recipient, where it names one)."""
        if answer.reply == "accept":
            self._answers = [
                known
                for known in self._answers
                if known.answer.at != answer.at or answer.recipient not in (None, known.answer.recipient)
            ]
        else:
            self._answers.append(_Scripted(answer, answer.times))

    def clear(self) -> None:
        """Forget every answer."""
        self._answers.clear()

    def due(self, at: str, recipient: str | None = None) -> str | None:
        """Return the answer that is to be given now, and count it."""
        for known in reversed(self._answers):
            wanted = known.answer.recipient
            fits = wanted is None or (recipient is not None and wanted.lower() == recipient.lower())
            if known.answer.at == at and fits and known.left != 0:
                return known.take()
        return None


class Sink:
    """One sink: its name as a party, its address, and the answers it was told to give."""

    def __init__(self, name: str, protocol: Literal["smtp", "lmtp"], recorder: Recorder, registry: Registry) -> None:
        self.name = name
        self.protocol = protocol
        self._recorder = recorder
        self._registry = registry
        self._script = Script()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Transport] = set()
        self._failures: list[Exception] = []
        self._address: Address | None = None
        self.on_delivery: Callable[[str, list[str], bytes], None] | None = None
        """Given the sender, the recipients and the content of each message that is taken."""

    @property
    def address(self) -> Address:
        """Where it listens. Raises RuntimeError when it was never open."""
        if self._address is None:
            raise RuntimeError(f"the sink {self.name} is not open")
        return self._address

    async def open(self) -> None:
        """Listen on a free loopback port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: SinkSession(self), "127.0.0.1", 0, backlog=BACKLOG)
        host, port = self._server.sockets[0].getsockname()[:2]
        self._address = (host, port)

    async def close(self) -> None:
        """Stop listening and leave every client. Raises the first exception that a session met, if there was one."""
        if self._server is not None:
            self._server.close()
        for transport in tuple(self._connections):
            transport.abort()
        await asyncio.sleep(0)
        failures, self._failures = self._failures, []
        if failures:
            raise failures[0]

    def failed(self, error: Exception) -> None:
        """Keep an exception of a session until the sink is closed."""
        self._failures.append(error)

    def answer(self, answer: Answer) -> None:
        """Answer as told from now on."""
        self._script.add(answer)

    def clear_answers(self) -> None:
        """Take everything again."""
        self._script.clear()

    def opened(self, transport: asyncio.Transport) -> None:
        """Note a connection."""
        self._connections.add(transport)

    def closed(self, transport: asyncio.Transport) -> None:
        """Note that a connection has ended."""
        self._connections.discard(transport)

    def take(self, port: int, sender: str, recipients: list[str], content: bytes) -> list[str]:
        """Decide about a message from the client at a port; return one reply, or with LMTP one for each recipient."""
        summary = digest(content)
        replies = []
        accepted = []
        for recipient in recipients:
            refusal = self._script.due("dot", recipient) if self.protocol == "lmtp" else None
            replies.append(refusal or f"250 2.1.5 <{recipient}> delivered")
            if refusal is None or refusal.startswith("2"):
                accepted.append(recipient)
        if self.protocol == "smtp":
            whole = self._script.due("dot") or next(
                (reply for to in recipients if (reply := self._script.due("dot", to))), None
            )
            replies = [whole or "250 2.0.0 delivered"]
            accepted = recipients if replies[0].startswith("2") else []
        if accepted and self.on_delivery is not None:
            self.on_delivery(sender, accepted, content)
        origin = self._registry.session_behind(port, self.address[1])
        for recipient in accepted:
            self._recorder.record(
                Delivered,
                sink=self.name,
                giver=origin.client if origin else "",
                session=origin.session if origin else None,
                recipient=recipient,
                sender=sender,
                digest=summary,
            )
        return replies

    def scripted(self, at: str, recipient: str | None = None) -> str | None:
        """Return what to answer instead of taking it, if anything."""
        return self._script.due(at, recipient)


async def open_sink(name: str, protocol: str, recorder: Recorder, registry: Registry) -> Sink:
    """Open a sink. Raises ValueError for a protocol other than `smtp` and `lmtp`, OSError when no port is free."""
    if protocol not in ("smtp", "lmtp"):
        raise ValueError(f"a sink speaks smtp or lmtp, not {protocol!r}")
    sink = Sink(name, "lmtp" if protocol == "lmtp" else "smtp", recorder, registry)
    await sink.open()
    return sink
