"""A client and a server for the tests of links: they note every octet, every read and how the other side closed."""

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
"""The content that `send_message` sends."""


class Peer(asyncio.Protocol):
    """One end of a connection.

    `reads` are the octets of each read; `closed_with` is how the other side closed: "fin", "reset", or None (not yet).
    """

    def __init__(self) -> None:
        self.reads: list[bytes] = []
        self.closed_with: str | None = None
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
        self.closed_with = self.closed_with or "fin"
        self._news.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self.closed_with = "reset"
        self._news.set()

    def write(self, octets: bytes) -> None:
        self.transport.write(octets)

    def close_with_rst(self) -> None:
        close_with_rst(self.transport)

    async def wait_for(self, octets: bytes) -> bytes:
        """Wait until these octets were received; return all that were."""
        await self._until(lambda: octets in self.octets)
        return self.octets

    async def exchange(self, octets: bytes, answer: bytes) -> None:
        """Write octets, and wait until an answer was received after that."""
        received = len(self.octets)
        self.write(octets)
        await self._until(lambda: answer in self.octets[received:])

    async def wait_closed(self) -> str | None:
        """Wait until the other side has closed; return how (`closed_with`)."""
        await self._until(lambda: self.closed_with is not None)
        return self.closed_with

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():
            self._news.clear()
            await self._news.wait()


async def send_message(client: Peer) -> None:
    """Send a message to a MiniServer, each command when the one before was answered."""
    await client.exchange(b"MAIL FROM:<x@y>\r\n", b"250 2.0.0 MAIL\r\n")
    await client.exchange(b"RCPT TO:<z@y>\r\n", b"250 2.0.0 RCPT\r\n")
    await client.exchange(b"DATA\r\n", b"354 go on\r\n")
    await client.exchange(BODY + b".\r\n", b"250 2.0.0 stored\r\n")


class MiniServer(Peer):
    """A minimal server: replies 220, then 250 to each command, 354 to DATA, 221 and FIN to QUIT."""

    def __init__(self, served: list[Peer]) -> None:
        super().__init__()
        served.append(self)
        self._in_content = False
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.write(b"220 mini\r\n")

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
                self.write(b"250 2.0.0 stored\r\n")
            elif whole.upper() == b"DATA":
                self._in_content = True
                self._rest = b"\r\n" + self._rest
                self.write(b"354 go on\r\n")
            elif whole.upper() == b"QUIT":
                self.write(b"221 bye\r\n")
                self.transport.close()
            else:
                self.write(b"250 2.0.0 " + whole[:4] + b"\r\n")


class World:
    """Links `a -> b smtp`, `a -> c smtp` and `d -> c smtp` to MiniServers; faults are armed on the first.

    Each wait of a fault is noted in `requested_waits` (documented seconds) and lasts no time, unless a test sets
    `convert_duration` to return the seconds that it lasts.
    """

    def __init__(self) -> None:
        self.convert_duration: Callable[[float], float] = lambda seconds: 0.0
        self.requested_waits: list[float] = []
        self.served: list[Peer] = []
        self.served_c: list[Peer] = []
        self.recorder = Recorder(_RealClock())
        self.links = Links(self.recorder, duration=self._duration)
        self.clients: list[Peer] = []

    def _duration(self, seconds: float) -> float:
        self.requested_waits.append(seconds)
        return self.convert_duration(seconds)

    @property
    def server(self) -> Peer:
        return self.served[-1]

    @property
    def relays(self) -> tuple[Relay, ...]:
        """Every session that has not ended."""
        return tuple(relay for link in self.links for relay in link.relays)

    async def connect(self, server: str = "b", *, client: str = "a", listener: str = "smtp") -> Peer:
        address = self.links.address(client, server, listener)
        _, peer = await asyncio.get_running_loop().create_connection(Peer, *address)
        self.clients.append(peer)
        return peer

    async def connect_greeted(self) -> Peer:
        client = await self.connect()
        await client.wait_for(b"220 mini\r\n")
        return client

    async def wait_round_trip(self, client_name: str = "a") -> None:
        """Wait for a whole session over another link (to `c`), in which everything that is not held has time to pass."""
        client = await self.connect("c", client=client_name)
        await client.wait_for(b"220 mini\r\n")
        await client.exchange(b"NOOP\r\n", b"250 ")
        client.transport.close()

    def arm(self, does: str, **fields: Any) -> None:
        fault = {"as": "f", "from": "a", "to": "b", "does": does, **fields}
        self.links.arm(Fault.model_validate(fault))

    @property
    def detail(self) -> str:
        """The detail of the only event `fault-fired`, which must be of the fault `f` on `a -> b`."""
        (fired,) = self.events(FaultFired)
        assert (fired.fault, fired.client, fired.server) == ("f", "a", "b")
        return fired.detail

    def events(self, kind: type[E]) -> list[E]:
        return [event for event in self.recorder.events if isinstance(event, kind)]

    async def wait_for_event(self, kind: type[E]) -> E:
        """Wait for the first event of a kind."""
        recorded = asyncio.Event()
        unsubscribe = self.recorder.subscribe(lambda event: recorded.set())
        try:
            while not (found := self.events(kind)):
                recorded.clear()
                await recorded.wait()
        finally:
            unsubscribe()
        return found[0]


class _RealClock:
    def __init__(self) -> None:
        self._start = time.monotonic()

    def elapsed(self) -> float:
        return time.monotonic() - self._start


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    it = World()
    loop = asyncio.get_running_loop()
    servers = []
    for name, served in (("b", it.served), ("c", it.served_c)):
        servers.append(await loop.create_server(functools.partial(MiniServer, served), "127.0.0.1", 0))
        await it.links.open("a", name, "smtp", servers[-1].sockets[0].getsockname())
    await it.links.open("d", "c", "smtp", servers[-1].sockets[0].getsockname())
    try:
        yield it
    finally:
        await it.links.close()
        for peer in (*it.clients, *it.served, *it.served_c):
            peer.transport.abort()
        for server in servers:
            server.close()
        await asyncio.sleep(0)


T = TypeVar("T")

TEST_TIMEOUT_S = 120
"""Seconds after which a test fails; thirty megabytes take a busy machine 20."""


def run(test: Callable[[World], Awaitable[T]]) -> T:
    """Run a test in a world of its own, for at most `TEST_TIMEOUT_S`; return its result."""

    async def main() -> T:
        async with asyncio.timeout(TEST_TIMEOUT_S), world() as it:
            return await test(it)

    return asyncio.run(main())
