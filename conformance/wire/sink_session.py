"""One session of a sink: the server side of SMTP (RFC 5321) or LMTP (RFC 2033).

It offers SIZE and the extensions of its sink (`OFFERED` unless the scenario says otherwise), and knows no parameter of
an extension that it does not offer. Octets behind STARTTLS are dropped (RFC 3207 4.2), and what is said within TLS is
recorded by the sink, since the link cannot. The content of a message, after DATA or in chunks of BDAT, is read and
delivered by the session's transaction (`conformance.wire.sink_transaction`).

The method for a verb (`_mail`, `_data`) gets what follows the verb, and returns the reply without its last CRLF; '' if
the reply was sent already or comes later. A *scripted* reply is the one that the scenario has given for this point; it
replaces the sink's own.
"""

import asyncio
import re
from collections.abc import Callable

from conformance.wire.certificate import sink_context
from conformance.wire.secured_record import SecuredRecord
from conformance.wire.sink_addresses import MAX_MESSAGE, parse_address
from conformance.wire.sink_transaction import SessionOwner, SinkTransaction
from conformance.wire.sockets import port_of

_MAX_COMMAND = 4096
"""Octets of the longest command line that a sink accepts."""

_BDAT = re.compile(r"([0-9]{1,12})( LAST)?", re.IGNORECASE)

OFFERED = ("8BITMIME", "PIPELINING", "ENHANCEDSTATUSCODES")
"""The extensions that a sink offers unless the scenario says otherwise."""


class SinkSession(asyncio.Protocol):
    """Answers one client's commands, and hands complete messages to the sink.

    `_transaction` has the sender and the recipients, and reads contents from `_buffer`. `_keywords` are the extensions
    that EHLO offers, `_offered` the names of those that a client can use now, SIZE among them. `_handshake` is the task
    that begins TLS, `_record` what records what is said within it. A handler in `_verbs` gets what follows the verb, and
    returns the reply without its last CRLF.
    """

    _transport: asyncio.Transport

    def __init__(self, sink: SessionOwner) -> None:
        self._sink = sink
        self._hello = "LHLO" if sink.protocol == "lmtp" else "EHLO"
        self._buffer = bytearray()
        self._transaction = SinkTransaction(sink)
        self._handshake: asyncio.Task[None] | None = None
        self._record: SecuredRecord | None = None
        self._keywords = sink.keywords
        self._offered = frozenset({"SIZE", *sink.keywords})
        self._greeted = False
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
        """Answer the commands and contents in the buffer, until the rest is incomplete, the connection closes, or TLS begins."""
        while not self._transport.is_closing() and self._handshake is None:
            if self._transaction.is_reading:
                port = port_of(self._transport.get_extra_info("peername"))
                answer = self._transaction.read(self._buffer, port)
                if answer is None:
                    return
                self._send(answer)
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
        self._transaction.reset()
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
        self._transaction.reset()
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
        self._transaction.reset()
        self._keywords = self._sink.secured_keywords
        self._offered = frozenset({"SIZE", *self._keywords})
        self._record = self._sink.record_secured(port)
        if self._record is not None and self._buffer:  # it came with the end of the handshake
            self._record.heard(bytes(self._buffer))
        self._handle_buffer()

    def _mail(self, rest: str) -> str:
        """Answer MAIL; if it is accepted, begin a transaction, else change nothing. No scripted reply accepts it."""
        if not self._greeted:
            return f"503 5.5.1 {self._hello} comes first"
        if self._transaction.sender is not None:
            return "503 5.5.1 MAIL was given already"
        address, refusal = parse_address("MAIL", "FROM:", rest, self._offered)
        refusal = refusal or self._sink.take_scripted_reply("MAIL")
        if refusal is not None:
            return refusal
        self._transaction.sender = address
        return "250 2.1.0 OK"

    def _rcpt(self, rest: str) -> str:
        """Answer RCPT; if it is accepted, add the recipient. No scripted reply accepts it, whatever its code."""
        if self._transaction.sender is None:
            return "503 5.5.1 MAIL comes first"
        address, refusal = parse_address("RCPT", "TO:", rest, self._offered)
        if refusal is None and not address:
            refusal = "501 5.1.3 RCPT wants an address"
        refusal = refusal or self._sink.take_scripted_reply("RCPT", address)
        if refusal is not None:
            return refusal
        self._transaction.recipients.append(address)
        return "250 2.1.5 OK"

    def _data(self, rest: str) -> str:
        """Answer DATA; if it is accepted, read what the client sends next as content. After a scripted reply it is commands."""
        if not self._transaction.recipients:
            return "503 5.5.1 RCPT comes first"
        if self._transaction.chunks is not None:
            return "503 5.5.1 the content comes in chunks (RFC 3030 2)"
        if rest:
            return "501 5.5.4 DATA takes no argument"
        if (refusal := self._sink.take_scripted_reply("DATA")) is not None:
            return refusal
        self._transaction.begin_content()
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
        refusal = None if self._transaction.recipients else "503 5.5.1 RCPT comes first"
        if refusal is None and self._transaction.chunks is None:
            refusal = self._sink.take_scripted_reply("DATA")
        self._transaction.begin_chunk(int(chunk[1]), chunk[2] is not None, refusal)
        return ""

    def _rset(self, _: str) -> str:
        """Answer RSET, and end the transaction."""
        self._transaction.reset()
        return "250 2.0.0 OK"

    def _quit(self, _: str) -> str:
        """Answer QUIT and close the connection; return '', since the reply is sent already."""
        self._send("221 2.0.0 goodbye")
        self._transport.close()
        return ""
