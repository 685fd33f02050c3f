"""Every private name of asyncio that the virtual clock stands on, in one place.

They have kept their meaning from Python 3.11 to 3.13; on any other version the loop refuses to be made, and
`tests/virtual/test_python.py` says what has to be looked at.
"""

import asyncio
import inspect
import sys

TESTED = ((3, 11), (3, 12), (3, 13))
"""The Python versions whose asyncio was read and tested."""

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


def unfamiliar() -> list[str]:
    """Return what of this Python's asyncio is not as it was when it was read; empty when all of it is."""
    loop = asyncio.SelectorEventLoop
    found = [] if sys.version_info[:2] in TESTED else [f"Python {sys.version_info.major}.{sys.version_info.minor}"]
    for name, parameters in _SIGNATURES.items():
        method = getattr(loop, name, None)
        if method is None or tuple(inspect.signature(method).parameters)[1:] != parameters:
            found.append(f"SelectorEventLoop.{name}")
    if {*asyncio.Handle.__slots__, *asyncio.TimerHandle.__slots__} - {"__weakref__"} != _HANDLE:
        found.append("TimerHandle")
    return found
