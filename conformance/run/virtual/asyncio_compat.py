"""The private names of asyncio on which virtual time is built, and a check that this Python's asyncio still has them.

asyncio has no public way to see that a socket was accepted, written to or closed, or when the next timer is due. This module
and `tracking_loop` are the only ones of the harness that use its private names (`transport` has two names that asyncio's TLS
looks for). `incompatibilities` compares them with the asyncio that is running; a name that only changed its meaning is found by
the tests of virtual time.
"""

import asyncio
from asyncio import base_events, selector_events, sslproto
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

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
"""The methods of SelectorEventLoop that `tracking_loop` overrides or calls, with their parameters (without `self`)."""

_HANDLE_SLOTS = {
    "_callback", "_args", "_cancelled", "_loop", "_source_traceback", "_repr", "_context", "_scheduled", "_when",
}  # fmt: skip
"""The attributes of a Handle and a TimerHandle, which FastHandle and FastTimerHandle set."""

_STATE: dict[type, tuple[str, ...]] = {
    base_events.BaseEventLoop: ("_ready", "_stopping", "_closed", "_clock_resolution"),
    selector_events.BaseSelectorEventLoop: ("_selector", "_transports"),
    sslproto.SSLProtocol: ("_app_transport",),
}
"""The attributes that are used of each class; its __init__ sets them."""

_COUNTING, _STORING = (), ("transport",)
"""The parameters of a server's `_attach` and `_detach`: up to 3.12 it counts its connections, since then it stores them."""


def _parameters(kind: type, name: str) -> tuple[str, ...] | None:
    """Return the names of a method's parameters, without `self`; None when the class has no such method."""
    method = getattr(kind, name, None)
    return method and tuple(signature(method).parameters)[1:]


_ATTACH_PARAMETERS = _parameters(base_events.Server, "_attach")


def incompatibilities() -> list[str]:
    """Return the private names that this Python's asyncio lacks, or has with other parameters; empty when it fits.

    `TimerHandle` stands for all attributes of handles.
    """
    names = [
        f"SelectorEventLoop.{name}"
        for name, parameters in _SIGNATURES.items()
        if _parameters(asyncio.SelectorEventLoop, name) != parameters
    ]
    names += [
        f"Server.{name}"
        for name in ("_attach", "_detach")
        if _parameters(base_events.Server, name) not in (_COUNTING, _STORING)
    ]
    if {*asyncio.Handle.__slots__, *asyncio.TimerHandle.__slots__} - {"__weakref__"} != _HANDLE_SLOTS:
        names.append("TimerHandle")
    for kind, attributes in _STATE.items():
        code = kind.__init__.__code__
        names += [f"{kind.__name__}.{name}" for name in attributes if name not in code.co_names]
    return names


class ReadHandle:
    """The reader of a socket in the selector: like a Handle of asyncio, without copying and entering a context."""

    __slots__ = ("_cancelled", "_run")

    def __init__(self, run: Callable[[], None]) -> None:
        """`run` is what the loop calls when the socket is readable."""
        self._run = run
        self._cancelled = False

    def cancel(self) -> None:
        """Never call `run` again, even if the socket is ready already."""
        self._cancelled = True


def _init_handle(self: asyncio.Handle, callback: Any, args: Any, loop: asyncio.AbstractEventLoop, context: Any) -> None:
    """Set what the `__init__` of Handle sets, without what asyncio adds for debugging: a session takes dozens of handles.

    It is the `__init__` of FastHandle, and FastTimerHandle calls it. `context` None means a copy of the current one.
    """
    self._context = copy_context() if context is None else context
    self._loop = loop
    self._callback = callback
    self._args = args
    self._cancelled = False
    self._repr = self._source_traceback = None


class FastHandle(asyncio.Handle):
    """A Handle that is cheaper to make."""

    __slots__ = ()
    __init__ = _init_handle


class FastTimerHandle(asyncio.TimerHandle):
    """A TimerHandle that is cheaper to make and to cancel."""

    __slots__ = ()

    def __init__(self, when: float, callback: Any, args: Any, loop: asyncio.AbstractEventLoop, context: Any) -> None:
        _init_handle(self, callback, args, loop, context)
        self._when = when
        self._scheduled = False

    def cancel(self) -> None:
        """Cancel the timer, as TimerHandle.cancel does outside of debug mode."""
        if not self._cancelled:
            self._cancelled = True
            self._callback = None
            self._args = ()
            self._loop._timer_handle_cancelled(self)


def attach_to_server(server: Any, transport: asyncio.Transport) -> None:
    """Add a connection to those that an asyncio.Server waits for when it closes."""
    server._attach(*([transport] if _ATTACH_PARAMETERS == _STORING else []))


def detach_from_server(server: Any, transport: asyncio.Transport) -> None:
    """Remove a connection from those of an asyncio.Server."""
    server._detach(*([transport] if _ATTACH_PARAMETERS == _STORING else []))


class OpenSocket(NamedTuple):
    """A socket that a loop still serves, and a function that closes it at once."""

    description: str
    close: Callable[[], None]


def open_sockets(loop: asyncio.AbstractEventLoop) -> list[OpenSocket]:
    """Return the connections, then the listeners that a selector loop still serves, each in the order of descriptors.

    Connections that are closing already are left out. The loop must be a SelectorEventLoop.
    """
    assert isinstance(loop, selector_events.BaseSelectorEventLoop)
    transports = [transport for _, transport in sorted(loop._transports.items()) if not transport.is_closing()]
    found = [OpenSocket(repr(transport), transport.abort) for transport in transports]
    for descriptor, key in sorted(loop._selector.get_map().items()):
        reader = key.data[0]  # asyncio registers (reader, writer), each a Handle or None
        if isinstance(reader, asyncio.Handle) and getattr(reader._callback, "__name__", "") == "_accept_connection":
            listener = reader._args[1]  # _start_serving passes (protocol_factory, sock, ...)
            description = f"listener fd={descriptor} {listener.getsockname()}"
            found.append(OpenSocket(description, partial(loop._stop_serving, listener)))
    return found
