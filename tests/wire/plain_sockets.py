"""A client and a server on plain sockets, without asyncio's transports: they hold one conversation, line by line."""

import asyncio
import itertools
import re
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any, NamedTuple

from conformance.history.events import FaultFired
from conformance.history.recorder import Recorder
from conformance.scenarios.steps.breaking import Fault
from conformance.wire.links import Links

BODY = b"Subject: x\r\n\r\n0123456789\r\n"


class Exchange(NamedTuple):
    """Octets of the client, and the server's answer to them (the body has none); `place` is the name of the point."""

    place: str
    sent: bytes
    answer: bytes


EXCHANGES = (
    Exchange("greeting", b"", b"220 plain\r\n"),
    Exchange("EHLO", b"EHLO a\r\n", b"250-plain\r\n250 SIZE 1000\r\n"),
    Exchange("MAIL", b"MAIL FROM:<x@y>\r\n", b"250 2.1.0 from\r\n"),
    Exchange("RCPT", b"RCPT TO:<z@y>\r\n", b"250 2.1.5 to\r\n"),
    Exchange("DATA", b"DATA\r\n", b"354 go on\r\n"),
    Exchange("body", BODY, b""),
    Exchange("dot", b".\r\n", b"250 2.0.0 stored\r\n"),
    Exchange("QUIT", b"QUIT\r\n", b"221 2.0.0 bye\r\n"),
)
_ANSWERS = {exchange.sent: exchange.answer for exchange in EXCHANGES if exchange.answer}
_WHOLE = re.compile(rb"(?:\d{3}-[^\n]*\n)*(\d{3}) [^\n]*\n")


class SocketPeer:
    """One end of a connection: every octet received, and how the other side closed ("fin", "reset", None: not yet)."""

    def __init__(
        self, sock: socket.socket, role: "Callable[[SocketPeer], Coroutine[Any, Any, None]]", news: Callable[[], None]
    ) -> None:
        self.octets = b""
        self.closed_with: str | None = None
        self._sock = sock
        self._notify = news
        self._news = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._tasks = (loop.create_task(self._read()), loop.create_task(role(self)))

    async def write(self, octets: bytes) -> None:
        """Send octets; ignore a connection that is closed."""
        with suppress(ConnectionError):
            await asyncio.get_running_loop().sock_sendall(self._sock, octets)

    async def wait_until(self, true: Callable[[], bool]) -> None:
        """Wait until a condition on the received octets is true."""
        while not true():
            self._news.clear()
            await self._news.wait()

    async def close(self) -> None:
        """Close the connection. Raises what its role has raised."""
        for task in self._tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks)
        self._sock.close()

    async def _read(self) -> None:
        while self.closed_with is None:
            try:
                octets = await asyncio.get_running_loop().sock_recv(self._sock, 65536)
            except ConnectionResetError:
                self.closed_with = "reset"
            else:
                self.octets += octets
                self.closed_with = None if octets else "fin"
            self._news.set()
            self._notify()


async def play_client(end: SocketPeer) -> None:
    """Send each exchange when the one before was answered; stop at an answer other than 2yz or 3yz."""
    read = 0
    for number, exchange in enumerate(EXCHANGES):
        if exchange.place == "body":
            continue
        await end.write(BODY + exchange.sent if exchange.place == "dot" else exchange.sent)
        await end.wait_until(lambda read=read: _WHOLE.match(end.octets, read) is not None)  # type: ignore[misc]
        answer = _WHOLE.match(end.octets, read)
        assert answer is not None, number
        if answer[1][:1] not in b"23":
            return
        read = answer.end()


async def play_server(end: SocketPeer) -> None:
    """Answer each line, and of a content the final dot."""
    read, in_content = 0, False
    await end.write(EXCHANGES[0].answer)
    while True:
        mark = b"\r\n.\r\n" if in_content else b"\r\n"
        await end.wait_until(lambda: mark in end.octets[read:])  # noqa: B023  # awaited at once
        stop = end.octets.index(mark, read) + len(mark)
        said = b".\r\n" if in_content else end.octets[read:stop]
        in_content = said == b"DATA\r\n"
        read = stop
        await end.write(_ANSWERS.get(said, b"500 5.5.1 what?\r\n"))


class SocketWorld:
    """Links `a -> b smtp` and `a -> c smtp` between the two roles. A fault that lasts longer than a second lasts until healed."""

    def __init__(self) -> None:
        self.recorder = Recorder(self)
        self.links = Links(self.recorder, duration=self._convert_duration)
        self.requested_waits: list[float] = []
        self.ends: dict[str, list[SocketPeer]] = {"a": [], "b": [], "c": []}
        self._news = asyncio.Event()

    @property
    def served(self) -> list[SocketPeer]:
        """The server's ends of the connections over `a -> b`."""
        return self.ends["b"]

    @property
    def fired(self) -> list[FaultFired]:
        """Every firing of a fault."""
        return [event for event in self.recorder.events if isinstance(event, FaultFired)]

    def elapsed(self) -> float:
        """Return the time for the recorder, always 0.0."""
        return 0.0

    def arm(self, **fields: Any) -> None:
        """Arm a fault `f` on `a -> b`."""
        self.links.arm(Fault.model_validate({"as": "f", "from": "a", "to": "b", **fields}))

    async def connect(self, server: str = "b") -> SocketPeer:
        """Connect to a server, and begin the conversation."""
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, self.links.address("a", server, "smtp"))
        self.ends["a"].append(SocketPeer(sock, play_client, self._news.set))
        return self.ends["a"][-1]

    async def wait_round_trip(self) -> None:
        """Wait for a whole conversation over `a -> c`, in which everything that is not held has time to pass."""
        whole = b"".join(exchange.answer for exchange in EXCHANGES)
        beside = await self.connect("c")
        await beside.wait_until(lambda: beside.octets == whole)

    async def wait_for_octets(self) -> None:
        """Wait until any end receives octets or is closed."""
        self._news.clear()
        await self._news.wait()

    async def serve(self, name: str, listening: socket.socket) -> None:
        """Accept connections for a server, until cancelled."""
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(listening)
            self.ends[name].append(SocketPeer(sock, play_server, self._news.set))
            self._news.set()

    def _convert_duration(self, seconds: float) -> float:
        self.requested_waits.append(seconds)
        return 0.0 if seconds <= 1 else 10_000.0


@asynccontextmanager
async def socket_world() -> AsyncIterator[SocketWorld]:
    """Open the links of a world; fail after 20 seconds."""
    it = SocketWorld()
    with ExitStack() as stack:
        accepting = []
        for name in ("b", "c"):
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            listening.setblocking(False)
            accepting.append(asyncio.get_running_loop().create_task(it.serve(name, listening)))
            await it.links.open("a", name, "smtp", listening.getsockname())
        try:
            async with asyncio.timeout(20):
                yield it
        finally:
            for task in accepting:
                task.cancel()
            await it.links.close()
            for end in itertools.chain.from_iterable(it.ends.values()):
                await end.close()
