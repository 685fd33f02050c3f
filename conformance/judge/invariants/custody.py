"""A shadow is not delivered while its primary lives (SR-CRE-11, SR-MNT-10, SR-MNT-13)."""

from collections.abc import Iterator
from dataclasses import dataclass

from conformance.history.events import CommandRun, ConnectFailed, NodeEvent, StepEvent
from conformance.judge.finding import Case, Finding, moment, named
from conformance.judge.invariants.check import invariant
from conformance.judge.parameters import seconds
from conformance.judge.sessions import Transaction
from conformance.judge.takeover import Takeover, takeovers
from conformance.judge.trace import Copy


@invariant("shadow-not-delivered-while-primary-lives", "SR-CRE-11", "SR-MNT-10")
def shadow_not_delivered_while_primary_lives(case: Case) -> Finding:
    """A holder transmits a shadow only when it could open no session to its primary for ShadowResubmitTimeSpan, or has
    seen that the primary's queue database is another one.

    A holder may count the sessions that the primary opens, or only its own (ruling 17): what it transmits is too early
    only before the time since its own last one. What Safety Net holds (the shadow was discarded before) is sent again
    when that was asked for, or a mailbox database became active elsewhere. A shadow that was promoted rightly is the
    holder's own message: what it transmits of it later, its new shadow too, is right whoever is back by then. Servers of
    2010 have their own rule, by the number of failed heartbeats.
    """
    finding = Finding("no shadow is transmitted while its primary was reachable and its database the same")
    for message, made in case.trace.messages.items():
        finding.occasions += sum(copy.transaction.way == "shadow" for copy in case.trace.copies_of(message))
        promoted: dict[str, Transaction] = {}  # each holder's last transmission that was right: it is its own message
        for takeover in takeovers(case, message):
            shadows = [copy for copy in takeover.held if copy.transaction.way == "shadow"]
            own = promoted.get(takeover.by)
            held = [Kept.of(copy) for copy in shadows if copy.stored.n > (own.n if own else -1)]
            if not held or (own and _on_its_way(case, message, takeover.sent, own.n)):
                continue
            if any(_may(case, takeover, kept) for kept in (*held, *_unheard(case, takeover, message))):
                promoted[takeover.by] = takeover.sent
            else:
                sent = takeover.sent
                kept = min(held, key=lambda one: _last_contact(case, takeover, one)[0])
                finding.violated(
                    f"{named(made)}: {sent.client} transmitted its shadow to {sent.server} at {moment(sent.t)} (event "
                    f"{sent.n}), {_since(case, takeover, kept)}",
                    sent.n,
                    kept.n,
                    message=message,
                )
    return finding


def _on_its_way(case: Case, message: str, sent: Transaction, since: int) -> bool:
    """Whether a transmission may be of what its sender promoted at event `since`: no other one since then, to the same
    recipients or likewise for a shadow, was taken or is open. A shadow that came meanwhile is no reason for a second one.
    """
    to = set(map(case.same, sent.recipients))
    for other in case.trace.transactions_of(message):
        if (
            other.client != sent.client
            or not since <= other.n < sent.n
            or (other.way == "shadow") != (sent.way == "shadow")
        ):
            continue
        same = sent.way == "shadow" or not to.isdisjoint(map(case.same, other.recipients))
        closed = case.trace.sessions[other.session].closed
        ended = (closed is not None and closed.n < sent.n) or any(reply.n < sent.n for reply in other.replies)
        if same and (other.accepted is not None or not ended):
            return False
    return True


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
    away = takeover.sent.t - _last_contact(case, takeover, kept)[0]
    return away >= span - case.slack or _other_database(case, takeover, kept) or _asked_for(case, takeover, kept)


def _last_contact(case: Case, takeover: Takeover, kept: Kept) -> tuple[float, str]:
    """Return from when a holder may count at the earliest that its primary is away (seconds), and what was then.

    That is the last session that it opened itself and in which the primary answered. When it had none since it has the
    shadow, it counts from an earlier one where it tried since in vain; else from one heartbeat before the shadow came at
    the most, for a holder that asks as it must has had one since.
    """
    answered = max((t for t in _answers(case, kept) if t < takeover.sent.t), default=None)
    if answered is not None and answered >= kept.t:
        return answered, "had answered it"
    if answered is not None and any(answered < t <= kept.t for t in _failures(case, kept)):
        return answered, "had answered it"
    earliest = kept.t - seconds(case, kept.holder, "ShadowHeartbeatFrequency", kept.n)
    if answered is not None and answered >= earliest:
        return answered, "had answered it"
    return (kept.t if answered is None else earliest), "had handed it over"


def _answers(case: Case, kept: Kept) -> Iterator[float]:
    """Yield when the primary gave a positive reply to the holder, in sessions that the holder opened. Seconds."""
    for session in case.trace.sessions.values():
        if (session.client, session.server) == (kept.holder, kept.primary) and session.keywords is not None:
            yield from (reply.t for reply in session.replies if reply.code // 100 == 2)


def _failures(case: Case, kept: Kept) -> Iterator[float]:
    """Yield when the holder tried in vain to open a session with the primary, seconds."""
    pair = (kept.holder, kept.primary)
    yield from (event.t for event in case.trace.of(ConnectFailed) if (event.client, event.server) == pair)
    for session in case.trace.sessions.values():
        if (session.client, session.server) == pair and session.keywords is None:
            yield session.t


def _since(case: Case, takeover: Takeover, kept: Kept) -> str:
    last, what = _last_contact(case, takeover, kept)
    return f"{moment(takeover.sent.t - last)} after {kept.primary} {what}, its database unchanged"


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
    """Whether the shadow had been discarded, and Safety Net was asked to send again: by a command, or since a mailbox
    database became active on another server."""
    told = [
        d.n for d in case.trace.discards
        if (d.primary, d.shadow_id, d.holder) == (kept.primary, kept.shadow_id, kept.holder)
    ]  # fmt: skip
    if not told or told[0] > takeover.sent.n:
        return False
    asked = [e.n for e in case.trace.of(CommandRun) if e.command == "resubmit" and e.failed is None]
    asked += [e.n for e in case.trace.of(StepEvent) if e.verb == "activate"]
    return any(n < takeover.sent.n for n in asked)
