"""Judges takeovers in 2010: a holder transmits its shadows again when their primary has failed or lost its queue.

Theory of operation
-------------------
In 2010 the sender of a message, the *holder*, keeps its shadow, and the next hop is its *primary*.
A primary has failed when ShadowHeartbeatRetryCount intervals of ShadowHeartbeatTimeoutInterval in a row went by without a
session (SR-E10-08). The holder's own attempts show that: each that failed counts when it comes at least an interval after
the one before it, and a session with the primary starts the count again (SR-E10-09). Sessions that the primary opened may count
or not (ruling 30), a holder that was restarted may go on with its count or not, and need not wait for the first attempt
(ruling 28). So a takeover is early only where no reading permits it, and late only where each demands it.

What is taken over goes to another server (SR-E10-10), and stays where there is no other (SR-E10-11, ruling 35). A new
database of the primary, seen in any session with it, is a reason to transmit at once, to the primary as well (SR-E10-21).

`n` is an event's number, times are documented seconds, and `facts.slack` is by how much a time may miss a bound. Rulings are those
of docs/rulings.md. A `HeldInterval` (`held`) is a stored shadow, its `copy` with the transaction that was sent, and the event and
time until which it is surely held (`until_n`, `until_t`; None: to the end). A `PromotedTransmission` is a transmission by a holder
of what it held as a copy. A *contact* is an attempt at a session, from `n` and `t` to `end_n` and `end_t`: `reached`, `failed` or
`unclear`. *Hops* are parties to which a message may be passed on. `row` is a requirement's id. Each rule judges one recorded
history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model` describes.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import pairwise

from conformance.history.events import ConnectFailed, FaultFired, NodeEvent
from conformance.model.contacts import Contact
from conformance.model.exchange_2010 import alternative_hops, tracked_shadows
from conformance.model.facts import Facts, HeldInterval
from conformance.model.processing import may_have_forgotten_event
from conformance.model.rules import rule
from conformance.model.server_facts import STOPPING_ACTIONS
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.promotions import PromotedTransmission

_DECISION_TIME_S = 35.0
"""By how much a takeover may follow the last failed interval. Seconds."""

_AT_ONCE_S = 10.0
"""By how much it may follow the sight of a new database. Seconds."""


@rule("SR-E10-08", "SR-E10-09", "SR-E10-10", "SR-E10-11", "SR-E10-23", "SR-E10-07")
def takeover_has_a_reason(facts: Facts) -> Finding:
    """Check that a holder transmits a shadow again only for a reason, and to another server than the one that failed.

    The first transmission of a shadow is judged; those that follow it are tries of the same takeover. It is permitted if any of
    the shadows that it may be of permits it. It is left out where one of these is not surely kept (`tracked_shadows`).
    """
    finding = Finding("shadows taken over only after as many failed intervals as are set, or for a new database")
    shadows = {id(held.copy): held for held in tracked_shadows(facts)}
    for promotions in facts.promotions_by_message.values():
        judged: set[int] = set()
        for promotion in promotions:
            copies = [copy for copy in promotion.held_copies if id(copy) not in judged]
            judged |= {id(copy) for copy in copies}
            held = [shadows[id(copy)] for copy in copies if id(copy) in shadows]
            # a copy of a transmission that was not fully seen may be the reason
            if (
                not held
                or len(held) < len(copies)
                or not facts.is_opened_by_tested_server(promotion.holder, promotion.transmission.session)
            ):
                continue
            finding.occasions += 1
            reasons = [_find_forbidding_row(facts, one, promotion) for one in held]
            if all(reasons) and reasons[0] is not None:
                row, why = reasons[0]
                sent = promotion.transmission
                finding.add_message_violation(
                    facts.trace.messages[sent.message] if sent.message else None,
                    f"{sent.client} took over its shadow of what it had sent to {held[0].copy.primary} and transmitted it to "
                    f"{sent.server} at {format_seconds(sent.t)}, {why}",
                    sent.n,
                    held[0].since_n,
                    row=row,
                )
    return finding


def _find_forbidding_row(facts: Facts, held: HeldInterval, promotion: PromotedTransmission) -> tuple[str, str] | None:
    """Return the row that forbids a transmission of a shadow, and why in words; None where it is permitted.

    It is forbidden after a discard notification that the holder surely remembers. Otherwise it is permitted if the holder may have
    seen another database of the primary; or if enough intervals had failed (`_count_failures`), and it goes to another server. To
    the primary itself it may go then only if the holder was restarted, or the other hops are not known or were tried in vain. It
    is permitted too if it repeats a takeover that was tried in vain before.
    """
    copy, sent = held.copy, promotion.transmission
    holder, primary = copy.holder, copy.primary
    discard = next(
        (d for d in facts.discards_by_copy.get((primary, copy.shadow_id, holder), ()) if held.since_n < d.n < sent.n),
        None,
    )
    if discard is not None and not may_have_forgotten_event(facts, holder, discard.n, discard.t):
        return "SR-E10-07", f"though {primary} had reported its delivery at {format_seconds(discard.t)}"
    if first_sight_of_other_database(facts, held, sent.n) is not None or _was_wiped_unseen(facts, held, sent.n):
        return None
    alternatives = [alternative_hops(facts, holder, primary, recipient) for recipient in sent.recipients]
    failed, earlier, most = _count_failures(facts, held, facts.trace.sessions[sent.session].n)
    needed = facts.possible_parameter_range(holder, "ShadowHeartbeatRetryCount", held.since_n, sent.n).least
    if failed >= needed:
        returned = any(e.action == "ready" and held.since_n < e.n < sent.n for e in facts.node_events.get(holder, ()))
        if sent.server != primary or None in alternatives or returned:
            return None  # which servers have failed is nothing that a restart keeps
        others = {hop for each in alternatives for hop in each or ()}
        if _has_failed_attempt(facts, held, others, held.since_n, sent.t):
            return None  # no document says that it waits for another hop once its primary is back
        if not any(alternatives):
            return "SR-E10-11", "though there is no other way for it"
        return "SR-E10-10", "which had failed"
    hops = {hop for each in alternatives for hop in each or ()}
    if most >= needed and _has_failed_attempt(facts, held, hops, held.since_n, sent.t):
        return None  # taken over before, and tried in vain until its primary was back
    words = f"after {failed} failed intervals in a row, with its database unchanged"
    restarted = any(e.action == "ready" and held.since_n < e.n < sent.n for e in facts.node_events.get(primary, ()))
    if not any(alternative is None or alternative for alternative in alternatives):
        return ("SR-E10-23" if restarted else "SR-E10-11"), words
    return ("SR-E10-09" if failed + earlier >= needed else "SR-E10-08"), words


def first_sight_of_other_database(facts: Facts, held: HeldInterval, before_n: int) -> tuple[int, float] | None:
    """Return when the holder first saw another database of the primary than that of its shadow: number and time.

    The shadow's database is the last that was named before it was stored. None if none was named, or if no other was seen before
    event `before_n`.
    """
    changes = facts.compute_once(_database_changes_seen).get((held.copy.holder, held.copy.primary), [])
    known = bisect_left(changes, (held.since_n,))
    if known == 0 or known == len(changes):
        return None
    n, t, _ = changes[known]  # the first name that is not that of before
    return (n, t) if held.since_n < n < before_n else None


def _database_changes_seen(facts: Facts) -> Mapping[tuple[str, str], list[tuple[int, float, str]]]:
    """Return `Facts.database_names_seen` without the names that are equal to the name before."""
    return {
        pair: [*names[:1], *(seen for before, seen in pairwise(names) if before[2] != seen[2])]
        for pair, names in facts.database_names_seen.items()
    }


def _was_wiped_unseen(facts: Facts, held: HeldInterval, before_n: int) -> bool:
    """Return whether the primary lost its queue between the storing of `held` and event `before_n`, unseen.

    Unseen: no name of the primary's database was seen before `held` was stored. Then the change of database cannot be seen either,
    and the holder may have noticed it.
    """
    names = facts.database_names_seen.get((held.copy.holder, held.copy.primary), [])
    wiped = any(
        e.action == "wiped" and held.since_n < e.n < before_n for e in facts.node_events.get(held.copy.primary, ())
    )
    return wiped and not any(n < held.since_n for n, _, _ in names)


def _count_failures(facts: Facts, held: HeldInterval, before_n: int) -> tuple[int, int, int]:
    """Return how many intervals in a row count as failed at event `before_n`, and two numbers of the time before.

    The second value is how many had counted before sessions reset the count, all runs together; the third is the most in one run.
    Each attempt of the holder that did not reach the primary counts if it comes at least an interval after the last one that
    counted, or if it is the first of its run and the holder was started or resumed since the run began (ruling 28).
    """
    holder, primary = held.copy.holder, held.copy.primary
    interval = (
        facts.possible_parameter_range(holder, "ShadowHeartbeatTimeoutInterval", held.since_n, before_n).least
        - facts.slack
    )
    returns = [e.n for e in facts.node_events.get(holder, ()) if e.action in ("ready", "resumed")]
    count = earlier = most = 0
    last_n, last_t = held.since_n, held.copy.transaction.t
    is_first = True
    for contact in facts.contacts_by_client_and_server.get((holder, primary), ()):
        if not held.since_n < contact.end_n or contact.n >= before_n:
            continue
        if contact.outcome == "reached":
            most = max(most, count)
            earlier, count, last_n, last_t, is_first = earlier + count, 0, contact.n, contact.t, True
        elif contact.t - last_t >= interval or (is_first and any(last_n < n < contact.n for n in returns)):
            count, last_n, last_t, is_first = count + 1, contact.n, contact.t, False
    return count, earlier, most


@rule("SR-E10-20", "SR-E10-22", "SR-E10-08")
def takeover_comes_in_time(facts: Facts) -> Finding:
    """Check that a holder takes its shadows over within `_DECISION_TIME_S` of their primary's failure, where there is another way.

    The primary has failed at the first of `_certain_failures`. An attempt to pass the shadow on that may have failed counts as a
    takeover. Left out are holders that stop in that time or whose redundancy may be off, shadows that were no longer held at the
    failure, and those whose holder saw another database of the primary in time.
    """
    finding = Finding("shadows taken over once their primary has failed")
    for held in tracked_shadows(facts):
        holder, primary = held.copy.holder, held.copy.primary
        hops = [alternative_hops(facts, holder, primary, r) for r in held.copy.transaction.recipients]
        if not all(hops):
            continue
        seen = first_sight_of_other_database(facts, held, facts.end_n)
        for failed_n, failed_t in _certain_failures(facts, held):
            due = failed_t + _DECISION_TIME_S + facts.slack
            if facts.was_interrupted_until(holder, failed_n, due) or due >= facts.end_t:
                break
            if (held.until_t is not None and held.until_t < failed_t) or (seen is not None and seen[1] < due):
                break
            if facts.may_be_off(holder, held.since_n, facts.end_n):
                break
            finding.occasions += 1
            tried = _has_failed_attempt(facts, held, {hop for each in hops for hop in each or ()}, held.since_n, due)
            tried = tried or _was_report_sent_again(facts, held, due)
            if (held.until_t is None or held.until_t > due) and not tried:
                actions = {e.action for e in facts.node_events.get(primary, ()) if e.n > held.since_n}
                row = "SR-E10-20" if "wiped" in actions else "SR-E10-22" if "ready" in actions else "SR-E10-08"
                finding.add_violation(
                    f"{holder} had lost {primary} by {format_seconds(failed_t)}, and did not take over shadow "
                    f"{held.copy.shadow_id} of what it had sent there, though there is another way",
                    failed_n,
                    held.since_n,
                    message=held.copy.transaction.message,
                    row=row,
                )
            break
    return finding


def _was_report_sent_again(facts: Facts, held: HeldInterval, until_t: float) -> bool:
    """Return whether the holder sent a shadow again by time `until_t` that is of no message of the scenario, such as a report.

    It is known by the same body. False for the shadow of a message of the scenario.
    """
    copied = held.copy.transaction
    return copied.message is None and any(
        sent.n > held.since_n and sent.t <= until_t
        and sent.digest is not None and copied.digest is not None and sent.digest.body_sha256 == copied.digest.body_sha256
        for sent in facts.transactions_by_client.get(held.copy.holder, ())
    )  # fmt: skip


def _certain_failures(facts: Facts, held: HeldInterval) -> Iterator[tuple[int, float]]:
    """Yield number and time of the end of each attempt by which the primary has failed under every reading of the documents.

    Attempts of the holder count that failed, each at least an interval after the one before; ShadowHeartbeatRetryCount of them are
    a failure. A session of either of the two, an unclear attempt of the holder, and a stop or start of it, begin the count anew.
    """
    holder, primary = held.copy.holder, held.copy.primary
    own = facts.contacts_by_client_and_server.get((holder, primary), ())
    theirs = [c for c in facts.contacts_by_client_and_server.get((primary, holder), ()) if c.outcome != "failed"]
    stops = [e for e in facts.node_events.get(holder, ()) if e.action in (*STOPPING_ACTIONS, "ready", "resumed")]
    until_n = held.until_n or facts.end_n
    interval = facts.possible_parameter_range(holder, "ShadowHeartbeatTimeoutInterval", held.since_n, until_n).greatest
    needed = facts.possible_parameter_range(holder, "ShadowHeartbeatRetryCount", held.since_n, until_n).greatest
    count, last_t = 0, held.since_t
    resets: list[Contact | NodeEvent] = [*theirs, *stops]
    for event in sorted([*own, *resets], key=lambda one: one.n):
        if event.n < held.since_n:
            continue
        if not isinstance(event, Contact) or event.outcome != "failed" or event in theirs:
            count, last_t = 0, event.end_t if isinstance(event, Contact) else event.t
        elif event.t - last_t >= interval - facts.slack:
            count, last_t = count + 1, event.end_t
            if count >= needed:
                yield event.end_n, event.end_t


def _has_failed_attempt(facts: Facts, held: HeldInterval, hops: set[str], after_n: int, until_t: float) -> bool:
    """Return whether the holder tried to pass its shadow to one of `hops` after event `after_n` and by `until_t`, in vain.

    Such an attempt is a connection that failed or on whose dial a fault acted, a session without mail, or a transaction that was
    not accepted and is of the shadow's message or of an unknown one. Then nothing else shows that the holder took the shadow over.
    """
    holder = held.copy.holder
    dials: list[ConnectFailed | FaultFired] = [*facts.trace.events_of(ConnectFailed)]
    dials += [fault for fault in facts.trace.events_of(FaultFired) if fault.session is None]
    refused = any(e.client == holder and e.server in hops and e.n > after_n and e.t <= until_t for e in dials)
    messages = (None, held.copy.transaction.message)
    return refused or any(
        session.n > after_n
        and session.t <= until_t
        and (
            not session.transactions
            or any(sent.acceptance is None and sent.message in messages for sent in session.transactions)
        )
        for hop in hops
        for session in facts.sessions_by_client_and_server.get((holder, hop), ())
    )


@rule("SR-E10-21")
def new_database_is_noticed_in_2010(facts: Facts) -> Finding:
    """Check that a holder transmits its shadows within `_AT_ONCE_S` when it sees that their primary has another database.

    An attempt that may have failed counts, to the primary too. Left out are holders that stop in that time, or whose redundancy
    may be off.
    """
    finding = Finding("shadows transmitted again as soon as a new database of their primary is seen")
    for held in tracked_shadows(facts):
        seen = first_sight_of_other_database(facts, held, held.until_n or facts.end_n)
        if seen is None:
            continue
        n, t = seen
        due = t + _AT_ONCE_S + facts.slack
        holder, primary = held.copy.holder, held.copy.primary
        if due >= facts.end_t or facts.was_interrupted_until(holder, n - 1, due):
            continue
        if facts.may_be_off(holder, held.since_n, facts.end_n):
            continue
        finding.occasions += 1
        hops = {
            hop for r in held.copy.transaction.recipients for hop in alternative_hops(facts, holder, primary, r) or ()
        }
        if (held.until_t is None or held.until_t > due) and not _has_failed_attempt(
            facts, held, hops | {primary}, n, due
        ):
            finding.add_violation(
                f"{holder} saw another database of {primary} at {format_seconds(t)}, and did not transmit what it kept as "
                f"shadow {held.copy.shadow_id} again",
                n,
                held.since_n,
                message=held.copy.transaction.message,
            )
    return finding
