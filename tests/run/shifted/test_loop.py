"""The jumps of the shifted clock: from timer to timer of programs and harness, and none is jumped over."""

import asyncio
import re
import socket
import struct
import sys
import time
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from conformance.run.cell_loop import Clock, run_with_clock
from conformance.run.shifted import loop as loop_module
from conformance.run.shifted.loop import ShiftedClockEventLoop
from conformance.run.shifted.process_tree import ProcessTree
from conformance.run.virtual.errors import Runaway
from conformance.run.virtual.selector import OrderedSelector, Ready
from tests.run.shifted.shifted_process import HOUR, MARKS, run_shifted, running_shifted

pytestmark = MARKS

WAITING = struct.Struct("iiQqQ")
"""A slot of the page (shim.h): thread, whether it waits, epoch, deadline, ended waits."""
LAST_SLOT = 64 + 255 * WAITING.size


def test_a_loop_without_programs_jumps_to_its_own_timers() -> None:
    async def main(clock: Clock) -> tuple[float, float, str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ShiftedClockEventLoop)
        before = clock.now()
        woken: list[float] = []

        async def wake(seconds: float) -> None:
            await clock.sleep(seconds)
            woken.append(clock.elapsed())

        await asyncio.gather(wake(5 * 86400), wake(3600), wake(7200))
        assert woken == [pytest.approx(seconds, abs=5) for seconds in (3600, 7200, 5 * 86400)]
        return clock.elapsed(), clock.now() - before, clock.name

    elapsed, stamps, name = run_with_clock(main, "shifted")
    assert (elapsed, stamps) == (pytest.approx(5 * 86400, abs=5), pytest.approx(5 * 86400, abs=5))
    assert name == "shifted"


def test_what_happens_between_two_jumps_is_a_runaway_when_it_is_too_much() -> None:
    """However much happens before and after other jumps."""

    async def main(clock: Clock) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ShiftedClockEventLoop)
        loop._max_progress = 50
        for at_once in (*[1] * 200, 50, 50):
            for _ in range(at_once):
                loop.note_progress()
            await clock.sleep(60)
        for _ in range(51):
            loop.note_progress()
        with pytest.raises(Runaway, match="more than 50 things have happened"):
            async with clock.raising_clock_errors():
                await clock.sleep(60)

    run_with_clock(main, "shifted")


def test_the_representation_has_the_shifted_time() -> None:
    async def main(clock: Clock) -> tuple[float, str]:
        before = time.monotonic()
        await clock.sleep(5 * 86400)
        return before + 5 * 86400, repr(asyncio.get_running_loop())

    at, shown = run_with_clock(main, "shifted")
    found = re.search(r"<ShiftedClockEventLoop running t=([\d.]+) ", shown)
    assert found
    assert float(found[1]) == pytest.approx(at, abs=5)


def test_timers_of_programs_and_harness_expire_in_their_order(tmp_path: Path) -> None:
    """Both print at alternate times: a timer jumped over is out of order, if a program's, or late, if the harness's."""

    async def main(clock: Clock) -> list[str]:
        order: list[str] = []
        late: list[float] = []

        async def listen(stream: asyncio.StreamReader) -> None:
            while line := await stream.readline():
                order.append(line.decode().strip())

        async def beat() -> None:
            began = clock.elapsed()
            await clock.sleep(1800)
            for number in range(6):
                order.append(f"harness {number}")
                late.append(clock.elapsed() - (began + 1800 + number * 3600))
                await clock.sleep(3600)

        program = "import time\nfor n in range(6): time.sleep(3600); print('program', n, flush=True)"
        words = (sys.executable, "-u", "-c", program)
        async with running_shifted(clock, tmp_path, *words, stdout=PIPE) as (shifted, process):
            assert process.stdout is not None
            shifted.on_ready()
            await asyncio.gather(listen(process.stdout), beat())
        assert max(late) < 600, "the harness was not woken at a program's timer"
        return order

    order = run_with_clock(main, "shifted")
    assert order == [f"{who} {number}" for number in range(6) for who in ("harness", "program")]


def test_no_time_is_skipped_while_a_program_computes(tmp_path: Path) -> None:
    """No time is jumped over while it works, however long that takes; what it sleeps afterwards is."""
    begun, go = tmp_path / "begun", tmp_path / "go"
    program = f"""
import hashlib, os, time
began = time.monotonic()
cpu = time.process_time()
open({str(begun)!r}, "w").close()
while not os.path.exists({str(go)!r}): pass
hashlib.pbkdf2_hmac("sha256", b"a", b"b", 400_000)
worked, cpu = time.monotonic() - began, time.process_time() - cpu
time.sleep(3600)
print(worked < 1800, cpu > 0, time.monotonic() - began > 3600)
"""
    timer: list[asyncio.TimerHandle] = []

    def add_timer(clock: Clock) -> None:  # to have a time to jump to, while it works
        while not begun.exists():
            time.sleep(0.001)
        timer.append(asyncio.get_running_loop().call_later(1800, lambda: None))
        go.touch()

    said, _ = run_shifted(tmp_path, sys.executable, "-c", program, before=add_timer)
    assert said.split() == ["True", "True", "True"]


def test_a_stale_slot_with_the_guards_process_id_is_ignored(tmp_path: Path) -> None:
    """Below, in a namespace of their own, processes have numbers that others have outside. What one of them left in the
    page when it was killed says nothing of the guard."""

    async def main(clock: Clock) -> float:
        async with running_shifted(clock, tmp_path, "sleep", "3600") as (shifted, process):
            with shifted.page.path.open("r+b") as page:
                page.seek(LAST_SLOT)
                page.write(WAITING.pack(process.pid, 1, 0, 0, 0))
            shifted.on_ready()
            await process.wait()
        return clock.elapsed()

    assert run_with_clock(main, "shifted") >= HOUR


def test_octets_sent_right_before_all_were_found_asleep_are_read_before_the_jump(
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
        def on_readable() -> None:
            ours.recv(64)
            read.append(clock.elapsed())

        asyncio.get_running_loop().add_reader(ours, on_readable)

    monkeypatch.setattr(ProcessTree, "quiet_until", sends_last)
    with ours, theirs:
        _, passed = run_shifted(tmp_path, "sleep", "3600", before=listen)
    assert passed >= HOUR
    assert read[0] < HOUR


def test_octets_that_await_an_acknowledgement_are_read_before_the_jump(tmp_path: Path) -> None:
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
        read_at: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(40):
                await reader.readexactly(4)
                writer.write(b"pong")
            await reader.readuntil(b"second")
            read_at.set_result(clock.elapsed())
            writer.write(b"done")
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        words = (sys.executable, "-c", program, server.sockets[0].getsockname()[1])
        async with running_shifted(clock, tmp_path, *words) as (shifted, _):
            shifted.on_ready()
            await asyncio.sleep(HOUR)
        server.close()
        return await read_at

    assert run_with_clock(main, "shifted") < HOUR


@pytest.mark.parametrize("by", ["a socket", "a timer", "a jump"])
def test_programs_are_asked_again_after_each_action_of_the_loop(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After any number of turns, with or without progress: a program may have received what was sent meanwhile.

    After a jump a program may have been woken by its own timer.
    """
    ours, theirs = socket.socketpair()
    deadline, ask, poll = ProcessTree.quiet_until, ProcessTree.ask_again, OrderedSelector.poll
    actions: list[str] = []
    due: list[bytes] = []
    turns = 20

    def act(left: int) -> None:
        if left:
            asyncio.get_running_loop().call_soon(act, left - 1)
        else:
            actions.append("acted")

    def listen(clock: Clock) -> None:
        def on_readable() -> None:
            ours.recv(64)
            clock.note_progress()
            act(actions.count("acted"))

        asyncio.get_running_loop().add_reader(ours, on_readable)

    def looked(tree: ProcessTree) -> int | None:
        if actions.count("acted") == turns:
            return deadline(tree)
        if by == "a jump":
            actions.append("acted")
            return int((asyncio.get_running_loop().time() + 60) * 1e9)
        if not actions or actions[-1] != "begun":
            actions.append("begun")
            loop = asyncio.get_running_loop()
            if by == "a timer":
                loop.call_at(loop.time(), act, 0)
            else:
                due.append(b"x")
        return None

    def asked(tree: ProcessTree) -> None:
        actions.append("asked")
        ask(tree)

    def polled(sockets: OrderedSelector, timeout: float | None) -> Ready:
        if timeout == 0 and due:  # it is sent between two turns, when the loop does not wait
            theirs.send(due.pop())
        return poll(sockets, timeout)

    monkeypatch.setattr(ProcessTree, "quiet_until", looked)
    monkeypatch.setattr(ProcessTree, "ask_again", asked)
    monkeypatch.setattr(OrderedSelector, "poll", polled)
    with ours, theirs:
        run_shifted(tmp_path, "sleep", "3600", before=listen)
    after = [actions[place + 1] for place, word in enumerate(actions) if word == "acted"]
    assert after == ["asked"] * turns


def test_too_many_timers_expire_late_and_the_lag_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that ticks all the time does not make a day last for hours; how late it was woken is measured."""
    monkeypatch.setattr(loop_module, "MAX_REAL_WAIT_S", 0.0)
    monkeypatch.setattr(loop_module, "MAX_EXACT_WAIT_S", 0.0)
    monkeypatch.setattr(loop_module, "MAX_SKIP_FRACTION", 0.01)
    program = "import time\nend = time.time() + 86400\nwhile time.time() < end: time.sleep(1)"
    late: list[float] = []
    jumps: list[int] = []

    async def main(clock: Clock) -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ShiftedClockEventLoop)
        async with running_shifted(clock, tmp_path, sys.executable, "-c", program) as (shifted, _):
            shifted.on_ready()
            await clock.sleep(86500)
            late.append(clock.take_lag())
            jumps.append(loop.jumps)
        return clock.elapsed()

    assert run_with_clock(main, "shifted") == pytest.approx(86500, abs=1000)
    assert jumps[0] < 1000, "not one for each tick"
    assert 1 < late[0] < 1000, "at most about the hundredth part of the day"
