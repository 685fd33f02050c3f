"""The run's directory: chosen, checked and locked once, by the process that was started, and passed to xdist's workers.

With xdist the *controller* is the process that was started, and *workers* run the cells. The hooks of
`conformance.plugin` call this. The *stash* of pytest's config carries values from one hook to another.
"""

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
"""The folder, below the directory in which pytest was started, that gets the directory of a run without --run-dir."""
WORKER_KEY = "conformance_run_dir"
ARGUMENTS_KEY = "conformance_arguments"
"""Key of the paths to collect: a worker gets the command line only, without the corpus that replaces a missing path."""
ALLURE_KEY = "conformance_allure_results"
"""Key of the directory of Allure's results: a worker does not get options that the controller has set itself."""

LOCKED = pytest.StashKey[int]()
"""The descriptor of the directory, which holds the lock."""
DIRECTORY = pytest.StashKey[Path]()  # in every process; absent after another run was found in the directory
ALLURE_BY_DEFAULT = pytest.StashKey[bool]()
"""Set by `conformance run`: without `--alluredir`, Allure's results go into the run's directory."""


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is one of xdist's workers."""
    return hasattr(config, "workerinput")


def runs_nothing(config: pytest.Config) -> bool:
    """Whether pytest was started only to show something, such as with `--collect-only`."""
    option = config.option
    shows = ("collectonly", "showfixtures", "show_fixtures_per_test", "markers", "setuponly", "setupplan", "cacheshow")
    return any(getattr(option, name, None) for name in shows)


def prepare_run_directory(config: pytest.Config, options: Options) -> None:
    """Choose, create, lock and empty the run's directory; a worker takes the one that the controller has passed to it.

    With it a worker takes the paths to collect and the directory of Allure's results (`pass_to_worker`).
    An earlier run in it is deleted only with --fresh, the start of a run without a header always. If pytest runs nothing, the
    directory is only chosen. `conformance run` without `--alluredir` gets a directory for Allure's
    results in it. Raises pytest.UsageError if the directory is locked, or holds a run (without --fresh) or other files; exits
    pytest if it cannot be written.
    """
    if is_worker(config):
        passed: dict[str, Any] = getattr(config, "workerinput")  # noqa: B009  # xdist sets it, pytest does not know it
        config.stash[DIRECTORY] = Path(passed[WORKER_KEY])
        config.args[:] = passed[ARGUMENTS_KEY]
        config.option.allure_report_dir = passed[ALLURE_KEY]
        return
    config.stash[DIRECTORY] = directory = choose_run_directory(config.invocation_params.dir, options)
    if runs_nothing(config):
        return
    if why := _unwritable_reason(directory):
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
    """Create and lock the run's directory until this process ends or `release_run_directory` is called.

    Two runs would mix their cells. Raises pytest.UsageError if another process has the lock. A directory that cannot be
    created is left for the first write to report; a file system without locks is accepted.
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
        del config.stash[DIRECTORY]  # so that it is not removed: it belongs to the other run
        raise pytest.UsageError(
            f"--run-dir {directory}: another run writes there; wait for its end, or take another directory"
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise


def pass_to_worker(config: pytest.Config, worker_input: dict[str, Any]) -> None:
    """Put the directories of the run and of Allure's results, and the paths to collect, into the input of an xdist worker."""
    results = allure_results(config)
    worker_input[WORKER_KEY] = str(config.stash[DIRECTORY])
    worker_input[ARGUMENTS_KEY] = list(config.args)
    worker_input[ALLURE_KEY] = None if results is None else str(results)


def _unwritable_reason(directory: Path) -> str:
    """Return why a directory, which need not exist, cannot be created or written to; '' if it can. Tries it with a temporary file."""
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    if not existing.is_dir():
        return f"{existing} is not a directory"
    try:
        descriptor, probe = tempfile.mkstemp(prefix=".conformance-", dir=existing)
    except OSError as error:
        return f"{existing}: {shortage_of(error) or error.strerror}"
    os.close(descriptor)
    Path(probe).unlink()
    return ""


def choose_run_directory(start: Path, options: Options) -> Path:
    """Return --run-dir, or a new `reports/<UTC time>-<seed>` below `start`; does not create it."""
    if options.run_dir is not None:
        return (start / options.run_dir).absolute()
    return timestamped_run_directory(start, options.settings.seed)


def timestamped_run_directory(start: Path, seed: int = 1) -> Path:
    """Return `reports/<UTC time>-<seed>` below a directory, with `-2`, `-3` ... appended if it exists; does not create it."""
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{seed}"
    first = start / REPORTS / name
    number = 2
    directory = first
    while directory.exists():
        directory = first.with_name(f"{name}-{number}")
        number += 1
    return directory


def allure_results(config: pytest.Config) -> Path | None:
    """Return the directory of Allure's results, None where neither the user nor `conformance run` has set one (`--alluredir`)."""
    word = config.getoption("allure_report_dir", None)
    return Path(word).absolute() if word else None


def release_run_directory(config: pytest.Config) -> None:
    """Release the lock, and remove the run's directory, with `allure-results` and `reports`, if empty and the run never began.

    A run has begun when its header is written. An empty directory is removed even if it existed before the run. Workers leave the
    directory to xdist's controller.
    """
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
