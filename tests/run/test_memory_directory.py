"""Directories in memory are removed when their process ends, or by the next process if it was killed."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.run import memory_directory

_MAKES = """
import os, sys
from pathlib import Path
from conformance.run import memory_directory
memory_directory.SHARED = Path(sys.argv[1])
made = memory_directory.make_directory("cell-", Path("/nonexistent"))
(made / "queue.db").write_bytes(b"x")
if (child := os.fork()) == 0:
    sys.exit()  # it is another process: the directory stays
os.waitpid(child, 0)
print(made, flush=True)
sys.stdin.read()
"""


def maker(shared: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that makes a directory and waits; return it and the directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", _MAKES, str(shared)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_directory_is_removed_when_its_process_ends(tmp_path: Path) -> None:
    process, made = maker(tmp_path)
    assert made.parents[2] == tmp_path
    assert (made / "queue.db").exists()
    process.communicate()
    assert process.returncode == 0
    assert not made.parent.exists()


def test_the_directory_of_a_killed_process_is_removed_by_the_next_process(tmp_path: Path) -> None:
    killed, left = maker(tmp_path)
    living, kept = maker(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert left.exists()
    third, _ = maker(tmp_path)
    assert not left.parent.exists()
    assert kept.exists(), "its process lives"
    for process in (living, third):
        process.communicate()
    (home,) = tmp_path.iterdir()
    assert not list(home.iterdir())
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_directory_that_disappears_during_the_cleanup_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending, made = maker(tmp_path)
    listed = Path.iterdir
    looked: list[Path] = []

    def ends_now(self: Path) -> Iterator[Path]:
        found = list(listed(self))
        ending.communicate()
        looked.extend(one for one in found if not one.exists())
        return iter(found)

    monkeypatch.setattr(memory_directory, "SHARED", tmp_path)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Path, "iterdir", ends_now)
        own = memory_directory._process_directory.__wrapped__()
    assert looked == [made.parent], "it was listed, and gone when it was opened"
    assert own is not None
    assert own.is_dir()


@pytest.mark.parametrize("taken", ["open to others", "open to its group", "link", "file", "of another user"])
def test_an_unsafe_home_directory_is_not_used(taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / f"conformance-{os.getuid()}"
    if taken == "link":
        home.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").mkdir(mode=0o700)
    elif taken == "file":
        home.touch()
    else:
        home.mkdir()
        home.chmod({"open to others": 0o701, "open to its group": 0o710}.get(taken, 0o700))
    if taken == "of another user":
        if os.getuid() != 0:
            pytest.skip("only root can give a directory away")
        os.chown(home, 12345, 12345)
    monkeypatch.setattr(memory_directory, "SHARED", tmp_path)
    fallback = tmp_path / "disk"
    fallback.mkdir()
    assert memory_directory._process_directory.__wrapped__() is None
    monkeypatch.setattr(memory_directory, "_process_directory", memory_directory._process_directory.__wrapped__)
    assert memory_directory.make_directory("cell-", fallback).parent == fallback
    assert taken == "file" or list(home.iterdir()) == []
    home.rename(tmp_path / "unsafe")
    assert memory_directory.make_directory("cell-", fallback).parents[1] == home, "one that it makes itself is safe"


def test_without_memory_the_given_directory_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_directory, "SHARED", tmp_path / "missing")
    monkeypatch.setattr(memory_directory, "_process_directory", memory_directory._process_directory.__wrapped__)
    assert memory_directory.make_directory("cell-", tmp_path).parent == tmp_path
