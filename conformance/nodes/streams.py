"""What a container, or a command in one, prints, as a Docker engine hands it out; read in threads that never wait for ever.

The engine need not end a stream when it should, and the SDK waits for that without a bound: whoever reads here has a
time after which, or an event with which, the stream is ended from this side.
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
"""Before each chunk: which stream it is of, and its octets."""

_LAST_WORDS = 5.0
"""Seconds in which the engine has to hand out what a container printed that has ended, and to end the stream."""

_DROPPED = b"\n[the log is at its limit; what follows was dropped]\n"


class Stream:
    """One stream of chunks, each of stdout (1) or stderr (2)."""

    def __init__(self, file: IO[bytes], connection: socket.socket) -> None:
        self._file = file
        self._connection = connection
        connection.settimeout(None)  # it lasts as long as what prints does; `end` is what bounds it

    @classmethod
    def of(cls, answer: Any) -> "Stream":
        """Take over what the SDK's `attach` or `exec_start` returned.

        Its own iterator passes the buffer by in which the head of the engine's answer was read, and so loses what came
        together with that.
        """
        file = answer._response.raw._fp.fp
        return cls(file, file.raw._sock)

    def chunks(self) -> Iterator[tuple[int, bytes]]:
        """Yield what is printed until the engine, or somebody here, ends it; a chunk that is cut off is left out."""
        while len(header := self._file.read(_HEADER.size)) == _HEADER.size:
            kind, size = _HEADER.unpack(header)
            if len(chunk := self._file.read(size)) < size:
                return
            yield kind, chunk

    def end(self) -> None:
        """Have whoever reads come to the end now; from any thread, and as often as you like."""
        with contextlib.suppress(OSError):  # it has ended
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it and let go of the connection; nobody reads any more."""
        self.end()
        self._file.close()
        self._connection.close()


@contextmanager
def bounded(stream: Stream, within: float) -> Iterator[Stream]:
    """Read a stream for at most `within` seconds, and close it."""
    timer = threading.Timer(within, stream.end)
    timer.daemon = True
    timer.start()
    try:
        yield stream
    finally:
        timer.cancel()
        stream.close()


def follow(container: Any, stream: Stream, log: int, limit: int) -> int:
    """Add what a container prints to the log, an open file, up to `limit` octets, until it has ended; return its exit code.

    That it has ended is the engine's word, not the end of the stream, which may come late or never.
    Raises DockerException and RequestException of the SDK, and OSError of the log.
    """
    read = threading.Event()
    cutting = threading.Thread(target=_cut_off, args=(container, stream, read), name="cut off", daemon=True)
    cutting.start()
    try:
        _copy(stream, log, limit)
    finally:
        read.set()
        stream.close()
    return int(container.wait(timeout=None)["StatusCode"])


def _cut_off(container: Any, stream: Stream, read: threading.Event) -> None:
    """End a stream that was not read to its end some seconds after its container has ended."""
    try:
        container.wait(timeout=None)
        read.wait(_LAST_WORDS)
    except (docker.errors.DockerException, requests.RequestException):
        pass  # whoever follows asks the same when the stream has ended, and is told the same
    finally:
        stream.end()


def _copy(stream: Stream, log: int, limit: int) -> None:
    left, told = limit, False
    with open(log, "ab", buffering=0, closefd=False) as file:  # a descriptor has no path
        for _, chunk in stream.chunks():
            file.write(chunk[:left])
            if left < len(chunk) and not told:
                file.write(_DROPPED)
                told = True
            left = max(0, left - len(chunk))


def run_inside(api: Any, container: str, argv: list[str], *, within: float, most: int) -> tuple[int, bytes, bytes]:
    """Run a command in a container; return its exit code, and up to `most` octets each of its stdout and stderr.

    Raises TimeoutError when it had not ended after `within` seconds, and what the SDK raises.
    """
    command = api.exec_create(container, argv)["Id"]
    printed = {1: bytearray(), 2: bytearray()}
    with bounded(Stream.of(api.exec_start(command, stream=True)), within) as stream:
        for kind, chunk in stream.chunks():
            printed[kind] += chunk[: most - len(printed[kind])]
    code = api.exec_inspect(command)["ExitCode"]
    if code is None:
        raise TimeoutError
    return int(code), bytes(printed[1]), bytes(printed[2])
