"""Finds what is in flight on the loopback: octets, a FIN or RST, the answer to a connect, a connection to accept.

Theory of operation. Virtual time may jump only when nothing is in flight. A poll with timeout 0 that reports nothing does
not prove that, since a kernel may deliver a loopback packet later, on another core. Both ends of most connections belong
to this loop, however. So the tracker has an `Endpoint` for each end, where the transport counts what it sent and read,
and answers two questions:

- `predict_readable`: which sockets are about to become readable? The counters of both ends answer that without a system
  call. They cannot when a peer belongs to another process, when a socket has refused octets, or when a connect has no
  answer yet: then the result is None, and the kernel has to be asked.
- `find_pending`: what is still in flight? TCP_INFO of both ends answers that. It is asked when there was no prediction,
  when a poll contradicted the prediction, when a read or accept waits for what was predicted, and before each jump.

Only connections with news are looked at. An endpoint becomes *active* when its connection is established and when it
sends, shuts down or closes. It stays active until nothing that it sent is in flight (`_deactivate`). When the peer has not read
all of it by then, the endpoint is kept as *unread* for `predict_readable`, but no longer delays a jump: a receiver may leave
octets unread for hours. An *accept* is in flight while a connection has not yet come to the queue of its listener. An endpoint
whose transport is still to be made is kept in `_without_transport`. `_watched` has the selector's keys by descriptor: what the
loop waits for now.
"""

import contextlib
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from selectors import EVENT_READ, EVENT_WRITE, SelectorKey
from typing import Any

from conformance.run.virtual import tcp
from conformance.run.virtual.tcp import TcpInfo

Flow = tuple[tuple[str, int], tuple[str, int]]
"""One direction of a connection: the (host, port) that sends, then the one that receives."""


class Endpoint:
    """One end of a connection, with the counters that its transport keeps.

    `flow` is None unless it is an Internet socket. `peer` is the other end, once both are known to belong to this loop;
    `listener` is the listening socket of this loop that was connected to, if there is one. `sent` and `read` count octets.
    `eof_sent` and `eof_read` say whether a FIN or RST was sent or read here. `has_transport` says whether a transport
    reads from the socket, `send_blocked` whether the kernel has refused octets and not taken them since.
    """

    __slots__ = (
        "descriptor", "eof_read", "eof_sent", "flow", "has_transport", "listener", "local", "peer", "read", "remote",
        "send_blocked", "sent", "sock",
    )  # fmt: skip

    def __init__(self, sock: socket.socket, local: Any, remote: Any) -> None:
        """`local` and `remote` are addresses as the socket module has them; `remote` is None when it is not known."""
        self.sock = sock
        self.descriptor = sock.fileno()
        self.local = local
        self.remote = remote
        self.flow: Flow | None = (local[:2], remote[:2]) if isinstance(local, tuple) and remote is not None else None
        self.listener: socket.socket | None = None
        self.peer: Endpoint | None = None
        self.sent = self.read = 0
        self.eof_sent = self.eof_read = self.has_transport = self.send_blocked = False

    @property
    def is_open(self) -> bool:
        """Whether the socket has not been closed here."""
        return self.sock.fileno() >= 0

    @property
    def has_unread(self) -> bool:
        """Whether the peer has sent octets, a FIN or a RST that were not read here; False without a known peer."""
        peer = self.peer
        return peer is not None and (peer.sent > self.read or (peer.eof_sent and not self.eof_read))

    def __str__(self) -> str:
        return f"{tcp.format_address(self.local)} -> {tcp.format_address(self.remote)}"


class InFlightTracker:
    """Knows every TCP socket of one loop. `watched` has the loop's selector keys by descriptor.

    `_endpoints` has the ends of connections by their flow, `_listeners` the listening sockets by address. `_unread` are
    endpoints whose peer has not read all that came to it. `_without_transport` are those whose transport is still to be made,
    by socket; `_connecting` the sockets whose connect has no answer yet, with the address.
    """

    def __init__(self, watched: Mapping[int, SelectorKey]) -> None:
        self._watched = watched
        self._endpoints: dict[Flow, Endpoint] = {}
        self.active: dict[Endpoint, None] = {}
        """Endpoints that may have something in flight; a dict, since a set has no order."""
        self._unread: dict[Endpoint, None] = {}
        self._without_transport: dict[socket.socket, Endpoint] = {}
        self._connecting: dict[socket.socket, tuple[str, int]] = {}
        self._listeners: dict[tuple[str, int], socket.socket] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing can be in flight: no endpoint is active, and no connect waits for its answer."""
        return not self.active and not self._connecting

    # events of sockets

    def note_listening(self, sock: socket.socket) -> None:
        """Note a listening socket of this loop by its address, so that connects to it are known to be answered."""
        host, port = sock.getsockname()[:2]
        self._listeners[host, port] = sock

    @contextlib.contextmanager
    def connecting(self, sock: socket.socket, address: tuple[str, int]) -> Iterator[None]:
        """Take the answer to the connect of a socket for something that may be in flight, while the context lasts.

        `address` is the one that the socket connects to.
        """
        self._connecting[sock] = address
        try:
            yield
        finally:
            del self._connecting[sock]

    def note_connected(self, sock: socket.socket) -> bool:
        """Add the endpoint of a socket that has connected, and return True; False when it is not connected.

        That is while the kernel has not established the connection, and when it was refused or reset already.
        """
        try:
            remote = sock.getpeername()
        except OSError:  # refused, not answered yet, or reset already: nothing can be in flight then
            return False
        endpoint = self._without_transport[sock] = self._add(Endpoint(sock, sock.getsockname(), remote))
        endpoint.listener = self._find_listener(endpoint.flow[1]) if endpoint.flow else None
        return True

    def note_accepted(self, sock: socket.socket, remote: Any) -> None:
        """Add the endpoint of a connection from `remote` that was just accepted."""
        self._without_transport[sock] = self._add(Endpoint(sock, sock.getsockname(), remote))

    def take_endpoint(self, sock: socket.socket) -> Endpoint:
        """Return the endpoint of a socket whose transport is being made, and take it out of those without a transport.

        Add an endpoint when the socket has none. For a socket that is not connected return one that is not tracked.
        """
        if (endpoint := self._without_transport.pop(sock, None)) is not None:
            return endpoint
        try:
            return self._add(Endpoint(sock, sock.getsockname(), sock.getpeername()))
        except OSError:
            return Endpoint(sock, None, None)

    def _add(self, endpoint: Endpoint) -> Endpoint:
        """Add an endpoint as active, connect it with its peer if that is known, and return it; a Unix socket is not added.

        The peer becomes active too.
        """
        if endpoint.flow is None:  # Unix sockets deliver before send() returns
            return endpoint
        self._endpoints[endpoint.flow] = endpoint
        self.active[endpoint] = None
        if peer := self._endpoints.get(endpoint.flow[::-1]):  # the other end sends in the other direction
            self.active[peer] = None  # what it sent before could not be counted against this endpoint
            endpoint.peer, peer.peer = peer, endpoint
        return endpoint

    def clear(self) -> None:
        """Treat every endpoint as having nothing in flight, after the loop has reported what never came (Stall)."""
        self.active.clear()

    # what will be readable, by the counters

    def predict_readable(self) -> list[SelectorKey] | None:
        """Return the keys of the sockets that are about to become readable; None when the counters cannot say which.

        Sockets that the loop does not watch for reading now are left out; listeners with a connection to accept are among the
        others. The kernel is not asked. Endpoints of which all octets and the FIN were read are deactivated.
        """
        if self._connecting:
            return None
        if len(self.active) == 1 and not self._unread:
            # The most frequent case, for speed: one endpoint has sent octets.
            (endpoint,) = self.active
            peer = endpoint.peer
            if peer is not None and peer.has_transport and not endpoint.send_blocked and endpoint.sent > peer.read:
                key = self._watched.get(peer.descriptor)
                return [] if key is None or not key.events & EVENT_READ else [key]
        readable: dict[int, SelectorKey] = {}
        for endpoint in (*self._unread, *self.active):
            peer = endpoint.peer
            if peer is None:
                if endpoint not in self.active:  # removed, with its peer, earlier in this loop
                    continue
                if endpoint.listener is None or (descriptor := endpoint.listener.fileno()) < 0:
                    return None
            elif endpoint.sent == peer.read and (peer.eof_read or not endpoint.eof_sent or not peer.is_open):
                # all that it sent has been read, or will never be
                if endpoint.has_transport and not self._unread:
                    self.active.pop(endpoint, None)  # what _deactivate does for an open endpoint, at less cost
                else:
                    self._deactivate(endpoint)
                continue
            elif not peer.has_transport or endpoint.send_blocked:
                return None
            else:
                descriptor = peer.descriptor
            key = self._watched.get(descriptor)
            if key is not None and key.events & EVENT_READ:
                readable[descriptor] = key
        return list(readable.values())

    # what is in flight, by TCP_INFO

    def find_pending(self, nothing_readable: bool) -> str | None:
        """Return a description of the first thing found in flight, such as `a FIN of 127.0.0.1:5 -> 127.0.0.1:6`; None for nothing.

        Deactivates endpoints with nothing in flight. `nothing_readable`: a poll has just shown that no socket is readable, so
        what was sent and not read has not come. Otherwise octets that wait in a receive queue are not in flight: they have come.
        """
        for sock, address in self._connecting.items():
            if self.is_connect_pending(sock, address):
                return f"the answer to a connect to {tcp.format_address(address)}"
        unaccepted: Counter[socket.socket] = Counter()
        for endpoint in tuple(self.active):
            if endpoint.listener is not None and endpoint.peer is None:
                pending = self._pending_accept(endpoint, endpoint.listener, unaccepted)
            else:
                pending = self._pending_delivery(endpoint, endpoint.peer, nothing_readable)
            if pending:
                return f"{pending} of {endpoint}"
        return None

    def is_connect_pending(self, sock: socket.socket, address: tuple[str, int]) -> bool:
        """Whether the answer to a connect is in flight; False for a closed socket, and for an address that is not of the loopback.

        A loopback answers every SYN with SYN-ACK or RST, unless the queue of the listener is full: then the SYN is dropped, and no
        answer is in flight.
        """
        if sock.fileno() < 0 or tcp.info(sock).state != tcp.SYN_SENT or not _is_loopback(address):
            return False
        listener = self._find_listener(address)
        if listener is None:
            return True
        queue = tcp.info(listener)
        return queue.unacked <= queue.sacked  # of a listener: the connections in its queue, and its limit

    def _pending_accept(
        self, endpoint: Endpoint, listener: socket.socket, unaccepted: "Counter[socket.socket]"
    ) -> str | None:
        """Return what is in flight of a connection that the connecting side has established and no one has accepted, or None.

        The connection comes to the listener's queue, or is reset when the listener was closed; after the reset the endpoint is
        removed. `unaccepted` counts, over one call of `find_pending`, the connections of each listener, which its queue must
        hold; this one is added.
        """
        if listener.fileno() < 0:
            if endpoint.is_open and tcp.info(endpoint.sock).state in tcp.NO_FIN_SEEN:
                return "a RST for a listener that was closed"
            self._remove(endpoint)
            return None
        if not self._watched_events(listener.fileno()) & EVENT_READ:
            return None  # the loop does not accept now: the connection may wait in the queue
        unaccepted[listener] += 1
        return "an accept" if tcp.info(listener).unacked < unaccepted[listener] else None

    def _pending_delivery(self, endpoint: Endpoint, peer: Endpoint | None, nothing_readable: bool) -> str | None:
        """Return what an endpoint has sent that has not come to its peer, or None; deactivate the endpoint when all has come.

        None too while the peer does not read: then the endpoint stays active. What goes to another process (`peer` None) cannot be
        seen and counts as arrived.
        """
        if peer is None:  # of another process, or of a connection that will not be accepted
            self._deactivate(endpoint)
            return None
        if not peer.is_open:
            return self._pending_reset(endpoint, peer)
        if not self._watched_events(peer.sock.fileno()) & EVENT_READ:
            return None  # the peer does not read now: what is in flight may stay so
        peer_info = tcp.info(peer.sock)
        if not endpoint.is_open:
            if peer_info.state in tcp.NO_FIN_SEEN:
                return "a FIN or RST" if nothing_readable or not tcp.readable_octets(peer.sock) else None
            self._deactivate(endpoint)
            return None
        return self._pending_octets(endpoint, tcp.info(endpoint.sock), peer, peer_info, nothing_readable)

    def _pending_reset(self, endpoint: Endpoint, peer: Endpoint) -> str | None:
        """Return what is in flight to an endpoint whose peer was closed, or None: octets sent to the peer are answered with RST.

        With nothing in flight deactivate the endpoint, or remove both ends when it is closed too.
        """
        if endpoint.is_open:
            info = tcp.info(endpoint.sock)
            if (info.unacked or info.unsent) and info.state != tcp.CLOSED:
                return "a RST or acknowledgement"
            self._deactivate(endpoint)
        else:
            self._remove(endpoint)
            self._remove(peer)
        return None

    def _pending_octets(
        self, endpoint: Endpoint, info: TcpInfo, peer: Endpoint, peer_info: TcpInfo, nothing_readable: bool
    ) -> str | None:
        """Return what is in flight from an endpoint to its peer, from the kernel's figures for both open sockets, or None.

        With nothing in flight deactivate the endpoint, unless it waits for room in the peer's receive queue.
        """
        if info.sent - info.retransmitted > peer_info.received:
            return f"{info.sent - info.retransmitted - peer_info.received} octets"
        wants_to_write = bool(self._watched_events(endpoint.sock.fileno()) & EVENT_WRITE)
        if wants_to_write or info.unsent:  # the peer's receive queue was full: when it is read, room is announced
            stuck = not tcp.readable_octets(peer.sock) and not (wants_to_write and tcp.is_writable(endpoint.sock))
            return "room to send" if nothing_readable or stuck else None
        if info.state in tcp.FIN_SENT and peer_info.state in tcp.NO_FIN_SEEN:
            return "a FIN"
        self._deactivate(endpoint)
        return None

    def _watched_events(self, descriptor: int) -> int:
        """Return the events (EVENT_READ | EVENT_WRITE) that the loop waits for on a descriptor; 0 for none."""
        key = self._watched.get(descriptor)
        return 0 if key is None else key.events

    def _deactivate(self, endpoint: Endpoint) -> None:
        """Take an endpoint out of the active ones, since nothing that it sent is in flight.

        Keep it as unread while its open peer has not read all. Remove it when it is closed and its peer is not known, and remove
        both when both are closed.
        """
        self.active.pop(endpoint, None)
        self._unread.pop(endpoint, None)
        peer = endpoint.peer
        if peer is None:
            if not endpoint.is_open:
                self._remove(endpoint)
        elif peer.has_unread and peer.is_open:
            self._unread[endpoint] = None
        elif not endpoint.is_open and not peer.is_open:
            self._remove(peer)
            self._remove(endpoint)

    def _remove(self, endpoint: Endpoint) -> None:
        """Forget an endpoint; its peer, if any, stays and has no peer from now on."""
        self.active.pop(endpoint, None)
        self._unread.pop(endpoint, None)
        self._without_transport.pop(endpoint.sock, None)
        if endpoint.flow is not None and self._endpoints.get(endpoint.flow) is endpoint:
            del self._endpoints[endpoint.flow]
        if endpoint.peer is not None:
            endpoint.peer.peer = endpoint.peer = None

    def _find_listener(self, address: tuple[str, int]) -> socket.socket | None:
        """Return the open listener of this loop that a connect to an address reaches, or None."""
        for host in (address[0], "0.0.0.0", "::"):  # noqa: S104  # compared, not bound
            listener = self._listeners.get((host, address[1]))
            if listener is not None and listener.fileno() >= 0:
                return listener
        return None


def _is_loopback(address: tuple[str, int]) -> bool:
    """Whether a (host, port) is on this machine's loopback; the host must be a numeric address."""
    return address[0].startswith("127.") or address[0] == "::1"
