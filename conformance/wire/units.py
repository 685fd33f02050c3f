"""The units of an SMTP or LMTP conversation: what one can let pass, hold back or break as a whole.

Every unit carries `raw`, its octets as they were on the wire: the `raw` of all units of a direction, one after
another, are exactly what was sent. Nobody changes a unit; they are not frozen since that takes four times as long to make.
"""

from dataclasses import dataclass

from conformance.history.events import Operation


@dataclass(slots=True, eq=False)
class PendingReply:
    """A reply that the server owes: for which verb, for whom (LMTP), and what the command meant.

    `verb` is GREETING for the greeting and CONTENT for the reply after the content. `answer` is set when somebody else
    than the server will give the reply: these octets, when its turn has come. `known_as` is the wire profile's name of
    the verb, once it is known.
    """

    verb: str
    recipient: str | None = None
    asked: Operation | None = None
    answer: bytes | None = None
    known_as: str = ""


@dataclass(slots=True)
class CommandLine:
    """A command line, or (verb AUTH) a line of an authentication exchange; `line` is redacted and bounded."""

    raw: bytes
    verb: str
    line: str
    awaited: PendingReply


@dataclass(slots=True)
class WholeReply:
    """All lines of a reply. `awaited` is None when the server owed none; code 0 is an unreadable reply.

    `malformed` says in which way its octets are not a reply of RFC 5321 4.2, or ''.

    An `injected` one is given instead of the server: its octets are not among those received.
    """

    raw: bytes
    to: str
    code: int
    enhanced: str | None
    lines: tuple[str, ...]
    awaited: PendingReply | None
    malformed: str = ""
    injected: bool = False


@dataclass(slots=True)
class ContentPart:
    """Some octets of a message's content, as they were on the wire.

    `stuffed`: there may be dots among them that are there for transparency only; never when sent by BDAT (RFC 3030).
    """

    raw: bytes
    stuffed: bool = True


@dataclass(slots=True)
class ContentEnd:
    """The final dot, or the end of the last chunk (then without octets)."""

    raw: bytes
    awaited: PendingReply


@dataclass(slots=True)
class RawOctets:
    """Octets without meaning of their own: of a line beyond the bound, or after STARTTLS."""

    raw: bytes


ClientUnit = CommandLine | ContentPart | ContentEnd | RawOctets
ServerUnit = WholeReply | RawOctets
Unit = ClientUnit | ServerUnit
