"""Every kind of wait of a program with a shifted clock ends with the jump."""

import re
import sys
from pathlib import Path

import pytest

from conformance.run.shifted import shared_page
from conformance.run.shifted.shim_library import SOURCES
from tests.run.shifted.shifted_process import HOUR, MARKS, PROGRAMS, compile_program, run_shifted

pytestmark = MARKS


def ways(name: str) -> list[str]:
    """Return the ways to wait that a program of `programs/` accepts as its argument."""
    found = re.findall(r'IS\("([a-z_-]+)"\)', (PROGRAMS / f"{name}.c").read_text("utf-8"))
    assert found
    return found


@pytest.fixture(scope="module")
def waits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that waits in every way."""
    return compile_program(tmp_path_factory.mktemp("program"), "waits", "-pthread")


@pytest.fixture(scope="module")
def signalled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that is signalled between two slices of a wait."""
    return compile_program(tmp_path_factory.mktemp("program"), "signalled", "-rdynamic", "-ldl")


def test_every_wait_that_the_shim_replaces_is_tried() -> None:
    """A `_chk` is the same wait; a compiler may put it in its place. `epoll_pwait2` is tried from Python."""
    shim = "".join(source.read_text("utf-8") for source in SOURCES if source.name in ("waits.c", "threads.c"))
    replaced = set(re.findall(r"^(?!static )\w[\w ]*?\**(\w+)\(", shim, re.MULTILINE))
    assert {"sleep", "pthread_cond_timedwait"} < replaced
    assert {name for name in replaced if not name.endswith("_chk")} - {*ways("waits")} == {"epoll_pwait2"}


@pytest.mark.parametrize("way", ways("waits"))
def test_each_kind_of_wait_ends_with_the_jump(way: str, waits: Path, tmp_path: Path) -> None:
    said, elapsed = run_shifted(tmp_path, waits, way)
    mono, wall = map(int, said.split())
    assert (mono, wall) == (pytest.approx(HOUR, abs=30), pytest.approx(HOUR, abs=30))
    assert elapsed == pytest.approx(HOUR, abs=60), "the harness's clock has jumped with it"


@pytest.mark.parametrize("way", ways("signalled"))
def test_a_signal_between_two_slices_ends_the_wait(way: str, signalled: Path, tmp_path: Path) -> None:
    """Exim's daemon waits in select; the alarm for its queue runs must interrupt the wait."""
    said, _ = run_shifted(tmp_path, signalled, way)
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
        "import ctypes, select; e = select.epoll(); limit = (ctypes.c_long * 2)(3600, 0)\n"
        "assert ctypes.CDLL(None).epoll_pwait2(e.fileno(), ctypes.create_string_buffer(12), 1, limit, None) == 0",
    ],
    ids=["sleep", "asyncio", "event", "thread", "subprocess", "fork", "queue", "epoll_pwait2"],
)
def test_waits_of_python_programs_are_shifted(program: str, tmp_path: Path) -> None:
    timed = f"import time; began = time.time()\n{program}\nprint(time.time() - began)"
    said, _ = run_shifted(tmp_path, sys.executable, "-c", timed)
    assert float(said) == pytest.approx(HOUR, abs=30)


def test_slots_of_killed_programs_are_reused(tmp_path: Path) -> None:
    """There are fewer slots than programs; each is killed while it waits, so that it cannot free its own.

    Time jumps by a minute only once it waits in a slot.
    """
    program = """
import subprocess, time
began = time.time()
for _ in range(300):
    waiting = subprocess.Popen(["sleep", "1000"])
    time.sleep(60)
    waiting.kill()
    waiting.wait()
print(time.time() - began)
"""
    assert shared_page._MAX_SLOTS < 300
    assert 5 * HOUR <= float(run_shifted(tmp_path, sys.executable, "-c", program)[0]) < 6 * HOUR
