"""The link of a listener: its sessions do what recipients ask for, and what the history leaves out of them is noted.

A *relay* passes the octets of one session between the client and the listener's sink; a *lane* is one of its two directions. A session
is *held* while a fault keeps something of it back. `listener` opens the link.
"""

import asyncio
from collections.abc import Callable
from typing import Literal

from conformance.history.dialects import PROFILE_1
from conformance.history.recorder import Recorder
from conformance.history.secrets import REDACTED
from conformance.listen.behaviour_injector import BehaviourInjector
from conformance.listen.behaviours import CLIENT, SINK
from conformance.listen.record import MAX_KEPT, EarlyOctets, SentContent, SentLine
from conformance.wire.endpoint import Endpoint
from conformance.wire.interfaces import Pair
from conformance.wire.lane import Lane
from conformance.wire.link import Address, Link, SessionNames
from conformance.wire.relay import Relay
from conformance.wire.units import CommandLine, ContentEnd, ContentPart, Unit, WholeReply

LINGER_S = 0.3
"""How long a session stays open after its last reply to a client that had closed its direction: RST means it did not read."""


class ObservedRelay(Relay):
    """A session of which also line ends, contents and early octets are noted; it ends when the client leaves a held session.

    `_notes` gets what is noted. `_awaited` is DATA while its reply has not been sent, else ''. `_declared`: the present MAIL
    has BODY=8BITMIME. `_sent` is what is noted of the present content, None outside of one. `_quit_sent`: the client has sent
    QUIT. `_lingers`: the end of the session waits for a possible RST of the client. A *unit* is a command line, a reply, or
    a part or the end of a content.
    """

    def __init__(self, link: Link, injector: BehaviourInjector) -> None:
        super().__init__(link)
        self._injector = injector
        self._notes = injector.record
        self._awaited = ""
        self._declared = False
        self._quit_sent = False
        self._lingers = False
        self._sent: SentContent | None = None

    def data_received(self, endpoint: Endpoint, data: bytes) -> None:
        """Take octets of a party; note the first ones that the client sends while the reply to its DATA is awaited."""
        too_early = endpoint is self.client and bool(self._awaited)
        super().data_received(endpoint, data)
        if too_early or (endpoint is self.client and self._awaited and self.parser.unparsed_client):
            early = EarlyOctets(session=self.name, t=self._injector.now(), verb=self._awaited or "DATA")
            self._notes.early.append(early)
            self._awaited = ""

    def record_unit(self, lane: Lane, unit: Unit) -> None:
        """Record a unit, and note what the history leaves out of it: the octets of a command line, or what a content shows."""
        match unit:
            case CommandLine():
                self._note_line(unit)
            case WholeReply(to="DATA"):
                self._awaited = ""
            case ContentPart(stuffed=True):
                if self._sent is None:
                    self._sent = SentContent(session=self.name, t=self._injector.now(), declared=self._declared)
                    self._notes.contents.append(self._sent)
                self._sent.feed(unit.raw)
            case ContentEnd():
                if self._sent is not None:
                    self._sent.end()
                self._sent = None
        super().record_unit(lane, unit)

    def peer_ended(self, endpoint: Endpoint, how: Literal["fin", "reset"]) -> None:
        """Handle a party's FIN or RST as `Relay` does; end the session if its client leaves while a fault holds something back.

        Else the end of the session would wait until the fault lets that pass. A client that sends FIN after QUIT may still wait
        for replies: its FIN is only noted (`half_closed`).
        """
        super().peer_ended(endpoint, how)
        if endpoint is not self.client or self.ended:
            return
        if how == "fin" and self._quit_sent:
            self._notes.half_closed.setdefault(self.name, self._injector.now())
        elif self._injector.holds(self.name):
            for lane in (self.to_client, self.to_server):
                if not self.ended:
                    self.half_close(lane)

    def end_reached(self, lane: Lane, how: Literal["fin", "reset"]) -> None:
        """Forward the end of a lane, at once or, as a FIN to a client that had sent FIN after QUIT, `LINGER_S` (0.3 s) later.

        Until then the client's RST can still come, which shows that it has not read all replies.
        """
        if lane is self.to_client and how == "fin" and self.name in self._notes.half_closed and not self._lingers:
            self._lingers = True
            asyncio.get_running_loop().call_later(LINGER_S, self._end_lingering)
        else:
            super().end_reached(lane, how)

    def _end_lingering(self) -> None:
        """Forward FIN to the client, which ends the session; note whether the client has sent RST: it did not read all replies.

        Do nothing if the session has ended.
        """
        if self.ended:
            return
        if self.client.is_reset:
            self._notes.unread.add(self.name)
        self.end_reached(self.to_client, "fin")

    def _note_line(self, unit: CommandLine) -> None:
        """Note a command line, without its secret if it belongs to AUTH; update what is known of MAIL, DATA and QUIT."""
        text = unit.raw.rstrip(b"\r\n")
        end = unit.raw[len(text) :]
        raw = unit.line.encode() if unit.verb == "AUTH" or REDACTED in unit.line else text[:MAX_KEPT]
        self._notes.lines.append(
            SentLine(
                session=self.name,
                t=self._injector.now(),
                verb=unit.verb,
                raw=raw,
                size=len(unit.raw),
                line_end=end,
            )
        )
        if unit.verb == "MAIL":
            self._declared = "BODY=8BITMIME" in unit.line.upper()
        elif unit.verb == "DATA":
            self._awaited = "DATA"
        elif unit.verb == "QUIT":
            self._quit_sent = True


class BehavingLink(Link):
    """The link of a listener: its sessions are `ObservedRelay`s; what was armed for one is removed when it ends.

    `announce` is called with the name of a session and a text about it.
    """

    def __init__(
        self, target: Address, recorder: Recorder, injector: BehaviourInjector, announce: Callable[[str, str], None]
    ) -> None:
        self.names = SessionNames()
        super().__init__(Pair(CLIENT, SINK, "smtp"), target, recorder, PROFILE_1, injector, self.names)
        self._behaviours = injector
        self._announce = announce
        injector.links.append(self)

    def make_relay(self) -> Relay:
        """Return the relay of a new connection, which notes what the history leaves out."""
        return ObservedRelay(self, self._behaviours)

    def record_session(self, relay: Relay) -> None:
        """Give a session its name, record it as connected, and announce the client's address and port."""
        super().record_session(relay)
        peer = relay.client.address("peername")
        self._announce(relay.name, f"connected from {peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "connected")

    def session_ended(self, relay: Relay) -> None:
        """Remove a session that has ended from the active ones, and the faults and replies that were armed for it."""
        super().session_ended(relay)
        self._behaviours.end_session(relay.name)
