"""Every clock behind the one interface, and the leftovers of a cell that ran on it."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import get_args

import pytest

from conformance.clocks import CLOCKS, ClockName
from conformance.run.cell_loop import Clock, Leftovers, run_with_clock
from conformance.run.clocks.scaled import ScaledClock
from conformance.run.clocks.virtual import EPOCH

pytestmark = pytest.mark.usefixtures("no_leaks")

EVERY = pytest.mark.parametrize("name", get_args(ClockName))


@EVERY
def test_each_clock_has_its_name_scale_and_durations(name: ClockName) -> None:
    async def look(clock: Clock) -> tuple[str, float, float]:
        return clock.name, clock.scale, clock.duration(120)

    scale = 60.0 if name == "scaled" else 1.0
    assert run_with_clock(look, name, 60.0) == (name, scale, 120 / scale), "only the scaled clock uses the scale"


def test_virtual_stamps_begin_in_2030_and_follow_the_clock() -> None:
    async def stamps(clock: Clock) -> tuple[float, float, float]:
        before = clock.now()
        await clock.sleep(86400)
        return before, clock.now(), clock.take_lag()

    assert run_with_clock(stamps, "virtual") == (EPOCH, EPOCH + 86400, 0.0)
    assert time.gmtime(EPOCH)[:6] == (2030, 1, 1, 0, 0, 0)


def test_a_scaled_clock_divides_durations_and_waits_and_multiplies_back_what_passed() -> None:
    async def waits(clock: Clock) -> tuple[float, float, float]:
        before = clock.now()
        await clock.sleep(60)
        passed = clock.now() - before
        return clock.duration(60), clock.elapsed(), passed

    waited, elapsed, passed = run_with_clock(waits, "scaled", 600)
    assert waited == pytest.approx(0.1)
    assert elapsed >= 60
    assert 0.09 < passed < 30, "it waited for a tenth of a second, and stamps are the machine's own"
    loop = HandLoop()
    clock = ScaledClock(loop, 600)  # type: ignore[arg-type]
    loop.runs_until(1000.1)
    assert clock.elapsed() == pytest.approx(60), "exactly, where the time is set by hand"
    clock.stop()


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_an_invalid_scale_is_refused(scale: float) -> None:
    async def nothing(clock: Clock) -> None:
        raise AssertionError("must not be reached")

    with pytest.raises(ValueError, match="cannot be scaled"):
        run_with_clock(nothing, "scaled", scale)


class HandLoop:
    """A loop with one timer, whose time the test sets, so that lateness does not depend on the machine."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.due = float("inf")

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> "HandLoop":
        self.due, self.callback = when, callback
        return self

    def cancel(self) -> None:
        self.due = float("inf")

    def runs_until(self, now: float) -> None:
        while self.due <= now:
            self.now = max(self.now, self.due)
            self.callback()
        self.now = max(self.now, now)

    def is_blocked_for(self, seconds: float) -> None:
        self.now += seconds


def test_progress_is_flushed_once_before_virtual_time_passes() -> None:
    handed_on: list[tuple[float, list[str]]] = []
    happened: list[str] = []

    async def main(clock: Clock) -> None:
        clock.flush_with(lambda: handed_on.append((clock.elapsed(), happened[:])))
        for word in ("one", "two"):
            happened.append(word)
            clock.note_progress()
            await asyncio.sleep(0)
        assert handed_on == []
        await clock.sleep(7)
        assert handed_on == [(0.0, ["one", "two"])]

    run_with_clock(main, "virtual")


@pytest.mark.parametrize("name", sorted(CLOCKS.keys() - {"virtual"}))
def test_progress_is_flushed_at_once_where_time_passes_by_itself(name: ClockName) -> None:
    handed_on: list[str] = []

    async def main(clock: Clock) -> None:
        clock.flush_with(lambda: handed_on.append("all"))
        assert handed_on == [], "there was no progress yet"
        clock.note_progress()
        assert handed_on == ["all"]

    run_with_clock(main, name, 1.0)


def test_lag_is_the_time_the_loop_was_blocked_and_is_returned_once() -> None:
    loop = HandLoop()
    clock = ScaledClock(loop, 100)  # type: ignore[arg-type]
    loop.runs_until(1006)
    assert clock.take_lag() == 0
    loop.is_blocked_for(0.3)
    overdue = clock.take_lag()
    assert overdue == pytest.approx(30, abs=2), "0.3 real seconds, less a beat, at a scale of 100"
    assert clock.take_lag() == 0, "the timer is still late, and nothing was added"
    loop.is_blocked_for(0.1)
    more = clock.take_lag()
    assert more == pytest.approx(10), "only what was added"
    loop.is_blocked_for(0.1)
    loop.runs_until(1010)
    rest = clock.take_lag()
    assert overdue + more + rest == pytest.approx(50, abs=2), "the late timer adds what was not returned before"
    assert clock.take_lag() == 0
    loop.is_blocked_for(0.4)
    loop.runs_until(1020)
    assert clock.take_lag() == pytest.approx(40, abs=2), "nothing of the next time is left out"
    clock.stop()
    assert loop.due == float("inf")


def test_a_running_loop_measures_what_blocked_it() -> None:
    async def blocks(clock: Clock) -> tuple[float, float]:
        await clock.sleep(6)
        time.sleep(0.3)  # noqa: ASYNC251  # a harness that is busy
        await clock.sleep(6)
        return clock.take_lag(), clock.elapsed()

    lag, elapsed = run_with_clock(blocks, "scaled", 100)
    assert 25 <= lag < elapsed, "0.3 real seconds, less a beat; never more than what passed"


@EVERY
def test_leftover_tasks_are_cancelled_and_reported(name: ClockName) -> None:
    cancelled: list[bool] = []

    async def sleeps_on(clock: Clock) -> None:
        try:
            await clock.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def main(clock: Clock) -> None:
        tasks = [asyncio.create_task(sleeps_on(clock), name=name) for name in ("leftover 1", "leftover 2")]
        await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)

    said = r"tasks left behind:\n  leftover 1 in .*sleeps_on.*\n  leftover 2 in .*sleeps_on"
    with pytest.raises(Leftovers, match=said):
        run_with_clock(main, name)
    assert cancelled == [True, True]


@EVERY
def test_leftover_sockets_are_closed_and_reported(name: ClockName) -> None:
    opened: list[asyncio.trsock.TransportSocket] = []

    async def main(clock: Clock) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        transport, _ = await loop.create_connection(asyncio.Protocol, *server.sockets[0].getsockname())
        opened.extend((server.sockets[0], transport.get_extra_info("socket")))
        await asyncio.sleep(0)
        assert all(sock.fileno() >= 0 for sock in opened)

    with pytest.raises(Leftovers, match=r"sockets left open:(?s:.)*Transport fd=(?s:.)*listener fd="):
        run_with_clock(main, name)
    assert [sock.fileno() for sock in opened] == [-1, -1]


def test_leftovers_are_added_as_a_note_to_the_error_of_the_cell() -> None:
    async def main(clock: Clock) -> None:
        task = asyncio.create_task(clock.sleep(3600), name="the leftover")
        assert not task.done()
        await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
        raise LookupError("what went wrong")

    with pytest.raises(LookupError, match="what went wrong") as caught:
        run_with_clock(main, "virtual")
    (note,) = caught.value.__notes__
    assert "tasks left behind:\n  the leftover in " in note
    assert "sockets left open:\n  listener fd=" in note


@EVERY
def test_an_interrupt_cancels_the_cell_which_cleans_up(name: ClockName) -> None:
    steps: list[str] = []

    async def main(clock: Clock) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        loop.call_soon(lambda: os.kill(os.getpid(), signal.SIGINT))
        try:
            for _ in range(100_000):
                await clock.sleep(1)
        except asyncio.CancelledError:
            steps.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0.01)
            server.close()
            steps.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        run_with_clock(main, name)
    assert steps == ["cancelled", "cleaned up"]


@EVERY
def test_a_cell_may_run_outside_of_the_main_thread(name: ClockName) -> None:
    async def main(clock: Clock) -> bool:
        await clock.sleep(0.02)
        return clock.elapsed() >= 0.02 and threading.current_thread() is not threading.main_thread()

    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(run_with_clock(main, name)))
    thread.start()
    thread.join()
    assert found == [True]
