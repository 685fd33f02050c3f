"""The units of an SMTP or LMTP session: what can be forwarded, held back or altered as a whole.

Every unit carries `raw`, its octets as received: the `raw` of all units that the parser returns for a direction,
concatenated, are exactly what was sent (`injected` replies aside). Units are not changed once made; they are not frozen
dataclasses because making those takes four times as long.
"""

from dataclasses import dataclass

from conformance.history.values import Operation


@dataclass(slots=True, eq=False)
class PendingReply:
    """A reply that the server has not sent yet.

    `verb` is the verb of the command to be answered, GREETING for the greeting, or CONTENT for the reply after the content.
    `recipient` is the address of the RCPT command, or of the recipient for whom LMTP answers after the content. `operation`
    is what the command means for shadow redundancy in the server's dialect (its spelling of those commands), None for an
    ordinary command. `canonical_verb` is the verb as docs/wire-profile.md spells it, '' until the relay has looked it up, and
    for the greeting and for the reply after a content. `substitute` is a reply (without its last CRLF) that the harness sends
    in the server's place when its turn comes; None leaves the reply to the server.
    """

    verb: str
    recipient: str | None = None
    operation: Operation | None = None
    substitute: bytes | None = None
    canonical_verb: str = ""


@dataclass(slots=True)
class CommandLine:
    """A command line, or (verb AUTH) a client's line of an AUTH exchange.

    `verb` is in upper case, '' if the line does not begin with one. `line` is the text, with secrets replaced and truncated
    to `lines.TEXT` octets. `pending` is the reply that the command will get; that of BDAT LAST is never answered, since the
    reply after the content (`ContentEnd.pending`) comes in its place.
    """

    raw: bytes
    verb: str
    line: str
    pending: PendingReply


@dataclass(slots=True)
class WholeReply:
    """All lines of a reply; `lines` are their texts after the code.

    `to` is the verb that it answers (see `PendingReply.verb`), `NO_VERB` for a line that has none, '' if no reply was pending;
    `pending` is None then. `code` is 0 if the reply cannot be read. `malformed` says how its octets violate RFC 5321 4.2, '' if
    they do not. `injected` marks a reply that the harness sends in the server's place: its octets are not among those received.
    """

    raw: bytes
    to: str
    code: int
    enhanced: str | None
    lines: tuple[str, ...]
    pending: PendingReply | None
    malformed: str = ""
    injected: bool = False


@dataclass(slots=True)
class ContentPart:
    """Consecutive octets of a message's content (header and body), as received.

    `stuffed`: they may contain dots that were added for transparency (RFC 5321 4.5.2); never in a BDAT chunk (RFC 3030).
    """

    raw: bytes
    stuffed: bool = True


@dataclass(slots=True)
class ContentEnd:
    """The final dot with its CRLF, or (`raw` is empty) the end of the last BDAT chunk."""

    raw: bytes
    pending: PendingReply


@dataclass(slots=True)
class RawOctets:
    """Octets that are not parsed: what was sent after STARTTLS, or is too long to hold (`lines.LINE`, `session_parser.REPLY`).

    Also replies that answer no command, beyond `session_parser.UNASKED`, and an unfinished line at the end of a stream.
    """

    raw: bytes


ClientUnit = CommandLine | ContentPart | ContentEnd | RawOctets
ServerUnit = WholeReply | RawOctets
Unit = ClientUnit | ServerUnit
