"""Parser of SMTP and LMTP sessions, without I/O: octets of both directions in, units out.

Follows RFC 5321, PIPELINING (RFC 2920), CHUNKING (RFC 3030), AUTH (RFC 4954), STARTTLS (RFC 3207) and LMTP (RFC 2033).

Theory of operation
-------------------

`feed_client` and `feed_server` take octets however they were split, and return the units that these complete.

The parser keeps a queue of pending replies: one for the greeting, one for each command but BDAT LAST, one for each content (LMTP:
one for each recipient of it). A complete reply of the server answers the first of the queue; if the queue is empty, it is a reply
that answers no command, which is a unit too.

A command after which the client's next octets can mean two things (DATA, AUTH, STARTTLS) blocks the client side: what the
client has pipelined after it is buffered until the reply decides (`_deciding` is that pending reply). So does a full queue of
`MAX_PENDING` pending replies. If octets of the client wait, `feed_server` stops after that reply and sets
`client_unblocked`; the caller calls `feed_client(b"")` for the units that are decided now, and `feed_server(b"")` for the
rest of the server's octets. This keeps the order of events the same however the octets arrive.

Modes of the client side: `command` (lines), `content` (after 354, up to CRLF . CRLF), `chunk` (a counted number of octets
after BDAT). After 220 to STARTTLS the session is `secured`, and all octets pass unparsed.

Nothing that a peer sends makes the parser fail or buffer without bound: long lines and endless replies are passed on as
`RawOctets` beyond `LINE` and `REPLY`, and the caller stops reading from a client whose buffered octets reach `HELD`.
"""

from collections import deque
from dataclasses import replace
from typing import Literal

from conformance.history.secrets import REDACTED
from conformance.wire.lines import (
    LINE,
    SHORT_REPLY,
    BoundedLine,
    is_auth_response,
    make_reply,
    parse_bdat,
    parse_command,
    parse_reply_line,
    parse_single_reply,
    parse_substitute,
)
from conformance.wire.units import (
    ClientUnit,
    CommandLine,
    ContentEnd,
    ContentPart,
    PendingReply,
    RawOctets,
    ServerUnit,
    WholeReply,
)

HELD = 64 * 1024
"""Octets of a blocked client that are buffered before the caller has to stop reading from it."""

MAX_PENDING = 1000
"""Replies that may be pending at one time; further commands wait."""

REPLY = 2 * 1024 * 1024
REPLY_LINES = 20_000
"""Octets and lines of one reply up to which its text is kept, and its octets are held until it is complete."""

UNASKED = 100
"""Replies without a command that are reported as replies in one session; further ones are `RawOctets`."""

_ENDS_TRANSACTION = frozenset({"MAIL", "RSET", "EHLO", "HELO", "LHLO"})


class SessionParser:
    """Parses one session.

    Units are those of `wire.units`: CommandLine, ContentPart, ContentEnd, WholeReply, RawOctets. `_pending` is the queue of
    pending replies, `_mode` the mode of the client side. Of a BDAT chunk, `_chunk_left` octets are still to come, and
    `_chunk_last` says whether it is the last. A BoundedLine assembles the text of a line that comes in parts.

    `secured`: STARTTLS was accepted. `lmtp`: the client has said LHLO. `client_unblocked`: the last `feed_server` stopped at
    a reply that decides what buffered octets of the client mean; call `feed_client(b"")`, then `feed_server(b"")`.

    `_client` and `_server` are octets that are in no unit yet. `_deciding` is the pending reply that blocks the
    client, or None. `_in_auth`: the client's next line is a response of AUTH. `_line_start`: no part of the content
    was returned. `_recipients` are those that the server has accepted. Of a reply whose lines are not complete,
    `_reply_lines` has the texts, `_reply_raw` the octets still held (`_reply_held` of them), and `_reply_size` counts
    all. `_unasked` counts replies to no command.
    """

    def __init__(self, *, greets: bool = True) -> None:
        """Begin a session; `greets`: the server's first reply is its greeting, as it is not within TLS."""
        self.secured = False
        self.lmtp = False
        self.client_unblocked = False
        self._client = b""
        self._mode: Literal["command", "content", "chunk"] = "command"
        self._client_line = BoundedLine()
        self._deciding: PendingReply | None = None
        self._in_auth = False
        self._auth_seen = False
        self._chunk_left = 0
        self._chunk_last = False
        self._line_start = True
        self._pending: deque[PendingReply] = deque([PendingReply("GREETING")] if greets else [])
        self._recipients: list[str] = []
        self._server = b""
        self._server_line = BoundedLine()
        self._reply_lines: list[str] = []
        self._reply_raw: list[bytes] = []
        self._reply_size = 0
        self._reply_held = 0
        self._unasked = 0

    @property
    def unparsed_client(self) -> bytes:
        """The octets of the client that are in no unit yet."""
        return self._client

    @property
    def unparsed_server(self) -> bytes:
        """The octets of the server that are in no unit yet."""
        return b"".join(self._reply_raw) + self._server

    @property
    def unparsed_server_size(self) -> int:
        """The length of `unparsed_server`, without joining it."""
        return self._reply_held + len(self._server)

    @property
    def client_buffer_full(self) -> bool:
        """Whether the client is blocked and `HELD` octets of it (64 KiB) are buffered: the caller must stop reading from it."""
        return len(self._client) >= HELD and self._client_blocked

    @property
    def _client_blocked(self) -> bool:
        """Whether the client's next octets cannot be parsed before a reply has come."""
        return not self.secured and (self._deciding is not None or len(self._pending) >= MAX_PENDING)

    def feed_client(self, data: bytes) -> list[ClientUnit]:
        """Add octets from the client, and return the units that are complete now; reset `client_unblocked`.

        Octets of an incomplete unit, or behind a command that blocks the client side, are kept for a later call.
        """
        self._client += data
        self.client_unblocked = False
        units: list[ClientUnit] = []
        while self._client and (step := self._next_client_units()) is not None:
            units.extend(step)
        if self._mode == "chunk" and self._chunk_left == 0:
            units.extend(self._end_chunk())
        return units

    def feed_server(self, data: bytes) -> list[ServerUnit]:
        """Add octets from the server, and return the units that are complete now.

        It stops after a reply that decides what the client's waiting octets mean, and sets `client_unblocked`; while that is
        set, octets are only kept. Among the units are substitute replies whose turn comes then: replies that the harness
        sends in the server's place, whose octets are not in `data`. Octets that are exactly one short reply, as most are,
        take the first branch, with a cached result. `_answer_pending` and `_add_reply_line` make the units of replies;
        octets that cannot be held for a whole reply become `RawOctets`.
        """
        if self.secured and not self._server:
            return [RawOctets(data)] if data else []
        nothing_unfinished = not self.client_unblocked and not self.unparsed_server_size and not self._reply_lines
        if len(data) <= SHORT_REPLY and nothing_unfinished and self._pending:
            reply = parse_single_reply(data)
            if reply is not None and not self._server_line.started:
                blocked = bool(self._client) and self._client_blocked
                units: list[ServerUnit] = [self._answer_pending(data, *reply), *self.take_due_substitutes()]
                self.client_unblocked = blocked and not self._client_blocked
                return units
        self._server += data
        units = []
        at = 0
        while not self.secured and not self.client_unblocked and (end := self._server.find(b"\n", at) + 1):
            blocked = bool(self._client) and self._client_blocked
            if completed := self._add_reply_line(self._server[at:end]):
                units += completed
                units += self.take_due_substitutes()
                self.client_unblocked = blocked and not self._client_blocked
            at = end
        self._server = self._server[at:]
        if self.client_unblocked:
            return units
        if (self.secured and self._server) or len(self._server) > LINE:
            if not self.secured:
                self._server_line.add(self._server)
            rest, self._server = self._server, b""
            units.extend(self._release_reply_octets(rest))
        return units

    def take_due_substitutes(self) -> list[WholeReply]:
        """Remove the pending replies at the head of the queue that have a `substitute`, and return these as injected replies.

        They change the parser's state as if the server had sent them. Return [] if the server has to send the next reply.
        """
        replies = []
        while (pending := self._first_pending()) is not None and pending.substitute is not None:
            code, lines = parse_substitute(pending.substitute)
            replies.append(replace(self._answer_pending(pending.substitute + b"\r\n", code, lines), injected=True))
        return replies

    def substitute_all(self, octets: bytes) -> None:
        """Have the harness answer, in the server's place, every pending reply that has no substitute yet.

        `octets` is the reply without its last CRLF. None is sent here: `take_due_substitutes` returns those whose turn has come.
        """
        for pending in self._pending:
            pending.substitute = pending.substitute or octets

    def replace_reply(self, reply: WholeReply, octets: bytes) -> WholeReply:
        """Return the reply to forward in place of one just received, and parse the client's next octets as it requires.

        `octets` are the new reply without the last CRLF. The parser's state changes only for a reply to DATA (content
        follows 354 only), STARTTLS (TLS follows 220 only) or AUTH (a response follows 3yz only).
        """
        code, lines = parse_substitute(octets)
        if reply.pending is not None and reply.pending.verb == "DATA":
            self._mode = "content" if code == 354 else "command"
            self._line_start = True
        elif reply.pending is not None and reply.pending.verb == "STARTTLS":
            self.secured = code == 220
        elif reply.pending is not None and reply.pending.verb == "AUTH":
            self._in_auth = code // 100 == 3
        return make_reply(octets + b"\r\n", code, lines, reply.pending)

    def _next_client_units(self) -> list[ClientUnit] | None:
        """Remove the next units from the client's octets; None if they are incomplete or the client is blocked."""
        if self.secured:
            taken, self._client = self._client, b""
            return [RawOctets(taken)]
        if self._client_blocked:
            return None
        if self._mode == "content":
            return self._next_content_units()
        if self._mode == "chunk":
            return self._next_chunk_units()
        end = self._client.find(b"\n") + 1
        if end == 0:
            if len(self._client) <= LINE:
                return None
            taken, self._client = self._client, b""
            self._client_line.add(taken)
            return [RawOctets(taken)]
        raw, self._client = self._client[:end], self._client[end:]
        return [self._make_command(raw)]

    def _make_command(self, raw: bytes) -> CommandLine:
        """Return the unit of a client's line, and change the parser's state as the command does.

        A pending reply is queued for it, except for BDAT LAST: the reply to that answers the content. A client's line
        within an AUTH exchange counts as a command AUTH whose text is redacted, a response after a refused AUTH as one without a
        verb.
        """
        text = self._client_line.finish(raw)
        if self._in_auth:
            pending = PendingReply("AUTH")
            self._pending.append(pending)
            self._deciding = pending
            return CommandLine(raw, "AUTH", REDACTED, pending)
        verb, recipient, shown = parse_command(text)
        if verb == "AUTH" or REDACTED in shown:  # white space before AUTH leaves the line without a verb
            self._auth_seen = True
        elif self._auth_seen and is_auth_response(text):  # it was pipelined after an AUTH that was refused
            verb, shown = "", REDACTED
        pending = PendingReply(verb, recipient)
        if verb == "LHLO":
            self.lmtp = True
        if verb == "BDAT" and (chunk := parse_bdat(text)):
            self._mode = "chunk"
            self._chunk_left, self._chunk_last = chunk
            if self._chunk_last:
                pending.verb = "CONTENT"
        if not (verb == "BDAT" and pending.verb == "CONTENT"):  # the reply to that is added by `_end_content`
            self._pending.append(pending)
        if verb in ("DATA", "AUTH", "STARTTLS"):
            self._deciding = pending
        return CommandLine(raw, verb, shown, pending)

    def _next_content_units(self) -> list[ClientUnit] | None:
        """Split the content at the dot that ends it: only CRLF . CRLF does (RFC 5321 4.1.1.4).

        Return None until more octets arrive. Up to four octets at the end are kept back, since they may begin that sequence. A
        part is marked as `stuffed` unless no line in it can begin with a dot.
        """
        data = self._client
        stuffed = b"." in data and b"\r\n." in data  # the first test is much faster, and Base64 contains no dots
        if self._line_start:
            if data[:3] == b".\r\n":
                self._client = data[3:]
                return [self._end_content(data[:3])]
            if b".\r\n".startswith(data):
                return None
            stuffed = stuffed or data[:1] == b"."
        at = data.find(b"\r\n.\r\n") if stuffed else -1
        if at >= 0:
            self._client = data[at + 5 :]
            return [ContentPart(data[: at + 2]), self._end_content(data[at + 2 : at + 5])]
        keep = next((n for n in (4, 3, 2, 1) if data.endswith(b"\r\n.\r"[:n])), 0)
        if keep == len(data):
            return None
        self._client = data[len(data) - keep :]
        self._line_start = False
        return [ContentPart(data[: len(data) - keep], stuffed)]

    def _next_chunk_units(self) -> list[ClientUnit]:
        """Remove the octets of the present BDAT chunk that have arrived; if it is complete, end it."""
        taken, self._client = self._client[: self._chunk_left], self._client[self._chunk_left :]
        self._chunk_left -= len(taken)
        part = [ContentPart(taken, stuffed=False)] if taken else []
        return [*part, *(self._end_chunk() if not self._chunk_left else [])]

    def _end_chunk(self) -> list[ClientUnit]:
        """Expect commands again after a BDAT chunk; return the end of the content if the chunk was the last, else []."""
        self._mode = "command"
        return [self._end_content(b"")] if self._chunk_last else []

    def _end_content(self, raw: bytes) -> ContentEnd:
        """Return the unit of a content's end; expect commands again, and the server's reply to the content."""
        self._mode = "command"
        pending = PendingReply("CONTENT")
        self._pending.append(pending)
        return ContentEnd(raw, pending)

    def _add_reply_line(self, raw: bytes) -> list[ServerUnit]:
        """Add a line of the server; return its reply if the line completes it, else [].

        An unfinished reply that is too large to hold (`REPLY`, `REPLY_LINES`), and complete ones that answer no command,
        beyond the first `UNASKED`, are returned as `RawOctets`.
        """
        code, more, text = parse_reply_line(self._server_line.finish(raw))
        if not more and not self._reply_raw and not self._reply_lines and self._pending:
            return [self._answer_pending(raw, code, (text,))]
        self._reply_raw.append(raw)
        self._reply_held += len(raw)
        self._reply_size += len(raw)
        ends = not more and (code != 0 or not self._reply_lines)  # an unreadable line does not end a reply
        if (self._reply_size <= REPLY and len(self._reply_lines) < REPLY_LINES) or ends:
            self._reply_lines.append(text)
        if not ends:
            too_many = self._reply_held > REPLY or len(self._reply_raw) > REPLY_LINES
            return self._release_reply_octets(b"") if too_many else []
        octets, lines = b"".join(self._reply_raw), self._reply_lines
        self._reply_lines, self._reply_raw, self._reply_held, self._reply_size = [], [], 0, 0
        self._unasked += not self._pending
        if not self._pending and self._unasked > UNASKED:
            return [RawOctets(octets)]
        return [self._answer_pending(octets, code, tuple(lines))]

    def _release_reply_octets(self, more: bytes) -> list[ServerUnit]:
        """Return the held octets of an unfinished reply and `more` as one unit without meaning, or nothing if there are none."""
        raw = b"".join([*self._reply_raw, more])
        self._reply_raw, self._reply_held = [], 0
        return [RawOctets(raw)] if raw else []

    def _first_pending(self) -> PendingReply | None:
        """Return the reply that the server has to send next, None if it has to send none.

        After a content in LMTP this splits the pending reply into one for each accepted recipient (RFC 2033 4.2).
        """
        if not self._pending:
            return None
        first = self._pending[0]
        if first.verb == "CONTENT" and first.recipient is None and self.lmtp and self._recipients:
            self._pending.popleft()
            each = [PendingReply("CONTENT", to, first.operation, first.substitute) for to in self._recipients]
            self._pending.extendleft(reversed(each))
            self._recipients = []
        return self._pending[0]

    def _answer_pending(self, raw: bytes, code: int, lines: tuple[str, ...]) -> WholeReply:
        """Remove the first pending reply, if any, and return the unit for the reply that answers it."""
        pending = self._first_pending()
        if pending is not None:
            self._pending.popleft()
            self._apply_reply(pending, code)
        return make_reply(raw, code, lines, pending)

    def _apply_reply(self, pending: PendingReply, code: int) -> None:
        """Change the parser's state as a reply does: recipients of the transaction, and what the client's octets mean."""
        accepted = code // 100 == 2
        if pending.verb == "RCPT" and accepted and pending.recipient is not None:
            self._recipients.append(pending.recipient)
        elif pending.verb in _ENDS_TRANSACTION and accepted:
            self._recipients = []
        if pending is self._deciding:
            self._deciding = None
            if pending.verb == "DATA" and code == 354:
                self._mode, self._line_start = "content", True
            elif pending.verb == "STARTTLS" and code == 220:
                self.secured = True
            self._in_auth = pending.verb == "AUTH" and code // 100 == 3
