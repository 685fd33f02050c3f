"""A node's log: what its processes print, in `node.log` of the node's directory, which the node can write.

The file is opened once, before the node first runs, and is written and read by its descriptor from then on: a node that
deletes it, or puts a directory, a link or a pipe in its place, changes nothing of what is read. When the node has ended,
the name is given back to the log.
What it says of why a program ended is the exception that is in it, else the errors that it ends with, else its last line.
"""

import os
import re
from collections.abc import Sequence
from itertools import takewhile

from conformance.untrusted.directory import UntrustedDirectory
from conformance.untrusted.tree import read_at

_NEAR_THE_END = 60
"""Lines at the end of a log in which an exception is looked for: one that was logged long before did not end the program."""

_MOST = 300
"""Characters that are quoted."""

_ERRORS = 3
"""Lines of errors that are quoted."""

_NOTHING = "(it wrote nothing)"

_TRACEBACK = re.compile(r"Traceback \(most recent call last\):")
_FRAME = re.compile(r"^\s+at \S")
"""A line of a stack trace of JavaScript or Java."""
_THROWN = re.compile(r"\b((?:[\w.$]+\.)?\w*(?:Error|Exception)\b(?: \[\w+\])?(?::.*)?)$")
_FATAL = re.compile(
    r"(panic: .+|fatal error: .+|thread '.*' panicked at .+|.*Assertion `.*' failed\.?.*|what\(\): .+|Segmentation fault.*)"
)
"""What Go, Rust and C programs say when they end so."""
_ERROR = re.compile(r"\b(fatal|error|panic)\b:?", re.IGNORECASE)
"""A line by which a program says that it cannot go on: the one before the last often has the cause, the last what came of it."""


def failure_excerpt(text: str) -> str:
    """Return what a log's end says of the cause, at most 300 characters: the last exception near the end; else the lines of
    errors that the log ends with, joined by "; "; else the last line."""
    lines = text.strip().splitlines()
    if not lines:
        return _NOTHING
    return (_exception(lines[-_NEAR_THE_END:]) or _errors(lines) or lines[-1].strip())[:_MOST]


def _errors(lines: Sequence[str]) -> str:
    """Return the errors that a log ends with; '' where its last line is none."""
    errors = list(takewhile(_ERROR.search, reversed(lines)))
    return "; ".join(line.strip() for line in reversed(errors[:_ERRORS]))


def _exception(lines: Sequence[str]) -> str:
    """Return the last exception of these lines; '' when there is none."""
    found = ""
    for number, line in enumerate(lines):
        following = lines[number + 1 :]
        if _TRACEBACK.search(line):
            found = _of_python(following) or found
        elif following and _FRAME.match(following[0]) and (thrown := _THROWN.search(line)):
            found = thrown[1]
        elif fatal := _FATAL.search(line):
            more = following[0].strip() if following and fatal[1].endswith(":") else ""
            found = f"{fatal[1]} {more}".strip()
    return found


def _of_python(lines: Sequence[str]) -> str:
    """Return the line of an exception that ends a traceback: the first that is not indented."""
    return next((line.strip() for line in lines if line[:1].strip() and not _TRACEBACK.search(line)), "")


NAME = "node.log"

_TAIL = 32 * 1024
"""Octets of the end in which it is looked for why the node ended."""


class NodeLog:
    """The log of a node that has the directory. Every method raises OSError."""

    def __init__(self, directory: UntrustedDirectory) -> None:
        self._directory = directory
        self._handle = -1
        self._begins = 0

    def begin(self) -> None:
        """Note that the node starts: what the log says so far is of an earlier life."""
        self._begins = os.fstat(self.handle).st_size

    @property
    def handle(self) -> int:
        """The descriptor to append by; the file is made when this is first asked for."""
        if self._handle < 0:
            self._handle = self._directory.open_for_append(NAME)
        return self._handle

    @property
    def size(self) -> int:
        """Octets."""
        return os.fstat(self.handle).st_size

    def read(self, start: int, most: int) -> str:
        """Return up to `most` octets from `start` on, as text."""
        return read_at(self.handle, start, most).decode("utf-8", "replace")

    def note(self, words: str) -> None:
        """Add a line of the harness's own."""
        os.write(self.handle, f"[harness] {words}\n".encode())

    def failure_excerpt(self) -> str:
        """Return the exception that the log ends with since the node was started, or its last line."""
        return failure_excerpt(self.read(max(self._begins, self.size - _TAIL), _TAIL))

    def close(self) -> None:
        """Give the name back to the log, where something else has it, and let go. The node must be dead."""
        handle, self._handle = self._handle, -1
        if handle < 0:
            return
        try:
            if not self._directory.refers_to(NAME, handle):
                self._directory.remove(NAME)
                self._directory.write_file(NAME, read_at(handle, 0, os.fstat(handle).st_size))
        finally:
            os.close(handle)
