"""Plain peers for the wire's tests: a client and a server that note every octet, every read and how they were left."""

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from conformance.history.events import Event, FaultFired
from conformance.history.recorder import Recorder
from conformance.scenarios.steps.breaking import Fault
from conformance.wire.links import Links
from conformance.wire.relay import Relay
from conformance.wire.sockets import close_with_rst

E = TypeVar("E", bound=Event)

BODY = b"A: b\r\n\r\n0123456789\r\n"
"""The content that `send` sends."""


class Peer(asyncio.Protocol):
    """One end of a connection: `reads` is what each read gave, `how` whether it was left by FIN or RST."""

    def __init__(self) -> None:
        self.reads: list[bytes] = []
        self.how: str | None = None
        self.transport: asyncio.Transport
        self._news = asyncio.Event()

    @property
    def octets(self) -> bytes:
        return b"".join(self.reads)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.reads.append(data)
        self._news.set()

    def eof_received(self) -> bool:
        self.how = self.how or "fin"
        self._news.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self.how = "reset"
        self._news.set()

    def say(self, octets: bytes) -> None:
        self.transport.write(octets)

    def leave_with_reset(self) -> None:
        close_with_rst(self.transport)

    async def until(self, octets: bytes) -> bytes:
        """Wait until these octets have come; return all that has."""
        await self._until(lambda: octets in self.octets)
        return self.octets

    async def ask(self, said: bytes, answer: bytes) -> None:
        """Say something, and wait until its answer has come."""
        self.say(said)
        await self.until(answer)

    async def left(self) -> str | None:
        """Wait until the other side has left; return how."""
        await self._until(lambda: self.how is not None)
        return self.how

    async def lost(self) -> None:
        """Speak until that is answered by RST."""
        while self.how != "reset":
            self.say(b"x")
            await asyncio.sleep(0)

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():
            self._news.clear()
            await self._news.wait()


async def send(client: Peer) -> None:
    """Hand a message over, one command after another, as far as it goes."""
    await client.ask(b"MAIL FROM:<x@y>\r\n", b"250 2.0.0 MAIL\r\n")
    await client.ask(b"RCPT TO:<z@y>\r\n", b"250 2.0.0 RCPT\r\n")
    await client.ask(b"DATA\r\n", b"354 go on\r\n")
    await client.ask(BODY + b".\r\n", b"250 2.0.0 stored\r\n")


class MiniServer(Peer):
    """A server of the fewest words: 220, then 250 for all, 354 for DATA, 221 and FIN for QUIT."""

    def __init__(self, served: list[Peer]) -> None:
        super().__init__()
        served.append(self)
        self._in_content = False
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.say(b"220 mini\r\n")

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._rest += data
        while self._rest:
            end = b"\r\n.\r\n" if self._in_content else b"\r\n"
            whole, found, rest = self._rest.partition(end)
            if not found:
                return
            self._rest = rest
            if self._in_content:
                self._in_content = False
                self.say(b"250 2.0.0 stored\r\n")
            elif whole.upper() == b"DATA":
                self._in_content = True
                self._rest = b"\r\n" + self._rest
                self.say(b"354 go on\r\n")
            elif whole.upper() == b"QUIT":
                self.say(b"221 bye\r\n")
                self.transport.close()
            else:
                self.say(b"250 2.0.0 " + whole[:4] + b"\r\n")


class World:
    """A link `a -> b smtp` to a MiniServer, and another, `a -> c smtp`, to show that time has gone on.

    What a fault lets wait is noted in `asked_to_wait` (documented seconds) and is over at once, unless a test has
    `waits` say how long it takes.
    """

    def __init__(self) -> None:
        self.waits: Callable[[float], float] = lambda seconds: 0.0
        self.asked_to_wait: list[float] = []
        self.served: list[Peer] = []
        self.served_beside: list[Peer] = []
        self.recorder = Recorder(_Real())
        self.links = Links(self.recorder, duration=self._duration)
        self.clients: list[Peer] = []

    def _duration(self, seconds: float) -> float:
        self.asked_to_wait.append(seconds)
        return self.waits(seconds)

    @property
    def server(self) -> Peer:
        return self.served[-1]

    @property
    def relays(self) -> tuple[Relay, ...]:
        """Every session that has not ended."""
        return tuple(relay for link in self.links for relay in link.relays)

    async def client(self, server: str = "b") -> Peer:
        _, peer = await asyncio.get_running_loop().create_connection(Peer, *self.links.address("a", server, "smtp"))
        self.clients.append(peer)
        return peer

    async def greeted(self) -> Peer:
        client = await self.client()
        await client.until(b"220 mini\r\n")
        return client

    async def beat(self) -> None:
        """Let everything happen that can: a round trip over a link that nobody breaks."""
        client = await self.client("c")
        await client.until(b"220 mini\r\n")
        await client.ask(b"NOOP\r\n", b"250 ")
        client.transport.close()

    def arm(self, does: str, **fields: Any) -> None:
        fault = {"as": "f", "from": "a", "to": "b", "does": does, **fields}
        self.links.arm(Fault.model_validate(fault))

    @property
    def detail(self) -> str:
        """What the one firing of the armed fault says of itself."""
        (fired,) = self.events(FaultFired)
        assert (fired.fault, fired.client, fired.server) == ("f", "a", "b")
        return fired.detail

    def events(self, kind: type[E]) -> list[E]:
        return [event for event in self.recorder.events if isinstance(event, kind)]

    async def event(self, kind: type[E]) -> E:
        """Wait for the first event of a kind."""
        came = asyncio.Event()
        forget = self.recorder.subscribe(lambda event: came.set())
        try:
            while not (found := self.events(kind)):
                came.clear()
                await came.wait()
        finally:
            forget()
        return found[0]


class _Real:
    def __init__(self) -> None:
        self._start = time.monotonic()

    def elapsed(self) -> float:
        return time.monotonic() - self._start


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    it = World()
    loop = asyncio.get_running_loop()
    servers = []
    for name, served in (("b", it.served), ("c", it.served_beside)):
        servers.append(await loop.create_server(functools.partial(MiniServer, served), "127.0.0.1", 0))
        await it.links.open("a", name, "smtp", servers[-1].sockets[0].getsockname())
    try:
        yield it
    finally:
        await it.links.close()
        for peer in (*it.clients, *it.served, *it.served_beside):
            peer.transport.abort()
        for server in servers:
            server.close()
        await asyncio.sleep(0)


T = TypeVar("T")

PATIENCE = 120
"""Seconds that a test may take: it only bounds one that has failed already. Thirty megabytes take a busy machine 20."""


def run(test: Callable[[World], Awaitable[T]]) -> T:
    """Run a test in a world of its own; whatever hangs fails."""

    async def main() -> T:
        async with asyncio.timeout(PATIENCE), world() as it:
            return await test(it)

    return asyncio.run(main())
