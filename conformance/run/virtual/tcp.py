"""Reads the state and the octet counters of a TCP socket from the Linux kernel (TCP_INFO), for the in-flight tracker."""

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
"""States (linux/tcp_states.h). The kernel reports CLOSED also for a socket in TIME_WAIT and one that was reset."""

FIN_SENT = frozenset({FIN_WAIT1, FIN_WAIT2, CLOSING, LAST_ACK})
"""States in which this end has sent its FIN."""

NO_FIN_SEEN = frozenset({ESTABLISHED, FIN_WAIT1, FIN_WAIT2})
"""States in which neither a FIN nor a RST of the peer has arrived."""


class TcpInfo(NamedTuple):
    """The state of a socket and its counters, in octets.

    Of a listener, `unacked` is the number of connections in its accept queue, and `sacked` the queue's limit.
    """

    state: int
    unacked: int
    sacked: int
    received: int
    unsent: int
    sent: int
    retransmitted: int


def info(sock: socket.socket) -> TcpInfo:
    """Return the TCP_INFO of a socket. Raises OSError for another kind of socket, struct.error on Linux before 4.19."""
    return TcpInfo._make(_INFO.unpack(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)))


def readable_octets(sock: socket.socket) -> int:
    """Return the number of octets in a socket's receive queue (FIONREAD)."""
    return int(struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.FIONREAD, b"\0" * 4))[0])


def is_writable(sock: socket.socket) -> bool:
    """Whether a send on the socket would return at once now: the kernel takes octets, or reports an error."""
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    return bool(poll.poll(0))


def format_address(address: object) -> str:
    """Return an Internet address as `host:port`, any other as its repr."""
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else repr(address)
