"""By when a holder of shadow copies must promote itself: after an absence of the primary, or for a new database of it.

`promotion` judges by these deadlines, and says where they come from; `expired_copies` asks for them. Times are documented seconds,
`n` is an event's number. `held` is a stored copy with the time until which it is surely held, `pair` its holder and primary with
what passed between them (`shadow_pairs`).
"""

from collections.abc import Iterator
from itertools import pairwise

from conformance.history.events import FaultArmed
from conformance.model.facts import Facts, HeldInterval
from conformance.model.shadow_pairs import DatabaseSeen, ShadowPair


def promotion_deadlines(facts: Facts, pair: ShadowPair, held: HeldInterval) -> Iterator[float]:
    """Yield the times by which the holder had to promote a copy, if it still held it then: those of absences and of a new database."""
    for last, back in absences_of(facts, pair):
        if held.since_t <= last:
            yield from (deadline for _, _, deadline in deadlines_in_absence(facts, pair, last, back))
    if (new_database := deadline_of_new_database(facts, pair, held)) is not None:
        yield new_database[1]


def absences_of(facts: Facts, pair: ShadowPair) -> list[tuple[float, float]]:
    """Return begin and end of each time without contact that was longer than ShadowResubmitTimeSpan may have been, in order."""
    spans = facts.parameter_numbers_between(pair.holder, "ShadowResubmitTimeSpan", -1, facts.end_n)
    times = [pair.copies[0].since_t, *(t for t, _ in pair.contacts if t > pair.copies[0].since_t), facts.end_t]
    return [(last, back) for last, back in pairwise(times) if back - last > min(spans, default=back)]


def deadlines_in_absence(
    facts: Facts, pair: ShadowPair, last: float, back: float
) -> Iterator[tuple[float, float, float]]:
    """Yield the deadline that each time in which the holder works sets within an absence, from time `last` to time `back`.

    A tuple has since when the absence counts, ShadowResubmitTimeSpan, and the deadline.
    """
    for working in facts.working_spans[pair.holder]:
        since = max(last, working.since_t)
        n = facts.first_event_at(since)
        end_n = min(facts.first_event_at(back), working.until_n)
        span = max(
            facts.parameter_numbers_between(pair.holder, "ShadowResubmitTimeSpan", n, end_n), default=facts.end_t
        )
        frequency = max(facts.parameter_numbers_between(pair.holder, "ShadowHeartbeatFrequency", n, end_n), default=0.0)
        deadline = since + span + frequency + facts.slack
        if deadline < min(back, working.until_t):
            yield since, span, deadline


def deadline_of_new_database(
    facts: Facts, pair: ShadowPair, held: HeldInterval
) -> tuple[float, float, int, str] | None:
    """Return the first deadline for promoting a copy that a new database of the primary sets, and that the servers worked up to.

    The tuple has since when and until when, the number of the event that shows it, and what happened, in words. The return of a
    wiped primary counts only if no fault was in force on the holder's link to it since, and if it offered XSHADOWREQUEST in each
    session of the holder up to the deadline (`_is_not_offered`). None where the history shows no new database, or where it ends,
    or a server stops working, before each deadline.
    """
    found: list[tuple[float, int, str, tuple[str, ...]]] = [
        (seen.t, seen.n, f"it read that {pair.primary} has another queue database", (pair.holder,))
        for seen in _other_databases(pair, held)
    ]
    wiped = [e.n for e in facts.node_events.get(pair.primary, ()) if e.action == "wiped" and e.n > held.since_n]
    ready = next((s for s in facts.working_spans[pair.primary] if wiped and s.since_n > wiped[0]), None)
    frequency = max(
        facts.parameter_numbers_between(pair.holder, "ShadowHeartbeatFrequency", held.since_n, facts.end_n),
        default=facts.end_t,
    )
    if ready is not None and not _is_link_broken(facts, pair, wiped[0]):
        under_way = [w.until_t for w in pair.waits if w.since_n < ready.since_n < w.until_n]
        noticed = max([ready.since_t, *under_way])
        if not _is_not_offered(facts, pair, ready.since_n, noticed + frequency + facts.slack):
            what = f"{pair.primary} was ready on a new queue database"
            found.append((noticed, ready.since_n, what, (pair.holder, pair.primary)))
    for since, n, what, servers in sorted(found):
        until = since + frequency + facts.slack
        if until < facts.end_t and all(works_throughout(facts, server, since, until) for server in servers):
            return since, until, n, what
    return None


def works_throughout(facts: Facts, server: str, since: float, until: float) -> bool:
    """Return whether a server works from one time to another without a break."""
    return any(span.since_t <= since and until < span.until_t for span in facts.working_spans[server])


def _other_databases(pair: ShadowPair, held: HeldInterval) -> Iterator[DatabaseSeen]:
    """Yield each time that the holder surely read the name of another database than the one from which a copy came.

    Nothing is yielded where the name of that one is not known.
    """
    database = pair.database_of(held)
    for seen in pair.databases:
        if seen.n > held.since_n and seen.is_sure and database is not None and seen.database != database:
            yield seen


def _is_not_offered(facts: Facts, pair: ShadowPair, after_n: int, until_t: float) -> bool:
    """Return whether, after an event and up to a time, the holder had a session in which the primary did not offer XSHADOWREQUEST.

    It can send no query in such a session, so it reads no name of a database there.
    """
    return any(
        session.n > after_n and session.t <= until_t and session.listener == "transport"
        and session.keywords is not None and "XSHADOWREQUEST" not in session.keywords
        for session in facts.sessions_by_client_and_server.get((pair.holder, pair.primary), ())
    )  # fmt: skip


def _is_link_broken(facts: Facts, pair: ShadowPair, after_n: int) -> bool:
    """Return whether a fault was in force on the link from the holder to the primary at any time after an event."""
    link = f"{pair.holder} -> {pair.primary} transport"
    armed = [event for event in facts.trace.events_of(FaultArmed) if link in event.links]
    healed = {event.fault: event.n for event in armed if event.healed}
    return any(not event.healed and healed.get(event.fault, facts.end_n) > after_n for event in armed)
