"""What of asyncio the virtual clock stands on, with the reason for each: the one module of the harness that knows private names.

asyncio has no public way to see that a socket was accepted, written to or closed, nor to know the next timer. `incompatibilities`
compares what is used with the asyncio that is there; a name that has changed its meaning only, `tests/virtual` would show.
"""

import asyncio
import contextlib
import heapq
import re
import socket
from asyncio import base_events, selector_events, sslproto
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from inspect import signature
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, NamedTuple, Self

from conformance.run.virtual.errors import UnsupportedPython
from conformance.run.virtual.in_flight import InFlightTracker
from conformance.run.virtual.selector import OrderedSelector, Ready
from conformance.run.virtual.transport import TrackedTransport

_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")

MAX_TURNS_WITHOUT_POLL = 100
"""Turns of a loop that is busy with itself, without a look at the sockets in between: a fixed number, so that the order
of things depends on nothing else. A look costs as much as a handful of callbacks."""

_FEW = 100
"""Timers that were cancelled and are still in the heap, above which it is cleared when they are the most of it."""

_SIGNATURES: dict[str, tuple[str, ...]] = {
    "_run_once": (),
    "_accept_connection": (
        "protocol_factory", "sock", "sslcontext", "server", "backlog", "ssl_handshake_timeout", "ssl_shutdown_timeout",
    ),
    "_timer_handle_cancelled": ("handle",),
    "_add_reader": ("fd", "callback", "args"),
    "_remove_reader": ("fd",),
    "_add_writer": ("fd", "callback", "args"),
    "_remove_writer": ("fd",),
    "_make_socket_transport": ("sock", "protocol", "waiter", "extra", "server"),
    "_make_ssl_transport": (
        "rawsock", "protocol", "sslcontext", "waiter", "server_side", "server_hostname", "extra", "server",
        "ssl_handshake_timeout", "ssl_shutdown_timeout",
    ),
    "_accept_connection2": (
        "protocol_factory", "conn", "extra", "sslcontext", "server", "ssl_handshake_timeout", "ssl_shutdown_timeout",
    ),
    "_start_serving": (
        "protocol_factory", "sock", "sslcontext", "server", "backlog", "ssl_handshake_timeout", "ssl_shutdown_timeout",
    ),
    "_make_subprocess_transport": (
        "protocol", "args", "shell", "stdin", "stdout", "stderr", "bufsize", "extra", "kwargs",
    ),
    "_child_watcher_callback": ("pid", "returncode", "transp"),
}  # fmt: skip
"""The methods overridden here, with the parameters (after `self`) that they had when they were read."""

_HANDLE = {"_callback", "_args", "_cancelled", "_loop", "_source_traceback", "_repr", "_context", "_scheduled", "_when"}
"""What a handle and a timer hold."""

_STATE: dict[type, tuple[str, ...]] = {
    base_events.BaseEventLoop: ("_ready", "_stopping", "_closed", "_clock_resolution"),
    selector_events.BaseSelectorEventLoop: ("_selector", "_transports"),
    sslproto.SSLProtocol: ("_app_transport",),
}
"""What is set when one is made."""

_COUNTED, _KEPT = (), ("transport",)
"""The parameters of a server's `_attach` and `_detach`: up to 3.12 it counts its connections, since then it keeps them."""


def _parameters(kind: type, name: str) -> tuple[str, ...] | None:
    """Return the parameters of a method, after `self`; None where there is none of that name."""
    method = getattr(kind, name, None)
    return method and tuple(signature(method).parameters)[1:]


_OF_ATTACHING = _parameters(base_events.Server, "_attach")


def incompatibilities() -> list[str]:
    """Return what of this Python's asyncio is not there, or not as it was when it was read; empty when all of it is."""
    found = []
    for name, parameters in _SIGNATURES.items():
        if _parameters(asyncio.SelectorEventLoop, name) != parameters:
            found.append(f"SelectorEventLoop.{name}")
    attaching = ("_attach", "_detach")
    found += [f"Server.{name}" for name in attaching if _parameters(base_events.Server, name) not in (_COUNTED, _KEPT)]
    if {*asyncio.Handle.__slots__, *asyncio.TimerHandle.__slots__} - {"__weakref__"} != _HANDLE:
        found.append("TimerHandle")
    for kind, names in _STATE.items():
        code = kind.__init__.__code__
        found += [f"{kind.__name__}.{name}" for name in names if name not in code.co_names]
    return found


class Reader:
    """What is done when a transport's socket is readable: a handle (asyncio's word) of the loop's own, which needs none of
    the contexts that asyncio's copies and enters."""

    __slots__ = ("_cancelled", "_run")

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run
        self._cancelled = False

    def cancel(self) -> None:
        """Do nothing any more, also if it is ready."""
        self._cancelled = True


def _begin(self: asyncio.Handle, callback: Any, args: Any, loop: asyncio.AbstractEventLoop, context: Any) -> None:
    """Make a handle in one step, and without what is for debugging: there are dozens to a session."""
    self._context = copy_context() if context is None else context
    self._loop = loop
    self._callback = callback
    self._args = args
    self._cancelled = False
    self._repr = self._source_traceback = None


class Soon(asyncio.Handle):
    """asyncio's, made at less cost."""

    __slots__ = ()
    __init__ = _begin


class Timer(asyncio.TimerHandle):
    """Likewise, and cancelled at less."""

    __slots__ = ()

    def __init__(self, when: float, callback: Any, args: Any, loop: asyncio.AbstractEventLoop, context: Any) -> None:
        _begin(self, callback, args, loop, context)
        self._when = when
        self._scheduled = False

    def cancel(self) -> None:
        """See asyncio.TimerHandle; without what is for debugging."""
        if not self._cancelled:
            self._cancelled = True
            self._callback = None
            self._args = ()
            self._loop._timer_handle_cancelled(self)


class TrackingEventLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose sockets are all in a ledger, and whose timers keep their order."""

    time_passes = True
    """Whether timers become due by themselves."""

    def __new__(cls, *args: Any, **named: Any) -> Self:
        """Refuse before there is half a loop. Raises UnsupportedPython."""
        if unknown := incompatibilities():
            raise UnsupportedPython(unknown)
        return super().__new__(cls)

    def __init__(self) -> None:
        self.sockets = OrderedSelector()
        super().__init__(self.sockets)
        self.tracker = InFlightTracker(self.sockets.get_map())
        self.polls_every_turn = False
        self.timer_may_be_due = True
        """Whether a timer may be due: whoever sets the clock says so."""
        self._turns_since_poll = 0
        self.callbacks_called = 0
        """Callbacks so far that were called soon or by a timer, not for a socket."""
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_made = self._timers_cancelled = 0
        # asyncio's own is one of weak references, which each cost as much as a call
        self._transports: dict[int, Any] = {}
        self._children: dict[int, contextlib.ExitStack] = {}
        self._reaped: set[int] = set()
        # Timers up to this much later fire together. asyncio takes that of time.monotonic(), 1e-9, which is less than
        # the distance of neighbouring floats once the clock is past 8e6 s: a timer would never be due.
        self._clock_resolution = 1e-6

    def hold_time(self, reason: str) -> contextlib.AbstractContextManager[None]:
        """Let time stand while something the loop cannot see is under way."""
        raise NotImplementedError

    def wait_for_delivery(self) -> None:
        """Wait until all that was sent has come."""
        raise NotImplementedError

    def note_spurious_wakeup(self) -> None:
        """Ask the kernel at the next look: a socket was served, and there was nothing to be done."""
        raise NotImplementedError

    def cannot_accept(self, error: OSError) -> None:
        """Take note that a connection could not be accepted."""
        raise NotImplementedError

    def poll_sockets(self, turns: int, *, may_wait: bool) -> Ready:
        """Return what is ready at the sockets, `turns` after the last look; `may_wait`: nothing else is to be done."""
        raise NotImplementedError

    # turns and timers

    def poll_every_turn(self) -> None:
        """From now on look at the sockets in every turn, also while there are callbacks to run: to see them closed."""
        self.polls_every_turn = True

    def _run_once(self) -> None:
        """Make one turn: look at the sockets unless there is something else to do, add the timers that are due, run what
        is ready. asyncio's own queues what it finds at a socket; here it is served at once."""
        ready = self._ready
        self._turns_since_poll += 1
        if not ready or self._turns_since_poll >= MAX_TURNS_WITHOUT_POLL or self.polls_every_turn:
            self._serve_sockets()
        if self.timer_may_be_due:
            due = self.time() + self._clock_resolution
            while self._timers and self._timers[0][0] < due:
                ready.append(heapq.heappop(self._timers)[2])
            self.timer_may_be_due = self.time_passes
        self.callbacks_called += len(ready)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                try:
                    handle._context.run(handle._callback, *handle._args)
                except BaseException as error:  # noqa: BLE001
                    self._report_callback_error(handle, error)

    def _serve_sockets(self) -> None:
        """Look at the sockets and serve them, and go on with that for as long as a turn would have nothing else to do."""
        turns, self._turns_since_poll = self._turns_since_poll, 0
        busy = (
            self._ready
            or self._stopping
            or (self.timer_may_be_due and self._timers and self._timers[0][0] <= self.time())
        )
        told = self.poll_sockets(turns, may_wait=not busy)
        while True:
            for key, events in told:
                reader, writer = key.data
                if events & EVENT_READ and reader is not None and not reader._cancelled:
                    reader._run()
                if events & EVENT_WRITE and writer is not None and not writer._cancelled:
                    writer._run()
            if self._ready or self.timer_may_be_due or self._stopping:
                break
            told = self.poll_sockets(1, may_wait=True)

    def _report_callback_error(self, handle: asyncio.Handle, error: BaseException) -> None:
        """Tell of what a callback raised, or raise it on, as asyncio's own handles do."""
        if isinstance(error, SystemExit | KeyboardInterrupt):
            raise error
        self.call_exception_handler(
            {"message": f"Exception in callback {handle!r}", "exception": error, "handle": handle}
        )

    def next_timer(self) -> float | None:
        """Return when the next timer is due, in seconds of this loop; None without any."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._timers_cancelled -= 1
        return timers[0][0] if timers else None

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:
        """See asyncio.loop.call_soon."""
        if self._closed:
            self._check_closed()
        handle: asyncio.Handle = Soon(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """See asyncio.loop.call_later."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """See asyncio.loop.call_at; equal times keep the order in which they were asked for: a heap alone would not."""
        if self._closed:
            self._check_closed()
        self._timers_made += 1
        self.timer_may_be_due = self.timer_may_be_due or when <= self.time() + self._clock_resolution
        timer = Timer(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, self._timers_made, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._timers_cancelled += 1
        if self._timers_cancelled > _FEW and self._timers_cancelled > len(self._timers) // 2:
            self._timers = [timer for timer in self._timers if not timer[2]._cancelled]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    # connections

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **named: Any
    ) -> tuple[Any, Any]:
        """See asyncio.loop.create_connection; to an address there is nothing to be looked up, and no turn to wait for."""
        if named or not isinstance(host, str) or not _ADDRESS.fullmatch(host):
            return await super().create_connection(protocol_factory, host, port, **named)
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            await self.sock_connect(sock, (host, port))
            protocol = protocol_factory()
            return self._make_socket_transport(sock, protocol), protocol
        except BaseException:
            sock.close()
            raise

    def _make_socket_transport(
        self,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None = None,
        *,
        extra: Any = None,
        server: Any = None,
    ) -> TrackedTransport:
        transport = TrackedTransport(self, sock, protocol, self.tracker.endpoint_of(sock), server)
        self._transports[sock.fileno()] = transport
        transport.begin()
        if waiter is not None:
            waiter.set_result(None)
        return transport

    def read_from(self, descriptor: int, readable: Callable[[], None]) -> None:
        """Have `readable` called whenever a socket is, that nobody reads from or writes to yet."""
        self.sockets.register_later(descriptor, EVENT_READ, (Reader(readable), None))

    def _remove_reader(self, fd: int) -> bool:
        """See asyncio's own, which asks the selector again and again; few sockets are waited for in both directions."""
        key = self.sockets.get_map().get(fd)
        if key is None or key.data[0] is None:
            return False
        if key.data[1] is not None:
            return super()._remove_reader(fd)  # type: ignore[no-any-return]
        self.sockets.unregister(fd)
        key.data[0].cancel()
        return True

    def watch_reading(self, descriptor: int, readable: Callable[[], None]) -> None:
        """Have `readable` called while a socket is, also one that a transport has."""
        self._add_reader(descriptor, readable)

    def unwatch_reading(self, descriptor: int) -> None:
        """End that."""
        self._remove_reader(descriptor)

    def watch_writing(self, descriptor: int, writable: Callable[[], None]) -> None:
        """Likewise for what may be written to."""
        self._add_writer(descriptor, writable)

    def unwatch_writing(self, descriptor: int) -> None:
        """End that."""
        self._remove_writer(descriptor)

    @staticmethod
    def attach(server: Any, transport: asyncio.Transport) -> None:
        """Have a server know of a connection that it took."""
        server._attach(*([transport] if _OF_ATTACHING == _KEPT else []))

    @staticmethod
    def detach(server: Any, transport: asyncio.Transport) -> None:
        """Have a server forget a connection that is lost."""
        server._detach(*([transport] if _OF_ATTACHING == _KEPT else []))

    def forget(self, descriptor: int) -> None:
        """Know no transport of that descriptor any more: it is about to be closed."""
        del self._transports[descriptor]

    def _make_ssl_transport(
        self,
        rawsock: socket.socket,
        protocol: asyncio.BaseProtocol,
        sslcontext: Any,
        waiter: Any = None,
        *,
        extra: Any = None,
        server: Any = None,
        **rest: Any,
    ) -> Any:
        """TLS from the first octet; asyncio's own would put a transport of its own below. (STARTTLS needs nothing.)"""
        tls = sslproto.SSLProtocol(self, protocol, sslcontext, waiter, **rest)
        self._make_socket_transport(rawsock, tls, server=server)
        return tls._app_transport

    def _accept_connection(
        self, protocol_factory: Any, sock: socket.socket, sslcontext: Any = None, server: Any = None, *rest: Any
    ) -> None:
        """Take one connection, and serve it in the same turn; the next is told by the next look."""
        if sslcontext is not None:
            super()._accept_connection(protocol_factory, sock, sslcontext, server, *rest)
            return
        try:
            connection, there = self._taken_from(sock)
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            self.note_spurious_wakeup()
            return
        except OSError as error:  # out of descriptors: asyncio's own says so, and tries again later
            self.cannot_accept(error)
            super()._accept_connection(protocol_factory, sock, sslcontext, server, *rest)
            return
        connection.setblocking(False)
        self.tracker.note_accepted(connection, there)
        try:
            self._make_socket_transport(connection, protocol_factory(), server=server)
        except BaseException:
            connection.close()
            raise

    def _taken_from(self, listener: socket.socket) -> tuple[socket.socket, Any]:
        """Accept a connection; where the ledger expects one, it comes. Raises BlockingIOError when there is none."""
        try:
            return listener.accept()
        except BlockingIOError:
            self.wait_for_delivery()
            return listener.accept()

    def _accept_connection2(
        self, protocol_factory: Any, conn: socket.socket, extra: Any, *rest: Any, **named: Any
    ) -> Coroutine[Any, Any, None]:
        self.tracker.note_accepted(conn, extra["peername"])  # now, not when the coroutine begins: it has left the queue
        return super()._accept_connection2(protocol_factory, conn, extra, *rest, **named)  # type: ignore[no-any-return]

    def _start_serving(self, protocol_factory: Any, sock: socket.socket, *rest: Any, **named: Any) -> None:
        self.tracker.note_listening(sock)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what is accepted inherits it
        super()._start_serving(protocol_factory, sock, *rest, **named)

    # children

    async def _make_subprocess_transport(self, *args: Any, **named: Any) -> Any:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.hold_time("a subprocess"))
            transport = await super()._make_subprocess_transport(*args, **named)
            pid = transport.get_pid()
            if pid in self._reaped:  # it has ended already
                self._reaped.discard(pid)
            else:
                self._children[pid] = stack.pop_all()
        return transport

    def _child_watcher_callback(self, pid: int, returncode: int, transp: Any) -> None:  # on a thread in 3.11
        super()._child_watcher_callback(pid, returncode, transp)
        self.call_soon_threadsafe(self._child_ended, pid)

    def _child_ended(self, pid: int) -> None:
        if stack := self._children.pop(pid, None):
            stack.close()
        else:
            self._reaped.add(pid)


class OpenSocket(NamedTuple):
    """A socket that a loop still serves, in words, and how to close it."""

    description: str
    close: Callable[[], None]


def open_sockets(loop: asyncio.AbstractEventLoop) -> list[OpenSocket]:
    """Return the connections and listeners that any selector loop still serves, by descriptor."""
    assert isinstance(loop, selector_events.BaseSelectorEventLoop)
    transports = sorted(loop._transports.items())
    found = [OpenSocket(repr(transport), transport.abort) for _, transport in transports if not transport.is_closing()]
    for descriptor, key in sorted(loop._selector.get_map().items()):
        reader = key.data[0]
        if isinstance(reader, asyncio.Handle) and getattr(reader._callback, "__name__", "") == "_accept_connection":
            sock = reader._args[1]  # as _start_serving gave it: (protocol_factory, sock, ...)
            found.append(
                OpenSocket(f"listener fd={descriptor} {sock.getsockname()}", partial(loop._stop_serving, sock))
            )
    return found
