"""Judges that what failed for now is tried again, and given up neither early nor silently (RL-RTY-01, RL-RTY-02).

A server that is responsible for a recipient (`relaying`) tries at once, and again within MessageRetryInterval of each transient
failure, until a next hop has accepted or refused the message for good, the mailbox has it, or it expires. A 4yz reply, a lost
session and a connection that fails are transient. A try is a transaction of the message, or a connection to one of its next hops
in which no mail could be sent. A server that was down begins again when it is ready.

The interval binds candidates with the documented parameters only: RFC 5321 4.5.4.1 gives a relay a pace as a SHOULD. That nothing
is given up before it expires binds every relay, where the harness sets the timers: `reports` judges that.

`n` is an event's number, `t` its time in documented seconds. Each rule judges one recorded history, `facts`, and returns a
`Finding` of occasions (chances to fail) and violations, as `conformance.model` describes. Functions that take a `finding` add to
it. A violation blames its `row`, else the rule's first requirement. A `Transaction` is one mail transaction: `n` and `t` are
those of its MAIL. A session is *delayed* where a fault kept octets, or the connection, back for any time. `facts.slack` is by how
many seconds a time may miss a bound. `claims` are the capabilities that the candidate claims.

Records: `Relaying` has, by server, message and recipient, each `Handing` (the server was handed the message, and `acknowledged`
it or not) and each `Try` (it tried to pass it on; `outcome` is the first digit of the reply that decided), and by server each
`HopConnection` (a connection without mail of a known message); a `FaultFired` event is a fault that acted.
"""

import math
from collections.abc import Iterator, Sequence

from conformance.faults import DELAYING_FAULTS, HOLDING_FAULTS
from conformance.history.events import FaultFired, Reply
from conformance.model.facts import Facts
from conformance.model.relaying import Handing, HopConnection, Key, Relaying, Try, needs_smtputf8, sessions_from
from conformance.model.rules import rule
from conformance.model.server_facts import STOPPING_ACTIONS
from conformance.scenarios.steps.nodes import Activate, Redirect
from conformance.trace.context import is_relay_only
from conformance.trace.dials import is_end_unclear
from conformance.trace.finding import Finding, format_seconds

_PROMPT_S = 1.0
"""Documented seconds within which a message that is done was not left without a try, whatever the interval is."""


@rule("RL-RTY-01", "RL-RTY-02")
def transient_failures_are_tried_again(facts: Facts) -> Finding:
    """Check that no server leaves a message that it is responsible for without a try for longer than MessageRetryInterval.

    Candidates that claim only a relay's capabilities, and cells with `timers: own`, are not judged.
    """
    finding = Finding("what a server is responsible for is tried, and tried again at each MessageRetryInterval")
    if is_relay_only(facts.context.claims) or facts.context.cell.timers == "own":
        return finding
    relaying = facts.compute_once(Relaying)
    for key, handings in relaying.handings.items():
        responsible = [handing for handing in handings if handing.acknowledged is not None]
        if responsible:
            _check_gaps(facts, finding, relaying, key, responsible[0])
    return finding


def _check_gaps(facts: Facts, finding: Finding, relaying: Relaying, key: Key, handing: Handing) -> None:
    """Add a violation for the first gap between tries that is longer than MessageRetryInterval.

    `key` is server, message and recipient; `handing` made the server responsible. Gaps count from its acknowledgement until the
    server has nothing more to do for the recipient, or the message expires. Times in which it was down, could not write to its disk
    or may have waited for a silent or slow next hop count as tries.
    """
    server, name, recipient = key
    acknowledged = handing.acknowledged
    assert acknowledged is not None
    tries = relaying.tries.get(key, ())
    done_n, done_t = _find_end_of_duty(facts, tries, (), name, recipient)
    if done_t - acknowledged.t <= _PROMPT_S:  # nearly all messages: spared the look at all connections of the server
        finding.occasions += bool(tries)
        return
    hops = possible_hops(facts, server, recipient)
    contacts = [contact for contact in relaying.hop_connections.get(server, ()) if contact.server in hops]
    done_n, done_t = _find_end_of_duty(facts, tries, contacts, name, recipient)
    if facts.trace.messages[name].digest.eight_bit:  # a next hop without 8BITMIME may not be sent it (RFC 6152 3)
        lacking = [s for s in sessions_from(facts, server) if s.server in hops and "8BITMIME" not in (s.keywords or ())]
        done_n, done_t = min([(done_n, done_t), *((s.n, s.t) for s in lacking)])
    if needs_smtputf8(facts.trace.messages[name].sender, recipient):  # nor what needs SMTPUTF8 (RFC 6531 3.2)
        lacking = [s for s in sessions_from(facts, server) if s.server in hops and "SMTPUTF8" not in (s.keywords or ())]
        done_n, done_t = min([(done_n, done_t), *((s.n, s.t) for s in lacking)])
    if done_n < acknowledged.n:
        return
    if facts.is_2010(server):  # a server whose shadows were taken over need not deliver the message (ruling 19)
        taken = [p.transmission.t for p in facts.promotions_by_message.get(name, ()) if p.holder != server]
        done_t = min([done_t, *taken])
    # a 2010 server tries before it acknowledges, so that a timer of an earlier value may run
    interval = _greatest_value(facts, server, "MessageRetryInterval", handing.n, done_n)
    lifetime = _least_value(facts, server, "MessageExpirationTimeout", acknowledged.n)
    if interval is None or lifetime is None:
        return
    until = min(done_t, facts.end_t, handing.t + lifetime)
    finding.occasions += bool(tries) or until - acknowledged.t > interval
    if until - acknowledged.t <= interval:
        return
    spans: list[tuple[float, float, Try | None]] = [
        (relaying.find_begin(facts.trace.sessions[t.transaction.session])[1], _end_of_try(facts, t), t) for t in tries
    ]
    spans += [(contact.t, contact.end_t, None) for contact in contacts]
    down, limit = _down_times(facts, server, handing.responsible_n or acknowledged.n)
    swallowed = _swallowed_connection_times(facts, server, hops, acknowledged.n)
    waits = (*down, *swallowed, *_slow_session_times(facts, server, hops), *_disk_fault_times(facts, server, interval))
    spans += [(begin, end, None) for begin, end in waits]
    since, last = acknowledged.t, None
    for begin, end, one in sorted(spans, key=lambda span: span[:2]):
        if begin >= min(until, limit):
            break
        if begin > since + interval + facts.slack:
            break
        since = max(since, end)
        last = one if one is not None else last
    if min(until, limit) > since + interval + facts.slack:
        last_reply = last.reply if last is not None else None
        finding.add_message_violation(
            facts.trace.messages[name],
            f"{server} did not try to pass it on to {recipient} from {format_seconds(since)} on, longer than "
            f"{format_seconds(interval)}{_format_last_reply(last_reply)}",
            last_reply.n if last_reply is not None else acknowledged.n,
            row="RL-RTY-02" if _is_not_redundant(last_reply) else None,
        )


def _disk_fault_times(facts: Facts, server: str, interval: float) -> Iterator[tuple[float, float]]:
    """Yield begin and end, in documented seconds, of each time in which a server may wait for its disk with the next try.

    That is while a fault is in force on the disk, since the server cannot record what it has passed on, and for one interval
    (MessageRetryInterval) more: it notices at its next write that there is room.
    """
    for begin, end in facts.disk_fault_times(server):
        yield begin.t, facts.end_t if end is None else end.t + interval


def _slow_session_times(facts: Facts, server: str, hops: set[str]) -> Iterator[tuple[float, float]]:
    """Yield begin and end, in documented seconds, of each session of the server with a next hop that a fault delayed.

    Meanwhile other mail may wait, since a server may limit its sessions. An open session ends with the history.
    """
    for hop in hops:
        for session in facts.sessions_by_client_and_server.get((server, hop), ()):
            if session.name in facts.trace.delayed_sessions:
                yield session.t, session.closed.t if session.closed is not None else facts.end_t


def _end_of_try(facts: Facts, one: Try) -> float:
    """Return when a try ended for the server, in documented seconds; infinity while it goes on.

    It goes on until the transaction is decided for its other recipients too. In a session that a fault delayed, the server may
    read the reply later than it was recorded. So the session's end counts, if it is later.
    """
    end_t = facts.compute_once(_ends_of_transactions)[one.transaction.n]
    closed = facts.trace.sessions[one.transaction.session].closed
    if closed is None or one.transaction.session not in facts.trace.delayed_sessions:
        return end_t
    return max(end_t, closed.t)


def _ends_of_transactions(facts: Facts) -> dict[int, float]:
    """Return when each transaction that is a try was decided for all its recipients, by the number of its MAIL.

    Times are documented seconds, infinity for a transaction that goes on.
    """
    ends: dict[int, float] = {}
    for tries in facts.compute_once(Relaying).tries.values():
        for one in tries:
            ends[one.transaction.n] = max(one.end_t, ends.get(one.transaction.n, 0.0))
    return ends


def _find_end_of_duty(
    facts: Facts, tries: Sequence[Try], contacts: Sequence[HopConnection], name: str, recipient: str
) -> tuple[float, float]:
    """Return number and time of the first event since which a server has nothing to do for the recipient; infinities without one.

    The event is the end of a try that decided, or may have (unclear ones, and `contacts` that may be final), or a delivery to the
    mailbox. A delivery of another message with the same Message-ID counts too: the mailbox takes this one for its duplicate.
    """
    context, trace = facts.context, facts.trace
    ends = [(t.end_n, t.end_t) for t in tries if t.outcome in (2, 5) or t.is_unclear]
    ends += [(c.end_n, c.end_t) for c in contacts if c.may_be_final]
    if recipient in context.mailboxes:
        ends += [
            (delivery.n, delivery.t)
            for delivery in facts.deliveries_by_id.get(trace.messages[name].message_id or "", ())
            if context.normalize_address(delivery.recipient) == recipient
        ][:1]
    return min(ends, default=(math.inf, math.inf))


def possible_hops(facts: Facts, server: str, recipient: str) -> set[str]:
    """Return the parties to which the server may pass a message on for the recipient, which is normalized.

    `SERVER.delivery`, a listener, stands under the name of its server. For a mailbox elsewhere, and for any mailbox where a step
    moves databases (`activate`), these are all servers and stores: site routing takes detours, and its database may become active
    elsewhere. A server whose queues are redirected may pass everything on to the other.
    """
    actions = [step.action for step in facts.context.cell.all_steps]
    redirected = {action.to for action in actions if isinstance(action, Redirect) and action.sender == server}
    hops = redirected | facts.topology.next_hop_servers(server, recipient)
    is_own = facts.topology.store_name(server) in hops and not any(isinstance(one, Activate) for one in actions)
    if recipient in facts.context.mailboxes and not is_own:
        hops |= {*facts.topology.by_name, *map(facts.topology.store_name, facts.topology.by_name)}
    return hops


def _swallowed_connection_times(
    facts: Facts, server: str, hops: set[str], after_n: int
) -> Iterator[tuple[float, float]]:
    """Yield begin and end of the times in which the server may wait for a connection that a partition swallows or a fault holds.

    Each lasts as long as SendConnectionInactivityTimeout, its limit for silent sessions. Where it is clear how the held
    connection ended (`is_end_unclear`), nothing is yielded for it: it is a connection in `Relaying`.
    """
    for fault in facts.trace.events_of(FaultFired):
        if fault.client != server or fault.server not in hops:
            continue
        is_held = fault.session is None and fault.action in HOLDING_FAULTS | DELAYING_FAULTS
        if not is_held and fault.action != "partition-blackhole":
            continue
        silence = _greatest_value(facts, server, "SendConnectionInactivityTimeout", after_n, facts.end_n) or 0.0
        if fault.action == "partition-blackhole" or (
            is_held and is_end_unclear(facts.ends_and_held_dials, fault, fault.t + silence)
        ):
            yield fault.t, fault.t + silence


def _down_times(facts: Facts, server: str, after_n: int) -> tuple[list[tuple[float, float]], float]:
    """Return the times in which the server was down, each as begin and end, and when it lost the message for good.

    Only times that ended after event `after_n`. It lost the message with the wipe of its queue, or the stop before that, or with
    the stop from which it does not come back; infinity for none of these.
    """
    down: list[tuple[float, float]] = []
    begin: float | None = None
    for event in facts.node_events.get(server, ()):
        if event.action == "wiped" and event.n > after_n:
            return down, begin if begin is not None else event.t
        if event.action in STOPPING_ACTIONS:  # it may have died as its acknowledgement passed
            begin = event.t if begin is None else begin
        elif event.action in ("ready", "resumed") and begin is not None:
            if event.n > after_n:
                down.append((begin, event.t))
            begin = None
    return down, begin if begin is not None else math.inf


def _greatest_value(facts: Facts, server: str, name: str, after_n: int, before_n: float) -> float | None:
    """Return the greatest number that a parameter may have been between two events, None where no value was a number."""
    return max(facts.parameter_numbers_between(server, name, after_n, int(min(before_n, facts.end_n))), default=None)


def _least_value(facts: Facts, server: str, name: str, after_n: int) -> float | None:
    """Return the least number that a parameter may have been since event `after_n`, None where no value was a number."""
    return min(facts.parameter_numbers_between(server, name, after_n, facts.end_n), default=None)


def _is_not_redundant(reply: Reply | None) -> bool:
    """Return whether a reply, 451 4.4.0, says that the next hop could not make a shadow copy (SR-ENA-04); False for None."""
    return reply is not None and reply.code == 451 and reply.enhanced == "4.4.0"


def _format_last_reply(reply: Reply | None) -> str:
    """Return the end of a sentence that gives the last reply, such as `, after 451 try later`; '' for None."""
    return f", after {reply.code} {reply.lines[-1] if reply.lines else ''}" if reply is not None else ""
