"""Checks what servers do apart from mail: keywords that they offer, verbs that they use, exit codes, configuration, queues.

`expected` is what the scenario's author wrote under the verb. A *node* is a running server under test. Of several
configurations or inspections the last one counts. `n` is an event's number.

The judge (`conformance.judge.cell`) calls a check when the step of its expectation has ended. `context` is the history up to
then. The check returns a `Finding`: `occasions` counts how often it could have failed; a confirmation is an event that shows
what was expected, whose time the judge compares with `after` and `within`; `evidence` has the events that are shown. The
`kind` of a violation selects the requirements to blame: `rows_by_kind` of the decorator, else its `fallback_rows`.
"""

import re

from conformance.history.events import Configured, Inspected, NodeEvent, Reply
from conformance.judge.checks import expectation_check
from conformance.scenarios.expectations import (
    AdvertisedExpected,
    IssuedExpected,
    LeftExpected,
    QueueExpected,
    RefusedExpected,
)
from conformance.trace.context import ExpectationContext
from conformance.trace.finding import Finding, format_count, format_times, is_expected_count


@expectation_check(AdvertisedExpected)
def advertised(expected: AdvertisedExpected, context: ExpectationContext) -> Finding:
    """Check that each positive reply to EHLO offered a keyword, or did not, to the client `to` on the listener.

    The first line of the reply has the server's name, each other a keyword. Replies before event `since_n` (the step
    labelled `since`, 0 without one) do not count. Each reply is an occasion.
    """
    offers = "offers" if expected.offered else "offers no"
    finding = Finding(f"{expected.by} {offers} {expected.keyword} to {expected.to}")
    for event in context.trace.events_of(Reply):
        session = context.trace.sessions[event.session]
        if event.to != "EHLO" or event.code // 100 != 2 or event.n < context.since_n:
            continue
        if (session.client, session.server, session.listener) == (expected.to, expected.by, expected.listener):
            finding.occasions += 1
            finding.add_confirmation(event.n, event.t)
            offered = expected.keyword.upper() in {line.split(" ")[0].upper() for line in event.lines[1:]}
            if offered is not expected.offered:
                finding.add_violation(f"{'offered' if offered else 'not offered'} in session {event.session}", event.n)
    return finding


@expectation_check(IssuedExpected)
def issued(expected: IssuedExpected, context: ExpectationContext) -> Finding:
    """Check how often client `by` used a verb towards server `to`.

    Commands before event `since_n`, the step labelled `since`, do not count. There is an occasion only where there was a session
    between them, `by` had accepted mail, or a use is expected: otherwise it shows nothing that the verb was never used.
    """
    finding = Finding(f"{expected.by} uses {expected.verb} towards {expected.to}: {format_count(expected.times)}")
    sessions = [s for s in context.trace.sessions.values() if (s.client, s.server) == (expected.by, expected.to)]
    has_mail = any(t.server == expected.by and t.acceptance is not None for t in context.trace.transactions)
    finding.occasions = 1 if sessions or has_mail or expected.times.min > 0 else 0
    commands = [
        exchange.command
        for session in sessions
        for exchange in session.exchanges
        if exchange.command.verb == expected.verb.upper() and exchange.command.n >= context.since_n
    ]
    for command in commands[:1]:
        finding.add_confirmation(command.n, command.t)
    finding.evidence += [command.n for command in commands[1:]]  # shown, but not compared with the bounds
    if not is_expected_count(expected.times, len(commands)):
        finding.add_violation(f"used {format_times(len(commands))}", *[command.n for command in commands])
    return finding


@expectation_check(LeftExpected)
def left(expected: LeftExpected, context: ExpectationContext) -> Finding:
    """Check the exit code of each end of a node, by itself or when it was stopped; a kill is no occasion.

    `NodeEvent.detail` says `exit code N`.
    """
    finding = Finding(f"{expected.node} leaves with exit code {expected.code}")
    for event in context.trace.events_of(NodeEvent):
        if event.node == expected.node and event.action in ("stopped", "exited"):
            finding.occasions += 1
            finding.add_confirmation(event.n, event.t)
            if not re.search(rf"exit code {expected.code}\b", event.detail):
                finding.add_violation(f"{event.action}: {event.detail}", event.n)
    return finding


@expectation_check(RefusedExpected)
def refused(expected: RefusedExpected, context: ExpectationContext) -> Finding:
    """Check that a node refused the last configuration offered to it, naming all of `names`, or took it.

    `expected.refused` says which. `Configured.refused` is the node's error message, None when it took the configuration.
    Without an offer there is no occasion.
    """
    finding = Finding(
        f"{expected.node} {'refuses' if expected.refused else 'takes'} the configuration"
        + (f", naming {', '.join(expected.names)}" if expected.names else "")
    )
    offered = [event for event in context.trace.events_of(Configured) if event.node == expected.node]
    for event in offered[-1:]:
        finding.occasions += 1
        finding.add_confirmation(event.n, event.t)
        if (event.refused is not None) is not expected.refused:
            finding.add_violation(f"it was {'refused: ' + event.refused if event.refused else 'taken'}", event.n)
        elif missing := [name for name in expected.names if name not in (event.refused or "")]:
            finding.add_violation(f"the refusal does not name {', '.join(missing)}: {event.refused}", event.n)
    return finding


@expectation_check(QueueExpected)
def queue(expected: QueueExpected, context: ExpectationContext) -> Finding:
    """Check the number of items, and of queues, that the last `inspect` of a node showed; without one there is no occasion.

    The kind `delivered-to` means the entries for duplicate detection, which are not in queues: they count as one queue.
    """
    finding = Finding(f"{format_count(expected.items)} items in the {expected.kind} queues of {expected.on}")
    inspections = [event for event in context.trace.events_of(Inspected) if event.node == expected.on]
    for event in inspections[-1:]:
        finding.occasions += 1
        finding.add_confirmation(event.n, event.t)
        if expected.kind == "delivered-to":
            items, queues = _count_delivered_to(event), 1
        else:
            items, queues = _count_queued(expected, context, event)
        if not is_expected_count(expected.items, items):
            finding.add_violation(f"{items} items", event.n)
        if expected.queues is not None and queues != expected.queues:
            finding.add_violation(f"{queues} separate queues, not {expected.queues}", event.n)
    return finding


def _count_delivered_to(event: Inspected) -> int:
    """Return the number of entries for duplicate detection; a node may print the entries, or their number."""
    entries = event.state.get("delivered_to", 0)
    return entries if isinstance(entries, int) else len(entries)


def _count_queued(expected: QueueExpected, context: ExpectationContext, event: Inspected) -> tuple[int, int]:
    """Return the number of items in the queues of `kind` that the expectation counts, and the number of queues that have one.

    `of` selects items by the Message-IDs of its messages, `next_hop` the queues, where given.
    """
    message_ids = {message.message_id for message in context.messages(expected.of)} if expected.of else None
    queues = [
        [
            item
            for item in queue["items"]
            if message_ids is None or str(item.get("message_id")).strip("<>") in message_ids
        ]
        for queue in event.state["queues"]
        if queue["kind"] == expected.kind
        and (expected.next_hop is None or str(queue.get("next_hop")).casefold() == expected.next_hop.casefold())
    ]
    return sum(map(len, queues)), sum(1 for items in queues if items)
