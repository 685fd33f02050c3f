"""Processes that a command forks to run cells in, beside each other."""

import ctypes
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.pool import Pool

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


@contextmanager
def forked_pool(jobs: int) -> Iterator[Pool]:
    """Yield a pool of `jobs` forked processes; after the block they are ended, and their temporary files are removed."""
    with (
        tempfile.TemporaryDirectory(prefix="conformance-pool-") as temporary,
        multiprocessing.get_context("fork").Pool(jobs, prepare_process, (os.getpid(), temporary)) as pool,
    ):
        yield pool
