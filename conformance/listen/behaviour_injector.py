"""Does to each session of a listener what its recipients ask for.

A *behaviour* is what a recipient's address asks of the next hop: a fault or a reply. It is *early* if its place in a session comes
before RCPT, so that only a later session can meet it. A *relay* passes the octets of one session between the client and the sink, in
two *lanes*, one for each direction; a *unit* is a command line, a reply, or a part or the end of a content. The link asks here about
every unit.

The replies that a client has to wait for are held back for a moment, so that octets that were sent without waiting arrive first
and can be distinguished from those that were sent after the reply.
"""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable

from conformance.history.events import AnyEvent, FaultFired
from conformance.history.recorder import ElapsedClock, Recorder
from conformance.listen.behaviours import CLIENT, SINK, Behaviour, UnknownBehaviour, parse_behaviour
from conformance.listen.record import HOLDING_ACTIONS, Attempted, ListenRecord
from conformance.report.escaping import visible
from conformance.scenarios.steps.breaking import Answer, Fault
from conformance.wire.fault_injector import FaultInjector
from conformance.wire.interfaces import Pair
from conformance.wire.lane import Lane
from conformance.wire.link import Link
from conformance.wire.relay import Relay
from conformance.wire.sinks import Sink
from conformance.wire.units import CommandLine, PendingReply, Unit, WholeReply

HELD_BACK_S = 0.1
"""How long a reply is held back that the client has to wait for. A client that does not wait sends within this time."""

_AWAITED = frozenset({"GREETING", "EHLO", "HELO", "DATA", "QUIT"})
_IN_TRANSACTION = frozenset({"RCPT", "DATA", "body", "dot"})
_COME_BACK = "451 4.7.1 {}: the next connection meets it"


class BehaviourInjector(FaultInjector):
    """Arms the faults of a behaviour when RCPT names it.

    `announce` is called with a session and what is done there. `held_back` is for how many seconds a reply is held back that
    must be awaited. `_turns` counts, for each address, the attempts since one was accepted. `_armed` has the names of the
    faults of each session, `_answers` the addresses for which the sink has a reply. `_early` are faults that have not yet
    fired in any session, `_holding` the sessions in which one has held something: if their client goes, the link ends them without
    waiting for that. `_held` are replies that are held back.
    """

    def __init__(
        self,
        recorder: Recorder,
        clock: ElapsedClock,
        sink: Sink,
        announce: Callable[[str, str], None],
        held_back: float,
    ) -> None:
        super().__init__(recorder, lambda seconds: seconds, lambda: self.links)
        self.links: list[Link] = []
        self.record = ListenRecord(recorder.events)
        self.now = clock.elapsed
        self._sink = sink
        self._announce = announce
        self._held_back = held_back
        self._turns: dict[str, int] = {}
        self._armed: defaultdict[str, list[str]] = defaultdict(list)
        self._answers: defaultdict[str, list[str]] = defaultdict(list)
        self._early: set[str] = set()
        self._holding: set[str] = set()
        self._numbers = itertools.count(1)
        self._held: set[PendingReply] = set()
        recorder.subscribe(self._note_fired)

    def may_act_on(self, pair: Pair) -> bool:
        """Return True, so that every unit is examined: any RCPT may name a behaviour."""
        return True

    def intercept(self, relay: Relay, lane: Lane, unit: Unit, skip: int) -> Unit | None:
        """Return the unit to forward; None where it is held back, or a fault holds, answers or drops it.

        Before that, arm what an RCPT asks for, and at MAIL remove what the last transaction had armed. A reply for which a client
        has to wait (`_AWAITED`) is requeued once, and its lane held for `held_back` seconds.
        """
        if isinstance(unit, CommandLine) and unit.verb == "RCPT" and unit.pending.recipient is not None:
            self._begin_attempt(relay, unit.pending.recipient)
        elif isinstance(unit, CommandLine) and unit.verb == "MAIL":
            self._end_transaction(relay.name)
        if isinstance(unit, WholeReply) and unit.to in _AWAITED and unit.pending is not None:
            if unit.pending not in self._held:
                self._held.add(unit.pending)
                lane.requeue(unit, skip, examined=False)
                lane.hold("awaited")
                asyncio.get_running_loop().call_later(self._held_back, lane.release, "awaited")
                return None
            self._held.discard(unit.pending)
        return super().intercept(relay, lane, unit, skip)

    def holds(self, session: str) -> bool:
        """Whether a fault has held or discarded something in a session, now or before."""
        return session in self._holding

    def end_session(self, session: str) -> None:
        """Remove the faults and replies that were armed for a session; announce each fault that had no occasion."""
        self._holding.discard(session)
        for name in self._armed.pop(session, ()):
            self._disarm(session, name)
        self._end_transaction(session)

    def _end_transaction(self, session: str) -> None:
        """Remove what recipients of the last transaction asked for: replies of the sink, and faults that did not fire.

        Only faults in a transaction (at RCPT, DATA, body or dot) are removed; each is announced.
        """
        for name in tuple(self._armed.get(session, ())):
            armed = self._faults[name]
            if not armed.fired and armed.fault.at in _IN_TRANSACTION:
                self._armed[session].remove(name)
                self._disarm(session, name)
        for address in self._answers.pop(session, ()):
            self._script_reply(address, "accept", times=None)  # ends what the sink was to answer for that recipient

    def _disarm(self, session: str, name: str) -> None:
        """Remove a fault of a session, and release what it holds; announce it if it has never fired."""
        armed = self._faults[name]
        if not armed.fired:
            fault = armed.fault
            self._announce(
                session, f"{fault.does} {fault.when} {fault.at} had no occasion: the session did not come so far"
            )
        self.heal(name)

    def _note_fired(self, event: AnyEvent) -> None:
        """Note for a session that a fault has held something back in it; called with each recorded event.

        An early fault was armed for any session. It now belongs to the one in which it has fired, and `end_session` removes it then.
        """
        if not isinstance(event, FaultFired) or event.session is None:
            return
        if event.action in HOLDING_ACTIONS:
            self._holding.add(event.session)
        if event.fault in self._early:
            self._early.discard(event.fault)
            self._armed[event.session].append(event.fault)

    def _begin_attempt(self, relay: Relay, address: str) -> None:
        """Decide what is done for the recipient of an RCPT that is examined now; note it, announce it and arm it.

        An address that looks like a behaviour and is none is answered 550. An early behaviour is armed for later sessions, and
        this RCPT answered 451. Any other acts in this session. Without one, or at its turn to be accepted, nothing is armed.
        """
        try:
            behaviour = parse_behaviour(address)
        except UnknownBehaviour as error:
            self._note_attempt(relay, address, "unknown", str(error))
            self._answer_rcpt(relay, f"550 5.1.1 {visible(str(error))}"[:400])  # a CR of the client would begin a line
            return
        if behaviour is None or not self._count_attempt(address.lower(), behaviour):
            self._note_attempt(relay, address, "", f"{address} is accepted")
            return
        self._note_attempt(
            relay, address, behaviour.name, behaviour.name + (" at the next connection" if behaviour.early else "")
        )
        if behaviour.early:
            for fault in behaviour.faults:
                self._arm_early(fault, behaviour.times)
            self._answer_rcpt(relay, _COME_BACK.format(behaviour.name))
            return
        for fault in behaviour.faults:
            self._arm(fault, relay.name)
        if behaviour.dot_reply is not None:
            self._script_reply(address, behaviour.dot_reply, times=1)
            self._answers[relay.name].append(address)

    def _count_attempt(self, address: str, behaviour: Behaviour) -> bool:
        """Count an attempt for an address; return whether the behaviour acts at it. Else the recipient is to be accepted.

        After an accepted attempt the count begins anew. An early behaviour is armed at one attempt, one with `times` None at
        every one.
        """
        if behaviour.times is None:
            return True
        last = 1 if behaviour.early else behaviour.times
        turn = self._turns.get(address, 0)
        self._turns[address] = 0 if turn >= last else turn + 1
        return turn < last

    def _arm(self, fault: Fault, session: str | None) -> str:
        """Arm a fault on a session, None for all, under a name of its own; return the name."""
        name = f"b{next(self._numbers)}"
        self.arm(fault.model_copy(update={"name": name}), session)
        if session is not None:
            self._armed[session].append(name)
        return name

    def _arm_early(self, fault: Fault, times: int | None) -> None:
        """Arm `times` copies of a fault, each of which fires once, for the next sessions that come to its place.

        A copy is removed when the session ends in which it has fired; one at connect, where no session has begun, stays and
        does no more. With `times` None one is armed for all sessions, and stays.
        """
        if times is None:
            self._arm(fault.model_copy(update={"times": None}), None)
            return
        self._early.update(self._arm(fault, None) for _ in range(times))

    def _answer_rcpt(self, relay: Relay, reply: str) -> None:
        """Arm a fault by which the RCPT that is examined now is answered with a reply, and not forwarded to the sink."""
        fields = {
            "as": "x",
            "from": CLIENT,
            "to": SINK,
            "does": "answer",
            "at": "RCPT",
            "when": "before",
            "reply": reply,
        }
        self._arm(Fault.model_validate(fields), relay.name)

    def _script_reply(self, address: str, reply: str, times: int | None) -> None:
        """Have the sink answer the content for an address with a reply, `times` times, None: always; `accept` ends that."""
        fields = {"sink": self._sink.name, "at": "dot", "reply": reply, "recipient": address, "times": times}
        self._sink.script_answer(Answer.model_validate(fields))

    def _note_attempt(self, relay: Relay, address: str, behaviour: str, text: str) -> None:
        """Note what is done for a recipient ('' for nothing), and announce it with a text."""
        attempt = Attempted(session=relay.name, t=self.now(), address=address, behaviour=behaviour)
        self.record.attempts.append(attempt)
        self._announce(relay.name, text)
