"""Judges when 2010 servers report a message as delivered, and what they do with the report (SR-E10-04, SR-E10-07, SR-E10-13).

In 2010 the sender of a message, the *holder*, keeps its shadow, and the next hop is its *primary*. The primary has *passed on* the
message that the holder handed to it when its own next hop has acknowledged the message for every recipient; what happens further
down the chain does not matter. It then names the message in the answer to the holder's next query, once: this is a *discard
notification* (a `Discard`). That it does so no sooner is judged by `discards`. `n` is an event's number, times are documented
seconds. Rulings are those of docs/rulings.md.

Each rule judges one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model`
describes (`timed=False`: it compares no times). `facts.slack` is by how much a time may miss a bound, `facts.end_n` the end of the
history. A `HeldInterval` (`held`) is a stored shadow, its `copy`, and the event and time until which it is surely held (`until_n`,
`until_t`; None: to the end). A `Processing` is what one server was handed of one message, and what it has passed on. A session is
*altered* where a fault changed, added or removed octets in it, *held* where a fault kept octets back.
"""

from bisect import bisect_left
from collections import defaultdict
from itertools import pairwise

from conformance.model.exchange_2010 import tracked_shadows
from conformance.model.facts import Facts, HeldInterval
from conformance.model.processing import COMMIT_TIME_S, may_have_forgotten_event, processing_of, was_queue_wiped
from conformance.model.rules import rule
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.shadows import Discard, Query


@rule("SR-E10-04", "SR-E10-13")
def delivery_is_reported_in_2010(facts: Facts) -> Finding:
    """Check that a primary that has passed a message on names its shadow in the answer to the holder's next query.

    Of queries in several sessions that cross, any answer may have it. A query within `COMMIT_TIME_S` of the passing on is
    skipped, and so is one whose answer leaves something out for want of room: the next one is judged. There is no occasion
    where the judged query came so late that the notification has expired, after the holder took the shadow over or the
    primary's queue was wiped, or after another query in a session that a fault altered: the primary may have given an answer
    other than the one that was recorded.
    """
    finding = Finding("the discard notification in the answer to the first query after delivery")
    queries: dict[tuple[str, str], list[Query]] = defaultdict(list)
    altered: dict[tuple[str, str], list[int]] = defaultdict(list)
    for query in facts.trace.queries:
        if query.session in facts.trace.altered_sessions:
            altered[query.client, query.server].append(query.n)
        elif query.is_answered:
            queries[query.client, query.server].append(query)
    for held in tracked_shadows(facts):
        passed_on = _find_last_passing_on(facts, held)
        if passed_on is None:
            continue
        done_n, done_t, next_hop = passed_on
        primary, holder, shadow_id = held.copy.primary, held.copy.holder, held.copy.shadow_id
        lifetime = facts.possible_parameter_range(
            primary, "ShadowMessageAutoDiscardInterval", done_n, facts.end_n
        ).least
        asked = queries.get((holder, primary), [])
        for query in asked[bisect_left(asked, done_n, key=lambda one: one.n) :]:
            reply = query.exchange.reply
            assert reply is not None
            assert reply.operation is not None
            if query.t - done_t < COMMIT_TIME_S or reply.operation.left:
                continue
            end_n = max(one.exchange.reply.n for one in asked if one.n < reply.n and one.exchange.reply is not None)
            notified = [d for d in facts.discards_by_copy.get((primary, shadow_id, holder), ()) if d.n <= end_n]
            is_taken_over = held.until_n is not None and held.until_n < query.n and not notified
            if (
                is_taken_over
                or query.t - done_t > lifetime - facts.slack
                or was_queue_wiped(facts, primary, done_n, query.n)
                or any(done_n < n < query.n for n in altered.get((holder, primary), ()))
            ):
                break
            finding.occasions += 1
            if not notified:
                finding.add_violation(
                    f"{next_hop} took it from {primary} at {format_seconds(done_t)}, and the answer to {holder}'s query at "
                    f"{format_seconds(query.t)} does not name its shadow {shadow_id}",
                    reply.n,
                    done_n,
                    message=held.copy.transaction.message,
                    row="SR-E10-13" if facts.is_tested_server(next_hop) else "SR-E10-04",
                )
            break
    return finding


def _find_last_passing_on(facts: Facts, held: HeldInterval) -> tuple[int, float, str] | None:
    """Return number, time and next hop of the last reply with which the primary passed a message on; None where it is not done.

    The primary is done when every recipient was accepted as often as it was handed the message. Where that was before the shadow
    was stored, number and time are those of the stored reply. None too for a content that is of no message of the scenario.
    """
    copy = held.copy
    if copy.transaction.message is None:
        return None
    processing = processing_of(facts, copy.primary, copy.transaction.message)
    last = processing.last_reply_if_processed(facts, facts.end_n)
    if last is None or copy.transaction not in processing.handed:
        return None
    return last if last[0] > held.since_n else (held.since_n, held.since_t, last[2])


@rule("SR-E10-07", timed=False)
def discard_status_is_forgotten_in_2010(facts: Facts) -> Finding:
    """Check that a 2010 primary reports each shadow id to its holder no more than once.

    It may report again where the session was lost before the holder got a positive reply to a later command, where a fault altered
    it, or where the primary stopped within `COMMIT_TIME_S` of the first report, so that it may have forgotten it. Reports in held
    sessions are left out. Each shadow id that was reported is an occasion.
    """
    finding = Finding("each discard notification once")
    for (primary, shadow_id, holder), discards in facts.discards_by_copy.items():
        if not facts.is_tested_server(primary) or not facts.is_2010(primary):
            continue
        finding.occasions += 1
        # what a fault held back was written earlier than it is recorded
        prompt = [discard for discard in discards if discard.session not in facts.trace.held_sessions]
        for first, second in pairwise(prompt):
            if _was_notification_read(facts, first) and not may_have_forgotten_event(facts, primary, first.n, first.t):
                finding.add_violation(
                    f"{primary} named {shadow_id} to {holder} at {format_seconds(first.t)}, and again at "
                    f"{format_seconds(second.t)}",
                    second.n,
                    first.n,
                )
                break
    return finding


def _was_notification_read(facts: Facts, discard: Discard) -> bool:
    """Return whether the primary could see that a notification was received: it answered a later command positively.

    False in a session that a fault altered.
    """
    session = facts.trace.sessions[discard.session]
    if discard.session in facts.trace.altered_sessions:
        return False
    return any(
        exchange.command.n > discard.n and exchange.reply is not None and exchange.reply.code // 100 == 2
        for exchange in session.exchanges
    )
