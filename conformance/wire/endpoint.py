"""One endpoint of a relay: its connection to the client or to the server, as an asyncio protocol.

A relay, one session over a link of the harness, has two of them, and passes octets from one to the other. asyncio calls the
methods of the protocol, and the relay and its lanes call the others, all in the event loop. The *owner* is the relay; the
*peer* is the client or server at the other end of the connection. Once the relay itself has closed the connection (`leave`,
`close`, `close_with_rst`: then `_leaving` is set), the owner is not notified any more of octets, FIN or RST of the peer.
"""

import asyncio
import socket
from typing import Literal, Protocol

from conformance.shortage import SHORTAGES
from conformance.wire.sockets import ReadBuffer, close_with_rst


class EndpointOwner(Protocol):
    """Notified of what happens on an endpoint's connection (implemented by `Relay`)."""

    def connection_made(self, endpoint: "Endpoint") -> None:
        """Handle that the connection is established."""
        ...

    def data_received(self, endpoint: "Endpoint", data: bytes) -> None:
        """Handle octets that the peer has sent."""
        ...

    def peer_ended(self, endpoint: "Endpoint", how: Literal["fin", "reset"]) -> None:
        """Handle that the peer sends no more (FIN), or that the connection is broken (RST)."""
        ...

    def connection_closed(self, endpoint: "Endpoint") -> None:
        """Handle that the connection is closed on this side too."""
        ...

    def write_buffer_changed(self, endpoint: "Endpoint", *, full: bool) -> None:
        """Handle that the connection takes no more octets for now (`full`), or takes them again."""
        ...


_TCP_CLOSE = 7
"""The state of a connection in TCP_INFO after RST."""

_BUFFER = ReadBuffer()


class Endpoint(asyncio.BufferedProtocol):
    """A connection of a relay; writing to one that is closed does nothing.

    `_leaving` is set once the relay has ended the connection: the owner then hears no more of octets, FIN or RST of
    the peer. `_read_holds` are the reasons for which reading is paused.
    """

    def __init__(self, owner: EndpointOwner, name: Literal["client", "server"]) -> None:
        self.name = name
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._read_holds: set[str] = set()
        self._leaving = False
        self._fin_sent = False
        self._fin_received = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, and notify the owner."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._owner.connection_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer that the endpoints of this thread share."""
        return _BUFFER.octets

    def buffer_updated(self, nbytes: int) -> None:
        """Hand received octets to the owner; after `leave` close instead, so that the peer gets RST."""
        if self._leaving:
            self.close()
        else:
            self._owner.data_received(self, bytes(_BUFFER.octets[:nbytes]))

    def eof_received(self) -> bool:
        """Notify the owner of the peer's FIN; after `leave` close instead. Return True: the other direction stays open."""
        self._fin_received = True
        if self._leaving:
            self.close()
        else:
            self._owner.peer_ended(self, "fin")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the owner that the connection is closed, and before that of a reset that the relay did not cause.

        asyncio also closes a connection when handling its octets here has raised an error, such as that of a full disk
        (`SHORTAGES`). The peer has not ended the connection then, so the owner is not notified of a reset.
        """
        self._transport = None
        if exc is not None and not self._leaving and not (isinstance(exc, OSError) and exc.errno in SHORTAGES):
            self._owner.peer_ended(self, "reset")
        self._owner.connection_closed(self)

    def pause_writing(self) -> None:
        """Notify the owner that the write buffer is full: the peer takes octets more slowly than they come."""
        self._owner.write_buffer_changed(self, full=True)

    def resume_writing(self) -> None:
        """Notify the owner that the write buffer has room again."""
        self._owner.write_buffer_changed(self, full=False)

    def detach(self) -> None:
        """Drop the reference to the owner, so that the session is freed at once; call after the connection is closed."""
        del self._owner

    def address(self, which: Literal["sockname", "peername"]) -> object:
        """Return the connection's own or the peer's address as asyncio gives it, None if there is no connection."""
        return self._transport.get_extra_info(which) if self._transport else None

    @property
    def closed(self) -> bool:
        """Whether there is no connection (not yet, or not any more)."""
        return self._transport is None

    @property
    def is_reset(self) -> bool:
        """Whether the peer has sent RST after its FIN, which asyncio does not notice; False without a connection. Needs Linux."""
        sock = self._transport.get_extra_info("socket") if self._transport else None
        return sock is not None and bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _TCP_CLOSE)

    @property
    def _open_transport(self) -> asyncio.Transport | None:
        """The transport, None if there is no connection or it is being closed."""
        return None if self._transport is None or self._transport.is_closing() else self._transport

    def write(self, octets: bytes) -> None:
        """Send octets, unless FIN was sent or the connection is closed."""
        transport = self._transport
        if octets and not self._fin_sent and transport is not None and not transport.is_closing():
            transport.write(octets)

    def write_eof(self) -> None:
        """Send FIN after everything written; reading goes on. Do nothing if the connection is closed or closing.

        If the peer has reset the connection, close it, and notify the owner of the reset unless `leave` or a close came before.
        """
        if (transport := self._open_transport) is None:
            return
        self._fin_sent = True
        try:
            transport.write_eof()
        except OSError:  # the peer has reset the connection, and the loop has not yet called connection_lost()
            transport.abort()
            if not self._leaving:  # connection_lost() will get no exception to tell the owner of
                self._owner.peer_ended(self, "reset")

    def leave(self) -> None:
        """Send FIN as close() does, and close the connection when the peer's FIN comes; if octets come instead, it gets RST.

        Returns at once; the owner is not notified any more of what the peer sends.
        """
        self._leaving = True
        self.write_eof()
        if self._fin_received:
            self.close()
        elif self._read_holds and (transport := self._open_transport):
            transport.resume_reading()  # else the peer's FIN would not be seen

    def close(self) -> None:
        """Close the connection after what was written is sent; does not wait for that."""
        self._leaving = True
        if self._transport is not None:
            self._transport.close()

    def close_with_rst(self) -> None:
        """Close the connection with RST, at once; what was written and not sent is lost."""
        self._leaving = True
        if self._transport is not None:
            close_with_rst(self._transport)

    def hold_reading(self, reason: str) -> None:
        """Stop reading until this reason, and every other one, was released."""
        self._read_holds.add(reason)
        if not self._fin_received and (transport := self._open_transport):
            transport.pause_reading()

    def release_reading(self, reason: str) -> None:
        """Remove a reason not to read, and read again if it was the last; ignore a reason that is not in force."""
        if reason not in self._read_holds:
            return
        self._read_holds.discard(reason)
        if not self._read_holds and not self._fin_received and (transport := self._open_transport):
            transport.resume_reading()
