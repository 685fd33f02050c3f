"""Checks what happens to stored shadow copies: discard notifications, queries for them (XQDISCARD), and promotions.

`expected` is what the scenario's author wrote under the verb; `of` names the messages. A *holder* keeps a shadow copy for a
*primary*, and queries it; the primary notifies the holder of each copy that it may discard. A holder that transmits a message
as its own has promoted its copy (`conformance.trace.promotions`). Rulings are those of docs/rulings.md. `n` is an
event's number, `t` its time in seconds.

The judge (`conformance.judge.cell`) calls a check when the step of its expectation has ended. `context` is the history up to
then. The check returns a `Finding`: `occasions` counts how often it could have failed; a confirmation is an event that shows
what was expected, whose time the judge compares with `after` and `within`; `evidence` has the events that are shown. The
`kind` of a violation selects the requirements to blame: `rows_by_kind` of the decorator, else its `fallback_rows`.
Violations of `explaining_kinds` are listed before the failures that may follow from them. A time may miss its bound by
`context.slack` seconds, the clock's tolerance.
"""

import itertools

from conformance.history.events import MessageMade
from conformance.judge.checks import expectation_check
from conformance.scenarios.expectations import (
    Copies,
    DiscardedExpected,
    NotDiscardedExpected,
    NotPromotedExpected,
    PromotedExpected,
    QueriedExpected,
)
from conformance.trace.context import ExpectationContext
from conformance.trace.finding import (
    Finding,
    ViolationKind,
    format_count,
    format_seconds,
    format_times,
    is_expected_count,
)
from conformance.trace.promotions import find_promotions
from conformance.trace.sessions import Session
from conformance.trace.shadows import Discard, Query

_ROWS_NOTIFIED = frozenset(
    {
        "SR-CRE-08", "SR-MNT-01", "SR-MNT-02", "SR-MNT-03", "SR-MNT-04", "SR-MNT-05", "SR-MNT-08", "SR-MNT-12",
        "SR-MNT-14", "SR-TMO-05", "SR-E10-04", "SR-E10-05", "SR-E10-07", "SR-E10-23",
    }
)  # fmt: skip
_ROWS_NOT_NOTIFIED = frozenset(
    {
        "SR-CRE-08", "SR-MNT-01", "SR-MNT-04", "SR-MNT-07", "SR-MNT-08", "SR-MNT-12", "SR-MNT-14", "SR-BND-05",
        "SR-E10-01", "SR-E10-04", "SR-E10-13",
    }
)  # fmt: skip
_ROWS_NOT_PROMOTED_EARLY = frozenset(
    {
        "SR-CRE-11", "SR-MNT-10", "SR-MNT-13", "SR-MNT-15", "SR-OUT-06", "SR-BND-04", "SR-BND-05", "SR-E10-09", "SR-E10-11",
        "SR-E10-23",
    }
)  # fmt: skip
_ROWS_PROMOTED = frozenset(
    {
        "SR-MNT-09", "SR-MNT-11", "SR-OUT-01", "SR-OUT-02", "SR-OUT-05", "SR-OUT-07", "SR-OUT-08", "SR-CRE-04",
        "SR-E10-08", "SR-E10-20", "SR-E10-21", "SR-E10-22",
    }
)  # fmt: skip


@expectation_check(DiscardedExpected, rows_by_kind={"missing": _ROWS_NOTIFIED})
def discarded(expected: DiscardedExpected, context: ExpectationContext) -> Finding:
    """Check that the holder `on` (None: any) was notified to discard its copy of each message.

    The number of notifications for a message must be `times`, or at least one without `times`. With `times: 0` each stored copy of
    that holder is an occasion, else each message.
    """
    finding = Finding(f"discard notifications for {expected.of}" + (f" to {expected.on}" if expected.on else ""))
    for message in context.messages(expected.of):
        copies = [c for c in context.trace.copies_of(message.message) if expected.on is None or c.holder == expected.on]
        discards = [
            d for d in context.trace.discards_of(message.message) if expected.on is None or d.holder == expected.on
        ]
        finding.occasions += 1 if expected.times != 0 else len(copies)
        for discard in discards[:1]:
            finding.add_confirmation(discard.n, discard.t, message)
        if expected.times is not None and len(discards) != expected.times:
            finding.add_message_violation(
                message,
                f"notified {format_times(len(discards))}, not {format_times(expected.times)}",
                *[d.n for d in discards],
                kind="missing" if len(discards) < expected.times else "surplus",
            )
        elif expected.times is None and not discards:
            sentence = "none was given" + ("" if copies else ", and no shadow was stored")
            finding.add_message_violation(message, sentence, *[c.stored_reply.n for c in copies], kind="missing")
    return finding


@expectation_check(
    NotDiscardedExpected, rows_by_kind={"": _ROWS_NOT_NOTIFIED, "early": frozenset({"SR-MNT-01", "SR-E10-04"})}
)
def not_discarded(expected: NotDiscardedExpected, context: ExpectationContext) -> Finding:
    """Check that no discard notification was given to `on` (None: any) up to now; each stored copy is an occasion.

    A violation is `early` where no next hop had accepted the message yet. Copies on any holder are occasions, whatever `on` is: a
    server without a copy is to be notified of none.

    A message may go to one next hop in several transmissions, each with a shadow copy for some of the recipients (ruling
    26). A notification for such a copy is right once its own recipients have the message.
    """
    finding = Finding(f"no discard notification for {expected.of} yet" + (f" to {expected.on}" if expected.on else ""))
    for message in context.messages(expected.of):
        finding.occasions += len(context.trace.copies_of(message.message))
        for discard in context.trace.discards_of(message.message):
            if (expected.on is None or discard.holder == expected.on) and not _is_partial_copy_done(
                context, message, discard
            ):
                finding.add_message_violation(
                    message,
                    f"{discard.primary} notified {discard.holder} at {format_seconds(discard.t)}",
                    discard.n,
                    kind="" if _is_passed_on(context, message, discard) else "early",
                )
    return finding


def _is_passed_on(context: ExpectationContext, message: MessageMade, discard: Discard) -> bool:
    """Return whether a next hop or a sink had accepted the message from the primary before the notification."""
    return any(
        t.kind != "shadow" and t.client == discard.primary and t.acceptance is not None and t.acceptance.n < discard.n
        for t in context.trace.transactions_of(message.message)
    )


def _is_partial_copy_done(context: ExpectationContext, message: MessageMade, discard: Discard) -> bool:
    """Return whether the notification is for a copy for some of the recipients only, and these had the message before it.

    A recipient has the message once a sink took it for that recipient.
    """
    recipients = context.normalize_addresses(message.recipients)
    deliveries = context.trace.deliveries_of(message.message)
    reached = context.normalize_addresses(event.recipient for event in deliveries if event.n < discard.n)
    copies = [
        context.normalize_addresses(copy.transaction.recipients)
        for copy in context.trace.copies_of(message.message)
        if (copy.primary, copy.shadow_id) == (discard.primary, discard.shadow_id)
    ]
    return any(copy_recipients < recipients and copy_recipients <= reached for copy_recipients in copies)


@expectation_check(
    QueriedExpected, rows_by_kind={"missing": frozenset({"SR-MNT-02", "SR-MNT-03", "SR-E10-05", "SR-E10-06"})}
)
def queried(expected: QueriedExpected, context: ExpectationContext) -> Finding:
    """Check how often server `by` queried server `at`, in what intervals (`every`), and before QUIT (`before`).

    Queries and sessions before event `since_n`, the step labelled `since`, do not count. At least one query is wanted without
    `times`. `every` is the longest time between two queries, also from `since` to the first and from the last to the end of the
    history. With `before`, each ended session in which mail was sent is an occasion of its own.

    With `answered: true` only queries with a discard list as the reply count, with `false` only those without one. If `times`
    permits that there is no query, there is an occasion only where there was a session between them, or `by` holds a copy for `at`.
    """
    finding = Finding(f"queries of {expected.by} at {expected.at}")
    pair = (expected.by, expected.at)
    sessions = [s for s in context.trace.sessions.values() if (s.client, s.server) == pair and s.n >= context.since_n]
    queries = [
        q for q in context.trace.queries
        if (q.client, q.server) == pair and q.n >= context.since_n
        and (expected.answered is None or q.is_answered is expected.answered)
    ]  # fmt: skip
    wanted = expected.times or Copies(min=1)
    has_copy = any((copy.holder, copy.primary) == pair for copy in context.trace.copies)
    finding.occasions = 1 if wanted.min > 0 or sessions or has_copy else 0
    for query in queries[:1]:
        finding.add_confirmation(query.n, query.t)
    finding.evidence += [q.n for q in queries[1:]]  # shown, but not compared with the bounds
    if not is_expected_count(wanted, len(queries)):
        kind: ViolationKind = "missing" if len(queries) < wanted.min else "surplus"
        sentence = f"queried {format_times(len(queries))}, not {format_count(wanted)}"
        finding.add_violation(sentence, *[q.n for q in queries], kind=kind)
    if expected.every is not None:
        _compare_gaps(finding, expected.every, context, queries)
    if expected.before == "quit":
        _compare_with_quit(finding, sessions, queries)
    return finding


def _compare_gaps(finding: Finding, every: float, context: ExpectationContext, queries: list[Query]) -> None:
    """Add a violation when more than `every` seconds passed without a query, from time `context.since` up to the last event."""
    times = [context.since, *(q.t for q in queries), context.trace.events[-1].t]
    gap = max((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0)
    if gap > every + context.slack:
        sentence = f"{format_seconds(gap)} without a query, more than {format_seconds(every)}"
        finding.add_violation(sentence, *[q.n for q in queries], kind="missing")


def _compare_with_quit(finding: Finding, sessions: list[Session], queries: list[Query]) -> None:
    """Count an occasion for each ended session with mail, and add a violation if it has no query between its last mail and QUIT.

    Without QUIT the session's end counts.
    """
    for session in sessions:
        dots = [t.dot_n for t in session.transactions if t.dot_n is not None]
        quit_n = next((x.command.n for x in session.exchanges if x.command.verb == "QUIT"), None)
        if not dots or (quit_n is None and session.closed is None):
            continue
        finding.occasions += 1
        if not any(q.session == session.name and q.n > dots[-1] and (quit_n is None or q.n < quit_n) for q in queries):
            finding.add_violation(f"session {session.name} ended without a query after its mail", dots[-1])


@expectation_check(
    PromotedExpected,
    rows_by_kind={
        "early": _ROWS_NOT_PROMOTED_EARLY,
        "late": _ROWS_PROMOTED,
        "missing": _ROWS_PROMOTED,
        "partly": frozenset({"SR-OUT-08"}),
    },
)
def promoted(expected: PromotedExpected, context: ExpectationContext) -> Finding:
    """Check that one of the servers `by` promoted its copy of each message and transmitted it.

    Each message is an occasion. That a message was not promoted is a violation: `partly` where another of the messages was, else
    `missing`.
    """
    finding = Finding(f"{' or '.join(expected.by)} promotes the shadows of {expected.of}")
    promotions = [
        (message, [p for p in find_promotions(context, message.message) if p.holder in expected.by])
        for message in context.messages(expected.of)
    ]
    for message, own in promotions:
        finding.occasions += 1
        if own:
            finding.add_confirmation(own[0].transmission.n, own[0].transmission.t, message)
        else:
            kind: ViolationKind = "partly" if any(own for _, own in promotions) else "missing"
            finding.add_message_violation(message, "no holder transmitted it", kind=kind)
    return finding


@expectation_check(
    NotPromotedExpected,
    rows_by_kind={"": _ROWS_NOT_PROMOTED_EARLY, "elsewhere": frozenset({"SR-E10-10"})},
    explaining_kinds=("elsewhere",),
)
def not_promoted(expected: NotPromotedExpected, context: ExpectationContext) -> Finding:
    """Check that none of the holders `by` (None: any) promoted its copy and transmitted it; with `to`, not to these servers.

    Each copy held by one of `by` is an occasion; with `to`, each promotion. With `to` a violation is of the kind `elsewhere`.
    """
    finding = Finding(
        f"no holder of a shadow of {expected.of} transmits it"
        + (f" to {' or '.join(expected.to)}" if expected.to else "")
    )
    for message in context.messages(expected.of):
        name = message.message
        promotions = [p for p in find_promotions(context, name) if expected.by is None or p.holder in expected.by]
        held = sum(expected.by is None or c.holder in expected.by for c in context.trace.copies_of(name))
        finding.occasions += held if expected.to is None else len(promotions)
        for sent in (promotion.transmission for promotion in promotions):
            if expected.to is None or sent.server in expected.to:
                finding.add_message_violation(
                    message,
                    f"{sent.client} transmitted it to {sent.server} at {format_seconds(sent.t)}",
                    sent.n,
                    kind="" if expected.to is None else "elsewhere",
                )
    return finding
