"""One session of a sink: the server side of SMTP (RFC 5321) or LMTP (RFC 2033).

It offers SIZE and the extensions of its sink (`OFFERED` unless the scenario says otherwise), and knows no parameter of
an extension that it does not offer. Content after DATA ends with CRLF . CRLF and with nothing else: a mail server that
ends it otherwise is seen to merge or to split messages. Chunks of BDAT are taken as they are (RFC 3030). Octets behind
STARTTLS are dropped (RFC 3207 4.2), and what is said within TLS is recorded by the sink, since the link cannot.

The method for a verb (`_mail`, `_data`) gets what follows the verb, and returns the reply without its last CRLF; '' if
the reply was sent already or comes later. A *scripted* reply is the one that the scenario has given for this point; it
replaces the sink's own.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from conformance.wire.certificate import sink_context
from conformance.wire.secured_record import SecuredRecord
from conformance.wire.sink_addresses import MAX_MESSAGE, parse_address
from conformance.wire.sockets import port_of

MAX_CONTENT_LINE = 1024 * 1024
"""Octets of the longest line of content that a sink accepts."""

_MAX_COMMAND = 4096
"""Octets of the longest command line that a sink accepts."""

_END_OF_CONTENT = b"\r\n.\r\n"
_BDAT = re.compile(r"([0-9]{1,12})( LAST)?", re.IGNORECASE)

OFFERED = ("8BITMIME", "PIPELINING", "ENHANCEDSTATUSCODES")
"""The extensions that a sink offers unless the scenario says otherwise."""


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


class SinkSession(asyncio.Protocol):
    """Answers one client's commands, and hands complete messages to the sink.

    `_sender` is None outside of a transaction. `_content` has what has come of a content after DATA, with a CRLF put
    before it, and is None outside of one; `_oversized`: it is longer than `MAX_MESSAGE`, and only its end is looked
    for. `_chunk` is the BDAT chunk that is being read, None outside of one; `_chunks` has the octets of the
    transaction's chunks so far, None before the first. `_keywords` are the extensions that EHLO offers, `_offered` the
    names of those that a client can use now, SIZE among them. `_handshake` is the task that begins TLS, `_record`
    what records what is said within it. A handler in `_verbs` gets what follows the verb, and returns the reply
    without its last CRLF.
    """

    _transport: asyncio.Transport

    def __init__(self, sink: SessionOwner) -> None:
        self._sink = sink
        self._hello = "LHLO" if sink.protocol == "lmtp" else "EHLO"
        self._buffer = bytearray()
        self._content: bytearray | None = None
        self._oversized = False
        self._chunk: _Chunk | None = None
        self._chunks: bytearray | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._record: SecuredRecord | None = None
        self._keywords = sink.keywords
        self._offered = frozenset({"SIZE", *sink.keywords})
        self._greeted = False
        self._sender: str | None = None
        self._recipients: list[str] = []
        self._verbs: dict[str, Callable[[str], str]] = {
            self._hello: self._extended_hello,
            "STARTTLS": self._starttls,
            "MAIL": self._mail,
            "RCPT": self._rcpt,
            "DATA": self._data,
            "BDAT": self._bdat,
            "RSET": self._rset,
            "NOOP": lambda _: "250 2.0.0 OK",
            "VRFY": lambda _: "252 2.5.2 not verified, but it would be taken",
            "QUIT": self._quit,
        }
        if sink.protocol == "smtp":
            self._verbs["HELO"] = self._plain_hello

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the client; with a scripted reply at `connect`, send that and close the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._sink.connection_opened(transport)
        refusal = self._sink.take_scripted_reply("connect")
        self._send(refusal or f"220 {self._sink.name}.test sink")
        if refusal is not None:
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Buffer octets, answer each complete command line, and accept or refuse a content that has ended.

        Within TLS the octets are recorded first.
        """
        self._buffer += data
        if self._record is not None:
            self._record.heard(data)
        self._handle_buffer()

    def _handle_buffer(self) -> None:
        """Answer what has come, until it is incomplete, the connection closes, or TLS begins."""
        while not self._transport.is_closing() and self._handshake is None:
            if self._content is not None:
                if not self._read_content(self._content):
                    return
            elif self._chunk is not None:
                if not self._read_chunk(self._chunk):
                    return
            elif (line := self._next_line()) is not None:
                if reply := self._answer(line):
                    self._send(reply)
            else:
                return

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel a handshake that still runs, and let the sink forget the connection; an unfinished content is not delivered."""
        if self._handshake is not None:
            self._handshake.cancel()
        self._sink.connection_closed(self._transport)

    def _send(self, reply: str) -> None:
        """Send a reply of one or more lines, and add the last CRLF; within TLS also record it."""
        octets = reply.encode("ascii", "backslashreplace") + b"\r\n"
        if self._record is not None:
            self._record.said(octets)
        self._transport.write(octets)

    def _next_line(self) -> bytes | None:
        """Remove the next line from the buffer and return it without its end; None if it is incomplete.

        Refuse an incomplete line that is too long, and close the connection.
        """
        end = self._buffer.find(b"\n") + 1
        if end == 0:
            if len(self._buffer) > _MAX_COMMAND:
                self._send("500 5.5.2 the line is too long")
                self._transport.close()
            return None
        line = bytes(self._buffer[:end]).rstrip(b"\r\n")
        del self._buffer[:end]
        return line

    def _answer(self, line: bytes) -> str:
        """Return the reply to a command line, '' if it was sent already or comes later."""
        if len(line) > _MAX_COMMAND:
            return "500 5.5.2 the line is too long"
        if not line.isascii() and "SMTPUTF8" not in self._offered:
            return "500 5.5.2 the line is not ASCII, and SMTPUTF8 is not offered"
        verb, _, rest = line.decode("utf-8", "backslashreplace").partition(" ")
        handler = self._verbs.get(verb.upper())
        if handler is None:
            return "500 5.5.1 no such command"
        return handler(rest.strip())

    def _extended_hello(self, client: str) -> str:
        """Answer EHLO (LMTP: LHLO) with the keywords, and reset the transaction; refuse it without a client's name."""
        if not client:
            return f"501 5.5.4 {self._hello} wants the name of the client"
        self._greeted = True
        self._reset()
        if self._record is None:
            self._keywords = self._sink.keywords
        self._offered = frozenset({"SIZE", *self._keywords})
        lines = [f"{self._sink.name}.test", *self._keywords, f"SIZE {MAX_MESSAGE}"]
        return "\r\n".join([*(f"250-{line}" for line in lines[:-1]), f"250 {lines[-1]}"])

    def _plain_hello(self, client: str) -> str:
        """Answer HELO, and reset the transaction; refuse it without a client's name."""
        if not client:
            return "501 5.5.4 HELO wants the name of the client"
        self._greeted = True
        self._reset()
        return f"250 {self._sink.name}.test"

    def _starttls(self, rest: str) -> str:
        """Answer STARTTLS; send 220 here, begin TLS in a task, drop what has come behind the command, and return ''.

        A refusal, also a scripted one, is returned.
        """
        if "STARTTLS" not in self._offered:
            return "500 5.5.1 no such command"
        if rest:
            return "501 5.5.4 STARTTLS takes no argument"
        reply = self._sink.take_scripted_reply("STARTTLS") or "220 2.0.0 go ahead"
        if not reply.startswith("220"):
            return reply
        self._send(reply)
        self._buffer.clear()
        self._handshake = asyncio.get_running_loop().create_task(self._begin_tls())
        return ""

    async def _begin_tls(self) -> None:
        """Make the handshake, forget what the client has said before, record from now on, and answer what has come.

        If the handshake fails, the connection is closed.
        """
        port = port_of(self._transport.get_extra_info("peername"))
        try:
            secured = await asyncio.get_running_loop().start_tls(
                self._transport, self, sink_context(), server_side=True
            )
        except OSError:  # the client has left, or has sent something else
            secured = None
        self._handshake = None
        if secured is None:
            self._transport.abort()
            return
        self._sink.connection_closed(self._transport)
        self._transport = secured
        self._sink.connection_opened(secured)
        self._greeted = False
        self._reset()
        self._keywords = self._sink.secured_keywords
        self._record = self._sink.record_secured(port)
        if self._record is not None and self._buffer:  # it came with the end of the handshake
            self._record.heard(bytes(self._buffer))
        self._handle_buffer()

    def _mail(self, rest: str) -> str:
        """Answer MAIL; if it is accepted, begin a transaction, else change nothing. No scripted reply accepts it."""
        if not self._greeted:
            return f"503 5.5.1 {self._hello} comes first"
        if self._sender is not None:
            return "503 5.5.1 MAIL was given already"
        address, refusal = parse_address("MAIL", "FROM:", rest, self._offered)
        refusal = refusal or self._sink.take_scripted_reply("MAIL")
        if refusal is not None:
            return refusal
        self._sender = address
        return "250 2.1.0 OK"

    def _rcpt(self, rest: str) -> str:
        """Answer RCPT; if it is accepted, add the recipient. No scripted reply accepts it, whatever its code."""
        if self._sender is None:
            return "503 5.5.1 MAIL comes first"
        address, refusal = parse_address("RCPT", "TO:", rest, self._offered)
        if refusal is None and not address:
            refusal = "501 5.1.3 RCPT wants an address"
        refusal = refusal or self._sink.take_scripted_reply("RCPT", address)
        if refusal is not None:
            return refusal
        self._recipients.append(address)
        return "250 2.1.5 OK"

    def _data(self, rest: str) -> str:
        """Answer DATA; if it is accepted, what the client sends next is content. After a scripted reply it is commands."""
        if not self._recipients:
            return "503 5.5.1 RCPT comes first"
        if self._chunks is not None:
            return "503 5.5.1 the content comes in chunks (RFC 3030 2)"
        if rest:
            return "501 5.5.4 DATA takes no argument"
        if (refusal := self._sink.take_scripted_reply("DATA")) is not None:
            return refusal
        self._content = bytearray(b"\r\n")  # so that a first line of one dot ends it too
        self._oversized = False
        return "354 end with CRLF . CRLF"

    def _bdat(self, rest: str) -> str:
        """Begin to read a chunk and return '', since it is answered at its end (RFC 3030 2), also where it is refused.

        A malformed command, or BDAT where CHUNKING is not offered, is refused at once. A transaction's first chunk is
        refused with the scripted reply at `DATA`, if there is one.
        """
        if "CHUNKING" not in self._offered:
            return "500 5.5.1 no such command"
        chunk = _BDAT.fullmatch(rest)
        if chunk is None:
            return "501 5.5.4 BDAT wants the number of octets, and LAST or nothing"
        refusal = None if self._recipients else "503 5.5.1 RCPT comes first"
        if refusal is None and self._chunks is None:
            refusal = self._sink.take_scripted_reply("DATA")
        self._chunk = _Chunk(int(chunk[1]), chunk[2] is not None, refusal)
        return ""

    def _rset(self, _: str) -> str:
        """Answer RSET, and end the transaction."""
        self._reset()
        return "250 2.0.0 OK"

    def _quit(self, _: str) -> str:
        """Answer QUIT and close the connection; return '', since the reply is sent already."""
        self._send("221 2.0.0 goodbye")
        self._transport.close()
        return ""

    def _reset(self) -> None:
        """End the transaction: forget the sender, the recipients and the chunks."""
        self._sender = None
        self._recipients = []
        self._chunks = None

    def _read_chunk(self, chunk: _Chunk) -> bool:
        """Move octets from the buffer to the chunks; return whether this one is complete, and was answered.

        The octets of a refused chunk are read and dropped; with it the transaction ends. A chunk that makes the message
        longer than `MAX_MESSAGE` is refused. With the last chunk the message is delivered.
        """
        taken = self._buffer[: chunk.left]
        del self._buffer[: chunk.left]
        chunk.left -= len(taken)
        if chunk.refusal is None:
            self._chunks = (self._chunks or bytearray()) + taken
            if len(self._chunks) > MAX_MESSAGE:
                chunk.refusal = "552 5.3.4 the message is too large"
        if chunk.left:
            return False
        self._chunk = None
        if chunk.refusal is not None:
            self._send(self._repeat_reply(chunk.refusal) if chunk.last else chunk.refusal)
            self._reset()
        elif chunk.last:
            self._send(self._deliver(bytes(self._chunks or b"")))
            self._reset()
        else:
            self._send("250 2.0.0 OK")
        return True

    def _read_content(self, content: bytearray) -> bool:
        """Move octets from the buffer to the content; return whether it is complete, and was answered.

        A complete content is delivered, or refused if it is longer than `MAX_MESSAGE`. Either way the transaction ends.
        """
        start = max(0, len(content) - len(_END_OF_CONTENT) + 1)
        content += self._buffer
        self._buffer.clear()
        end = content.find(_END_OF_CONTENT, start)
        if end < 0:
            if len(content) > MAX_MESSAGE + len(
                _END_OF_CONTENT
            ):  # refused at its end; until then only that is looked for
                self._oversized = True
                del content[: -len(_END_OF_CONTENT)]
            return False
        self._buffer += content[end + len(_END_OF_CONTENT) :]
        del content[end + 2 :]
        self._content = None
        if self._oversized or len(content) - 2 > MAX_MESSAGE:
            self._send(self._repeat_reply("552 5.3.4 the message is too large"))
        else:
            self._send(self._deliver(bytes(content).replace(b"\r\n.", b"\r\n")[2:]))  # RFC 5321 4.5.2
        self._reset()
        return True

    def _deliver(self, content: bytes) -> str:
        """Hand a content that is not dot-stuffed to the sink, and return the replies to its end.

        A content with a line of more than `MAX_CONTENT_LINE` octets is refused with 500. An exception of the sink is
        kept there, and answered with 451.
        """
        if len(content) > MAX_CONTENT_LINE and max(map(len, content.split(b"\r\n"))) > MAX_CONTENT_LINE:
            return self._repeat_reply("500 5.5.2 a line of the content is too long")
        port = port_of(self._transport.get_extra_info("peername"))
        try:
            return "\r\n".join(self._sink.deliver(port, self._sender or "", self._recipients, content))
        except Exception as error:  # noqa: BLE001  # raised when the sink is closed
            self._sink.note_failure(error)
            return self._repeat_reply("451 4.3.0 the sink itself failed")

    def _repeat_reply(self, reply: str) -> str:
        """Return a reply to the final dot: once, with LMTP once for each recipient (RFC 2033 4.2)."""
        return "\r\n".join([reply] * (len(self._recipients) if self._sink.protocol == "lmtp" else 1))
