"""A connection to a server, as its client: lines and octets out, whole replies in, and how long the server may be silent."""

import asyncio
import ssl
from collections import deque

from conformance.reference.replies import Reply, parsed
from conformance.reference.send.dialogue import SessionLost

LINE = 8192
"""Octets of one line of a reply at most."""

REPLY = 4 * LINE
"""Octets of a whole reply at most."""


class Connection(asyncio.Protocol):
    """One connection. Whatever the server says unasked is not heard (the greeting is owed from the beginning)."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._owed = 1
        self._replies: deque[Reply] = deque()
        self._lines: list[bytes] = []
        self._held = b""
        self._lost = ""
        self._waiting: asyncio.Future[None] | None = None
        self._idle = self._since = 0.0
        self._unsent = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def reset(self) -> bool:
        """Whether the server has broken the connection off, instead of ending it."""
        return self._lost == _RESET

    # what asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take the replies that are whole."""
        *lines, self._held = (self._held + data).split(b"\n")
        for line in lines:
            self._lines.append(line)
            if line[3:4] != b"-":
                self._take(self._lines)
                self._lines = []
        if len(self._held) > LINE or sum(map(len, self._lines)) > REPLY:
            self._lose("it said too much")
        if self._replies or self._lost:
            self._wake()

    def _take(self, lines: list[bytes]) -> None:
        if not self._owed or self._lost:
            return
        code = lines[-1][:3]
        if not all(line[:3].isdigit() and len(line) <= LINE for line in lines) or not b"200" <= code <= b"599":
            self._lose(f"it said {lines[-1][:80]!r}")
            return
        self._owed -= 1
        text = b"\n".join([line[4:].strip(b" \t\r\n") for line in lines])
        self._replies.append(parsed(int(code), text.decode("utf-8", "surrogateescape")))

    def eof_received(self) -> bool:
        """The server has ended the session."""
        self._lose("the server has ended the session")
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._lose(_RESET if exc is not None else "the session is over")
        self._wake()
        if self._timer is not None:
            self._timer.cancel()

    # what a dialogue says

    def write(self, octets: bytes, replies: int) -> None:
        """Send octets for which the server owes so many replies. Raises SessionLost."""
        if self._lost or self._transport is None or self._transport.is_closing():
            raise SessionLost(self._lost or "the session is over")
        self._owed += replies
        self._transport.write(octets)

    async def reply(self, idle: float) -> Reply:
        """Return the next reply; as long as octets of ours still flow, the session is not idle (`idle` seconds).

        Raises SessionLost.
        """
        if not self._replies and not self._lost:
            self._waiting = self._loop.create_future()
            self._listen(idle)
            try:
                await self._waiting
            finally:
                self._waiting = None
        if self._replies:
            return self._replies.popleft()
        raise SessionLost(self._lost)

    async def start_tls(self, context: ssl.SSLContext, idle: float) -> None:
        """Go on in TLS; what was said unencrypted and not heard yet is forgotten. Raises OSError, SessionLost."""
        if self._transport is None or self._lost:
            raise SessionLost(self._lost)
        self._held, self._lines = b"", []
        transport = await self._loop.start_tls(self._transport, self, context, ssl_handshake_timeout=idle)
        if transport is None:
            raise SessionLost("the session is over")
        self._transport = transport

    def abort(self) -> None:
        """End at once."""
        if self._transport is not None:
            self._transport.abort()

    # how long it waits

    def _listen(self, idle: float) -> None:
        """Count the silence from now on. The timer of an earlier wait serves, where it does not ring too late."""
        self._idle, self._since = idle, self._loop.time()
        self._unsent = self._still_unsent()
        if self._timer is None or self._timer.when() > self._since + idle:
            self._wind()

    def _wind(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._since + self._idle, self._rung)

    def _rung(self) -> None:
        self._timer = None
        if self._waiting is None:
            return
        if self._loop.time() < self._since + self._idle:  # it was that of an earlier wait
            self._wind()
        elif (unsent := self._still_unsent()) < self._unsent:
            self._since, self._unsent = self._loop.time(), unsent
            self._wind()
        else:
            self._lose(f"no reply within {self._idle:g} s")
            self._wake()

    def _still_unsent(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


_RESET = "the connection broke"
