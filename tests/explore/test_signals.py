"""A command that is asked to end by SIGTERM, as CI does it, cleans up as after Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.docs.pages import ROOT


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "begun"),
    [
        (("explore", "--random", "--plans", "5000", "-n", "2", "--out", "found"), "temporary/*/*"),
        (("defects", "--jobs", "2"), "temporary/*/*"),
        (("run", "scenarios", "--candidate", "reference", "--run-dir", "run"), "run/cells/*"),
    ],
    ids=["explore", "defects", "run"],
)
def test_after_sigterm_nothing_is_left_in_the_temporary_directory(
    words: tuple[str, ...], begun: str, tmp_path: Path
) -> None:
    """`begun` is what appears in the test's directory once the command has begun to work."""
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
    try:
        while not any(tmp_path.glob(begun)) and process.poll() is None:
            time.sleep(0.05)  # the files are those of other processes, which send no event
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode != -signal.SIGTERM, said
    assert "Traceback" not in said
    assert list(temporary.iterdir()) == []


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
