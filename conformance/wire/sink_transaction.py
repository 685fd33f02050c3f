"""The mail transaction of a sink's session: its sender and recipients, and how its content is read and delivered.

Content after DATA ends with CRLF . CRLF and with nothing else: a mail server that ends it otherwise is seen to merge or to
split messages. Chunks of BDAT are taken as they are (RFC 3030). The session (`conformance.wire.sink_session`) answers commands,
and passes what the client sends after DATA or BDAT to its transaction. A *sink* is the harness's server that receives mail;
`SessionOwner` is what its sessions and their transactions need of it.

A *reply* has one line or more, without the last CRLF. A *scripted* reply is the one that the scenario has given for a point of
the session; it replaces the sink's own.
"""

import asyncio
from dataclasses import dataclass
from typing import Literal, Protocol

from conformance.wire.secured_record import SecuredRecord
from conformance.wire.sink_addresses import MAX_MESSAGE

MAX_CONTENT_LINE = 1024 * 1024
"""Octets of the longest line of content that a sink accepts."""

_END_OF_CONTENT = b"\r\n.\r\n"


class SessionOwner(Protocol):
    """The sink to which a session belongs (implemented by `Sink`)."""

    name: str
    protocol: Literal["smtp", "lmtp"]
    keywords: tuple[str, ...]
    """The extensions that it offers beside SIZE."""
    secured_keywords: tuple[str, ...]
    """Those that it offers within TLS."""

    def record_secured(self, port: int) -> SecuredRecord | None:
        """Return a new record for what is said within TLS to the client at a port; None where nothing is to be recorded."""
        ...

    def take_scripted_reply(self, at: str, recipient: str | None = None) -> str | None:
        """Return the reply that the scenario gives at `connect`, `STARTTLS`, `MAIL`, `RCPT` or `DATA`; None for none.

        A reply may be limited to some uses: each call that returns it is one.
        """
        ...

    def deliver(self, port: int, sender: str, recipients: list[str], content: bytes) -> list[str]:
        """Accept or refuse a message from the client at a port; return one reply, with LMTP one for each recipient.

        `sender` is '' for the null reverse-path. `content` is not dot-stuffed.
        """
        ...

    def connection_opened(self, transport: asyncio.Transport) -> None:
        """Note an open connection."""
        ...

    def connection_closed(self, transport: asyncio.Transport) -> None:
        """Forget a connection."""
        ...

    def note_failure(self, error: Exception) -> None:
        """Keep an exception of `deliver`, to be raised when the sink is closed."""
        ...


@dataclass(slots=True)
class _Chunk:
    """A BDAT chunk: the octets that are still to come, whether it is the last, and the reply that refuses it, if any."""

    left: int
    last: bool
    refusal: str | None


class SinkTransaction:
    """The transaction of one session, and the next one after `reset`.

    `sender` is None outside of a transaction, and '' for the null reverse-path; `recipients` are those that were accepted.
    `chunks` has the octets of the transaction's chunks so far, None before the first. The session sets `sender` and adds to
    `recipients`.

    `_content` has what has come of a content after DATA, with a CRLF put before it, and is None outside of one;
    `_oversized`: it is longer than `MAX_MESSAGE`, and only its end is looked for. `_chunk` is the BDAT chunk that is being
    read, None outside of one.
    """

    def __init__(self, sink: SessionOwner) -> None:
        self._sink = sink
        self.sender: str | None = None
        self.recipients: list[str] = []
        self.chunks: bytearray | None = None
        self._content: bytearray | None = None
        self._oversized = False
        self._chunk: _Chunk | None = None

    def reset(self) -> None:
        """End the transaction: forget the sender, the recipients and the chunks."""
        self.sender = None
        self.recipients = []
        self.chunks = None

    def begin_content(self) -> None:
        """Take what the client sends next as content, up to CRLF . CRLF."""
        self._content = bytearray(b"\r\n")  # so that a first line of one dot ends it too
        self._oversized = False

    def begin_chunk(self, size: int, last: bool, refusal: str | None) -> None:
        """Take the next `size` octets, at least 0, as a chunk; `last`: it ends the content.

        `refusal` is the reply that refuses the chunk at its end, None where it is accepted.
        """
        self._chunk = _Chunk(size, last, refusal)

    @property
    def is_reading(self) -> bool:
        """Whether what the client sends next is content, or belongs to a chunk."""
        return self._content is not None or self._chunk is not None

    def read(self, buffer: bytearray, port: int) -> str | None:
        """Remove the octets of the content or chunk from `buffer`; return the reply once it is complete, None before.

        `port` is that of the client. Octets behind the end stay in the buffer. Call it only while `is_reading`.
        """
        if self._content is not None:
            return self._read_content(self._content, buffer, port)
        assert self._chunk is not None
        return self._read_chunk(self._chunk, buffer, port)

    def _read_chunk(self, chunk: _Chunk, buffer: bytearray, port: int) -> str | None:
        """Move octets from the buffer to the chunks; return the reply once this one is complete, None before.

        The octets of a refused chunk are read and dropped; with it the transaction ends. A chunk that makes the message
        longer than `MAX_MESSAGE` is refused. With the last chunk the message is delivered.
        """
        taken = buffer[: chunk.left]
        del buffer[: chunk.left]
        chunk.left -= len(taken)
        if chunk.refusal is None:
            self.chunks = (self.chunks or bytearray()) + taken
            if len(self.chunks) > MAX_MESSAGE:
                chunk.refusal = "552 5.3.4 the message is too large"
        if chunk.left:
            return None
        self._chunk = None
        if chunk.refusal is not None:
            reply = self._repeat_reply(chunk.refusal) if chunk.last else chunk.refusal
            self.reset()
        elif chunk.last:
            reply = self._deliver(bytes(self.chunks or b""), port)
            self.reset()
        else:
            reply = "250 2.0.0 OK"
        return reply

    def _read_content(self, content: bytearray, buffer: bytearray, port: int) -> str | None:
        """Move octets from the buffer to the content; return the reply once it is complete, None before.

        A complete content is delivered, or refused if it is longer than `MAX_MESSAGE`. Either way the transaction ends.
        """
        start = max(0, len(content) - len(_END_OF_CONTENT) + 1)
        content += buffer
        buffer.clear()
        end = content.find(_END_OF_CONTENT, start)
        if end < 0:
            if len(content) > MAX_MESSAGE + len(
                _END_OF_CONTENT
            ):  # refused at its end; until then only that is looked for
                self._oversized = True
                del content[: -len(_END_OF_CONTENT)]
            return None
        buffer += content[end + len(_END_OF_CONTENT) :]
        del content[end + 2 :]
        self._content = None
        if self._oversized or len(content) - 2 > MAX_MESSAGE:
            reply = self._repeat_reply("552 5.3.4 the message is too large")
        else:
            reply = self._deliver(bytes(content).replace(b"\r\n.", b"\r\n")[2:], port)  # RFC 5321 4.5.2
        self.reset()
        return reply

    def _deliver(self, content: bytes, port: int) -> str:
        """Hand a content that is not dot-stuffed to the sink, and return the replies to its end.

        A content with a line of more than `MAX_CONTENT_LINE` octets is refused with 500. An exception of the sink is
        kept there, and answered with 451.
        """
        if len(content) > MAX_CONTENT_LINE and max(map(len, content.split(b"\r\n"))) > MAX_CONTENT_LINE:
            return self._repeat_reply("500 5.5.2 a line of the content is too long")
        try:
            return "\r\n".join(self._sink.deliver(port, self.sender or "", self.recipients, content))
        except Exception as error:  # noqa: BLE001  # raised when the sink is closed
            self._sink.note_failure(error)
            return self._repeat_reply("451 4.3.0 the sink itself failed")

    def _repeat_reply(self, reply: str) -> str:
        """Return a reply to the end of the content: once, with LMTP once for each recipient (RFC 2033 4.2).

        Without an accepted recipient it is returned once with LMTP too: only BDAT LAST comes that far, and is refused.
        """
        return "\r\n".join([reply] * (max(1, len(self.recipients)) if self._sink.protocol == "lmtp" else 1))
