"""Files that are replaced and removed together: which are, in which order of the calls, and what a failure leaves.

Files to which lines are appended: what is left of the last one after an interruption.
"""

import os
from pathlib import Path

import pytest

from conformance.results.atomic_write import StagedFiles, read_whole_lines


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "badge.svg"
    path.write_text("old")
    return path


@pytest.fixture
def hidden(file: Path) -> Path:
    return file.with_name(f".{file.name}.{os.getpid()}")


def test_a_file_is_removed_when_the_block_ends(file: Path) -> None:
    with StagedFiles() as staged:
        staged.remove(file)
        staged.remove(file.with_name("missing"))
        assert file.exists()
    assert not file.exists()


def test_no_file_is_removed_or_replaced_where_the_block_raises(file: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("old")

    def stage(*, broken: bool) -> None:
        with StagedFiles() as staged:
            staged.remove(file)
            staged.write(tmp_path / "other", b"new")
            staged.write(tmp_path / "added", b"new")
            if broken:
                raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        stage(broken=True)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"badge.svg": "old", "other": "old"}
    stage(broken=False)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"added": "new", "other": "new"}


@pytest.mark.parametrize("order", [("remove", "write"), ("write", "remove"), ("remove", "write", "remove")])
def test_a_file_that_is_removed_and_written_has_the_new_content(file: Path, order: tuple[str, ...]) -> None:
    with StagedFiles() as staged:
        for call in order:
            staged.write(file, b"new") if call == "write" else staged.remove(file)
    assert [(path, path.read_text()) for path in file.parent.iterdir()] == [(file, "new")]


@pytest.mark.parametrize("order", [("remove", "write"), ("write", "remove")])
def test_a_file_that_is_removed_and_written_stays_where_it_cannot_be_replaced(
    file: Path, hidden: Path, order: tuple[str, ...]
) -> None:
    def stage() -> None:
        with StagedFiles() as staged:
            for call in order:
                staged.write(file, b"new") if call == "write" else staged.remove(file)
            hidden.unlink()

    with pytest.raises(FileNotFoundError):
        stage()
    assert file.read_text() == "old"


def test_a_part_of_the_content_does_not_replace_the_file(
    file: Path, hidden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_a_part(path: Path, content: bytes) -> int:
        with path.open("wb") as opened:
            opened.write(content[:1])
        raise OSError(28, "No space left on device")

    with StagedFiles() as staged:
        staged.remove(file)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "write_bytes", write_a_part)
            with pytest.raises(OSError, match="No space"):
                staged.write(file, b"new")
        assert not hidden.exists()
    assert file.read_text() == "old"


@pytest.mark.parametrize(
    ("content", "lines"), [(b"", []), (b"one\n", [b"one"]), (b"one\ntw", [b"one"]), (b"on", []), (None, [])]
)
def test_a_line_can_be_appended_after_the_whole_lines(
    tmp_path: Path, content: bytes | None, lines: list[bytes]
) -> None:
    path = tmp_path / "lines"
    if content is not None:
        path.write_bytes(content)
    assert read_whole_lines(path) == lines
    with path.open("ab") as file:
        file.write(b"new\n")
    assert path.read_bytes().splitlines() == [*lines, b"new"]
