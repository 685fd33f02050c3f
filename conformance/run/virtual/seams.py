"""Every private name of asyncio that the virtual clock stands on, in one place, with the reason for each.

asyncio has no public way to see that a socket was accepted, written to or closed, nor to know the next timer. The names
below have kept their meaning from Python 3.11 to 3.13; on any other version the loop refuses to be made, and
`tests/virtual/test_python.py` says what has to be looked at.
"""

import asyncio
import contextlib
import heapq
import inspect
import socket
import sys
from asyncio import selector_events, sslproto
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, Self

from conformance.run.virtual.errors import UnsupportedPython
from conformance.run.virtual.ledger import End, Ledger
from conformance.run.virtual.selector import AskingSelector

TESTED = ((3, 11), (3, 12), (3, 13))
"""The Python versions whose asyncio was read and tested."""

_SIGNATURES: dict[str, tuple[str, ...]] = {
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


def unfamiliar() -> list[str]:
    """Return what of this Python's asyncio is not as it was when it was read; empty when all of it is."""
    loop = asyncio.SelectorEventLoop
    found = [] if sys.version_info[:2] in TESTED else [f"Python {sys.version_info.major}.{sys.version_info.minor}"]
    for name, parameters in _SIGNATURES.items():
        method = getattr(loop, name, None)
        if method is None or tuple(inspect.signature(method).parameters)[1:] != parameters:
            found.append(f"SelectorEventLoop.{name}")
    transport = selector_events._SelectorSocketTransport
    found += [f"{transport.__name__}.{n}" for n in ("_call_connection_lost", "max_size") if not hasattr(transport, n)]
    return found


class OrderedTimer(asyncio.TimerHandle):
    """A timer that comes after those made before it for the same time: heapq alone does not keep their order."""

    __slots__ = ("_number",)

    def __init__(self, number: int, *rest: Any) -> None:
        super().__init__(*rest)
        self._number = number

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, OrderedTimer):
            return NotImplemented
        if self._when == other._when:
            return self._number < other._number
        return bool(self._when < other._when)


class NotingTransport(selector_events._SelectorSocketTransport):
    """A socket transport that tells the ledger whenever it may have sent something."""

    max_size = 65536  # of a recv(): asyncio's 256 KiB make malloc give back and regrow the heap, up to +40 % time

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        note: Callable[[], None],
        **rest: Any,
    ) -> None:
        self._note = note
        super().__init__(loop, sock, protocol, **rest)

    def write(self, data: Any) -> None:
        """See asyncio.WriteTransport."""
        self._note()
        super().write(data)

    def writelines(self, list_of_data: Any) -> None:
        """See asyncio.WriteTransport."""
        self._note()
        super().writelines(list_of_data)

    def write_eof(self) -> None:
        """See asyncio.WriteTransport."""
        self._note()
        super().write_eof()

    def _call_connection_lost(self, exc: BaseException | None) -> None:  # the one place where the socket is closed
        self._note()
        super()._call_connection_lost(exc)


class SeamedEventLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose sockets are all in a ledger, and whose timers keep their order."""

    def __new__(cls, *args: Any, **named: Any) -> Self:
        """Refuse before there is half a loop. Raises UnsupportedPython."""
        if unknown := unfamiliar():
            raise UnsupportedPython(f"virtual time was never tested with {', '.join(unknown)}: use --clock real")
        return super().__new__(cls)

    def __init__(self) -> None:
        selector = AskingSelector()
        super().__init__(selector)
        self.asking = selector
        self.asking.busy = lambda: bool(self._ready)
        self.ledger = Ledger(selector.interest)
        self._timers_made = 0
        self._children: dict[int, contextlib.ExitStack] = {}
        self._reaped: set[int] = set()
        # Timers up to this much later fire together. asyncio takes that of time.monotonic(), 1e-9, which is less than
        # the distance of neighbouring floats once the clock is past 8e6 s: a timer would never be due.
        self._clock_resolution = 1e-6

    def hold(self, reason: str) -> contextlib.AbstractContextManager[None]:
        """Let time stand while something the loop cannot see is under way."""
        raise NotImplementedError

    def next_timer(self) -> float | None:
        """Return when the next timer is due, in seconds of this loop; None without any."""
        # asyncio hands the selector a timeout, but never one of more than a day; and it has just taken cancelled timers
        # off the head of its heap.
        return self._scheduled[0].when() if self._scheduled else None

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """See asyncio.loop.call_at; equal times keep the order in which they were asked for."""
        self._check_closed()
        self._timers_made += 1
        timer = OrderedTimer(self._timers_made, when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # so that cancelling it is counted
        return timer

    def _noting_transport(self, sock: socket.socket, protocol: asyncio.BaseProtocol, **rest: Any) -> NotingTransport:
        end = self.ledger.registered(sock)
        return NotingTransport(self, sock, protocol, lambda: self._moved(end), **rest)

    def _moved(self, end: End | None) -> None:
        if end is not None:
            self.ledger.moved(end)

    def _make_socket_transport(
        self, sock: socket.socket, protocol: asyncio.BaseProtocol, waiter: Any = None, **rest: Any
    ) -> NotingTransport:
        return self._noting_transport(sock, protocol, waiter=waiter, **rest)

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
        self._noting_transport(rawsock, tls, extra=extra, server=server)
        return tls._app_transport

    def _accept_connection2(
        self, protocol_factory: Any, conn: socket.socket, *rest: Any, **named: Any
    ) -> Coroutine[Any, Any, None]:
        self.ledger.accepted(conn)  # now, not when the coroutine begins: it has left the queue
        return super()._accept_connection2(protocol_factory, conn, *rest, **named)  # type: ignore[no-any-return]

    def _start_serving(self, protocol_factory: Any, sock: socket.socket, *rest: Any, **named: Any) -> None:
        self.ledger.listening(sock)
        super()._start_serving(protocol_factory, sock, *rest, **named)

    async def _make_subprocess_transport(self, *args: Any, **named: Any) -> Any:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.hold("a subprocess"))
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


class Open(NamedTuple):
    """A socket that a loop still serves, in words, and how to close it."""

    words: str
    close: Callable[[], None]


def left_open(loop: asyncio.AbstractEventLoop) -> list[Open]:
    """Return the connections and listeners that any selector loop still serves, by descriptor."""
    assert isinstance(loop, selector_events.BaseSelectorEventLoop)
    transports = sorted(loop._transports.items())
    found = [Open(repr(transport), transport.abort) for _, transport in transports if not transport.is_closing()]
    for descriptor, key in sorted(loop._selector.get_map().items()):
        reader = key.data[0]
        if reader is not None and getattr(reader._callback, "__name__", "") == "_accept_connection":
            sock = reader._args[1]  # as _start_serving gave it: (protocol_factory, sock, ...)
            found.append(Open(f"listener fd={descriptor} {sock.getsockname()}", partial(loop._stop_serving, sock)))
    return found
