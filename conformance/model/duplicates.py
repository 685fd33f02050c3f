"""Judges duplicates: none in a mailbox with duplicate detection (SR-DUP-01), none anywhere without a cause (RL-ACK-04).

Duplicate detection goes by Message-ID and Date: a message for a mailbox is dropped if an equal one was delivered there within the
*tracking window* (DuplicateTrackingWindow). A `Delivered` event is a message that a *sink*, such as a mailbox *store*, took for
one recipient from its `giver`, the server that handed it over. An `Attempt` is one transmission of a message by the harness's
sender. `n` is an event's number, `t` its time; times are documented seconds.

Each rule judges one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model`
describes. Functions that take a `finding` add to it. `context.slack` is by how much a time may miss a bound. A session is
*delayed* where a fault held octets back or slowed them, or may have delayed its dial.
"""

from collections import defaultdict
from datetime import datetime

from conformance.history.events import (
    Attempt,
    Closed,
    Command,
    CommandRun,
    Delivered,
    FaultArmed,
    FaultFired,
    NodeEvent,
    StepEvent,
)
from conformance.model.duplicate_detection import parse_date
from conformance.model.facts import Facts
from conformance.model.rules import invariant, rule
from conformance.trace.context import CheckContext
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.parameters import numeric_parameter_at
from conformance.trace.promotions import find_promotions

_MAX_WINDOW_S = 49 * 86400.0
_WINDOW_ABOVE_MAX_S = 86400.0
"""A DuplicateTrackingWindow above the maximum is ignored and this one used instead (SR-DUP-04). Seconds."""


_DEATHS = frozenset({"killed", "exited", "paused"})
"""Actions of a `NodeEvent` by which a server *dies*: it may not act on a reply that it has just got."""

_PROMPT_S = 1.0
"""Seconds within which a server acts on a reply: one that died earlier need not have recorded it."""


@invariant("no-duplicate-in-mailbox", "SR-DUP-01", "SR-DUP-03", "SR-DUP-04", "SR-OUT-03")
def no_duplicate_in_mailbox(context: CheckContext) -> Finding:
    """Check that no mailbox gets two messages with the same Message-ID and Date, as written, within the tracking window.

    Only for candidates that claim `duplicate-detection`. Each delivery to a mailbox with both header fields is an occasion. Pairs
    of which the server may not know the first delivery are not judged. A later delivery is one violation, however many earlier
    ones it repeats. Deliveries to different stores, of a mailbox that moved, are not compared.
    """
    finding = Finding("no mailbox gets a message twice within the tracking window")
    if "duplicate-detection" in context.claims:
        for deliveries in _group_duplicates(context).values():
            finding.occasions += len(deliveries)
            _check_group(context, finding, deliveries)
    return finding


@rule("SR-DUP-01", "SR-DUP-04")
def no_duplicate_in_another_form(facts: Facts) -> Finding:
    """Check for the duplicates in mailboxes that `no_duplicate_in_mailbox` does not look for.

    These are messages whose Date fields name one instant in different time zones, and equal messages that a server hands to its
    store at the same time: it knows that both are under way, though the store has accepted neither. Only for candidates that claim
    `duplicate-detection`.
    """
    finding = Finding(
        "no mailbox gets a message twice, in whatever time zone its Date is written, nor two equal ones at once"
    )
    if "duplicate-detection" not in facts.context.claims:
        return finding
    instants: dict[tuple[str, str, str, datetime], list[Delivered]] = defaultdict(list)
    for (store, recipient, message_id, date), deliveries in _group_duplicates(facts.context).items():
        if (submitted := parse_date(date)) is not None:
            instants[store, recipient, message_id, submitted] += deliveries
    for deliveries in instants.values():
        if len(deliveries) > 1:
            in_order = sorted(deliveries, key=lambda event: event.n)
            if len({event.digest.date for event in deliveries}) > 1:
                finding.occasions += len(deliveries)
                _check_group(facts.context, finding, in_order, zones=True)
            _check_equal_at_once(facts, finding, in_order)
    return finding


def _check_equal_at_once(facts: Facts, finding: Finding, deliveries: list[Delivered]) -> None:
    """Add an occasion and a violation for each delivery whose content the giver began to send before the store took an equal one.

    `deliveries` are equal messages for one mailbox, in order. Both must be in different sessions of the same giver. Left out are
    pairs where SendConnectionInactivityTimeout went by between the begin of the content that was begun first and the later
    delivery: the giver may have given that attempt up, and made the other in its place. So are pairs where the giver's node
    changed its state in between: what it had sent before may still have been on its way to the store.
    """
    for number, second in enumerate(deliveries):
        begun = _begin_of_content(facts, second)
        for first in deliveries[:number]:
            if begun is None or first.giver != second.giver or first.session == second.session or begun.n > first.n:
                continue
            since = min((begun, _begin_of_content(facts, first) or begun), key=lambda command: command.n)
            patience = facts.possible_parameter_range(
                second.giver, "SendConnectionInactivityTimeout", since.n, second.n
            ).least
            if second.t - since.t >= patience - facts.slack:
                continue  # it may have given one attempt up
            if facts.has_node_event_between(second.giver, since.n, second.n):
                continue
            finding.occasions += 1
            finding.add_violation(
                f"<{second.digest.message_id}>: {second.giver} gave two equal messages for {facts.context.normalize_address(second.recipient)} "
                f"to {second.sink} at the same time, and it took both, at {format_seconds(first.t)} and {format_seconds(second.t)}",
                second.n,
                first.n,
                message=facts.trace.identify_message(second.digest),
            )
            break


def _begin_of_content(facts: Facts, delivery: Delivered) -> Command | None:
    """Return the last DATA or BDAT of a delivery's session before the store took the message, None where it was not recorded."""
    session = facts.trace.sessions.get(delivery.session or "")
    commands = [exchange.command for exchange in session.exchanges] if session is not None else []
    begun = [one for one in commands if one.verb in ("DATA", "BDAT") and one.n < delivery.n]
    return begun[-1] if begun else None


def _check_group(context: CheckContext, finding: Finding, deliveries: list[Delivered], *, zones: bool = False) -> None:
    """Add a violation for each delivery that repeats an earlier one within the tracking window.

    `deliveries` are those of one message to one mailbox, in order. Not counted is a pair where the server may not know of the
    first (`_may_not_know_first_delivery`). With `zones` only pairs with different Date fields count. No occasion is counted.
    """
    for number, second in enumerate(deliveries):
        server = second.sink.removesuffix("-store")  # the sink of mbx1 is `mbx1-store`
        configured = numeric_parameter_at(context, server, "DuplicateTrackingWindow", second.n)
        window = _WINDOW_ABOVE_MAX_S if configured > _MAX_WINDOW_S else configured
        for first in deliveries[:number]:
            if zones and first.digest.date == second.digest.date:
                continue
            if second.t - first.t < window - context.slack and not _may_not_know_first_delivery(
                context, server, first, second
            ):
                finding.add_violation(
                    f"<{second.digest.message_id}>: {context.normalize_address(second.recipient)} got it from {first.giver} at "
                    f"{format_seconds(first.t)} and again from {second.giver} at {format_seconds(second.t)}, within "
                    f"{format_seconds(window)}",
                    second.n,
                    first.n,
                    message=context.trace.identify_message(second.digest),
                    row="SR-DUP-04" if configured > _MAX_WINDOW_S else "SR-DUP-01",
                )
                break


def _group_duplicates(context: CheckContext) -> dict[tuple[str, str, str, str], list[Delivered]]:
    """Return the deliveries to mailboxes: (mailbox store, recipient, Message-ID, Date) -> deliveries in order.

    A group may have one delivery alone. Messages without one of the two header fields are left out.
    """
    groups: dict[tuple[str, str, str, str], list[Delivered]] = defaultdict(list)
    stores = {context.cell.topology.store_name(server) for server in context.cell.topology.by_name}
    for event in context.trace.events_of(Delivered):
        digest, recipient = event.digest, context.normalize_address(event.recipient)
        if event.sink in stores and recipient in context.mailboxes and digest.message_id and digest.date:
            groups[event.sink, recipient, digest.message_id, digest.date].append(event)
    return groups


def _may_not_know_first_delivery(context: CheckContext, server: str, first: Delivered, second: Delivered) -> bool:
    """Return whether the server may not know of the first delivery when it makes the second.

    The server's queue was wiped in between, or the giver of the first did not surely see the store's reply, or a fault delayed the
    session of the second, which the server had opened before the first delivery.
    """
    wiped = any(
        event.node == server and event.action == "wiped" and first.n < event.n < second.n
        for event in context.trace.events_of(NodeEvent)
    )
    held = second.session is not None and second.session in context.trace.delayed_sessions
    begun = context.trace.sessions[second.session].n if held and second.session is not None else second.n
    return wiped or begun < first.n or not _is_reply_seen(context, first)


def _is_reply_seen(context: CheckContext, delivery: Delivered) -> bool:
    """Return whether the giver surely knows of a delivery: the store's positive reply passed, and the giver could act on it.

    It knows if it sent a later command in the session. Otherwise it may not know where a fault delayed the session, or where it
    was killed, exited or was paused, earlier in the session or within `_PROMPT_S` after the reply. True where the session was not
    recorded, False without a positive reply.
    """
    session = context.trace.sessions.get(delivery.session or "")
    if session is None:
        return True
    reply = next(
        (
            reply for reply in session.replies
            if reply.to == "CONTENT" and reply.code // 100 == 2 and reply.n > delivery.n
            and reply.recipient in (None, delivery.recipient)
        ),
        None,
    )  # fmt: skip
    if reply is None:
        return False
    if any(exchange.command.n > reply.n for exchange in session.exchanges):
        return True
    own_events = [event for event in context.trace.events_of(NodeEvent) if event.node == session.client]
    died = any(event.action in _DEATHS and event.n > reply.n and event.t - reply.t < _PROMPT_S for event in own_events)
    died |= any(event.action in _DEATHS and session.n < event.n < reply.n for event in own_events)
    return not died and session.name not in context.trace.delayed_sessions


@invariant("no-duplicate-without-cause", "RL-ACK-04")
def no_duplicate_without_cause(context: CheckContext) -> Finding:
    """Check that no recipient gets a message more often than the harness's transmissions of it were acknowledged.

    A recipient for whom none was acknowledged cannot violate that. Only a cell in which nothing may cause a duplicate
    (`_has_cause`) is judged. `Attempt.accepted` are the recipients whose RCPT was accepted.
    """
    finding = Finding("no recipient gets a message twice where nothing was broken")
    if _has_cause(context):
        return finding
    for name, message in context.trace.messages.items():
        attempts = context.trace.attempts_of(name)
        acknowledged = [a for a in attempts if a.code is not None and a.code // 100 == 2]
        for recipient in dict.fromkeys(context.normalize_address(r) for a in attempts for r in a.accepted):
            count = sum(context.normalize_address(r) == recipient for a in acknowledged for r in a.accepted)
            deliveries = context.deliveries_of(name, recipient)
            finding.occasions += bool(deliveries)
            if count and len(deliveries) > count:
                sentence = (
                    f"{count} acknowledged for {recipient}, and {len(deliveries)} copies "
                    f"arrived, the last at {format_seconds(deliveries[-1].t)}"
                )
                finding.add_message_violation(message, sentence, *[event.n for event in reversed(deliveries)])
    return finding


def _has_cause(context: CheckContext) -> bool:
    """Return whether anything happened in the cell because of which a message may rightly arrive twice.

    Causes are any event of a node but its start and reloads, a session that was reset or that the link closed, a fault that was
    armed or acted, an unanswered transmission, an administrator's command, a step that has messages sent again, and a promotion.
    """
    trace = context.trace
    disturbed = any(event.action not in ("started", "ready", "reloaded") for event in trace.events_of(NodeEvent))
    lost = any(event.how == "reset" or event.by == "link" for event in trace.events_of(Closed))
    unanswered = any(event.outcome != "answered" for event in trace.events_of(Attempt))
    sent_again = any(event.verb in ("resubmit", "redirect", "activate") for event in trace.events_of(StepEvent))
    return (
        disturbed or lost or unanswered or sent_again
        or bool(trace.events_of(FaultFired) or trace.events_of(FaultArmed) or trace.events_of(CommandRun))
        or any(find_promotions(context, name) for name in trace.messages)
    )  # fmt: skip
