"""A heartbeat every two minutes for weeks: each is a session over a real socket.

Also a program: `python -m tests.run.virtual.heartbeats --days 49`; prints one JSON object.
"""

import argparse
import asyncio
import json
import time

from conformance.run.virtual.loop import VirtualClockEventLoop

EVERY = 120.0
"""ShadowHeartbeatFrequency, seconds."""

DAY = 86400.0

_REPLIES = {b"EHLO": b"250 mbx1\r\n", b"XQDI": b"250 end 0\r\n", b"QUIT": b"221 bye\r\n"}


class Primary(asyncio.Protocol):
    """Greets, and answers each line."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(b"220 mbx1\r\n")

    def data_received(self, data: bytes) -> None:
        for line in data.splitlines():
            self.transport.write(_REPLIES[line[:4]])
            if line == b"QUIT":
                self.transport.close()


class Shadow(asyncio.Protocol):
    """Sends its lines, each when the one before was answered."""

    def __init__(self) -> None:
        self.lines = [b"EHLO mbx2\r\n", b"XQDISCARD mbx2 200\r\n", b"QUIT\r\n"]
        self.replies = 0
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.replies += data.count(b"\n")
        if self.lines:
            self.transport.write(self.lines.pop(0))

    def connection_lost(self, error: Exception | None) -> None:
        self.over.set_result(self.replies)


async def beat(days: float) -> tuple[int, float]:
    """Return how many heartbeats were answered completely and on time, and the virtual seconds that passed."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualClockEventLoop)
    began = loop.time()
    server = await loop.create_server(Primary, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    answered = 0
    for number in range(1, round(days * DAY / EVERY) + 1):
        await asyncio.sleep(began + number * EVERY - loop.time())
        _, shadow = await loop.create_connection(Shadow, *address)
        answered += await shadow.over == 4 and loop.time() == began + number * EVERY
        loop.note_progress()
    server.close()
    return answered, loop.time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=49)
    given = parser.parse_args()
    began, cpu = time.monotonic(), time.process_time()
    with asyncio.Runner(loop_factory=VirtualClockEventLoop) as runner:
        answered, simulated = runner.run(beat(given.days))
    figures = {"heartbeats": answered, "simulated": simulated, "seconds": round(time.monotonic() - began, 2)}
    print(json.dumps({**figures, "cpu": round(time.process_time() - cpu, 2)}))


if __name__ == "__main__":
    main()
