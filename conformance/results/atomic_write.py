"""Writes files whole or not at all: one, or several that belong together."""

import contextlib
import os
from pathlib import Path
from types import TracebackType


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file by new content, so that a reader sees the old one or the new one and never a part.

    Where that fails (a full disk), nothing of it is left. Raises OSError.
    """
    with StagedFiles() as staged:
        staged.write(path, content)


class StagedFiles:
    """Files that are replaced together, when the block ends: until then all of them are as they were.

    What is new is written beside its place, under a hidden name, and renamed last, which takes no room on a disk. Where the
    block is left by an exception, what was written is deleted, and nothing was replaced.
    """

    def __init__(self) -> None:
        self._written: dict[Path, Path] = {}
        self._removed: dict[Path, None] = {}

    def write(self, path: Path, content: bytes) -> None:
        """Write what is to be in a file. Raises OSError."""
        self._removed.pop(path, None)
        scratch = self._written[path] = path.with_name(f".{path.name}.{os.getpid()}")
        scratch.write_bytes(content)

    def write_text(self, path: Path, text: str) -> None:
        """Write the text that is to be in a file. Raises OSError."""
        self.write(path, text.encode())

    def remove(self, path: Path) -> None:
        """Have a file removed, if it is there."""
        self._removed[path] = None

    def __enter__(self) -> "StagedFiles":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._replace()
        finally:
            for scratch in self._written.values():
                with contextlib.suppress(OSError):  # a disk that became read-only keeps it
                    scratch.unlink(missing_ok=True)

    def _replace(self) -> None:
        for path in self._removed:
            path.unlink(missing_ok=True)
        for path, scratch in self._written.items():
            scratch.replace(path)
