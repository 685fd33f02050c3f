"""aiosmtpd's server side without the work that it repeats for each session, address and line; its replies are the same.

A cell has hundreds of short sessions. Measured on a session of three commands, aiosmtpd needs 0.15 ms to parse one address,
one packet and one turn of the loop for each line of a reply, and for each command two timers, a future, and a turn for the task
that waits for it. Plain aiosmtpd made the cells of `creation`, `maintenance` and `relay` take 29 % more CPU time in the sinks
alone; the reference has more sessions than the sinks.

How it works. aiosmtpd reads lines from a stream in one task per session. Here `data_received` gets the octets from the
transport. If they are exactly one line and no command is running, the line is handled at once, without a task and without a
buffer (`_start`, `run_eagerly`). If the command has to wait (for the content after DATA, for a disk, for another server), the
rest of it becomes a task, `_handler_coroutine`, and octets that arrive meanwhile go into the stream reader: either the command
reads them, or `_handle_buffered_lines` does when the task is done. Reply lines are collected until the last one and sent in one
write. The idle timer is not moved for each command; when it fires early it is set again to the current deadline.
"""

import asyncio
import functools
import ssl
import weakref
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from typing import Any

from aiosmtpd.smtp import BOGUS_LIMIT, MISSING, SMTP, TLSSetupException, _AuthMechAttr, syntax

from conformance.reference.receive.eager_start import run_eagerly
from conformance.reference.receive.prefixed_methods import PrefixedDir, PrefixedMethods, by_suffix


class FastSMTP(PrefixedDir, SMTP):
    """aiosmtpd's SMTP, but faster; its handler has `handle_EHLO`, and should derive from PrefixedDir too.

    The objects that a session refers to do not refer back to it, so that it is freed with its connection: collecting the cycles
    took a twentieth of the time.
    """

    # what SMTP.__init__ sets to the same in every session here
    enable_SMTPUTF8 = False  # noqa: N815
    _auth_callback = None
    _auth_require_tls = True
    _auth_required = False
    _decode_data = False
    _ehlo_hook_ver = "new"
    # what a session begins with
    envelope = session = transport = None
    _handler_coroutine = _original_transport = _timeout_handle = _tls_protocol = None

    _line_buffer: bytearray | None = None
    """The buffer of `_reader`, once that exists."""
    _reply_buffer = b""
    """The lines of a reply that is not complete."""
    _idle_deadline = 0.0
    """The event loop's time at which the session is idle for too long."""
    _unknown_commands = 0
    utf8_verbs: frozenset[str] = frozenset()
    """The commands whose arguments may be UTF-8 (RFC 6531 3.3)."""
    _overlong = False
    """Whether the line being received has exceeded the limit, so that its rest is skipped."""

    def __init__(
        self,
        handler: Any,
        *,
        loop: asyncio.AbstractEventLoop,
        hostname: str,
        ident: str,
        data_size_limit: int | None,
        timeout: float,
        authenticator: Any,
        tls_context: ssl.SSLContext | None = None,
    ) -> None:
        """Prepare a session, which begins with `connection_made`.

        `handler` has the hooks, `hostname` and `ident` are in the banner, `data_size_limit` is octets of a message, `timeout` the
        idle limit in seconds. `authenticator` decides about a login; `tls_context` is for STARTTLS, None if that is not offered.
        """
        # instead of SMTP.__init__, which inspects all members of both classes: gives the same attributes, as a test checks
        asyncio.StreamReaderProtocol.__init__(self, None, loop=loop)  # type: ignore[arg-type]  # see _reader
        self.__ident__ = ident
        self.loop = loop
        self.event_handler = handler
        self.hostname = hostname
        self.data_size_limit = data_size_limit
        self.command_size_limits = defaultdict(lambda: SMTP.command_size_limit)  # aiosmtpd's is one for all sessions
        # RET, ENVID, NOTIFY and ORCPT (RFC 3461), SIZE, BODY and SMTPUTF8 lengthen these lines
        self.command_size_limits.update({"MAIL": 512 + 169, "RCPT": 512 + 543})
        self.tls_context = tls_context
        self._timeout_duration = timeout
        self._authenticator = authenticator
        self._handle_hooks = PrefixedMethods(handler, "handle_")  # type: ignore[assignment]

    @functools.cached_property
    def _auth_methods(self) -> dict[str, _AuthMechAttr]:  # type: ignore[override]  # nothing assigns it
        """The only mechanism of AUTH by its name; made on first use, since few sessions offer AUTH."""
        return {"PLAIN": _AuthMechAttr(self.auth_PLAIN, is_builtin=True)}

    @functools.cached_property
    def _smtp_methods(self) -> Mapping[str, Any]:  # type: ignore[override]
        """The command methods by verb, for HELP."""
        return PrefixedMethods(self, "smtp_")

    @functools.cached_property
    def _reader(self) -> asyncio.StreamReader:  # type: ignore[override]  # nothing assigns these three
        """The stream that a command reads from if it needs more than its line, such as DATA; made on first use."""
        reader = asyncio.StreamReader(loop=self.loop, limit=self.line_length_limit)
        self._stream_reader_wr = weakref.ref(reader)  # asyncio's StreamReaderProtocol finds it here
        self._line_buffer = reader._buffer
        assert self.transport is not None
        reader.set_transport(self.transport)
        return reader

    @functools.cached_property
    def _writer(self) -> asyncio.StreamWriter:  # type: ignore[override]
        """The stream writer, needed only to wait until a reply has been sent; made on first use."""
        assert isinstance(self.transport, asyncio.WriteTransport)
        return asyncio.StreamWriter(self.transport, self, self._reader, self.loop)

    # the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the session and its idle timer, and send the banner; after STARTTLS reset the session instead. asyncio calls this."""
        if self._original_transport is not None:  # STARTTLS has set it
            super().connection_made(transport)
            return
        self._set_rset_state()  # type: ignore[no-untyped-call]
        self.session = self._create_session()
        self.session.peer = transport.get_extra_info("peername")
        asyncio.StreamReaderProtocol.connection_made(self, transport)
        self.transport = transport
        self._reset_timeout()
        self._start(self.push(f"220 {self.hostname} {self.__ident__}"))

    def data_received(self, data: bytes) -> None:
        """Handle the lines that have arrived; while a command is running, buffer them for it or for later. asyncio calls this.

        A line that is not complete is buffered too.
        """
        if self._handler_coroutine is not None:
            self._reader.feed_data(data)
        elif (
            data.find(b"\n") == len(data) - 1 < self.line_length_limit and not self._overlong and not self._line_buffer
        ):
            self._start(self._handle_line(data))  # exactly one line: nearly always
        else:
            self._reader.feed_data(data)
            self._handle_buffered_lines()

    def eof_received(self) -> bool | None:
        """Have the connection closed since the client has ended its side: by asyncio, or by the running command, which is cancelled.

        asyncio calls this, and closes the connection if the result is false; within TLS it does so in any case.
        """
        if self._handler_coroutine is None:
            return False
        self._handler_coroutine.cancel()
        return None if self.session.ssl is not None else asyncio.StreamReaderProtocol.eof_received(self)

    def connection_lost(self, error: Exception | None) -> None:
        """End the session and cancel the running command, if any; drop the references by which objects refer to the session.

        asyncio calls this, and `_handle_line` when TLS could not begin. From now on `transport` is None.
        """
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()
        if self._original_transport is not None:  # else it would report its end to a session that is gone
            self._original_transport.close()
        asyncio.StreamReaderProtocol.connection_lost(self, error)
        if self._handler_coroutine is not None:
            self._handler_coroutine.cancel()
        else:
            vars(self).pop("_writer", None)  # it and the next refer to the session
        vars(self).pop("_smtp_methods", None)
        self._authenticator = self.transport = None

    # commands

    def _start(self, command: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine of a command until it first waits, and the rest of it in a task, `_handler_coroutine`; return at once."""
        try:
            task = run_eagerly(command)
        except asyncio.CancelledError:  # it awaited something already cancelled, and closed the connection
            return
        if task is not None:
            assert self._writer is not None  # made now: aiosmtpd closes it if the client leaves during DATA
            self._handler_coroutine = task
            task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        """Go on with the lines that arrived while the task of a command ran; asyncio calls this when the task is done."""
        self._handler_coroutine = None
        self._handle_buffered_lines()

    def _handle_buffered_lines(self) -> None:
        """Handle buffered lines until a command has to wait, no whole line is left, or the connection closes."""
        while self._handler_coroutine is None and self.transport is not None and not self.transport.is_closing():
            if (line := self._next_line()) is None:
                return
            self._start(self._handle_line(line))

    def _next_line(self) -> bytes | None:
        """Remove and return the first buffered line, or b"" for one that is too long; None if there is no whole line.

        The beginning of a line that is already too long is dropped.
        """
        buffer, limit = self._reader._buffer, self.line_length_limit
        end = buffer.find(b"\n") + 1
        if end == 0 and len(buffer) <= limit:
            return None
        line = b"" if self._overlong or end > limit else bytes(buffer[:end])
        self._overlong = end == 0
        del buffer[: end or len(buffer)]
        self._reader._maybe_resume_transport()
        return None if self._overlong else line

    async def _handle_line(self, line: bytes) -> None:
        """Handle a command line, and send the reply; b"" stands for a line that was too long, which is refused.

        An unexpected error gets the reply that the handler chooses. If the client leaves, TLS fails or the task is cancelled, the
        connection is closed. Raises CancelledError if the task is cancelled.
        """
        try:
            await self._dispatch(line)
        except asyncio.CancelledError:
            self._close()
            raise
        except ConnectionResetError:  # the client left before its reply
            self._close()
        except TLSSetupException as error:
            await self.handle_exception(error)
            self.transport.close()
            self.connection_lost(error)
        except Exception as error:  # noqa: BLE001  # the handler chooses the reply to any error
            await self.push(await self.handle_exception(error))

    async def _dispatch(self, line: bytes) -> None:
        """Parse a command line and await the method of its verb, or send the error reply; a known verb restarts the idle timeout.

        b"" stands for a line that was too long.
        """
        if not line:
            await self.push("500 Command line too long")
            return
        line = line.rstrip(b"\r\n")
        first, _, rest = line.partition(b" ")
        if not line or not first.isascii():
            await self.push("500 Error: bad syntax")
            return
        verb = first.upper().decode("ascii")
        try:
            text = rest.decode("utf-8" if verb in self.utf8_verbs else "ascii")
        except UnicodeDecodeError:
            await self.push("500 Error: strict ASCII mode")
            return
        if len(line) > (self.command_size_limits[verb] if self.session.extended_smtp else self.command_size_limit):
            await self.push("500 Command line too long")
            return
        name = by_suffix(type(self), "smtp_").get(verb)
        if name is None:
            await self._unknown_command(verb)
            return
        self._reset_timeout()
        await getattr(self, name)(text.strip() if rest else None)

    def _close(self) -> None:
        """Close the connection if it is open."""
        if self.transport is not None:
            self.transport.close()

    async def _unknown_command(self, verb: str) -> None:
        """Refuse an unknown command with 500; at the BOGUS_LIMIT-th (5th) of the session with 502, and close the connection."""
        self._unknown_commands += 1
        if self._unknown_commands < BOGUS_LIMIT:
            await self.push(f'500 Error: command "{verb[:40]}" not recognized')
        else:
            await self.push("502 5.5.1 Too many unrecognized commands, goodbye.")
            self.transport.close()

    @syntax("QUIT")
    async def smtp_QUIT(self, arg: str | None) -> None:  # aiosmtpd finds its commands by name
        """Reply to QUIT and close the connection; anything sent after QUIT is ignored.

        QUIT with an argument gets 501 and closes nothing.
        """
        if arg:
            await self.push("501 Syntax: QUIT")
            return
        status = await self._call_handler_hook("QUIT")
        await self.push("221 Bye" if status is MISSING else status)
        self.transport.close()

    async def push(self, status: str | bytes) -> None:
        """Add a line, or several joined with CRLF, to the reply; send the reply once its last line is there.

        If not all of it could be sent at once, wait as asyncio's `drain` does. Raises ConnectionResetError if the client is gone.
        """
        line = status.encode("ascii") if isinstance(status, str) else status
        self._reply_buffer += line + b"\r\n"
        if line.rpartition(b"\n")[2][3:4] != b"-":  # `250-` says that another line follows
            whole, self._reply_buffer = self._reply_buffer, b""
            transport = self.transport
            if transport is None:
                raise ConnectionResetError("the client is gone")
            transport.write(whole)
            if transport.get_write_buffer_size() or transport.is_closing():  # else the reply has been sent
                await self._writer.drain()

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Restart the idle timeout: the session ends `duration` seconds from now (None: the configured ones) unless this is called again.

        A timer that is set to an earlier time is not moved: when it fires, `_on_idle_timer` sets it again. Without a timer, after it
        was cancelled, or if it is later, it is set.
        """
        self._idle_deadline = self.loop.time() + (duration or self._timeout_duration)
        handle = self._timeout_handle
        if handle is None or handle.cancelled() or handle.when() > self._idle_deadline:
            self._set_idle_timer()

    def _set_idle_timer(self) -> None:
        """Set the idle timer to the idle deadline, in place of an earlier one."""
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()
        self._timeout_handle = self.loop.call_at(self._idle_deadline, self._on_idle_timer)

    def _on_idle_timer(self) -> None:
        """Close the session because it was idle for too long (`_timeout_cb`); if the deadline has moved, set the timer again instead."""
        if self.loop.time() < self._idle_deadline:
            self._set_idle_timer()
        else:
            self._timeout_cb()  # type: ignore[no-untyped-call]

    def _getaddr(self, arg: str) -> tuple[str | None, str | None]:
        """Return the address in the argument of MAIL or RCPT and the text after it, as aiosmtpd parses them; None each if invalid."""
        return _parse_address(self.local_part_limit, arg)


class _AddressParser(SMTP):
    """As much of aiosmtpd's server as its address parser needs: so that an address can be parsed without a session."""

    def __init__(self, local_part_limit: int) -> None:
        """Set the only attribute that the parser reads: the most octets of a local part."""
        self.local_part_limit = local_part_limit


@functools.lru_cache(maxsize=1024)
def _parse_address(local_part_limit: int, arg: str) -> tuple[str | None, str | None]:
    """Return what aiosmtpd's parser finds in `arg`: an address and the text after it, None each if there is no valid one; cached."""
    return SMTP._getaddr(_AddressParser(local_part_limit), arg)
