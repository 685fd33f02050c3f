"""The sessions of a cell as TCP segments, in the order of the history.

A history has command lines and replies, not packets, and only the digest of a content. So each command, reply or content
becomes segments of its own, and handshakes and acknowledgement numbers are invented. A content is replaced by a stand-in:
its Message-ID and Date, and a sentence that its octets were not recorded; the octets of a chunk (BDAT, RFC 3030) by as many
others, since Wireshark counts them. Addresses are 10.0.PARTY.LISTENER (with more than 255 parties 10.HIGH.LOW.LISTENER). All
servers use port 25, by which Wireshark recognises SMTP. `pcapng` makes packets of the segments; `scenario` uses the stand-ins.

A *stand-in* is invented text in place of octets that were not recorded. Octets are numbered from 0 on each side of a connection.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import get_args

from conformance.history.events import AnyEvent, Closed, Command, Connected, ConnectFailed, Content, Reply
from conformance.history.values import Digest, Listener
from conformance.results.reader import StoredCell

SYN, ACK, PUSH, FIN, RESET = 0x02, 0x10, 0x08, 0x01, 0x04
"""Flags of a TCP segment (RFC 9293 section 3.1)."""

_LISTENERS = ("", *get_args(Listener))
_FIRST_PORT, _PORTS = 10_000, 50_000
"""Clients' ports, used in turn."""
_KNOWN_VERB_LENGTH = 4
"""Letters: Wireshark shows a longer verb as a part of a message, so the line goes into the packet's comment too."""
_CHUNK = re.compile(r"BDAT ([0-9]{1,9})( LAST)?\s*", re.IGNORECASE)
_MAX_CHUNK = 2**21
"""Octets of a chunk that are stood in for, at most."""
_MAX_SEGMENT = 16_384
"""Octets of data in one segment; an IPv4 packet has two octets for its length."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a session: a party as a client (`listener` is ''), or a listener of a server or sink."""

    party: str
    listener: str = ""

    @property
    def host_name(self) -> str:
        """The host name in captures: `mbx1.transport.test` for a listener, `outside.test` for a client."""
        return f"{self.party}.{self.listener}.test" if self.listener else f"{self.party}.test"


@dataclass(frozen=True, slots=True)
class Segment:
    """One TCP segment; `n` is the number of the event that it comes from, `t` its time in documented seconds.

    `sequence` and `acknowledged` count octets from 0; `comment` is for the packet, '' for none.
    """

    n: int
    t: float
    source: Endpoint
    source_port: int
    destination: Endpoint
    destination_port: int
    flags: int
    sequence: int
    acknowledged: int
    data: bytes = b""
    comment: str = ""


class Addresses:
    """Assigns an IPv4 address to each endpoint, in the order of the calls of `address_of`."""

    def __init__(self) -> None:
        """Begin without any address; `by_host_name` will have the assigned ones."""
        self._parties: dict[str, int] = {}
        self.by_host_name: dict[str, bytes] = {}

    def address_of(self, endpoint: Endpoint) -> bytes:
        """Return the four octets of an endpoint's address; the first call for an endpoint assigns the address."""
        number = self._parties.setdefault(endpoint.party, len(self._parties) + 1)
        address = bytes((10, number >> 8, number & 0xFF, _LISTENERS.index(endpoint.listener) + 1))
        self.by_host_name.setdefault(endpoint.host_name, address)
        return address


@dataclass(slots=True)
class _Stream:
    """One TCP connection: it numbers the segments of both sides. `sent` has the next sequence number of each side.

    `port` is the client's; the server's is 25. `is_open` is False after the event `Closed`. `is_chunked` says that the last
    command with a content was BDAT.
    """

    client: Endpoint
    server: Endpoint
    port: int
    sent: dict[Endpoint, int] = field(default_factory=dict)
    is_open: bool = True
    is_chunked: bool = False

    def __post_init__(self) -> None:
        """Let both sides begin with sequence number 0."""
        self.sent = {self.client: 0, self.server: 0}

    def next_segment(
        self, event: AnyEvent, source: Endpoint, flags: int, data: bytes = b"", comment: str = ""
    ) -> Segment:
        """Return the next segment from `source` to the other side, and advance the sequence number of `source`.

        SYN and FIN count as one octet. A segment without the flag ACK acknowledges nothing (0).
        """
        destination = self.server if source == self.client else self.client
        source_port, destination_port = (self.port, 25) if source == self.client else (25, self.port)
        segment = Segment(
            n=event.n,
            t=event.t,
            source=source,
            source_port=source_port,
            destination=destination,
            destination_port=destination_port,
            flags=flags,
            sequence=self.sent[source],
            acknowledged=self.sent[destination] if flags & ACK else 0,
            data=data,
            comment=comment,
        )
        self.sent[source] += len(data) + bool(flags & (SYN | FIN))
        return segment

    def data_segments(self, event: AnyEvent, source: Endpoint, octets: bytes, comment: str = "") -> Iterator[Segment]:
        """Yield the segments from `source` that carry these octets, the first one with the comment; nothing for no octets."""
        for start in range(0, len(octets), _MAX_SEGMENT):
            chunk = octets[start : start + _MAX_SEGMENT]
            yield self.next_segment(event, source, ACK | PUSH, chunk, "" if start else comment)

    def handshake(self, event: AnyEvent) -> Iterator[Segment]:
        """Yield the three segments of a handshake: SYN, SYN and ACK, ACK."""
        yield self.next_segment(event, self.client, SYN)
        yield self.next_segment(event, self.server, SYN | ACK)
        yield self.next_segment(event, self.client, ACK)

    def closing_segments(self, event: Closed) -> Iterator[Segment]:
        """Mark the stream as closed; yield FIN from both sides and an ACK, or for a reset one RST from the side that made it.

        A session that the harness's link ended (`link`) is shown as ended by the server, with a comment. One that goes on in
        TLS (`secured`) ends here, with a comment too. The stream is marked when the first segment is asked for.
        """
        self.is_open = False
        first, other = (self.client, self.server) if event.by == "client" else (self.server, self.client)
        comment = "the harness ended the session" if event.by == "link" else ""
        if event.how == "reset":
            yield self.next_segment(event, first, RESET | ACK, comment=comment)
            return
        if event.how == "secured":
            comment = "TLS begins here: what follows was not recorded"
        yield self.next_segment(event, first, FIN | ACK, comment=comment)
        yield self.next_segment(event, other, FIN | ACK)
        yield self.next_segment(event, first, ACK)


def tcp_segments(cell: StoredCell) -> Iterator[Segment]:
    """Yield the segments of all sessions and failed connections of a cell, in the order of its history.

    Events of a session that the history does not open, or that come after its end, have no segments.
    """
    streams: dict[str, _Stream] = {}
    ports = (_FIRST_PORT + number % _PORTS for number in itertools.count())
    for event in cell.events:
        if isinstance(event, Connected):
            stream = _Stream(Endpoint(event.client), Endpoint(event.server, event.listener), next(ports))
            streams[event.session] = stream
            yield from stream.handshake(event)
        elif isinstance(event, ConnectFailed):
            stream = _Stream(Endpoint(event.client), Endpoint(event.server, event.listener), next(ports))
            yield stream.next_segment(event, stream.client, SYN)
            yield stream.next_segment(event, stream.server, RESET | ACK, comment=event.reason)
        elif isinstance(event, Command | Reply | Content | Closed):
            session_stream = streams.get(event.session)
            if session_stream is not None and session_stream.is_open:
                yield from _event_segments(session_stream, event)


def _event_segments(stream: _Stream, event: Command | Reply | Content | Closed) -> Iterable[Segment]:
    """Return the segments of one event of an open stream, and note in `stream` what later ones depend on.

    The first segment has a comment for a command whose verb is longer than `_KNOWN_VERB_LENGTH`, a malformed reply and a content.
    A content that came in chunks has no octets, and so no segments, since the segments of its BDAT commands stand for it.
    """
    match event:
        case Command():
            line = f"{event.line}\r\n".encode("utf-8", "surrogateescape")
            comment = event.line if len(event.verb) > _KNOWN_VERB_LENGTH else ""
            stream.is_chunked = event.verb == "BDAT" or (stream.is_chunked and event.verb != "DATA")
            return (
                *stream.data_segments(event, stream.client, line, comment),
                *stream.data_segments(event, stream.client, _chunk_stand_in(event.line)),
            )
        case Reply():
            return stream.data_segments(event, stream.server, reply_octets(event), event.malformed)
        case Content():
            octets = b"" if stream.is_chunked else content_stand_in(event.digest)
            return stream.data_segments(event, stream.client, octets, _missing_content_text(event.digest))
        case Closed():
            return stream.closing_segments(event)


def reply_octets(reply: Reply) -> bytes:
    """Return a reply in the syntax of RFC 5321 section 4.2; one without lines has an empty text."""
    last = len(reply.lines) - 1
    lines = [f"{reply.code}{' ' if i == last else '-'}{line}\r\n" for i, line in enumerate(reply.lines)]
    return "".join(lines or [f"{reply.code} \r\n"]).encode("utf-8", "surrogateescape")


def _chunk_stand_in(line: str) -> bytes:
    """Return a stand-in for the octets that follow a command line: for BDAT as many as the line says, else none.

    A chunk larger than `_MAX_CHUNK` gets that many.
    """
    chunk = _CHUNK.fullmatch(line)
    size = min(int(chunk[1]), _MAX_CHUNK) if chunk else 0
    text = f"(a chunk of {size} octets was sent here; they were not recorded)\r\n".encode()
    octets = text * (size // len(text) + 1)
    return octets[len(octets) - size :]


def content_stand_in(digest: Digest) -> bytes:
    """Return a stand-in for a content, with the final dot: Message-ID and Date from the digest, and a sentence."""
    fields = [f"Message-ID: <{digest.message_id}>"] if digest.message_id else []
    fields += [f"Date: {digest.date}"] if digest.date else []
    body = ["", f"({_missing_content_text(digest)})", "."]
    return "".join(f"{line}\r\n" for line in (*fields, *body)).encode("utf-8", "surrogateescape")


def _missing_content_text(digest: Digest) -> str:
    """Return the sentence that stands for the octets of a content, with their number and SHA-256."""
    return f"a content of {digest.size} octets was sent here, SHA-256 {digest.sha256}; its octets were not recorded"
