"""Judges how long a client waits for replies (RL-TMO-01, RL-DOT-01, RL-DOT-02), and that a server gives the last one (RL-DOT-03).

RFC 5321 4.5.3.2 gives a time for each phase; ten minutes for the reply to the final dot, since a client that leaves sooner may
send again what the server has taken (RFC 1047). A candidate that is given a shorter SendConnectionInactivityTimeout may leave
then. Sessions that a fault altered are left out. `n` is an event's number, `t` its time; times are documented seconds.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes. Functions that take a `finding` add to it. A `Transaction` is one mail transaction: `n` and `t` are
those of its MAIL, `dot_n` and `dot_t` those of its final dot (None before it), `replies` the final replies, `acceptance` the
first positive final reply or None, and `message` the scenario's name of the message or None. Its `kind` is `shadow` (a copy that
the server is to hold, 2013 and later), `tracked` (2010: mail of which the client keeps the shadow) or `plain`. A session is
*altered* where a fault changed, added or removed octets in it, and *disturbed* where any fault acted in it or may have delayed
it. `facts.slack` is by how many seconds a time may miss a bound. `claims` are the capabilities that the candidate claims.
"""

from collections.abc import Iterator

from conformance.faults import DELAYING_FAULTS, HOLDING_FAULTS
from conformance.history.events import Command, Reply
from conformance.model.facts import Facts
from conformance.model.rules import rule
from conformance.trace.context import is_relay_only
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import Session, Transaction

_LEAST_S = {"GREETING": 300.0, "MAIL": 300.0, "RCPT": 300.0, "DATA": 120.0}
"""What a client waits for -> how long it should wait at least (RFC 5321 4.5.3.2.1 to 4.5.3.2.4)."""

_LEAST_AT_DOT_S = 600.0
"""How long a client should wait for the reply to the final dot (RFC 5321 4.5.3.2.6)."""

_HOLDS_A_REPLY = frozenset({"stall", "delay"})
"""Faults that hold a reply back; until they release it, the link does not see that the client has ended its session."""

_LATE_S = 10.0
"""A reply that comes sooner than this gave no occasion to lose patience."""

_PIPELINED_S = 1.0
"""A command that follows the final dot within this time, or within `facts.slack` if that is longer, was pipelined (RFC 2920): it
shows no loss of patience. On a scaled clock a busy machine may hold it back for longer than a second."""


@rule("RL-TMO-01")
def replies_are_waited_for(facts: Facts) -> Finding:
    """Check that a client waits for the greeting, and for the replies to MAIL, RCPT and DATA, as long as RFC 5321 asks for.

    It may leave sooner where its SendConnectionInactivityTimeout is shorter.
    """
    finding = Finding("a client waits five minutes for a reply, and two minutes for that to DATA")
    for session in _judged_sessions(facts):
        for awaited, since, until, is_read in _waits_for_replies(facts, session):
            _check_wait(facts, finding, session, awaited, since, until, is_read, _LEAST_S[awaited])
    return finding


@rule("RL-DOT-02")
def nothing_is_sent_while_the_dot_waits(facts: Facts) -> Finding:
    """Check that a client which has lost patience at the final dot sends no more than QUIT in that session.

    A final dot whose reply took longer than `_LATE_S` is an occasion, and so is each violation. What was pipelined behind the dot
    is not judged.
    """
    finding = Finding("while the reply to the final dot is due, a client sends nothing but QUIT")
    for session in _judged_sessions(facts):
        for sent in session.transactions:
            if sent.dot_t is None:
                continue
            replied = sent.replies[0].t if sent.replies else facts.end_t
            finding.occasions += replied - sent.dot_t > _LATE_S
            command = _impatient_command(facts, session, sent)
            if command is not None and command.verb != "QUIT":
                finding.occasions += replied - sent.dot_t <= _LATE_S
                finding.add_violation(
                    f"session {session.name}: {session.client} sent {command.verb or 'a line'} "
                    f"{format_seconds(command.t - sent.dot_t)} after its final dot, while the reply was due",
                    command.n,
                    message=sent.message,
                )
    return finding


@rule("RL-DOT-01")
def reply_to_the_dot_is_waited_for(facts: Facts) -> Finding:
    """Check that a client waits ten minutes for the reply to the final dot, or its shorter SendConnectionInactivityTimeout.

    Its wait ends with its next command, else with the reply, else when it leaves. Where the reply came too late for it to read, it has
    left, at the latest, at the time of the reply. A wait that the history or the server ends is not judged.
    """
    finding = Finding("a client waits ten minutes for the reply to its final dot")
    for session in _judged_sessions(facts):
        for sent in session.transactions:
            if sent.dot_n is None or sent.dot_t is None:
                continue
            impatient = _impatient_command(facts, session, sent)
            reply = sent.replies[0] if sent.replies else None
            until = (
                impatient.t
                if impatient is not None
                else reply.t
                if reply is not None
                else _client_left_at(facts, session)
            )
            if until is not None:
                is_read = reply is not None and impatient is None and not _was_sent_again(facts, session, sent, reply)
                since = _earliest_send_time(facts, session, sent.dot_n, sent.dot_t)
                _check_wait(facts, finding, session, "the final dot", since, until, is_read, _LEAST_AT_DOT_S)
    return finding


@rule("RL-DOT-03")
def what_is_taken_is_answered(facts: Facts) -> Finding:
    """Check that a server passes on no message for which it closed the sender's session after the final dot without a reply.

    Only undisturbed sessions of the harness are judged. A server that accepted the message in another transaction, or that
    stopped, is excused.
    """
    finding = Finding("a server that takes a message answers its final dot")
    passed_on = {(sent.client, sent.message) for sent in facts.trace.transactions if sent.dot_n is not None}
    for sent in facts.trace.transactions:
        session = facts.trace.sessions[sent.session]
        if sent.dot_n is None or sent.message is None or not facts.is_tested_server(sent.server):
            continue
        if facts.is_disturbed(session.name) or facts.is_opened_by_tested_server(sent.client, session.name):
            continue
        finding.occasions += 1
        closed = session.closed
        if sent.replies or closed is None or closed.by != "server" or (sent.server, sent.message) not in passed_on:
            continue
        others = [t for t in facts.trace.transactions_of(sent.message) if t.server == sent.server and t is not sent]
        if any(other.acceptance for other in others) or facts.was_interrupted_between(sent.server, session.n, closed.n):
            continue
        finding.add_message_violation(
            facts.trace.messages[sent.message],
            f"{sent.server} ended the session without a reply to its final dot, and passed it on",
            closed.n,
        )
    return finding


def _judged_sessions(facts: Facts) -> Iterator[Session]:
    """Yield the sessions in which servers under test pass mail on, and that no fault altered.

    A server that can make shadow copies may end an attempt at one at any time, when it is not needed any more. So for candidates that
    claim more than a relay, sessions with a shadow copy, and those without any message, are left out.
    """
    relays_only = is_relay_only(facts.context.claims)
    for session in facts.trace.sessions.values():
        if (
            facts.is_opened_by_tested_server(session.client, session.name)
            and session.name not in facts.trace.altered_sessions
        ):
            kinds = {sent.kind for sent in session.transactions}
            if relays_only or (kinds and "shadow" not in kinds):
                yield session


def _waits_for_replies(facts: Facts, session: Session) -> Iterator[tuple[str, float, float, bool]]:
    """Yield each wait of the client for the greeting, or for the reply to MAIL, RCPT or DATA.

    Each has what it waited for (GREETING or the verb), begin and end in documented seconds, and whether it read the reply. A wait
    that ends with neither a reply nor the client's leaving is left out, and so is one for a reply that a 421 after the command came
    in place of: the client may leave then.
    """
    goodbye_n = max((reply.n for reply in session.replies if reply.code == 421), default=-1)
    left = _client_left_at(facts, session)
    greeting = session.replies[0].t if session.replies else left
    if greeting is not None:
        yield (
            "GREETING",
            session.t,
            greeting,
            bool(session.replies) and not _had_client_left(facts, session, session.replies[0]),
        )
    for exchange in session.exchanges:
        command, reply = exchange.command, exchange.reply
        if reply is None and command.n < goodbye_n:
            continue
        is_read = reply is not None and not _had_client_left(facts, session, reply)
        # a reply that a fault keeps may be recorded long before it would pass
        ends = [t for t in (reply.t if reply is not None else None, None if is_read else left) if t is not None]
        if command.verb in _LEAST_S and ends:
            yield (
                command.verb,
                _earliest_send_time(facts, session, command.n, command.t),
                max(ends),
                is_read,
            )


def _earliest_send_time(facts: Facts, session: Session, n: int, t: float) -> float:
    """Return the earliest time at which the client may have sent what is recorded as event `n` at `t`: a fault may have held it back.

    That is `t` itself without such a fault. What a link holds back or delays it may let pass after replies that came meanwhile.
    """
    replied = max((reply.n for reply in session.replies if reply.n < n), default=session.n)
    holding = HOLDING_FAULTS | DELAYING_FAULTS
    faults = (fault for fault in facts.faults_by_session.get(session.name, ()) if fault.n < n)
    return min((fault.t for fault in faults if fault.n > replied or fault.action in holding), default=t)


def _check_wait(
    facts: Facts,
    finding: Finding,
    session: Session,
    awaited: str,
    since: float,
    until: float,
    is_read: bool,
    least: float,
) -> None:
    """Add a violation if the client left before `least` seconds, and before its configured SendConnectionInactivityTimeout.

    It waited from `since` to `until` for the reply to `awaited`; `is_read` says whether it got the reply, and so did not leave. An
    occasion is a wait that it left before `least`, and any other that lasted longer than `_LATE_S`.
    """
    if is_read or until - since >= least:
        finding.occasions += until - since > _LATE_S
        return
    configured = facts.possible_parameter_range(session.client, "SendConnectionInactivityTimeout", 0, facts.end_n).least
    finding.occasions += 1
    if until - since < min(least, configured) - facts.slack:
        finding.add_violation(
            f"session {session.name}: {session.client} waited no longer than {format_seconds(until - since)} for the reply to {awaited}, not "
            f"{format_seconds(min(least, configured))}",
            session.n,
        )


def _had_client_left(facts: Facts, session: Session, reply: Reply) -> bool:
    """Return whether the client ended the session before it read `reply`, with which it could have gone on.

    While a fault holds a reply back, the link sees the client's end only after it. Without such a fault a reply that was passed on was
    read, and the answer is False.
    """
    faults = facts.faults_by_session.get(session.name, ())
    if not any(fault.action in _HOLDS_A_REPLY and fault.n < reply.n for fault in faults):
        return False
    goes_on = any(x.command.n > reply.n for x in session.exchanges) or any(
        (t.dot_n or 0) > reply.n for t in session.transactions
    )
    return reply.code < 400 and not goes_on and _client_left_at(facts, session) is not None


def _was_sent_again(facts: Facts, session: Session, sent: Transaction, reply: Reply) -> bool:
    """Return whether the client did not read the final reply `reply`: it left the session, and later sent the message again."""
    return (
        _had_client_left(facts, session, reply)
        and sent.message is not None
        and any(
            t.n > reply.n
            and (t.client, t.server) == (sent.client, sent.server)
            and not set(t.recipients).isdisjoint(sent.recipients)
            for t in facts.trace.transactions_of(sent.message)
        )
    )


def _client_left_at(facts: Facts, session: Session) -> float | None:
    """Return when the client ended the session; None while it is open, and where another ended it or the client stopped."""
    closed = session.closed
    if (
        closed is None
        or closed.by != "client"
        or facts.was_interrupted_between(session.client, session.n, closed.n + 1)
    ):
        return None
    return closed.t


def _impatient_command(facts: Facts, session: Session, sent: Transaction) -> Command | None:
    """Return the first command between a final dot and its reply; None without one, and if that command was pipelined."""
    assert sent.dot_n is not None
    assert sent.dot_t is not None
    replied = sent.replies[0].n if sent.replies else None
    for exchange in session.exchanges:
        command = exchange.command
        if command.n > sent.dot_n and (replied is None or command.n < replied):
            return command if command.t - sent.dot_t > max(_PIPELINED_S, facts.slack) else None
    return None
