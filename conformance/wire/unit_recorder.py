"""Records the units of one session as events: commands, replies, and contents by their digest.

A relay (one session over a link) records what it forwards, and a sink what is said within TLS, which the relay cannot
read. A *unit* is a command line, a reply, a part of a content or its end. The *dialect* is a server's spelling of the
commands of shadow redundancy; an *operation* is what such a command means. The *pending reply* of a command
(`unit.pending`) carries its operation and canonical verb to the reply.
"""

from conformance.history.dialects import Dialect
from conformance.history.events import Command, Content, Reply
from conformance.history.recorder import Recorder
from conformance.history.secrets import REDACTED
from conformance.history.values import Operation
from conformance.wire.content import Digester, Unstuffer
from conformance.wire.units import CommandLine, ContentEnd, ContentPart, Unit, WholeReply

ABORTS_CONTENT = frozenset({"MAIL", "RSET", "EHLO", "HELO", "LHLO"})
"""Verbs after which an unfinished content is discarded (only a content sent by BDAT can be unfinished then)."""

_LISTS_KEYWORDS = frozenset({"EHLO", "LHLO"})
"""Verbs whose reply lists the keywords of the server's extensions."""


class UnitRecorder:
    """Records units under a session's name, which is '' until the session has one.

    `content_count` counts the contents of which an octet has come; `content_octets` the octets of the present content, as on
    the wire (0 after its end, and after it was discarded).
    `_digester` has the octets of the present content, None between contents, and `_unstuffer` removes the dots that
    SMTP has added to them. The dialect gives each verb and EHLO keyword as docs/wire-profile.md spells it, whatever the
    server's spelling.
    """

    def __init__(self, recorder: Recorder, dialect: Dialect, session: str = "") -> None:
        self.session = session
        self.content_count = 0
        self.content_octets = 0
        self._recorder = recorder
        self._dialect = dialect
        self._digester: Digester | None = None
        self._unstuffer = Unstuffer()

    def record(self, unit: Unit) -> None:
        """Record the event of a unit; a content is digested part by part, and recorded at its end.

        `RawOctets` are not recorded.
        """
        match unit:
            case CommandLine():
                self._record_command(unit)
            case WholeReply():
                self._record_reply(unit)
            case ContentPart():
                if self._digester is None:
                    self._digester, self._unstuffer, self.content_octets = Digester(), Unstuffer(), 0
                    self.content_count += 1
                self._digester.feed((self._unstuffer.feed if unit.stuffed else self._unstuffer.pass_through)(unit.raw))
                self.content_octets += len(unit.raw)
            case ContentEnd():
                digester = self._digester or Digester()
                self._digester = None
                self.content_octets = 0
                self._recorder.record(Content, session=self.session, digest=digester.digest())

    def _record_command(self, unit: CommandLine) -> None:
        """Record a command; the secret in one of AUTH is removed from all that is recorded from now on.

        A command of `ABORTS_CONTENT` discards an unfinished content, which is then not recorded.
        """
        if unit.verb in ABORTS_CONTENT:
            self._digester, self.content_octets = None, 0
        if REDACTED in unit.line:
            self._recorder.secrets.add_from_auth_line(unit.raw, self.session)
        self._recorder.record(
            Command,
            session=self.session,
            verb=self._dialect.canonical_verb(unit.verb, unit.pending.operation),
            line=unit.line,
            operation=unit.pending.operation,
        )

    def _record_reply(self, unit: WholeReply) -> None:
        """Record a reply. One that the harness gives in the server's place (`injected`) is not held to be malformed."""
        self._recorder.record(
            Reply,
            session=self.session,
            to=(unit.pending.canonical_verb if unit.pending else "") or unit.to,
            code=unit.code,
            enhanced=unit.enhanced,
            lines=self._dialect.mark_keywords(unit.lines) if unit.to in _LISTS_KEYWORDS else unit.lines,
            recipient=unit.pending.recipient if unit.pending and unit.to == "CONTENT" else None,
            operation=self._reply_operation(unit),
            malformed="" if unit.injected else unit.malformed,
        )

    def _reply_operation(self, reply: WholeReply) -> Operation | None:
        """Return what a reply means in the dialect, None if it answers an ordinary command.

        A positive reply to the content of a shadow copy means that it is stored; to its MAIL, nothing.
        """
        operation = reply.pending.operation if reply.pending is not None else None
        if operation is None:
            return None
        return self._dialect.parse_reply(operation, reply.code, reply.lines, content=reply.to == "CONTENT")
