"""Judges how long a session may last: receive connectors (SR-TMO-06, SR-TMO-07) and send connectors (SR-TMO-08).

Theory of operation
-------------------
A session alternates between two states: the client waits for a reply, or the server waits for the client. `_waits` cuts it into
such waits by counting the replies that the server owes. A server is idle while it waits; from 354 to the final dot, during AUTH
and within TLS, octets of the client flow that no event shows, so there the server may end the session late but not early.

- A receive connector (a listener of a server) ends a session with 421 4.4.2, or closes it, when it is idle for
  ConnectionInactivityTimeout or older than ConnectionTimeout; not before, unless it stops (RFC 5321 3.8: a server does not close
  a session on purpose otherwise).
- A send connector (a server as client) closes a session in which it waits for SendConnectionInactivityTimeout.

Both sides of the limits are judged. A limit that is changed while the session is open counts from the same moment, in its old or
its new value (ruling 22). Candidates that claim only a relay's capabilities are not bound by these limits.

From some faults on, what the link recorded may differ from what the two parties saw: it is *hidden*. A session is judged up to
these. `n` is an event's number, `t` its time in documented seconds.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes. Functions that take a `finding` add to it. A violation blames its `row`, else the rule's first
requirement. A `Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `dot_n` and `dot_t` those of its final
dot (None before it), and `replies` the final replies. Its `kind` is `shadow` (a copy that the server is to hold, 2013 and later),
`tracked` (2010: mail of which the client keeps the shadow) or `plain`. A session is *delayed* where a fault kept octets, or the
connection, back for any time, and *disturbed* where any fault acted in it or may have delayed it. Of a server's listeners
`frontend` is for mail from outside, `transport` for other servers, `delivery` that of its mailbox store. `facts.slack` is by how
many seconds a time may miss a bound. `claims` are the capabilities that the candidate claims.

Records: a `NodeEvent` says what happened to a server, such as `ready`, `killed`, `wiped` (it lost its queue); a `FaultFired`
event is a fault that acted.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from conformance.faults import ALTERING_FAULTS, DELAYING_FAULTS, HOLDING_FAULTS
from conformance.history.events import Command, FaultFired, NodeEvent, Reply
from conformance.model.facts import Facts
from conformance.model.rules import rule
from conformance.model.server_facts import STOPPING_ACTIONS
from conformance.trace.context import is_relay_only
from conformance.trace.dials import find_dials
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import Session

_LMTP = frozenset({"delivery", "lmtp"})


@dataclass(frozen=True, slots=True)
class _Wait:
    """A wait of one `party` for the other, from an event to the next; `until_*` are None for the wait in which the history ends.

    `may_send_octets` says whether the client may send octets that no event shows.
    """

    party: Literal["client", "server"]
    n: int
    t: float
    until_n: int | None
    until_t: float | None
    may_send_octets: bool = False


@rule("SR-TMO-06", "SR-TMO-07")
def receive_connectors_keep_their_limits(facts: Facts) -> Finding:
    """Check that a server closes idle and old sessions at their limits, and no session before.

    Candidates that claim only a relay's capabilities are not judged.
    """
    finding = Finding("receive connectors close idle and old sessions at their limits, and no others")
    if is_relay_only(facts.context.claims):
        return finding
    for session in facts.trace.sessions.values():
        if facts.is_tested_server(session.server):
            _check_receiver(facts, finding, session)
    return finding


def _check_receiver(facts: Facts, finding: Finding, session: Session) -> None:
    """Add violations where the server of one session ended it too late or too early by the limits of its listener.

    Each limit that the session reaches is an occasion, and so is an end by the server that only a limit can explain. The end
    is not judged as too early in a disturbed session.
    """
    end_n, end_t = _end_of_session(facts, session)
    shutdown = next((reply for reply in session.replies if reply.code == 421), None)
    ended_by_server = shutdown is not None or (session.closed is not None and session.closed.by == "server")
    limits = facts.listener_limits_between(session.server, session.listener, session.n, end_n)
    ages, idles = (
        [float(limit[name]) for limit in limits] for name in ("connection_timeout", "connection_inactivity_timeout")
    )
    if not ended_by_server and end_t - session.t < min(*ages, *idles):
        return
    over_n, over_t = (shutdown.n, shutdown.t) if shutdown is not None else (end_n, end_t)
    hidden_n, hidden_t = _replies_hidden_from(facts, session)
    waits = list(_waits(facts, session))
    # ---- too late
    age = min(over_t, hidden_t) - session.t
    if age >= min(ages) - facts.slack:
        finding.occasions += 1
        if age > max(ages) + facts.slack:
            finding.add_violation(
                f"{session.server} left its session {session.name} with {session.client} open for {format_seconds(age)}, "
                f"beyond the limit of {format_seconds(max(ages))}",
                session.n,
                row="SR-TMO-07",
            )
    for wait in waits:
        if wait.party != "server" or wait.may_send_octets or wait.n > over_n:
            continue
        lasted = min(wait.until_t if wait.until_t is not None else end_t, over_t, hidden_t) - wait.t
        finding.occasions += lasted >= min(idles) - facts.slack
        if lasted > max(idles) + facts.slack:
            finding.add_violation(
                f"{session.server} left its session {session.name} with {session.client} open although that was idle for "
                f"{format_seconds(lasted)}, beyond the limit of {format_seconds(max(idles))}",
                wait.n,
            )
    # ---- too early
    if not ended_by_server or hidden_n < over_n or facts.is_disturbed(session.name):
        return
    is_timeout = shutdown is not None and shutdown.enhanced == "4.4.2"
    if not is_timeout and (shutdown is not None or not _is_closed_without_reason(session)):
        return
    finding.occasions += 1
    last = max((wait for wait in waits if wait.n < over_n), key=lambda wait: wait.n)
    idle = over_t - last.t
    if over_t - session.t < min(ages) - facts.slack and idle < min(idles) - facts.slack:
        finding.add_violation(
            f"{session.server} ended its session {session.name} with {session.client} after "
            f"{format_seconds(over_t - session.t)}, of which the client was idle for {format_seconds(idle)}: the limits are "
            f"{format_seconds(min(ages))} and {format_seconds(min(idles))}",
            over_n,
            row="SR-TMO-06" if idle > facts.slack and last.party == "server" else "SR-TMO-07",
        )


def _replies_hidden_from(facts: Facts, session: Session) -> tuple[float, float]:
    """Return number and time of the event from which the server's replies, or its end of the session, may not be recorded.

    Infinities for none. These faults hide them: one that alters the session, a partition (also one that cut the link before
    the session was opened), and one that holds or delays octets of the server. Octets are the server's if it owes a reply when
    the fault fires, if it has answered QUIT (its end follows), or if a later command passed and its reply did not; else they are
    the client's. An interruption of the server hides them too, since it ends its sessions, and so does a pause of the client,
    which reads nothing then. A dial that may have been throttled hides them from the session's opening on: the server's last
    reply waits until those before it have passed.
    """
    hiding: list[FaultFired | NodeEvent] = [
        fault
        for fault in facts.faults_by_session.get(session.name, ())
        if fault.action in ALTERING_FAULTS
        or fault.action.startswith("partition")
        or (
            fault.action in HOLDING_FAULTS | DELAYING_FAULTS
            and (
                _is_reply_owed(session, fault.n)
                or _is_quit_answered(session, fault.n)
                or _is_later_reply_held(facts, session, fault)
            )
        )
    ]
    if _may_be_throttled_from_dial(facts, session):
        return session.n, session.t
    for party, actions in ((session.server, STOPPING_ACTIONS), (session.client, {"paused"})):
        hiding += _first_interruption(facts, party, actions, session)
    return min(((event.n, event.t) for event in hiding), default=(math.inf, math.inf))


def _may_be_throttled_from_dial(facts: Facts, session: Session) -> bool:
    """Return whether a fault that slows both directions down may have acted on the dial from which the session came.

    It is recorded without a session. Among the dials of one client at one server that faults acted on, any may be that dial.
    """
    return session.n in facts.compute_once(_ends_of_held_dials) and any(
        fault.session is None and fault.action == "throttle" and fault.n < session.n
        and (fault.client, fault.server) == (session.client, session.server)
        for fault in facts.trace.events_of(FaultFired)
    )  # fmt: skip


def _ends_of_held_dials(facts: Facts) -> frozenset[int]:
    """Return the numbers of the events with which dials ended that faults acted on."""
    return frozenset(find_dials(facts.trace).ended)


def _is_closed_without_reason(session: Session) -> bool:
    """Return whether the server closed the session though it owed no reply, had refused nothing last, and the client had not said QUIT.

    False too after STARTTLS. Where it owes a reply, its loss is for the rules about custody; after a refusal SR-WIR-03 says that
    the session goes on.
    """
    closed = session.closed
    if closed is None or closed.by != "server" or closed.how == "secured" or not session.replies:
        return False
    if any(exchange.command.verb in ("QUIT", "STARTTLS") for exchange in session.exchanges):
        return False
    return not _is_reply_owed(session, closed.n) and session.replies[-1].code // 100 in (2, 3)


@rule("SR-TMO-08")
def send_connectors_keep_their_limit(facts: Facts) -> Finding:
    """Check that a server leaves another party that is silent for SendConnectionInactivityTimeout, and not before.

    Not before: only in ordinary transmissions. A shadow server may be left earlier (ruling 16), and a primary that is asked for
    its discard status too (ruling 29). With `timers: own` nothing says what the server's own limit is, and nothing is judged; nor
    are candidates that claim only a relay's capabilities.
    """
    finding = Finding("send connectors close a session at the limit of silence, and a transmission not before")
    if is_relay_only(facts.context.claims) or facts.context.cell.timers == "own":
        return finding
    for session in facts.trace.sessions.values():
        if facts.is_opened_by_tested_server(session.client, session.name):
            _check_sender(facts, finding, session)
    return finding


def _check_sender(facts: Facts, finding: Finding, session: Session) -> None:
    """Add violations where the client of one session left too late or too early by SendConnectionInactivityTimeout.

    Each silence of the server that reaches the limit is an occasion, and so is each end by the client that `_check_early_leave`
    judges.
    """
    end_n, end_t = _end_of_session(facts, session)
    limits = facts.parameter_numbers_between(session.client, "SendConnectionInactivityTimeout", session.n, end_n)
    closed = session.closed
    is_left = closed is not None and closed.by == "client" and closed.how != "secured"
    if not limits or (end_t - session.t < min(limits) and not is_left):
        return
    faults = facts.faults_by_session.get(session.name, ())
    until = _end_hidden_from(facts, session)
    for wait in _waits(facts, session):
        if wait.party != "client" and not any(fault.n == wait.n for fault in faults):  # it said what a fault kept
            continue
        ended = wait.until_t if wait.until_t is not None else end_t
        lasted = (ended if _is_still_there(session, wait) else min(ended, until)) - wait.t
        finding.occasions += lasted >= min(limits) - facts.slack
        if lasted > max(limits) + facts.slack:
            finding.add_violation(
                f"{session.client} waited for {session.server} for {format_seconds(lasted)} in session {session.name}, "
                f"beyond the limit of {format_seconds(max(limits))}",
                wait.n,
            )
    if is_left and until == math.inf and not faults:
        _check_early_leave(facts, finding, session, min(limits))


def _end_hidden_from(facts: Facts, session: Session) -> float:
    """Return the time from which the client's end of the session may not be recorded; infinity for never.

    Faults hide it that alter the session (a muted one's end is recorded), hold or delay octets, or cut the link, also before the
    session was opened, and a server that is paused. A client that is interrupted does not keep its limits. Where a fault may have
    delayed the dial, it is the session's opening. Before octets are held (`stall`), everything is recorded.
    """
    faults = facts.faults_by_session.get(session.name, ())
    if any(
        fault.session is None and fault.action in DELAYING_FAULTS and fault.n < session.n
        and (fault.client, fault.server) == (session.client, session.server)
        for fault in facts.trace.events_of(FaultFired)
    ):  # fmt: skip
        return session.t
    hiding: list[FaultFired | NodeEvent] = [
        fault
        for fault in faults
        if fault.action in (ALTERING_FAULTS - {"mute"}) | HOLDING_FAULTS | DELAYING_FAULTS
        or fault.action.startswith("partition")
    ]
    for party, actions in ((session.client, STOPPING_ACTIONS), (session.server, {"paused"})):
        hiding += _first_interruption(facts, party, actions, session)
    return min((event.t for event in hiding), default=math.inf)


def _first_interruption(facts: Facts, party: str, actions: Iterable[str], session: Session) -> list[NodeEvent]:
    """Return the first event with one of the actions that is in force during the session, as a list of one; [] for none.

    An event before the session counts if it is the node's last before: the kernel accepts connections for a paused program.
    """
    events = facts.node_events.get(party, ())
    before = [event for event in events if event.n < session.n][-1:]
    later = [event for event in events if event.n > session.n]
    return [event for event in (*before, *later) if event.action in actions][:1]


def _is_still_there(session: Session, wait: _Wait) -> bool:
    """Return whether the client surely went on after the wait: it then got the 354 for a DATA and sent the content."""
    return wait.until_n is not None and any(
        sent.dot_n is not None and x.command.verb == "DATA" and x.reply is not None and x.reply.code == 354
        and wait.until_n <= x.command.n < x.reply.n < sent.dot_n
        for x in session.exchanges
        for sent in session.transactions[-1:]
    )  # fmt: skip


def _check_early_leave(facts: Facts, finding: Finding, session: Session, limit: float) -> None:
    """Add a violation where the client closed a session in the midst of an ordinary transmission, before the limit of silence.

    Its last transaction is of kind `plain` and has no final reply, its last command is MAIL, RCPT or DATA, and nothing was
    refused; any other session is no occasion. `limit` is in documented seconds.
    """
    assert session.closed is not None
    commands = [exchange.command for exchange in session.exchanges]
    sent = session.transactions[-1] if session.transactions else None
    if sent is None or sent.kind != "plain" or sent.replies or commands[-1].verb not in ("MAIL", "RCPT", "DATA"):
        return
    if any(exchange.reply is not None and exchange.reply.code >= 400 for exchange in session.exchanges):
        return
    last = max(event.t for event in (*commands, *session.replies) if event.n < session.closed.n)
    last = max(last, sent.dot_t or 0)
    finding.occasions += 1
    if session.closed.t - last < limit - facts.slack:
        finding.add_violation(
            f"{session.client} left {session.server} in the midst of a transmission (session {session.name}) after a silence of "
            f"{format_seconds(session.closed.t - last)}: the limit is {format_seconds(limit)}",
            session.closed.n,
        )


def _end_of_session(facts: Facts, session: Session) -> tuple[int, float]:
    """Return number and time of the end of a session, or of the history where it stays open."""
    return (session.closed.n, session.closed.t) if session.closed is not None else (facts.end_n, facts.end_t)


def _is_reply_owed(session: Session, n: int) -> bool:
    """Return whether the server owed a reply when event `n` happened: the greeting, one to a command, or one to a content."""
    greeted = any(reply.n < n for reply in session.replies)
    unanswered = any(x.command.n < n and (x.reply is None or x.reply.n > n) for x in session.exchanges)
    sent = any(
        t.dot_n is not None and t.dot_n < n and not any(r.n < n for r in t.replies) for t in session.transactions
    )
    return not greeted or unanswered or sent


def _is_later_reply_held(facts: Facts, session: Session, held: FaultFired) -> bool:
    """Return whether a command or content passed the link after the fault `held`, and its reply came later or not at all."""
    commands = any(
        x.command.n > held.n and (x.reply is None or x.reply.t > x.command.t + facts.slack) for x in session.exchanges
    )
    return commands or any(
        sent.dot_n is not None and sent.dot_n > held.n
        and (not sent.replies or sent.replies[0].t > (sent.dot_t or 0.0) + facts.slack)
        for sent in session.transactions
    )  # fmt: skip


def _is_quit_answered(session: Session, n: int) -> bool:
    """Return whether the server had answered QUIT when event `n` happened."""
    return any(x.command.verb == "QUIT" and x.reply is not None and x.reply.n < n for x in session.exchanges)


def _waits(facts: Facts, session: Session) -> Iterator[_Wait]:
    """Yield the waits of a session in order, up to its end; the first is the client's for the greeting.

    A wait ends at each command, final dot, reply and fault. The last has no end if the session is open when the history ends.
    """
    events: list[Command | Reply | FaultFired | tuple[int, float, int]] = [x.command for x in session.exchanges]
    events += session.replies
    events += [fault for fault in facts.faults_by_session.get(session.name, ()) if fault.n > session.n]
    for t in session.transactions:
        if t.dot_n is not None and t.dot_t is not None:
            events.append((t.dot_n, t.dot_t, len(t.recipients) if session.listener in _LMTP else 1))
    owed, may_send_octets, n, t_ = 1, False, session.n, session.t
    for event in sorted(events, key=lambda e: e[0] if isinstance(e, tuple) else e.n):
        at_n, at_t = event[:2] if isinstance(event, tuple) else (event.n, event.t)
        yield _Wait(
            party="client" if owed > 0 else "server",
            n=n,
            t=t_,
            until_n=at_n,
            until_t=at_t,
            may_send_octets=may_send_octets,
        )
        n, t_ = at_n, at_t
        if isinstance(event, tuple):
            owed, may_send_octets = owed + event[2], False
        elif isinstance(event, Command):
            owed, may_send_octets = owed + 1, False
        elif isinstance(event, Reply):
            owed -= bool(event.to) and owed > 0
            may_send_octets = event.code // 100 == 3 or (event.to == "STARTTLS" and event.code == 220)
    last = session.closed
    yield _Wait(
        party="client" if owed > 0 else "server",
        n=n,
        t=t_,
        until_n=last.n if last else None,
        until_t=last.t if last else None,
        may_send_octets=may_send_octets,
    )
