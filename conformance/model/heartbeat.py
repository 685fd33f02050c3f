"""Judges that a holder asks its primary for discard status: in every session, and often enough (SR-MNT-02, SR-MNT-03, SR-WIR-06).

A *holder* keeps shadow copies for a *primary*, and queries the *discard status*: the primary's answer which of these copies the
holder may discard. A copy is *surely held* until the first event after which its holder may be without it (`shadow_pairs`). `n`
is an event's number; times are documented seconds. Rulings are those of docs/rulings.md.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). Functions that take a `finding` add to it. A violation blames
its `row`, else the rule's first requirement.

Records: a `ShadowPair` is a holder and a primary with the copies that the one holds for the other; its `waits` are the times in
which the holder was in contact with the primary, or tried to be. A `Discard` is one discard notification in a reply to a query; a
`FaultArmed` event puts a fault in force on links (`A -> B transport`, `A disk`), or ends it (`healed`). A `Transaction` is one
mail transaction: `n` and `t` are those of its MAIL. Its `kind` is `shadow` (a copy that the server is to hold, 2013 and later),
`tracked` (2010: mail of which the client keeps the shadow) or `plain`. A session is *altered* where a fault changed, added or
removed octets in it, and *held* where a fault kept octets back (`stall`). Of a server's listeners `frontend` is for
mail from outside, `transport` for other servers, `delivery` that of its mailbox store. `facts.slack` is by how many seconds a
time may miss a bound.
"""

from bisect import bisect_left
from collections.abc import Iterator

from conformance.history.events import FaultArmed
from conformance.model.facts import Facts, operation_name
from conformance.model.rules import rule
from conformance.model.shadow_pairs import ShadowPair, Wait, shadow_pairs
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import Session
from conformance.trace.shadows import Discard

_DECLINING_CODES = frozenset({421, 535})
"""Replies after which a client is right to say nothing more: the server ends the session, or gave the client no rights."""


@rule("SR-MNT-02", timed=False)
def query_in_every_session(facts: Facts) -> Finding:
    """Check that a holder asks for discard status in each session with the primary that it ends with QUIT.

    It does so whatever the session is for. The rule judges sessions during which the holder surely held a copy for the primary,
    and in which it could have asked (`_quit_where_query_possible`).
    """
    finding = Finding("a holder asks for discard status in every session that it opens to the primary")
    for pair in facts.compute_once(shadow_pairs):
        for session in facts.sessions_by_client_and_server[pair.holder, pair.primary] if pair.waits else ():
            quit_n = _quit_where_query_possible(facts, session)
            if quit_n is None:
                continue
            held = pair.first_surely_held(session.n, quit_n)
            if held is None:
                continue
            finding.occasions += 1
            if not any(operation_name(exchange) == "query-discard" for exchange in session.exchanges):
                finding.add_violation(
                    f"{pair.holder} had session {session.name} with {pair.primary} at {format_seconds(session.t)} and did "
                    f"not ask for discard status, while it held the shadow {held.copy.shadow_id}",
                    quit_n,
                    held.since_n,
                )
    return finding


def _quit_where_query_possible(facts: Facts, session: Session) -> int | None:
    """Return the number of the QUIT that ended a session in which the holder could have sent a query; None for any other session.

    It could not where the primary did not offer XSHADOWREQUEST, since it would refuse the query, or answered anything with 421 or
    535. Sessions on another listener than `transport`, those of the harness, and altered or held ones are left out too.
    """
    if not session.exchanges or session.listener != "transport" or session.exchanges[-1].command.verb != "QUIT":
        return None
    if session.keywords is None or "XSHADOWREQUEST" not in session.keywords:
        return None
    if not facts.is_opened_by_tested_server(session.client, session.name) or facts.is_altered_or_held(session.name):
        return None
    if any(reply.code in _DECLINING_CODES for reply in session.replies):
        return None
    return session.exchanges[-1].command.n


@rule("SR-MNT-03", "SR-WIR-06", "SR-CRE-04", "SR-BND-09", "SR-SFN-03")
def heartbeat_often_enough(facts: Facts) -> Finding:
    """Check that a holder turns to the primary at least once in every ShadowHeartbeatFrequency while it surely holds a copy.

    It turns to the primary with a session, also one for another purpose, since the query is part of it (ruling 21), or with an
    attempt at one that fails; an attempt at a silent primary is recorded when the client gives up. The interval counts from the
    end of the last of these, from when the holder stored the copy, or from when it was ready after a restart, whichever is last.
    A holder that stops asking may also have lost its copies: at a restart (SR-CRE-04, SR-BND-09), or when it was notified of a
    shadow id that it does not know (SR-WIR-06, which is blamed then).
    """
    finding = Finding("a holder turns to the primary in every ShadowHeartbeatFrequency")
    for pair in facts.compute_once(shadow_pairs):
        for since_n, since_t, until_n, until_t in _times_of_duty(facts, pair):
            last = Wait(since_n=since_n, since_t=since_t, until_n=since_n, until_t=since_t)
            first = bisect_left(pair.waits, since_t, key=lambda wait: wait.since_t)
            # a wait that began before the window may reach into it, or have been cut off at its begin
            for wait in (*(w for w in pair.waits[:first] if w.until_t >= since_t), *pair.waits[first:]):
                if wait.since_t >= until_t:
                    break
                if wait.since_t > last.until_t:
                    _check_gap(facts, finding, pair, last, wait)
                if wait.until_t > last.until_t or (wait.until_t == last.until_t and wait.cut_off):
                    last = wait
            if last.until_t < until_t:
                _check_gap(
                    facts, finding, pair, last, Wait(since_n=until_n, since_t=until_t, until_n=until_n, until_t=until_t)
                )
    return finding


def _times_of_duty(facts: Facts, pair: ShadowPair) -> Iterator[tuple[int, float, int, float]]:
    """Yield the times during which the holder works and surely holds a copy for the primary, in order.

    Each tuple has number and time of the begin, then number and time of the end.
    """
    merged: list[tuple[int, float, int, float]] = []
    held = [(held.since_n, held.since_t, *end) for held, end in zip(pair.copies, pair.sure_ends, strict=True)]
    for begin_n, begin_t, end_n, end_t in sorted([*held, *pair.kept_over_switches]):
        if merged and begin_n <= merged[-1][2]:
            since_n, since_t, last_n, last_t = merged.pop()
            merged.append((since_n, since_t, max(end_n, last_n), max(end_t, last_t)))
        elif end_n > begin_n:
            merged.append((begin_n, begin_t, end_n, end_t))
    for since_n, since_t, until_n, until_t in merged:
        for span in facts.working_spans[pair.holder]:
            begin = max((since_n, since_t), (span.since_n, span.since_t))
            end = min((until_n, until_t), (span.until_n, span.until_t))
            if begin < end:
                yield *begin, *end


def _check_gap(facts: Facts, finding: Finding, pair: ShadowPair, last: Wait, following: Wait) -> None:
    """Add a violation if the holder left the primary alone for too long, from the end of wait `last` to the begin of `following`.

    Too long is more than ShadowHeartbeatFrequency. Where the next attempt failed or the primary may have been silent, the holder's
    SendConnectionInactivityTimeout is added, since an attempt is recorded when it ends. Else, after a session that the primary cut
    off, the primary's limit for idle sessions is added, since the holder may notice that late. A gap of half
    ShadowHeartbeatFrequency or more is an occasion.
    """
    since_n, since_t = last.until_n, last.until_t
    gap = following.since_t - since_t
    frequency = max(
        facts.parameter_numbers_between(pair.holder, "ShadowHeartbeatFrequency", since_n, following.since_n),
        default=gap,
    )
    finding.occasions += gap >= frequency / 2
    if gap <= frequency + facts.slack:
        return
    room = 0.0
    if following.failed or _may_be_silent(facts, pair, since_n, following.since_n):
        # the attempt began earlier: while nothing answers, it lasts as long as the client's own limit
        limits = facts.parameter_numbers_between(
            pair.holder, "SendConnectionInactivityTimeout", since_n, following.since_n
        )
        room = max(limits, default=gap)
    elif last.cut_off:
        # a session may be kept up to the receiver's idle limit (ruling 25); the holder finds out when it uses it next
        room = facts.listener_limits(pair.primary, "transport", since_n)["connection_inactivity_timeout"]
    if gap <= frequency + room + facts.slack:
        return
    unknown = _was_notified_of_unknown_copy(facts, pair, following.since_n)
    finding.add_violation(
        f"{pair.holder} left {pair.primary} alone for {format_seconds(gap)} from {format_seconds(since_t)} on, while it held "
        f"its shadows; ShadowHeartbeatFrequency is {format_seconds(frequency)}",
        *(n for n in (since_n, following.since_n) if 0 <= n < facts.end_n),
        row="SR-WIR-06" if unknown else None,
    )


def _may_be_silent(facts: Facts, pair: ShadowPair, after_n: int, before_n: int) -> bool:
    """Return whether the primary or the link to it may swallow what the holder sends at some time between two events.

    The primary is paused for some of that time, or a fault is in force on the link: armed before `before_n`, and not healed
    before `after_n`.
    """
    paused = any(
        event.action == "paused" and event.n < before_n and not _is_resumed(facts, pair.primary, event.n, after_n)
        for event in facts.node_events.get(pair.primary, ())
    )
    link = f"{pair.holder} -> {pair.primary} transport"
    armed: dict[str, bool] = {}
    for event in facts.trace.events_of(FaultArmed):
        if event.n >= before_n:
            break
        if link in event.links and (not event.healed or event.n < after_n):
            armed[event.fault] = not event.healed
    return paused or any(armed.values())


def _is_resumed(facts: Facts, server: str, paused_n: int, before_n: int) -> bool:
    """Return whether the server's pause at event `paused_n` was over before event `before_n`: any event of its node followed."""
    return any(paused_n < event.n < before_n for event in facts.node_events[server])


def _was_notified_of_unknown_copy(facts: Facts, pair: ShadowPair, before_n: int) -> bool:
    """Return whether before event `before_n` the primary notified the holder of a shadow id that it does not know (SR-WIR-06)."""
    return any(
        (discard.primary, discard.holder) == (pair.primary, pair.holder) and discard.n < before_n
        for discard in facts.compute_once(_discards_of_unknown_copies)
    )


def _discards_of_unknown_copies(facts: Facts) -> list[Discard]:
    """Return the notifications of shadow ids that their holder does not know, in order.

    The whole history has no MAIL of a copy with that id between the two servers, or the last such MAIL came before the last wipe
    of the holder's queue that precedes the notification.
    """
    offered: dict[tuple[str, str, str | None], int] = {}  # holder, primary, shadow id: the last MAIL
    for sent in facts.trace.transactions:
        if sent.kind != "plain":
            holder, primary = (sent.server, sent.client) if sent.kind == "shadow" else (sent.client, sent.server)
            offered[holder, primary, sent.shadow_id] = sent.n
    unknown = []
    for discard in facts.trace.discards:
        sent_n = offered.get((discard.holder, discard.primary, discard.shadow_id), -1)
        events = facts.node_events.get(discard.holder, ())
        wiped_n = max((e.n for e in events if e.action == "wiped" and e.n < discard.n), default=-1)
        if sent_n <= wiped_n:
            unknown.append(discard)
    return unknown


@rule("SR-WIR-06", timed=False)
def unknown_notification_ignored(facts: Facts) -> Finding:
    """Check that a holder which is notified of a shadow id that it does not know goes on with the session.

    It goes on if it sends another command, QUIT included. A session that the primary or a link ended before that is no occasion,
    nor is one that is open at the end, that the harness opened, or in which the holder stopped.
    """
    finding = Finding("a notification for an unknown shadow id is ignored")
    for discard in facts.compute_once(_discards_of_unknown_copies):
        session = facts.trace.sessions[discard.session]
        if session.closed is None:
            continue
        if not facts.is_opened_by_tested_server(discard.holder, discard.session):
            continue
        if facts.was_interrupted_between(discard.holder, session.n, session.closed.n):
            continue
        goes_on = session.exchanges[-1].command.n > discard.n
        finding.occasions += goes_on
        if not goes_on and session.closed.by == "client":
            finding.occasions += 1
            finding.add_violation(
                f"{discard.holder} broke session {discard.session} off at {format_seconds(session.closed.t)}, after {discard.primary} "
                f"had notified it of {discard.shadow_id}, which it does not know",
                session.closed.n,
                discard.n,
            )
    return finding
