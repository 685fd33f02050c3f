"""One session of a sink: SMTP (RFC 5321) or LMTP (RFC 2033) as a server that takes what it is given.

It offers SIZE, 8BITMIME, PIPELINING and ENHANCEDSTATUSCODES. Content ends with CRLF . CRLF and with nothing else, so that
a relay which ends it otherwise is seen to merge or to split messages.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Literal, Protocol

from conformance.wire.sockets import port_of

LARGEST = 64 * 1024 * 1024
"""Octets of the largest message that a sink takes: above any MaxMessageSize of a node."""

LONGEST = 1024 * 1024
"""Octets of the longest line of content that a sink takes."""

_COMMAND = 4096
"""Octets of the longest command line that a sink takes."""

_END = b"\r\n.\r\n"
_PATH = re.compile(
    r'\s*(?:<(?:@[^:<>]*:)?(?P<path>(?:"(?:[^"\\]|\\.)*"|[^\s"<>])*)>|(?P<bare>[^\s<>]+))(?:\s+(?P<parameters>.*))?',
    re.DOTALL,
)
_PARAMETERS = {"MAIL": frozenset({"SIZE", "BODY"}), "RCPT": frozenset[str]()}


class Taker(Protocol):
    """The sink to which a session belongs."""

    name: str
    protocol: Literal["smtp", "lmtp"]

    def scripted(self, at: str, recipient: str | None = None) -> str | None:
        """Return the reply that was ordered for this place, or None to take what comes."""
        ...

    def take(self, port: int, sender: str, recipients: list[str], content: bytes) -> list[str]:
        """Take a message from the client at a port; return one reply, or with LMTP one for each recipient."""
        ...

    def opened(self, transport: asyncio.Transport) -> None:
        """Note a connection."""
        ...

    def closed(self, transport: asyncio.Transport) -> None:
        """Note that a connection has ended."""
        ...

    def failed(self, error: Exception) -> None:
        """Keep an exception of the sink's own until it is closed."""
        ...


class SinkSession(asyncio.Protocol):
    """What a sink says to one client."""

    _transport: asyncio.Transport

    def __init__(self, sink: Taker) -> None:
        self._sink = sink
        self._hello = "LHLO" if sink.protocol == "lmtp" else "EHLO"
        self._buffer = bytearray()
        self._content: bytearray | None = None
        self._oversized = False
        self._greeted = False
        self._sender: str | None = None
        self._recipients: list[str] = []
        self._verbs: dict[str, Callable[[str], str]] = {
            self._hello: self._extended_hello,
            "MAIL": self._mail,
            "RCPT": self._rcpt,
            "DATA": self._data,
            "RSET": self._rset,
            "NOOP": lambda _: "250 2.0.0 OK",
            "VRFY": lambda _: "252 2.5.2 not verified, but it would be taken",
            "QUIT": self._quit,
        }
        if sink.protocol == "smtp":
            self._verbs["HELO"] = self._plain_hello

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the client, or turn it away when the sink was told to."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._sink.opened(transport)
        refusal = self._sink.scripted("connect")
        self._say(refusal or f"220 {self._sink.name}.test sink")
        if refusal is not None:
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Answer every line that is whole, and take content that has come to its end."""
        self._buffer += data
        while not self._transport.is_closing():
            if self._content is not None:
                if not self._read_content(self._content):
                    return
            elif (line := self._next_line()) is not None:
                if reply := self._answer(line):
                    self._say(reply)
            else:
                return

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the session; content without its end was never taken."""
        self._sink.closed(self._transport)

    def _say(self, reply: str) -> None:
        self._transport.write(reply.encode("ascii", "backslashreplace") + b"\r\n")

    def _next_line(self) -> bytes | None:
        end = self._buffer.find(b"\n") + 1
        if end == 0:
            if len(self._buffer) > _COMMAND:
                self._say("500 5.5.2 the line is too long")
                self._transport.close()
            return None
        line = bytes(self._buffer[:end]).rstrip(b"\r\n")
        del self._buffer[:end]
        return line

    def _answer(self, line: bytes) -> str:
        if len(line) > _COMMAND:
            return "500 5.5.2 the line is too long"
        if not line.isascii():
            return "500 5.5.2 the line is not ASCII, and SMTPUTF8 is not offered"
        verb, _, rest = line.decode("ascii").partition(" ")
        work = self._verbs.get(verb.upper())
        if work is None:
            return "500 5.5.1 no such command"
        return work(rest.strip())

    def _extended_hello(self, client: str) -> str:
        if not client:
            return f"501 5.5.4 {self._hello} wants the name of the client"
        self._greeted = True
        self._reset()
        lines = (f"{self._sink.name}.test", f"SIZE {LARGEST}", "8BITMIME", "PIPELINING", "ENHANCEDSTATUSCODES")
        return "\r\n".join(f"250{' ' if line is lines[-1] else '-'}{line}" for line in lines)

    def _plain_hello(self, client: str) -> str:
        if not client:
            return "501 5.5.4 HELO wants the name of the client"
        self._greeted = True
        self._reset()
        return f"250 {self._sink.name}.test"

    def _mail(self, rest: str) -> str:
        if not self._greeted:
            return f"503 5.5.1 {self._hello} comes first"
        if self._sender is not None:
            return "503 5.5.1 MAIL was given already"
        address, refusal = _address("MAIL", "FROM:", rest)
        refusal = refusal or self._sink.scripted("MAIL")
        if refusal is not None:
            return refusal
        self._sender = address
        return "250 2.1.0 OK"

    def _rcpt(self, rest: str) -> str:
        if self._sender is None:
            return "503 5.5.1 MAIL comes first"
        address, refusal = _address("RCPT", "TO:", rest)
        if refusal is None and not address:
            refusal = "501 5.1.3 RCPT wants an address"
        refusal = refusal or self._sink.scripted("RCPT", address)
        if refusal is not None:
            return refusal
        self._recipients.append(address)
        return "250 2.1.5 OK"

    def _data(self, rest: str) -> str:
        if not self._recipients:
            return "503 5.5.1 RCPT comes first"
        if rest:
            return "501 5.5.4 DATA takes no argument"
        if (refusal := self._sink.scripted("DATA")) is not None:
            return refusal
        self._content = bytearray(b"\r\n")  # so that a first line of one dot ends it too
        self._oversized = False
        return "354 end with CRLF . CRLF"

    def _rset(self, _: str) -> str:
        self._reset()
        return "250 2.0.0 OK"

    def _quit(self, _: str) -> str:
        self._transport.write(b"221 2.0.0 goodbye\r\n")
        self._transport.close()
        return ""

    def _reset(self) -> None:
        self._sender = None
        self._recipients = []

    def _read_content(self, content: bytearray) -> bool:
        """Move what has come of the content; say whether it has come to its end."""
        start = max(0, len(content) - len(_END) + 1)
        content += self._buffer
        self._buffer.clear()
        end = content.find(_END, start)
        if end < 0:
            if len(content) > LARGEST + len(_END):
                self._oversized = True
                del content[: -len(_END)]
            return False
        self._buffer += content[end + len(_END) :]
        del content[end + 2 :]
        self._content = None
        self._say(self._taken(bytes(content)))
        self._reset()
        return True

    def _taken(self, content: bytes) -> str:
        if self._oversized or len(content) - 2 > LARGEST:
            return self._for_each("552 5.3.4 the message is too large")
        if len(content) > LONGEST and max(map(len, content.split(b"\r\n"))) > LONGEST:
            return self._for_each("500 5.5.2 a line of the content is too long")
        whole = content.replace(b"\r\n.", b"\r\n")[2:]  # RFC 5321, 4.5.2: a leading dot was added
        port = port_of(self._transport.get_extra_info("peername"))
        try:
            return "\r\n".join(self._sink.take(port, self._sender or "", self._recipients, whole))
        except Exception as error:  # noqa: BLE001  # raised when the sink is closed
            self._sink.failed(error)
            return self._for_each("451 4.3.0 the sink itself failed")

    def _for_each(self, reply: str) -> str:
        """Return a reply as often as the protocol asks for: with LMTP once for each recipient (RFC 2033, 4.2)."""
        return "\r\n".join([reply] * (len(self._recipients) if self._sink.protocol == "lmtp" else 1))


def _address(verb: str, keyword: str, rest: str) -> tuple[str, str | None]:
    """Return the address of a MAIL or RCPT command, and the reply that refuses it, if any."""
    if rest[: len(keyword)].upper() != keyword:
        return "", f"501 5.5.4 {verb} {keyword}<address>"
    found = _PATH.fullmatch(rest[len(keyword) :])
    if found is None:
        return "", "553 5.1.3 the address is malformed"
    for parameter in (found["parameters"] or "").upper().split():
        name, _, value = parameter.partition("=")
        if name not in _PARAMETERS[verb]:
            return "", f"555 5.5.4 {name} was not offered"
        if name == "BODY" and value not in ("7BIT", "8BITMIME"):
            return "", "501 5.5.4 BODY is 7BIT or 8BITMIME"
        if name == "SIZE" and not value.isdecimal():
            return "", "501 5.5.4 SIZE is a number of octets"
        if name == "SIZE" and (len(value) > 15 or int(value) > LARGEST):
            return "", "552 5.3.4 the message is too large"
    return found["bare"] or found["path"] or "", None
