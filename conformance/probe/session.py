"""One session of the probe: sends octets exactly as they are, and keeps each reply with its octets.

It differs from `wire.client.SmtpClient` in both: that client sends correct SMTP, and parses replies into texts.
"""

import asyncio
import re
import ssl
from dataclasses import dataclass, field

from conformance.report.escaping import visible
from conformance.wire.lines import describe_malformed, parse_reply_line
from conformance.wire.sockets import describe_error

_REPLY_LINES = 500
_REPLY_TEXT = 160
"""Characters of a reply that a sentence quotes."""

_ENHANCED = re.compile(r"([245])\.[0-9]{1,3}\.[0-9]{1,3}(?= |$)")

EHLO_NAME = "probe.test"

CLOSING = 421
REFUSED_AT_ONCE = 554
"""After this greeting a server may await nothing but QUIT (RFC 5321 3.1)."""

CLOSE_LIMIT = 1.0
"""Seconds to wait for a server to close the connection after its last reply."""


PIECE_PAUSE = 0.02
"""Seconds between two pieces of a group: TCP has no event that says that the peer has read one of them."""


class ServerSilent(Exception):
    """The server did not reply in time; the text says to what."""


class ServerClosed(Exception):
    """The server ended or reset the connection in place of a reply; the text says in place of which."""


class Unanswered(Exception):
    """The server left a command without a reply: the next command had its reply, and no other came."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply: its octets, its code (0 if unreadable), the texts of its lines, and the command that it answers.

    `answers` is empty for the greeting. `enhanced_offered`: ENHANCEDSTATUSCODES was in the last reply to EHLO.
    """

    raw: bytes
    code: int
    lines: tuple[str, ...]
    answers: str
    enhanced_offered: bool

    @property
    def positive(self) -> bool:
        """Whether the code is 2yz."""
        return self.code // 100 == 2

    @property
    def refused(self) -> bool:
        """Whether the code is 4yz or 5yz."""
        return self.code // 100 in (4, 5)

    @property
    def malformed(self) -> str:
        """How the octets violate the syntax of a reply, or ''."""
        return describe_malformed(self.raw)

    @property
    def enhanced_classes(self) -> tuple[str | None, ...]:
        """The class of the enhanced status code at the beginning of each line, None for a line without one."""
        matches = [_ENHANCED.match(line) for line in self.lines]
        return tuple(match[1] if match else None for match in matches)

    def __str__(self) -> str:
        """Return the reply as a sentence quotes it: `250 2.1.0 Ok`."""
        return visible(self.raw.decode("utf-8", "surrogateescape").rstrip("\r\n"), _REPLY_TEXT)


@dataclass(slots=True)
class SessionLog:
    """What all sessions of a probe had.

    `surplus`: replies that no command had asked for, each with the command before it. `unasked_closes`: in words, where the
    server closed the connection without QUIT, 421 or a greeting with 554. `after_421`: whether it closed the connection after each 421.
    """

    replies: list[Reply] = field(default_factory=list)
    surplus: list[tuple[str, Reply]] = field(default_factory=list)
    unasked_closes: list[str] = field(default_factory=list)
    after_421: list[bool] = field(default_factory=list)


class ProbeSession:
    """A connection to the server, from the greeting to the close.

    `keywords`: those of the last EHLO reply with their parameters. `ended`: nothing more can be read. `_last` is the
    beginning of what was sent last, '' before; `_last_code` the code of the last reply, 0 before; `_refused_at_once` whether the
    greeting was 554; `_pending` counts the
    replies that are still to come. `_limit` is how many seconds are waited for one.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, log: SessionLog, limit: float
    ) -> None:
        self.keywords: dict[str, str] = {}
        self.ended = False
        self._reader = reader
        self._writer = writer
        self._log = log
        self._limit = limit
        self._last = ""
        self._last_code = 0
        self._refused_at_once = False
        self._pending = 0

    @classmethod
    async def open(
        cls, address: tuple[str, int], log: SessionLog, limit: float, tls: ssl.SSLContext | None
    ) -> "ProbeSession":
        """Connect, with TLS at once if `tls` is given; the greeting is not read yet. Raises OSError, TimeoutError."""
        async with asyncio.timeout(limit):
            reader, writer = await asyncio.open_connection(*address, ssl=tls)
        return cls(reader, writer, log, limit)

    async def send(self, octets: bytes, replies: int = 1) -> None:
        """Send octets as they are; `replies` is how many replies they ask for. Raises ServerClosed, ServerSilent."""
        self._last = visible(octets[:40].decode("ascii", "backslashreplace").rstrip("\r\n"))
        self._pending += replies
        try:
            async with asyncio.timeout(self._limit):
                self._writer.write(octets)
                await self._writer.drain()
        except TimeoutError:
            raise ServerSilent(f"the server takes no more octets at {self._last!r}") from None
        except OSError as error:
            self.ended = True
            raise ServerClosed(f"{describe_error(error)} at {self._last!r}") from None

    async def pause(self) -> None:
        """Wait `PIECE_PAUSE` seconds, so that what is sent next is most likely a segment of its own."""
        await asyncio.sleep(PIECE_PAUSE)

    async def reply(self) -> Reply:
        """Wait up to `_limit` seconds for the next reply, and return it. Raises ServerSilent, ServerClosed."""
        try:
            async with asyncio.timeout(self._limit):
                return await self._read()
        except TimeoutError:
            where = f"to {self._last!r}" if self._last else "in place of a greeting"
            raise ServerSilent(f"no reply {where} within {self._limit:g} s") from None

    async def command(self, line: str | bytes) -> Reply:
        """Send a line with CRLF and return its reply.

        After a silence of `_limit` seconds NOOP is sent: if both have a reply then, that to the line was late, and is returned.
        Raises Unanswered if only one comes, ServerSilent if none does; ServerClosed.
        """
        octets = line.encode("utf-8", "surrogateescape") if isinstance(line, str) else line
        await self.send(octets + b"\r\n")
        asked = self._last
        try:
            return await self.reply()
        except ServerSilent:
            # One reply to both means that the line has none; with two the server was slow.
            await self.send(b"NOOP\r\n")
            first = await self.reply()
            try:
                async with asyncio.timeout(self._limit / 3):
                    await self._read()
            except TimeoutError:
                raise Unanswered(f"{asked!r} had no reply; NOOP behind it was answered {first}") from None
            return first

    async def greeting(self) -> Reply:
        """Wait for the greeting, and return it. Raises ServerSilent, ServerClosed."""
        self._pending += 1
        return await self.reply()

    async def ehlo(self, verb: str = "EHLO") -> Reply:
        """Send EHLO or HELO, set `keywords` ({} for HELO and a refusal), and return the reply. Raises what `command` raises."""
        reply = await self.command(f"{verb} {EHLO_NAME}")
        offers = (line.partition(" ") for line in reply.lines[1:])
        self.keywords = {word.upper(): rest for word, _, rest in offers} if reply.positive and verb == "EHLO" else {}
        return reply

    async def quit_and_read_replies(self) -> list[Reply]:
        """Send QUIT, and return all replies up to the end of the session, that to QUIT included.

        A server that is silent ends the list, and so does one that has closed. Waits `_limit` seconds for each reply that is due,
        and a second for any other. Does not set `ended` for a silent server: unless the caller does, `close` sends QUIT again.
        """
        replies: list[Reply] = []
        try:
            await self.send(b"QUIT\r\n")
            while True:
                async with asyncio.timeout(self._limit if self._pending > 0 else min(self._limit, CLOSE_LIMIT)):
                    replies.append(await self._read())
        except (ServerClosed, ServerSilent, TimeoutError):
            return replies

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Begin TLS on the open connection. Raises ServerClosed, also if the handshake fails or lasts too long."""
        try:
            async with asyncio.timeout(self._limit):
                await self._writer.start_tls(context)
        except (OSError, TimeoutError) as error:
            self.ended = True
            raise ServerClosed(f"the TLS handshake failed: {error or 'it took too long'}") from None

    async def server_closes_within(self, limit: float) -> bool:
        """Wait, and return whether the server closes the connection within `limit` seconds; a close sets `ended`.

        Anything else that the server sends is dropped.
        """
        try:
            async with asyncio.timeout(limit):
                while await self._reader.read(65536):
                    pass
        except TimeoutError:
            return False
        except OSError:  # a reset closes it too
            pass
        self.ended = True
        return True

    async def close(self) -> None:
        """End the session: send QUIT unless it has `ended`, log a reply that no command had asked for, and abort the connection.

        After 421, in place of QUIT, log whether the server closes the connection within a second.
        """
        try:
            if not self.ended:
                if self._last_code == CLOSING:
                    self._log.after_421.append(await self.server_closes_within(CLOSE_LIMIT))
                    return
                before, pending = self._last, max(self._pending, 0)
                replies = await self.quit_and_read_replies()
                if len(replies) > pending + 1:
                    self._log.surplus.append((before, replies[pending]))
        finally:
            self._writer.transport.abort()

    async def _read(self) -> Reply:
        """Wait for one reply, and log it. Raises ServerClosed at the end of the connection, and for a line without an end.

        The end is logged: after 421 as the close that it announced; else, where a reply was due, as one that was not asked for,
        unless it follows QUIT or a greeting with 554 (RFC 5321 3.1, 3.8).
        """
        raw = b""
        texts: list[str] = []
        try:
            while len(texts) < _REPLY_LINES:
                line = await self._reader.readuntil(b"\n")
                raw += line
                code, more, text = parse_reply_line(line.rstrip(b"\r\n").decode("utf-8", "surrogateescape"))
                texts.append(text)
                if not more:
                    break
        except asyncio.LimitOverrunError:
            raise ServerClosed(f"a line of the reply to {self._last!r} has no end") from None
        except (asyncio.IncompleteReadError, OSError):
            self.ended = True
            if self._last_code == CLOSING:
                self._log.after_421.append(True)
            elif not self._refused_at_once and self._pending > 0 and self._last != "QUIT":
                self._log.unasked_closes.append(f"at {self._last!r}" if self._last else "in place of a greeting")
            raise ServerClosed(f"the server closed the connection in place of a reply to {self._last!r}") from None
        self._pending -= 1
        self._last_code = code
        self._refused_at_once |= code == REFUSED_AT_ONCE and not self._last
        reply = Reply(raw, code, tuple(texts), self._last, "ENHANCEDSTATUSCODES" in self.keywords)
        self._log.replies.append(reply)
        return reply
