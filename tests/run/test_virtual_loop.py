"""The virtual clock on real sockets: exact times, nothing lost, and clear words when time cannot go on."""

import asyncio

import pytest

from conformance.run.clock import EPOCH, Clock, run_with_clock
from conformance.run.virtual.errors import Deadlock, Runaway
from conformance.run.virtual.loop import VirtualClockEventLoop


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


def test_hours_pass_exactly_and_without_waiting():
    seen = run_with_clock(lambda clock: exchanges(clock, 49 * 24), "virtual", 1)
    assert seen == [(b"%d\n" % number, 3600.0 * (number + 1)) for number in range(49 * 24)]


def test_the_same_program_has_the_same_times_every_time():
    async def race(clock: Clock) -> list[tuple[int, float]]:
        seen: list[tuple[int, float]] = []

        async def one(number: int) -> None:
            for _, at in await exchanges(clock, 3):
                seen.append((number, at))

        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(one(number))
        return seen

    assert len({tuple(run_with_clock(race, "virtual", 1)) for _ in range(20)}) == 1


def test_stamps_follow_the_clock():
    async def stamps(clock: Clock) -> tuple[float, float]:
        before = clock.now()
        await clock.sleep(86400)
        return before, clock.now()

    assert run_with_clock(stamps, "virtual", 1) == (EPOCH, EPOCH + 86400)


def test_nothing_left_to_happen_is_told_with_who_waits():
    async def waits(clock: Clock) -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match=r"nothing is left to happen(?s:.)*waits \(test_virtual_loop\.py"):
        run_with_clock(waits, "virtual", 1)


def test_jumps_without_progress_are_told():
    async def ticks() -> None:
        while True:
            await asyncio.sleep(60)

    with asyncio.Runner(loop_factory=lambda: VirtualClockEventLoop(max_jumps=500)) as runner, pytest.raises(Runaway):
        runner.run(ticks())


def test_a_scaled_clock_divides_and_multiplies_back():
    async def waits(clock: Clock) -> tuple[float, float]:
        await clock.sleep(60)
        return clock.duration(60), clock.elapsed()

    waited, elapsed = run_with_clock(waits, "scaled", 600)
    assert waited == pytest.approx(0.1)
    assert elapsed >= 60
