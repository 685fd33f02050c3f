"""A node's log: what its processes print, in `node.log` of the node's directory, which the node can write.

The file is opened once, before the node first runs, and is written and read by its descriptor from then on: a node that
deletes it, or puts a directory, a link or a pipe in its place, changes nothing of what is read. When the node has ended,
the name is given back to the log.
"""

import os

from conformance.nodes.last_words import last_words
from conformance.untrusted import UntrustedDirectory, read_at

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
            self._handle = self._directory.append_to(NAME)
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

    def last_words(self) -> str:
        """Return the exception that the log ends with since the node was started, or its last line."""
        return last_words(self.read(max(self._begins, self.size - _TAIL), _TAIL))

    def close(self) -> None:
        """Give the name back to the log, where something else has it, and let go. The node must be dead."""
        handle, self._handle = self._handle, -1
        if handle < 0:
            return
        try:
            if not self._directory.is_named(NAME, handle):
                self._directory.remove(NAME)
                self._directory.write(NAME, read_at(handle, 0, os.fstat(handle).st_size))
        finally:
            os.close(handle)
