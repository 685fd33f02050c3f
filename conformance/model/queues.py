"""Judges queues of servers of 2013 and later: shadow queues, the move of copies to Safety Net, the drain by Redirect-Message.

It judges SR-BND-07, SR-MNT-06 and SR-CRE-10. The queues of 2010 servers are judged in `exchange_2010_queues`. The *primary* is
the server that delivers a message, the *holder* the one that keeps the shadow copy of it. `n` is an event's number, `t` its time
in documented seconds.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). A `Transaction` is one mail transaction: `n` and `t` are
those of its MAIL, `dot_n` and `dot_t` those of its final dot (None before it), `replies` the final replies, and `acceptance` the
first positive final reply or None. Its `kind` is `shadow` (a copy that the server is to hold, 2013 and later), `tracked` (2010:
mail of which the client keeps the shadow) or `plain`. A session is *altered* where a fault changed, added or removed octets in
it, *held* where a fault kept octets back (`stall`), and *disturbed* where any fault acted in it or may have delayed it.
`facts.slack` is by how many seconds a time may miss a bound. `claims` are the capabilities that the candidate claims.

Records: an `Inspection` is what a node's queues held when the scenario inspected it; a `Processing` is what one server was handed
and has passed on of one message; a `StepEvent` is the begin or end of a step of the scenario; a `CommandRun` is an
administrator's command to a server. A `HeldInterval` is a stored copy with the event until which it is surely held by what is
seen of that copy (`until_n`); the `sure_ends` of a `ShadowPair` say the same by all that is seen of its two servers.
"""

from collections.abc import Iterator

from conformance.history.events import CommandRun, MessageMade, StepEvent
from conformance.model.facts import Facts
from conformance.model.processing import (
    COMMIT_TIME_S,
    inspections,
    may_have_forgotten_event,
    processing_of,
    was_queue_wiped,
)
from conformance.model.relaying import Relaying
from conformance.model.resending import resending_requests
from conformance.model.rules import rule
from conformance.model.shadow_pairs import shadow_pairs
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import Transaction

_DRAIN_S = 10.0
"""Documented seconds after its answer to Redirect-Message in which a server has sent what was queued. No document has a figure."""


@rule("SR-BND-07", timed=False)
def shadow_queue_for_each_next_hop(facts: Facts) -> Finding:
    """Check that recipients for which the primary needs different next hops are in different shadow queues.

    The first recipient of each queued shadow is compared with the others. Two kinds of pairs are judged: a recipient outside the
    organization and one with a mailbox, and two recipients outside with no next hop in common. Whether two mailboxes have the
    same next hop depends on the kind of routing group. The next hops must differ by the holder's routes, which it uses, and by
    the primary's.
    """
    finding = Finding("a shadow queue for each next hop of the primary")
    for inspection in facts.compute_once(inspections):
        if facts.is_2010(inspection.node):
            continue
        for item in inspection.items_in(("shadow",)):
            if len(item.recipients) < 2 or not facts.is_tested_server(item.next_hop):
                continue
            finding.occasions += 1
            first, *others = item.recipients
            for other in others:
                if all(_needs_own_hop(facts, server, first, other) for server in (item.next_hop, inspection.node)):
                    finding.add_violation(
                        f"{inspection.node} keeps the shadow {item.shadow_id} of {item.next_hop} for {first} and {other} in one "
                        f"queue, and they have different next hops",
                        inspection.n,
                    )
                    break
    return finding


def _needs_own_hop(facts: Facts, server: str, first: str, other: str) -> bool:
    """Return whether a server surely needs different next hops for two recipients; False where that is doubtful.

    It is doubtful for two mailboxes, for a mailbox and an address whose route leads to a server under test, and for two addresses
    outside if one has no next hop.
    """
    mailboxes = facts.context.mailboxes
    hosted = [recipient for recipient in (first, other) if facts.context.normalize_address(recipient) in mailboxes]
    if len(hosted) == 2:
        return False
    hops, other_hops = (set(facts.topology.next_hops(server, recipient)) for recipient in (first, other))
    if hosted:  # a route that leads to a server may lead to the one that has the mailbox, or be a part of the way there
        routed = other_hops if hosted == [first] else hops
        return not any(facts.is_tested_server(hop) for hop in routed)
    return bool(hops and other_hops) and not hops & other_hops


@rule("SR-MNT-06")
def discarded_copies_are_in_safety_net(facts: Facts) -> Finding:
    """Check that an inspected server has moved each copy of which it was notified from its shadow queue to its Safety Net.

    The rule judges candidates that claim `safety-net`, and copies of which the server was notified while it worked, more than
    COMMIT_TIME_S ago, in a session that no fault altered or held; not copies that it may have promoted before, nor those since
    whose storing a fault was in force on its disk. A copy may be missing after SafetyNetHoldTime, or a resubmission. How long it
    stays in Safety Net: SR-SFN-02.
    """
    finding = Finding("a copy whose primary has processed it in Safety Net, and not in a shadow queue")
    if "safety-net" not in facts.context.claims:
        return finding
    pairs = facts.compute_once(shadow_pairs)
    sure_ends = {id(held): n for p in pairs for held, (n, _) in zip(p.copies, p.sure_ends, strict=True)}
    for inspection in facts.compute_once(inspections):
        holder, n = inspection.node, inspection.n
        if facts.is_2010(holder):
            continue
        for held in facts.held_intervals:
            copy = held.copy
            notified = (
                facts.discards_by_copy.get((copy.primary, copy.shadow_id, holder), ()) if copy.holder == holder else ()
            )
            settled = [d for d in notified if d.n < n and d.t < inspection.t - COMMIT_TIME_S]
            if (
                not settled
                or held.until_n != settled[0].n
                or sure_ends.get(id(held), settled[0].n) < settled[0].n  # promoted, perhaps with nothing to see
                or not facts.is_opened_by_tested_server(holder, settled[0].session)  # the harness asked under its name
                or facts.is_altered_or_held(settled[0].session)
                or may_have_forgotten_event(facts, holder, settled[0].n, settled[0].t)
                or was_queue_wiped(facts, holder, held.since_n, n)
                or facts.had_disk_trouble(holder, held.since_n, n)
            ):
                continue
            finding.occasions += 1
            kinds = {
                item.kind for item in inspection.items if item.shadow_id == copy.shadow_id and item.kind != "discard"
            }
            hold = facts.possible_parameter_range(holder, "SafetyNetHoldTime", settled[0].n, n).least
            words = f"{copy.primary} had notified {holder} at {format_seconds(settled[0].t)} that it may discard {copy.shadow_id}"
            if "shadow" in kinds:
                finding.add_violation(
                    f"{words}, and it is in a shadow queue at {format_seconds(inspection.t)}", n, settled[0].n
                )
            elif (
                not kinds
                and inspection.t - settled[0].t < hold - facts.slack
                and not _is_resubmitted(facts, holder, settled[0].n, n)
            ):
                finding.add_violation(
                    f"{words}, and it is not in its Safety Net at {format_seconds(inspection.t)}; the hold time is "
                    f"{format_seconds(hold)}",
                    n,
                    settled[0].n,
                )
    return finding


def _is_resubmitted(facts: Facts, server: str, after_n: int, before_n: int) -> bool:
    """Return whether between two events a command to the server, or a step, may have made it send what is in its Safety Net."""
    return any(
        after_n < request.n < before_n and (isinstance(request, StepEvent) or request.node == server)
        for request in resending_requests(facts)
    )


@rule("SR-CRE-10")
def drained_wholly(facts: Facts) -> Finding:
    """Check that a server sends everything that waits for delivery to the server that Redirect-Message names.

    A server that could not reach the other one, or that stopped meanwhile, is excused; one that refuses the command is not,
    unless the other one is outside of the boundary. Where the command names the server itself, nothing is to be sent. Each message
    that surely waited is an occasion, if the history goes on for
    `_DRAIN_S` after the answer. That the messages stay redundant and are delivered once is judged by the rules of creation and of
    duplicates, as for any others.
    """
    finding = Finding("everything that waited for delivery sent to the server that Redirect-Message names")
    for command in facts.trace.events_of(CommandRun):
        if command.command != "redirect-messages" or len(command.arguments) != 1:
            continue
        source, target = command.node, facts.server_named(command.arguments[0])
        if target == source or (command.failed is not None and target not in facts.topology.boundary(source)):
            continue
        end = command.t + _DRAIN_S + facts.slack
        began = max(
            (e.n for e in facts.trace.events_of(StepEvent) if e.verb == "redirect" and e.phase == "began" and e.n < command.n),
            default=command.n,
        )  # fmt: skip
        if facts.end_t < end or _was_hindered(facts, source, target, began, end):
            continue
        for message, accepted in _messages_surely_waiting(facts, source, began, command.n):
            finding.occasions += 1
            sent = (
                t for t in facts.trace.transactions_of(message.message) if t.client == source and t.server == target
            )
            if not any(t.kind != "shadow" and t.dot_n is not None and began < t.dot_n and t.t <= end for t in sent):
                finding.add_message_violation(
                    message,
                    f"{source} had not passed it on when its queues were redirected to {target}, and did not send it there",
                    command.n,
                    accepted,
                )
    return finding


def _was_hindered(facts: Facts, source: str, target: str, after_n: int, end: float) -> bool:
    """Return whether `source` may have been unable to send to `target` between event `after_n` and time `end`.

    One of them stopped, a connection failed, or a fault acted on a session between them.
    """
    before_n = facts.first_event_at(end)
    return (
        any(facts.was_interrupted_between(server, after_n, before_n) for server in (source, target))
        or any(e.server == target and e.n < before_n for e in facts.failed_connections(source, after_n))
        or any(
            facts.is_disturbed(session.name)
            for session in facts.sessions_by_client_and_server.get((source, target), ())
            if session.n < before_n and facts.end_of_session(session.name) > after_n
        )
    )


def _messages_surely_waiting(
    facts: Facts, server: str, before_n: int, answered_n: int
) -> Iterator[tuple[MessageMade, int]]:
    """Yield the messages that surely wait for delivery on a server, each with the number of the first reply that accepted it.

    They were accepted before event `before_n`, the begin of the redirection. At its answer, `answered_n`, a recipient was left
    whom surely no next hop had refused, and none had taken; another server under test counts as a next hop until `before_n` only.
    Left out are messages of which a transmission was under way or may have ended the server's responsibility, and those of a server
    that was stopped since it accepted them.
    """
    for name, message in facts.trace.messages.items():
        processing = processing_of(facts, server, name)
        accepted = [
            reply.n
            for given in processing.handed
            if (reply := given.acceptance) is not None and reply.n < before_n and not may_have_forgotten_event(facts, server, reply.n, reply.t)
        ]  # fmt: skip
        if not accepted or facts.was_interrupted_between(server, accepted[0], answered_n):
            continue
        given_to = facts.context.normalize_addresses(r for given in processing.handed for r in given.recipients)
        taken = {
            recipient
            for recipient, replies in processing.passed_on.items()
            if any(n < before_n or (n < answered_n and not facts.is_tested_server(hop)) for n, _, hop in replies)
        }
        sent = [
            (t, before_n if _begin_of_transmission(facts, t) < before_n else answered_n)
            for t in facts.trace.transactions_of(name)
            if t.client == server and t.kind != "shadow"
        ]
        waiting = {r for r in given_to - taken if not _may_be_refused(facts, server, name, r, answered_n)}
        # what was under way when the redirection began may end where it was going
        if waiting and not any(
            _may_have_ended_responsibility(facts, t, n) for t, n in sent if t.n < answered_n or n == before_n
        ):
            yield message, accepted[0]


def _begin_of_transmission(facts: Facts, sent: Transaction) -> int:
    """Return the number of the event at which a server began a transmission: MAIL, or the first call for the connection.

    The latter for the first mail transaction of a session: the session is opened for it, and a fault may have held the call back.
    """
    session = facts.trace.sessions[sent.session]
    return facts.compute_once(Relaying).find_begin(session)[0] if session.transactions[0] is sent else sent.n


def _may_be_refused(facts: Facts, server: str, name: str, recipient: str, before_n: int) -> bool:
    """Return whether a next hop may have refused a recipient for good before event `before_n`.

    A 5yz in a connection that shows no mail of a known message counts too.
    """
    relaying = facts.compute_once(Relaying)
    return any(
        one.outcome == 5 and one.end_n < before_n for one in relaying.tries.get((server, name, recipient), ())
    ) or any(
        contact.refusal is not None and contact.refusal.code // 100 == 5 and contact.n < before_n
        for contact in relaying.hop_connections.get(server, ())
    )


def _may_have_ended_responsibility(facts: Facts, sent: Transaction, n: int) -> bool:
    """Return whether a transmission was under way at event `n`, or may have ended the server's responsibility for a recipient.

    The latter where its session has any 5yz after its MAIL, where its final dot has no reply, and where a fault altered or held
    the session.
    """
    later = (reply for reply in facts.trace.sessions[sent.session].replies if sent.n < reply.n)
    return (
        any(reply.code // 100 == 5 for reply in later)
        or (sent.dot_n is not None and not sent.replies)
        or facts.is_altered_or_held(sent.session)
        or (sent.replies[-1].n if sent.replies else facts.end_of_session(sent.session)) > n
    )
