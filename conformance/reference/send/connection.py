"""A client's connection to a server: what is sent over it, and the replies that are read from it.

SMTP and LMTP have the same replies; they differ in how many follow a content (lmtp.py). The client session (dialogue.py) writes
with `write` and awaits `read_reply`; asyncio calls the methods of its protocol. aiosmtplib is not used: it connects by host name,
hides whether the final dot was sent before a session was lost, rewrites line ends, and drops all replies of LMTP but the first.
"""

import asyncio
import re
import ssl
from collections import deque
from collections.abc import Mapping

from conformance.reference.message import Recipient
from conformance.reference.replies import Reply, parse_reply

_LINE = re.compile(rb"([2-5][0-9]{2})(?:([ -])(.*))?")
_MAX_LINE = 64 * 1024
"""Octets of a line without its end at which the connection is dropped."""


class SessionLost(Exception):
    """The server could not be reached, was silent for too long, ended the session, or gave a reply with which it cannot go on.

    `refused` has the recipients that the server had refused for good in the transaction under way, with the reply for each: they
    are not tried again (RFC 5321 4.2.1).
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.refused: Mapping[Recipient, Reply] = {}


class Refused(SessionLost):
    """The server refused what this side needs. The session may be open: then it is ended with QUIT (RFC 5321 4.1.1.10)."""


class TlsFailed(SessionLost):
    """TLS could not begin, after the server had answered STARTTLS with 220: the connection cannot be used any more."""


class Connection(asyncio.Protocol):
    """An open connection to a server.

    `_received` is the beginning of a line that is not complete, `_lines` the texts of a reply that is not; `_replies` are whole
    replies that have not been read. `_ended` says why the connection has ended, and is empty while it is open. `_waiter` is the
    future that `read_reply` awaits.
    """

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._received = b""
        self._lines: list[str] = []
        self._replies: deque[Reply] = deque()
        self._ended = ""
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; asyncio calls this."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take the lines that are complete, and keep the rest; asyncio calls this.

        A line that is no reply line, or is too long, ends the connection.
        """
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._add_line(line)
        if len(self._received) > _MAX_LINE:
            self._end("a line of a reply has no end")

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the connection has ended; asyncio calls this."""
        self._end(f"the server ended the connection: {error or 'FIN'}")

    def _add_line(self, line: bytes) -> None:
        """Add a line to the reply under way; the first line without a hyphen after its code ends the reply, and wakes `read_reply`.

        A line that is no reply line ends the connection.
        """
        match = _LINE.fullmatch(line.rstrip(b" \t\r"))
        if match is None:
            self._end(f"not a valid reply: {line[:80]!r}")
            return
        self._lines.append((match[3] or b"").strip().decode("utf-8", "surrogateescape"))
        if match[2] != b"-":
            self._replies.append(parse_reply(int(match[1]), "\n".join(self._lines)))
            self._lines.clear()
            self._wake()

    def _end(self, reason: str) -> None:
        """Drop the connection, and wake `read_reply`, which raises SessionLost with `reason` once it has returned the replies before.

        Does nothing if the connection has ended.
        """
        if not self._ended:
            self._ended = reason
            self._transport.abort()
            self._wake()

    def _wake(self) -> None:
        """Let `read_reply`, if it waits, look again for a reply."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def write(self, octets: bytes) -> None:
        """Put octets into the send buffer, and return at once. Raises SessionLost if the connection has ended.

        Replies that have come and were not read are dropped: they answer no command.
        """
        if self._ended:
            raise SessionLost(self._ended)
        self._replies.clear()
        self._transport.write(octets)

    async def read_reply(self, idle_timeout: float) -> Reply:
        """Wait for the next reply and return it. Raises SessionLost if the connection ends or the server is silent for too long.

        That is `idle_timeout` seconds without a complete reply; the connection is dropped then. The time begins again if the
        server has read some of what is still in the send buffer.
        """
        loop = asyncio.get_running_loop()
        while not self._replies:
            if self._ended:
                raise SessionLost(self._ended)
            unsent = self._transport.get_write_buffer_size()
            self._waiter = loop.create_future()
            timer = loop.call_later(idle_timeout, self._wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
            if not self._replies and self._transport.get_write_buffer_size() >= unsent:
                self._end(f"no reply within {idle_timeout:g} s")
        return self._replies.popleft()

    async def start_tls(self, context: ssl.SSLContext, timeout: float) -> None:
        """Begin TLS, after 220 to STARTTLS, and wait for the handshake, `timeout` seconds at most. Raises TlsFailed if it fails.

        What the server has sent in the clear and was not read is dropped.
        """
        if self._ended:
            raise TlsFailed(f"no TLS: {self._ended}")
        self.forget_plaintext()
        try:
            secured = await asyncio.get_running_loop().start_tls(
                self._transport, self, context, ssl_handshake_timeout=timeout
            )
        except OSError as error:
            raise TlsFailed(f"no TLS: {error!r}") from error
        if secured is None:
            raise TlsFailed("no TLS: the connection was lost")
        self._transport = secured

    def forget_plaintext(self) -> None:
        """Drop what the server has sent behind its reply to STARTTLS: it is not part of the secured session (RFC 3207 4.2)."""
        self._received = b""
        self._lines.clear()
        self._replies.clear()

    @property
    def is_open(self) -> bool:
        """Whether the connection is open, as far as this side knows."""
        return not self._ended

    def abort(self) -> None:
        """Drop the connection at once; does nothing if it has ended."""
        self._end("this side dropped the connection")
