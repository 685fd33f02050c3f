"""When virtual time cannot go on, an error names the waiting tasks at once, and tasks can clean up."""

import asyncio
import itertools
import re
from collections.abc import Iterator

import pytest

from conformance.run.cell_loop import Clock, run_with_clock
from conformance.run.virtual.errors import Deadlock, Runaway, Stall
from conformance.run.virtual.loop import VirtualClockEventLoop


def run_on(loop: VirtualClockEventLoop, coroutine: object) -> object:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(coroutine)  # type: ignore[arg-type]


async def waits(clock: Clock) -> None:
    await clock.sleep(120)
    await asyncio.Event().wait()


def test_a_deadlock_names_the_waiting_tasks_and_their_places() -> None:
    async def main(clock: Clock) -> None:
        helper = asyncio.create_task(waits(clock), name="the heartbeat")
        await helper

    with pytest.raises(Deadlock) as caught:
        run_with_clock(main, "virtual")
    said = str(caught.value)
    assert said.startswith("at 120.000000 s nothing is left to happen, and these wait:\n")
    here, there = (of.__code__.co_firstlineno + 2 for of in (main, waits))  # the second line of each waits
    assert f"\n  the heartbeat in waits (test_errors.py:{there}) > Event.wait\n" in said
    assert re.search(rf"\n  Task-\d+ in .*\.main \(test_errors\.py:{here}\)\n", said)
    assert said.endswith("\n  no timer")


@pytest.mark.parametrize(("helpers", "rest"), [(11, []), (12, ["  and 1 more"]), (20, ["  and 9 more"])])
def test_a_deadlock_names_twelve_tasks_and_counts_the_rest(helpers: int, rest: list[str]) -> None:
    async def main(clock: Clock) -> None:
        await asyncio.gather(*(asyncio.create_task(waits(clock), name=f"h{number:02}") for number in range(helpers)))

    with pytest.raises(Deadlock) as caught:
        run_with_clock(main, "virtual")
    said = str(caught.value).splitlines()[1:-1]
    assert said[12:] == rest
    assert [line.split()[0] for line in said[:11]] == [f"h{number:02}" for number in range(11)]
    assert said[11].split()[0].startswith("h11" if helpers > 11 else "Task-")


def test_an_infinite_timer_does_not_prevent_a_deadlock() -> None:
    async def main(clock: Clock) -> None:
        await clock.sleep(float("inf"))

    with pytest.raises(Deadlock, match="no timer"):
        run_with_clock(main, "virtual")


def test_waiting_for_a_socket_that_receives_nothing_is_a_deadlock() -> None:
    async def main(clock: Clock) -> None:
        server = await asyncio.start_server(lambda reader, writer: writers.append(writer), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            await reader.readline()
        finally:
            for each in (writer, *writers):
                each.close()
            server.close()

    writers: list[asyncio.StreamWriter] = []
    with pytest.raises(Deadlock, match=r"StreamReader\.readline") as caught:
        run_with_clock(main, "virtual")
    assert not hasattr(caught.value, "__notes__"), "all was closed on the way out"


def test_jumps_without_progress_are_a_runaway() -> None:
    async def ticks(count: int, *, progress: bool) -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualClockEventLoop)
        for _ in range(count):
            await asyncio.sleep(60)
            if progress:
                loop.note_progress()
        return loop.time()

    assert run_on(VirtualClockEventLoop(max_jumps=500), ticks(500, progress=False)) == 500 * 60
    assert run_on(VirtualClockEventLoop(max_jumps=500), ticks(5000, progress=True)) == 5000 * 60
    with pytest.raises(
        Runaway, match=r"at 30000\.000000 s 500 jumps of the clock, and no progress:\n  Task-.* in .*ticks"
    ):
        run_on(VirtualClockEventLoop(max_jumps=500), ticks(501, progress=False))


def test_a_loop_that_spins_at_one_moment_is_a_runaway() -> None:
    async def spins(count: float, every: float = 0, *, progress: bool = False) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualClockEventLoop)
        turned = 0
        while turned < count:
            turned += 1
            if progress:
                loop.note_progress()
            await asyncio.sleep(every)

    run_on(VirtualClockEventLoop(max_turns=1000), spins(900))
    run_on(VirtualClockEventLoop(max_turns=1000), spins(5000, every=0.001))
    run_on(VirtualClockEventLoop(max_turns=1000), spins(5000, progress=True))
    with pytest.raises(Runaway, match="1000 turns of the loop without a jump, and no progress") as caught:
        run_on(VirtualClockEventLoop(max_turns=1000), spins(float("inf")))
    assert "spins" in str(caught.value)


def test_endless_progress_at_one_moment_is_a_runaway() -> None:
    async def happens(count: int, every: float) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualClockEventLoop)
        for _ in range(count):
            loop.note_progress()
            await asyncio.sleep(every)

    run_on(VirtualClockEventLoop(max_progress=1000), happens(1000, every=0))
    run_on(VirtualClockEventLoop(max_progress=1000), happens(5000, every=0.001))
    with pytest.raises(Runaway, match="more than 1000 things have happened, and no time passes") as caught:
        run_on(VirtualClockEventLoop(max_progress=1000), happens(5000, every=0))
    assert "happens" in str(caught.value)


def test_what_the_tracker_finds_in_flight_for_longer_than_the_limit_is_a_stall() -> None:
    """The kernel cannot be made to lose octets on purpose: a tracker that finds something in flight stands in for it."""

    pending = "8 octets of 127.0.0.1:1 -> 127.0.0.1:2"

    async def exchange(clock: Clock, found: Iterator[str]) -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualClockEventLoop)
        server = await asyncio.start_server(lambda reader, writer: writers.append(writer), "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await clock.sleep(1)
        loop.kernel_timeout = 0.1
        loop.tracker.predict_readable = lambda: None  # type: ignore[method-assign]
        loop.tracker.find_pending = lambda nothing_readable: next(found, "")  # type: ignore[method-assign]
        writer.write(b"250 OK\r\n")
        try:
            await clock.sleep(60)
        finally:
            del loop.tracker.find_pending, loop.tracker.predict_readable
            for each in (writer, *writers):
                each.close()
            server.close()
        return clock.elapsed()

    writers: list[asyncio.StreamWriter] = []
    found = itertools.repeat(pending, 120)  # about half of the time that is allowed
    assert run_with_clock(lambda clock: exchange(clock, found), "virtual") == 61, "it was delivered in time"
    assert list(found) == [], "the loop has waited for it"
    with pytest.raises(
        Stall, match=r"after 0\.1 real seconds the kernel has not delivered 8 octets of 127\.0\.0\.1:1 -> "
    ) as caught:
        run_with_clock(lambda clock: exchange(clock, itertools.repeat(pending)), "virtual")
    assert "next timer in 60 s" in str(caught.value)


def test_cleanup_after_a_deadlock_may_take_virtual_time() -> None:
    cleaned: list[float] = []

    async def main(clock: Clock) -> None:
        try:
            await waits(clock)
        finally:
            await clock.sleep(30)
            cleaned.append(clock.elapsed())

    with pytest.raises(Deadlock):
        run_with_clock(main, "virtual")
    assert cleaned == [150]


def test_a_guard_raises_the_deadlock_and_the_cell_may_go_on() -> None:
    async def main(clock: Clock) -> float:
        with pytest.raises(Deadlock):
            async with clock.raising_clock_errors():
                await waits(clock)
        await clock.sleep(10)  # the cancellation is over
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        return clock.elapsed()

    assert run_with_clock(main, "virtual") == 130


@pytest.mark.parametrize("deadlock", [False, True], ids=["alone", "after that of a deadlock"])
def test_a_guard_does_not_swallow_an_ordinary_cancellation(deadlock: bool) -> None:
    cleaning = asyncio.Event()

    async def guarded(clock: Clock) -> None:
        async with clock.raising_clock_errors():
            try:
                await clock.sleep(float("inf") if deadlock else 60)
            finally:
                cleaning.set()
                await clock.sleep(60)

    async def main(clock: Clock) -> bool:
        task = asyncio.create_task(guarded(clock))
        if deadlock:
            await cleaning.wait()  # the guard has cancelled the task
        else:
            await clock.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert run_with_clock(main, "virtual")


def test_a_deadlock_during_cleanup_ends_the_cell() -> None:
    async def main(clock: Clock) -> None:
        try:
            await waits(clock)
        finally:
            await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"main \(test_errors\.py:\d+\) > Event\.wait"):
        run_with_clock(main, "virtual")
