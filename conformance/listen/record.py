"""What a listener keeps of the clients: the history of its link, and what the history leaves out of a client's octets.

The history has commands as text and contents as hashes. Line ends, dots and octets that came too early are here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from conformance.history.events import AnyEvent

HOLDING_ACTIONS = frozenset({"stall", "delay", "mute", "throttle", "merge", "split"})
"""Kinds of faults that keep a reply from a client for a while, or for good."""

MAX_KEPT = 1024
"""Octets of a command line that are kept."""


@dataclass(frozen=True, slots=True)
class SentLine:
    """A command line as it was sent (AUTH: without the secret), cut to `MAX_KEPT` octets, without its line end.

    `size` is its whole length, the line end included.
    """

    session: str
    t: float
    verb: str
    raw: bytes
    size: int
    line_end: bytes


@dataclass(slots=True)
class SentContent:
    """What was sent between 354 and the final dot, counted line by line.

    `dotted` counts lines that begin with a dot, `unstuffed` those whose dot was not doubled, `example` is the first of these.
    `bare_cr` and `bare_lf` count those octets outside of CRLF. `longest` is the longest line without its CRLF and without a
    doubled dot. `eight_bit` counts octets above 127; `declared` is whether MAIL announced them (BODY=8BITMIME). `t` is when it
    began, `_line` the octets of the present line so far.
    """

    session: str
    t: float
    declared: bool
    complete: bool = False
    size: int = 0
    dotted: int = 0
    unstuffed: int = 0
    example: bytes = b""
    bare_cr: int = 0
    bare_lf: int = 0
    longest: int = 0
    eight_bit: int = 0
    _line: bytearray = field(default_factory=bytearray)

    def feed(self, octets: bytes) -> None:
        """Count the next octets, as on the wire; a line counts when its CRLF has come."""
        self.size += len(octets)
        searched = max(0, len(self._line) - 1)
        self._line += octets
        while (end := self._line.find(b"\r\n", searched)) >= 0:
            self._count_line(bytes(self._line[:end]))
            del self._line[: end + 2]
            searched = 0

    def end(self) -> None:
        """Note that the final dot has come."""
        self.complete = True

    def _count_line(self, line: bytes) -> None:
        """Add what one line of the content, without its CRLF, shows: its dots, bare CR and LF, length and eight-bit octets."""
        if line.startswith(b"."):
            self.dotted += 1
            if not line.startswith(b".."):
                self.unstuffed += 1
                self.example = self.example or line[:80]
        self.bare_cr += line.count(b"\r")
        self.bare_lf += line.count(b"\n")
        self.longest = max(self.longest, len(line) - line.startswith(b".."))
        if not line.isascii():
            self.eight_bit += sum(octet > 127 for octet in line)


@dataclass(frozen=True, slots=True)
class EarlyOctets:
    """The client sent octets after a command before the reply to it was sent, where they can belong to no other command."""

    session: str
    t: float
    verb: str


@dataclass(frozen=True, slots=True)
class Attempted:
    """A client named a recipient; `behaviour` is what was done for it, '' if it was to be accepted, `unknown` if malformed."""

    session: str
    t: float
    address: str
    behaviour: str


@dataclass(slots=True)
class ListenRecord:
    """All that was seen. `ended` is when the listener stopped, in seconds since it began.

    `half_closed` has the sessions in which the client closed its direction after QUIT before it had all replies, and when:
    whether it still waited after that cannot be seen. `unread` are those of them in which it had closed the whole connection
    before the last reply.
    """

    events: Sequence[AnyEvent] = ()
    lines: list[SentLine] = field(default_factory=list)
    contents: list[SentContent] = field(default_factory=list)
    early: list[EarlyOctets] = field(default_factory=list)
    attempts: list[Attempted] = field(default_factory=list)
    half_closed: dict[str, float] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    ended: float = 0.0
