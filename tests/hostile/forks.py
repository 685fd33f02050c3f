"""The command line in a fork of this process, which has the harness loaded already: that saves a second of each command."""

import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from conformance import cli


def run_command(
    words: Sequence[str],
    folder: Path,
    output: Path,
    *,
    seconds: float,
    environment: Mapping[str, str],
    megabytes: int | None = None,
    first: Callable[[], None] = lambda: None,
) -> tuple[int, resource.struct_rusage]:
    """Run `conformance WORDS` in a folder, with its output in a file; return its status as `os.wait4` does, and what it used.

    It ends by SIGALRM after `seconds`. `megabytes` bounds its address space; `first` is called in it before.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _command(words, folder, output, seconds, environment, megabytes, first)
    _, status, used = os.wait4(child, 0)
    return status, used


def _command(
    words: Sequence[str],
    folder: Path,
    output: Path,
    seconds: float,
    environment: Mapping[str, str],
    megabytes: int | None,
    first: Callable[[], None],
) -> None:
    """Run a command in this process; never returns."""
    os.setsid()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    if megabytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes * 2**20,) * 2)
    with output.open("wb") as file, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(folder)
    os.environ.update(environment)
    tempfile.tempdir = None  # it may be another's
    try:
        first()
        cli.main(list(words))
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001  # as the interpreter would
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
