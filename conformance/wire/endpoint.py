"""One end of a relay: a connection to the client or to the server, as an asyncio protocol."""

import asyncio
from typing import Literal, Protocol

from conformance.wire.sockets import close_with_rst


class Owner(Protocol):
    """Who is told what an end sees."""

    def made(self, end: "Endpoint") -> None:
        """The connection is there."""
        ...

    def arrived(self, end: "Endpoint", data: bytes) -> None:
        """Octets came."""
        ...

    def left(self, end: "Endpoint", how: Literal["fin", "reset"]) -> None:
        """The peer will send no more (FIN), or the connection broke (RST)."""
        ...

    def gone(self, end: "Endpoint") -> None:
        """The connection is closed on our side too."""
        ...

    def crowded(self, end: "Endpoint", *, full: bool) -> None:
        """The connection takes no more octets for now, or takes them again."""
        ...


_READ = 64 * 1024
"""Octets that are read at one time: small enough for memory that need not be fetched from the system each time."""

_BUFFER = memoryview(bytearray(_READ))
"""What every end reads into: it is copied before anything else is read, in the same turn of the loop."""


class Endpoint(asyncio.BufferedProtocol):
    """Reading can be held for several reasons at once; writing to a connection that is gone does nothing."""

    def __init__(self, owner: Owner, name: Literal["client", "server"]) -> None:
        self.name = name
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._reasons: set[str] = set()
        self._leaving = False
        self._said_all = False
        self._heard_all = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.BufferedProtocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._owner.made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol."""
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol. Whoever goes on after we have left learns of it by RST, as everywhere."""
        if self._leaving:
            self.close()
        else:
            self._owner.arrived(self, bytes(_BUFFER[:nbytes]))

    def eof_received(self) -> bool:
        """See asyncio.BufferedProtocol. The other direction may go on."""
        self._heard_all = True
        if self._leaving:
            self.close()
        else:
            self._owner.left(self, "fin")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BufferedProtocol."""
        self._transport = None
        if exc is not None and not self._leaving:
            self._owner.left(self, "reset")
        self._owner.gone(self)

    def part(self) -> None:
        """Know no owner any more, after the connection is closed."""
        del self._owner

    def pause_writing(self) -> None:
        """See asyncio.BufferedProtocol."""
        self._owner.crowded(self, full=True)

    def resume_writing(self) -> None:
        """See asyncio.BufferedProtocol."""
        self._owner.crowded(self, full=False)

    def address(self, which: Literal["sockname", "peername"]) -> object:
        """Return one of the connection's addresses, as asyncio gives it."""
        return self._transport.get_extra_info(which) if self._transport else None

    @property
    def closed(self) -> bool:
        """Whether there is no connection (yet, or any more)."""
        return self._transport is None

    @property
    def _open(self) -> asyncio.Transport | None:
        return None if self._transport is None or self._transport.is_closing() else self._transport

    def write(self, octets: bytes) -> None:
        """Send octets."""
        transport = self._transport
        if octets and not self._said_all and transport is not None and not transport.is_closing():
            transport.write(octets)

    def write_eof(self) -> None:
        """Send FIN behind everything written; reading goes on."""
        if (transport := self._open) is None:
            return
        self._said_all = True
        try:
            transport.write_eof()
        except OSError:  # the peer has reset the connection, and the loop has not told us yet
            transport.abort()
            if not self._leaving:
                self._owner.left(self, "reset")

    def leave(self) -> None:
        """Send FIN as close() does; what the peer sends from now on is not read by anybody."""
        self._leaving = True
        self.write_eof()
        if self._heard_all:
            self.close()
        elif self._reasons and (transport := self._open):
            transport.resume_reading()

    def close(self) -> None:
        """Close, after what was written is sent."""
        self._leaving = True
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """Close with RST, at once."""
        self._leaving = True
        if self._transport is not None:
            close_with_rst(self._transport)

    def hold_reading(self, reason: str) -> None:
        """Read nothing until each reason was released."""
        self._reasons.add(reason)
        if not self._heard_all and (transport := self._open):
            transport.pause_reading()

    def release_reading(self, reason: str) -> None:
        """Take a reason not to read away."""
        if reason not in self._reasons:
            return
        self._reasons.discard(reason)
        if not self._reasons and not self._heard_all and (transport := self._open):
            transport.resume_reading()
