"""Atomic replacement of files: of one file (`write_atomically`), or of several that belong together (`StagedFiles`).

`read_whole_lines` is for a file to which lines are appended, and which an interruption may leave with a part of a line.
A *hidden file* has the new content until it is renamed to its *target*, the file to replace; its name begins with a dot.
"""

import contextlib
import os
from pathlib import Path
from types import TracebackType


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content, so that a reader sees the old content or the new content and never a part.

    Where writing fails (a full disk), the old file stays and no temporary file is left. Raises OSError.
    """
    with StagedFiles() as staged:
        staged.write(path, content)


def read_whole_lines(path: Path) -> list[bytes]:
    """Return the lines of a file, without their ends, and cut off a last line that is not whole; [] without the file.

    Afterwards lines can be appended to the file. Raises OSError.
    """
    octets = path.read_bytes() if path.exists() else b""
    whole = octets[: octets.rfind(b"\n") + 1]
    if len(whole) < len(octets):
        write_atomically(path, whole)
    return whole.splitlines()


class StagedFiles:
    """A context manager that replaces and removes files together when its block ends; until then none is changed.

    New content is written to a hidden file in the same directory and renamed at the end of the block, which needs no
    further room on the disk. Where the block raises, the hidden files are deleted and no file is replaced or removed.
    """

    def __init__(self) -> None:
        """Begin with no file to replace and none to remove."""
        self._scratch_files: dict[Path, Path] = {}
        """Target -> the hidden file with its new content."""
        self._removed: dict[Path, None] = {}
        """The files to remove, in the order of the calls; a dict, since a set has no order."""

    def write(self, path: Path, content: bytes) -> None:
        """Write the new content of a file to a hidden file, which replaces it when the block ends. Raises OSError.

        A further call for the same file replaces the new content. A `remove` of the file, before or after, does not count.
        Where the call fails and the block goes on, the file stays as it is.
        """
        scratch = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            scratch.write_bytes(content)
        except BaseException:  # a part of the content must not replace the file
            self._scratch_files.pop(path, None)
            self._removed.pop(path, None)
            with contextlib.suppress(OSError):
                scratch.unlink(missing_ok=True)
            raise
        self._scratch_files[path] = scratch

    def write_text(self, path: Path, text: str) -> None:
        """Do as `write` does with a text, in UTF-8. Raises OSError."""
        self.write(path, text.encode())

    def remove(self, path: Path) -> None:
        """Remove a file when the block ends, unless `write` is called for it, before or after; a missing file is not an error."""
        self._removed[path] = None

    def __enter__(self) -> "StagedFiles":
        """Return this object, whose methods the block calls."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove and replace the files, unless the block raised; delete the hidden files that are left. Raises OSError."""
        try:
            if kind is None:
                self._replace()
        finally:
            for scratch in self._scratch_files.values():
                with contextlib.suppress(OSError):  # a disk that became read-only keeps its files
                    scratch.unlink(missing_ok=True)

    def _replace(self) -> None:
        """Remove the files to remove, then rename each hidden file to its target.

        Raises OSError; what was removed and renamed until then stays so.
        """
        for path in self._removed:
            if path not in self._scratch_files:
                path.unlink(missing_ok=True)
        for path, scratch in self._scratch_files.items():
            scratch.replace(path)
