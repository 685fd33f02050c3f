"""Judges the sessions of 2010 servers: who is offered XSHADOW and who uses it, the query at the end, the heartbeat.

In 2010 the sender of a message keeps its shadow, once the next hop has taken the message and tracks it (XSHADOW); the next hop is
then its *primary*, the sender the *holder*. The holder asks the primary for its *discard status* (a query, XQDISCARD): of which
shadows it may delete. A primary that the holder cannot reach is *taken over*: the holder transmits its shadows again.
`tracked_shadows` are what these rules go by, and those of `exchange_2010_discards` and `exchange_2010_takeover`.

A `HeldInterval` (`held`) is a stored shadow, its `copy` (with the transaction that was sent), and the event and time until which
it is surely held (`until_n`, `until_t`; None: to the end). A transaction is of kind `tracked` if its client keeps the shadow,
`plain` if it does not; its `n` is the event of MAIL, `dot_n` that of the final dot. `n` is an event's number, times are
documented seconds. Rulings are those of docs/rulings.md.

Each rule judges one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model`
describes (`timed=False`: it compares no times). Functions that take a `finding` add to it. `facts.slack` is by how much a time may
miss a bound. A session is *altered* where a fault changed, added or removed octets in it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from conformance.history.events import Command, Reply, StepEvent
from conformance.model.facts import Facts, HeldInterval, operation_name
from conformance.model.processing import inspections_after_switches, may_have_forgotten_event
from conformance.model.relaying import Relaying
from conformance.model.rules import rule
from conformance.model.server_facts import STOPPING_ACTIONS
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import Session

_QUERY_DELAY_S = 5.0
"""By how much a query may follow the end of its interval. Seconds."""


def tracked_shadows(facts: Facts) -> list[HeldInterval]:
    """Return the shadows that 2010 servers under test surely keep; computed once for a history.

    Left out are those of sessions that the harness opened or that a fault altered, and those of which the holder may not know
    that the next hop has the message: it stopped before or just after it got the reply, or may have left before a link passed the
    reply on. Left out too are those whose holder later had a session with the primary that used STARTTLS: what it learned there
    is not seen.
    """
    return facts.compute_once(_find_tracked)


def _find_tracked(facts: Facts) -> list[HeldInterval]:
    """Return what `tracked_shadows` returns, which calls this once for a history.

    A takeover that broke off before the content ends the time of a shadow too.
    """
    secured = {(session.client, session.server): session.n for session in facts.starttls_sessions}
    return [
        _until_takeover_without_content(facts, held)
        for held in facts.held_intervals
        if held.copy.transaction.kind == "tracked"
        and facts.is_opened_by_tested_server(held.copy.holder, held.copy.transaction.session)
        and held.copy.transaction.session not in facts.trace.altered_sessions
        and facts.is_tested_server(held.copy.primary)
        and secured.get((held.copy.holder, held.copy.primary), -1) < held.since_n
        and not may_have_forgotten_event(facts, held.copy.holder, held.since_n, held.since_t)
        and not _stopped_before_reply(facts, held)
        and not facts.trace.may_be_unread(held.copy.transaction.session, held.since_n)
    ]


def _until_takeover_without_content(facts: Facts, held: HeldInterval) -> HeldInterval:
    """Return `held`, ended at the holder's first later transaction for a recipient of the copy that broke off before its content.

    The transaction must be, or be taken for, one of the same message (`Relaying.tries`). Without one before the end of `held`,
    `held` is returned unchanged.
    """
    name, sent = held.copy.transaction.message or "", held.copy.transaction
    tries = facts.compute_once(Relaying).tries
    later = [
        one.transaction
        for recipient in facts.context.normalize_addresses(sent.accepted_recipients)
        for one in tries.get((held.copy.holder, name, recipient), ())
        if one.transaction.n > held.since_n and one.transaction.dot_n is None
    ]
    first = min(later, key=lambda transaction: transaction.n, default=None)
    if first is None or (held.until_n is not None and held.until_n <= first.n):
        return held
    return replace(held, until_n=first.n, until_t=first.t)


def _stopped_before_reply(facts: Facts, held: HeldInterval) -> bool:
    """Return whether the holder stopped or died between its MAIL and the reply by which the copy is stored.

    Then the reply did not reach it. A pause does not count.
    """
    return any(
        held.copy.transaction.n < event.n < held.since_n and event.action in STOPPING_ACTIONS - {"paused"}
        for event in facts.node_events.get(held.copy.holder, ())
    )


def alternative_hops(facts: Facts, server: str, primary: str, recipient: str) -> frozenset[str] | None:
    """Return the parties to which a server may pass what it took over from a primary (ruling 35); None where that is not known.

    They are the other next hops of the route by which the message went to the primary: that for its domain, else that for `*`.
    The set is empty where the route has no others, and where the primary hosts the mailbox. None is returned for a mailbox
    elsewhere or that may have moved, and where no route leads to the primary.
    """
    topology, domain = facts.topology, recipient.rpartition("@")[2].lower()
    routes = [route for route in topology.routes if not route.servers or server in route.servers]
    explicit = next((route for route in routes if route.domain == domain), None)
    if explicit is None and facts.context.normalize_address(recipient) in facts.context.mailboxes:
        hosts = {box.server for box in topology.mailboxes if box.address.casefold() == recipient.casefold()}
        moved = any(step.verb == "activate" for step in facts.trace.events_of(StepEvent))
        return frozenset() if primary in hosts and not moved else None
    route = explicit or next((route for route in routes if route.domain == "*"), None)
    if route is None or primary not in route.next_hops:
        return None
    return frozenset(route.next_hops) - {server, primary}


@rule("SR-E10-18", "SR-E10-02", timed=False)
def xshadow_offered_to_the_granted(facts: Facts) -> Finding:
    """Check that a 2010 server offers XSHADOW to the servers that are granted it, and to no other client.

    Each EHLO that got a positive reply on the listener `transport` is an occasion. A client is the server that it says to be in
    EHLO on an externally secured connector, elsewhere once it has authenticated. Left out are altered sessions and replies while
    shadow redundancy may be off (SR-ENA-02 judges these). A server of 2013 that is granted XSHADOW may be offered it or not: that
    is not documented.
    """
    finding = Finding("XSHADOW is offered to the servers that are granted it, and to no other")
    names = {name.casefold(): name for name in facts.topology.by_name}
    for session in facts.trace.sessions.values():
        if session.listener != "transport" or session.name in facts.trace.altered_sessions:
            continue
        if not facts.is_tested_server(session.server) or not facts.is_2010(session.server):
            continue
        for command, reply in _answered_ehlos(session):
            if facts.may_be_off(session.server, command.n, reply.n):
                continue
            peer = names.get(command.line.partition(" ")[2].strip().casefold())
            has_authenticated = any(earlier.code == 235 and earlier.n < reply.n for earlier in session.replies)
            is_known = peer is not None and (facts.topology.externally_secured or has_authenticated)
            rights = facts.possible_rights(session.server, peer or "", "accept_xshadow", command.n, reply.n)
            if len(rights) > 1:
                continue  # changed at that time
            granted = is_known and rights == {True}
            offered = any(line.split(" ")[0].upper() == "XSHADOW" for line in reply.lines[1:])
            finding.occasions += 1
            whom = f"{peer or 'a client that is no server'} (session {session.name})"
            if offered and not granted:
                why = "is not granted it" if is_known else "has not authenticated as a server"
                finding.add_violation(f"{session.server} offers XSHADOW to {whom}, which {why}", reply.n)
            elif granted and not offered and peer is not None and facts.is_2010(peer):
                finding.add_violation(f"{session.server} does not offer XSHADOW to {whom}", reply.n, row="SR-E10-02")
    return finding


def _answered_ehlos(session: Session) -> Iterator[tuple[Command, Reply]]:
    """Yield each EHLO that was answered positively, with its reply."""
    for exchange in session.exchanges:
        if exchange.command.verb == "EHLO" and exchange.reply is not None and exchange.reply.code // 100 == 2:
            yield exchange.command, exchange.reply


@rule("SR-E10-19", "SR-E10-02", "SR-E10-14", timed=False)
def xshadow_used_where_granted(facts: Facts) -> Finding:
    """Check that a 2010 server uses XSHADOW before its mail wherever it is offered and granted, and nowhere else.

    Queries for discard status follow the same rights. After a refusal of XSHADOW, or of a query, the server may go on without it.
    Left out are altered sessions, those that the harness opened, those without a positive reply to EHLO, and mail while redundancy
    may be off.
    """
    finding = Finding("XSHADOW before the mail where it is offered and the session has the right, and nowhere else")
    for session in facts.trace.sessions.values():
        if not facts.is_opened_by_tested_server(session.client, session.name) or not facts.is_2010(session.client):
            continue
        if session.keywords is None or session.name in facts.trace.altered_sessions:
            continue
        offered = "XSHADOW" in session.keywords
        rights = facts.possible_rights(
            session.client, session.server, "send_xshadow", session.n, facts.end_of_session(session.name)
        )
        if len(rights) > 1:
            continue  # changed while the session was open
        granted = rights == {True}
        refused_n = None
        for exchange in session.exchanges:
            name = operation_name(exchange)
            if name not in ("track-shadow", "query-discard"):
                continue
            finding.occasions += 1
            verb = exchange.command.verb
            if exchange.reply is not None and exchange.reply.code // 100 != 2:
                refused_n = exchange.command.n
            if not granted:
                finding.add_violation(
                    f"{session.client} used {verb} towards {session.server} without the right to send it",
                    exchange.command.n,
                )
            elif not offered:
                finding.add_violation(
                    f"{session.client} used {verb} towards {session.server}, which does not offer XSHADOW",
                    exchange.command.n,
                    row="SR-E10-14",
                )
        if not (offered and granted):
            continue
        for sent in session.transactions:
            if refused_n is not None and refused_n < sent.n:
                continue
            if facts.may_be_off(session.client, session.n, sent.n):
                continue
            finding.occasions += 1
            if sent.kind == "plain":
                finding.add_violation(
                    f"{session.client} sent a message to {session.server}, which offers XSHADOW, and keeps no shadow of it",
                    sent.n,
                    message=sent.message,
                    row="SR-E10-02",
                )
    return finding


@rule("SR-E10-05", timed=False)
def query_at_the_end_of_a_session(facts: Facts) -> Finding:
    """Check that a 2010 server asks a primary for discard status before it ends a session with it.

    It has asked when an XQDISCARD follows the last message of the session. No occasion is a session in which the server has
    nothing to ask for, does not end the session itself, or gets 421 from the other, which is about to end it; nor an altered
    session, one in which XSHADOW is not offered or granted, and one during which redundancy may be off.
    """
    finding = Finding("a query for discard status at the end of every session with a primary")
    held = facts.compute_once(_shadows_by_holder_and_primary)
    for pair, sessions in facts.sessions_by_client_and_server.items():
        for session in sessions if pair in held else ():
            end_n = facts.end_of_session(session.name)
            if facts.possible_rights(*pair, "send_xshadow", session.n, end_n) != {True}:
                continue
            if not facts.is_opened_by_tested_server(session.client, session.name) or "XSHADOW" not in (
                session.keywords or ()
            ):
                continue
            if session.name in facts.trace.altered_sessions or any(reply.code == 421 for reply in session.replies):
                continue
            ended_n = next((e.command.n for e in session.exchanges if e.command.verb == "QUIT"), None)
            if ended_n is None or not any(one.covers(session.n) or one.covers(ended_n) for one in held[pair]):
                continue
            if facts.may_be_off(session.client, session.n, ended_n):
                continue
            finding.occasions += 1
            last_n = max((sent.n for sent in session.transactions), default=session.n)
            if not any(operation_name(e) == "query-discard" and e.command.n > last_n for e in session.exchanges):
                finding.add_violation(
                    f"{session.client} ended session {session.name} with {session.server}, the primary of its shadows, without "
                    "asking for their discard status",
                    ended_n,
                )
    return finding


def _shadows_by_holder_and_primary(facts: Facts) -> Mapping[tuple[str, str], list[HeldInterval]]:
    """Return the tracked shadows: (holder, primary) -> shadows in order."""
    held: dict[tuple[str, str], list[HeldInterval]] = defaultdict(list)
    for one in tracked_shadows(facts):
        held[one.copy.holder, one.copy.primary].append(one)
    return held


@rule("SR-E10-06")
def heartbeat_of_2010(facts: Facts) -> Finding:
    """Check that a holder has a session with the primary, or tries to, in each ShadowHeartbeatTimeoutInterval.

    The interval counts from the end of its last session or try, from when it got something to ask for, or from its own start. The
    duty ends when the shadow may expire (ruling 31), and after ShadowHeartbeatRetryCount failed tries in a row, which are a reason
    to take over (SR-E10-08 judges that). A try while the primary is paused is recorded when the holder gives it up, after
    SendConnectionInactivityTimeout: it may have begun that much earlier (ruling 29).
    """
    finding = Finding("a session with the primary in every ShadowHeartbeatTimeoutInterval")
    for (holder, primary), shadows in facts.compute_once(_shadows_by_holder_and_primary).items():
        contacts = facts.contacts_by_client_and_server.get((holder, primary), [])
        for since_n, since_t, until_n, until_t in _merge_times_held(facts, shadows):
            failed = 0
            last_n, last_t = since_n, since_t
            for contact in (*(c for c in contacts if since_n < c.end_n and c.n < until_n), None):
                next_n, next_t = (contact.n, contact.t) if contact else (until_n, until_t)
                retries = facts.possible_parameter_range(holder, "ShadowHeartbeatRetryCount", since_n, until_n).least
                limit = facts.possible_parameter_range(
                    holder, "SendConnectionInactivityTimeout", last_n, next_n
                ).greatest
                room = limit if contact is not None and facts.is_paused(primary, contact.n) else 0.0
                if failed < retries and next_t > last_t:
                    _check_time_without_session(
                        facts, finding, (holder, primary), (last_n, last_t), (next_n, next_t), room
                    )
                if contact:
                    failed = failed + 1 if contact.outcome == "failed" else 0
                    last_n, last_t = max((last_n, last_t), (contact.end_n, contact.end_t))
    return finding


def _merge_times_held(facts: Facts, shadows: list[HeldInterval]) -> list[tuple[int, float, int, float]]:
    """Return the times during which at least one of the shadows is held, overlapping ones merged.

    Each is a tuple: number and time of its begin, number and time of its end. The time of the end is at most that at which the
    shadow may expire (ruling 31); its number stays that of the event until which the shadow is held.
    """
    merged: list[tuple[int, float, int, float]] = []
    for one in sorted(shadows, key=lambda held: held.since_n):
        holder = one.copy.holder
        lifetimes = [
            facts.possible_parameter_range(holder, name, one.since_n, facts.end_n).least
            for name in ("MessageExpirationTimeout", "ShadowMessageAutoDiscardInterval")
        ]
        until_n = facts.end_n if one.until_n is None else one.until_n
        until_t = min(facts.end_t if one.until_t is None else one.until_t, one.since_t + min(lifetimes))
        if merged and one.since_n <= merged[-1][2] and one.since_t <= merged[-1][3]:
            since_n, since_t, end_n, end_t = merged.pop()
            merged.append((since_n, since_t, max(end_n, until_n), max(end_t, until_t)))
        else:
            merged.append((one.since_n, one.since_t, until_n, until_t))
    return merged


def _check_time_without_session(
    facts: Facts,
    finding: Finding,
    pair: tuple[str, str],
    last: tuple[int, float],
    following: tuple[int, float],
    room: float,
) -> None:
    """Add a violation if the holder was too long without a session to the primary, between `last` and `following`.

    Too long is more than ShadowHeartbeatTimeoutInterval, `_QUERY_DELAY_S` and `room` (seconds) together. `pair` is (holder,
    primary); `last` and `following` are number and time of the end of the last session and of the begin of the next. More than
    ShadowHeartbeatTimeoutInterval is an occasion. Each event of the holder's node begins the time anew, and so does a switch on of
    redundancy after which it has shadows of the primary; times in which the holder did not work, or its redundancy may be off, are
    left out. At most one violation is added.
    """
    holder, primary = pair
    begin_n, begin_t, working = *last, True
    events: list[tuple[int, float, bool | None]] = [  # whether the event stops the holder; None for a switch
        (event.n, event.t, event.action in STOPPING_ACTIONS) for event in facts.node_events.get(holder, ())
    ]
    for n, t, shown in inspections_after_switches(facts, holder):
        if shown.shadow_ids_for(primary):
            events.append((n + 1, t, None))
    for n, t, stops in (*sorted(events, key=lambda event: event[:2]), (*following, False)):
        if n < last[0]:
            working = working if stops is None else not stops
            continue
        n, t = min((n, t), following)
        longest = facts.possible_parameter_range(holder, "ShadowHeartbeatTimeoutInterval", begin_n, n).greatest
        if working and not facts.may_be_off(holder, begin_n, n):
            finding.occasions += t - begin_t > longest - facts.slack
            if t - begin_t > longest + _QUERY_DELAY_S + room + facts.slack:
                finding.add_violation(
                    f"{holder} had no session with {primary}, the primary of its shadows, from {format_seconds(begin_t)} to "
                    f"{format_seconds(t)}, longer than {format_seconds(longest)}",
                    begin_n,
                    min(n, facts.end_n - 1),
                )
                return
        if n >= following[0]:
            return
        begin_n, begin_t, working = n, t, working if stops is None else not stops
