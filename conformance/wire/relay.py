"""A relay: one session over a link, recorded as it passes. Two ends, a lane each way, and the grammar beside them."""

from typing import Literal

from conformance.history.events import Closed, Command, Connected, Content, Operation, Reply
from conformance.history.secrets import REDACTED
from conformance.wire.content import Digester, Unstuffer
from conformance.wire.endpoint import Endpoint
from conformance.wire.lane import Lane
from conformance.wire.roles import Host
from conformance.wire.session_parser import SessionParser
from conformance.wire.units import CommandLine, ContentEnd, ContentPart, PendingReply, Unit, WholeReply

ABORTS_CONTENT = frozenset({"MAIL", "RSET", "EHLO", "HELO", "LHLO"})
"""Verbs after which an unfinished content is forgotten (it can be unfinished with BDAT only)."""

GREETS = frozenset({"EHLO", "LHLO"})
"""Verbs whose reply says what is offered."""

_GONE = b"421 4.3.2 Service not available"
_BYE = b"221 2.0.0 Closing connection"


class Relay:
    """One session. `name` is empty until it is recorded as connected; `over` once both ends are being closed.

    `barred` names what keeps it from dialling on; `contents` counts the contents that began.
    """

    def __init__(self, host: Host) -> None:
        self.pair = host.pair
        self.name = ""
        self.over = False
        self.barred: set[str] = set()
        self.contents = 0
        self.content_passed = 0
        self.conversation = SessionParser()
        self.client = Endpoint(self, "client")
        self.server = Endpoint(self, "server")
        self.up = Lane(self, self.client, self.server)
        self.down = Lane(self, self.server, self.client)
        self._host = host
        self._recorder = host.recorder
        self._breaker = host.breaker
        self._orphaned = False
        self._unit_by_unit = False
        self._first_to_leave: Literal["client", "server", "link"] | None = None
        self._shadowing: Operation | None = None
        self._digester: Digester | None = None
        self._unstuffer = Unstuffer()

    @property
    def quiet(self) -> bool:
        """Whether nothing is owed, under way or held."""
        return self.over or (self.conversation.idle and self.up.idle and self.down.idle and not self.barred)

    # what the ends say (conformance.wire.endpoint.Owner)

    def made(self, end: Endpoint) -> None:
        """Begin when the client is there; the server's connection releases what waits for it."""
        if end is self.client:
            self._host.begun(self)
        elif self.over:
            end.reset()
        else:
            self._host.established(self)

    def arrived(self, end: Endpoint, data: bytes) -> None:
        """Parse octets and let them pass."""
        if self.over:
            return
        if end is self.client:
            self._from_client(data)
            return
        self._from_server(data)
        while self.conversation.released and not self.over:
            self._from_client(b"")
            self._from_server(b"")

    def left(self, end: Endpoint, how: Literal["fin", "reset"]) -> None:
        """Pass the end of a direction, or of all, on in its turn."""
        if self.over:
            return
        if self._first_to_leave is None:
            self._first_to_leave = end.name
        if self.barred and end is self.client:
            self.abandon()
            return
        lane = self.up if end is self.client else self.down
        if how == "reset":
            back = self.down if lane is self.up else self.up
            back.stop()
        lane.end(how)

    def gone(self, end: Endpoint) -> None:
        """Be forgotten when nothing of the session is open any more."""
        if self.over and self.client.closed and self.server.closed:
            self._host.forgotten(self)
            if self.name:  # else the server may still be reached
                for part in (self.client, self.server, self.up, self.down):
                    part.part()  # what knows each other is found by nobody but the garbage collector

    def crowded(self, end: Endpoint, *, full: bool) -> None:
        """Stop the other end's octets while this one takes no more."""
        source = self.server if end is self.client else self.client
        if full:
            source.hold_reading("full")
        else:
            source.release_reading("full")

    # what the lanes say (conformance.wire.lane.Watcher)

    @property
    def watched(self) -> bool:
        """Whether every unit must be examined before it passes."""
        return self._orphaned or self._unit_by_unit or self._breaker.watches(self.pair)

    def examine(self, lane: Lane, unit: Unit, skip: int) -> Unit | None:
        """Let faults and moments have their say; what the server cannot answer any more is answered here."""
        if self._orphaned and lane is self.up:
            self._answer_for_server(unit)
            return None
        return self._breaker.examine(self, lane, unit, skip)

    def passing(self, lane: Lane, unit: Unit) -> None:
        """Record a unit."""
        match unit:
            case CommandLine():
                if unit.verb in ABORTS_CONTENT:
                    self._digester = None
                if REDACTED in unit.line:
                    self._recorder.secrets.add_from_auth_line(unit.raw, self.name)
                self._recorder.record(
                    Command,
                    session=self.name,
                    verb=self._host.dialect.canonical_verb(unit.verb, unit.awaited.asked),
                    line=unit.line,
                    operation=unit.awaited.asked,
                )
            case WholeReply():
                self._recorder.record(
                    Reply,
                    session=self.name,
                    to=(unit.awaited.known_as if unit.awaited else "") or unit.to,
                    code=unit.code,
                    enhanced=unit.enhanced,
                    lines=self._host.dialect.mark_keywords(unit.lines) if unit.to in GREETS else unit.lines,
                    recipient=unit.awaited.recipient if unit.awaited and unit.to == "CONTENT" else None,
                    operation=self._means(unit),
                    malformed="" if unit.injected else unit.malformed,
                )
            case ContentPart():
                if self._digester is None:
                    self._digester, self._unstuffer, self.content_passed = Digester(), Unstuffer(), 0
                    self.contents += 1
                self._digester.feed((self._unstuffer.feed if unit.stuffed else self._unstuffer.skip)(unit.raw))
                self.content_passed += len(unit.raw)
            case ContentEnd():
                digester = self._digester or Digester()
                self._digester = None
                self.content_passed = 0
                self._recorder.record(Content, session=self.name, digest=digester.digest())

    def passed(self, lane: Lane, unit: Unit) -> None:
        """Let moments know."""
        self._breaker.passed(self, lane, unit)

    def pending(self, lane: Lane) -> bytes:
        """Return the octets of a direction that are in no unit yet."""
        return self.conversation.undecided if lane is self.up else self.conversation.unfinished_reply

    def ended(self, lane: Lane, how: Literal["fin", "reset"]) -> None:
        """Pass an end on: FIN this way only, RST for all."""
        if self.over:
            return
        if how == "reset":
            self.reset()
            return
        lane.finished = True
        lane.target.write_eof()
        if self.up.finished and self.down.finished and not self.over:
            self._close("fin")
            self.client.close()
            self.server.close()

    # what faults do

    def connected(self, name: str) -> None:
        """Record that the session has begun."""
        self.name = name
        pair = self.pair
        self._recorder.record(Connected, session=name, client=pair.client, server=pair.server, listener=pair.listener)

    def abandon(self) -> None:
        """End a session whose server was never dialled, since the client has left."""
        self._close("fin")
        self.client.close()

    def drop(self) -> None:
        """End the session with FIN to both."""
        if not self.over:
            self._first_to_leave = "link"
            self._close("fin")
            self.client.leave()
            self.server.leave()

    def reset(self, by: Literal["link"] | None = None) -> None:
        """End the session with RST to both."""
        if not self.over:
            self._first_to_leave = by or self._first_to_leave
            self._close("reset")
            self.client.reset()
            self.server.reset()

    def half_close(self, lane: Lane) -> None:
        """Send FIN in one direction; what its source still sends is lost."""
        self._first_to_leave = self._first_to_leave or "link"
        lane.stop()
        self.ended(lane, "fin")

    def orphan(self, owed: bytes = _GONE) -> None:
        """Take the server away with RST; what it owes is answered so, and the next command with 421 (QUIT: 221)."""
        self._orphaned = True
        self.down.stop()
        self.down.finished = True
        self.server.reset()
        self.conversation.abandon(owed)
        self._give_answers()

    def mute(self) -> None:
        """Let nothing through any more, in either direction, as long as the session lives."""
        self.up.stop()
        self.down.stop()

    def answer(self, awaited: PendingReply, octets: bytes) -> None:
        """Answer a command instead of the server, when the replies before it have passed."""
        self._unit_by_unit = True
        awaited.answer = octets
        self._give_answers()

    def _give_answers(self) -> None:
        for reply in self.conversation.answers():
            self.down.put(reply)
        self.down.pump()

    def _answer_for_server(self, unit: Unit) -> None:
        if not isinstance(unit, CommandLine):
            return
        self.passing(self.up, unit)
        self.answer(unit.awaited, _BYE if unit.verb == "QUIT" else _GONE)
        self.drop()

    def _from_client(self, data: bytes) -> None:
        hurried = self.up.hurry(data, self.conversation.held)
        units = self.conversation.client(data)
        for unit in units:
            if isinstance(unit, CommandLine):
                self._understand(unit)
            elif isinstance(unit, ContentEnd):
                unit.awaited.asked, self._shadowing = self._shadowing, None
        self.up.take(units, data, self.conversation.held, hurried=hurried)
        if self.conversation.stuck:
            self.client.hold_reading("undecided")
        else:
            self.client.release_reading("undecided")

    def _from_server(self, data: bytes) -> None:
        hurried = self.down.hurry(data, self.conversation.reply_held)
        units = self.conversation.server(data)
        self.down.take(units, data, self.conversation.reply_held, hurried=hurried)

    def _understand(self, unit: CommandLine) -> None:
        asked = self._host.dialect.parse_command(unit.line)
        unit.awaited.asked = asked
        if unit.awaited.verb == unit.verb:  # else the reply is to the content that it ends
            unit.awaited.known_as = self._host.dialect.canonical_verb(unit.verb, asked)
        if unit.verb in ABORTS_CONTENT:
            self._shadowing = asked if asked is not None and asked.name == "shadow-message" else None

    def _means(self, unit: WholeReply) -> Operation | None:
        asked = unit.awaited.asked if unit.awaited is not None else None
        if asked is None:
            return None
        return self._host.dialect.parse_reply(asked, unit.code, unit.lines, content=unit.to == "CONTENT")

    def _close(self, how: Literal["fin", "reset"]) -> None:
        self.over = True
        self.up.stop()
        self.down.stop()
        if self.name:
            told = "secured" if self.conversation.secured and how == "fin" else how
            self._recorder.record(Closed, session=self.name, by=self._first_to_leave or "link", how=told)
        self._host.ended(self)
