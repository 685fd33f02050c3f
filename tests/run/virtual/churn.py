"""Connections that are opened, used and ended in every way, in no virtual time: time that passes is a false jump.

Also a program, for `unshare` and for measuring: `python -m tests.run.virtual.churn --dialogues 10000`; prints one JSON object.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from conformance.run.virtual.loop import VirtualClockEventLoop
from conformance.run.virtual.tracking_loop import MAX_TURNS_WITHOUT_POLL

_TICK = 1.0
"""Virtual seconds from one timer to the next: there is always one to jump to."""


@dataclass
class Count:
    dialogues: int = 0
    exchanges: int = 0
    false_jumps: int = 0
    by_ending: dict[str, int] = field(default_factory=dict)
    """The false jumps in dialogues with each ending; 0 for an ending without any."""


class Speaker(asyncio.Protocol):
    """One end of a dialogue: the lines received, and how it ended."""

    def __init__(self, made: Callable[["Speaker"], None] = lambda speaker: None) -> None:
        loop = asyncio.get_running_loop()
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.received = 0
        self.eof = loop.create_future()
        self.lost = loop.create_future()
        self._made = made
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._made(self)

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if data[:1] in b"xy" and self.received > 1000:
            return  # of a large body only the octets are counted
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.lines.put_nowait(line)

    def eof_received(self) -> bool:
        self.eof.set_result(None)
        return True  # the ending closes the transport

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(error)
        if not self.eof.done():
            self.eof.set_result(None)

    async def say(self, line: bytes, other: "Speaker") -> None:
        self.transport.write(line + b"\n")
        assert await other.lines.get() == line

    def reset(self) -> None:
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


Ending = Callable[[Speaker, Speaker], Awaitable[None]]


async def fin(one: Speaker, other: Speaker) -> None:
    one.transport.close()
    await other.eof
    other.transport.close()


async def half_close(one: Speaker, other: Speaker) -> None:
    one.transport.write_eof()
    await other.eof
    await other.say(b"last words", one)
    other.transport.write_eof()
    await one.eof
    one.transport.close()
    other.transport.close()


async def both_fin(one: Speaker, other: Speaker) -> None:
    one.transport.write_eof()
    other.transport.write_eof()
    await asyncio.gather(one.eof, other.eof)
    one.transport.close()
    other.transport.close()


async def reset(one: Speaker, other: Speaker) -> None:
    one.reset()
    await other.lost


async def unread(one: Speaker, other: Speaker) -> None:
    """Closing with octets unread sends RST."""
    one.transport.pause_reading()
    other.transport.write(b"never read")
    one.transport.close()
    await other.eof
    other.transport.close()


async def large(one: Speaker, other: Speaker) -> None:
    before = other.received
    one.transport.write(b"x" * 1_000_000)
    one.transport.close()
    await other.eof
    assert other.received - before == 1_000_000
    other.transport.close()


async def slow_reader(one: Speaker, other: Speaker) -> None:
    """A receiver that pauses leaves octets in flight; they arrive when it resumes."""
    before = other.received
    other.transport.pause_reading()
    one.transport.write(b"y" * 3_000_000)
    one.transport.close()
    for _ in range(3 * MAX_TURNS_WITHOUT_POLL):
        await asyncio.sleep(0)
    other.transport.resume_reading()
    await other.eof
    assert other.received - before == 3_000_000
    other.transport.close()


ENDINGS: dict[str, Ending] = {
    ending.__name__: ending for ending in (fin, half_close, both_fin, reset, unread, large, slow_reader)
}
SMALL = ("fin", "half_close", "both_fin", "reset", "unread")
NO_DIALOGUE = ("refused", "reset at once")
"""Ways in which a connection ends before anything is said."""


class Churn:
    def __init__(self, seed: int, exchanges: int, endings: tuple[str, ...]) -> None:
        self.count = Count()
        self._random = random.Random(seed)
        self._exchanges = exchanges
        self._endings = endings
        self._arrived: dict[object, asyncio.Future[Speaker]] = {}

    async def run(self, dialogues: int, at_once: int) -> Count:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualClockEventLoop)
        tick = loop.call_later(_TICK, self._tick)
        self._ticking = tick
        server = await loop.create_server(lambda: Speaker(self._take), "127.0.0.1", 0)
        resetting = await loop.create_server(lambda: Speaker(lambda speaker: speaker.reset()), "127.0.0.1", 0)
        self._address = server.sockets[0].getsockname()
        self._resetting = resetting.sockets[0].getsockname()
        with socket.socket() as bound:  # and not listening: it refuses
            bound.bind(("127.0.0.1", 0))
            self._refusing = bound.getsockname()
            for _ in range(dialogues // at_once):
                async with asyncio.TaskGroup() as group:
                    for _ in range(at_once):
                        group.create_task(self._dialogue())
                loop.note_progress()
                await asyncio.sleep(self._random.choice((0, 0.5, 60)))
        await asyncio.sleep(1)
        server.close()
        resetting.close()
        self._ticking.cancel()
        return self.count

    def _tick(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(_TICK, self._tick)

    def _take(self, speaker: Speaker) -> None:
        self._arrival(speaker.transport.get_extra_info("peername")).set_result(speaker)

    def _arrival(self, name: object) -> asyncio.Future[Speaker]:
        return self._arrived.setdefault(name, asyncio.get_running_loop().create_future())

    async def _dialogue(self) -> None:
        ending = self._random.choice((*self._endings, *NO_DIALOGUE))
        client_ends = self._random.random() < 0.5
        loop = asyncio.get_running_loop()
        before = loop.time()
        match ending:
            case "refused":
                await self._refused()
            case "reset at once":
                _, client = await loop.create_connection(Speaker, *self._resetting)
                await client.lost
            case _:
                await self._whole(ENDINGS[ending], client_ends)
        jumped = loop.time() != before
        self.count.dialogues += 1
        self.count.false_jumps += jumped
        self.count.by_ending[ending] = self.count.by_ending.get(ending, 0) + jumped

    async def _refused(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(Speaker, *self._refusing)
        except ConnectionRefusedError:
            return
        raise AssertionError("connected to a port without a listener")

    async def _whole(self, end: Ending, client_ends: bool) -> None:
        transport, client = await asyncio.get_running_loop().create_connection(Speaker, *self._address)
        name = transport.get_extra_info("sockname")
        server = await self._arrival(name)
        del self._arrived[name]
        for number in range(self._exchanges):
            await client.say(b"%d" % number, server)
            await server.say(b"%d" % number, client)
        self.count.exchanges += self._exchanges
        await (end(client, server) if client_ends else end(server, client))
        await asyncio.gather(client.lost, server.lost)


def churn(
    dialogues: int, *, at_once: int = 8, exchanges: int = 4, seed: int = 1, guard: bool = True, endings: tuple[str, ...]
) -> tuple[Count, VirtualClockEventLoop]:
    """Run dialogues on a new loop; return the counts and the loop. Without `guard` the loop trusts the selector alone."""
    loops: list[VirtualClockEventLoop] = []

    def make() -> VirtualClockEventLoop:
        loop = VirtualClockEventLoop()
        if not guard:
            loop.tracker.find_pending = lambda nothing_readable: None  # type: ignore[method-assign]
        loops.append(loop)
        return loop

    with asyncio.Runner(loop_factory=make) as runner:
        return runner.run(Churn(seed, exchanges, endings).run(dialogues, at_once)), loops[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dialogues", type=int, default=1000)
    parser.add_argument("--exchanges", type=int, default=4, help="round trips in each dialogue")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cpu", type=int, help="stay on this core")
    parser.add_argument("--no-guard", action="store_true")
    parser.add_argument("--small", action="store_true", help="no large bodies")
    given = parser.parse_args()
    if given.cpu is not None:
        os.sched_setaffinity(0, {given.cpu})
    began = time.monotonic()
    count, loop = churn(
        given.dialogues,
        at_once=given.at_once,
        exchanges=given.exchanges,
        seed=given.seed,
        guard=not given.no_guard,
        endings=SMALL if given.small else tuple(ENDINGS),
    )
    figures = {
        **vars(count),
        "jumps": loop.jumps,
        "naps": loop.kernel_waits,
        "seconds": round(time.monotonic() - began, 2),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
