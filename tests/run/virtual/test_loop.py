"""Timers of the virtual loop: exact, in order, however far, and the same in every run."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence

import pytest

from conformance.run.cell_loop import Clock, run_with_clock
from conformance.run.clocks.virtual import EPOCH
from conformance.run.virtual.loop import VirtualClockEventLoop
from tests.run.virtual.heartbeats import beat


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        await asyncio.sleep(3600)
        writer.write(line)
    writer.close()


async def exchanges(clock: Clock, count: int) -> list[tuple[bytes, float]]:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    seen = []
    for number in range(count):
        writer.write(b"%d\n" % number)
        seen.append((await reader.readline(), clock.elapsed()))
    writer.close()
    await writer.wait_closed()
    server.close()
    return seen


def test_hours_pass_exactly() -> None:
    seen = run_with_clock(lambda clock: exchanges(clock, 49 * 24), "virtual")
    assert seen == [(b"%d\n" % number, 3600.0 * (number + 1)) for number in range(49 * 24)]


@pytest.mark.parametrize("start", [0.0, EPOCH], ids=["from 0", "from the epoch on"])
@pytest.mark.parametrize("delay", [1e-3, 0.1, 120.0, 86400.0, 86400.5, 2 * 86400.0, 49 * 86400.0, 3.2e9])
def test_a_timer_fires_at_its_own_time(start: float, delay: float) -> None:
    async def wait() -> tuple[list[float], list[float]]:
        loop = asyncio.get_running_loop()
        fired: list[float] = []
        timers = [loop.call_later(after, lambda: fired.append(loop.time())) for after in (delay, delay + 1e-3)]
        await asyncio.sleep(delay + 1)
        return [timer.when() for timer in timers], fired

    with asyncio.Runner(loop_factory=lambda: VirtualClockEventLoop(start=start)) as runner:
        when, at = runner.run(wait())
        loop = runner.get_loop()
    assert isinstance(loop, VirtualClockEventLoop)
    assert (at, loop.jumps) == (when, 3), "to each timer, and to the end"
    assert when == [start + delay, start + (delay + 1e-3)]


def test_timers_of_one_time_keep_their_order() -> None:
    async def order() -> list[int]:
        loop = asyncio.get_running_loop()
        seen: list[int] = []
        for number in range(1000):
            loop.call_at(60.0 if number % 3 else 30.0, seen.append, number)
        await asyncio.sleep(61)
        return seen

    with asyncio.Runner(loop_factory=VirtualClockEventLoop) as runner:
        seen = runner.run(order())
    assert seen == [n for n in range(1000) if n % 3 == 0] + [n for n in range(1000) if n % 3]


def test_cancelled_timers_are_not_jumped_to() -> None:
    async def many(clock: Clock) -> tuple[float, int]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualClockEventLoop)
        for number in range(500):  # more than asyncio keeps before it rebuilds its heap
            loop.call_later(1 + number, sys.exit).cancel()
        await clock.sleep(1000)
        return clock.elapsed(), loop.jumps

    assert run_with_clock(many, "virtual") == (1000, 1)


@pytest.mark.parametrize("days", [1, pytest.param(49, marks=pytest.mark.slow)])
def test_every_heartbeat_is_answered_at_its_own_time(days: int) -> None:
    with asyncio.Runner(loop_factory=VirtualClockEventLoop) as runner:
        assert runner.run(beat(days)) == (days * 720, days * 86400.0)


async def parallel_dialogues(clock: Clock) -> list[tuple[int, float]]:
    """Ten dialogues at once, each recorded line by line."""
    seen: list[tuple[int, float]] = []

    async def one(number: int) -> None:
        for _, at in await exchanges(clock, 3):
            seen.append((number, at))

    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(one(number))
    return seen


async def simultaneous_clients(clock: Clock) -> list[object]:
    """A server that receives from twenty clients at the same moment, in an order that only the program determines."""
    received: list[object] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            received.append((clock.elapsed(), line))
        received.append((clock.elapsed(), "end"))
        writer.close()

    server = await asyncio.start_server(receive, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    writers = [(await asyncio.open_connection(*address))[1] for _ in range(20)]
    for turn in range(5):
        await clock.sleep(120)
        for number, writer in enumerate(writers):
            writer.write(b"%d of %d\n" % (number, turn))
    for writer in reversed(writers):
        writer.close()
    await clock.sleep(1)
    server.close()
    return received


def distinct_histories(program: Callable[[Clock], Awaitable[Sequence[object]]], times: int) -> set[tuple[object, ...]]:
    """Run a program `times` times; return the different histories."""
    return {tuple(run_with_clock(program, "virtual")) for _ in range(times)}


PROGRAMS = pytest.mark.parametrize(
    ("program", "entries"), [(parallel_dialogues, 10 * 3), (simultaneous_clients, 20 * (5 + 1))]
)
"""Each with the length of its whole history: empty histories would be equal, too."""


@PROGRAMS
def test_twenty_runs_are_the_same(program: Callable[[Clock], Awaitable[Sequence[object]]], entries: int) -> None:
    runs = distinct_histories(program, 20)
    assert [len(history) for history in runs] == [entries]


@pytest.mark.slow
@PROGRAMS
def test_two_hundred_runs_of_two_hundred_are_the_same_beside_a_busy_core(
    program: Callable[[Clock], Awaitable[Sequence[object]]], entries: int, busy: None
) -> None:
    runs = distinct_histories(program, 200)
    assert [len(history) for history in runs] == [entries]


def order_of_ties(seed: int | None) -> tuple[list[int], list[int], list[int]]:
    """Return the orders in which timers of one time, sockets that became ready together, and `call_soon` were served."""

    async def main(clock: Clock) -> tuple[list[int], list[int], list[int]]:
        loop = asyncio.get_running_loop()
        timers: list[int] = []
        served: list[int] = []
        soon: list[int] = []
        for number in range(20):
            loop.call_at(loop.time() + 60, timers.append, number)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            served.append(int(await reader.readline()))
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        clients = [await asyncio.open_connection(*server.sockets[0].getsockname()) for _ in range(20)]
        await asyncio.sleep(61)
        for number, (_, writer) in reversed(list(enumerate(clients))):  # not in the order of their registration
            writer.write(b"%d\n" % number)
        for number in range(20):
            loop.call_soon(soon.append, number)
        await asyncio.sleep(1)
        for _, writer in clients:
            writer.close()
        server.close()
        return timers, served, soon

    return run_with_clock(main, "virtual", ties=seed)


def test_ties_keep_their_order_without_a_seed() -> None:
    assert order_of_ties(None) == (list(range(20)),) * 3


def test_a_seed_draws_the_order_of_ties_and_not_of_call_soon() -> None:
    orders = [order_of_ties(seed) for seed in (2, 3)]
    for timers, served, soon in orders:
        assert sorted(timers) == sorted(served) == soon == list(range(20))
        assert timers != soon
        assert served != soon
    assert orders[0][0] != orders[1][0]
    assert orders[0][1] != orders[1][1]
    assert order_of_ties(2) == orders[0]
