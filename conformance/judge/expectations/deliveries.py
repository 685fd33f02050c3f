"""Checks where messages arrived, how often and by which route, and which reports about them were delivered.

`expected` is what the scenario's author wrote under the verb; `of` names the messages. A `Delivered` event is a message that a
sink took for one recipient: a server's mailbox store or a server outside, both of the harness. `n` is an event's number.
Addresses are compared by `normalize_address`: without regard to case in the domain and, for mailboxes of the topology, in
the local part.

The judge (`conformance.judge.cell`) calls a check when the step of its expectation has ended. `context` is the history up to
then. The check returns a `Finding`: `occasions` counts how often it could have failed; a confirmation is an event that shows
what was expected, whose time the judge compares with `after` and `within`; `evidence` has the events that are shown. The
`kind` of a violation selects the requirements to blame: `rows_by_kind` of the decorator, else its `fallback_rows`.
"""

from conformance.history.events import Delivered, MessageMade, NodeEvent
from conformance.judge.checks import expectation_check
from conformance.scenarios.expectations import (
    Copies,
    DeliveredExpected,
    JournaledExpected,
    MailboxExpected,
    ReportExpected,
    RouteExpected,
    TransmittedExpected,
)
from conformance.trace.context import ExpectationContext
from conformance.trace.finding import Finding, format_count, is_expected_count
from conformance.trace.sessions import Transaction

_MAX_EVIDENCE = 20


def _compare_count(
    finding: Finding,
    message: MessageMade,
    deliveries: list[Delivered],
    wanted: Copies,
    recipient: str,
    noun: str = "copies",
) -> None:
    """Count an occasion; confirm by the first deliveries; add a violation where there are more or fewer than wanted.

    As many deliveries confirm as are wanted at least; with a minimum of 0 the first does. A violation is `missing` or `surplus`.
    `noun` names in the sentence what was delivered.
    """
    finding.occasions += 1
    for event in deliveries[: max(wanted.min, 1)]:
        finding.add_confirmation(event.n, event.t, message)
    if not is_expected_count(wanted, len(deliveries)):
        finding.add_message_violation(
            message,
            f"{len(deliveries)} {noun} reached {recipient}, not {format_count(wanted)}",
            *[event.n for event in deliveries],
            kind="missing" if len(deliveries) < wanted.min else "surplus",
        )


@expectation_check(
    MailboxExpected,
    rows_by_kind={"surplus": frozenset({"SR-ENA-04", "SR-DUP-01", "SR-DUP-03", "SR-DUP-04", "SR-OUT-03", "SR-OUT-06"})},
)
def mailbox(expected: MailboxExpected, context: ExpectationContext) -> Finding:
    """Check how many copies of each message reached each mailbox in `who`, at any sink."""
    finding = Finding(f"{format_count(expected.copies)} of each message of {expected.of} for {', '.join(expected.who)}")
    for message in context.messages(expected.of):
        for address in expected.who:
            deliveries = context.deliveries_of(message.message, address)
            _compare_count(finding, message, deliveries, expected.copies, address)
    return finding


@expectation_check(DeliveredExpected)
def delivered(expected: DeliveredExpected, context: ExpectationContext) -> Finding:
    """Check how many copies of each message reached each recipient outside.

    Recipients are those in `to`, else those of the message without a mailbox in the topology, else all of them.
    Deliveries count at the sink `at` and from the server `by`, where given. With `repeats: in-flight` the copies beyond the
    first for each recipient, of all messages together, may be no more than `_count_in_flight`.
    """
    bound = (
        "" if expected.repeats is None else ", and no more of them again than were in flight when a server was killed"
    )
    place = expected.at or "its sink"
    finding = Finding(f"{format_count(expected.copies)} of each message of {expected.of} at {place}{bound}")
    repeats: list[int] = []
    for message in context.messages(expected.of):
        outside = tuple(r for r in message.recipients if r.casefold() not in context.mailboxes)
        for recipient in dict.fromkeys(expected.to or outside or message.recipients):
            deliveries = [
                event
                for event in context.deliveries_of(message.message, recipient)
                if (expected.at is None or event.sink == expected.at)
                and (expected.by is None or event.giver == expected.by)
            ]
            _compare_count(finding, message, deliveries, expected.copies, recipient)
            repeats += [event.n for event in deliveries[1:]]
    if expected.repeats is not None and len(repeats) > (in_flight := _count_in_flight(context)):
        sentence = f"{len(repeats)} copies beyond the first of each message, {in_flight} in flight"
        finding.add_violation(sentence, *repeats[:_MAX_EVIDENCE])
    return finding


def _count_in_flight(context: ExpectationContext) -> int:
    """Return how many messages may be transmitted a second time because a kill of a server interrupted a session.

    That is at most one for each session that was open at a kill and in which a message was in flight.
    """
    return sum(
        1
        for kill in context.trace.events_of(NodeEvent)
        for session in context.trace.sessions.values()
        if kill.action == "killed" and session.n < kill.n and (session.closed is None or session.closed.n > kill.n)
        and any(_was_in_flight(t, kill) for t in session.transactions)
    )  # fmt: skip


def _was_in_flight(transaction: Transaction, kill: NodeEvent) -> bool:
    """Return whether a killed server may have forgotten a transaction whose session was open when it was killed.

    A killed client may not have stored the reply, whether one was seen or not. A killed server may have forgotten it if the
    link saw the final dot before the kill and no final reply. Without a final dot there is nothing to forget.
    """
    if transaction.dot_n is None:
        return False
    if transaction.client == kill.node:
        return True  # the client had sent the dot before its death, even if the link passed it on after that
    return (
        transaction.server == kill.node
        and transaction.dot_n < kill.n
        and not any(reply.n < kill.n for reply in transaction.replies)
    )


@expectation_check(TransmittedExpected)
def transmitted(expected: TransmittedExpected, context: ExpectationContext) -> Finding:
    """Check how often the content of each message was sent from one party to another, shadow copies left out.

    `listener` and `recipients` (a number), where given, select the transactions. Each message is an occasion; only its first
    transmission confirms.
    """
    finding = Finding(
        f"{format_count(expected.copies)} transmissions of {expected.of} from {expected.sender} to {expected.to}"
    )
    for message in context.messages(expected.of):
        finding.occasions += 1
        sent = [
            t for t in context.trace.transactions_of(message.message)
            if (t.client, t.server) == (expected.sender, expected.to) and t.kind != "shadow"
            and (expected.listener is None or t.listener == expected.listener)
            and (expected.recipients is None or len(t.recipients) == expected.recipients)
        ]  # fmt: skip
        for t in sent[:1]:
            finding.add_confirmation(t.n, t.t, message)
        if not is_expected_count(expected.copies, len(sent)):
            finding.add_message_violation(message, f"{len(sent)} transmissions", *[t.n for t in sent])
    return finding


@expectation_check(RouteExpected)
def route(expected: RouteExpected, context: ExpectationContext) -> Finding:
    """Check that each message passed the servers `through`, in this order, on its way to recipient `to`, for each delivery to a sink.

    The first is the one that the sender gave the message to, the last the one that gave it to the sink. A message that was not
    delivered to `to` is a violation.
    """
    finding = Finding(f"{expected.of} for {expected.to} through {', '.join(expected.through)}")
    for message in context.messages(expected.of):
        finding.occasions += 1
        deliveries = context.deliveries_of(message.message, expected.to)
        if not deliveries:
            finding.add_message_violation(message, f"it never reached {expected.to}")
        for event in deliveries:
            finding.add_confirmation(event.n, event.t, message)
            servers = _trace_route(context, message.message, event)
            if servers != expected.through:
                finding.add_message_violation(message, f"it went through {', '.join(servers)}", event.n)
    return finding


def _trace_route(context: ExpectationContext, name: str, delivery: Delivered) -> tuple[str, ...]:
    """Return the servers through which the message `name` came to a delivery, first hop first.

    The route is followed backwards: to each server by the last transmission for this recipient that was not refused, and
    whose dot came before the MAIL with which the server passed the message on (`transactions_of` is in the order of dots).
    It ends at a client that is not a server under test, or at a server to which no such transmission was seen.
    """
    servers, before = [delivery.giver], delivery.n  # `giver`: the server that handed it to the sink
    while True:
        incoming = [
            t for t in context.trace.transactions_of(name)
            if t.server == servers[0] and t.kind != "shadow" and t.dot_n is not None and t.dot_n < before
            and context.normalize_address(delivery.recipient) in map(context.normalize_address, t.recipients)
            and (t.acceptance is not None or not t.replies)
        ]  # fmt: skip
        if not incoming or not context.is_tested_server(incoming[-1].client):
            return tuple(servers)
        servers.insert(0, incoming[-1].client)
        before = incoming[-1].n


@expectation_check(
    ReportExpected, rows_by_kind={"missing": frozenset({"RL-DSN-01"}), "surplus": frozenset({"RL-DSN-01", "RL-DSN-02"})}
)
def report(expected: ReportExpected, context: ExpectationContext) -> Finding:
    """Check how many delivery status notifications about each message reached `to`, each with a null reverse-path.

    Only those with an action of the expectation count. A report with another reverse-path is a violation without a kind, so
    it is blamed on the scenario's first row.
    """
    actions = " or ".join(expected.action)
    finding = Finding(
        f"{format_count(expected.copies)} reports ({actions}) about each message of {expected.of} for {expected.to}"
    )
    for message in context.messages(expected.of):
        reports = _reports_about(context, message, "delivery-status", expected.to)
        reports = [event for event in reports if (event.digest.action or "").casefold() in expected.action]
        _compare_count(finding, message, reports, expected.copies, expected.to, "reports")
        for event in reports:
            if event.sender:
                finding.add_message_violation(message, f"a report from <{event.sender}>", event.n)
    return finding


@expectation_check(JournaledExpected)
def journaled(expected: JournaledExpected, context: ExpectationContext) -> Finding:
    """Check how many journal reports about each message reached `to`."""
    finding = Finding(
        f"{format_count(expected.copies)} journal reports about each message of {expected.of} for {expected.to}"
    )
    for message in context.messages(expected.of):
        reports = _reports_about(context, message, "journal", expected.to)
        _compare_count(finding, message, reports, expected.copies, expected.to, "journal reports")
    return finding


def _reports_about(context: ExpectationContext, message: MessageMade, kind: str, recipient: str) -> list[Delivered]:
    """Return the deliveries of reports of a kind about a message to a recipient; [] for a message without Message-ID.

    A report names the Message-ID that it is `about`.
    """
    address = context.normalize_address(recipient)
    return [
        event for event in context.trace.events_of(Delivered)
        if event.digest.report == kind and message.message_id and event.digest.about == message.message_id
        and context.normalize_address(event.recipient) == address
    ]  # fmt: skip
