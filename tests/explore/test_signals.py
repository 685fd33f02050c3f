"""A command that is asked to end by SIGTERM, as CI does it, cleans up as after Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from conformance.run.memory_directory import SHARED
from tests.docs.pages import ROOT


def temporary_paths(temporary: Path, pid: int) -> list[Path]:
    """Return what is in the temporary directories of a command, and the directory in memory that its process holds open."""
    walked = os.walk(temporary)  # it passes over what is removed meanwhile
    found = [Path(top, name) for top, folders, files in walked for name in (*folders, *files) if top != str(temporary)]
    with suppress(OSError):  # the process has ended
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # it was closed
                found += [path for path in [descriptor.readlink()] if path.parent.parent == SHARED]
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("explore", "--random", "--plans", "5000", "-n", "2", "--out", "found"),
        ("defects", "--jobs", "2"),
        ("run", "scenarios", "--candidate", "reference", "--run-dir", "run"),
    ],
    ids=["explore", "defects", "run"],
)
def test_after_sigterm_nothing_is_left_in_the_temporary_directory_or_in_memory(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "conformance", *(str(ROOT / word) if word == "scenarios" else word for word in words)],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    made: list[Path] = []
    try:
        while not (made := temporary_paths(temporary, process.pid)) and process.poll() is None:
            time.sleep(0.05)  # the files are those of other processes, which send no event
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert made, said
    assert process.returncode != -signal.SIGTERM, said
    assert "Traceback" not in said
    assert list(temporary.iterdir()) == []
    assert [path for path in made if path.exists()] == []


@pytest.mark.long
def test_an_exploration_whose_process_is_killed_ends_with_an_error_and_goes_on_when_called_again(
    tmp_path: Path,
) -> None:
    words = ("explore", "--random", "--plans", "12", "-n", "1", "--out", str(tmp_path / "found"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "conformance", *words], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        while not any(temporary.glob("*/*")) and process.poll() is None:
            time.sleep(0.05)  # the file is one of another process, which sends no event
        (worker,) = psutil.Process(process.pid).children()
        worker.kill()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "a process that ran cells was killed" in said
    assert "Traceback" not in said
    assert list(temporary.iterdir()) == []
    again = subprocess.run(
        [sys.executable, "-m", "conformance", *words], env=environment, capture_output=True, text=True
    )
    assert again.returncode == 0, again.stderr
