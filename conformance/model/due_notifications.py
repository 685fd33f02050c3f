"""Which discard notifications are surely queued when a holder asks for them; `notification` judges by this.

Theory of operation
-------------------
A *primary* queues a notification for the *holder* of a shadow copy when it is done with the message for every recipient of
the copy, and lists it in its reply to a query of that holder. It is *done* with a recipient when a next hop has accepted the
message for him, or a report about his failure, and with the message when its journal report is accepted too. A notification is
*due* in a reply where these are certain:

- The primary read the holder's positive reply, and had not answered the sender before (else ruling 18).
- It is done with all recipients: its next line in each session shows that it read the reply. Where it had several copies
  of a message stored, each recipient was accepted as often.
- It had `PROMPT_S` to queue the notification, after a restart two retry intervals more: it may have to send the message
  again before it knows that it is done.
- The notification is younger than ShadowMessageAutoDiscardInterval, and the primary's queue was not wiped.

A notification is *delivered* when the asking server sends any further command in that session (docs/wire-profile.md).

`n` is an event's number, times are documented seconds. Rulings are those of docs/rulings.md.

Records: a `Query` is a holder's question for discard status, with the reply in its `exchange`; a `Discard` is one discard
notification in such a reply; a `ShadowCopy` is a stored copy: its transaction, and the reply that shows that it is stored; a
`Configured` event is a configuration offered to a server, with the error text in `refused` or None.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from conformance.history.events import Command, Reply
from conformance.history.values import Operation
from conformance.model.facts import Facts
from conformance.trace.sessions import Session, Transaction
from conformance.trace.shadows import Discard, Query, ShadowCopy

_GOODBYE = 421
"""The reply with which a server ends a session; it may answer no command."""

PROMPT_S = 5.0
"""Documented seconds within which a primary queues a notification after the last next hop has accepted the message."""


@dataclass(frozen=True, slots=True)
class DueNotification:
    """A notification that is queued for a copy since event `n` at `t`.

    `is_restarted`: the primary was started anew since then.
    """

    copy: ShadowCopy
    n: int
    t: float
    is_restarted: bool = False


def delivered_notifications(facts: Facts) -> Mapping[tuple[str, str, str], list[tuple[int, Discard]]]:
    """Return the delivered notifications of each copy: (primary, holder, shadow id) -> pairs (number, notification), in order.

    The number is that of the asking server's next command in the session, which shows that it read the notification. Left out are
    sessions that a fault altered or held, and notifications after which the primary may have got no command
    (`_has_got_later_command`).
    """
    found: dict[tuple[str, str, str], list[tuple[int, Discard]]] = defaultdict(list)
    for discard in facts.trace.discards:
        following = following_command(facts, discard)
        if (
            following is not None
            and not facts.is_altered_or_held(discard.session)
            and _has_got_later_command(facts, discard)
        ):
            found[discard.primary, discard.holder, discard.shadow_id].append((following, discard))
    return found


def following_command(facts: Facts, discard: Discard) -> int | None:
    """Return the number of the next command in the session of a notification, None where none followed."""
    exchanges = facts.trace.sessions[discard.session].exchanges
    if not exchanges or exchanges[-1].command.n < discard.n:
        return None
    return next(x.command.n for x in exchanges if x.command.n > discard.n)


def _has_got_later_command(facts: Facts, discard: Discard) -> bool:
    """Return whether the primary surely got a command after a notification.

    In a session that a fault delayed, only a command that it answered with another reply than 421 counts: the primary may have
    left before the link passed the command on.
    """
    later = [x for x in facts.trace.sessions[discard.session].exchanges if x.command.n > discard.n]
    if discard.session not in facts.trace.delayed_sessions:
        return bool(later)
    return any(x.reply is not None and x.reply.code != _GOODBYE for x in later)


def queries_by_primary_and_asker(facts: Facts) -> Mapping[tuple[str, str], list[Query]]:
    """Return the queries to servers under test, answered or not: (primary, asking server) -> queries in order.

    A query whose client names itself otherwise than the link does is left out: whose notifications it gets is not documented.
    """
    found: dict[tuple[str, str], list[Query]] = defaultdict(list)
    for query in facts.trace.queries:
        operation = query.exchange.command.operation
        named = operation.server if operation else None
        if facts.is_tested_server(query.server) and (named or "").casefold() in ("", query.client.casefold()):
            found[query.server, query.client].append(query)
    return found


def answered_queries(facts: Facts) -> Mapping[tuple[str, str], list[Query]]:
    """Return the queries that a server under test answered with a list: (primary, asking server) -> queries in order.

    Those in sessions that a fault altered are left out.
    """
    return {
        pair: [query for query in queries if query.is_answered and query.session not in facts.trace.altered_sessions]
        for pair, queries in facts.compute_once(queries_by_primary_and_asker).items()
    }


def reply_and_discard_list(query: Query) -> tuple[Reply, Operation]:
    """Return the reply to an answered query, and the discard list in it.

    The caller must have seen that the query was answered with a list (`Query.is_answered`). AssertionError where there is no
    reply, or none with an operation.
    """
    reply = query.exchange.reply
    assert reply is not None
    assert reply.operation is not None
    return reply, reply.operation


def shadow_ids_by_primary_and_holder(facts: Facts) -> dict[tuple[str, str], dict[str, int]]:
    """Return the shadow ids that each primary gave out: (primary, holder) -> shadow id -> number of the first MAIL with it.

    The id of a tracked message (2010) is entered under both directions: a sender that takes a message over notifies the failed
    primary.
    """
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for sent in facts.trace.transactions:
        if sent.shadow_id is not None and sent.kind != "plain":
            primary, holder = (sent.client, sent.server) if sent.kind == "shadow" else (sent.server, sent.client)
            found[primary, holder].setdefault(sent.shadow_id, sent.n)
            if sent.kind == "tracked":  # a 2010 sender that takes a message over notifies the failed primary
                found[holder, primary].setdefault(sent.shadow_id, sent.n)
    return found


def due_notifications(facts: Facts) -> list[tuple[Query, list[DueNotification]]]:
    """Return the answered queries in whose replies notifications are due, each with the notifications that are due.

    A notification that was delivered before is not due. Queries come by pair of primary and holder, in order for each pair. A
    query whose reply need not have any is left out, and so are copies of 2010 and those that are of no message of the scenario.
    """
    due: dict[tuple[str, str], list[DueNotification]] = defaultdict(list)
    for copy in facts.trace.copies:
        if (
            copy.transaction.kind == "shadow"
            and copy.transaction.message is not None
            and facts.is_tested_server(copy.primary)
        ):
            done = _find_due_notification(facts, copy)
            if done is not None:
                due[copy.primary, copy.holder].append(done)
    queries, delivered = facts.compute_once(answered_queries), facts.compute_once(delivered_notifications)
    found = []
    for pair, notifications in due.items():
        waiting = sorted(notifications, key=lambda one: one.n, reverse=True)  # the oldest is popped first
        active: list[DueNotification] = []
        for query in queries.get(pair, ()):
            while waiting and waiting[-1].n < query.n and waiting[-1].t + PROMPT_S <= query.t:
                active.append(waiting.pop())
            active = [one for one in active if not _is_no_longer_due(facts, one, query, delivered)]
            present = [one for one in (_due_if_certain(facts, one, query) for one in active) if one is not None]
            if present:
                found.append((query, present))
    return found


def _is_no_longer_due(
    facts: Facts,
    due: DueNotification,
    query: Query,
    delivered: Mapping[tuple[str, str, str], list[tuple[int, Discard]]],
) -> bool:
    """Return whether a notification need not be in the reply to a query any more.

    That is so if it was delivered, if it is as old as the least ShadowMessageAutoDiscardInterval in force since, or if the
    primary's queue was wiped after the copy was sent. `delivered` is what `delivered_notifications` returns.
    """
    copy = due.copy
    if any(n <= query.n for n, _ in delivered.get((copy.primary, copy.holder, copy.shadow_id), ())):
        return True
    intervals = facts.parameter_numbers_between(copy.primary, "ShadowMessageAutoDiscardInterval", due.n, query.n)
    if query.t - due.t >= min(intervals, default=0.0) - facts.slack:
        return True
    return any(
        event.action == "wiped" and copy.transaction.n < event.n < query.n
        for event in facts.node_events.get(copy.primary, ())
    )


def _due_if_certain(facts: Facts, due: DueNotification, query: Query) -> DueNotification | None:
    """Return the notification, marked if the primary was restarted, if it is still certain at a query; None if it is not.

    Without an event of the primary's node since it was queued, or with reloads alone, it is returned unchanged. After another
    event it is certain only once there was time to queue it anew, and every transmission made again since was accepted in time:
    what a primary transmits again it did not know to be done. It is not certain where a fault was in force on the primary's disk
    since it sent the copy: notifications are kept on disk (SR-MNT-05).
    """
    server = due.copy.primary
    if facts.had_disk_trouble(server, due.copy.transaction.n, query.n):
        return None
    events = [event for event in facts.node_events.get(server, ()) if due.n < event.n < query.n]
    if all(event.action == "reloaded" for event in events):
        return due
    is_restarted = any(event.action in ("ready", "started") for event in events)
    retry = max(facts.parameter_numbers_between(server, "MessageRetryInterval", due.n, query.n), default=0.0)
    if query.t < events[-1].t + PROMPT_S + (2 * retry if is_restarted else 0.0):
        return None
    again = [
        t for t in facts.trace.transactions_of(due.copy.transaction.message or "")
        if t.client == server and t.kind != "shadow" and due.n < t.n < query.n
    ]  # fmt: skip
    if any(t.acceptance is None or t.acceptance.t + PROMPT_S > query.t for t in again):
        return None
    return DueNotification(copy=due.copy, n=due.n, t=due.t, is_restarted=is_restarted)


def _find_due_notification(facts: Facts, copy: ShadowCopy) -> DueNotification | None:
    """Return the notification for a copy if the primary is surely done with the message at some time, None if not.

    The primary is done with a recipient when, since it began to send the first copy, next hops have accepted the message for the
    recipient as often as there are stored copies of it; the notification is due from the last of these replies. It is None too
    where the primary may not know of the copy, where redundancy may be off, and where a journal report is due and not surely
    accepted, or may be about another message with the same Message-ID.
    """
    name, primary = copy.transaction.message or "", copy.primary
    copies = [one for one in facts.trace.copies_of(name) if one.primary == primary and one.transaction.kind == "shadow"]
    known = [one for one in copies if _is_stored_reply_known(facts, one)]
    if copy not in known or facts.may_be_off(primary, -1, facts.end_n):
        return None
    accepted: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for recipient, n, t in _done_recipients(facts, name, primary):
        if n > known[0].transaction.n:
            accepted[recipient].append((n, t))
    ends = []
    for recipient in facts.context.normalize_addresses(copy.transaction.recipients):
        times = sorted(accepted[recipient])
        if len(times) < len(copies):  # also of those of which it is not known whether the primary keeps them
            return None
        ends.append(times[len(copies) - 1])
    if facts.topology.journal is not None:
        reports = [end for end in _replies_to_journal_reports(facts, name) if end is not None]
        if not reports or is_message_id_shared(facts, name):
            return None
        ends.append(min(reports))
    return DueNotification(copy, *max(ends)) if ends else None


def _is_stored_reply_known(facts: Facts, copy: ShadowCopy) -> bool:
    """Return whether the primary surely read that a copy is stored, and not after it had answered its sender positively.

    A message that it was given in no transaction has no sender to answer: then it is enough that it read the reply. False for a
    session that the harness opened.
    """
    session = facts.trace.sessions[copy.transaction.session]
    if not facts.is_opened_by_tested_server(copy.primary, session.name) or not was_reply_read_by_client(
        facts, session, copy.stored_reply.n
    ):
        return False
    given = [
        t for t in facts.trace.transactions_of(copy.transaction.message or "")
        if t.server == copy.primary and t.kind != "shadow" and t.n < copy.transaction.n
    ]  # fmt: skip
    return not given or any(t.acceptance is not None and t.acceptance.n > copy.stored_reply.n for t in given)


def was_reply_read_by_client(facts: Facts, session: Session, n: int) -> bool:
    """Return whether the client surely read the reply of event `n`.

    It did if it sent a later command in the session, did not stop in between, and no fault altered or held the session.
    """
    last = session.exchanges[-1].command.n if session.exchanges else -1
    return (
        last > n
        and not facts.is_altered_or_held(session.name)
        and not facts.was_interrupted_between(session.client, n, last)
    )


def _done_recipients(facts: Facts, name: str, primary: str) -> Iterator[tuple[str, int, float]]:
    """Yield each recipient with whom the primary surely is done, normalized, with number and time as of `_last_reply_if_read`.

    The reply accepted the message `name`, or a report about the recipient's failure. A recipient comes once for each such reply.
    No report counts where another message has the same Message-ID.
    """
    for t in facts.trace.transactions_of(name):
        if t.client == primary and t.kind != "shadow" and (end := _last_reply_if_read(facts, t)) is not None:
            for recipient in facts.context.normalize_addresses(t.accepted_recipients):
                yield recipient, *end
    message_id = facts.trace.messages[name].message_id
    if is_message_id_shared(facts, name):
        return
    for t in facts.compute_once(report_transactions).get(message_id or "", ()):
        assert t.digest is not None
        if t.client == primary and t.digest.action == "failed" and (end := _last_reply_if_read(facts, t)) is not None:
            for recipient in facts.context.normalize_addresses(t.digest.failed):
                yield recipient, *end


def is_message_id_shared(facts: Facts, name: str) -> bool:
    """Return whether another message of the scenario has the same Message-ID, or none as this one.

    It is not known then which of them a report is about.
    """
    message_id = facts.trace.messages[name].message_id
    return sum(one.message_id == message_id for one in facts.trace.messages.values()) > 1


def _last_reply_if_read(facts: Facts, sent: Transaction) -> tuple[int, float] | None:
    """Return number and time of the last final reply to an accepted transaction.

    None if the message was refused, or if the client may not have read the reply. In a session that a fault delayed, number and
    time are those of the client's next command, which shows that it has read the reply.
    """
    session = facts.trace.sessions[sent.session]
    if sent.acceptance is None or not was_reply_read_by_client(facts, session, sent.replies[-1].n):
        return None
    reply: Reply | Command = sent.replies[-1]
    if sent.session in facts.trace.delayed_sessions:
        reply = next(x.command for x in session.exchanges if x.command.n > reply.n)
    return reply.n, reply.t


def _replies_to_journal_reports(facts: Facts, name: str) -> Iterator[tuple[int, float] | None]:
    """Yield number and time of the reply that accepted each journal report about a message, as of `_last_reply_if_read`.

    None is yielded for a report of which it is not certain that the client read such a reply.
    """
    for t in facts.compute_once(report_transactions).get(facts.trace.messages[name].message_id or "", ()):
        if t.digest is not None and t.digest.report == "journal":
            yield _last_reply_if_read(facts, t)


def report_transactions(facts: Facts) -> Mapping[str, list[Transaction]]:
    """Return the transactions in which servers under test passed a report on: Message-ID that it is about -> transactions.

    It does not matter whether the next hop accepted the report. The key is '' for reports about a message without a Message-ID;
    shadow copies are left out.
    """
    found: dict[str, list[Transaction]] = defaultdict(list)
    for t in facts.trace.transactions:
        if t.kind == "shadow" or t.digest is None or t.digest.report is None:
            continue
        if facts.is_opened_by_tested_server(t.client, t.session):
            found[t.digest.about or ""].append(t)
    return found
