"""A shadow is not delivered while its primary lives (SR-CRE-11, SR-MNT-10, SR-MNT-13)."""

from dataclasses import dataclass

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
            held = [Kept.of(copy) for copy in takeover.held if copy.transaction.way == "shadow"]
            if held and not any(_may(case, takeover, kept) for kept in (*held, *_unheard(case, takeover, message))):
                sent = takeover.sent
                finding.violated(
                    f"{named(made)}: {sent.client} transmitted its shadow to {sent.server} at {moment(sent.t)} (event "
                    f"{sent.n}), {_since(case, takeover, held[-1])}",
                    sent.n,
                    held[-1].n,
                    message=message,
                )
    return finding


@dataclass(frozen=True, slots=True)
class Kept:
    """A shadow that a holder has, or may have, for a primary, since event `n` (`t` seconds)."""

    primary: str
    holder: str
    n: int
    t: float
    shadow_id: str | None = None

    @classmethod
    def of(cls, copy: Copy) -> "Kept":
        """Return a copy that is known to be stored."""
        return cls(copy.primary, copy.holder, copy.stored.n, copy.stored.t, copy.transaction.shadow_id)


def _unheard(case: Case, takeover: Takeover, message: str) -> list[Kept]:
    """Return the shadows that the holder may have besides: it had the content, and nobody heard whether it took it."""
    return [
        Kept(given.client, given.server, given.dot, given.dot_t)
        for given in case.trace.transactions_of(message)
        if given.way == "shadow" and given.server == takeover.by and not given.replies
        if given.dot is not None and given.dot_t is not None and given.dot < takeover.sent.n
    ]


def _may(case: Case, takeover: Takeover, kept: Kept) -> bool:
    span = seconds(case, kept.holder, "ShadowResubmitTimeSpan", takeover.sent.n)
    away = takeover.sent.t - _last_contact(case, takeover, kept)
    return away >= span - case.slack or _other_database(case, takeover, kept) or _asked_for(case, takeover, kept)


def _last_contact(case: Case, takeover: Takeover, kept: Kept) -> float:
    """Return when the holder last had a session with the primary in which that answered, before a takeover. Seconds."""
    found = kept.t
    for session in case.trace.sessions.values():
        if (session.client, session.server) == (kept.holder, kept.primary) and session.keywords is not None:
            replies = (r.t for r in session.replies if r.n < takeover.sent.n and r.code // 100 == 2)
            found = max(found, *replies, found)
    return found


def _since(case: Case, takeover: Takeover, kept: Kept) -> str:
    last = _last_contact(case, takeover, kept)
    return f"{moment(takeover.sent.t - last)} after {kept.primary} had answered it, its database unchanged"


def _other_database(case: Case, takeover: Takeover, kept: Kept) -> bool:
    """Whether the holder has seen another database than the one that the shadow came from.

    Where no names of databases can be seen, a wiped queue and a session since then must do.
    """
    seen = [(n, name) for n, name in _databases(case, kept) if n < takeover.sent.n]
    first = next((name for n, name in reversed(seen) if n < kept.n), None)
    if first is not None:
        return any(name != first for n, name in seen if n > kept.n)
    wiped = [
        e.n for e in case.trace.of(NodeEvent)
        if e.node == kept.primary and e.action == "wiped" and kept.n < e.n < takeover.sent.n
    ]  # fmt: skip
    return bool(wiped) and any(
        {session.client, session.server} == {kept.holder, kept.primary} and wiped[-1] < session.n < takeover.sent.n
        for session in case.trace.sessions.values()
    )


def _databases(case: Case, kept: Kept) -> list[tuple[int, str]]:
    """Return every name of the primary's database that passed between it and the holder, with the event, in order."""
    found = []
    for session in case.trace.sessions.values():
        if (session.client, session.server) == (kept.primary, kept.holder):
            said = [exchange.command for exchange in session.exchanges]
            found += [(c.n, c.operation.database) for c in said if c.operation and c.operation.database]
        elif (session.client, session.server) == (kept.holder, kept.primary):
            found += [(r.n, r.operation.database) for r in session.replies if r.operation and r.operation.database]
    return sorted(found)


def _asked_for(case: Case, takeover: Takeover, kept: Kept) -> bool:
    """Whether the shadow had been discarded, and Safety Net was asked since to send again."""
    told = [
        d.n for d in case.trace.discards
        if (d.primary, d.shadow_id, d.holder) == (kept.primary, kept.shadow_id, kept.holder)
    ]  # fmt: skip
    return bool(told) and any(
        event.command == "resubmit" and event.failed is None and told[0] < takeover.sent.n and event.n < takeover.sent.n
        for event in case.trace.of(CommandRun)
    )
