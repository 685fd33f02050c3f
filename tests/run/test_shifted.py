"""The shifted clock: every wait that a program can make ends with the jump, and what cannot be moved is refused."""

import asyncio
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from conformance.nodes.guard import descendants
from conformance.run.clock import Clock, run_with_clock
from conformance.run.shifted import loop as loop_module
from conformance.run.shifted.build import compiled, library
from conformance.run.shifted.errors import CannotShift, Unmoved
from conformance.run.shifted.loop import ShiftedClockEventLoop
from conformance.run.shifted.program import ShiftedProgram
from conformance.run.shifted.programs import look_at, untouched
from conformance.run.shifted.tree import Tree
from conformance.run.virtual.selector import OrderedSelector, Ready

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("cc") is None, reason="the shifted clock needs a C compiler"),
]

HOUR = 3600.0
WAITING = struct.Struct("iiQqQ")
"""A slot of the page (shim.h): thread, whether it waits, epoch, deadline, ended waits."""
LAST_SLOT = 64 + 255 * WAITING.size
WAITS = Path(__file__).parent / "programs" / "waits.c"
SIGNALLED = WAITS.with_name("signalled.c")


@pytest.fixture(scope="module")
def waits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that waits in every way."""
    program = tmp_path_factory.mktemp("program") / "waits"
    subprocess.run(["cc", "-O1", "-pthread", "-o", program, WAITS], check=True)
    return program


@pytest.fixture(scope="module")
def signalled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that is signalled between two slices of a wait."""
    program = tmp_path_factory.mktemp("program") / "signalled"
    subprocess.run(["cc", "-O1", "-rdynamic", "-o", program, SIGNALLED, "-ldl"], check=True)
    return program


def running(pid: int) -> Path | None:
    """Return the program that a process runs; None when it has ended."""
    try:
        return Path(f"/proc/{pid}/exe").readlink()
    except OSError:
        return None


async def guarded(moved: ShiftedProgram, *argv: object, stdout: int | None = None) -> Process:
    """Start a program with its clock moved, below a guard whose clock is not; both are a process group of their own.

    Return once the program runs with the shim, or has ended.
    """
    words = [str(word) for word in argv]
    guard = ["/bin/sh", "-c", '"$@"; exit $?', "guard", *moved.prefix(words[0], os.environ), *words]
    process = await asyncio.create_subprocess_exec(*guard, stdout=stdout, start_new_session=True)
    moved.began(process.pid)
    while process.returncode is None:
        below = [*descendants(process.pid)]
        if below and not any(untouched(pid, Path(library().name), moved.page.path) for pid in below):
            break
        await asyncio.sleep(0.01)
    return process


def run_moved(
    directory: Path, *argv: object, before: Callable[[Clock], None] = lambda clock: None
) -> tuple[str, float]:
    """Run a program with its clock moved; return what it printed, and the seconds that passed in the harness."""

    async def main(clock: Clock) -> tuple[str, float]:
        moved = clock.program(directory / "clock")
        assert moved is not None
        process = await guarded(moved, *argv, stdout=PIPE)
        moved.ready()
        before(clock)
        try:
            said, _ = await process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise
        moved.ending()
        moved.ended()
        assert process.returncode == 0, said
        return said.decode(), clock.elapsed()

    return run_with_clock(main, "shifted")


def look_once_it_runs(directory: Path, program: Path, command: list[str], environment: Mapping[str, str]) -> None:
    """Start a command whose clock is to be moved below a guard, and have the clock look at it once the program runs."""

    async def main(clock: Clock) -> None:
        moved = clock.program(directory / "clock")
        assert moved is not None
        words = shlex.join([*moved.prefix(command[0], environment), *command])
        guard = await asyncio.create_subprocess_exec("/bin/sh", "-c", f"{words} & echo; read line; kill $!", stdin=PIPE)
        moved.began(guard.pid)
        try:
            while program not in {running(pid) for pid in descendants(guard.pid)}:
                await asyncio.sleep(0.01)
            moved.ready()
        finally:
            await guard.communicate(b"\n")
            moved.ended()

    run_with_clock(main, "shifted")


WAYS = re.findall(r'IS\("([a-z_-]+)"\)', WAITS.read_text())


@pytest.mark.parametrize("way", WAYS)
def test_a_wait_ends_with_the_jump(way: str, waits: Path, tmp_path: Path) -> None:
    said, elapsed = run_moved(tmp_path, waits, way)
    mono, wall = map(int, said.split())
    assert (mono, wall) == (pytest.approx(HOUR, abs=30), pytest.approx(HOUR, abs=30))
    assert elapsed == pytest.approx(HOUR, abs=60), "the harness's clock has jumped with it"


@pytest.mark.parametrize("way", re.findall(r'IS\("([a-z_]+)"\)', SIGNALLED.read_text()))
def test_a_signal_between_two_slices_ends_the_wait(way: str, signalled: Path, tmp_path: Path) -> None:
    """Exim's daemon waits in select for whatever may come; the alarm of its queue runs must not pass unseen."""
    said, _ = run_moved(tmp_path, signalled, way)
    assert said.split() == ["interrupted"]


@pytest.mark.parametrize(
    "program",
    [
        "import time; time.sleep(3600)",
        "import asyncio; asyncio.run(asyncio.sleep(3600))",
        "import threading; threading.Event().wait(3600)",
        "import threading, time; t = threading.Thread(target=time.sleep, args=(3600,)); t.start(); t.join()",
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(3600)'], check=True)",
        "import os, time; os.fork() or (time.sleep(3600), os._exit(0)); os.wait()",
        "import queue; q = queue.Queue()\ntry: q.get(timeout=3600)\nexcept queue.Empty: pass",
    ],
    ids=["sleep", "asyncio", "event", "thread", "subprocess", "fork", "queue"],
)
def test_python_programs_are_moved(program: str, tmp_path: Path) -> None:
    timed = f"import time; began = time.time()\n{program}\nprint(time.time() - began)"
    said, _ = run_moved(tmp_path, sys.executable, "-c", timed)
    assert float(said) == pytest.approx(HOUR, abs=30)


def test_files_are_as_old_as_the_clock_says(tmp_path: Path) -> None:
    """A stamp of the kernel is shown as of the moment in which it was made, one that was set stays, old ones too."""
    (tmp_path / "old").touch()
    os.utime(tmp_path / "old", (10**9, 10**9))
    program = f"""
import os, time
from pathlib import Path
here = Path({str(tmp_path)!r})
def age(name): return round(time.time() - (here / name).stat().st_mtime)
(here / "first").touch()
time.sleep(3600)
(here / "second").touch()
os.utime(here / "old", None)
(here / "set").touch()
os.utime(here / "set", (time.time() + 600, time.time() + 600))
time.sleep(7200)
os.utime(here / "second", ns=(0, 12 * 10**9))
with open(here / "first") as file: by_handle = round(time.time() - os.fstat(file.fileno()).st_mtime)
print(age("first"), by_handle, age("old"), age("set"), (here / "second").stat().st_mtime)
"""
    said, _ = run_moved(tmp_path, sys.executable, "-c", program)
    first, by_handle, old, ahead, set_to = map(float, said.split())
    assert (first, by_handle) == (pytest.approx(3 * HOUR, abs=30), pytest.approx(3 * HOUR, abs=30))
    assert (old, ahead) == (pytest.approx(2 * HOUR, abs=30), pytest.approx(2 * HOUR - 600, abs=30))
    assert set_to == 12


def test_files_that_were_there_before_stay_as_old_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    os.utime(tmp_path / "old", (10**9, 10**9))
    program = f"import os, time; time.sleep(3600); print(os.stat({str(tmp_path / 'old')!r}).st_mtime)"
    assert float(run_moved(tmp_path, sys.executable, "-c", program)[0]) == 10**9


@pytest.mark.parametrize(
    ("option", "words"),
    [("SO_RCVTIMEO", "a time limit on reading a socket"), ("SO_SNDTIMEO", "a time limit on writing to a socket")],
)
def test_a_program_that_asks_the_kernel_for_a_time_limit_is_refused(option: str, words: str, tmp_path: Path) -> None:
    program = f"import socket, struct, time; s = socket.socket(); time.sleep(60); \
s.setsockopt(socket.SOL_SOCKET, socket.{option}, struct.pack('ll', 30, 0)); time.sleep(3600)"
    with pytest.raises(Unmoved, match=f"it asks for what is not moved: {words}"):
        run_moved(tmp_path, sys.executable, "-c", program)


def test_many_programs_that_are_killed_leave_room_for_others(tmp_path: Path) -> None:
    """There are fewer slots than programs; each waits, and is killed amidst it, so that it cannot leave its own."""
    program = """
import subprocess, sys, time
began = time.time()
for _ in range(300):
    waiting = subprocess.Popen(["sh", "-c", "echo; exec sleep 1000"], stdout=subprocess.PIPE)
    waiting.stdout.readline()
    time.sleep(0.01)
    waiting.kill()
    waiting.communicate()
time.sleep(3600)
print(time.time() - began)
"""
    assert float(run_moved(tmp_path, sys.executable, "-c", program)[0]) == pytest.approx(HOUR, abs=60)


def test_programs_and_harness_go_from_timer_to_timer_together(tmp_path: Path) -> None:
    """Each sees the other's moments in their order: nobody is jumped over."""

    async def main(clock: Clock) -> list[str]:
        moved = clock.program(tmp_path / "clock")
        assert moved is not None
        program = "import time\nfor n in range(6): time.sleep(3600); print('program', n, flush=True)"
        process = await guarded(moved, sys.executable, "-u", "-c", program, stdout=PIPE)
        assert process.stdout is not None
        order: list[str] = []

        async def listen(stream: asyncio.StreamReader) -> None:
            while line := await stream.readline():
                order.append(line.decode().strip())

        async def beat() -> None:
            await clock.sleep(1800)
            for number in range(6):
                order.append(f"harness {number}")
                await clock.sleep(3600)

        moved.ready()
        await asyncio.gather(listen(process.stdout), beat())
        moved.ending()
        await process.wait()
        moved.ended()
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
        moved = clock.program(tmp_path / "clock")
        assert moved is not None
        process = await guarded(moved, "sleep", "3600")
        with moved.page.path.open("r+b") as page:
            page.seek(LAST_SLOT)
            page.write(WAITING.pack(process.pid, 1, 0, 0, 0))
        moved.ready()
        assert await process.wait() == 0
        moved.ended()
        return clock.elapsed()

    assert run_with_clock(main, "shifted") >= HOUR


def test_what_was_sent_right_before_all_were_found_quiet_is_read_before_the_jump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    look = Tree.deadline
    read: list[float] = []

    def sends_last(tree: Tree) -> int | None:
        found = look(tree)
        if found is not None and not read:
            theirs.send(b"x")
        return found

    def listen(clock: Clock) -> None:
        def come() -> None:
            ours.recv(64)
            read.append(clock.elapsed())

        asyncio.get_running_loop().add_reader(ours, come)

    monkeypatch.setattr(Tree, "deadline", sends_last)
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
        moved = clock.program(tmp_path / "clock")
        assert moved is not None
        process = await guarded(moved, sys.executable, "-c", program, server.sockets[0].getsockname()[1])
        moved.ready()
        await asyncio.sleep(HOUR)
        moved.ending()
        assert await process.wait() == 0
        moved.ended()
        server.close()
        return await come

    assert run_with_clock(main, "shifted") < HOUR


@pytest.mark.parametrize("by", ["a socket", "a timer"])
def test_programs_are_asked_again_whatever_the_loop_has_done_since(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many turns it took, and whether or not it was progress: what was sent may have come to one of them."""
    ours, theirs = socket.socketpair()
    deadline, ask, poll = Tree.deadline, Tree.ask, OrderedSelector.poll
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
            clock.progress()
            act(told.count("acted"))

        asyncio.get_running_loop().add_reader(ours, come)

    def looked(tree: Tree) -> int | None:
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

    def asked(tree: Tree) -> None:
        told.append("asked")
        ask(tree)

    def polled(sockets: OrderedSelector, timeout: float | None) -> Ready:
        if timeout == 0 and due:  # it comes when nobody waits for it: between two turns
            theirs.send(due.pop())
        return poll(sockets, timeout)

    monkeypatch.setattr(Tree, "deadline", looked)
    monkeypatch.setattr(Tree, "ask", asked)
    monkeypatch.setattr(OrderedSelector, "poll", polled)
    with ours, theirs:
        run_moved(tmp_path, "sleep", "3600", before=listen)
    after = [told[place + 1] for place, word in enumerate(told) if word == "acted"]
    assert after == ["asked"] * turns


def test_timers_that_are_too_many_are_met_a_little_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that ticks all the time does not make a day last for hours; how late it was woken is told."""
    monkeypatch.setattr(loop_module, "PATIENCE", 0.0)
    monkeypatch.setattr(loop_module, "COARSE", 0.01)
    program = "import time\nend = time.time() + 86400\nwhile time.time() < end: time.sleep(1)"
    late: list[float] = []
    jumps: list[int] = []

    async def main(clock: Clock) -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ShiftedClockEventLoop)
        moved = clock.program(tmp_path / "clock")
        assert moved is not None
        process = await guarded(moved, sys.executable, "-c", program)
        moved.ready()
        await clock.sleep(86500)
        late.append(clock.lag())
        jumps.append(loop.jumps)
        moved.ending()
        assert await process.wait() == 0
        moved.ended()
        return clock.elapsed()

    assert run_with_clock(main, "shifted") == pytest.approx(86500, abs=1000)
    assert jumps[0] < 1000, "not one for each tick"
    assert 1 < late[0] < 1000, "the day's hundredth part, and told"


def test_a_statically_linked_program_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "waits"
    subprocess.run(["cc", "-static", "-pthread", "-o", program, WAITS], check=True)
    with pytest.raises(CannotShift, match=r"waits is linked statically: it reads the clock around the shim"):
        look_at(str(program))


def test_a_program_that_turns_into_a_static_one_is_refused_once_it_runs(tmp_path: Path) -> None:
    program = tmp_path / "waits"
    subprocess.run(["cc", "-static", "-pthread", "-o", program, WAITS], check=True)
    script = tmp_path / "server"
    script.write_text(f"#!/bin/sh\nexec {program} sleep\n")
    script.chmod(0o755)

    with pytest.raises(CannotShift, match="runs without the shim: it is static, setuid, or cleaned its environment"):
        look_once_it_runs(tmp_path, program, [str(script)], os.environ)


def test_a_program_that_is_still_loading_is_waited_for(tmp_path: Path) -> None:
    """Its other libraries begin before the shim does."""
    source, slow = tmp_path / "slow.c", tmp_path / "slow.so"
    source.write_text(
        "#include <time.h>\n__attribute__((constructor)) static void slow(void) { while (clock() < 300000); }"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", slow, source], check=True)
    sleep = Path(shutil.which("sleep") or "").resolve()
    look_once_it_runs(tmp_path, sleep, [str(sleep), "60"], {"LD_PRELOAD": str(slow)})


def test_a_go_program_is_refused(tmp_path: Path) -> None:
    """Go's own mark of what it builds, in a program that is linked dynamically."""
    source = tmp_path / "go.c"
    source.write_text('const char mark[] = "\\xff Go buildinf:"; int main(void) { return mark[0] == 0; }\n')
    subprocess.run(["cc", "-o", tmp_path / "go", source], check=True)
    with pytest.raises(CannotShift, match="is a Go program"):
        look_at(str(tmp_path / "go"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a program to somebody else")
def test_a_setuid_program_is_refused(waits: Path, tmp_path: Path) -> None:
    program = tmp_path / "waits"
    shutil.copy(waits, program)
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    with pytest.raises(CannotShift, match="is setuid: the loader drops what would move its clock"):
        look_at(str(program))


def test_without_a_compiler_it_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotShift, match=r"needs a C compiler \(cc\), and this machine has none"):
        library(tmp_path)


def test_a_compiler_that_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'shim.c:1: no such architecture' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotShift, match="refused the shim: shim.c:1: no such architecture"):
        library(tmp_path)


def test_it_is_compiled_once(tmp_path: Path) -> None:
    made = {library(tmp_path) for _ in range(3)}
    assert [path.name for path in tmp_path.iterdir()] == [path.name for path in made]
    threads = [threading.Thread(target=library, args=(tmp_path / "other",)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list((tmp_path / "other").iterdir())) == 1


def test_the_shim_compiles_without_a_warning(tmp_path: Path) -> None:
    words = [
        "cc",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fPIC",
        "-shared",
        "-o",
        str(tmp_path / "shim.so"),
        *compiled(),
    ]
    subprocess.run(words, check=True)


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
