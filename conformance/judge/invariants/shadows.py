"""Invariants about shadows: made before the acknowledgement, inside the boundary, kept until delivery."""

from typing import Any

from conformance.history.events import Attempt, Configured, Connected, NodeEvent
from conformance.judge.finding import Finding, told
from conformance.judge.sessions import Transaction
from conformance.judge.trace import Trace
from conformance.scenarios.document import Cell


def two_copies_at_acknowledgement(cell: Cell, trace: Trace) -> Finding:
    """When a sender outside is acknowledged, another server of the boundary has acknowledged a shadow copy."""
    finding = Finding("a stored shadow copy at the moment of each acknowledgement")
    for attempt in trace.of(Attempt):
        server = cell.topology.by_name[attempt.server]
        if server.generation == "ex2010" or attempt.code is None or attempt.code // 100 != 2 or not attempt.dot_sent:
            continue
        others = cell.topology.boundary(server.name) - {server.name}
        if not others or not _parameter(cell, trace, server.name, "ShadowRedundancyEnabled", attempt.n, True):
            continue
        own = [
            t
            for t in trace.transactions_of(attempt.message)
            if t.session == attempt.session and t.accepted and t.n < attempt.n
        ]
        if not own or own[-1].accepted is None:
            continue
        sent = own[-1].accepted.n
        copies = [c for c in trace.copies_of(attempt.message) if c.primary == server.name and c.holder in others]
        before = [c for c in copies if own[-1].n < c.stored.n < sent]
        excused = _visibly_failed(cell, trace, server.name, own[-1], sent)
        mandatory = _parameter(cell, trace, server.name, "RejectMessageOnShadowFailure", attempt.n, False)
        if not before and excused and not mandatory:
            continue
        finding.occasions += 1
        if not before:
            made = trace.messages[attempt.message]
            late = f"; {copies[0].holder} stored a shadow only at event {copies[0].stored.n}" if copies else ""
            finding.violated(
                f"{told(made)}: {server.name} acknowledged it with 250 at {own[-1].accepted.t:g} s (event {sent}, session "
                f"{attempt.session}) before any server had stored a shadow{late}",
                sent,
                *[c.stored.n for c in copies],
                message=attempt.message,
            )
    return finding


def _visibly_failed(cell: Cell, trace: Trace, server: str, own: Transaction, sent: int) -> bool:
    """Whether the server was seen trying, in vain, between the message's beginning and its acknowledgement."""
    return any(
        attempt.client == server
        and own.n < attempt.n < sent
        and not any(c.transaction.session == _session(trace, attempt.n) for c in trace.copies)
        for attempt in trace.shadow_attempts
    )


def _session(trace: Trace, n: int) -> str | None:
    event = trace.events[n]
    return event.session if isinstance(event, Connected) else None


def _parameter(cell: Cell, trace: Trace, server: str, name: str, n: int, default: Any) -> Any:
    """Return a parameter as it was in force at an event."""
    value = {**cell.topology.transport, **cell.topology.by_name[server].transport}.get(name, default)
    for event in trace.of(Configured):
        if event.n < n and event.node == server and event.refused is None and name in event.changes:
            value = event.changes[name]
    return value


def shadow_inside_boundary(cell: Cell, trace: Trace) -> Finding:
    """Shadows are asked for and stored only within the boundary, and never on the primary itself."""
    finding = Finding("shadows only on other servers of the boundary")
    for t in trace.transactions:
        if t.way != "shadow" or t.client not in cell.topology.by_name or t.server not in cell.topology.by_name:
            continue
        if (
            cell.topology.by_name[t.server].generation == "ex2010"
            or cell.topology.by_name[t.client].generation == "ex2010"
        ):
            continue
        finding.occasions += 1
        if t.server == t.client or t.server not in cell.topology.boundary(t.client):
            finding.violated(f"{t.client} sent a shadow message to {t.server} (session {t.session})", t.n)
    return finding


def no_discard_before_delivery(cell: Cell, trace: Trace) -> Finding:
    """A discard notification is given only for what the primary's next hops have accepted."""
    finding = Finding("no discard notification before all next hops have accepted the message")
    for name, made in trace.messages.items():
        owners = {(c.primary, c.shadow_id): c.transaction for c in trace.copies_of(name)}
        for discard in trace.discards:
            if (discard.primary, discard.shadow_id) not in owners:
                continue
            finding.occasions += 1
            done = {
                r.casefold()
                for t in trace.transactions_of(name)
                if t.way != "shadow" and t.client == discard.primary and t.accepted and t.accepted.n < discard.n
                for r in t.recipients
            } | {d.recipient.casefold() for d in trace.deliveries_of(name) if d.n < discard.n}  # fmt: skip
            sent = owners[discard.primary, discard.shadow_id]
            recipients = sent.recipients if sent.way == "tracked" else made.recipients
            missing = [r for r in recipients if r.casefold() not in done]
            if missing and not _reported(trace, made.message_id, discard.n):
                finding.violated(
                    f"{told(made)}: {discard.primary} told {discard.holder} to discard it at {discard.t:g} s, before "
                    f"{missing[0]} had it",
                    discard.n,
                    message=name,
                )
    return finding


def _reported(trace: Trace, message_id: str | None, before: int) -> bool:
    return any(
        t.digest.about == message_id and t.n < before for t in trace.transactions if t.digest and t.digest.report
    )


def shadow_not_delivered_while_primary_lives(cell: Cell, trace: Trace) -> Finding:
    """A holder transmits a shadow only after its primary was down, cut off or wiped."""
    finding = Finding("no shadow is transmitted while its primary was reachable all the time")
    downs = [e for e in trace.of(NodeEvent) if e.action in ("killed", "stopped", "wiped", "paused", "exited")]
    for name, made in trace.messages.items():
        finding.occasions += len(trace.copies_of(name))
        for t in trace.taken_over(name):
            held = [c for c in trace.copies_of(name) if c.holder == t.client and c.stored.n < t.n]
            if not any(_in_trouble(trace, downs, copy.primary, t) for copy in held):
                finding.violated(
                    f"{told(made)}: {t.client} transmitted it to {t.server} at {t.t:g} s though {held[0].primary} was never down",
                    t.n,
                    message=name,
                )
    return finding


def _in_trouble(trace: Trace, downs: list[NodeEvent], primary: str, t: Transaction) -> bool:
    """Whether a holder had a reason to believe that its primary was gone."""
    return any(e.node == primary and e.n < t.n for e in downs) or any(
        a.client == t.client and a.server == primary and a.n < t.n and a.message is None for a in trace.shadow_attempts
    )
