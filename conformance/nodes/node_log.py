"""A node's log: what its processes print, in `node.log` of the node's directory, which the node can write.

The file is opened once, before the node first runs, and is written and read by its descriptor from then on: a node that
deletes it, or puts a directory, a link or a pipe in its place, does not change what is read. When the node has ended,
the log is put at its path again.

`failure_excerpt` looks for the reason why a program ended: first for an exception or a panic near the end of the log,
then for the run of lines with errors that the log ends with; else it takes the last line.
"""

import os
import re
from collections.abc import Sequence
from itertools import takewhile

from conformance.untrusted.directory import UntrustedDirectory
from conformance.untrusted.tree import read_at

_MAX_LINES = 60
"""Lines at the end of a log in which an exception is looked for: one logged long before did not end the program."""

_MAX_EXCERPT = 300
"""Characters of an excerpt."""

_MAX_ERRORS = 3
"""Lines of errors in an excerpt."""

_EMPTY = "(it wrote nothing)"

_TRACEBACK = re.compile(r"Traceback \(most recent call last\):")
_FRAME = re.compile(r"^\s+at \S")
"""A line of a stack trace of JavaScript or Java."""
_THROWN = re.compile(r"\b((?:[\w.$]+\.)?\w*(?:Error|Exception)\b(?: \[\w+\])?(?::.*)?)$")
_FATAL = re.compile(
    r"(panic: .+|fatal error: .+|thread '.*' panicked at .+|.*Assertion `.*' failed\.?.*|what\(\): .+|Segmentation fault.*)"
)
"""The last message of a Go, Rust or C program that aborts."""
_ERROR = re.compile(r"\b(fatal|error|panic)\b:?", re.IGNORECASE)
"""A line that reports an error: the last but one often has the cause, the last the consequence."""


def failure_excerpt(text: str) -> str:
    """Return the part of a log that best explains why the program ended, at most 300 characters.

    It is the last exception in the last 60 lines, else up to 3 error lines that the log ends with, joined by "; ", else
    the last line; `(it wrote nothing)` for an empty log.
    """
    lines = text.strip().splitlines()
    if not lines:
        return _EMPTY
    return (_last_exception(lines[-_MAX_LINES:]) or _final_errors(lines) or lines[-1].strip())[:_MAX_EXCERPT]


def _final_errors(lines: Sequence[str]) -> str:
    """Return the error lines that a log ends with, at most the last three, joined by "; "; '' when its last line is not one."""
    errors = list(takewhile(_ERROR.search, reversed(lines)))
    return "; ".join(line.strip() for line in reversed(errors[:_MAX_ERRORS]))


def _last_exception(lines: Sequence[str]) -> str:
    """Return the message of the last exception or panic in these lines; '' when there is none."""
    message = ""
    for number, line in enumerate(lines):
        following = lines[number + 1 :]
        if _TRACEBACK.search(line):
            message = _python_exception(following) or message
        elif following and _FRAME.match(following[0]) and (thrown := _THROWN.search(line)):
            message = thrown[1]
        elif fatal := _FATAL.search(line):
            continuation = following[0].strip() if following and fatal[1].endswith(":") else ""
            message = f"{fatal[1]} {continuation}".strip()
    return message


def _python_exception(lines: Sequence[str]) -> str:
    """Return the first line that is not indented after the head of a traceback: it names the exception; '' for none."""
    return next((line.strip() for line in lines if line[:1].strip() and not _TRACEBACK.search(line)), "")


NAME = "node.log"

_TAIL = 32 * 1024
"""Octets at the end of the log that `NodeLog.failure_excerpt` reads."""


class NodeLog:
    """The log in a node's directory. Every method can raise OSError."""

    def __init__(self, directory: UntrustedDirectory) -> None:
        self._directory = directory
        self._descriptor = -1
        self._start_offset = 0

    def mark_start(self) -> None:
        """Note that the node starts now: excerpts do not reach back to what an earlier start has logged."""
        self._start_offset = self.size

    @property
    def descriptor(self) -> int:
        """The file descriptor to append by; the file is made when this is first asked for."""
        if self._descriptor < 0:
            self._descriptor = self._directory.open_for_append(NAME)
        return self._descriptor

    @property
    def size(self) -> int:
        """The log's length in octets. The file is made if it was not opened yet."""
        return os.fstat(self.descriptor).st_size

    def read(self, start: int, max_octets: int) -> str:
        """Return up to `max_octets` octets from offset `start` on, as text."""
        return read_at(self.descriptor, start, max_octets).decode("utf-8", "replace")

    def add_note(self, text: str) -> None:
        """Append a line of the harness's own, which begins with `[harness]`."""
        os.write(self.descriptor, f"[harness] {text}\n".encode())

    def failure_excerpt(self) -> str:
        """Return what explains why the node ended, as the module says, of what was logged since its last start.

        Of a long log only the last 32 KiB are read.
        """
        return failure_excerpt(self.read(max(self._start_offset, self.size - _TAIL), _TAIL))

    def close(self) -> None:
        """Close the log, and put it at its path again where something else has taken its place. The node must be dead.

        Do nothing if the log was never opened, or is closed.
        """
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            if not self._directory.refers_to(NAME, descriptor):
                self._directory.remove(NAME)
                self._directory.write_file(NAME, read_at(descriptor, 0, os.fstat(descriptor).st_size))
        finally:
            os.close(descriptor)
