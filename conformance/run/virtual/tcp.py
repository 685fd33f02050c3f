"""What the Linux kernel says of a TCP socket: its state, and how many octets went out and came in (TCP_INFO)."""

import fcntl
import select
import socket
import struct
import termios
from typing import NamedTuple

# The fields used of `struct tcp_info` (linux/tcp.h), which only ever grows at its end:
# state at octet 0, unacked at 24, sacked at 28, bytes_received at 128, notsent_bytes at 144, bytes_sent at 200,
# bytes_retrans at 208 (both since Linux 4.19).
_INFO = struct.Struct("=B23xII96xQ8xI52xQQ")

ESTABLISHED, SYN_SENT, FIN_WAIT1, FIN_WAIT2, CLOSED, LAST_ACK, CLOSING = 1, 2, 4, 5, 7, 9, 11
"""States (linux/tcp_states.h). A socket that is in TIME_WAIT, or was reset, says CLOSED."""

FIN_SENT = frozenset({FIN_WAIT1, FIN_WAIT2, CLOSING, LAST_ACK})
"""States in which this end has sent its FIN."""

NO_FIN_SEEN = frozenset({ESTABLISHED, FIN_WAIT1, FIN_WAIT2})
"""States in which neither FIN nor RST of the other end has come."""


class Info(NamedTuple):
    """A socket at one moment, in octets. For a listener `unacked` is its accept queue and `sacked` that queue's
    limit."""

    state: int
    unacked: int
    sacked: int
    received: int
    unsent: int
    sent: int
    retransmitted: int


def info(sock: socket.socket) -> Info:
    """Return what the kernel says of a TCP socket. Raises OSError, or struct.error on Linux before 4.19."""
    return Info._make(_INFO.unpack(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)))


def readable_octets(sock: socket.socket) -> int:
    """Return how many octets wait in a socket's receive queue."""
    return int(struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.FIONREAD, b"\0" * 4))[0])


def writable(sock: socket.socket) -> bool:
    """Return whether a socket would take octets now."""
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    return bool(poll.poll(0))


def shown(address: object) -> str:
    """Return an address as `host:port`."""
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else repr(address)
