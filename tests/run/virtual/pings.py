"""Octets sent back and forth without a pause, in no virtual time: time that passes is a false jump.

Also a program: `python -m tests.run.virtual.pings --exchanges 1000000`; prints one JSON object.
"""

import argparse
import asyncio
import json
import os
import time

from conformance.run.virtual.loop import VirtualClockEventLoop

_A_CONNECTION = 2000
"""Exchanges before a connection is replaced by a new one."""


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Pinger(asyncio.Protocol):
    """Sends octets, and sends them again when the echo has arrived."""

    def __init__(self, exchanges: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.left = exchanges
        self.false_jumps = 0
        self.lost = self.loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.at = self.loop.time()
        transport.write(b"250 OK\r\n")

    def data_received(self, data: bytes) -> None:
        self.false_jumps += self.loop.time() != self.at
        self.at = self.loop.time()
        self.left -= 1
        if self.left:
            self.transport.write(data)
        else:
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(self.false_jumps)


async def ping(exchanges: int, at_once: int) -> int:
    """Exchange octets over `at_once` connections; return the number of false jumps."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualClockEventLoop)
    ticking = asyncio.create_task(_tick())
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()

    async def one(count: int) -> int:
        found = 0
        for start in range(0, count, _A_CONNECTION):
            _, pinger = await loop.create_connection(lambda: Pinger(min(_A_CONNECTION, count - start)), *address)  # noqa: B023  # called at once
            found += await pinger.lost
            assert not pinger.left, "it was lost before its last exchange"
            loop.note_progress()
            await asyncio.sleep(30)
        return found

    async with asyncio.TaskGroup() as group:
        pingers = [group.create_task(one(exchanges // at_once)) for _ in range(at_once)]
    ticking.cancel()
    server.close()
    return sum(pinger.result() for pinger in pingers)


async def _tick() -> None:
    while True:
        await asyncio.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exchanges", type=int, default=100_000)
    parser.add_argument("--at-once", type=int, default=10)
    parser.add_argument("--cpu", type=int, help="stay on this core")
    given = parser.parse_args()
    if given.cpu is not None:
        os.sched_setaffinity(0, {given.cpu})
    began = time.monotonic()
    with asyncio.Runner(loop_factory=VirtualClockEventLoop) as runner:
        found = runner.run(ping(given.exchanges, given.at_once))
        loop = runner.get_loop()
    assert isinstance(loop, VirtualClockEventLoop)
    seconds = round(time.monotonic() - began, 2)
    figures = {"false_jumps": found, "jumps": loop.jumps, "naps": loop.kernel_waits, "seconds": seconds}
    print(json.dumps({"exchanges": given.exchanges, **figures}))


if __name__ == "__main__":
    main()
