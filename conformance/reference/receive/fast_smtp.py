"""aiosmtpd's server side, without what it does anew for each session, address and line; it behaves exactly as before.

A cell has hundreds of short sessions. Measured on a session of three commands: taking one address apart takes aiosmtpd
0.15 ms, each line of a reply costs a packet and a turn of the loop, and each command two timers, a future, and a turn for
the task that waits for it. In the sinks alone plain aiosmtpd made the cells of `creation`, `maintenance` and `relay` take
29 % more CPU; the reference has more sessions than they have.
"""

import asyncio
import functools
import ssl
import weakref
from collections.abc import Coroutine, Generator, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from aiosmtpd.smtp import BOGUS_LIMIT, MISSING, SMTP, TLSSetupException, _AuthMechAttr, login_always_fail, syntax

_SOUGHT = ("smtp_", "auth_", "handle_", "ehlo_hook", "rset_hook")
"""Beginnings of the names that aiosmtpd looks for in a server and in its handler."""


_FOUND: dict[tuple[Any, Any], tuple[str, ...]] = {}


def prefixed_names(kind: Any, beginning: str | tuple[str, ...] = _SOUGHT) -> tuple[str, ...]:
    """Return the names in a class that begin so, in order; once for each class."""
    if (found := _FOUND.get((kind, beginning))) is None:
        found = _FOUND[kind, beginning] = tuple(name for name in dir(kind) if name.startswith(beginning))
    return found


class PrefixedDir:
    """A server or a handler that is quickly looked through: `dir` names its commands and hooks only."""

    def __dir__(self) -> tuple[str, ...]:
        return prefixed_names(type(self))


_RESTS: dict[tuple[Any, str], dict[str, str]] = {}


def by_suffix(kind: Any, beginning: str) -> dict[str, str]:
    """Return those names in a class by what follows their beginning; once for each class."""
    if (found := _RESTS.get((kind, beginning))) is None:
        names = {name.removeprefix(beginning): name for name in prefixed_names(kind, beginning)}
        found = _RESTS[kind, beginning] = names
    return found


class PrefixedMethods(Mapping[str, Any]):
    """The methods of an object whose names begin so, by the rest of their names; each is bound when it is asked for."""

    __slots__ = ("_names", "_of")

    def __init__(self, of: Any, beginning: str) -> None:
        self._of = of
        self._names = by_suffix(type(of), beginning)

    def __getitem__(self, rest: str) -> Any:
        return getattr(self._of, self._names[rest])

    def get(self, rest: str, default: Any = None) -> Any:
        """See Mapping.get."""
        name = self._names.get(rest)
        return default if name is None else getattr(self._of, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class FastSMTP(PrefixedDir, SMTP):
    """aiosmtpd's SMTP; its handler should be Lean too. `timeout` is in seconds.

    A command is obeyed as soon as its line is there. Only where that has to wait for something it goes on in a task
    (`_handler_coroutine`, which aiosmtpd has all the time), and what comes meanwhile is kept in `_reader`.

    What a session holds does not hold the session: it is gone with its connection, and not when the garbage collector
    finds it, which then has next to nothing to do (it took a twentieth of the time).
    """

    _line_buffer: bytearray | None = None
    """What `_reader` keeps, once there is one."""
    _reply_buffer = b""
    _idle_deadline = 0.0
    _unknown_commands = 0
    _overlong = False

    def __init__(
        self,
        handler: Any,
        *,
        loop: asyncio.AbstractEventLoop,
        hostname: str,
        ident: str,
        data_size_limit: int | None,
        timeout: float,
        tls_context: ssl.SSLContext | None = None,
        auth_exclude_mechanism: Iterable[str] = (),
        authenticator: Any = None,
    ) -> None:
        # Not that of SMTP, which looks through the members of both classes: a test compares what comes of it.
        asyncio.StreamReaderProtocol.__init__(self, None, loop=loop)  # type: ignore[arg-type]  # see _reader
        self.__ident__ = ident
        self.loop = loop
        self.event_handler = handler
        self.hostname = hostname
        self.data_size_limit = data_size_limit
        self.enable_SMTPUTF8 = False
        self.command_size_limits.clear()
        self._decode_data = False
        self._proxy_timeout = None
        self._enforce_call_limit = False
        self.transport = self.session = self.envelope = None
        self._original_transport = self._handler_coroutine = None
        self._timeout_duration = timeout
        self._timeout_handle = None
        self.tls_context = tls_context
        self.require_starttls = tls_context and False
        self._tls_protocol = None
        self._tls_handshake_okay = True
        self._authenticator = authenticator
        self._auth_callback = None if authenticator is not None else login_always_fail
        self._auth_required = False
        self._auth_require_tls = True
        self._auth_without = auth_exclude_mechanism
        self._handle_hooks = PrefixedMethods(handler, "handle_")  # type: ignore[assignment]
        self._ehlo_hook_ver = "new" if "EHLO" in self._handle_hooks else None

    @functools.cached_property
    def _auth_methods(self) -> dict[str, _AuthMechAttr]:  # type: ignore[override]  # it is written to nowhere
        """The mechanisms of AUTH by name, which is offered in few sessions."""
        found = {}
        for name in prefixed_names(type(self), "auth_"):
            method = getattr(self, name)
            found[getattr(method, "__auth_mechanism_name__", name[5:].replace("__", "-"))] = _AuthMechAttr(method, True)
        return {name: method for name, method in found.items() if name not in self._auth_without}

    @functools.cached_property
    def _smtp_methods(self) -> Mapping[str, Any]:  # type: ignore[override]
        """The commands by name, for HELP."""
        return PrefixedMethods(self, "smtp_")

    @functools.cached_property
    def _reader(self) -> asyncio.StreamReader:  # type: ignore[override]  # none of these three is written to
        """Where a command that waits for more of the client finds it: few have to."""
        reader = asyncio.StreamReader(loop=self.loop, limit=self.line_length_limit)
        self._stream_reader_wr = weakref.ref(reader)  # where asyncio's StreamReaderProtocol looks for it
        self._line_buffer = reader._buffer
        assert self.transport is not None
        reader.set_transport(self.transport)
        return reader

    @functools.cached_property
    def _writer(self) -> asyncio.StreamWriter:  # type: ignore[override]
        """What waits until a reply has gone out, where that does not go by itself."""
        assert isinstance(self.transport, asyncio.WriteTransport)
        return asyncio.StreamWriter(self.transport, self, self._reader, self.loop)

    # the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the client; or know nothing of it any more, when this is the TLS that it has asked for."""
        if self._original_transport is not None:
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
        """Obey what has come, unless a command is at work: then it has to wait, or is what that waits for."""
        if self._handler_coroutine is not None:
            self._reader.feed_data(data)
        elif (
            data.find(b"\n") == len(data) - 1 < self.line_length_limit and not self._overlong and not self._line_buffer
        ):
            self._start(self._handle_line(data))  # one line, as nearly always
        else:
            self._reader.feed_data(data)
            self._handle_buffered_lines()

    def eof_received(self) -> bool | None:
        """Leave a client that says no more; what is at work for it is cancelled, and leaves it then."""
        if self._handler_coroutine is None:
            return False
        self._handler_coroutine.cancel()
        return None if self.session.ssl is not None else asyncio.StreamReaderProtocol.eof_received(self)

    def connection_lost(self, error: Exception | None) -> None:
        """End, and what is at work too."""
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()
        if self._original_transport is not None:  # it would tell of its end when there is nobody any more to be told
            self._original_transport.close()
        asyncio.StreamReaderProtocol.connection_lost(self, error)
        if self._handler_coroutine is not None:
            self._handler_coroutine.cancel()
        else:
            vars(self).pop("_writer", None)
        vars(self).pop("_smtp_methods", None)
        self._authenticator = self.transport = None

    # commands

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something at once, and in a task where it has to wait."""
        try:
            task = run_eagerly(work)
        except asyncio.CancelledError:  # what it waited for had been cancelled, and that has ended the session
            return
        if task is not None:
            assert self._writer is not None  # made now: aiosmtpd closes it when the client has gone amid a message
            self._handler_coroutine = task
            task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._handler_coroutine = None
        self._handle_buffered_lines()

    def _handle_buffered_lines(self) -> None:
        """Obey the lines that have come, until one has to wait."""
        while self._handler_coroutine is None and self.transport is not None and not self.transport.is_closing():
            if (line := self._next_line()) is None:
                return
            self._start(self._handle_line(line))

    def _next_line(self) -> bytes | None:
        """Take a line from what was kept; None when there is no whole one. One that is too long comes without its text."""
        kept, most = self._reader._buffer, self.line_length_limit
        end = kept.find(b"\n") + 1
        if end == 0 and len(kept) <= most:
            return None
        line = b"" if self._overlong or end > most else bytes(kept[:end])
        self._overlong = end == 0
        del kept[: end or len(kept)]
        self._reader._maybe_resume_transport()
        return None if self._overlong else line

    async def _handle_line(self, line: bytes) -> None:
        """Obey a line; b"" was one that is too long. Whatever goes wrong is told to the client, or ends its session."""
        try:
            await (self._dispatch(line) if line else self.push("500 Command line too long"))
        except asyncio.CancelledError:
            self._close()
            raise
        except ConnectionResetError:  # while it was answered
            self._close()
        except TLSSetupException as error:
            await self.handle_exception(error)
            self.transport.close()
            self.connection_lost(error)
        except Exception as error:  # noqa: BLE001  # the handler says what the client is told of it
            await self.push(await self.handle_exception(error))

    async def _dispatch(self, line: bytes) -> None:
        line = line.rstrip(b"\r\n")
        first, _, rest = line.partition(b" ")
        if not line or not first.isascii():
            await self.push("500 Error: bad syntax")
            return
        verb = first.upper().decode("ascii")
        if not rest.isascii():
            await self.push("500 Error: strict ASCII mode")
            return
        if len(line) > (self.command_size_limits[verb] if self.session.extended_smtp else self.command_size_limit):
            await self.push("500 Command line too long")
            return
        if not self._tls_handshake_okay and verb != "QUIT":
            await self.push("554 Command refused due to lack of security")
            return
        name = by_suffix(type(self), "smtp_").get(verb)
        if name is None:
            await self._unknown_command(verb)
            return
        self._reset_timeout()
        await getattr(self, name)(rest.strip().decode("ascii") if rest else None)

    def _close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    async def _unknown_command(self, verb: str) -> None:
        """Answer a command that there is not, and leave who says nothing else."""
        self._unknown_commands += 1
        if self._unknown_commands < BOGUS_LIMIT:
            await self.push(f'500 Error: command "{verb}" not recognized')
        else:
            await self.push("502 5.5.1 Too many unrecognized commands, goodbye.")
            self.transport.close()

    @syntax("QUIT")
    async def smtp_QUIT(self, arg: str | None) -> None:  # aiosmtpd finds its commands by name
        """Say goodbye; what comes behind it is not read."""
        if arg:
            await self.push("501 Syntax: QUIT")
            return
        status = await self._call_handler_hook("QUIT")
        await self.push("221 Bye" if status is MISSING else status)
        self.transport.close()

    async def push(self, status: str | bytes) -> None:
        """Send a line of a reply; lines that are not its last go out together with it."""
        line = status.encode("utf-8" if self.enable_SMTPUTF8 else "ascii") if isinstance(status, str) else status
        self._reply_buffer += line + b"\r\n"
        if line.rpartition(b"\n")[2][3:4] != b"-":
            whole, self._reply_buffer = self._reply_buffer, b""
            transport = self.transport
            if transport is None:
                raise ConnectionResetError("the client is gone")
            transport.write(whole)
            if transport.get_write_buffer_size() or transport.is_closing():  # else there is nothing to wait for
                await self._writer.drain()

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Count the idle time from now on. A timer that is set moves itself when it rings, which hardly one does."""
        now = self.loop.time()
        self._idle_deadline = now + (duration or self._timeout_duration)
        handle = self._timeout_handle
        if handle is None or handle.cancelled() or not now < handle.when() <= self._idle_deadline:
            self._set_idle_timer()

    def _set_idle_timer(self) -> None:
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()
        self._timeout_handle = self.loop.call_at(self._idle_deadline, self._on_idle_timer)

    def _on_idle_timer(self) -> None:
        if self.loop.time() < self._idle_deadline:
            self._set_idle_timer()
        else:
            self._timeout_cb()  # type: ignore[no-untyped-call]

    def _getaddr(self, arg: str) -> tuple[str | None, str | None]:
        """Take an address and what follows it apart, once for equal ones: the answer depends on nothing else."""
        limit = self.local_part_limit
        return _parse_address(limit, arg)


class _AddressParser(SMTP):
    """As much of aiosmtpd's server as it takes to ask for an address."""

    def __init__(self, local_part_limit: int) -> None:
        self.local_part_limit = local_part_limit


@functools.lru_cache(maxsize=1024)
def _parse_address(local_part_limit: int, arg: str) -> tuple[str | None, str | None]:
    return SMTP._getaddr(_AddressParser(local_part_limit), arg)


# work that begins at once

T = TypeVar("T")


def run_eagerly(work: Coroutine[Any, Any, None], *, name: str | None = None) -> asyncio.Task[None] | None:
    """Do what can be done now; return the task that does the rest, None when all is done.

    What is done now is in no task: it must not ask for the one that it is in, as `asyncio.timeout` does, before it has
    waited. Raises what the work raises before it waits.
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    rest: Any = _StartedCoroutine(work, awaited)
    return asyncio.get_running_loop().create_task(rest, name=name)


class _StartedCoroutine(Generator[Any, Any, T]):
    """The rest of a coroutine that waits for `awaited`, as a coroutine."""

    cr_frame = None

    def __init__(self, work: Coroutine[Any, Any, T], awaited: Any) -> None:
        self.cr_await = work  # where one looks for the place at which a task waits
        self._awaited = [awaited]

    def __await__(self) -> "_StartedCoroutine[T]":
        return self

    def send(self, value: Any) -> Any:
        """See Coroutine: what is awaited already comes first."""
        return self._awaited.pop() if self._awaited else self.cr_await.send(value)

    def throw(self, *error: Any) -> Any:
        """See Coroutine. A task that is cancelled before it runs has its work cancelled all the same."""
        self._awaited.clear()
        return self.cr_await.throw(*error)
