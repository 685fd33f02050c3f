"""Where a run is written: chosen once, by the process that was started, and handed to xdist's workers."""

import errno
import fcntl
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from conformance.results.layout import RUN_FILE, RunDirectoryError
from conformance.results.writer import delete_run_content, holds_run
from conformance.shortage import shortage_of
from conformance.suite.options import Options

REPORTS = Path("reports")
"""Where a run without --run-dir gets its folder, in the directory that pytest was started in."""
WORKER_KEY = "conformance_run_dir"
ARGUMENTS_KEY = "conformance_arguments"
"""A worker gets the words of the command line only, and not the corpus that stands for no path at all."""
ALLURE_KEY = "conformance_allure_results"
"""A worker does not get options that the controller set itself: the default place of Allure's results is one."""

LOCKED = pytest.StashKey[int]()
"""The descriptor by which the directory is locked."""
DIRECTORY = pytest.StashKey[Path]()
ALLURE_BY_DEFAULT = pytest.StashKey[bool]()
"""Set by `conformance run`: Allure's results go into the run's directory when nothing else was asked for."""


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is one of xdist's workers."""
    return hasattr(config, "workerinput")


def runs_nothing(config: pytest.Config) -> bool:
    """Whether pytest was asked to show something and to run no test."""
    option = config.option
    shows = ("collectonly", "showfixtures", "show_fixtures_per_test", "markers", "setuponly", "setupplan", "cacheshow")
    return any(getattr(option, name, None) for name in shows)


def prepare(config: pytest.Config, options: Options) -> None:
    """Choose the run's directory; nothing is made yet. Raises pytest.UsageError when it holds a run already."""
    if is_worker(config):
        handed: dict[str, Any] = getattr(config, "workerinput")  # noqa: B009  # xdist sets it, pytest does not know it
        config.stash[DIRECTORY] = Path(handed[WORKER_KEY])
        config.args[:] = handed[ARGUMENTS_KEY]
        config.option.allure_report_dir = handed[ALLURE_KEY]
        return
    config.stash[DIRECTORY] = directory = choose_run_directory(config.invocation_params.dir, options)
    if runs_nothing(config):
        return
    if why := _unwritable(directory):
        pytest.exit(f"--run-dir {directory}: {why}", pytest.ExitCode.INTERNAL_ERROR)
    _lock(config, directory)
    if holds_run(directory) and not options.fresh:
        raise pytest.UsageError(f"--run-dir {directory}: holds a run already; add --fresh to delete that first")
    try:
        delete_run_content(directory)
    except RunDirectoryError as error:
        raise pytest.UsageError(f"--run-dir: {error}") from error
    if directory.is_dir() and any(directory.iterdir()):
        raise pytest.UsageError(f"--run-dir {directory}: is neither empty nor a run; take another directory")
    if config.stash.get(ALLURE_BY_DEFAULT, False) and config.getoption("allure_report_dir", None) is None:
        config.option.allure_report_dir = str(directory / "allure-results")


def _lock(config: pytest.Config, directory: Path) -> None:
    """Take the run's directory for this process, until it ends or `tidy` is called: two runs would mix their cells.

    A place that cannot be made, or has no locks, is told by whoever writes there first. Raises pytest.UsageError.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    config.stash[LOCKED] = handle
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        del config.stash[DIRECTORY]  # it is not ours to tidy
        raise pytest.UsageError(
            f"--run-dir {directory}: another run writes there; wait for its end, or take another directory"
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise


def hand_to_worker(config: pytest.Config, worker_input: dict[str, Any]) -> None:
    """Write into a worker's input where the run and Allure's results are, and what is run; `prepare` reads it there."""
    results = allure_results(config)
    worker_input[WORKER_KEY] = str(config.stash[DIRECTORY])
    worker_input[ARGUMENTS_KEY] = list(config.args)
    worker_input[ALLURE_KEY] = None if results is None else str(results)


def _unwritable(directory: Path) -> str:
    """Return why nothing can be written to a directory that need not be there yet; '' when it can."""
    place = next(path for path in (directory, *directory.parents) if path.exists())
    if not place.is_dir():
        return f"{place} is not a directory"
    try:
        descriptor, probe = tempfile.mkstemp(prefix=".conformance-", dir=place)
    except OSError as error:
        return f"{place}: {shortage_of(error) or error.strerror}"
    os.close(descriptor)
    Path(probe).unlink()
    return ""


def choose_run_directory(start: Path, options: Options) -> Path:
    """Return --run-dir, or `reports/<UTC stamp>-<seed>`, with a number where that is taken."""
    if options.run_dir is not None:
        return (start / options.run_dir).absolute()
    return timestamped_run_directory(start, options.settings.seed)


def timestamped_run_directory(start: Path, seed: int = 1) -> Path:
    """Return `reports/<UTC stamp>-<seed>` below a directory, with a number where that is taken."""
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{seed}"
    first = start / REPORTS / name
    number = 2
    directory = first
    while directory.exists():
        directory = first.with_name(f"{name}-{number}")
        number += 1
    return directory


def allure_results(config: pytest.Config) -> Path | None:
    """Return where Allure's results go, or None when nobody asked for them."""
    word = config.getoption("allure_report_dir", None)
    return Path(word).absolute() if word else None


def tidy(config: pytest.Config) -> None:
    """Let go of the directory, and remove the folders that were made for a run that never began."""
    if (handle := config.stash.get(LOCKED, None)) is not None:
        os.close(handle)
        del config.stash[LOCKED]
    directory = config.stash.get(DIRECTORY, None)
    if directory is None or is_worker(config) or runs_nothing(config):
        return
    if not (directory / RUN_FILE).exists():
        own = [directory.parent] if directory.parent.name == str(REPORTS) else []
        for folder in (directory / "allure-results", directory, *own):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
