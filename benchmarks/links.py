"""Measures what a link costs: messages a second straight to a server, and through a link that records and hashes all of it.

Five arrangements, each with 2 KB and 1 MB messages over 1 and over 10 sessions:

- `server`: the sender and the sink of the harness in one process, and between them a real server, the reference as a
  program of its own that stores what it acknowledges. Linked, there is a link on the way in: what one link costs;
- `both`: the same with a link on the way in and another on the way out: what links cost a candidate in a cell;
- `harness`: sender and sink of the harness (aiosmtpd), everything in one process and loop;
- `one`: a sender and a receiver of the fewest instructions, everything in one process and loop: the harshest;
- `three`: the same sender, receiver and the link in a process each.

`bare` is a relay that neither parses nor records: what any detour through asyncio costs here. Direct, bare and linked
rounds take turns, so that all meet the same machine; printed is the median of the rounds. In all arrangements
but the first two a message costs the server next to nothing, so that the ratio is that of one hop over loopback to two.
`by CPU` is the same ratio in CPU seconds of all processes a message: what it would be on a machine with nothing else to
do and no disk to wait for.

    python -m benchmarks.links [--only harness] [--rounds 5] [--seconds 0.5] [--json FILE]
"""

import argparse
import asyncio
import json
import multiprocessing
import platform
import statistics
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from benchmarks.link_traffic import Receiver, SendThroughServer, Traffic, bare_relay, send, send_fast
from conformance.candidates.lookup import find_candidate
from conformance.history.recorder import Recorder
from conformance.nodes.configuration import Wiring, listeners_of, render
from conformance.nodes.exec_node import ExecNode
from conformance.nodes.places import PortLeases
from conformance.topology import Topology
from conformance.wire.link import Address
from conformance.wire.links import Links
from conformance.wire.sinks import open_sink

SIZES = {"2 KB": 2 * 1024, "1 MB": 1024 * 1024}
SESSIONS = (1, 10)
COLUMNS = {
    "size": 6, "sessions": 10, "direct": 10, "bare": 10, "linked": 10, "bare/direct": 13, "linked/direct": 15,
    "by CPU": 8,
}  # fmt: skip


class Clock:
    """The recorder's clock."""

    def elapsed(self) -> float:
        return time.perf_counter()


Row = dict[str, str | int | float]


async def compare(traffic: Traffic, ways: tuple[Address, Address, Address], rounds: int, seconds: float) -> list[Row]:
    """Run all sizes and sessions over the three ways (direct, bare, linked); return a row for each."""
    rows = []
    for name, size in SIZES.items():
        for sessions in SESSIONS:
            taken: list[list[float]] = []
            spent: list[list[float]] = []
            for _ in range(rounds):
                taken.append([])
                spent.append([])
                for way in ways:
                    cpu, began = _cpu(), time.perf_counter()
                    taken[-1].append(await traffic(way, size, sessions, seconds))
                    messages = taken[-1][-1] * (time.perf_counter() - began)
                    spent[-1].append((_cpu() - cpu) / messages)
            direct, bare, linked = (statistics.median(column) for column in zip(*taken, strict=True))
            rows.append(
                {
                    "size": name,
                    "sessions": sessions,
                    "direct": round(direct, 1),
                    "bare": round(bare, 1),
                    "linked": round(linked, 1),
                    "bare/direct": round(statistics.median(row[1] / row[0] for row in taken), 3),
                    "linked/direct": round(statistics.median(row[2] / row[0] for row in taken), 3),
                    "by CPU": round(statistics.median(row[0] / row[2] for row in spent), 3),
                }
            )
    return rows


def _cpu() -> float:
    """Return the CPU seconds of this process and of all that it has started."""
    times = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return time.process_time() + float(sum(one.user + one.system for one in times))


async def harness(rounds: int, seconds: float) -> list[Row]:
    recorder = Recorder(Clock())
    links = Links(recorder)
    sink = await open_sink("sink", "smtp", recorder, links)
    link = await links.open("a", "sink", "smtp", sink.address)
    bare, address = await bare_relay(sink.address)
    rows = await compare(send, (sink.address, address, link.address), rounds, seconds)
    bare.close()
    await links.close()
    await sink.close()
    return rows


async def server(rounds: int, seconds: float) -> list[Row]:
    return await _through_a_server(rounds, seconds, both=False)


async def both(rounds: int, seconds: float) -> list[Row]:
    return await _through_a_server(rounds, seconds, both=True)


async def _through_a_server(rounds: int, seconds: float, *, both: bool) -> list[Row]:
    topology = Topology.model_validate(
        {
            "name": "one-relay",
            "servers": [{"name": "mta", "site": "Main"}],
            "sinks": [{"name": "sink", "domains": ["*"]}],
            "routes": [{"domain": "*", "next-hops": ["sink"]}],
        }
    )
    recorder = Recorder(Clock())
    links = Links(recorder)
    leases = PortLeases()
    async with AsyncExitStack() as stack:
        stack.callback(leases.release)
        stack.push_async_callback(links.close)
        sink = await open_sink("sink", "smtp", recorder, links)
        stack.push_async_callback(sink.close)
        bare_out, out = await bare_relay(sink.address)
        stack.callback(bare_out.close)
        await links.open("mta", "sink", "smtp", sink.address)
        ways = []
        link_out = links.address("mta", "sink", "smtp")
        onwards = {
            "direct": sink.address,
            "bare": out if both else sink.address,
            "linked": link_out if both else sink.address,
        }
        for way, onward in onwards.items():
            doors = {door: ("127.0.0.1", leases.lease()) for door in listeners_of("mailbox")}
            directory = Path(stack.enter_context(TemporaryDirectory()))
            wiring = Wiring(listen=lambda _, door, doors=doors: doors[door], dial=lambda *_, to=onward: to)  # type: ignore[misc]
            node = ExecNode("mta", find_candidate("exec:reference", Path()), directory)
            stack.push_async_callback(node.close)
            await node.start(render(topology, topology.servers[0], wiring, data_dir=directory / "data", seed=1))
            match way:
                case "direct":
                    ways.append(doors["frontend"])
                case "bare":
                    relay, address = await bare_relay(doors["frontend"])
                    stack.callback(relay.close)
                    ways.append(address)
                case _:
                    ways.append((await links.open("a", "mta", "frontend", doors["frontend"])).address)
        direct, bare, linked = ways
        return await compare(SendThroughServer(recorder).send, (direct, bare, linked), rounds, seconds)


async def one(rounds: int, seconds: float) -> list[Row]:
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", 0)
    links = Links(Recorder(Clock()))
    direct = server.sockets[0].getsockname()
    link = await links.open("a", "b", "smtp", direct)
    bare, address = await bare_relay(direct)
    rows = await compare(send_fast, (direct, address, link.address), rounds, seconds)
    bare.close()
    await links.close()
    server.close()
    return rows


async def three(rounds: int, seconds: float) -> list[Row]:
    spawn = multiprocessing.get_context("spawn")
    pipe, child = spawn.Pipe()
    receiver = spawn.Process(target=_in_process, args=(_receive, child))
    receiver.start()
    direct = pipe.recv()
    pipe_link, child_link = spawn.Pipe()
    linking = spawn.Process(target=_in_process, args=(_link, child_link, direct))
    linking.start()
    bare, linked = pipe_link.recv()
    try:
        return await compare(send_fast, (direct, bare, linked), rounds, seconds)
    finally:
        pipe.send(None)
        pipe_link.send(None)
        receiver.join()
        linking.join()


def _in_process(main: Callable[..., Coroutine[None, None, None]], *args: object) -> None:
    asyncio.run(main(*args))


async def _until_stopped(pipe: Connection) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_reader(pipe.fileno(), stopped.set)
    await stopped.wait()


async def _receive(pipe: Connection) -> None:
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname())
    await _until_stopped(pipe)


async def _link(pipe: Connection, target: Address) -> None:
    links = Links(Recorder(Clock()))
    link = await links.open("a", "b", "smtp", target)
    bare, address = await bare_relay(target)
    pipe.send((address, link.address))
    await _until_stopped(pipe)
    bare.close()
    await links.close()


def main() -> None:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument(
        "--only", choices=["server", "both", "harness", "three", "one"], help="one arrangement instead of all"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {multiprocessing.cpu_count()} cores, messages a second")
    print(" " * 10 + "".join(f"{name:>{width}}" for name, width in COLUMNS.items()))
    result: dict[str, list[Row]] = {}
    for arrangement in (server, both, harness, three, one):
        name = arrangement.__name__
        if options.only not in (None, name):
            continue
        result[name] = asyncio.run(arrangement(options.rounds, options.seconds))
        for row in result[name]:
            print(f"{name:10}" + "".join(f"{row[column]:>{width}}" for column, width in COLUMNS.items()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
