"""Measures throughput and memory of the reference: many messages through a DAG of two servers, each a program.

Every message comes from outside over a session of its own, is shadowed on the other server before it is acknowledged,
and is delivered to a mailbox of either server or outside. Measured are messages a second (acknowledged, and delivered), and
the resident memory of each server: after the first fifth, at the end, and what it has grown by in between.

    python -m benchmarks.reference [--messages 10000] [--senders 16] [--size 2000] [--json FILE]
"""

import argparse
import asyncio
import json
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from tests.reference.two_servers import RECIPIENTS, TwoServers

SAMPLES = 20


def process_of(servers: TwoServers, server: str) -> psutil.Process:
    """Return the process of a server: the one that listens on its frontend."""
    port = servers.configurations[server]["listeners"]["frontend"]["port"]
    for process in psutil.Process().children(recursive=True):
        if any(at.laddr and at.laddr.port == port and at.status == "LISTEN" for at in process.net_connections("tcp")):
            return process
    raise LookupError(f"no program listens for {server}")


async def measure(directory: Path, messages: int, senders: int, size: int) -> dict[str, Any]:
    """Send the messages and return the figures by name. Raises RuntimeError if a message is lost."""
    servers = TwoServers(directory, {"ShadowHeartbeatFrequency": 5.0})
    memory: dict[str, list[int]] = {"mbx1": [], "mbx2": []}
    async with servers.running():
        programs = {server: process_of(servers, server) for server in memory}
        numbers = iter(range(messages))

        async def sender(numbers: Iterator[int]) -> None:
            for number in numbers:
                server = ("mbx1", "mbx2")[number % 2]
                if not await servers.send(server, (RECIPIENTS[number % 3],), size=size, within=60.0):
                    raise RuntimeError(f"message {number} was not acknowledged")
                if (number + 1) % (messages // SAMPLES) == 0:
                    for name, program in programs.items():
                        memory[name].append(program.memory_info().rss)

        began = time.perf_counter()
        await asyncio.gather(*(sender(numbers) for _ in range(senders)))
        acknowledged = time.perf_counter() - began
        lost = await servers.receivers.wait_for(servers.acknowledged, within=120.0)
        delivered = time.perf_counter() - began
        cpu = {name: sum(program.cpu_times()[:2]) for name, program in programs.items()}
    if lost:
        raise RuntimeError(f"{len(lost)} messages did not arrive")
    fifth = SAMPLES // 5
    return {
        "messages": messages,
        "senders": senders,
        "size": size,
        "acknowledged a second": round(messages / acknowledged, 1),
        "delivered a second": round(messages / delivered, 1),
        "CPU ms a message": {name: round(1000 * seconds / messages, 2) for name, seconds in cpu.items()},
        "MB after the first fifth": {name: round(found[fifth - 1] / 2**20, 1) for name, found in memory.items()},
        "MB at the end": {name: round(found[-1] / 2**20, 1) for name, found in memory.items()},
        "MB most after the first fifth": {name: round(max(found[fifth:]) / 2**20, 1) for name, found in memory.items()},
        "MB all along": {name: [round(each / 2**20, 1) for each in found] for name, found in memory.items()},
        "machine": f"{platform.machine()}, {psutil.cpu_count()} cores, Python {platform.python_version()}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--senders", type=int, default=16)
    parser.add_argument("--size", type=int, default=2_000, help="octets of a message")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    with TemporaryDirectory() as directory:
        figures = asyncio.run(measure(Path(directory), arguments.messages, arguments.senders, arguments.size))
    for name, figure in figures.items():
        print(f"{name:32} {figure}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
