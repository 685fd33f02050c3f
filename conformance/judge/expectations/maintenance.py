"""What becomes of shadows: discard notifications, queries for them, and takeovers."""

import itertools

from conformance.history.events import MessageMade
from conformance.judge.blame import Kind
from conformance.judge.expectations.check import asked, check, times, within
from conformance.judge.finding import Finding, View, moment, named
from conformance.judge.sessions import Session
from conformance.judge.takeover import takeovers
from conformance.judge.trace import Discard, Query
from conformance.scenarios.expectations import (
    Copies,
    DiscardedExpected,
    NotDiscardedExpected,
    NotPromotedExpected,
    PromotedExpected,
    QueriedExpected,
)

_RELEASED = frozenset(
    {
        "SR-CRE-08", "SR-MNT-01", "SR-MNT-02", "SR-MNT-03", "SR-MNT-04", "SR-MNT-05", "SR-MNT-12", "SR-MNT-14", "SR-TMO-05",
        "SR-E10-04", "SR-E10-05", "SR-E10-07", "SR-E10-23",
    }
)  # fmt: skip
_NOT_RELEASED = frozenset(
    {
        "SR-CRE-08", "SR-MNT-01", "SR-MNT-04", "SR-MNT-07", "SR-MNT-08", "SR-MNT-12", "SR-MNT-14", "SR-BND-05",
        "SR-E10-01", "SR-E10-04", "SR-E10-13",
    }
)  # fmt: skip
_NOT_BEFORE = frozenset(
    {
        "SR-CRE-11", "SR-MNT-10", "SR-MNT-13", "SR-MNT-15", "SR-OUT-06", "SR-BND-04", "SR-BND-05", "SR-E10-09", "SR-E10-11",
        "SR-E10-23",
    }
)  # fmt: skip
_TAKEN_OVER = frozenset(
    {
        "SR-MNT-09", "SR-MNT-11", "SR-OUT-01", "SR-OUT-02", "SR-OUT-05", "SR-OUT-07", "SR-OUT-08", "SR-CRE-04",
        "SR-E10-08", "SR-E10-20", "SR-E10-21", "SR-E10-22",
    }
)  # fmt: skip


@check(DiscardedExpected, about={"missing": _RELEASED})
def discarded(e: DiscardedExpected, view: View) -> Finding:
    """The shadow server was told to discard each shadow; with `times: 0`, it had one and was told nothing."""
    finding = Finding(f"discard notifications for {e.of}" + (f" to {e.on}" if e.on else ""))
    for made in view.messages(e.of):
        copies = [c for c in view.trace.copies_of(made.message) if e.on is None or c.holder == e.on]
        told = [d for d in view.trace.discards_of(made.message) if e.on is None or d.holder == e.on]
        finding.occasions += 1 if e.times != 0 else len(copies)
        for discard in told[:1]:
            finding.met(discard.n, discard.t, made)
        if e.times is not None and len(told) != e.times:
            finding.violated(
                f"{named(made)}: told {times(len(told))}, not {times(e.times)}",
                *[d.n for d in told],
                message=made.message,
                kind="missing" if len(told) < e.times else "surplus",
            )
        elif e.times is None and not told:
            finding.violated(
                f"{named(made)}: none was given" + ("" if copies else ", and no shadow was stored"),
                *[c.stored.n for c in copies],
                message=made.message,
                kind="missing",
            )
    return finding


@check(NotDiscardedExpected, about={"": _NOT_RELEASED, "early": frozenset({"SR-MNT-01", "SR-E10-04"})})
def not_discarded(e: NotDiscardedExpected, view: View) -> Finding:
    """No discard notification was given up to now, though there was a shadow.

    A message may go to one next hop in several transmissions, each with a shadow of its own (ruling 26): one is told
    when its own recipients have the message.
    """
    finding = Finding(f"no discard notification for {e.of} yet" + (f" to {e.on}" if e.on else ""))
    for made in view.messages(e.of):
        finding.occasions += len(view.trace.copies_of(made.message))
        for discard in view.trace.discards_of(made.message):
            if (e.on is None or discard.holder == e.on) and not _own_part_done(view, made, discard):
                finding.violated(
                    f"{named(made)}: {discard.primary} told {discard.holder} at {moment(discard.t)}",
                    discard.n,
                    message=made.message,
                    kind="" if _passed_on(view, made, discard) else "early",
                )
    return finding


def _passed_on(view: View, made: MessageMade, discard: Discard) -> bool:
    """Whether a next hop had taken the message from the primary when that told of it."""
    return any(
        t.way != "shadow" and t.client == discard.primary and t.accepted is not None and t.accepted.n < discard.n
        for t in view.trace.transactions_of(made.message)
    )


def _own_part_done(view: View, made: MessageMade, discard: Discard) -> bool:
    """Whether a notification is for a shadow of some of the recipients, all of whom have the message."""
    wanted = set(map(view.same, made.recipients))
    has = {view.same(d.recipient) for d in view.trace.deliveries_of(made.message) if d.n < discard.n}
    parts = [
        set(map(view.same, copy.transaction.recipients))
        for copy in view.trace.copies_of(made.message)
        if (copy.primary, copy.shadow_id) == (discard.primary, discard.shadow_id)
    ]
    return any(part < wanted and part <= has for part in parts)


@check(QueriedExpected, about={"missing": frozenset({"SR-MNT-02", "SR-MNT-03", "SR-E10-05", "SR-E10-06"})})
def queried(e: QueriedExpected, view: View) -> Finding:
    """One server asked another for its discard status. That it did not is worth something where it had a reason to."""
    finding = Finding(f"queries of {e.by} at {e.at}")
    sessions = [s for s in view.trace.sessions.values() if (s.client, s.server) == (e.by, e.at) and s.n >= view.since_n]
    found = [
        q for q in view.trace.queries
        if (q.by, q.at) == (e.by, e.at) and q.n >= view.since_n and (e.answered is None or q.answered is e.answered)
    ]  # fmt: skip
    wanted = e.times or Copies(min=1)
    held = any((copy.holder, copy.primary) == (e.by, e.at) for copy in view.trace.copies)
    finding.occasions = 1 if wanted.min > 0 or sessions or held else 0
    for query in found[:1]:
        finding.met(query.n, query.t)
    finding.evidence += [q.n for q in found[1:]]
    if not within(wanted, len(found)):
        kind: Kind = "missing" if len(found) < wanted.min else "surplus"
        finding.violated(f"queried {times(len(found))}, not {asked(wanted)}", *[q.n for q in found], kind=kind)
    if e.every is not None:
        _gaps(finding, e.every, view, found)
    if e.before == "quit":
        _before_quit(finding, sessions, found)
    return finding


def _gaps(finding: Finding, every: float, view: View, found: list[Query]) -> None:
    at = [view.since, *(q.t for q in found), view.trace.events[-1].t]
    gap = max((later - earlier for earlier, later in itertools.pairwise(at)), default=0.0)
    if gap > every + view.slack:
        finding.violated(
            f"{moment(gap)} without a query, more than {moment(every)}", *[q.n for q in found], kind="missing"
        )


def _before_quit(finding: Finding, sessions: list[Session], found: list[Query]) -> None:
    """In each ended session with mail the last mail is followed by a query, and that by QUIT."""
    for session in sessions:
        dots = [t.dot for t in session.transactions if t.dot is not None]
        quit_at = next((x.command.n for x in session.exchanges if x.command.verb == "QUIT"), None)
        if not dots or (quit_at is None and session.closed is None):
            continue
        finding.occasions += 1
        if not any(q.session == session.name and q.n > dots[-1] and (quit_at is None or q.n < quit_at) for q in found):
            finding.violated(f"session {session.name} ended without a query after its mail", dots[-1])


@check(
    PromotedExpected,
    about={"early": _NOT_BEFORE, "late": _TAKEN_OVER, "missing": _TAKEN_OVER, "partly": frozenset({"SR-OUT-08"})},
)
def promoted(e: PromotedExpected, view: View) -> Finding:
    """Holders took the shadows of each message over and transmitted it as their own."""
    finding = Finding(f"{' or '.join(e.by)} takes the shadows of {e.of} over")
    taken = [(made, [t.sent for t in takeovers(view, made.message) if t.by in e.by]) for made in view.messages(e.of)]
    for made, sent in taken:
        finding.occasions += 1
        if sent:
            finding.met(sent[0].n, sent[0].t, made)
        else:
            kind: Kind = "partly" if any(sent for _, sent in taken) else "missing"
            finding.violated(f"{named(made)}: no holder transmitted it", message=made.message, kind=kind)
    return finding


@check(NotPromotedExpected, about={"": _NOT_BEFORE, "elsewhere": frozenset({"SR-E10-10"})}, explains=("elsewhere",))
def not_promoted(e: NotPromotedExpected, view: View) -> Finding:
    """No holder of a shadow transmitted it, or not to some servers: of that there is occasion where it was taken over."""
    finding = Finding(f"no holder of a shadow of {e.of} transmits it" + (f" to {' or '.join(e.to)}" if e.to else ""))
    for made in view.messages(e.of):
        taken = [t for t in takeovers(view, made.message) if e.by is None or t.by in e.by]
        held = sum(e.by is None or c.holder in e.by for c in view.trace.copies_of(made.message))
        finding.occasions += held if e.to is None else len(taken)
        for sent in (takeover.sent for takeover in taken):
            if e.to is None or sent.server in e.to:
                finding.violated(
                    f"{named(made)}: {sent.client} transmitted it to {sent.server} at {moment(sent.t)}",
                    sent.n,
                    message=made.message,
                    kind="" if e.to is None else "elsewhere",
                )
    return finding
