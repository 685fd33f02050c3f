"""Forked processes: their results come as they are ready, and one that is killed is reported and not waited for."""

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Iterator
from itertools import count, islice
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from conformance.forked_process import ProcessDied, forked_pool, run_unordered


def square(number: int) -> int:
    return number * number


def kill_itself(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def process_and_temporary_file(_: int) -> tuple[int, str]:
    descriptor, name = tempfile.mkstemp()
    os.close(descriptor)
    return os.getpid(), name


def test_items_are_taken_only_as_results_are_yielded() -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for number in count():
            taken.append(number)
            yield number

    with forked_pool(2) as pool:
        results = list(islice(run_unordered(pool, square, numbers(), 3), 5))
    assert len(set(results)) == len(results) == 5
    assert set(results) <= {number * number for number in taken}
    assert len(taken) <= 5 + 3


def test_a_process_that_is_killed_ends_the_iteration_with_an_error() -> None:
    with pytest.raises(ProcessDied, match="a process that ran cells was killed"), forked_pool(2) as pool:
        list(run_unordered(pool, kill_itself, range(4), 2))
    assert not multiprocessing.active_children()


def test_after_the_block_the_processes_have_ended_and_their_temporary_files_are_gone() -> None:
    with forked_pool(2) as pool:
        found = list(pool.map(process_and_temporary_file, range(4)))
        assert all(Path(name).exists() for _, name in found)
    assert not any(Path(name).exists() for _, name in found)
    assert not multiprocessing.active_children()
    for pid, _ in found:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def say_and_work_on(descriptor: int) -> None:
    os.write(descriptor, b"x")
    signal.pause()


def test_the_block_ends_at_once_though_a_process_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once: before the process has got SIGTERM nothing waits for its end."""
    called: list[str] = []

    def note(name: str) -> None:
        method = getattr(BaseProcess, name)

        def noted(process: BaseProcess, *arguments: Any, **named: Any) -> Any:
            called.append(name)
            return method(process, *arguments, **named)

        monkeypatch.setattr(BaseProcess, name, noted)

    note("terminate")
    note("join")
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as said, os.fdopen(writing, "wb"):
        with forked_pool(1) as pool:
            waiting = pool.submit(say_and_work_on, writing)
            assert said.read(1) == b"x", "it is at work"
            (process,) = multiprocessing.active_children()
        assert waiting.done()
    assert called[0] == "terminate"
    assert process.exitcode == -signal.SIGTERM
