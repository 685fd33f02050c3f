"""Hand-made peers on plain sockets: a client and a server that hold one conversation, line by line."""

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
    """What the client says, and what a server that understood it answers; the body has no answer."""

    place: str
    said: bytes
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
_ANSWERS = {exchange.said: exchange.answer for exchange in EXCHANGES if exchange.answer}
_WHOLE = re.compile(rb"(?:\d{3}-[^\n]*\n)*(\d{3}) [^\n]*\n")


class Plain:
    """One end of a connection, read by `recv` alone: every octet that came, and how the other side left."""

    def __init__(
        self, sock: socket.socket, role: "Callable[[Plain], Coroutine[Any, Any, None]]", news: Callable[[], None]
    ) -> None:
        self.octets = b""
        self.how: str | None = None
        self._sock = sock
        self._tell = news
        self._news = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._tasks = (loop.create_task(self._read()), loop.create_task(role(self)))

    async def say(self, octets: bytes) -> None:
        """Say something, though there may be nobody left to hear it."""
        with suppress(ConnectionError):
            await asyncio.get_running_loop().sock_sendall(self._sock, octets)

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something is true of what came."""
        while not true():
            self._news.clear()
            await self._news.wait()

    async def close(self) -> None:
        """End the connection. Raises what its role has raised."""
        for task in self._tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks)
        self._sock.close()

    async def _read(self) -> None:
        while self.how is None:
            try:
                octets = await asyncio.get_running_loop().sock_recv(self._sock, 65536)
            except ConnectionResetError:
                self.how = "reset"
            else:
                self.octets += octets
                self.how = None if octets else "fin"
            self._news.set()
            self._tell()


async def client(end: Plain) -> None:
    """Say the next thing when the last was answered, until something else than 2yz or 3yz is the answer."""
    read = 0
    for number, exchange in enumerate(EXCHANGES):
        if exchange.place == "body":
            continue
        await end.say(BODY + exchange.said if exchange.place == "dot" else exchange.said)
        await end.until(lambda read=read: _WHOLE.match(end.octets, read) is not None)  # type: ignore[misc]
        answer = _WHOLE.match(end.octets, read)
        assert answer is not None, number
        if answer[1][:1] not in b"23":
            return
        read = answer.end()


async def server(end: Plain) -> None:
    """Answer each line; of a content, the final dot."""
    read, in_content = 0, False
    await end.say(EXCHANGES[0].answer)
    while True:
        mark = b"\r\n.\r\n" if in_content else b"\r\n"
        await end.until(lambda: mark in end.octets[read:])  # noqa: B023  # awaited at once
        stop = end.octets.index(mark, read) + len(mark)
        said = b".\r\n" if in_content else end.octets[read:stop]
        in_content = said == b"DATA\r\n"
        read = stop
        await end.say(_ANSWERS.get(said, b"500 5.5.1 what?\r\n"))


class Wire:
    """A link `a -> b smtp` between the two, and another, `a -> c smtp`. What lasts, lasts until it is healed."""

    def __init__(self) -> None:
        self.recorder = Recorder(self)
        self.links = Links(self.recorder, duration=self._for_ever)
        self.lasting: list[float] = []
        self.ends: dict[str, list[Plain]] = {"a": [], "b": [], "c": []}
        self._news = asyncio.Event()

    @property
    def served(self) -> list[Plain]:
        """The server's ends of what came over `a -> b`."""
        return self.ends["b"]

    @property
    def fired(self) -> list[FaultFired]:
        """Every firing of a fault."""
        return [event for event in self.recorder.events if isinstance(event, FaultFired)]

    def elapsed(self) -> float:
        """Be the recorder's clock."""
        return 0.0

    def arm(self, **fields: Any) -> None:
        """Arm a fault `f` on `a -> b`."""
        self.links.arm(Fault.model_validate({"as": "f", "from": "a", "to": "b", **fields}))

    async def dial(self, server: str = "b") -> Plain:
        """Begin a conversation."""
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, self.links.address("a", server, "smtp"))
        self.ends["a"].append(Plain(sock, client, self._news.set))
        return self.ends["a"][-1]

    async def beat(self) -> None:
        """Let everything happen that can: hold a whole conversation over the link that nobody breaks."""
        whole = b"".join(exchange.answer for exchange in EXCHANGES)
        beside = await self.dial("c")
        await beside.until(lambda: beside.octets == whole)

    async def news(self) -> None:
        """Wait until anything comes at any end."""
        self._news.clear()
        await self._news.wait()

    async def serve(self, name: str, listening: socket.socket) -> None:
        """Accept for a server."""
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(listening)
            self.ends[name].append(Plain(sock, server, self._news.set))
            self._news.set()

    def _for_ever(self, seconds: float) -> float:
        self.lasting.append(seconds)
        return 0.0 if seconds <= 1 else 10_000.0


@asynccontextmanager
async def wire() -> AsyncIterator[Wire]:
    """Lay the links between plain sockets; whatever hangs fails."""
    it = Wire()
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
