"""What passed between the holder of shadow copies and their primary: contacts, questions, names of the primary's database.

Theory of operation
-------------------
A `ShadowPair` is a holder and a primary of 2013 or later, with the copies that the one holds for the other. The times of its
contacts decide what the holder must do (ask for discard status, promote itself) and may do. What the holder knows is not always
seen, so there are two opinions of each thing:

- A copy is *surely held* only until the first event after which a right server may hold it no longer: its notification, a
  promotion of any copy of this primary, a new database or an absence of ShadowResubmitTimeSpan that permits one, a queue that is
  wiped, a switch that turns redundancy off, or the expiry of a shadow that is never acknowledged. Where an inspection shows the
  copy after such a switch, it is surely held again from the moment at which redundancy was turned on (`kept_over_switches`).
- The holder is *waiting* for the primary from the opening of a session, or a command, to the reply. While it waits, it need not
  ask again, so a heartbeat counts from the end of the last wait (`waits`).

The rules in `heartbeat`, `promotion` and `queues` read the pairs; nothing here decides whether something was
right. `n` is an event's number, times are documented seconds.

Records: a `HeldInterval` is a stored copy (`copy`) with the event and time until which it is surely held (`until_n`, `until_t`;
None: to the end), by what is seen of that copy alone; a `Configured` event is a configuration offered to a server, with the error
text in `refused` or None; `ConnectFailed` is a connection that a client could not open.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from conformance.history.events import Configured, ConnectFailed
from conformance.model.facts import Facts, HeldInterval
from conformance.model.processing import inspections_after_switches
from conformance.trace.sessions import Session


@dataclass(frozen=True, slots=True)
class Wait:
    """A time during which the holder was in contact with the primary, or waited for it; `failed`: it got no session.

    `cut_off`: the other side ended the session, and the holder, which had not said QUIT, may not have noticed yet.
    """

    since_n: int
    since_t: float
    until_n: int
    until_t: float
    failed: bool = False
    cut_off: bool = False


@dataclass(frozen=True, slots=True)
class DatabaseSeen:
    """The primary named its queue database to the holder; `is_sure`: the holder's next line shows that it has read this."""

    n: int
    t: float
    database: str
    is_sure: bool


@dataclass(slots=True)
class ShadowPair:
    """A holder and a primary, the copies that the one holds for the other, and their contacts, each list in order.

    `sure_ends` has number and time of the event until which each copy is surely held, in the order of `copies`. `contacts` has time and
    number of each positive reply in sessions of either, `databases` each naming of the primary's database to the holder. `absences` are
    the times in which the holder may promote itself, since it had no contact for ShadowResubmitTimeSpan: the number of the first event
    in it, the time of its begin, and that of its end. `kept_over_switches` has number and time of begin and end of each time after a
    switch off and on in which a copy from before is surely held.
    """

    holder: str
    primary: str
    copies: list[HeldInterval]
    sure_ends: list[tuple[int, float]]
    waits: list[Wait]
    contacts: list[tuple[float, int]]
    databases: list[DatabaseSeen]
    absences: list[tuple[int, float, float]] = field(default_factory=list)
    kept_over_switches: list[tuple[int, float, int, float]] = field(default_factory=list)

    def first_surely_held(self, n: int, until_n: int) -> HeldInterval | None:
        """Return the first copy that the holder surely holds from event `n` to event `until_n`, None without one."""
        held = zip(self.copies, self.sure_ends, strict=True)
        return next((copy for copy, (end, _) in held if copy.since_n < n and until_n < end), None)

    def database_of(self, held: HeldInterval) -> str | None:
        """Return the last name of the primary's database that the holder was given before it stored a copy; None without one."""
        count = bisect_left(self.databases, held.since_n, key=lambda seen: seen.n)
        return self.databases[count - 1].database if count else None


def shadow_pairs(facts: Facts) -> list[ShadowPair]:
    """Return the pairs of servers under test of which one stored a shadow copy of the other; call it by `Facts.compute_once`.

    Copies of 2010 servers, which keep what they sent, are left out.
    """
    groups: dict[tuple[str, str], list[HeldInterval]] = defaultdict(list)
    for held in facts.held_intervals:
        copy = held.copy
        if (
            copy.transaction.kind == "shadow"
            and facts.is_tested_server(copy.holder)
            and facts.is_tested_server(copy.primary)
        ):
            groups[copy.holder, copy.primary].append(held)
    promoted: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for promotion in (one for promotions in facts.promotions_by_message.values() for one in promotions):
        session = facts.trace.sessions[promotion.transmission.session]
        for holder, primary in {(copy.holder, copy.primary) for copy in promotion.held_copies}:
            promoted[holder, primary].append((session.n, session.t))
    return [_make_pair(facts, pair, copies, promoted[pair]) for pair, copies in groups.items()]


def _make_pair(
    facts: Facts, servers: tuple[str, str], copies: list[HeldInterval], promoted: list[tuple[int, float]]
) -> ShadowPair:
    """Return the pair of `servers`, (holder, primary), with all its lists filled.

    `copies` are those that the one holds for the other; `promoted` are number and time of each promotion of one of them.
    """
    holder, primary = servers
    opened = facts.sessions_by_client_and_server.get((holder, primary), ())
    own = [s for s in opened if s.listener == "transport"]
    other = facts.sessions_by_client_and_server.get((primary, holder), ())
    failed = [
        Wait(since_n=event.n, since_t=event.t, until_n=event.n, until_t=event.t, failed=True)
        for event in facts.trace.events_of(ConnectFailed)
        if (event.client, event.server, event.listener) == (holder, primary, "transport")
    ]
    idle = facts.numeric_parameter(holder, "ShadowHeartbeatFrequency", copies[0].since_n) or 0.0
    waits = [wait for session in own for wait in _waits_in_session(facts, session, idle / 2)]
    surely_read = [one for s in own for one in _positive_replies([s]) if not facts.trace.may_be_unread(s.name, one[1])]
    pair = ShadowPair(
        holder=holder,
        primary=primary,
        copies=sorted(copies, key=lambda held: held.since_n),
        sure_ends=[],
        waits=sorted([*waits, *failed], key=lambda wait: wait.since_t),
        contacts=sorted([*_positive_replies(opened), *_positive_replies(other)]),  # on any listener (ruling 38)
        databases=sorted(
            [*_databases_in_replies(facts, own), *_databases_in_requests(facts, other)], key=lambda seen: seen.n
        ),
    )
    switched_off = [
        (event.n, event.t)
        for event in facts.trace.events_of(Configured)
        if event.node == holder and event.changes.get("ShadowRedundancyEnabled") is False
    ]
    pair.absences = list(_long_absences(facts, pair, sorted(surely_read)))
    pair.sure_ends = [_end_of_sure_holding(facts, pair, held, [*switched_off, *promoted]) for held in pair.copies]
    pair.kept_over_switches = list(_times_kept_over_switches(facts, pair, [*switched_off, *promoted]))
    return pair


def _times_kept_over_switches(
    facts: Facts, pair: ShadowPair, ends: list[tuple[int, float]]
) -> Iterator[tuple[int, float, int, float]]:
    """Yield each time in which the holder surely holds a copy from before a switch off and on, as an inspection shows.

    A tuple has number and time of its begin, the switch on, and of its end. `ends` are as for `_end_of_sure_holding`; those before
    the inspection ended nothing.
    """
    for on_n, on_t, inspection in inspections_after_switches(facts, pair.holder):
        shown = inspection.shadow_ids_for(pair.primary)
        for held in pair.copies:
            if held.copy.shadow_id in shown and held.since_n < on_n:
                later = [(n, t) for n, t in ends if n > inspection.n]
                end_n, end_t = _end_of_sure_holding(facts, pair, held, later)
                if end_n > on_n:
                    yield on_n, on_t, end_n, end_t


def _end_of_sure_holding(
    facts: Facts,
    pair: ShadowPair,
    held: HeldInterval,
    ends: list[tuple[int, float]],
) -> tuple[int, float]:
    """Return number and time of the event until which a copy is surely held; the history's end where nothing may end it before.

    `ends` are number and time of events after which the holder may hold no copy of this primary any more. In an absence it may
    promote a copy, also one that it stores then. A copy whose reply a fault delayed, or that was stored while redundancy was off,
    ends when it was stored.
    """
    database = pair.database_of(held)
    found = [(n, t) for n, t in ends if n > held.since_n]
    found += [
        max((n, t), (held.since_n + 1, held.since_t)) for n, t, until_t in pair.absences if until_t > held.since_t
    ][:1]
    if held.until_n is not None:
        found.append((held.until_n, held.until_t or 0.0))
    found += [(seen.n, seen.t) for seen in pair.databases if seen.n > held.since_n and seen.database != database][:1]
    expires = held.since_t + expiry_of_copy(facts, held)
    if expires < facts.end_t:
        found.append((facts.first_event_at(expires), expires))
    # where a link kept the reply, the copy was stored earlier, and may be promoted or discarded already
    was_kept = held.copy.transaction.session in facts.trace.delayed_sessions
    if was_kept or facts.parameter(pair.holder, "ShadowRedundancyEnabled", held.since_n) is False:
        found.append((held.since_n, held.since_t))
    return min(found, default=(facts.end_n, facts.end_t))


def expiry_of_copy(facts: Facts, held: HeldInterval) -> float:
    """Return after how many seconds, at the earliest, the holder may drop a copy that was never acknowledged (SR-SFN-03)."""
    names = ("SafetyNetHoldTime", "MessageExpirationTimeout")
    return sum(
        min(facts.parameter_numbers_between(held.copy.holder, name, held.since_n, facts.end_n), default=0.0)
        for name in names
    )


def _long_absences(facts: Facts, pair: ShadowPair, own: list[tuple[float, int]]) -> Iterator[tuple[int, float, float]]:
    """Yield each time in which the holder may promote itself: no contact in a session of its own for ShadowResubmitTimeSpan.

    Each tuple has the number of the first event after that span, the time at which it had passed, and the time of the next contact
    or of the history's end. `own` has time and event of each contact in a session of its own, in order. The holder may count from
    one heartbeat before it stored its first copy: if it keeps its heartbeat, it has had contact since then.
    """
    first = pair.copies[0]
    spans = facts.parameter_numbers_between(pair.holder, "ShadowResubmitTimeSpan", first.since_n, facts.end_n)
    frequency = facts.numeric_parameter(pair.holder, "ShadowHeartbeatFrequency", first.since_n) or 0.0
    span = min(spans, default=0.0)
    times = [first.since_t - frequency, *(t for t, _ in own[bisect_left(own, (first.since_t, -1)) :]), facts.end_t]
    for before, after in pairwise(times):
        if after - before >= span - facts.slack:
            since = before + span - facts.slack
            yield facts.first_event_at(since), since, after


def _positive_replies(sessions: "list[Session] | tuple[()]") -> list[tuple[float, int]]:
    """Return time and number of each positive reply in those of the sessions in which EHLO was answered."""
    return [
        (reply.t, reply.n)
        for session in sessions
        if session.keywords is not None
        for reply in session.replies
        if reply.code // 100 == 2
    ]


def _waits_in_session(facts: Facts, session: Session, idle: float) -> Iterator[Wait]:
    """Yield the times of a session in which the client waited; pauses of at most `idle` seconds between them count as waiting.

    In a session that a fault altered or held, and from DATA to the final reply, the client is taken to wait.
    """
    end_n, end_t = (session.closed.n, session.closed.t) if session.closed else (facts.end_n, facts.end_t)
    has_quit = bool(session.exchanges) and session.exchanges[-1].command.verb == "QUIT"
    cut_off = session.closed is not None and session.closed.by != "client" and not has_quit
    if end_t - session.t <= idle or facts.is_altered_or_held(session.name):
        yield Wait(since_n=session.n, since_t=session.t, until_n=end_n, until_t=end_t, cut_off=cut_off)
        return
    since_n, since_t = session.n, session.t
    replied: tuple[int, float] | None = None
    # number and time of each command, with 0, and of each reply, with its code
    lines = sorted(
        [(x.command.n, x.command.t, 0) for x in session.exchanges] + [(r.n, r.t, r.code) for r in session.replies]
    )
    for n, t, code in [*lines, (end_n, end_t, 0)]:
        if code:
            replied = (n, t) if code != 354 else None
        elif replied is not None:
            if t - replied[1] > idle:
                yield Wait(since_n, since_t, *replied)
                since_n, since_t = n, t
            replied = None
    yield Wait(since_n=since_n, since_t=since_t, until_n=end_n, until_t=end_t, cut_off=cut_off)


def _databases_in_replies(facts: Facts, sessions: list[Session]) -> Iterator[DatabaseSeen]:
    """Yield each naming of its database by the primary in its replies, in sessions that the holder opened itself.

    It is sure only for a discard list after which the holder sent another command, in a session that no fault altered or held.
    """
    for session in sessions:
        if session.name in facts.trace.harness_sessions:
            continue
        last = session.exchanges[-1].command.n if session.exchanges else -1
        for reply in session.replies:
            if reply.operation and reply.operation.database:
                is_list = reply.operation.name == "discard-list"  # nothing obliges to look at the name in another reply
                sure = is_list and last > reply.n and not facts.is_altered_or_held(session.name)
                yield DatabaseSeen(n=reply.n, t=reply.t, database=reply.operation.database, is_sure=sure)


def _databases_in_requests(facts: Facts, sessions: "list[Session] | tuple[()]") -> Iterator[DatabaseSeen]:
    """Yield each naming of its database by the primary in its requests for shadow copies, in sessions that it opened itself.

    It is sure only where the holder granted the request, in a session that no fault altered or held.
    """
    for session in sessions:
        if session.name in facts.trace.harness_sessions:
            continue
        for exchange in session.exchanges:
            command = exchange.command
            if command.operation and command.operation.database:
                granted = exchange.reply is not None and exchange.reply.code // 100 == 2
                sure = granted and not facts.is_altered_or_held(session.name)
                yield DatabaseSeen(n=command.n, t=command.t, database=command.operation.database, is_sure=sure)
