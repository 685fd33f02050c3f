"""Traffic for the links benchmark: senders, a receiver, and a relay that only forwards octets."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from conformance.history.events import AnyEvent, Delivered
from conformance.history.recorder import Recorder
from conformance.wire.content import dot_stuffed
from conformance.wire.link import Address
from conformance.wire.sender import Recipient, Sender, Transmission

ENVELOPE = b"MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\n"


class Receiver(asyncio.Protocol):
    """Accepts messages with fixed replies; searches each read only for the final dot."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._in_content = False
        self._tail = b""
        transport.write(b"220 fast\r\n")

    def data_received(self, data: bytes) -> None:
        if self._in_content:
            self._tail = (self._tail + data)[-5:] if len(data) < 5 else data[-5:]
            if self._tail == b"\r\n.\r\n":
                self._in_content = False
                self._transport.write(b"250 2.0.0 taken\r\n")
        else:
            self._in_content = True
            self._transport.write(b"250 2.1.0 OK\r\n250 2.1.5 OK\r\n354 go on\r\n")


class BareRelay(asyncio.BufferedProtocol):
    """One end of a relay that only forwards octets."""

    def __init__(self, target: Address | None) -> None:
        self._target = target
        self._buffer = memoryview(bytearray(64 * 1024))
        self._early = b""
        self.other: BareRelay | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self._target is not None:
            self._dialling = asyncio.get_running_loop().create_task(self._dial(self._target))

    async def _dial(self, target: Address) -> None:
        _, self.other = await asyncio.get_running_loop().create_connection(lambda: BareRelay(None), *target)
        self.other.other = self
        if self.other._early:
            self.transport.write(self.other._early)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.other is None:
            self._early += bytes(self._buffer[:nbytes])
        else:
            self.other.transport.write(bytes(self._buffer[:nbytes]))

    def eof_received(self) -> bool:
        if self.other is not None:
            self.other.transport.close()
        return False


async def bare_relay(target: Address) -> tuple[asyncio.Server, Address]:
    """Start a relay that only forwards octets to `target`; return its server and address."""
    server = await asyncio.get_running_loop().create_server(lambda: BareRelay(target), "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()


class FastSender(asyncio.Protocol):
    """Sends one message after another, its envelope in one group, until `enough` is set."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.sent = 0
        self.enough = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"354 go on\r\n"):
            self._transport.write(self._content)
            return
        self.sent += not data.startswith(b"220")
        if self.enough and self.sent:
            self._transport.close()
        else:
            self._transport.write(ENVELOPE)

    def connection_lost(self, exc: Exception | None) -> None:
        self.done.set_result(None)


async def send_fast(address: Address, size: int, sessions: int, seconds: float) -> float:
    """Return messages a second of the hand-made sender."""
    loop = asyncio.get_running_loop()
    content = b"Message-ID: <1@b.test>\r\n\r\n" + (b"x" * 76 + b"\r\n") * (size // 78) + b".\r\n"
    senders = [(await loop.create_connection(lambda: FastSender(content), *address))[1] for _ in range(sessions)]
    began = time.perf_counter()
    await asyncio.sleep(seconds)
    for sender in senders:
        sender.enough = True
    await asyncio.gather(*(sender.done for sender in senders))
    return sum(sender.sent for sender in senders) / (time.perf_counter() - began)


async def send(address: Address, size: int, sessions: int, seconds: float) -> float:
    """Return messages a second of the harness's sender."""
    began = time.perf_counter()
    return await _send(address, size, sessions, seconds) / (time.perf_counter() - began)


async def _send(address: Address, size: int, sessions: int, seconds: float) -> int:
    content = dot_stuffed(b"Message-ID: <1@b.test>\r\n\r\n" + (b"x" * 76 + b"\r\n") * (size // 78))
    transmission = Transmission("a@b.test", (Recipient("c@d.test"),), content)
    until = time.perf_counter() + seconds

    async def one() -> int:
        sender, count = Sender(address), 0
        while not count or time.perf_counter() < until:
            outcome = await sender.send(transmission)
            assert outcome.code == 250, outcome
            count += 1
        await sender.quit()
        return count

    return sum(await asyncio.gather(*(one() for _ in range(sessions))))


class SendThroughServer:
    """Sends through a server to a sink, and waits for the deliveries."""

    def __init__(self, recorder: Recorder) -> None:
        self._delivered = 0
        self._news = asyncio.Event()
        recorder.subscribe(self._look)

    async def send(self, address: Address, size: int, sessions: int, seconds: float) -> float:
        """Return messages a second of the harness's sender, to the last delivery."""
        began, before = time.perf_counter(), self._delivered
        sent = await _send(address, size, sessions, seconds)
        while self._delivered < before + sent:
            self._news.clear()
            await self._news.wait()
        return sent / (time.perf_counter() - began)

    def _look(self, event: AnyEvent) -> None:
        if isinstance(event, Delivered):
            self._delivered += 1
            self._news.set()


Traffic = Callable[[Address, int, int, float], Awaitable[float]]
"""Sends to an address: (address, octets of a message, sessions, seconds) -> messages a second."""
