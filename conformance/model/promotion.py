"""Judges that a holder promotes itself when it must: after ShadowResubmitTimeSpan without contact, and for a new database.

It judges SR-MNT-09, SR-MNT-11, SR-BND-09, SR-OUT-01, SR-OUT-02, SR-OUT-05, SR-OUT-06 and SR-OUT-07, and that each message is
promoted once (SR-OUT-08).

Theory of operation
-------------------
A *holder* that could open no session to the *primary* for ShadowResubmitTimeSpan promotes itself: it passes the messages of which
it holds shadow copies on to their next hops. It does so at once when it sees that the primary's queue database is another one.
The deadlines are those of the outage table (EX2016):

- `late_promotion`: the resubmit time span and one heartbeat after the last contact. Contact is a positive reply in a session of
  either server (ruling 17). Where the holder was started or resumed later than that, time counts from then.
- `new_database_noticed`: one heartbeat after the holder has read the new name, and one heartbeat after the primary was ready on
  its new database, or after the end of a session or attempt of the holder that was under way then.

That a copy was promoted is shown by a transmission of its message to a next hop, a shadow copy not counted: delivery does not
wait for the new shadow (ruling 24). A next hop that cannot be reached, or refuses the sender or a recipient, is tried: an attempt
of the holder at any place but a shadow server's counts as one for the message if the message was sent in it, or if nothing shows
which was.

That a promotion is not too early is judged in `early_promotion`. `n` is an event's number, times are documented seconds.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). Functions that take a `finding` add to it. A violation blames
its `row`, else the rule's first requirement. A `Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `dot_n`
and `dot_t` those of its final dot (None before it), `acceptance` the first positive final reply or None, and `message` the
scenario's name of the message or None. Its `kind` is `shadow` (a copy that the server is to hold, 2013 and later), `tracked`
(2010: mail of which the client keeps the shadow) or `plain`. A session is *altered* where a fault changed, added or removed
octets in it. Of a server's listeners `frontend` is for mail from outside, `transport` for other servers, `delivery` that of its
mailbox store. `facts.slack` is by how many seconds a time may miss a bound.

Records: a `HeldInterval` is a stored copy (`copy`) with the event and time until which it is surely held (`until_n`, `until_t`;
None: to the end); a `ShadowPair` is a holder and a primary with the copies that the one holds for the other; a `FaultArmed` event
puts a fault in force on links (`A -> B transport`, `A disk`), or ends it (`healed`); `ConnectFailed` is a connection that a
client could not open.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from conformance.history.events import CommandRun, ConnectFailed, FaultArmed, NodeEvent, StepEvent
from conformance.model.due_notifications import was_reply_read_by_client
from conformance.model.facts import Facts, HeldInterval
from conformance.model.promotion_deadlines import (
    absences_of,
    deadline_of_new_database,
    deadlines_in_absence,
    works_throughout,
)
from conformance.model.resending import resending_requests
from conformance.model.rules import rule
from conformance.model.shadow_pairs import ShadowPair, expiry_of_copy, shadow_pairs
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import Session


@rule("SR-MNT-09", "SR-OUT-05", "SR-OUT-08")
def late_promotion(facts: Facts) -> Finding:
    """Check that each copy is promoted within the resubmit time span and a heartbeat after the last contact with its primary.

    Copies that the holder may have promoted in an earlier absence of the primary are left out.
    """
    finding = Finding("a holder promotes itself when the primary was away for ShadowResubmitTimeSpan")
    for pair in facts.compute_once(shadow_pairs):
        for last, back in absences_of(facts, pair):
            for held in pair.copies:
                # where an earlier absence was long enough, the holder may have promoted itself with nothing to see
                is_promoted = any(
                    max(since_t, held.since_t) < last and until_t > held.since_t
                    for _, since_t, until_t in pair.absences
                )
                if held.since_t <= last and not is_promoted:
                    _check_absence(facts, finding, pair, held, last, back)
    return finding


def _check_absence(
    facts: Facts, finding: Finding, pair: ShadowPair, held: HeldInterval, last: float, back: float
) -> None:
    """Add a violation if a copy had to be promoted in an absence of its primary, and was not.

    The absence is from time `last` to time `back`. It is an occasion where, within it, the holder works without a break for the
    resubmit time span and a heartbeat, still has to promote the copy then, and the history goes on after that.
    """
    for since, span, deadline in deadlines_in_absence(facts, pair, last, back):
        if not _must_promote(facts, held, deadline):
            continue
        recording_delay = _recording_delay(facts, held, deadline)
        if deadline + recording_delay >= facts.end_t:
            continue
        finding.occasions += 1
        # an attempt in the first half of the span is too early to be the promotion
        if not _is_passed_on_or_tried(facts, pair, held, since + span / 2, deadline + recording_delay):
            _add_copy_violation(
                facts,
                finding,
                held,
                f"{pair.holder} held its shadow, and did not pass it on by {format_seconds(deadline)}, though it had no contact "
                f"with {pair.primary} since {format_seconds(since)}; ShadowResubmitTimeSpan is {format_seconds(span)}",
            )


def _add_copy_violation(
    facts: Facts, finding: Finding, held: HeldInterval, sentence: str, *evidence: int, row: str | None = None
) -> None:
    """Add a violation about the message of a copy; its evidence begins with the reply that shows that the copy is stored."""
    message = facts.trace.messages[held.copy.transaction.message or ""]
    finding.add_message_violation(message, sentence, held.since_n, *evidence, row=row)


def _must_promote(facts: Facts, held: HeldInterval, deadline: float) -> bool:
    """Return whether at time `deadline` the holder still had the duty to promote a copy of a known message.

    It had not if the holder had been notified or its queue wiped, if the copy may have expired, or if redundancy may be off on the
    holder at any time since it stored the copy.
    """
    holder = held.copy.holder
    if held.copy.transaction.message is None or deadline - held.since_t >= expiry_of_copy(facts, held):
        return False
    if facts.may_be_off(holder, held.since_n, facts.end_n):
        return False
    notified = facts.discards_by_copy.get((held.copy.primary, held.copy.shadow_id, holder), ())
    if any(held.copy.transaction.n < discard.n and discard.t <= deadline for discard in notified):
        return False
    wiped = [e for e in facts.node_events.get(holder, ()) if e.action == "wiped" and e.n > held.since_n]
    return not any(event.t <= deadline for event in wiped)


def _is_passed_on_or_tried(facts: Facts, pair: ShadowPair, held: HeldInterval, since: float, deadline: float) -> bool:
    """Return whether the holder began to pass a copy's message on by `deadline`, or tried to between `since` and `deadline`.

    A try is an attempt at any next hop in which this message was sent, or nothing shows which was. The holder may also have found
    that it had put the message into each recipient's mailbox itself: such a promotion shows nothing, and the answer is True.
    """
    name = held.copy.transaction.message or ""
    recipients = facts.context.normalize_addresses(held.copy.transaction.recipients)
    if recipients <= facts.context.mailboxes and all(
        any(d.giver == pair.holder and d.t <= deadline for d in facts.context.deliveries_of(name, recipient))
        for recipient in recipients
    ):
        return True
    if any(
        t.client == pair.holder and t.kind != "shadow" and held.since_n < t.n and t.t <= deadline
        for t in facts.trace.transactions_of(name)
    ):
        return True
    attempts = facts.compute_once(_mail_attempts_by_server).get(pair.holder, [])
    first = bisect_left(attempts, since, key=lambda attempt: attempt[0])
    for t, others in attempts[first:]:
        if t > deadline:
            return False
        if not others or name in others:
            return True
    return False


def _recording_delay(facts: Facts, held: HeldInterval, deadline: float) -> float:
    """Return how many documented seconds after its begin an attempt at a next hop of the message may be recorded.

    It is 0 unless a next hop, or the link to it, may be silent at the deadline. Then an attempt is recorded when the holder gives
    up, which takes it SendConnectionInactivityTimeout.
    """
    holder, n = held.copy.holder, facts.first_event_at(deadline)
    recipients = held.copy.transaction.recipients
    hops = {hop for r in recipients for hop in facts.context.next_hop_servers(holder, r)}
    armed = {
        event.fault: not event.healed
        for event in facts.trace.events_of(FaultArmed)
        if event.n < n and any(link.startswith(f"{holder} -> {hop} ") for link in event.links for hop in hops)
    }
    paused = any(not works_throughout(facts, hop, deadline, deadline) for hop in hops if facts.is_tested_server(hop))
    limits = facts.parameter_numbers_between(holder, "SendConnectionInactivityTimeout", held.since_n, n)
    return max(limits, default=0.0) if paused or any(armed.values()) else 0.0


def _mail_attempts_by_server(facts: Facts) -> dict[str, list[tuple[float, frozenset[str]]]]:
    """Return the attempts of each server to pass mail on, in order: the time, and the names of the messages sent in full.

    The names are empty where nothing says which message it was: a failed connection, a session without transactions, or one with
    a transaction that has no content; '' stands for content of no known message. Sessions and failed connections to the transport
    listener of a server of the own boundary are left out: they are for queries and shadow copies.
    """
    found: dict[str, list[tuple[float, frozenset[str]]]] = defaultdict(list)
    for session in facts.trace.sessions.values():
        if facts.is_opened_by_tested_server(session.client, session.name) and _is_for_mail(facts, session):
            sent = {t.message for t in session.transactions if t.dot_n is not None}
            complete = all(t.dot_n is not None for t in session.transactions)
            names = frozenset(name or "" for name in sent) if complete else frozenset()
            found[session.client].append((session.t, names))
    for event in facts.trace.events_of(ConnectFailed):
        if facts.is_tested_server(event.client) and _is_for_mail(facts, event):
            found[event.client].append((event.t, frozenset()))
    return {client: sorted(attempts, key=lambda attempt: attempt[0]) for client, attempts in found.items()}


def _is_for_mail(facts: Facts, attempt: Session | ConnectFailed) -> bool:
    """Return whether a session or failed connection may be meant for a next hop, not for queries or shadow copies."""
    return attempt.listener != "transport" or attempt.server not in facts.topology.boundary(attempt.client)


@rule("SR-MNT-11", "SR-OUT-02", "SR-OUT-01", "SR-OUT-07", "SR-OUT-08")
def new_database_noticed(facts: Facts) -> Finding:
    """Check that each copy that came from a queue database which no longer exists is promoted within a heartbeat."""
    finding = Finding("a holder promotes itself within a heartbeat when the primary has another queue database")
    for pair in facts.compute_once(shadow_pairs):
        for held in pair.copies:
            deadline = deadline_of_new_database(facts, pair, held)
            if deadline is None or not _must_promote(facts, held, deadline[1]):
                continue
            since, until, n, what = deadline
            recording_delay = _recording_delay(facts, held, until)
            if until + recording_delay >= facts.end_t:
                continue
            finding.occasions += 1
            if not _is_passed_on_or_tried(facts, pair, held, since, until + recording_delay):
                _add_copy_violation(
                    facts,
                    finding,
                    held,
                    f"{pair.holder} held its shadow, and did not pass it on by {format_seconds(until)}, though {what} at "
                    f"{format_seconds(since)}",
                    n,
                )
    return finding


@rule("SR-OUT-07", "SR-OUT-06", "SR-BND-09", timed=False)
def database_names(facts: Facts) -> Finding:
    """Check that a queue database keeps its name for its life, and that a new one, after a wipe, has a new name.

    The wire profile says so. Altered sessions are left out, and names that came after a wipe in a session that was opened before
    it.
    """
    finding = Finding("a queue database has one name for its life, and no other has it")
    wipes = {server: [e.n for e in events if e.action == "wiped"] for server, events in facts.node_events.items()}
    names: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for session in facts.trace.sessions.values():
        if session.name in facts.trace.altered_sessions:
            continue
        named: list[tuple[str, int, str]] = []
        if facts.is_opened_by_tested_server(session.client, session.name):
            commands = (x.command for x in session.exchanges)
            named += [
                (session.client, c.n, c.operation.database) for c in commands if c.operation and c.operation.database
            ]
        if facts.is_tested_server(session.server):
            replies = session.replies
            named += [
                (session.server, r.n, r.operation.database) for r in replies if r.operation and r.operation.database
            ]
        for server, n, name in named:
            # what was written before a wipe may pass the link after it
            if not any(session.n < wiped < n for wiped in wipes.get(server, ())):
                names[server].append((n, name))
    for server, seen in names.items():
        lives: list[
            tuple[int, int, str]
        ] = []  # of each database: how often the queue was wiped before, first event, name
        for n, name in sorted(seen):
            life = bisect_left(wipes.get(server, []), n)
            finding.occasions += 1
            earlier = next((one for one in lives if one[0] == life), None)
            if earlier is None:
                same = next((one for one in lives if one[2] == name), None)
                lives.append((life, n, name))
                if same is not None:
                    finding.add_violation(
                        f"{server} named its queue database {name} (event {n}), as it had named the one that was wiped (event "
                        f"{same[1]})",
                        n,
                        same[1],
                        row="SR-OUT-07",
                    )
            elif earlier[2] != name:
                finding.add_violation(
                    f"{server} named its queue database {name} (event {n}), which it had named {earlier[2]} before (event "
                    f"{earlier[1]}); it was not wiped",
                    n,
                    earlier[1],
                )
                break
    return finding


@rule("SR-OUT-08", timed=False)
def promoted_once(facts: Facts) -> Finding:
    """Check that a holder of 2013 or later passes a message that it took over on once to each recipient.

    It may do so as often as it was handed the message or a copy of it. Transmissions do not count whose reply it may not have read,
    nor those before it was started again, or before messages were resubmitted.
    """
    finding = Finding("a message that was taken over is passed on once")
    for name, promotions in facts.promotions_by_message.items():
        holders = {one.holder for one in promotions if any(c.transaction.kind == "shadow" for c in one.held_copies)}
        for holder in sorted(holders):
            handed = [t for t in facts.trace.transactions_of(name) if t.server == holder and t.dot_n is not None]
            passed: dict[str, list[int]] = defaultdict(list)
            for t in facts.trace.transactions_of(name):
                if t.client != holder or t.kind == "shadow" or t.acceptance is None:
                    continue
                if not was_reply_read_by_client(facts, facts.trace.sessions[t.session], t.acceptance.n):
                    continue
                for recipient in sorted(facts.context.normalize_addresses(t.accepted_recipients)):
                    since = max((e.n for e in _events_permitting_repetition(facts, holder) if e.n < t.n), default=-1)
                    before = [n for n in passed[recipient] if n > since]
                    passed[recipient].append(t.acceptance.n)
                    finding.occasions += 1
                    if len(before) >= max(1, sum(one.n < t.n for one in handed)):
                        finding.add_message_violation(
                            facts.trace.messages[name],
                            f"{holder} took it over, and passed it on to {recipient} at {format_seconds(t.t)} (event {t.n}), "
                            f"though {t.server} had accepted it already (event {before[-1]})",
                            t.n,
                            before[-1],
                        )
    return finding


def _events_permitting_repetition(facts: Facts, holder: str) -> Iterator[NodeEvent | CommandRun | StepEvent]:
    """Yield the events after which a holder may pass on again what it had passed on.

    These are its own starts, and every administrator's command and resubmitting step of the history.
    """
    yield from (e for e in facts.node_events.get(holder, ()) if e.action in ("started", "ready"))
    yield from resending_requests(facts)
