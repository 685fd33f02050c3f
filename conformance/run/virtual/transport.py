"""A stream transport on a connected socket that keeps account, for the ledger, of what it has sent and what it has read.

It does what asyncio's own does, in fewer turns of the loop: a protocol is told of its connection, and read for, as soon as
there is one.
"""

import asyncio
import socket
import warnings
from asyncio.trsock import TransportSocket
from typing import TYPE_CHECKING, Any

from conformance.run.virtual.in_flight import Endpoint
from conformance.run.virtual.tcp import readable_octets

if TYPE_CHECKING:
    from conformance.run.virtual.asyncio_compat import TrackingEventLoop

_READ = 65536
"""Octets of a recv(): asyncio's 256 KiB make malloc give back and regrow the heap, up to +40 % time."""

_BUFFER = memoryview(bytearray(_READ))
"""Where octets are read to whose protocol has no buffer of its own: they are copied before anything else is read."""

_HIGH, _LOW = 64 * 1024, 16 * 1024
"""Octets that wait to be sent at which a protocol is told to pause, and to go on."""


_NOBODY = asyncio.BaseProtocol()
"""Whom a transport tells nothing, when all is over."""


class TrackedTransport(asyncio.Transport):
    """See asyncio.Transport. `end` is what the ledger knows of the socket."""

    _start_tls_compatible = True  # what asyncio's start_tls() asks for

    def __init__(
        self,
        loop: "TrackingEventLoop",
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        end: Endpoint,
        server: Any = None,
    ) -> None:
        self._sock: socket.socket | None = sock
        super().__init__()
        self._loop = loop
        self._descriptor = sock.fileno()
        self._protocol = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)
        self._end = end
        self._moved = loop.tracker.active
        end.served = True
        self._unsent = bytearray()
        self._high, self._low = _HIGH, _LOW
        self._crowded = False
        self._paused = False
        self._said_all = False
        self._closing = False
        self._lost = False
        self._server = server
        if server is not None:
            loop.attach(server, self)

    def __repr__(self) -> str:
        state = "closed" if self._sock is None else "closing" if self._closing else "open"
        return f"<{type(self).__name__} fd={self._descriptor} {state} {self._end} unsent={len(self._unsent)}>"

    def __del__(self, warn: Any = warnings.warn) -> None:
        if self._sock is not None:
            warn(f"unclosed transport {self!r}", ResourceWarning, source=self)
            self._sock.close()

    def begin(self) -> None:
        """Tell the protocol of the connection, and read what comes."""
        self._protocol.connection_made(self)
        if self.is_reading():
            if self._unsent:  # the protocol has written more than the kernel took
                self._loop.watch_reading(self._descriptor, self._readable)
            else:
                self._loop.read_from(self._descriptor, self._readable)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See asyncio.BaseTransport."""
        match name:
            case "sockname":
                return self._end.here
            case "peername":
                return self._end.there
            case "socket" if self._sock is not None:
                return TransportSocket(self._sock)
            case _:
                return default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """See asyncio.BaseTransport."""
        self._protocol = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """See asyncio.BaseTransport."""
        return self._protocol

    # reading

    def is_reading(self) -> bool:
        """See asyncio.ReadTransport."""
        return not self._closing and not self._paused

    def pause_reading(self) -> None:
        """See asyncio.ReadTransport."""
        if self.is_reading():
            self._paused = True
            self._loop.unwatch_reading(self._descriptor)

    def resume_reading(self) -> None:
        """See asyncio.ReadTransport."""
        if self._paused and not self._closing:
            self._paused = False
            self._loop.watch_reading(self._descriptor, self._readable)

    def _readable(self) -> None:
        if self._lost:
            return
        protocol: Any = self._protocol
        buffer = protocol.get_buffer(-1) if self._buffered else _BUFFER
        try:
            octets = self._receive(buffer)
        except (BlockingIOError, InterruptedError):
            self._loop.note_spurious_wakeup()
            return
        except OSError as error:
            self._end.heard_all = True
            self._fail(error)
            return
        try:
            if not octets:
                self._heard_all()
            elif self._buffered:
                protocol.buffer_updated(octets)
            else:
                protocol.data_received(bytes(buffer[:octets]))
        except Exception as error:  # noqa: BLE001  # what a protocol does not catch ends its connection, and is told
            self._fail(error)

    def _receive(self, buffer: memoryview) -> int:
        """Read, and keep account; return how many octets were read."""
        sock, end = self._sock, self._end
        assert sock is not None
        try:
            octets = sock.recv_into(buffer)
        except BlockingIOError:
            octets = self._come().recv_into(buffer)
        end.read += octets
        other = end.other
        if other is None:
            self._acknowledge()
        elif other.sent > end.read:
            if 0 < octets < len(buffer) and self._more_came():
                octets += self._receive(memoryview(buffer)[octets:])
        elif other.sent == end.read and other.served and not (other.said_all or other.crowded):
            self._moved.pop(other, None)  # nothing is owed for it, as the ledger would find at its next look
        return octets

    def _acknowledge(self) -> None:
        """Acknowledge at once what a program sent whose end we do not know: a kernel delays it (RFC 1122 4.2.3.2), and
        the program's holds a small segment back until then (RFC 896), so that all would be asleep and something under way.
        """
        assert self._sock is not None
        if self._end.name is not None:
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def _come(self) -> socket.socket:
        """Wait for what the other end has sent, or return at once when it has sent nothing."""
        assert self._sock is not None
        if self._end.awaits:
            self._loop.wait_for_delivery()
        return self._sock

    def _more_came(self) -> bool:
        """Wait for what the other end has sent meanwhile: how much is read at once shall not depend on the kernel."""
        assert self._sock is not None
        self._loop.wait_for_delivery()
        return readable_octets(self._sock) > 0

    def _heard_all(self) -> None:
        self._end.heard_all = True
        if self._protocol.eof_received():
            self._loop.unwatch_reading(self._descriptor)
        else:
            self.close()

    # writing

    def write(self, data: Any) -> None:
        """See asyncio.WriteTransport."""
        if self._said_all:
            raise RuntimeError("write() after write_eof()")
        if not data or self._lost:
            return
        if not self._unsent:
            try:
                sent = self._send(data)
            except OSError as error:
                self._fail(error)
                return
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
            self._end.crowded = True
            self._loop.watch_writing(self._descriptor, self._writable)
        self._unsent += data
        if not self._crowded and len(self._unsent) > self._high:
            self._crowded = True
            self._protocol.pause_writing()

    def write_eof(self) -> None:
        """See asyncio.WriteTransport. Raises OSError when the connection is gone already."""
        if not self._closing and not self._said_all:
            self._said_all = True
            if not self._unsent:
                self._shut_down()

    def can_write_eof(self) -> bool:
        """See asyncio.WriteTransport."""
        return True

    def get_write_buffer_size(self) -> int:
        """See asyncio.WriteTransport."""
        return len(self._unsent)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """See asyncio.WriteTransport."""
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See asyncio.WriteTransport."""
        self._high = high if high is not None else _HIGH if low is None else 4 * low
        self._low = low if low is not None else self._high // 4
        if not self._high >= self._low >= 0:
            raise ValueError(f"high ({self._high}) must be >= low ({self._low}) must be >= 0")

    def _send(self, data: Any) -> int:
        assert self._sock is not None
        self._moved[self._end] = None
        try:
            sent = self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        self._end.sent += sent
        return sent

    def _writable(self) -> None:
        if self._lost:
            return
        try:
            del self._unsent[: self._send(self._unsent)]
        except OSError as error:
            self._fail(error)
            return
        if self._crowded and len(self._unsent) <= self._low:
            self._crowded = False
            self._protocol.resume_writing()  # it may write more
        if not self._unsent:
            self._loop.unwatch_writing(self._descriptor)
            self._end.crowded = False
            if self._closing:
                self._lose(None)
            elif self._said_all:
                self._shut_down()

    def _shut_down(self) -> None:
        assert self._sock is not None
        self._end.said_all = True
        self._moved[self._end] = None
        self._sock.shutdown(socket.SHUT_WR)

    # the end

    def is_closing(self) -> bool:
        """See asyncio.BaseTransport."""
        return self._closing

    def close(self) -> None:
        """See asyncio.BaseTransport."""
        if not self._closing:
            self._closing = True
            self._loop.unwatch_reading(self._descriptor)
            if not self._unsent:
                self._lose(None)

    def abort(self) -> None:
        """See asyncio.WriteTransport."""
        self._force_close(None)

    def _force_close(self, error: BaseException | None) -> None:  # asyncio's TLS calls it so
        if self._lost:
            return
        if self._unsent:
            self._unsent.clear()
            self._end.crowded = False
            self._loop.unwatch_writing(self._descriptor)
        if not self._closing:
            self._closing = True
            self._loop.unwatch_reading(self._descriptor)
        self._lose(error)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, OSError):
            told = {"message": f"{error!r} of a connection's protocol", "exception": error}
            self._loop.call_exception_handler({**told, "transport": self, "protocol": self._protocol})
        self._force_close(error)

    def _lose(self, error: BaseException | None) -> None:
        self._lost = True
        self._loop.call_soon(self._close, error)

    def _close(self, error: BaseException | None) -> None:
        try:
            self._protocol.connection_lost(error)  # type: ignore[arg-type]  # TLS has timeouts of its own kind
        finally:
            assert self._sock is not None
            self._end.said_all, self._end.served = True, False
            self._moved[self._end] = None
            self._loop.forget(self._descriptor)
            self._sock.close()
            self._sock = None
            self._protocol = _NOBODY  # which knows us: only the garbage collector would find the two
            if self._server is not None:
                self._loop.detach(self._server, self)
                self._server = None
