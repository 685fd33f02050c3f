"""What servers say and do of themselves: what they offer, the verbs they use, their queues, their configuration."""

import re

from conformance.history.events import Configured, Inspected, NodeEvent, Reply
from conformance.judge.expectations.check import asked, check, times, within
from conformance.judge.finding import Finding, View
from conformance.scenarios.expectations import (
    AdvertisedExpected,
    IssuedExpected,
    LeftExpected,
    QueueExpected,
    RefusedExpected,
)


@check(AdvertisedExpected)
def advertised(e: AdvertisedExpected, view: View) -> Finding:
    """Whether a keyword was offered."""
    finding = Finding(f"{e.by} offers {'' if e.offered else 'no '}{e.keyword} to {e.to}")
    for event in view.trace.of(Reply):
        where = view.trace.sessions[event.session]
        if event.to != "EHLO" or event.code // 100 != 2 or event.n < view.since_n:
            continue
        if (where.client, where.server, where.listener) == (e.to, e.by, e.listener):
            finding.occasions += 1
            finding.met(event.n, event.t)
            offered = e.keyword.upper() in {line.split(" ")[0].upper() for line in event.lines[1:]}
            if offered is not e.offered:
                finding.violated(f"{'offered' if offered else 'not offered'} in session {event.session}", event.n)
    return finding


@check(IssuedExpected)
def issued(e: IssuedExpected, view: View) -> Finding:
    """How often a verb was used. That it never was is worth something once there was a session, or mail to be sent."""
    finding = Finding(f"{e.by} uses {e.verb} towards {e.to}: {asked(e.times)}")
    sessions = [s for s in view.trace.sessions.values() if (s.client, s.server) == (e.by, e.to)]
    mail = any(t.server == e.by and t.accepted is not None for t in view.trace.transactions)
    finding.occasions = 1 if sessions or mail or e.times.min > 0 else 0
    found = [
        exchange.command
        for session in sessions
        for exchange in session.exchanges
        if exchange.command.verb == e.verb.upper() and exchange.command.n >= view.since_n
    ]
    for command in found[:1]:
        finding.met(command.n, command.t)
    finding.evidence += [command.n for command in found[1:]]
    if not within(e.times, len(found)):
        finding.violated(f"used {times(len(found))}", *[command.n for command in found])
    return finding


@check(LeftExpected)
def left(e: LeftExpected, view: View) -> Finding:
    """A node left with an exit code."""
    finding = Finding(f"{e.node} leaves with exit code {e.code}")
    for event in view.trace.of(NodeEvent):
        if event.node == e.node and event.action in ("stopped", "exited"):
            finding.occasions += 1
            finding.met(event.n, event.t)
            if not re.search(rf"exit code {e.code}\b", event.detail):
                finding.violated(f"{event.action}: {event.detail}", event.n)
    return finding


@check(RefusedExpected)
def refused(e: RefusedExpected, view: View) -> Finding:
    """The last configuration offered to a node was refused, or taken."""
    finding = Finding(
        f"{e.node} {'refuses' if e.refused else 'takes'} the configuration"
        + (f", naming {', '.join(e.names)}" if e.names else "")
    )
    offered = [event for event in view.trace.of(Configured) if event.node == e.node]
    for event in offered[-1:]:
        finding.occasions += 1
        finding.met(event.n, event.t)
        if (event.refused is not None) is not e.refused:
            finding.violated(f"it was {'refused: ' + event.refused if event.refused else 'taken'}", event.n)
        elif missing := [name for name in e.names if name not in (event.refused or "")]:
            finding.violated(f"the refusal names no {', '.join(missing)}: {event.refused}", event.n)
    return finding


@check(QueueExpected)
def queue(e: QueueExpected, view: View) -> Finding:
    """What the last inspection of a node showed."""
    finding = Finding(f"{asked(e.items)} items in the {e.kind} queues of {e.on}")
    shown = [event for event in view.trace.of(Inspected) if event.node == e.on]
    for event in shown[-1:]:
        finding.occasions += 1
        finding.met(event.n, event.t)
        number, queues = _delivered_to(event) if e.kind == "delivered-to" else _held(e, view, event)
        if not within(e.items, number):
            finding.violated(f"{number} items", event.n)
        if e.queues is not None and queues != e.queues:
            finding.violated(f"{queues} separate queues, not {e.queues}", event.n)
    return finding


def _delivered_to(event: Inspected) -> tuple[int, int]:
    rows = event.state.get("delivered_to", 0)
    return (rows if isinstance(rows, int) else len(rows)), 1


def _held(e: QueueExpected, view: View, event: Inspected) -> tuple[int, int]:
    """Return how many items the queues meant hold, and in how many queues they are."""
    wanted = {made.message_id for made in view.messages(e.of)} if e.of else None
    held = [
        [item for item in queue["items"] if wanted is None or str(item.get("message_id")).strip("<>") in wanted]
        for queue in event.state["queues"]
        if queue["kind"] == e.kind and (e.next_hop is None or queue.get("next_hop") == e.next_hop)
    ]
    return sum(map(len, held)), sum(1 for items in held if items)
