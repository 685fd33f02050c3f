"""A relay: one session over a link, recorded and intercepted as it passes.

Theory of operation
-------------------

A relay has two endpoints (the TCP connections to client and server), two lanes (`to_server`, `to_client`) and one parser.
Octets take this way, all in one turn of the event loop unless something holds them:

    client's endpoint -> data_received -> SessionParser.feed_client -> units -> lane to_server -> server's endpoint

and the same in the other direction. The parser sees both directions, since octets mean different things depending on what
was said before (content after 354, a secret after 334, TLS after STARTTLS). Some client octets have no meaning until a
reply has come: the parser keeps them, and `data_received` lets it continue after that reply.

Each unit is recorded by `record_unit` at the moment in which its octets are written (or were just written, see
`conformance.wire.lane`), so the history has the events in the order in which the other party could notice them.

The session's life: the client connects (`connection_made`), the link decides whether to dial, the server's connection
gives the session its name and its `connected` event. The party that ends it first is noted; `_end_session` records
`closed` once, stops both lanes and notifies the link. The connections may close later; after both have closed, all
references are dropped.

When a fault takes the server away (`drop_server`) or answers in its place (`inject_reply`), the parser holds the substitute
replies, and gives each when its turn has come.
"""

from typing import Literal

from conformance.history.events import Closed, Connected
from conformance.history.values import Operation
from conformance.wire.endpoint import Endpoint
from conformance.wire.interfaces import RelayOwner
from conformance.wire.lane import Lane
from conformance.wire.session_parser import SessionParser
from conformance.wire.unit_recorder import ABORTS_CONTENT, UnitRecorder
from conformance.wire.units import CommandLine, ContentEnd, ContentPart, PendingReply, RawOctets, Unit

_UNAVAILABLE = b"421 4.3.2 Service not available"
_GOODBYE = b"221 2.0.0 Closing connection"


class Relay:
    """One session.

    `name` is '' until the session is recorded as connected. `ended` is set as soon as both connections are being closed.
    `dial_holds` are the reasons for which the server is not dialled yet.

    `_server_dropped`: the relay answers in the server's place. `_has_substitutes`: replies of the harness may be
    pending. `_chunk_reply` is the reply to a BDAT that was answered in the server's place, while the octets of its chunk are
    dropped; else None. `_ended_by` is the party that ended the session first, None before. `_shadow_operation` is what the
    present MAIL means if it begins a shadow copy, else None.
    """

    def __init__(self, link: RelayOwner) -> None:
        self.pair = link.pair
        self.name = ""
        self.ended = False
        self.dial_holds: set[str] = set()
        self.parser = SessionParser()
        self.client = Endpoint(self, "client")
        self.server = Endpoint(self, "server")
        self.to_server = Lane(self, self.client, self.server)
        self.to_client = Lane(self, self.server, self.client)
        self._link = link
        self._recorder = link.recorder
        self._interceptor = link.interceptor
        self._server_dropped = False
        self._has_substitutes = False
        self._chunk_reply: bytes | None = None
        self._ended_by: Literal["client", "server", "link"] | None = None
        self._shadow_operation: Operation | None = None
        self._units = UnitRecorder(link.recorder, link.dialect)

    @property
    def content_position(self) -> tuple[int, int]:
        """The number of contents that the client has begun, and the octets of the present one, as on the wire.

        Between contents the second is 0. Counted are octets that were forwarded, and those that `Lane.merge_with_next` keeps,
        which are recorded only when they are written.
        """
        count, octets = self._units.content_count, self._units.content_octets
        for unit in self.to_server.merging:
            match unit:
                case ContentPart():
                    count += octets == 0
                    octets += len(unit.raw)
                case ContentEnd():
                    octets = 0
                case CommandLine() if unit.verb in ABORTS_CONTENT:
                    octets = 0
        return count, octets

    # called by the endpoints (conformance.wire.endpoint.EndpointOwner)

    def connection_made(self, endpoint: Endpoint) -> None:
        """Notify the link that the client or the server is connected; reset a server reached after the session has ended."""
        if endpoint is self.client:
            self._link.client_connected(self)
        elif self.ended:
            endpoint.close_with_rst()
        else:
            self._link.server_connected(self)

    def data_received(self, endpoint: Endpoint, data: bytes) -> None:
        """Parse and forward octets, and those of the client that waited for a reply in them (`client_unblocked`).

        Octets that arrive after the session has ended are dropped.
        """
        if self.ended:
            return
        if endpoint is self.client:
            self._parse_client_octets(data)
            return
        self._parse_server_octets(data)
        while self.parser.client_unblocked and not self.ended:
            self._parse_client_octets(b"")
            self._parse_server_octets(b"")

    def peer_ended(self, endpoint: Endpoint, how: Literal["fin", "reset"]) -> None:
        """Queue the end of a peer's stream after its octets; RST also discards what was on its way to that peer.

        If the client ends while the server was not dialled (`dial_holds`), the session ends at once. Nothing happens
        after its end.
        """
        if self.ended:
            return
        if self._ended_by is None:
            self._ended_by = endpoint.name
        if self.dial_holds and endpoint is self.client:  # the server was not dialled
            self._end_session("fin")
            self.client.close()
            return
        lane, back = self.to_server, self.to_client
        if endpoint is self.server:
            lane, back = back, lane
        if how == "reset":
            back.discard_all()
        lane.enqueue_end(how)

    def connection_closed(self, endpoint: Endpoint) -> None:
        """Drop all references of an ended session when both connections are closed, so that it is freed at once.

        Do nothing while one of them is open. A session that was never connected keeps its own references.
        """
        if self.ended and self.client.closed and self.server.closed:
            self._link.session_closed(self)
            if self.name:  # else the server may still be reached
                for part in (self.client, self.server, self.to_server, self.to_client):
                    part.detach()  # reference cycles would wait for the garbage collector

    def write_buffer_changed(self, endpoint: Endpoint, *, full: bool) -> None:
        """Stop reading from the other endpoint while `endpoint` takes no more octets (`full`), and read again afterwards."""
        source = self.server if endpoint is self.client else self.client
        if full:
            source.hold_reading("full")
        else:
            source.release_reading("full")

    # called by the lanes (conformance.wire.lane.LaneObserver)

    @property
    def must_examine(self) -> bool:
        """Whether every unit must be examined before it is written."""
        answers = self._server_dropped or self._has_substitutes or self._chunk_reply is not None
        return answers or self._interceptor.may_act_on(self.pair)

    def examine(self, lane: Lane, unit: Unit, skip: int) -> Unit | None:
        """Return the unit to forward, None for nothing, as the interceptor decides.

        After `drop_server` a unit of the client is answered here instead, and None returned. So is the chunk of a BDAT that
        was answered (`answer_command`).
        """
        if self._server_dropped and lane is self.to_server:
            self._answer_without_server(unit)
            return None
        if self._chunk_reply is not None and lane is self.to_server and self._drop_chunk(unit):
            return None
        return self._interceptor.intercept(self, lane, unit, skip)

    def record_unit(self, lane: Lane, unit: Unit) -> None:
        """Record the event of a unit, as `UnitRecorder` does."""
        self._units.record(unit)

    def after_write(self, lane: Lane, unit: Unit) -> None:
        """Notify the interceptor of a unit that was forwarded; a throttled lane may not have written all of it yet."""
        self._interceptor.after_write(self, lane, unit)

    def unparsed(self, lane: Lane) -> bytes:
        """Return the octets received in a lane's direction that are in no unit yet."""
        return self.parser.unparsed_client if lane is self.to_server else self.parser.unparsed_server

    def end_reached(self, lane: Lane, how: Literal["fin", "reset"]) -> None:
        """Forward FIN in the lane's direction, or RST to both parties.

        The session ends with RST, or with the FIN of the second direction. Nothing happens once it has ended.
        """
        if self.ended:
            return
        if how == "reset":
            self.close_with_rst()
            return
        lane.ended = True
        lane.target.write_eof()
        if self.to_server.ended and self.to_client.ended and not self.ended:
            self._end_session("fin")
            self.client.close()
            self.server.close()

    # called by the link and by faults

    def record_connected(self, name: str) -> None:
        """Give the session its name, and record that it is connected."""
        self.name = self._units.session = name
        pair = self.pair
        self._recorder.record(Connected, session=name, client=pair.client, server=pair.server, listener=pair.listener)

    def close_with_fin(self) -> None:
        """End the session in the link's name, with FIN to both parties; do nothing if it has ended."""
        if not self.ended:
            self._ended_by = "link"
            self._end_session("fin")
            self.client.leave()
            self.server.leave()

    def close_with_rst(self, by: Literal["link"] | None = None) -> None:
        """End the session with RST to both parties; do nothing if it has ended.

        With `by` the link is recorded as the one that ended it, else the party that did so first (the link if none did).
        """
        if not self.ended:
            self._ended_by = by or self._ended_by
            self._end_session("reset")
            self.client.close_with_rst()
            self.server.close_with_rst()

    def half_close(self, lane: Lane) -> None:
        """Send FIN in one direction, and discard what is queued in it and what its source still sends.

        The session ends if the other direction has ended already.
        """
        self._ended_by = self._ended_by or "link"
        lane.discard_all()
        self.end_reached(lane, "fin")

    def drop_server(self, pending_reply: bytes = _UNAVAILABLE) -> None:
        """Reset the server's connection, and answer in its place until the client's next command, which ends the session.

        Each reply that the server still owes becomes `pending_reply` (without its last CRLF), unless the harness has set
        another one before; replies that wait in the queue are dropped. What was forwarded slowly, or kept for merging, is
        written first, either way. The next command is answered with 421 (QUIT: 221).
        """
        self._server_dropped = True
        self.to_server.flush_kept()
        self.to_client.flush_kept()
        self.to_client.discard_all()
        self.to_client.ended = True  # so that the client's FIN ends the session
        self.server.close_with_rst()
        self.parser.substitute_all(pending_reply)
        self._send_due_substitutes()

    def mute(self) -> None:
        """Discard all octets of both directions from now on, queued ones included, and leave the connections open.

        A FIN or RST still passes, whether it has come or comes later.
        """
        self.to_server.discard_all(keeps_end=True)
        self.to_client.discard_all(keeps_end=True)

    def inject_reply(self, pending: PendingReply, octets: bytes) -> None:
        """Give a reply (without its last CRLF) in the server's place, after the replies that are due before it."""
        self._has_substitutes = True
        pending.substitute = octets
        self._send_due_substitutes()

    def answer_command(self, unit: CommandLine, octets: bytes) -> None:
        """Give a reply (without its last CRLF) in the server's place to a command that is not forwarded.

        The octets of a BDAT's chunk, which come next, are dropped: without the command the server would take them for commands.
        The reply to BDAT LAST is given when its chunk has come.
        """
        if unit.verb == "BDAT":
            self._chunk_reply = octets
        if unit.pending.verb != "CONTENT":  # else it is BDAT LAST, whose own pending reply is never given
            self.inject_reply(unit.pending, octets)

    def _drop_chunk(self, unit: Unit) -> bool:
        """Return whether a unit of the client belongs to the chunk of a BDAT that was answered, so that it is not forwarded.

        At the end of the last chunk its reply is given. Any other unit comes after the chunk.
        """
        if isinstance(unit, ContentPart):
            return True
        reply, self._chunk_reply = self._chunk_reply, None
        if isinstance(unit, ContentEnd) and reply is not None:
            self.inject_reply(unit.pending, reply)
            return True
        return False

    def _send_due_substitutes(self) -> None:
        """Queue the substitute replies whose turn has come, and process the queue to the client."""
        for reply in self.parser.take_due_substitutes():
            self.to_client.enqueue(reply)
        self.to_client.process_queue()

    def _answer_without_server(self, unit: Unit) -> None:
        """Answer the client's next command, or the end of a content, after the server was dropped, and end the session with FIN.

        The reply is 421, to QUIT 221. A command is recorded. TLS cannot be answered: it ends the session. Parts of a content are
        ignored, and so are octets that are not parsed for another reason.
        """
        match unit:
            case CommandLine():
                self.record_unit(self.to_server, unit)
                self.inject_reply(unit.pending, _GOODBYE if unit.verb == "QUIT" else _UNAVAILABLE)
            case ContentEnd():
                self.inject_reply(unit.pending, _UNAVAILABLE)
            case RawOctets() if self.parser.secured:
                pass
            case _:
                return
        self.close_with_fin()

    def _parse_client_octets(self, data: bytes) -> None:
        """Parse and forward octets of the client; stop reading from it while the parser can hold no more.

        `forward_fast` writes them before they are parsed if nothing may act on them, and returns whether it has. `accept`
        records the units, and writes or queues what was not written.
        """
        written = self.to_server.forward_fast(data, len(self.parser.unparsed_client))
        units = self.parser.feed_client(data)
        for unit in units:
            if isinstance(unit, CommandLine):
                self._interpret_command(unit)
            elif isinstance(unit, ContentEnd):
                # the reply to the content completes the shadow copy that MAIL began
                unit.pending.operation, self._shadow_operation = self._shadow_operation, None
        self.to_server.accept(units, data, len(self.parser.unparsed_client), written=written)
        if self.parser.client_buffer_full:
            self.client.hold_reading("undecided")
        else:
            self.client.release_reading("undecided")

    def _parse_server_octets(self, data: bytes) -> None:
        """Parse and forward octets of the server, as those of the client; only a full queue of the lane stops reading."""
        written = self.to_client.forward_fast(data, self.parser.unparsed_server_size)
        units = self.parser.feed_server(data)
        self.to_client.accept(units, data, self.parser.unparsed_server_size, written=written)

    def _interpret_command(self, unit: CommandLine) -> None:
        """Set what a command means in the link's dialect: the operation and the canonical verb of its pending reply.

        A MAIL that begins a shadow copy is remembered until the end of its content, whose reply completes the operation. Any
        other command of `ABORTS_CONTENT` ends that.
        """
        operation = self._link.dialect.parse_command(unit.line)
        unit.pending.operation = operation
        if unit.pending.verb == unit.verb:  # else it is BDAT LAST, whose reply answers the content
            unit.pending.canonical_verb = self._link.dialect.canonical_verb(unit.verb, operation)
        if unit.verb in ABORTS_CONTENT:
            is_shadow = operation is not None and operation.name == "shadow-message"
            self._shadow_operation = operation if is_shadow else None

    def _end_session(self, how: Literal["fin", "reset"]) -> None:
        """Stop both lanes, record the end of a session that was connected, and notify the link."""
        self.ended = True
        self.to_server.discard_all()
        self.to_client.discard_all()
        if self.name:
            # After STARTTLS the history lacks what was sent: an orderly end is recorded as `secured`.
            recorded = "secured" if self.parser.secured and how == "fin" else how
            self._recorder.record(Closed, session=self.name, by=self._ended_by or "link", how=recorded)
        self._link.session_ended(self)
