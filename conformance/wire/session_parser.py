"""The grammar of SMTP and LMTP, without I/O: octets of both directions in, units out.

Follows RFC 5321, PIPELINING (RFC 2920), CHUNKING (RFC 3030), AUTH (RFC 4954), STARTTLS (RFC 3207) and LMTP
(RFC 2033). Whatever comes, it neither fails nor keeps more than `HELD` octets a direction.
"""

from collections import deque
from dataclasses import replace
from typing import Literal

from conformance.wire.lines import (
    LINE,
    SHORT,
    Lines,
    chunk_of,
    is_token,
    parsed,
    reply_parts,
    said_at_once,
    understood,
    whole_reply,
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
"""Octets of a client that may wait for the server's answer; who sends more must be kept waiting."""

OWED = 1000
"""Commands that may be unanswered at one time."""

REPLY = 2 * 1024 * 1024
REPLY_LINES = 20_000
"""Octets and lines of one reply whose text is kept, and which are held until it is whole."""

UNASKED = 100
"""Replies that answer nothing, in one session, which are told as replies; more of them are octets without meaning."""

_RESETS = frozenset({"MAIL", "RSET", "EHLO", "HELO", "LHLO"})


class SessionParser:
    """One session's grammar. Feed it with what arrives; each call returns the units completed by that.

    Octets whose meaning depends on a reply to come (after DATA, AUTH, STARTTLS) are held. As soon as that reply came,
    `released` is true and the server's further octets wait, until `client(b"")` has returned what the reply decided;
    then `server(b"")` goes on. How the octets were split changes nothing but where `ContentPart` and `RawOctets` are split.
    """

    def __init__(self) -> None:
        self.secured = False
        self.lmtp = False
        self.released = False
        self._client = b""
        self._mode: Literal["command", "content", "chunk"] = "command"
        self._overlong = Lines()
        self._decides: PendingReply | None = None
        self._in_auth = False
        self._authenticates = False
        self._chunk_left = 0
        self._chunk_last = False
        self._line_start = True
        self._owed: deque[PendingReply] = deque([PendingReply("GREETING")])
        self._recipients: list[str] = []
        self._server = b""
        self._server_overlong = Lines()
        self._reply: list[str] = []
        self._reply_raw: list[bytes] = []
        self._reply_size = 0
        self._unasked = 0
        self._reply_held = 0

    @property
    def held(self) -> int:
        """Octets of the client that are in no unit yet."""
        return len(self._client)

    @property
    def undecided(self) -> bytes:
        """The octets of the client that are in no unit yet."""
        return self._client

    @property
    def reply_held(self) -> int:
        """Octets of the server that are in no unit yet."""
        return self._reply_held + len(self._server)

    @property
    def unfinished_reply(self) -> bytes:
        """The octets of the server that are in no unit yet."""
        return b"".join(self._reply_raw) + self._server

    @property
    def idle(self) -> bool:
        """Whether the server owes nothing and no content is under way."""
        return not self._owed and self._mode == "command"

    @property
    def stuck(self) -> bool:
        """Whether the client must be kept waiting: it sent as much as may be held."""
        return len(self._client) >= HELD and self._blocked

    @property
    def _blocked(self) -> bool:
        return not self.secured and (self._decides is not None or len(self._owed) >= OWED)

    def client(self, data: bytes) -> list[ClientUnit]:
        """Take octets from the client."""
        self._client += data
        self.released = False
        units: list[ClientUnit] = []
        while self._client and (step := self._next()) is not None:
            units.extend(step)
        if self._mode == "chunk" and self._chunk_left == 0:
            units.extend(self._end_chunk())
        return units

    def server(self, data: bytes) -> list[ServerUnit]:
        """Take octets from the server. Replies given instead of it are among the units, in their turn (`injected`)."""
        if self.secured and not self._server:
            return [RawOctets(data)] if data else []
        if len(data) <= SHORT and not self.released and not self.reply_held and self._owed and not self._reply:
            said = said_at_once(data)
            if said is not None and not self._server_overlong.begun:
                blocked = bool(self._client) and self._blocked
                units: list[ServerUnit] = [self._replied(data, *said), *self.answers()]
                self.released = blocked and not self._blocked
                return units
        self._server += data
        units = []
        at = 0
        while not self.secured and not self.released and (end := self._server.find(b"\n", at) + 1):
            blocked = bool(self._client) and self._blocked
            if completed := self._reply_line(self._server[at:end]):
                units += completed
                units += self.answers()
                self.released = blocked and not self._blocked
            at = end
        self._server = self._server[at:]
        if self.released:
            return units
        if (self.secured and self._server) or len(self._server) > LINE:
            if not self.secured:
                self._server_overlong.add(self._server)
            rest, self._server = self._server, b""
            units.extend(self._pass_raw(rest))
        return units

    def answers(self) -> list[WholeReply]:
        """Return the replies given instead of the server whose turn has come (`PendingReply.answer`)."""
        replies = []
        while (owed := self._head()) is not None and owed.answer is not None:
            code, lines = parsed(owed.answer)
            replies.append(replace(self._replied(owed.answer + b"\r\n", code, lines), injected=True))
        return replies

    def abandon(self, octets: bytes) -> None:
        """Have everything that the server owes, and has not been answered for, answered with this."""
        for owed in self._owed:
            owed.answer = owed.answer or octets

    def replace(self, reply: WholeReply, octets: bytes) -> WholeReply:
        """Return the reply that stands in the place of one just received; the client will follow the new one."""
        code, lines = parsed(octets)
        if reply.awaited is not None and reply.awaited.verb == "DATA":
            self._mode = "content" if code == 354 else "command"
            self._line_start = True
        elif reply.awaited is not None and reply.awaited.verb == "STARTTLS":
            self.secured = code == 220
        return whole_reply(octets + b"\r\n", code, lines, reply.awaited)

    def _next(self) -> list[ClientUnit] | None:
        """Take the next units from what was received; None when there is none yet."""
        if self.secured:
            taken, self._client = self._client, b""
            return [RawOctets(taken)]
        if self._blocked:
            return None
        if self._mode == "content":
            return self._content()
        if self._mode == "chunk":
            return self._chunk()
        end = self._client.find(b"\n") + 1
        if end == 0:
            if len(self._client) <= LINE:
                return None
            taken, self._client = self._client, b""
            self._overlong.add(taken)
            return [RawOctets(taken)]
        raw, self._client = self._client[:end], self._client[end:]
        return [self._command(raw)]

    def _command(self, raw: bytes) -> CommandLine:
        text = self._overlong.finish(raw)
        if self._in_auth:
            owed = PendingReply("AUTH")
            self._owed.append(owed)
            self._decides = owed
            return CommandLine(raw, "AUTH", "(redacted)", owed)
        verb, recipient, shown = understood(text)
        if verb == "AUTH":
            self._authenticates = True
        elif self._authenticates and is_token(text):  # it was sent ahead, and AUTH refused
            shown = "(redacted)"
        owed = PendingReply(verb, recipient)
        if verb == "LHLO":
            self.lmtp = True
        if verb == "BDAT" and (chunk := chunk_of(text)):
            self._mode = "chunk"
            self._chunk_left, self._chunk_last = chunk
            if self._chunk_last:
                owed.verb = "CONTENT"
        if not (verb == "BDAT" and owed.verb == "CONTENT"):
            self._owed.append(owed)
        if verb in ("DATA", "AUTH", "STARTTLS"):
            self._decides = owed
        return CommandLine(raw, verb, shown, owed)

    def _content(self) -> list[ClientUnit] | None:
        """Split the content at the dot that ends it: only <CRLF>.<CRLF> does (RFC 5321 4.1.1.4)."""
        data = self._client
        stuffed = b"." in data and b"\r\n." in data  # the first is much the faster, and base64 has no dots
        if self._line_start:
            if data[:3] == b".\r\n":
                self._client = data[3:]
                return [self._end(data[:3])]
            if b".\r\n".startswith(data):
                return None
            stuffed = stuffed or data[:1] == b"."
        at = data.find(b"\r\n.\r\n") if stuffed else -1
        if at >= 0:
            self._client = data[at + 5 :]
            return [ContentPart(data[: at + 2]), self._end(data[at + 2 : at + 5])]
        keep = next((n for n in (4, 3, 2, 1) if data.endswith(b"\r\n.\r"[:n])), 0)
        if keep == len(data):
            return None
        self._client = data[len(data) - keep :]
        self._line_start = False
        return [ContentPart(data[: len(data) - keep], stuffed)]

    def _chunk(self) -> list[ClientUnit]:
        taken, self._client = self._client[: self._chunk_left], self._client[self._chunk_left :]
        self._chunk_left -= len(taken)
        return [
            *([ContentPart(taken, stuffed=False)] if taken else []),
            *(self._end_chunk() if not self._chunk_left else []),
        ]

    def _end_chunk(self) -> list[ClientUnit]:
        self._mode = "command"
        return [self._end(b"")] if self._chunk_last else []

    def _end(self, raw: bytes) -> ContentEnd:
        self._mode = "command"
        owed = PendingReply("CONTENT")
        self._owed.append(owed)
        return ContentEnd(raw, owed)

    def _reply_line(self, raw: bytes) -> list[ServerUnit]:
        code, more, text = reply_parts(self._server_overlong.finish(raw))
        if not more and not self._reply_raw and not self._reply and self._owed:
            return [self._replied(raw, code, (text,))]
        self._reply_raw.append(raw)
        self._reply_held += len(raw)
        self._reply_size += len(raw)
        if (self._reply_size <= REPLY and len(self._reply) < REPLY_LINES) or not more:
            self._reply.append(text)
        if more or (code == 0 and len(self._reply) > 1):
            return self._pass_raw(b"") if self._reply_held > REPLY or len(self._reply_raw) > REPLY_LINES else []
        whole, lines = b"".join(self._reply_raw), self._reply
        self._reply, self._reply_raw, self._reply_held, self._reply_size = [], [], 0, 0
        self._unasked += not self._owed
        if not self._owed and self._unasked > UNASKED:
            return [RawOctets(whole)]
        return [self._replied(whole, code, tuple(lines))]

    def _pass_raw(self, more: bytes) -> list[ServerUnit]:
        """Let go of what is held of a reply whose text is known, or does not matter."""
        raw = b"".join([*self._reply_raw, more])
        self._reply_raw, self._reply_held = [], 0
        return [RawOctets(raw)] if raw else []

    def _head(self) -> PendingReply | None:
        """Return the reply owed next; LMTP owes one for each accepted recipient after the content (RFC 2033 4.2)."""
        if not self._owed:
            return None
        first = self._owed[0]
        if first.verb == "CONTENT" and first.recipient is None and self.lmtp and self._recipients:
            self._owed.popleft()
            each = [PendingReply("CONTENT", to, first.asked, first.answer) for to in self._recipients]
            self._owed.extendleft(reversed(each))
            self._recipients = []
        return self._owed[0]

    def _replied(self, raw: bytes, code: int, lines: tuple[str, ...]) -> WholeReply:
        owed = self._head()
        if owed is not None:
            self._owed.popleft()
            self._follow(owed, code)
        return whole_reply(raw, code, lines, owed)

    def _follow(self, owed: PendingReply, code: int) -> None:
        """Let a reply change what the client's next octets mean."""
        accepted = code // 100 == 2
        if owed.verb == "RCPT" and accepted and owed.recipient is not None:
            self._recipients.append(owed.recipient)
        elif owed.verb in _RESETS and accepted:
            self._recipients = []
        if owed is self._decides:
            self._decides = None
            if owed.verb == "DATA" and code == 354:
                self._mode, self._line_start = "content", True
            elif owed.verb == "STARTTLS" and code == 220:
                self.secured = True
            self._in_auth = owed.verb == "AUTH" and code // 100 == 3
