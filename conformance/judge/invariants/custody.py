"""A shadow is not delivered while its primary lives (SR-CRE-11, SR-MNT-10, SR-MNT-13)."""

from conformance.history.events import CommandRun, NodeEvent
from conformance.judge.finding import Case, Finding, moment, named
from conformance.judge.parameters import seconds
from conformance.judge.takeover import Takeover, takeovers
from conformance.judge.trace import Copy


def shadow_not_delivered_while_primary_lives(case: Case) -> Finding:
    """A holder transmits a shadow only when it could open no session to its primary for ShadowResubmitTimeSpan, or has
    seen that the primary's queue database is another one.

    What Safety Net holds (the shadow was discarded before) is sent again when that was asked for. Servers of 2010 have
    their own rule, by the number of failed heartbeats.
    """
    finding = Finding("no shadow is transmitted while its primary was reachable and its database the same")
    for message, made in case.trace.messages.items():
        finding.occasions += sum(copy.transaction.way == "shadow" for copy in case.trace.copies_of(message))
        for takeover in takeovers(case.trace, message):
            held = [copy for copy in takeover.held if copy.transaction.way == "shadow"]
            if held and not any(_may(case, takeover, copy) for copy in held):
                sent = takeover.sent
                finding.violated(
                    f"{named(made)}: {sent.client} transmitted its shadow to {sent.server} at {moment(sent.t)} (event "
                    f"{sent.n}), {_since(case, takeover, held[-1])}",
                    sent.n,
                    held[-1].stored.n,
                    message=message,
                )
    return finding


def _may(case: Case, takeover: Takeover, copy: Copy) -> bool:
    span = seconds(case, copy.holder, "ShadowResubmitTimeSpan", takeover.sent.n)
    away = takeover.sent.t - last_contact(case, takeover, copy)
    return away >= span - case.slack or _other_database(case, takeover, copy) or _asked_for(case, takeover, copy)


def last_contact(case: Case, takeover: Takeover, copy: Copy) -> float:
    """Return when the holder last had a session with the primary in which that answered, before a takeover. Seconds."""
    found = copy.stored.t
    for session in case.trace.sessions.values():
        if (session.client, session.server) == (copy.holder, copy.primary) and session.keywords is not None:
            replies = (r.t for r in session.replies if r.n < takeover.sent.n and r.code // 100 == 2)
            found = max(found, *replies, found)
    return found


def _since(case: Case, takeover: Takeover, copy: Copy) -> str:
    last = last_contact(case, takeover, copy)
    return f"{moment(takeover.sent.t - last)} after {copy.primary} had answered it, its database unchanged"


def _other_database(case: Case, takeover: Takeover, copy: Copy) -> bool:
    """Whether the holder has seen another database than the one that the shadow came from.

    Where no names of databases can be seen, a wiped queue and a session since then must do.
    """
    seen = [(n, name) for n, name in _databases(case, copy) if n < takeover.sent.n]
    first = next((name for n, name in reversed(seen) if n < copy.stored.n), None)
    if first is not None:
        return any(name != first for n, name in seen if n > copy.stored.n)
    wiped = [
        e.n for e in case.trace.of(NodeEvent)
        if e.node == copy.primary and e.action == "wiped" and copy.stored.n < e.n < takeover.sent.n
    ]  # fmt: skip
    return bool(wiped) and any(
        {session.client, session.server} == {copy.holder, copy.primary} and wiped[-1] < session.n < takeover.sent.n
        for session in case.trace.sessions.values()
    )


def _databases(case: Case, copy: Copy) -> list[tuple[int, str]]:
    """Return every name of the primary's database that passed between it and the holder, with the event, in order."""
    found = []
    for session in case.trace.sessions.values():
        if (session.client, session.server) == (copy.primary, copy.holder):
            said = [exchange.command for exchange in session.exchanges]
            found += [(c.n, c.operation.database) for c in said if c.operation and c.operation.database]
        elif (session.client, session.server) == (copy.holder, copy.primary):
            found += [(r.n, r.operation.database) for r in session.replies if r.operation and r.operation.database]
    return sorted(found)


def _asked_for(case: Case, takeover: Takeover, copy: Copy) -> bool:
    """Whether the shadow had been discarded, and Safety Net was asked since to send again."""
    told = [
        d.n for d in case.trace.discards
        if (d.primary, d.shadow_id, d.holder) == (copy.primary, copy.shadow_id, copy.holder)
    ]  # fmt: skip
    return bool(told) and any(
        event.command == "resubmit" and event.failed is None and told[0] < takeover.sent.n and event.n < takeover.sent.n
        for event in case.trace.of(CommandRun)
    )
