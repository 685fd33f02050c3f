"""What the kernel still owes the loop: octets sent and not yet there, FIN or RST under way, connections to accept.

A zero-timeout poll that shows nothing does not prove that nothing is under way: a kernel may defer the delivery of a
loopback packet to another core. What our own two ends of a connection have sent and read says who is about to be readable
without a word of the kernel (`due`). Where they cannot say it, TCP_INFO of both ends does (`owed`). Only connections that
were written to, opened or closed since they were last found quiet are looked at.
"""

import contextlib
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from selectors import EVENT_READ, EVENT_WRITE, SelectorKey
from typing import Any

from conformance.run.virtual import tcp
from conformance.run.virtual.tcp import Info

Name = tuple[tuple[str, int], tuple[str, int]]
"""One direction of a connection: the address of the end that sends, then of the end that receives."""


class Endpoint:
    """One end of a connection, and the other one, as soon as both are known to be ours.

    `listener` is ours that was dialled, when this end dialled one of ours. `sent` and `read` count octets; `said_all` and
    `heard_all` tell of the end of what is sent, by FIN or RST. `served` is an end that a transport reads from, `crowded`
    one from which the kernel did not take all.
    """

    __slots__ = (
        "crowded", "descriptor", "heard_all", "here", "listener", "name", "other", "read", "said_all", "sent", "served",
        "sock", "there",
    )  # fmt: skip

    def __init__(self, sock: socket.socket, here: Any, there: Any) -> None:
        self.sock = sock
        self.descriptor = sock.fileno()
        self.here = here
        self.there = there
        self.name: Name | None = (here[:2], there[:2]) if isinstance(here, tuple) and there is not None else None
        self.listener: socket.socket | None = None
        self.other: Endpoint | None = None
        self.sent = self.read = 0
        self.said_all = self.heard_all = self.served = self.crowded = False

    @property
    def open(self) -> bool:
        """Whether our descriptor is still there."""
        return self.sock.fileno() >= 0

    @property
    def awaits(self) -> bool:
        """Whether the other end has sent more than was read here, or has ended and was not heard to."""
        other = self.other
        return other is not None and (other.sent > self.read or (other.said_all and not self.heard_all))

    def __str__(self) -> str:
        return f"{tcp.shown(self.here)} -> {tcp.shown(self.there)}"


class InFlightTracker:
    """Knows every TCP socket of one loop; `watched` are those that it is told of, and what for, by descriptor.

    `owed(final)`: with `final`, a poll has just shown that nothing is readable, so that whatever has not been read has
    not come. Without, what waits to be read is no debt: it has come.
    """

    def __init__(self, watched: Mapping[int, SelectorKey]) -> None:
        self._watched = watched
        self._endpoints: dict[Name, Endpoint] = {}
        self.active: dict[Endpoint, None] = {}
        """Ends that have sent, shut down or closed, and are not known to be owed nothing."""
        self._come: dict[Endpoint, None] = {}
        self._new: dict[socket.socket, Endpoint] = {}
        self._dialling: dict[socket.socket, tuple[str, int]] = {}
        self._listeners: dict[tuple[str, int], socket.socket] = {}

    @property
    def idle(self) -> bool:
        """Whether there is nothing to look at."""
        return not self.active and not self._dialling

    # what happens to sockets

    def note_listening(self, sock: socket.socket) -> None:
        """Note a listener of ours."""
        host, port = sock.getsockname()[:2]
        self._listeners[host, port] = sock

    @contextlib.contextmanager
    def connecting(self, sock: socket.socket, address: tuple[str, int]) -> Iterator[None]:
        """Note a connection as under way for as long as the context lasts."""
        self._dialling[sock] = address
        try:
            yield
        finally:
            del self._dialling[sock]

    def note_connected(self, sock: socket.socket) -> bool:
        """Note the dialling end of a connection that the kernel has established; return whether it has."""
        try:
            there = sock.getpeername()
        except OSError:  # refused, not answered yet, or reset already: nothing can be under way then
            return False
        end = self._new[sock] = self._end(Endpoint(sock, sock.getsockname(), there))
        end.listener = self._listener_at(end.name[1]) if end.name else None
        return True

    def note_accepted(self, sock: socket.socket, there: Any) -> None:
        """Note the accepting end of a connection from `there`, as soon as it was taken from the queue."""
        self._new[sock] = self._end(Endpoint(sock, sock.getsockname(), there))

    def endpoint_of(self, sock: socket.socket) -> Endpoint:
        """Return the end that a transport is being made for."""
        if (end := self._new.pop(sock, None)) is not None:
            return end
        try:
            return self._end(Endpoint(sock, sock.getsockname(), sock.getpeername()))
        except OSError:
            return Endpoint(sock, None, None)

    def _end(self, end: Endpoint) -> Endpoint:
        if end.name is None:  # a path is a socket of this machine's own kind
            return end
        self._endpoints[end.name] = end
        self.active[end] = None
        if other := self._endpoints.get(end.name[::-1]):  # what it has sent so far was to nobody we knew
            self.active[other] = None
            end.other, other.other = other, end
        return end

    def clear(self) -> None:
        """Forget all debts, after they were told."""
        self.active.clear()

    def predict_readable(self) -> list[SelectorKey] | None:
        """Return the sockets that our own two ends say are about to be readable, if they can say that of all of them.

        None says that the kernel has to be asked: somebody else's socket, one that takes no more, a connect without an
        answer.
        """
        if self._dialling:
            return None
        if len(self.active) == 1 and not self._come:  # as mostly: one end has said something
            (end,) = self.active
            other = end.other
            if other is not None and other.served and not end.crowded and end.sent > other.read:
                key = self._watched.get(other.descriptor)
                return [] if key is None or not key.events & EVENT_READ else [key]
        due: dict[int, SelectorKey] = {}
        for end in (*self._come, *self.active):
            other = end.other
            if other is None:
                if end not in self.active:  # forgotten with its other end
                    continue
                if end.listener is None or (descriptor := end.listener.fileno()) < 0:
                    return None
            elif end.sent == other.read and (other.heard_all or not end.said_all or not other.open):
                if end.served and not self._come:  # as most are: nothing else is to be known of an end that goes on
                    self.active.pop(end, None)
                else:
                    self._settled(end)
                continue
            elif not other.served or end.crowded:
                return None
            else:
                descriptor = other.descriptor
            key = self._watched.get(descriptor)
            if key is not None and key.events & EVENT_READ:
                due[descriptor] = key
        return list(due.values())

    def _interest(self, descriptor: int) -> int:
        key = self._watched.get(descriptor)
        return 0 if key is None else key.events

    # what is owed

    def find_pending(self, final: bool) -> str | None:
        """Return the first debt found, in words, or None; what is found quiet is not looked at again."""
        for sock, address in self._dialling.items():
            if self.is_connect_pending(sock, address):
                return f"the answer to a connect to {tcp.shown(address)}"
        unaccepted: Counter[socket.socket] = Counter()
        for end in tuple(self.active):
            if end.listener is not None and end.other is None:
                debt = self._accept_owed(end, end.listener, unaccepted)
            else:
                debt = self._delivery_owed(end, end.other, final)
            if debt:
                return f"{debt} of {end}"
        return None

    def is_connect_pending(self, sock: socket.socket, address: tuple[str, int]) -> bool:
        """A loopback answers every SYN with SYN-ACK or RST, unless the listener's queue is full."""
        if sock.fileno() < 0 or tcp.info(sock).state != tcp.SYN_SENT or not _is_loopback(address):
            return False
        listener = self._listener_at(address)
        if listener is None:
            return True
        queue = tcp.info(listener)
        return queue.unacked <= queue.sacked

    def _accept_owed(self, end: Endpoint, listener: socket.socket, unaccepted: "Counter[socket.socket]") -> str | None:
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

    def _delivery_owed(self, end: Endpoint, other: Endpoint | None, final: bool) -> str | None:
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

    def _reset_owed(self, end: Endpoint, other: Endpoint) -> str | None:
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

    def _octets_owed(self, end: Endpoint, here: Info, other: Endpoint, there: Info, final: bool) -> str | None:
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

    def _settled(self, end: Endpoint) -> None:
        """Owe nothing for an end any more; what has come to its other one, and was not read, is still to be told there."""
        self.active.pop(end, None)
        self._come.pop(end, None)
        other = end.other
        if other is None:
            if not end.open:
                self._forget(end)
        elif other.awaits and other.open:
            self._come[end] = None
        elif not end.open and not other.open:
            self._forget(other)
            self._forget(end)

    def _forget(self, end: Endpoint) -> None:
        self.active.pop(end, None)
        self._come.pop(end, None)
        self._new.pop(end.sock, None)
        if end.name is not None and self._endpoints.get(end.name) is end:
            del self._endpoints[end.name]
        if end.other is not None:
            end.other.other = end.other = None

    def _listener_at(self, address: tuple[str, int]) -> socket.socket | None:
        for host in (address[0], "0.0.0.0", "::"):  # noqa: S104  # compared, not bound
            listener = self._listeners.get((host, address[1]))
            if listener is not None and listener.fileno() >= 0:
                return listener
        return None


def _is_loopback(address: tuple[str, int]) -> bool:
    return address[0].startswith("127.") or address[0] == "::1"
