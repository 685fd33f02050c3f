"""The sessions of a cell as TCP segments: who sends which octets, in the order of the history.

A history has lines and replies, not packets, and of contents only their digests. So each unit is a segment of its own, the
handshake and the acknowledgements are made up, and a content is a stand-in: its Message-ID and Date, then the words of what
was not recorded. Addresses are of 10.0.0.0/8: the second last octet is the party, the last its listener. All servers
are at port 25, by which Wireshark knows SMTP.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import get_args

from conformance.history.events import (
    AnyEvent,
    Closed,
    Command,
    Connected,
    ConnectFailed,
    Content,
    Digest,
    Listener,
    Reply,
)
from conformance.results.reader import StoredCell

SYN, ACK, PUSH, FIN, RESET = 0x02, 0x10, 0x08, 0x01, 0x04
"""Flags of RFC 9293 3.1."""

_LISTENERS = ("", *get_args(Listener))
_FIRST_PORT, _PORTS = 10_000, 50_000
_VERB = 4
"""Letters of a verb that Wireshark's dissector of SMTP knows."""
_MOST = 16_384
"""Octets in one segment: those of IPv4 have two octets for their length."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one end of a session is: a party as a client (`listener` is ''), or one of a server's listeners."""

    party: str
    listener: str = ""

    @property
    def name(self) -> str:
        """A host's name for it."""
        return f"{self.party}.{self.listener}.test" if self.listener else f"{self.party}.test"


@dataclass(frozen=True, slots=True)
class Segment:
    """One TCP segment. `n` is the event that it comes from, `t` its time in documented seconds."""

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
    """Gives every place an IPv4 address, in the order in which they are asked for."""

    def __init__(self) -> None:
        self._parties: dict[str, int] = {}
        self.given: dict[str, bytes] = {}

    def of(self, place: Endpoint) -> bytes:
        """Return the four octets of a place's address."""
        number = self._parties.setdefault(place.party, len(self._parties) + 1)
        address = bytes((10, number >> 8, number & 0xFF, _LISTENERS.index(place.listener) + 1))
        self.given.setdefault(place.name, address)
        return address


@dataclass(slots=True)
class _Stream:
    """One connection: the next sequence number of each side."""

    client: Endpoint
    server: Endpoint
    port: int
    sent: dict[Endpoint, int] = field(default_factory=dict)
    open: bool = True

    def __post_init__(self) -> None:
        self.sent = {self.client: 0, self.server: 0}

    def segment(self, event: AnyEvent, source: Endpoint, flags: int, data: bytes = b"", comment: str = "") -> Segment:
        """Return the next segment of one side, and count what it takes of the sequence (SYN and FIN take one)."""
        to = self.server if source == self.client else self.client
        ports = (self.port, 25) if source == self.client else (25, self.port)
        made = Segment(
            event.n, event.t, source, ports[0], to, ports[1], flags, self.sent[source],
            self.sent[to] if flags & ACK else 0, data, comment,
        )  # fmt: skip
        self.sent[source] += len(data) + bool(flags & (SYN | FIN))
        return made

    def data(self, event: AnyEvent, source: Endpoint, octets: bytes, comment: str = "") -> Iterator[Segment]:
        """Yield segments of data; the comment goes with the first."""
        for start in range(0, len(octets), _MOST):
            chunk = octets[start : start + _MOST]
            yield self.segment(event, source, ACK | PUSH, chunk, "" if start else comment)

    def handshake(self, event: AnyEvent) -> Iterator[Segment]:
        """Yield SYN, SYN and ACK, ACK."""
        yield self.segment(event, self.client, SYN)
        yield self.segment(event, self.server, SYN | ACK)
        yield self.segment(event, self.client, ACK)

    def end(self, event: Closed) -> Iterator[Segment]:
        """Yield FIN from both sides, or RST from the one that ended the session; a link's own end is one of the server."""
        self.open = False
        first, other = (self.client, self.server) if event.by == "client" else (self.server, self.client)
        comment = "the harness ended the session" if event.by == "link" else ""
        if event.how == "reset":
            yield self.segment(event, first, RESET | ACK, comment=comment)
            return
        if event.how == "secured":
            comment = "TLS begins here: what follows was not recorded"
        yield self.segment(event, first, FIN | ACK, comment=comment)
        yield self.segment(event, other, FIN | ACK)
        yield self.segment(event, first, ACK)


def segments(cell: StoredCell) -> Iterator[Segment]:
    """Yield the segments of all sessions of a cell, in the order of its history."""
    streams: dict[str, _Stream] = {}
    ports = (_FIRST_PORT + number % _PORTS for number in itertools.count())
    for event in cell.events:
        if isinstance(event, Connected):
            stream = _Stream(Endpoint(event.client), Endpoint(event.server, event.listener), next(ports))
            streams[event.session] = stream
            yield from stream.handshake(event)
        elif isinstance(event, ConnectFailed):
            stream = _Stream(Endpoint(event.client), Endpoint(event.server, event.listener), next(ports))
            yield stream.segment(event, stream.client, SYN)
            yield stream.segment(event, stream.server, RESET | ACK, comment=event.reason)
        elif isinstance(event, Command | Reply | Content | Closed):
            known = streams.get(event.session)
            if known is not None and known.open:
                yield from _of(known, event)


def _of(stream: _Stream, event: Command | Reply | Content | Closed) -> Iterable[Segment]:
    match event:
        case Command():
            line = f"{event.line}\r\n".encode("utf-8", "surrogateescape")
            # Wireshark takes a verb of more than four letters for a part of a message, and does not show it.
            return stream.data(event, stream.client, line, event.line if len(event.verb) > _VERB else "")
        case Reply():
            return stream.data(event, stream.server, reply_octets(event), event.malformed)
        case Content():
            return stream.data(event, stream.client, content_stand_in(event.digest), _what_passed(event.digest))
        case Closed():
            return stream.end(event)


def reply_octets(reply: Reply) -> bytes:
    """Return a reply as RFC 5321 4.2 writes it."""
    last = len(reply.lines) - 1
    lines = [f"{reply.code}{' ' if i == last else '-'}{line}\r\n" for i, line in enumerate(reply.lines)]
    return "".join(lines or [f"{reply.code} \r\n"]).encode("utf-8", "surrogateescape")


def content_stand_in(digest: Digest) -> bytes:
    """Return a content in place of the one that passed, with the final dot: of that one only the digest was recorded."""
    fields = [f"Message-ID: <{digest.message_id}>"] if digest.message_id else []
    fields += [f"Date: {digest.date}"] if digest.date else []
    body = ["", f"({_what_passed(digest)})", "."]
    return "".join(f"{line}\r\n" for line in (*fields, *body)).encode("utf-8", "surrogateescape")


def _what_passed(digest: Digest) -> str:
    return f"a content of {digest.size} octets passed here, SHA-256 {digest.sha256}; its octets were not recorded"
