"""The jumps of the shifted clock: programs and harness go from timer to timer together, and nobody is jumped over."""

import asyncio
import socket
import struct
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from conformance.run.cell_loop import Clock, run_with_clock
from conformance.run.shifted import loop as loop_module
from conformance.run.shifted.loop import ShiftedClockEventLoop
from conformance.run.shifted.process_tree import ProcessTree
from conformance.run.virtual.selector import OrderedSelector, Ready
from tests.run.shifted.shifted_process import HOUR, MARKS, moving, run_moved

pytestmark = MARKS

WAITING = struct.Struct("iiQqQ")
"""A slot of the page (shim.h): thread, whether it waits, epoch, deadline, ended waits."""
LAST_SLOT = 64 + 255 * WAITING.size


def test_a_moved_loop_alone_jumps_over_its_own_timers() -> None:
    async def main(clock: Clock) -> tuple[float, float, str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ShiftedClockEventLoop)
        before = clock.now()
        await clock.sleep(5 * 86400)
        return clock.elapsed(), clock.now() - before, clock.name

    elapsed, stamps, name = run_with_clock(main, "shifted")
    assert (elapsed, stamps) == (pytest.approx(5 * 86400, abs=5), pytest.approx(5 * 86400, abs=5))
    assert name == "shifted"


def test_programs_and_harness_go_from_timer_to_timer_together(tmp_path: Path) -> None:
    """Each sees the other's moments in their order: nobody is jumped over."""

    async def main(clock: Clock) -> list[str]:
        order: list[str] = []

        async def listen(stream: asyncio.StreamReader) -> None:
            while line := await stream.readline():
                order.append(line.decode().strip())

        async def beat() -> None:
            await clock.sleep(1800)
            for number in range(6):
                order.append(f"harness {number}")
                await clock.sleep(3600)

        program = "import time\nfor n in range(6): time.sleep(3600); print('program', n, flush=True)"
        words = (sys.executable, "-u", "-c", program)
        async with moving(clock, tmp_path, *words, stdout=PIPE) as (moved, process):
            assert process.stdout is not None
            moved.on_ready()
            await asyncio.gather(listen(process.stdout), beat())
        return order

    order = run_with_clock(main, "shifted")
    assert order == [f"{who} {number}" for number in range(6) for who in ("harness", "program")]


def test_a_program_that_computes_is_waited_for(tmp_path: Path) -> None:
    """No time is jumped over while it works, however long that takes; what it sleeps afterwards is."""
    program = """
import hashlib, time
began = time.monotonic()
cpu = time.process_time()
hashlib.pbkdf2_hmac("sha256", b"a", b"b", 400_000)
worked, cpu = time.monotonic() - began, time.process_time() - cpu
time.sleep(3600)
print(worked < 1800, cpu > 0, time.monotonic() - began > 3600)
"""
    timer: list[asyncio.TimerHandle] = []

    def tempt(clock: Clock) -> None:  # there is a timer to jump to all the time
        timer.append(asyncio.get_running_loop().call_later(1800, lambda: None))

    said, _ = run_moved(tmp_path, sys.executable, "-c", program, before=tempt)
    assert said.split() == ["True", "True", "True"]


def test_a_process_that_was_numbered_as_the_guard_is_no_guard(tmp_path: Path) -> None:
    """Below, in a namespace of their own, processes have numbers that others have outside. What one of them left in the
    page when it was killed says nothing of the guard."""

    async def main(clock: Clock) -> float:
        async with moving(clock, tmp_path, "sleep", "3600") as (moved, process):
            with moved.page.path.open("r+b") as page:
                page.seek(LAST_SLOT)
                page.write(WAITING.pack(process.pid, 1, 0, 0, 0))
            moved.on_ready()
            await process.wait()
        return clock.elapsed()

    assert run_with_clock(main, "shifted") >= HOUR


def test_what_was_sent_right_before_all_were_found_quiet_is_read_before_the_jump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    look = ProcessTree.quiet_until
    read: list[float] = []

    def sends_last(tree: ProcessTree) -> int | None:
        found = look(tree)
        if found is not None and not read:
            theirs.send(b"x")
        return found

    def listen(clock: Clock) -> None:
        def come() -> None:
            ours.recv(64)
            read.append(clock.elapsed())

        asyncio.get_running_loop().add_reader(ours, come)

    monkeypatch.setattr(ProcessTree, "quiet_until", sends_last)
    with ours, theirs:
        _, passed = run_moved(tmp_path, "sleep", "3600", before=listen)
    assert passed >= HOUR
    assert read[0] < HOUR


def test_what_a_kernel_holds_back_until_it_is_acknowledged_is_read_before_the_jump(tmp_path: Path) -> None:
    """A second small segment waits for the acknowledgement of the first (RFC 896), which may take 40 ms (RFC 1122): all
    are asleep then."""
    program = """
import socket, sys
ours = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for _ in range(40):
    ours.send(b"ping")
    ours.recv(4)
ours.send(b"first")
ours.send(b"second")
assert ours.recv(4) == b"done"
"""

    async def main(clock: Clock) -> float:
        come: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(40):
                await reader.readexactly(4)
                writer.write(b"pong")
            await reader.readuntil(b"second")
            come.set_result(clock.elapsed())
            writer.write(b"done")
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        words = (sys.executable, "-c", program, server.sockets[0].getsockname()[1])
        async with moving(clock, tmp_path, *words) as (moved, _):
            moved.on_ready()
            await asyncio.sleep(HOUR)
        server.close()
        return await come

    assert run_with_clock(main, "shifted") < HOUR


@pytest.mark.parametrize("by", ["a socket", "a timer"])
def test_programs_are_asked_again_whatever_the_loop_has_done_since(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many turns it took, and whether or not it was progress: what was sent may have come to one of them."""
    ours, theirs = socket.socketpair()
    deadline, ask, poll = ProcessTree.quiet_until, ProcessTree.ask_again, OrderedSelector.poll
    told: list[str] = []
    due: list[bytes] = []
    turns = 20

    def act(left: int) -> None:
        if left:
            asyncio.get_running_loop().call_soon(act, left - 1)
        else:
            told.append("acted")

    def listen(clock: Clock) -> None:
        def come() -> None:
            ours.recv(64)
            clock.note_progress()
            act(told.count("acted"))

        asyncio.get_running_loop().add_reader(ours, come)

    def looked(tree: ProcessTree) -> int | None:
        if told.count("acted") == turns:
            return deadline(tree)
        if not told or told[-1] != "begun":
            told.append("begun")
            loop = asyncio.get_running_loop()
            if by == "a timer":
                loop.call_at(loop.time(), act, 0)
            else:
                due.append(b"x")
        return None

    def asked(tree: ProcessTree) -> None:
        told.append("asked")
        ask(tree)

    def polled(sockets: OrderedSelector, timeout: float | None) -> Ready:
        if timeout == 0 and due:  # it comes when nobody waits for it: between two turns
            theirs.send(due.pop())
        return poll(sockets, timeout)

    monkeypatch.setattr(ProcessTree, "quiet_until", looked)
    monkeypatch.setattr(ProcessTree, "ask_again", asked)
    monkeypatch.setattr(OrderedSelector, "poll", polled)
    with ours, theirs:
        run_moved(tmp_path, "sleep", "3600", before=listen)
    after = [told[place + 1] for place, word in enumerate(told) if word == "acted"]
    assert after == ["asked"] * turns


def test_timers_that_are_too_many_are_met_a_little_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that ticks all the time does not make a day last for hours; how late it was woken is told."""
    monkeypatch.setattr(loop_module, "MAX_REAL_WAIT_S", 0.0)
    monkeypatch.setattr(loop_module, "MAX_SKIP_FRACTION", 0.01)
    program = "import time\nend = time.time() + 86400\nwhile time.time() < end: time.sleep(1)"
    late: list[float] = []
    jumps: list[int] = []

    async def main(clock: Clock) -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ShiftedClockEventLoop)
        async with moving(clock, tmp_path, sys.executable, "-c", program) as (moved, _):
            moved.on_ready()
            await clock.sleep(86500)
            late.append(clock.take_lag())
            jumps.append(loop.jumps)
        return clock.elapsed()

    assert run_with_clock(main, "shifted") == pytest.approx(86500, abs=1000)
    assert jumps[0] < 1000, "not one for each tick"
    assert 1 < late[0] < 1000, "the day's hundredth part, and told"
