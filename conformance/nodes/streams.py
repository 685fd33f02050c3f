"""Reads what a container, or a command in one, prints, as a Docker engine hands it out, in threads that cannot hang.

The engine does not always end a stream when it should, and the SDK waits for that without a limit. So each stream here
has a deadline, or an event (the end of its container), after which this side ends it. A stream has chunks of stdout (1) and of
stderr (2). `DockerNode` calls these functions in threads of its own.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import docker
import requests

_HEADER = struct.Struct(">BxxxL")
"""The header of each chunk: its stream (1 stdout, 2 stderr) and its length in octets."""

_MAX_DRAIN_S = 5.0
"""Seconds that the engine has, after the end of a container, to hand out the rest of its output and to end the stream."""

_DROPPED = b"\n[the log is at its limit; what follows was dropped]\n"


class Stream:
    """A connection to the engine that carries chunks of stdout (1) and stderr (2)."""

    def __init__(self, file: IO[bytes], connection: socket.socket) -> None:
        self._file = file
        self._connection = connection
        connection.settimeout(None)  # a container may print nothing for any time; `end` is what limits a read

    @classmethod
    def from_answer(cls, answer: Any) -> "Stream":
        """Take over the connection of what the SDK's `attach` or `exec_start` returned.

        The SDK's own iterator would lose the octets that arrived together with the head of the engine's answer, which
        are in a buffer that it does not read.
        """
        file = answer._response.raw._fp.fp
        return cls(file, file.raw._sock)

    def chunks(self) -> Iterator[tuple[int, bytes]]:
        """Yield (stream, octets) until the stream is ended by the engine or by `end`; an incomplete chunk is left out."""
        while len(header := self._file.read(_HEADER.size)) == _HEADER.size:
            kind, size = _HEADER.unpack(header)
            if len(chunk := self._file.read(size)) < size:
                return
            yield kind, chunk

    def end(self) -> None:
        """Make a blocked `chunks` stop at once. May be called from any thread, any number of times."""
        with contextlib.suppress(OSError):  # it has ended
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the stream and close its connection; no thread may be reading it."""
        self.end()
        self._file.close()
        self._connection.close()


@contextmanager
def closing_after(stream: Stream, seconds: float) -> Iterator[Stream]:
    """End a stream after `seconds` seconds or when the block is left, whichever is first; close it when the block is left."""
    timer = threading.Timer(seconds, stream.end)
    timer.daemon = True
    timer.start()
    try:
        yield stream
    finally:
        timer.cancel()
        stream.close()


def copy_to_log(container: Any, stream: Stream, log: int, limit: int) -> int:
    """Append what a container prints to the log, a file descriptor, until the container ends; return its exit code.

    At most `limit` octets are copied, and the stream is closed at the end. It blocks, but not beyond the end of the
    container by more than 5 s: the engine is asked for that end, since the end of the stream may come late or never.
    Raises DockerException and RequestException of the SDK, and OSError of the log.
    """
    copied = threading.Event()
    ender = threading.Thread(target=_end_after_container, args=(container, stream, copied), name="cut off", daemon=True)
    ender.start()
    try:
        _copy(stream, log, limit)
    finally:
        copied.set()
        stream.close()
    return int(container.wait(timeout=None)["StatusCode"])


def _end_after_container(container: Any, stream: Stream, copied: threading.Event) -> None:
    """Wait for the end of a container, then for `copied` for at most 5 s, and end the stream. Blocks; runs in a thread."""
    try:
        container.wait(timeout=None)
        copied.wait(_MAX_DRAIN_S)
    except (docker.errors.DockerException, requests.RequestException):
        pass  # `copy_to_log` asks the same when the stream has ended, and raises the same
    finally:
        stream.end()


def _copy(stream: Stream, log: int, limit: int) -> None:
    """Append a stream to a file descriptor, up to `limit` octets; then note once that the rest is dropped, and read on."""
    left, noted = limit, False
    with open(log, "ab", buffering=0, closefd=False) as file:  # a descriptor has no path
        for _, chunk in stream.chunks():
            file.write(chunk[:left])
            if left < len(chunk) and not noted:
                file.write(_DROPPED)
                noted = True
            left = max(0, left - len(chunk))


def run_inside(
    api: Any, container: str, argv: list[str], *, within: float, max_octets: int
) -> tuple[int, bytes, bytes]:
    """Run a command in a container; return its exit code and up to `max_octets` octets each of its stdout and stderr.

    `container` is its id, `api` the SDK's low-level client. It blocks for at most `within` seconds, and for as long as the engine
    takes to answer three requests. Raises TimeoutError when the command has not ended by then (it is not killed), and what the SDK
    raises.
    """
    command = api.exec_create(container, argv)["Id"]
    printed = {1: bytearray(), 2: bytearray()}
    with closing_after(Stream.from_answer(api.exec_start(command, stream=True)), within) as stream:
        for kind, chunk in stream.chunks():
            printed[kind] += chunk[: max_octets - len(printed[kind])]
    code = api.exec_inspect(command)["ExitCode"]
    if code is None:
        raise TimeoutError
    return int(code), bytes(printed[1]), bytes(printed[2])
