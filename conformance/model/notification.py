"""Judges discard notifications: who is notified of what, when, and how often.

It judges SR-MNT-01, SR-MNT-04, SR-MNT-05, SR-MNT-07, SR-MNT-08, SR-MNT-12, SR-CRE-08, SR-WIR-04 and SR-WIR-05. A *primary*
notifies the *holder* of a shadow copy that it may discard the copy, in a *discard list*: its reply to the holder's query. The
list may say how many notifications are left for a further query. A notification is *due* in a reply where the primary surely had
it queued for the asking holder, and *delivered* once the asking server sent a further command in that session
(`due_notifications`). One in a reply without a further command may have been read or not: it may be repeated (SR-WIR-05). Whether
a primary that stopped had recorded that a notification was delivered is not seen either, so a restart permits a repetition. That
a notification does not come too early is judged in `discards`. `n` is an event's number, times are documented seconds.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). Functions that take a `finding` add to it. A violation blames
its `row`, else the rule's first requirement.

Records: a `Query` is a holder's question for discard status, with command and reply in its `exchange`; a `Discard` is one discard
notification in such a reply; a `ShadowCopy` is a stored copy: its transaction, and the reply that shows that it is stored. A
`Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `replies` the final replies, and `message` the
scenario's name of the message or None. Its `kind` is `shadow` (a copy that the server is to hold, 2013 and later), `tracked`
(2010: mail of which the client keeps the shadow) or `plain`. A session is *altered* where a fault changed, added or removed
octets in it. `facts.slack` is by how many seconds a time may miss a bound.
"""

from collections.abc import Iterator

from conformance.model.due_notifications import (
    DueNotification,
    answered_queries,
    delivered_notifications,
    due_notifications,
    following_command,
    is_message_id_shared,
    queries_by_primary_and_asker,
    reply_and_discard_list,
    report_transactions,
    shadow_ids_by_primary_and_holder,
)
from conformance.model.facts import Facts
from conformance.model.rules import rule
from conformance.trace.finding import Finding, format_seconds, format_time
from conformance.trace.shadows import Discard, Query, ShadowCopy

_CLEAN_UP_S = 600.0
"""Documented seconds within which an expired notification is deleted: the documents name no interval for the clean-up."""


@rule("SR-MNT-04", timed=False)
def only_the_askers_notifications(facts: Facts) -> Finding:
    """Check that each notification belongs to the asking server: its shadow id passed between the two in a MAIL before."""
    finding = Finding("an asking server gets its own notifications and no others")
    known_ids = facts.compute_once(shadow_ids_by_primary_and_holder)
    for (primary, holder), queries in facts.compute_once(answered_queries).items():
        for query in queries:
            reply, answer = reply_and_discard_list(query)
            finding.occasions += 1
            for shadow_id in answer.shadow_ids:
                if known_ids[primary, holder].get(shadow_id, reply.n) < reply.n:
                    continue
                owners = [other for (one, other), ids in known_ids.items() if one == primary and shadow_id in ids]
                whose = f"a copy that {owners[0]} was sent" if owners else "a copy that it was never sent"
                finding.add_violation(
                    f"{primary} notified {holder} of {shadow_id} {format_time(reply)}, {whose}", reply.n
                )
    return finding


def _query_n(facts: Facts, discard: Discard) -> int:
    """Return the number of the query whose reply has a notification, or the reply's own number where the query is not found.

    A caller looks for stops of the primary from then on: one that stops after the query may not know that its reply was read.
    """
    exchanges = facts.trace.sessions[discard.session].exchanges
    return next((x.command.n for x in exchanges if x.reply is not None and x.reply.n == discard.n), discard.n)


@rule("SR-WIR-04", timed=False)
def list_is_right(facts: Facts) -> Finding:
    """Check that each discard list has no more ids than asked for, names each copy once, and says the right number of those left.

    A delivered notification must not be repeated, unless the primary stopped in between. The number left must be possible: no
    more than there are copies, and, where the list is as long as was asked, no fewer than surely are left. A holder that reads
    that some are left asks again in that session.
    """
    finding = Finding("a discard list has at most the asked number, each copy once, and the right number of those left")
    known_ids = facts.compute_once(shadow_ids_by_primary_and_holder)
    delivered = facts.compute_once(delivered_notifications)
    due = {query.n: notifications for query, notifications in facts.compute_once(due_notifications)}
    for (primary, holder), queries in facts.compute_once(answered_queries).items():
        for query in queries:
            reply, answer = reply_and_discard_list(query)
            ids, left = answer.shadow_ids, answer.left
            asked = query.exchange.command.operation.limit if query.exchange.command.operation else None
            finding.occasions += 1
            about = f"{primary} answered {holder} {format_time(reply)}"
            if asked is not None and len(ids) > asked:
                finding.add_violation(f"{about} with {len(ids)} notifications; {asked} were asked for", reply.n)
            repeated = [one for one in dict.fromkeys(ids) if ids.count(one) > 1]
            if repeated:
                finding.add_violation(f"{about} with {repeated[0]} {ids.count(repeated[0])} times", reply.n)
            old = {
                one
                for one in known_ids[primary, holder]
                if any(n <= query.n for n, _ in delivered.get((primary, holder, one), ()))
            }
            for one in ids:
                # discards of this copy that the holder has surely read: its next command was event n
                again = [d for n, d in delivered.get((primary, holder, one), ()) if n <= query.n]
                if again and not facts.was_interrupted_between(primary, _query_n(facts, again[-1]), reply.n):
                    finding.add_violation(
                        f"{about} with {one}, of which it had notified it already at {format_seconds(again[-1].t)}",
                        reply.n,
                        again[-1].n,
                    )
            if left is None:
                continue
            possible = sum(n < reply.n for one, n in known_ids[primary, holder].items() if one not in ids)
            if left > possible:
                finding.add_violation(f"{about} that {left} are left, and there are {possible} copies at most", reply.n)
            missing = [
                one
                for one in due.get(query.n, ())
                if one.copy.shadow_id not in (*ids, *old) and not _is_in_another_reply(facts, query, one)
            ]
            if len(missing) > left and asked is not None and len(ids) >= asked:
                finding.add_violation(
                    f"{about} that {left} are left, and {len(missing)} are, such as {missing[0].copy.shadow_id}",
                    reply.n,
                    missing[0].n,
                )
            if left and facts.is_opened_by_tested_server(holder, query.session):
                _check_asked_again(facts, finding, query)
    return finding


def _check_asked_again(facts: Facts, finding: Finding, query: Query) -> None:
    """Add a violation where the asking server ended the session with QUIT and without another query after `query`.

    The reply to `query` said that notifications were left.
    """
    later = [x.command for x in facts.trace.sessions[query.session].exchanges if x.command.n > query.n]
    if (
        later
        and not any(c.operation and c.operation.name == "query-discard" for c in later)
        and later[-1].verb == "QUIT"
    ):
        finding.add_violation(
            f"{query.client} ended session {query.session} with {query.server} though notifications were left",
            later[-1].n,
            query.n,
        )


@rule("SR-MNT-01", "SR-MNT-05", "SR-CRE-08", "SR-MNT-07", "SR-MNT-08", "SR-WIR-05")
def notified_when_done(facts: Facts) -> Finding:
    """Check that each reply to a query has every notification that is due, or says that some are left for the next query.

    A copy whose notification was given in an earlier reply, or may be in another one, is left out. A missing notification is a
    violation once.
    """
    finding = Finding("a primary offers its discard notification when every next hop has the message")
    missed: set[tuple[str, str]] = set()
    for query, notifications in facts.compute_once(due_notifications):
        reply, answer = reply_and_discard_list(query)
        listed, left = answer.shadow_ids, answer.left or 0
        for due in notifications:
            copy = due.copy
            if (copy.primary, copy.shadow_id) in missed or _is_in_another_reply(facts, query, due):
                continue  # a notification that got lost is judged by its own rule
            finding.occasions += 1
            if copy.shadow_id not in listed and not left:
                missed.add((copy.primary, copy.shadow_id))
                finding.add_message_violation(
                    facts.trace.messages[copy.transaction.message or ""],
                    f"{copy.primary} was done with it at {format_seconds(due.t)} (event {due.n}), and did not notify "
                    f"{copy.holder}, which asked {format_time(reply)}",
                    reply.n,
                    due.n,
                    row=_blamed_row(facts, query, due),
                )
    return finding


def _is_in_another_reply(facts: Facts, query: Query, due: DueNotification) -> bool:
    """Return whether the notification `due` need not be in the reply to `query`, since another reply has it or may have it.

    An earlier reply has it; a fault replaced an earlier reply that may have had it; or another query of the same server, in a
    session that was open at `query`, is unanswered when `query` is answered.
    """
    copy = due.copy
    reply, _ = reply_and_discard_list(query)
    notified = facts.discards_by_copy.get((copy.primary, copy.shadow_id, copy.holder), ())
    if any(discard.n < reply.n for discard in notified):
        return True
    for other in facts.compute_once(queries_by_primary_and_asker)[query.server, query.client]:
        if other.n > reply.n:
            return False
        if due.n < other.n < query.n and _is_answered_by_a_fault(facts, other):
            return True
        if other is not query and (other.exchange.reply is None or other.exchange.reply.n > reply.n):
            closed = facts.trace.sessions[other.session].closed
            if closed is None or closed.n > query.n:
                return True
    return False


def _is_answered_by_a_fault(facts: Facts, query: Query) -> bool:
    """Return whether a fault may have replaced a discard list that the primary took for read.

    In an altered session the reply to `query` has no list, and a further command followed, by which the primary knows that its list
    was read.
    """
    reply = query.exchange.reply
    if reply is None or reply.operation is not None or query.session not in facts.trace.altered_sessions:
        return False
    return any(exchange.command.n > reply.n for exchange in facts.trace.sessions[query.session].exchanges)


def _blamed_row(facts: Facts, query: Query, due: DueNotification) -> str | None:
    """Return the requirement to blame for a missing notification, None for the first of the rule.

    SR-WIR-05 where a query since it was due got no reply, and the notification may have been lost with it; SR-MNT-05 where the
    primary was started anew since it was due.
    """
    earlier = (
        one
        for one in facts.compute_once(queries_by_primary_and_asker).get((query.server, query.client), ())
        if one.n < query.n
    )
    if any(one.n > due.n and one.exchange.reply is None for one in earlier):
        return "SR-WIR-05"
    return "SR-MNT-05" if due.is_restarted else None


@rule("SR-WIR-05")
def lost_notification_repeated(facts: Facts) -> Finding:
    """Check that a notification in a reply after which the session was lost is repeated in the reply to the next query.

    Only a notification is judged that was given once before. A reply that says that some are left for later is right too.
    """
    finding = Finding("a notification that was never acted on is repeated")
    for query, notifications in facts.compute_once(due_notifications):
        reply, answer = reply_and_discard_list(query)
        for due in notifications:
            copy = due.copy
            earlier = [
                discard
                for discard in facts.discards_by_copy.get((copy.primary, copy.shadow_id, copy.holder), ())
                if discard.n < query.n
            ]
            if not earlier or not _is_notification_lost(facts, earlier[-1], query) or len(earlier) > 1:
                continue
            finding.occasions += 1
            if copy.shadow_id not in answer.shadow_ids and not answer.left:
                finding.add_violation(
                    f"{copy.primary} did not repeat to {copy.holder} {format_time(reply)} the notification of "
                    f"{copy.shadow_id} that got lost at {format_seconds(earlier[-1].t)} (event {earlier[-1].n})",
                    reply.n,
                    earlier[-1].n,
                )
    return finding


def _is_notification_lost(facts: Facts, discard: Discard, query: Query) -> bool:
    """Return whether a notification's session had ended before `query`, with no command after it; False for an altered session."""
    closed = facts.trace.sessions[discard.session].closed
    if closed is None or closed.n > query.n or discard.session in facts.trace.altered_sessions:
        return False
    return following_command(facts, discard) is None


@rule("SR-MNT-12")
def unasked_notifications_deleted(facts: Facts) -> Finding:
    """Check that a primary deleted a notification that was queued, and not asked for, for ShadowMessageAutoDiscardInterval.

    It must be gone when its age, and the time since the holder asked last (or since the cell began), are both longer than that and
    `_CLEAN_UP_S` together; a primary that was started since then has `_CLEAN_UP_S` after its start too. A notification that was
    deleted too early is judged by `notified_when_done`.
    """
    finding = Finding("a notification that no server asks for is deleted after ShadowMessageAutoDiscardInterval")
    last_asked: dict[tuple[str, str], float] = {}
    answered = {query.n for queries in facts.compute_once(answered_queries).values() for query in queries}
    for query in facts.trace.queries:
        pair = query.server, query.client
        before, last_asked[pair] = last_asked.get(pair, 0.0), query.t
        if query.n not in answered:
            continue
        interval = max(
            facts.parameter_numbers_between(query.server, "ShadowMessageAutoDiscardInterval", -1, query.n),
            default=query.t,
        )
        if query.t - before <= interval + _CLEAN_UP_S + facts.slack:
            continue
        span = next((s for s in facts.working_spans[query.server] if s.since_n < query.n < s.until_n), None)
        if span is None or (span.since_t > before and query.t - span.since_t <= _CLEAN_UP_S):
            continue  # it had no time to clean up since it was started
        reply, answer = reply_and_discard_list(query)
        for copy, queued_n, queued_t in _copies_passed_on(facts, query):
            if query.t - queued_t > interval + _CLEAN_UP_S + facts.slack:
                finding.occasions += 1
                if copy.shadow_id in answer.shadow_ids:
                    finding.add_violation(
                        f"{query.server} notified {query.client} of {copy.shadow_id} {format_time(reply)}, "
                        f"{format_seconds(query.t - queued_t)} after it was done with the message",
                        reply.n,
                        queued_n,
                    )
    return finding


def _copies_passed_on(facts: Facts, query: Query) -> Iterator[tuple[ShadowCopy, int, float]]:
    """Yield the asking holder's copies with whose message the primary was done before a query.

    It was done where, between the stored copy and the query, next hops accepted the message, or a report about the failure, for
    each recipient. Any other copy is left out: a message without a sender may be given up hours after its last attempt, and
    nothing shows it. Reports do not count where another message has the same Message-ID. Each copy comes with the number of the
    last final reply, positive or not, to the message or its reports in this time (those to reports come behind the others), and
    with the latest time of any.
    """
    for copy in facts.trace.copies:
        if (copy.primary, copy.holder) == (query.server, query.client) and copy.transaction.message is not None:
            name, normalize_all = copy.transaction.message, facts.context.normalize_addresses
            reports = facts.compute_once(report_transactions).get(facts.trace.messages[name].message_id or "", ())
            sent = [
                t for t in (*facts.trace.transactions_of(name), *(() if is_message_id_shared(facts, name) else reports))
                if t.client == copy.primary and t.kind != "shadow"
            ]  # fmt: skip
            replies = [reply for t in sent for reply in t.replies if copy.stored_reply.n < reply.n < query.n]
            done: set[str] = set()
            for t in sent:
                if t.acceptance is not None and copy.stored_reply.n < t.acceptance.n < query.n:
                    done |= normalize_all((*t.accepted_recipients, *(t.digest.failed if t.digest else ())))
            if replies and normalize_all(copy.transaction.recipients) <= done:
                yield copy, replies[-1].n, max(reply.t for reply in replies)
