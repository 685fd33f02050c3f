"""What the kernel still owes the loop: octets sent and not yet there, FIN or RST under way, connections to accept.

A zero-timeout poll that shows nothing does not prove that nothing is under way: a kernel may defer the delivery of a
loopback packet to another core. TCP_INFO of both ends does prove it. Only connections that were written to, opened or
closed since they were last found quiet are looked at, which costs about 10 us a jump.
"""

import contextlib
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from selectors import EVENT_READ, EVENT_WRITE

from conformance.run.virtual import tcp
from conformance.run.virtual.tcp import Info

Name = tuple[tuple[str, int], tuple[str, int]]
"""One direction of a connection: the address of the end that sends, then of the end that receives."""


@dataclass(slots=True, eq=False)
class End:
    """One end of a connection; `listener` is ours that was dialled, when this end dialled one of ours."""

    name: Name
    sock: socket.socket
    listener: socket.socket | None = None

    @property
    def open(self) -> bool:
        """Whether our descriptor is still there."""
        return self.sock.fileno() >= 0

    def __str__(self) -> str:
        return f"{tcp.shown(self.name[0])} -> {tcp.shown(self.name[1])}"


class Ledger:
    """Knows every TCP socket of one loop; `interest` tells the events that a descriptor is watched for.

    `owed(final)`: with `final`, a poll has just shown that nothing is readable, so that whatever has not been read has
    not come. Without, what waits to be read is no debt: it has come.
    """

    def __init__(self, interest: Callable[[int], int]) -> None:
        self._interest = interest
        self._ends: dict[Name, End] = {}
        self._moved: dict[Name, End] = {}
        self._dialling: dict[socket.socket, tuple[str, int]] = {}
        self._listeners: dict[tuple[str, int], socket.socket] = {}

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to look at."""
        return not self._moved and not self._dialling

    # what happens to sockets

    def listening(self, sock: socket.socket) -> None:
        """Note a listener of ours."""
        host, port = sock.getsockname()[:2]
        self._listeners[host, port] = sock

    @contextlib.contextmanager
    def dialling(self, sock: socket.socket, address: tuple[str, int]) -> Iterator[None]:
        """Note a connection as under way for as long as the context lasts."""
        self._dialling[sock] = address
        try:
            yield
        finally:
            del self._dialling[sock]

    def dialled(self, sock: socket.socket) -> None:
        """Note the dialling end of a connection that the kernel has established."""
        if end := self._end(sock):
            end.listener = self._listener_at(end.name[1])

    def accepted(self, sock: socket.socket) -> None:
        """Note the accepting end of a connection, as soon as it was taken from the queue."""
        self._end(sock)

    def registered(self, sock: socket.socket) -> End | None:
        """Return the end that a transport is being made for; None when it is no connected TCP socket."""
        name = _name(sock)
        end = self._ends.get(name) if name else None
        return end if end and end.sock is sock else self._end(sock)

    def moved(self, end: End) -> None:
        """Note that an end sends, shuts down or closes."""
        self._moved[end.name] = end

    def _end(self, sock: socket.socket) -> End | None:
        name = _name(sock)
        if name is None:
            return None
        end = self._ends[name] = self._moved[name] = End(name, sock)
        if other := self._ends.get(name[::-1]):  # what it has sent so far was to nobody we knew
            self._moved[other.name] = other
        return end

    def forgive(self) -> None:
        """Forget all debts, after they were told."""
        self._moved.clear()

    # what is owed

    def owed(self, final: bool) -> str | None:
        """Return the first debt found, in words, or None; what is found quiet is not looked at again."""
        for sock, address in self._dialling.items():
            if self._connect_owed(sock, address):
                return f"the answer to a connect to {tcp.shown(address)}"
        unaccepted: Counter[socket.socket] = Counter()
        for end in list(self._moved.values()):
            if end.listener is not None and end.name[::-1] not in self._ends:
                debt = self._accept_owed(end, end.listener, unaccepted)
            else:
                debt = self._delivery_owed(end, self._ends.get(end.name[::-1]), final)
            if debt:
                return f"{debt} of {end}"
        return None

    def _connect_owed(self, sock: socket.socket, address: tuple[str, int]) -> bool:
        """A loopback answers every SYN with SYN-ACK or RST, unless the listener's queue is full."""
        if sock.fileno() < 0 or tcp.info(sock).state != tcp.SYN_SENT or not _is_loopback(address):
            return False
        listener = self._listener_at(address)
        if listener is None:
            return True
        queue = tcp.info(listener)
        return queue.unacked <= queue.sacked

    def _accept_owed(self, end: End, listener: socket.socket, unaccepted: "Counter[socket.socket]") -> str | None:
        """A connection that our side calls established comes to its listener's queue, or is reset with the listener."""
        if listener.fileno() < 0:
            if end.open and tcp.info(end.sock).state in tcp.NO_FIN_SEEN:
                return "a RST for a listener that was closed"
            self._forget(end)
            return None
        if not self._interest(listener.fileno()) & EVENT_READ:
            return None
        unaccepted[listener] += 1
        return "an accept" if tcp.info(listener).unacked < unaccepted[listener] else None

    def _delivery_owed(self, end: End, other: End | None, final: bool) -> str | None:
        if other is None:  # somebody else's process, or a connection that nobody will accept
            self._settled(end)
            return None
        if not other.open:
            return self._reset_owed(end, other)
        if not self._interest(other.sock.fileno()) & EVENT_READ:
            return None  # it does not read now: whatever is under way may stay so
        there = tcp.info(other.sock)
        if not end.open:
            if there.state in tcp.NO_FIN_SEEN:
                return "a FIN or RST" if final or not tcp.readable_octets(other.sock) else None
            self._settled(end)
            return None
        return self._octets_owed(end, tcp.info(end.sock), other, there, final)

    def _reset_owed(self, end: End, other: End) -> str | None:
        """Octets sent to an end that is gone are answered with RST."""
        if end.open:
            here = tcp.info(end.sock)
            if (here.unacked or here.unsent) and here.state != tcp.CLOSED:
                return "a RST or acknowledgement"
            self._settled(end)
        else:
            self._forget(end)
            self._forget(other)
        return None

    def _octets_owed(self, end: End, here: Info, other: End, there: Info, final: bool) -> str | None:
        if here.sent - here.retransmitted > there.received:
            return f"{here.sent - here.retransmitted - there.received} octets"
        wants_to_write = bool(self._interest(end.sock.fileno()) & EVENT_WRITE)
        if wants_to_write or here.unsent:
            stuck = not tcp.readable_octets(other.sock) and not (wants_to_write and tcp.writable(end.sock))
            return "room to send" if final or stuck else None
        if here.state in tcp.FIN_SENT and there.state in tcp.NO_FIN_SEEN:
            return "a FIN"
        self._settled(end)
        return None

    def _settled(self, end: End) -> None:
        if self._moved.get(end.name) is end:
            del self._moved[end.name]
        if not end.open and end.name[::-1] not in self._ends:
            self._forget(end)

    def _forget(self, end: End) -> None:
        for book in (self._moved, self._ends):
            if book.get(end.name) is end:
                del book[end.name]

    def _listener_at(self, address: tuple[str, int]) -> socket.socket | None:
        for host in (address[0], "0.0.0.0", "::"):  # noqa: S104  # compared, not bound
            listener = self._listeners.get((host, address[1]))
            if listener is not None and listener.fileno() >= 0:
                return listener
        return None


def _name(sock: socket.socket) -> Name | None:
    """Return the name of an end; None when it is no TCP socket, or was reset already: nothing can be under way then."""
    try:
        here, there = sock.getsockname(), sock.getpeername()
    except OSError:
        return None
    return (here[:2], there[:2]) if isinstance(here, tuple) else None  # a path is a socket of this machine's own kind


def _is_loopback(address: tuple[str, int]) -> bool:
    return address[0].startswith("127.") or address[0] == "::1"
