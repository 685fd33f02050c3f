"""Judges whether a promotion was too early: a shadow copy is not delivered while its primary lives (SR-CRE-11, SR-MNT-10,
SR-MNT-13).

Theory of operation
-------------------
A *holder* keeps shadow copies for a *primary* and opens sessions to it (heartbeats). It may promote a copy, that is transmit
the message as its own, for one of three reasons:

1. It could open no session to the primary for ShadowResubmitTimeSpan. `_last_contact` says from when the holder may count.
   If its next hop could not be reached then, the transmission may follow when the primary is back.
   As contact only sessions from the holder to the primary's listener `transport` count, those that the harness opened under its
   name too. The holder may count sessions that the primary opened, and those to the listener `delivery`. Then it waits longer,
   which is never too early (rulings 17 and 38).
2. It has seen that the primary's queue database is another one: what the old database held may be lost.
3. The copy had been discarded, so that Safety Net holds it, and a resubmission was asked for.

Once a promotion was right, the message is the holder's own: what it transmits of it later is right too, a new shadow copy
included, whether or not the primary is back. A copy that the holder may have stored without the reply being seen counts as
well as the stored ones, and one whose reply a fault may have delayed counts from its final dot as well. Servers of 2010 have a
rule of their own, by the number of failed heartbeats, judged elsewhere.

`n` is an event's number, `t` its time; times are documented seconds, and `context.slack` is by how much a time may miss a bound.
`sent` is the transmission that is judged (`n` and `t` are those of its MAIL), `name` the scenario's name of its message, `copy` a
copy that its client holds. A transaction of kind `shadow` hands over a shadow copy. Rulings are those of docs/rulings.md.

The rule judges one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model`
describes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from conformance.history.events import Command, CommandRun, ConnectFailed, NodeEvent, StepEvent
from conformance.model.parameter_changes import ParameterChanges
from conformance.model.rules import invariant
from conformance.trace.context import CheckContext
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.parameters import numeric_parameter_at
from conformance.trace.promotions import find_promotions
from conformance.trace.sessions import Transaction
from conformance.trace.shadows import ShadowCopy


@dataclass(frozen=True, slots=True)
class HeldCopy:
    """A shadow copy that `holder` keeps, or may keep, for `primary` since event `n` at `t`.

    `shadow_id` is None where no reply to the copy was seen.
    """

    primary: str
    holder: str
    n: int
    t: float
    shadow_id: str | None = None

    @classmethod
    def from_stored(cls, copy: ShadowCopy) -> "HeldCopy":
        """Return the `HeldCopy` of a stored shadow copy: held since the reply that shows that it is stored."""
        return cls(copy.primary, copy.holder, copy.stored_reply.n, copy.stored_reply.t, copy.transaction.shadow_id)


_GREETINGS = frozenset({"GREETING", "EHLO", "STARTTLS", "AUTH"})
"""What is answered before a session serves a purpose."""


@invariant("shadow-not-delivered-while-primary-lives", "SR-CRE-11", "SR-MNT-10", "SR-MNT-13", "SR-MNT-15", "SR-OUT-06")
def shadow_not_delivered_while_primary_lives(context: CheckContext) -> Finding:
    """Check that no promotion was too early; each stored shadow copy (not those of 2010) is an occasion.

    A transmission is right if the holder had a reason to promote one of the copies that it has left to promote (`_may_promote`).
    After a right promotion a later transmission is right too, if those of the same kind from the promotion on have failed
    (`_is_first_since`). Other transmissions of a holder that has no copy left to promote are not judged.
    """
    finding = Finding("no shadow is transmitted while its primary was reachable and its database the same")
    changes = ParameterChanges(context)
    for name, message in context.trace.messages.items():
        finding.occasions += sum(copy.transaction.kind == "shadow" for copy in context.trace.copies_of(name))
        rights: dict[str, list[Transaction]] = {}  # each holder's transmissions that were right promotions
        sent_before: dict[str, list[Transaction]] = {}  # all those of each holder
        for promotion in find_promotions(context, name):
            sent = promotion.transmission
            copies = [copy for copy in promotion.held_copies if copy.transaction.kind == "shadow"]
            right, earlier = rights.setdefault(promotion.holder, []), sent_before.setdefault(promotion.holder, [])
            promoted = sum(
                _are_of_same_kind(context, sent, other) and not _has_failed(context, other, sent.n) for other in earlier
            )
            earlier.append(sent)
            if right and _is_first_since(context, name, sent, right[-1].n):
                continue
            # a holder of several copies, of a message that was sent several times, promotes each of them
            first = [copy for copy in copies if right and copy.stored_reply.n < right[0].n]
            left = first if len(first) > promoted else []
            since = right[-1].n if right else -1
            kept = [copy for copy in copies if copy in left or copy.stored_reply.n > since]
            held = [HeldCopy.from_stored(copy) for copy in kept]
            if not held:
                continue
            possible = (*held, *_copies_with_late_reply(context, kept), *_copies_without_reply(context, name, sent))
            if any(_may_promote(context, changes, sent, copy) for copy in possible):
                right.append(sent)
            else:
                copy = min(held, key=lambda copy: _last_contact(context, sent, copy)[0])
                contact, what = _last_contact(context, sent, copy)
                finding.add_message_violation(
                    message,
                    f"{sent.client} transmitted its shadow to {sent.server} at "
                    f"{format_seconds(sent.t)} (event {sent.n}), {format_seconds(sent.t - contact)} after {copy.primary} "
                    f"{what}, its database unchanged",
                    sent.n,
                    copy.n,
                )
    return finding


def _is_first_since(context: CheckContext, name: str, sent: Transaction, since: int) -> bool:
    """Return whether every earlier transmission of the same kind by the same client has failed, from event `since` on.

    True without one. A transmission whose MAIL is event `since` counts. A holder passes its own message on once; a copy that it is
    given meanwhile is no reason to do so twice.
    """
    for other in context.trace.transactions_of(name):
        if other.client != sent.client or not since <= other.n < sent.n or not _are_of_same_kind(context, sent, other):
            continue
        if not _has_failed(context, other, sent.n):
            return False
    return True


def _has_failed(context: CheckContext, sent: Transaction, before_n: int) -> bool:
    """Return whether a transmission ended before event `before_n`, by a reply or with its session, and was never accepted."""
    closed = context.trace.sessions[sent.session].closed
    ended = (closed is not None and closed.n < before_n) or any(reply.n < before_n for reply in sent.replies)
    return ended and sent.acceptance is None


def _are_of_same_kind(context: CheckContext, one: Transaction, other: Transaction) -> bool:
    """Return whether two transmissions both make shadow copies, or neither does and they have a recipient in common."""
    if one.kind == "shadow" or other.kind == "shadow":
        return one.kind == other.kind
    return not context.normalize_addresses(one.recipients).isdisjoint(context.normalize_addresses(other.recipients))


def _copies_with_late_reply(context: CheckContext, copies: list[ShadowCopy]) -> list[HeldCopy]:
    """Return those of the stored copies that may have been stored before their reply was recorded, as held since their final dot.

    That is so where a fault delayed the session: the holder counts from when it stored the copy, and knows nothing of the link.
    """
    return [
        HeldCopy(copy.primary, copy.holder, given.dot_n, given.dot_t, copy.shadow_id)
        for copy in copies
        if context.trace.accepted_since(given := copy.transaction) == given.dot_n
        if given.dot_n is not None and given.dot_t is not None
    ]


def _copies_without_reply(context: CheckContext, name: str, sent: Transaction) -> list[HeldCopy]:
    """Return the copies whose content the client of `sent` was given before it began `sent`, and to which no reply was seen.

    `name` is the message of which they are copies; they count as held from their final dot on.
    """
    return [
        HeldCopy(primary=given.client, holder=given.server, n=given.dot_n, t=given.dot_t)
        for given in context.trace.transactions_of(name)
        if given.kind == "shadow" and given.server == sent.client and not given.replies
        if given.dot_n is not None and given.dot_t is not None and given.dot_n < sent.n
    ]


def _may_promote(context: CheckContext, changes: ParameterChanges, sent: Transaction, copy: HeldCopy) -> bool:
    """Return whether the holder had one of the module docstring's three reasons to transmit the copy as its own when it began `sent`.

    A new ShadowResubmitTimeSpan may be in force from its offer on: the server may answer the step `configure` after the promotion.
    """
    span = changes.possible_range(copy.holder, "ShadowResubmitTimeSpan", sent.n, sent.n).least
    absence = sent.t - _last_contact(context, sent, copy)[0]
    return (
        absence >= span - context.slack
        or _was_tried_in_absence(context, sent, copy, span)
        or _has_seen_other_database(context, sent, copy)
        or _is_resubmission(context, sent, copy)
    )


def _was_tried_in_absence(context: CheckContext, sent: Transaction, copy: HeldCopy, span: float) -> bool:
    """Return whether the holder may have promoted the copy in an earlier absence of the primary, and a try failed since then.

    A try is a connection or transmission to the same server and listener as `sent`. An absence is a time of at least `span`
    seconds (ShadowResubmitTimeSpan) without an answer of the primary, after the holder got the copy, that an answer ended.
    """
    answers = sorted(t for t in _answer_times(context, copy, sent) if t > copy.t)
    begins = [last + span - context.slack for last, back in pairwise([copy.t, *answers]) if back - last >= span]
    if not begins:
        return False
    hop = (sent.client, sent.server, sent.listener)
    failed = [
        e.t for e in context.trace.events_of(ConnectFailed) if (e.client, e.server, e.listener) == hop and e.n < sent.n
    ]
    failed += [
        t.t
        for t in context.trace.transactions
        if (t.client, t.server, t.listener) == hop and t.n < sent.n and t.acceptance is None
    ]
    return max(failed, default=-math.inf) >= begins[0]


def _last_contact(context: CheckContext, sent: Transaction, copy: HeldCopy) -> tuple[float, str]:
    """Return the earliest time from which the holder may count the primary's absence, and what happened then.

    The second value are words that follow the primary's name in a sentence. The time is that of the primary's last answer in a
    session that the holder opened (`_answer_times`). Where that was before the holder got the copy, it still counts if an attempt
    of the holder at a session failed in the meantime, or if it was at most one heartbeat (ShadowHeartbeatFrequency) earlier. Else
    the time is one heartbeat before the holder got the copy, since a holder that keeps its heartbeat has had contact since then;
    or when it got the copy, where the primary never answered.
    """
    answered = max(_answer_times(context, copy, sent), default=None)
    if answered is not None and answered >= copy.t:
        return answered, "had answered it"
    if answered is not None and any(answered < t <= copy.t for t in _failure_times(context, copy)):
        return answered, "had answered it"
    earliest = copy.t - numeric_parameter_at(context, copy.holder, "ShadowHeartbeatFrequency", copy.n)
    if answered is not None and answered >= earliest:
        return answered, "had answered it"
    return (copy.t if answered is None else earliest), "had handed it over"


def _answer_times(context: CheckContext, copy: HeldCopy, sent: Transaction) -> Iterator[float]:
    """Yield the time of each positive reply of the primary to the holder that shows, before `sent`, that the primary lived.

    Only sessions that the holder itself opened to the listener `transport` count, and of them those in which the primary has answered
    more than the greeting, EHLO, STARTTLS and AUTH by then: one that broke before may count as opened (SR-MNT-09) or as not
    successful (SR-MNT-10). Not answers are 421, since it closes the session, a reply that a fault made unreadable, and one that a
    link delayed and that the holder may not have read. In the session of `sent` itself only answers to queries count: the request
    for a shadow copy follows the promotion.
    """
    for session in context.trace.sessions.values():
        pair = (session.client, session.server)
        if pair != (copy.holder, copy.primary) or session.listener != "transport" or session.keywords is None:
            continue
        if session.name in context.trace.harness_sessions:  # the holder knows nothing of it
            continue
        replies = [r for r in session.replies if r.t < sent.t and not context.trace.may_be_unread(session.name, r.n)]
        if session.name == sent.session:
            queries = {x.reply.n for x in session.exchanges if x.reply and _is_query(x.command)}
            replies = [r for r in replies if r.n in queries]
        if any(reply.to not in _GREETINGS and reply.code not in (0, 421) for reply in replies):
            yield from (r.t for r in replies if r.code // 100 == 2)


def _is_query(command: Command) -> bool:
    """Return whether a command asks for the discard status."""
    return command.operation is not None and command.operation.name == "query-discard"


def _failure_times(context: CheckContext, copy: HeldCopy) -> Iterator[float]:
    """Yield the time of each failed connection of the holder to the primary, and the begin of each session without a 2yz to EHLO.

    Those with any listener of the primary count.
    """
    pair = (copy.holder, copy.primary)
    yield from (event.t for event in context.trace.events_of(ConnectFailed) if (event.client, event.server) == pair)
    for session in context.trace.sessions.values():
        if (session.client, session.server) == pair and session.keywords is None:
            yield session.t


def _has_seen_other_database(context: CheckContext, sent: Transaction, copy: HeldCopy) -> bool:
    """Return whether the holder saw, after it got the copy, that the primary's database is not the one it came from.

    Where the holder had seen no name of that database, a wipe of the primary's queue and a session that either of the two opened
    between the last wipe and `sent` are enough.
    """
    seen = [(n, database) for n, database in _database_names(context, copy) if n < sent.n]
    # the last name before the copy is that of the database from which the copy came
    first = next((database for n, database in reversed(seen) if n < copy.n), None)
    if first is not None:
        return any(database != first for n, database in seen if n > copy.n)
    wiped = [
        e.n for e in context.trace.events_of(NodeEvent)
        if e.node == copy.primary and e.action == "wiped" and copy.n < e.n < sent.n
    ]  # fmt: skip
    return bool(wiped) and any(
        {session.client, session.server} == {copy.holder, copy.primary} and wiped[-1] < session.n < sent.n
        for session in context.trace.sessions.values()
    )


def _database_names(context: CheckContext, copy: HeldCopy) -> list[tuple[int, str]]:
    """Return the names of its database that the primary gave the holder, each with its event's number, in order.

    The primary names it in its requests for shadow copies, in its discard lists, and where it grants a request of the holder.
    """
    names = []
    for session in context.trace.sessions.values():
        if session.name in context.trace.harness_sessions and session.client == copy.holder:
            continue  # the holder knows nothing of it
        if (session.client, session.server) == (copy.primary, copy.holder):
            commands = [exchange.command for exchange in session.exchanges]
            names += [(c.n, c.operation.database) for c in commands if c.operation and c.operation.database]
        elif (session.client, session.server) == (copy.holder, copy.primary):
            names += [(r.n, r.operation.database) for r in session.replies if r.operation and r.operation.database]
    return sorted(names)


def _is_resubmission(context: CheckContext, sent: Transaction, copy: HeldCopy) -> bool:
    """Return whether the copy had been discarded before `sent`, and Safety Net was asked before `sent` to resubmit messages.

    It is asked by the command `resubmit`, unless that failed, or by a step that makes a mailbox database active on another server
    (`activate`).
    """
    discards = [
        d.n for d in context.trace.discards
        if (d.primary, d.shadow_id, d.holder) == (copy.primary, copy.shadow_id, copy.holder)
    ]  # fmt: skip
    if not discards or discards[0] > sent.n:
        return False
    requests = [e.n for e in context.trace.events_of(CommandRun) if e.command == "resubmit" and e.failed is None]
    requests += [e.n for e in context.trace.events_of(StepEvent) if e.verb == "activate"]
    return any(n < sent.n for n in requests)
