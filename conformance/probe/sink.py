"""The sink of the probe: takes the mail that the server under probe passes on, and keeps it.

The server passes mail on to it if the user has configured that. `conformance.wire.sink_session` speaks SMTP with the
server, and calls the methods of `ProbeSink`; checks look at `messages`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from conformance.wire.sink_session import OFFERED, SinkSession
from conformance.wire.sockets import describe_error


class SinkError(Exception):
    """The sink cannot listen; the text says why."""


@dataclass(frozen=True, slots=True)
class SunkMessage:
    """A message that came: its reverse-path, its recipients, its content without dot-stuffing."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes


class ProbeSink:
    """Accepts everything; content ends at CRLF . CRLF only."""

    name = "probe"
    protocol: Literal["smtp", "lmtp"] = "smtp"
    keywords: tuple[str, ...] = OFFERED
    secured_keywords: tuple[str, ...] = OFFERED

    def __init__(self) -> None:
        self.messages: list[SunkMessage] = []
        self._changed = asyncio.Event()
        self._transports: set[asyncio.Transport] = set()

    async def wait_until(self, condition: Callable[[], bool], limit: float) -> bool:
        """Wait until a condition on `messages` holds, and return whether it does within `limit` seconds."""
        try:
            async with asyncio.timeout(limit):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return condition()
        return True

    def record_secured(self, port: int) -> None:
        """Return None: what is said within TLS is not recorded."""

    def take_scripted_reply(self, at: str, recipient: str | None = None) -> str | None:
        """Return None: nothing is refused."""
        return None

    def deliver(self, port: int, sender: str, recipients: list[str], content: bytes) -> list[str]:
        """Keep a message, wake `wait_until`, and return the one reply, which accepts it."""
        self.messages.append(SunkMessage(sender, tuple(recipients), content))
        self._changed.set()
        return ["250 2.0.0 kept"]

    def connection_opened(self, transport: asyncio.Transport) -> None:
        """Note an open connection."""
        self._transports.add(transport)

    def connection_closed(self, transport: asyncio.Transport) -> None:
        """Forget a connection."""
        self._transports.discard(transport)

    def note_failure(self, error: Exception) -> None:
        """Raise the exception: it can only be a mistake of the harness, since `deliver` refuses nothing."""
        raise error

    def abort(self) -> None:
        """Close all connections."""
        for transport in tuple(self._transports):
            transport.abort()


@asynccontextmanager
async def open_sink(port: int) -> AsyncIterator[ProbeSink]:
    """Listen on this loopback port, yield the sink, and close it at the end of the block. Raises SinkError if it cannot listen."""
    sink = ProbeSink()
    try:
        server = await asyncio.get_running_loop().create_server(lambda: SinkSession(sink), "127.0.0.1", port)
    except OSError as error:
        raise SinkError(describe_error(error)) from None
    try:
        yield sink
    finally:
        server.close()
        sink.abort()
        await asyncio.sleep(0)  # the connections' ends are handled
