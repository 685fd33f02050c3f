"""Programs that the shim does not reach are refused, before they start or once they run."""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from conformance.nodes.processes import descendants
from conformance.run.cell_loop import Clock, run_with_clock
from conformance.run.shifted import process_tree
from conformance.run.shifted.shared_page import UNSHIFTED_WAITS, SharedPage
from conformance.run.shifted.shim_library import CannotShift, UnshiftedWait, build_shim, check_program, why_not_shifted
from tests.run.shifted.shifted_process import MARKS, compile_program, run_shifted, running_shifted

pytestmark = MARKS


def running(pid: int) -> Path | None:
    """Return the program that a process runs; None when it has ended."""
    try:
        return Path(f"/proc/{pid}/exe").readlink()
    except OSError:
        return None


def check_once_it_runs(directory: Path, program: Path, command: list[str], environment: Mapping[str, str]) -> str:
    """Start a command with a shifted clock below a guard, and call `on_ready` once it runs `program`.

    Return what that process has mapped.
    """

    async def main(clock: Clock) -> str:
        shifted = clock.shifted_program(directory / "clock")
        assert shifted is not None
        words = shlex.join([*shifted.command_prefix(command[0], environment), *command])
        guard = await asyncio.create_subprocess_exec("/bin/sh", "-c", f"{words} & echo; read line; kill $!", stdin=PIPE)
        shifted.on_started(guard.pid)
        try:
            while program not in {running(pid) for pid in descendants(guard.pid)}:
                await asyncio.sleep(0.01)
            shifted.on_ready()
            (pid,) = [pid for pid in descendants(guard.pid) if running(pid) == program]
            assert why_not_shifted(pid, Path(build_shim().name), shifted.page.path) == ""
            return Path(f"/proc/{pid}/maps").read_text("utf-8")  # noqa: ASYNC240
        finally:
            await guard.communicate(b"\n")
            shifted.on_ended()

    return run_with_clock(main, "shifted")


def test_a_statically_linked_program_is_refused(tmp_path: Path) -> None:
    program = compile_program(tmp_path, "waits", "-static", "-pthread")
    with pytest.raises(CannotShift, match=r"waits is linked statically: it reads the clock around the shim"):
        check_program(str(program))
    check_program(str(compile_program(tmp_path, "waits", "-pthread")))


def test_a_script_that_executes_a_static_program_is_refused_once_it_runs(tmp_path: Path) -> None:
    program = compile_program(tmp_path, "waits", "-static", "-pthread")
    script = tmp_path / "server"
    script.write_text(f"#!/bin/sh\nexec {program} sleep\n")
    script.chmod(0o755)
    with pytest.raises(CannotShift, match="runs without the shim: it is static, setuid, or cleaned its environment"):
        check_once_it_runs(tmp_path, program, [str(script)], os.environ)
    dynamic = tmp_path / "dynamic"
    dynamic.mkdir()
    program = compile_program(dynamic, "waits", "-pthread")
    script.write_text(f"#!/bin/sh\nexec {program} sleep\n")
    assert str(program) in check_once_it_runs(dynamic, program, [str(script)], os.environ)


def test_a_program_that_is_still_loading_is_waited_for(tmp_path: Path) -> None:
    """Its other libraries begin before the shim does."""
    source, slow = tmp_path / "slow.c", tmp_path / "slow.so"
    source.write_text(
        "#include <time.h>\n__attribute__((constructor)) static void slow(void) { while (clock() < 300000); }"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", slow, source], check=True)
    sleep = Path(shutil.which("sleep") or "").resolve()
    assert str(slow) in check_once_it_runs(tmp_path, sleep, [str(sleep), "60"], {"LD_PRELOAD": str(slow)})


def test_a_program_that_falls_asleep_between_the_looks_at_it_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has loaded everything, and waits, after the first of the two looks: at its state, and at the files it has mapped."""
    looks = []

    def look(early: str, late: str) -> str:
        looks.append(late)
        return late if len(looks) > 1 else early

    monkeypatch.setattr(process_tree, "why_not_shifted", lambda *_: look("could not open the clock's page", ""))
    monkeypatch.setattr(process_tree, "_state", lambda _: look("R", "S"))
    monkeypatch.setattr(process_tree.ProcessTree, "_own_processes", lambda _: iter([1]))
    with closing(SharedPage(tmp_path / "page")) as page:
        process_tree.ProcessTree(page, Path("shim.so"), 0.001).check_shifted()
    assert looks == ["S", ""], "the state was looked at first"


def test_a_go_program_is_refused(tmp_path: Path) -> None:
    """Go's own mark of what it builds, in a program that is linked dynamically."""
    source = tmp_path / "go.c"

    def compiled(mark: str) -> str:
        source.write_text(f'const char mark[] = "{mark}"; int main(void) {{ return mark[0] == 0; }}\n')
        subprocess.run(["cc", "-o", tmp_path / "go", source], check=True)
        return str(tmp_path / "go")

    with pytest.raises(CannotShift, match="is a Go program"):
        check_program(compiled(r"\xff Go buildinf:"))
    check_program(compiled("Go buildinf:"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a program to somebody else")
def test_a_setuid_program_is_refused(tmp_path: Path) -> None:
    program = compile_program(tmp_path, "waits", "-pthread")
    os.chown(program, 65534, 65534)
    check_program(str(program))
    for mode in (0o4755, 0o2755):
        program.chmod(mode)
        with pytest.raises(CannotShift, match="is setuid: the loader drops what would move its clock"):
            check_program(str(program))
    os.chown(program, os.geteuid(), os.getegid())
    program.chmod(0o6755)
    check_program(str(program))  # it becomes who it is already, and the loader drops nothing


LIMITS = {
    "SO_RCVTIMEO": ("tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 30, 0))",),
    "SO_SNDTIMEO": ("tcp.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack('ll', 30, 0))",),
    "TCP_USER_TIMEOUT": ("tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)",),
    "mutex": (
        "libc.pthread_mutex_timedlock(lock, limit)", "libc.pthread_mutex_clocklock(lock, 0, limit)",
        "libc.mtx_timedlock(lock, limit)",
    ),
    "set of semaphores": ("libc.semtimedop(-1, None, 0, limit)",),
    "message queue": ("libc.mq_timedreceive(-1, None, 0, None, limit)", "libc.mq_timedsend(-1, None, 0, 0, limit)"),
    "read-write lock": (
        "libc.pthread_rwlock_timedrdlock(lock, limit)", "libc.pthread_rwlock_timedwrlock(lock, limit)",
        "libc.pthread_rwlock_clockrdlock(lock, 0, limit)", "libc.pthread_rwlock_clockwrlock(lock, 0, limit)",
    ),
}  # fmt: skip
"""The calls that set each time limit of `UNSHIFTED_WAITS`, in its order; by a word of its text."""


@pytest.mark.parametrize(
    ("call", "words"),
    [(call, words) for calls, words in zip(LIMITS.values(), UNSHIFTED_WAITS, strict=True) for call in calls],
)
def test_a_program_that_asks_the_kernel_for_a_time_limit_is_refused(call: str, words: str, tmp_path: Path) -> None:
    """One that sets none, with a limit of 0 or a null pointer, is not refused for that."""
    assert all(word in text for word, text in zip(LIMITS, UNSHIFTED_WAITS, strict=True))
    program = f"""
import ctypes, socket, struct, time
tcp, libc = socket.socket(), ctypes.CDLL(None)
lock, limit = ctypes.create_string_buffer(64), ctypes.byref((ctypes.c_long * 2)(30, 0))
for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
    tcp.setsockopt(socket.SOL_SOCKET, option, struct.pack('ll', 0, 0))
tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)
libc.semtimedop(-1, None, 0, None)
time.sleep(60)
{call}
time.sleep(3600)
"""
    with pytest.raises(UnshiftedWait, match=f"it asks for what is not moved: {re.escape(words)}$"):
        run_shifted(tmp_path, sys.executable, "-c", program)


def test_a_program_that_asks_for_one_while_it_starts_is_refused_once_it_is_ready(tmp_path: Path) -> None:
    """The test blocks its loop from before the program asks, since that would refuse it at the next look at the program."""
    (call,) = LIMITS["SO_RCVTIMEO"]
    go, asked = tmp_path / "go", tmp_path / "asked"
    for path in (go, asked):
        os.mkfifo(path)
    program = f"""
import socket, struct, time
open({str(go)!r}).read()
tcp = socket.socket()
{call}
open({str(asked)!r}, "w").close()
time.sleep(3600)
"""

    async def main(clock: Clock) -> None:
        async with running_shifted(clock, tmp_path, sys.executable, "-c", program) as (shifted, _):
            go.write_text("go")
            asked.read_text()
            shifted.on_ready()

    with pytest.raises(CannotShift, match=f"it asks for what is not moved: {re.escape(UNSHIFTED_WAITS[0])}"):
        run_with_clock(main, "shifted")
