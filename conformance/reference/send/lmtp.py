"""The LMTP client (RFC 2033), by which a node delivers into a mailbox store or to another server's mailboxes.

aiosmtplib has no LMTP: it drops everything after the first reply to the final dot, while LMTP has one reply for each recipient.
"""

import asyncio

from conformance.reference.replies import Reply, parse_reply
from conformance.reference.send.dialogue import Dialogue, SessionLost

_MAX_REPLY_LINE = 4096
_NO_REPLY = Reply(451, "4.4.2", "the session was lost before the reply for this recipient")


class LmtpDialogue(Dialogue):
    """A client session with an LMTP server."""

    greeting_command = "LHLO"
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None

    async def connect(self) -> Reply:
        """Connect, and return the server's greeting. Raises SessionLost."""
        try:
            async with asyncio.timeout(self.idle_timeout):
                self._reader, self._writer = await asyncio.open_connection(*self.address)
        except (OSError, TimeoutError) as error:
            raise SessionLost(f"no connection: {error}") from error
        return await self._reply()

    async def command(self, line: str) -> Reply:
        """Send a command line and return the reply; return 501 for one with control characters, unsent. Raises SessionLost."""
        if not line.isprintable():
            return Reply(501, "5.5.2", "a control character cannot be sent")
        self._write(line.encode("utf-8", "replace") + b"\r\n")
        return await self._reply()

    async def send_content(self, content: bytes, recipients: int) -> list[Reply]:
        """Send the content, and return the reply for each accepted recipient. Raises SessionLost.

        If the session is lost after some of the replies, the recipients of the others get 451: what the server did with the
        message for them is not known (RFC 2033 4.2).
        """
        self._write(content)
        replies: list[Reply] = []
        try:
            while len(replies) < recipients:
                replies.append(await self._reply())
        except SessionLost:
            if not replies:
                raise
            self.abort()
        return replies + [_NO_REPLY] * (recipients - len(replies))

    def abort(self) -> None:
        """Drop the connection at once; does nothing if it is closed."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.transport.abort()

    def _write(self, octets: bytes) -> None:
        """Put octets into the send buffer. Raises SessionLost if the session is closed."""
        if self._writer is None or self._writer.is_closing():
            raise SessionLost("the session is closed")
        self._writer.write(octets)

    async def _reply(self) -> Reply:
        """Read one reply, with all its lines. Raises SessionLost."""
        lines: list[str] = []
        while True:
            line = await self._read_line()
            if len(line) > _MAX_REPLY_LINE or not line[:3].isdigit() or not "200" <= line[:3] <= "599":
                raise SessionLost(f"not a valid reply: {line[:80]!r}")
            lines.append(line[4:])
            if line[3:4] != "-":  # `250-` says that another line follows
                return parse_reply(int(line[:3]), "\n".join(lines))

    async def _read_line(self) -> str:
        """Read one line, without its line end. Raises SessionLost if the connection ends, or if no line arrives within the idle timeout.

        The timeout begins again if the server has read some of what is still in the send buffer.
        """
        if self._reader is None:
            raise SessionLost("the session is closed")
        unsent = self._unsent()
        while True:
            try:
                async with asyncio.timeout(self.idle_timeout):
                    return (await self._reader.readuntil(b"\r\n")).decode("latin-1").rstrip("\r\n")
            except TimeoutError as error:
                if self._unsent() >= unsent:
                    raise SessionLost(f"no reply within {self.idle_timeout:g} s") from error
                unsent = self._unsent()
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                raise SessionLost(f"no reply: {error!r}") from error

    def _unsent(self) -> int:
        """Return the number of octets in the send buffer."""
        return self._writer.transport.get_write_buffer_size() if self._writer is not None else 0
