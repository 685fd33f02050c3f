"""What asyncio's transports do not say themselves: to close with RST, and the ends of a connection as addresses."""

import asyncio
import os
import socket
import struct

BACKLOG = 4096
"""Connections that may wait to be accepted: one refused for want of room would be tried again a second later."""

_NO_LINGER = struct.pack("ii", 1, 0)


def close_with_rst(transport: asyncio.Transport) -> None:
    """Close at once with RST: whatever is unsent is lost, and the peer knows (SO_LINGER of 0 s)."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


def port_of(name: object) -> int:
    """Return the port of a socket's name as asyncio gives it; 0 when it has none."""
    return int(name[1]) if isinstance(name, tuple) else 0


async def has_unread_octets(reader: asyncio.StreamReader) -> bool:
    """Whether octets are there that were not read yet. One of them is read: this is for a session that ends then.

    Octets that came behind the reply to STARTTLS would be taken for a part of the secured session (RFC 3207 4.2).
    """
    try:
        async with asyncio.timeout(0):
            return await reader.read(1) != b""
    except TimeoutError:
        return False


def describe_error(error: OSError) -> str:
    """Return what an error of a connection means, without the addresses, which differ from run to run."""
    return os.strerror(error.errno) if error.errno else str(error) or "it took too long"
