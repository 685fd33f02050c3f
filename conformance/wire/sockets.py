"""Small operations on sockets and transports that asyncio lacks, for relays, clients and sinks of the harness."""

import asyncio
import fcntl
import os
import socket
import ssl
import struct
import termios
import threading

BACKLOG = 4096
"""Connections that may wait to be accepted: one that is refused for want of room would be tried again a second later."""

READ_OCTETS = 64 * 1024
"""Octets of one read. With asyncio's 256 KiB, malloc requests the memory anew each time, which costs up to 40 %."""

_NO_LINGER = struct.pack("ii", 1, 0)


class ReadBuffer(threading.local):
    """The buffer that all connections of a thread read into. Threads have one each: their event loops read at the same time.

    One for all connections of a loop is enough: received octets are copied out before the loop reads from another one.
    """

    def __init__(self) -> None:
        self.octets = memoryview(bytearray(READ_OCTETS))


def close_with_rst(transport: asyncio.Transport) -> None:
    """Close a connection at once with RST (SO_LINGER of 0 s): unsent octets are lost, and the peer sees a reset."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


def port_of(address: object) -> int:
    """Return the port of a `sockname` or `peername` as asyncio gives it; 0 for None, which a closed transport gives."""
    return int(address[1]) if isinstance(address, tuple) else 0


def has_unread_octets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether octets have arrived that were not read, also those that the loop has not taken from the kernel yet.

    It may consume one, so end the session if it is true. False also at the end of the stream. Raises the OSError of a connection
    that broke. Octets sent after the reply to STARTTLS would otherwise be taken for a part of the secured session (RFC 3207 4.2):
    begin TLS right after this check, since in a turn of the loop the reader could get more.
    """
    reading = reader.read(1)
    try:
        # Not awaited, so that the loop makes no turn: it ends at once if the reader has an octet, and else would wait.
        reading.send(None)
    except StopIteration as finished:
        if finished.value:
            return True
    finally:
        reading.close()
    sock = writer.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return False
    return fcntl.ioctl(sock.fileno(), termios.FIONREAD, bytes(4)) != bytes(4)


def describe_error(error: OSError) -> str:
    """Return a connection error's meaning without addresses, which differ from run to run.

    That is the reason of an error of TLS or of a look-up of a name, whose numbers are no errno; else the text of its errno,
    without one its own text, and `it took too long` if it has neither.
    """
    if isinstance(error, ssl.SSLError):
        return getattr(error, "reason", None) or str(error)
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno) if error.errno else str(error) or "it took too long"
