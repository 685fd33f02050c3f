"""Processes that a command forks to run cells in, beside each other."""

import ctypes
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
_PR_SET_PDEATHSIG = 1
"""The option of prctl(2) by which the kernel signals a process when its parent ends."""


def prepare_process(parent: int, temporary: str) -> None:
    """Leave the end of this forked process, and the removal of its temporary files, to its parent.

    Temporary files are put below `temporary`, which the parent removes. Ctrl-C, which a terminal sends to all processes, is
    ignored; SIGTERM, by which the parent ends this one, ends it at once. The kernel kills it when the parent ends: at once if that has
    ended already. `parent` is the parent's process id.
    """
    tempfile.tempdir = temporary
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


class ProcessDied(RuntimeError):
    """A forked process ended amid its work, for example killed by the kernel for lack of memory."""


@contextmanager
def forked_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Yield an executor with `jobs` forked processes, which have what this process has in memory.

    After the block the processes are ended at once, with what they do, and their temporary files are removed. Raises ProcessDied
    where a result is asked for that cannot come, since a process was killed.
    """
    others = set(multiprocessing.active_children())
    with tempfile.TemporaryDirectory(prefix="conformance-pool-") as temporary:
        pool = ProcessPoolExecutor(
            jobs,
            mp_context=multiprocessing.get_context("fork"),
            initializer=prepare_process,
            initargs=(os.getpid(), temporary),
        )
        try:
            yield pool
        except BrokenProcessPool as error:
            raise ProcessDied("a process that ran cells was killed; the machine may be short of memory") from error
        finally:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            pool.shutdown(cancel_futures=True)


def run_unordered(
    pool: ProcessPoolExecutor, function: Callable[[T], R], items: Iterable[T], at_once: int
) -> Iterator[R]:
    """Yield the result of `function` for each item, as they come. Blocks. Raises what a call raises.

    At most `at_once` items are handed out at a time, and others are taken from `items` only when results have been yielded.
    """
    waiting = iter(items)
    running: set[Future[R]] = set()
    while True:
        handed_out = list(islice(waiting, at_once - len(running)))
        with deferred_interrupts():
            running |= {pool.submit(function, item) for item in handed_out}
        if not running:
            return
        done, running = wait(running, return_when=FIRST_COMPLETED)
        yield from (future.result() for future in done)


def run_in_order(
    pool: ProcessPoolExecutor, function: Callable[[T], R], items: Iterable[T], chunksize: int = 1
) -> Iterator[R]:
    """Yield the result of `function` for each item, in order; all items are handed out at once. Blocks. Raises what a call raises.

    Each process gets `chunksize` items at a time.
    """
    with deferred_interrupts():
        results = pool.map(function, items, chunksize=chunksize)
    yield from results


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Handle SIGINT and SIGTERM that come during the block at its end. To be called in the main thread.

    An exception that their handler raises can leave a lock held for good, such as that of a pool's queue: `with` on a lock of
    `threading` or `queue` is not atomic.
    """
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, frame: came.append(number)) for number in _INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
