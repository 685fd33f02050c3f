"""A stream transport that counts, for the in-flight tracker, the octets that it sends and reads.

It does what asyncio's own transport does, in fewer turns of the loop: `connection_made` is called as soon as the transport
exists, and octets go to the protocol in the turn in which they are read.

How much a single read returns must not depend on when the kernel delivers. So where a peer of the same loop has sent more than
was read, the transport waits until all of it has been delivered, and reads it together, as far as the buffer has room.

`tracking_loop` makes a transport for each connected socket. An *endpoint* is the tracker's record of one end of a
connection, with its counters. Octets are *unsent* while the kernel has not taken them. `_active` are the tracker's endpoints
that may have something in flight: what sends adds its own. The loop calls `_on_readable` and `_on_writable` while the socket
is watched. A transport closes in two steps: from `_schedule_close` on the socket is ignored (`_connection_lost`), and in the
next turn of the loop `_close` closes it.
"""

import asyncio
import socket
import warnings
from asyncio.trsock import TransportSocket
from typing import TYPE_CHECKING, Any

from conformance.run.virtual.asyncio_compat import attach_to_server, detach_from_server
from conformance.run.virtual.in_flight import Endpoint
from conformance.run.virtual.tcp import readable_octets
from conformance.wire.sockets import ReadBuffer

if TYPE_CHECKING:
    from conformance.run.virtual.tracking_loop import TrackingEventLoop

_BUFFER = ReadBuffer()
"""Read buffer of all protocols without one of their own."""

_HIGH_WATER, _LOW_WATER = 64 * 1024, 16 * 1024
"""Default limits of unsent octets: above the first a protocol's pause_writing is called, at the second resume_writing."""

_NO_PROTOCOL = asyncio.BaseProtocol()
"""The protocol of a closed transport: without a reference to the real one, both are freed without the cycle collector."""


class TrackedTransport(asyncio.Transport):
    """A transport of a connected socket; public methods behave as those of asyncio.Transport.

    `_endpoint` is the tracker's record of this end of the connection: octets sent and read, FIN sent and read, and the
    same of its `peer`, None for another process. `_active` are the tracker's endpoints that may have something in
    flight: an endpoint that sends adds itself. `_buffered`: the protocol has a buffer of its own. `_unsent` is what the kernel
    did not take; above `_high` octets of it the protocol's writing is paused, at `_low` resumed. `_eof_requested`: a FIN is to
    follow it. `_connection_lost`: the socket is ignored, and closed in the next turn. `_sock` is None once it is closed.
    """

    _start_tls_compatible = True  # required by asyncio's start_tls()

    def __init__(
        self,
        loop: "TrackingEventLoop",
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        endpoint: Endpoint,
        server: Any = None,
    ) -> None:
        """Take over a connected socket; `start` calls connection_made.

        `endpoint` is that of `sock` in the tracker, `server` the asyncio.Server that accepted it, if one has; it counts the connection.
        """
        self._sock: socket.socket | None = sock
        super().__init__()
        self._loop = loop
        self._descriptor = sock.fileno()
        self._protocol = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)
        self._endpoint = endpoint
        self._active = loop.tracker.active
        endpoint.has_transport = True
        self._unsent = bytearray()
        self._high, self._low = _HIGH_WATER, _LOW_WATER
        self._writing_paused = False
        self._reading_paused = False
        self._eof_requested = False
        self._closing = False
        self._connection_lost = False
        self._server = server
        if server is not None:
            attach_to_server(server, self)

    def __repr__(self) -> str:
        state = "closed" if self._sock is None else "closing" if self._closing else "open"
        return f"<{type(self).__name__} fd={self._descriptor} {state} {self._endpoint} unsent={len(self._unsent)}>"

    def __del__(self, warn: Any = warnings.warn) -> None:
        """Warn (ResourceWarning) and close the socket if the transport was never closed; `warn` outlives the module."""
        if self._sock is not None:
            warn(f"unclosed transport {self!r}", ResourceWarning, source=self)
            self._sock.close()

    def start(self) -> None:
        """Call the protocol's connection_made, and begin to read unless the protocol has paused reading or closed there."""
        self._protocol.connection_made(self)
        if self.is_reading():
            if self._unsent:  # more was written than the kernel took: the socket is watched for writing already
                self._loop.watch_readable(self._descriptor, self._on_readable)
            else:
                self._loop.start_reading(self._descriptor, self._on_readable)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return `sockname`, `peername` or `socket`; `default` for any other name, and for `socket` once that is closed."""
        match name:
            case "sockname":
                return self._endpoint.local
            case "peername":
                return self._endpoint.remote
            case "socket" if self._sock is not None:
                return TransportSocket(self._sock)
            case _:
                return default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Pass what arrives from now on to another protocol, as STARTTLS needs; its connection_made is not called."""
        self._protocol = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    # reading

    def is_reading(self) -> bool:
        """Whether octets that arrive are read: neither closing nor paused."""
        return not self._closing and not self._reading_paused

    def pause_reading(self) -> None:
        """Stop reading, so that what arrives stays in the kernel; do nothing when paused or closing."""
        if self.is_reading():
            self._reading_paused = True
            self._loop.unwatch_readable(self._descriptor)

    def resume_reading(self) -> None:
        """Read again after pause_reading; do nothing when not paused, or closing."""
        if self._reading_paused and not self._closing:
            self._reading_paused = False
            self._loop.watch_readable(self._descriptor, self._on_readable)

    def _on_readable(self) -> None:
        """Read from the socket and pass the octets, the end of the stream or an error on to the protocol.

        The loop calls it when the socket is readable, or when the counters of the peer say so. If there is nothing to read, note
        that in the loop and return: the loop calls this again. Any exception of the protocol closes the connection.
        """
        if self._connection_lost:
            return
        protocol: Any = self._protocol
        buffer = protocol.get_buffer(-1) if self._buffered else _BUFFER.octets
        try:
            count = self._receive(buffer)
        except (BlockingIOError, InterruptedError):
            self._loop.note_spurious_wakeup()
            return
        except OSError as error:
            self._endpoint.eof_read = True
            self._fail(error)
            return
        try:
            if not count:
                self._on_eof()
            elif self._buffered:
                protocol.buffer_updated(count)
            else:
                protocol.data_received(bytes(buffer[:count]))
        except Exception as error:  # noqa: BLE001  # an exception of a protocol is reported and ends its connection
            self._fail(error)

    def _receive(self, buffer: memoryview) -> int:
        """Read into `buffer`, count the octets, and return their number; 0 at the end of the stream.

        Blocks until everything that a peer of the same loop has sent is delivered, unless the buffer is full before. Raises
        BlockingIOError when there is nothing to read, and OSError for a reset. If the peer has nothing in flight any more, take
        it out of the tracker's active endpoints.
        """
        sock, endpoint = self._sock, self._endpoint
        assert sock is not None
        try:
            count = sock.recv_into(buffer)
        except BlockingIOError:
            if endpoint.has_unread:
                self._loop.wait_for_delivery()
            count = sock.recv_into(buffer)
        endpoint.read += count
        peer = endpoint.peer
        if peer is None:
            self._acknowledge_now()
        elif peer.sent > endpoint.read:
            if 0 < count < len(buffer):  # else the end of the stream, or the next call reads on
                self._loop.wait_for_delivery()
                if readable_octets(sock) > 0:
                    count += self._receive(memoryview(buffer)[count:])
        elif peer.sent == endpoint.read and peer.has_transport and not (peer.eof_sent or peer.send_blocked):
            self._active.pop(peer, None)  # nothing is in flight, as the tracker would find next time
        return count

    def _acknowledge_now(self) -> None:
        """Have the kernel acknowledge at once what another process has sent.

        It would delay the acknowledgement (RFC 1122 4.2.3.2) while the sender's kernel holds a small segment back until
        that comes (RFC 896): no process would have anything to do, and yet a segment would be pending. Do nothing for a Unix
        socket.
        """
        assert self._sock is not None
        if self._endpoint.flow is not None:
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def _on_eof(self) -> None:
        """Call the protocol's eof_received; if that returns true, only stop reading, else close the connection."""
        self._endpoint.eof_read = True
        if self._protocol.eof_received():
            self._loop.unwatch_readable(self._descriptor)
        else:
            self.close()

    # writing

    def write(self, data: Any) -> None:
        """Send octets now as far as the kernel takes them, and keep the rest, which `_on_writable` sends later.

        With too much unsent the protocol's pause_writing is called. Raises RuntimeError after write_eof. Once the connection is
        lost, nothing is sent. An error of the socket closes the connection and raises nothing.
        """
        if self._eof_requested:
            raise RuntimeError("write() after write_eof()")
        if not data or self._connection_lost:
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
            self._endpoint.send_blocked = True
            self._loop.watch_writable(self._descriptor, self._on_writable)
        self._unsent += data
        if not self._writing_paused and len(self._unsent) > self._high:
            self._writing_paused = True
            self._protocol.pause_writing()

    def write_eof(self) -> None:
        """Send a FIN once everything written was sent; do nothing when closing, or the second time.

        Raises OSError when the peer has reset the connection and that was not read yet.
        """
        if not self._closing and not self._eof_requested:
            self._eof_requested = True
            if not self._unsent:
                self._send_eof()

    def can_write_eof(self) -> bool:
        """Return True: TCP and Unix sockets have a FIN."""
        return True

    def get_write_buffer_size(self) -> int:
        """Return the number of unsent octets."""
        return len(self._unsent)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the low and the high limit of `set_write_buffer_limits`."""
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the numbers of unsent octets at which the protocol's writing is paused and resumed.

        A `high` that is not given is four times `low` (64 KiB if neither is given), a `low` a quarter of `high`. Neither pauses nor
        resumes at once. Raises ValueError unless `high` >= `low` >= 0.
        """
        self._high = high if high is not None else _HIGH_WATER if low is None else 4 * low
        self._low = low if low is not None else self._high // 4
        if not self._high >= self._low >= 0:
            raise ValueError(f"high ({self._high}) must be >= low ({self._low}) must be >= 0")

    def _send(self, data: Any) -> int:
        """Send what the kernel takes now, count it, and return the number of octets; 0 when it takes none.

        Make this endpoint active in the tracker. Raises OSError.
        """
        assert self._sock is not None
        self._active[self._endpoint] = None
        try:
            sent = self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        self._endpoint.sent += sent
        return sent

    def _on_writable(self) -> None:
        """Send unsent octets; when none is left, go on with what waits for that: a FIN, or closing.

        The loop calls it when the kernel takes octets again. At the low limit the protocol's resume_writing is called. An error of
        the socket closes the connection.
        """
        if self._connection_lost:
            return
        try:
            del self._unsent[: self._send(self._unsent)]
        except OSError as error:
            self._fail(error)
            return
        if self._writing_paused and len(self._unsent) <= self._low:
            self._writing_paused = False
            self._protocol.resume_writing()  # which may call write()
        if not self._unsent:
            self._loop.unwatch_writable(self._descriptor)
            self._endpoint.send_blocked = False
            if self._closing:
                self._schedule_close(None)
            elif self._eof_requested:
                self._send_eof()

    def _send_eof(self) -> None:
        """Send a FIN, and make this endpoint active in the tracker. Raises OSError."""
        assert self._sock is not None
        self._endpoint.eof_sent = True
        self._active[self._endpoint] = None
        self._sock.shutdown(socket.SHUT_WR)

    # closing

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._closing

    def close(self) -> None:
        """Stop reading, and close the connection in the turn after all octets were sent."""
        if not self._closing:
            self._closing = True
            self._loop.unwatch_readable(self._descriptor)
            if not self._unsent:
                self._schedule_close(None)

    def abort(self) -> None:
        """Close the connection in the next turn, and discard what is unsent."""
        self._force_close(None)

    def _force_close(self, error: BaseException | None) -> None:
        """Discard what is unsent and close with `error` for the protocol; asyncio's TLS calls this method by this name.

        Do nothing when the socket is about to be closed already.
        """
        if self._connection_lost:
            return
        if self._unsent:
            self._unsent.clear()
            self._endpoint.send_blocked = False
            self._loop.unwatch_writable(self._descriptor)
        if not self._closing:
            self._closing = True
            self._loop.unwatch_readable(self._descriptor)
        self._schedule_close(error)

    def _fail(self, error: Exception) -> None:
        """Close because of an error, which the protocol's connection_lost gets.

        One that is no OSError is a protocol's mistake and goes to the loop's exception handler too.
        """
        if not isinstance(error, OSError):
            message = f"{error!r} of a connection's protocol"
            context = {"message": message, "exception": error, "transport": self, "protocol": self._protocol}
            self._loop.call_exception_handler(context)
        self._force_close(error)

    def _schedule_close(self, error: BaseException | None) -> None:
        """Ignore the socket from now on, and have it closed in the next turn, with `error` for the protocol."""
        self._connection_lost = True
        self._loop.call_soon(self._close, error)

    def _close(self, error: BaseException | None) -> None:
        """Call the protocol's connection_lost with `error` (None: a regular end), close the socket, detach from the server.

        The socket is closed also when the protocol raises; its exception is raised after that.
        """
        try:
            self._protocol.connection_lost(error)  # type: ignore[arg-type]  # TLS passes timeouts of another type
        finally:
            assert self._sock is not None
            # closing sends a FIN or RST
            self._endpoint.eof_sent, self._endpoint.has_transport = True, False
            self._active[self._endpoint] = None
            self._loop.forget_transport(self._descriptor)
            self._sock.close()
            self._sock = None
            self._protocol = _NO_PROTOCOL
            if self._server is not None:
                detach_from_server(self._server, self)
                self._server = None
