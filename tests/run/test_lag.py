"""`RunDelay` measures how long programs waited for a processor, by the counters of the kernel."""

import contextlib
import os
import subprocess
import sys
import time

import psutil
import pytest

from conformance.run.lag import RunDelay

BUSY = "while True: pass"
RIVALS = 3
"""For the one core that all of them may use: each waits two thirds of the time."""


@pytest.fixture
def rivals():
    """Start programs that want the same core, each below a shell that waits for it; yield the shells' process ids."""
    core = min(os.sched_getaffinity(0))
    started = [
        subprocess.Popen(
            ["sh", "-c", f"taskset -c {core} {sys.executable} -S -c '{BUSY}'; true"],
            start_new_session=True,
        )
        for _ in range(RIVALS)
    ]
    yield [shell.pid for shell in started]
    for shell in started:
        with contextlib.suppress(ProcessLookupError):  # a test has ended it
            os.killpg(shell.pid, 9)
        shell.wait()


def test_a_program_without_a_core_is_measured_as_waiting(rivals):
    delay = RunDelay(lambda: {"mbx1": rivals[0]})
    began = time.monotonic()
    seconds, node, asked = 0.0, "", []
    while seconds < 0.3 and time.monotonic() - began < 60:
        seconds, node = RunDelay(lambda: {"mbx1": rivals[0]}).take_longest_wait()
        asked.append(delay.take_longest_wait()[0])
    assert node == "mbx1"
    assert sum(asked) == pytest.approx(seconds, rel=0.5)  # each wait is counted once, in however many calls
    assert seconds < time.monotonic() - began + 1.0


def wait_until_asleep(pid: int) -> None:
    """Wait until the shell and its `sleep` both sleep; fail after 30 s."""
    began = time.monotonic()
    shell = psutil.Process(pid)
    while [one.status() for one in (shell, *shell.children())] != ["sleeping", "sleeping"] or (
        shell.children()[0].name() != "sleep"
    ):
        assert time.monotonic() - began < 30


def test_a_sleeping_program_is_not_measured_as_waiting(rivals):
    with subprocess.Popen(["sh", "-c", "sleep 60; true"], start_new_session=True) as idle:
        wait_until_asleep(idle.pid)  # as it starts, it waits for a processor that other programs use
        delay, busy = RunDelay(lambda: {"mbx1": idle.pid}), RunDelay(lambda: {"mbx1": rivals[0]})
        delay.take_longest_wait()
        busy.take_longest_wait()
        waited, first = 0.0, time.monotonic()
        while waited < 0.3 and time.monotonic() - first < 60:
            waited += busy.take_longest_wait()[0]
        assert waited >= 0.3, "a program that wants a processor waited meanwhile, and that is measured"
        assert delay.take_longest_wait()[0] < 0.1
        os.killpg(idle.pid, 9)


def test_the_node_that_waited_longest_is_named(rivals):
    with subprocess.Popen(["sh", "-c", "sleep 60; true"], start_new_session=True) as idle:
        seconds, node, began = 0.0, "", time.monotonic()
        while seconds < 0.3 and time.monotonic() - began < 60:  # idle has waited a little before it slept
            seconds, node = RunDelay(lambda: {"idle": idle.pid, "busy": rivals[1]}).take_longest_wait()
        assert node == "busy"
        assert RunDelay(lambda: {"busy": rivals[1], "idle": idle.pid}).take_longest_wait()[1] == "busy", "in any order"
        os.killpg(idle.pid, 9)


def test_an_ended_node_has_waited_for_nothing(rivals):
    delay, began = RunDelay(lambda: {"mbx1": rivals[0]}), time.monotonic()
    while delay.take_longest_wait()[0] == 0 and time.monotonic() - began < 60:
        pass
    assert RunDelay(lambda: {"mbx1": rivals[0]}).take_longest_wait()[1] == "mbx1"
    os.killpg(rivals[0], 9)
    os.waitpid(rivals[0], 0)
    assert delay.take_longest_wait() == (0.0, ""), "its waits so far were counted before"
    assert RunDelay(lambda: {"mbx1": rivals[0]}).take_longest_wait() == (0.0, "")
