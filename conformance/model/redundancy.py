"""Judges that a second copy exists when a message is acknowledged (SR-CRE-01, SR-BND-03).

Theory of operation
-------------------
A server of 2013 or later, the *primary*, that acknowledges a message from outside its boundary (its DAG or site) must have had a
shadow copy stored by another server of the boundary, a possible *holder*, between the sender's MAIL and its own positive final
reply, the *acknowledgement*. A session to the holder may have been opened before (ruling 14).

Where no other server of the boundary can hold a copy, nothing is judged here (`enabling` judges SR-BND-08). Else the primary may
acknowledge without a copy only where RejectMessageOnShadowFailure is false, and

- as many attempts failed as the parameters permit (SR-PRF-01 to SR-PRF-06), or
- a holder was silent: on silence the primary may end its effort at any moment (SR-TMO-01, ruling 16).

Silence is the difficult case, since a fault may hold back what the primary sends before the link records it. `_is_silent`
therefore presumes that in a session in use, in which nothing was refused or stored, the holder owed the primary an answer.
`_is_stored_later` and `_was_not_waiting` take back that judgement where the answer came while the primary was still waiting, or
the primary's next command shows that it had an answer.

`n` is an event's number, `t` its time in documented seconds. Rulings are those of docs/rulings.md. `transaction` is the one by
which the primary was given the message, `answer` or `acknowledgement` its final reply. The rules about refusals (`enabling`) use
the public functions too.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes. Functions that take a `finding` add to it. A violation blames its `row`, else the rule's first
requirement. A `Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `acceptance` the first positive final
reply or None, and `message` the scenario's name of the message or None. Its `kind` is `shadow` (a copy that the server is to
hold, 2013 and later), `tracked` (2010: mail of which the client keeps the shadow) or `plain`. A session is *altered* where a
fault changed, added or removed octets in it, and *held* where a fault kept octets back (`stall`). Of a server's
listeners `frontend` is for mail from outside, `transport` for other servers, `delivery` that of its mailbox store. `claims` are
the capabilities that the candidate claims.

Records: a `FaultFired` event is a fault that acted.
"""

import math

from conformance.faults import DELAYING_FAULTS, ENDING_FAULTS, HOLDING_FAULTS
from conformance.history.events import Command, FaultFired, Reply
from conformance.model.contacts import is_lost_before_request, is_turned_away
from conformance.model.facts import Facts
from conformance.model.preference import is_remote, permitted_attempts, possible_holders
from conformance.model.rules import rule
from conformance.trace.context import CheckContext
from conformance.trace.dials import find_dials, is_end_unclear
from conformance.trace.finding import Finding, format_time
from conformance.trace.sessions import Session, Transaction

_PROMPT_S = 1.0
"""Documented seconds within which a server that is not silent replies."""

_OTHER_PURPOSES = frozenset({"QUIT", "XQDISCARD", "XQUERYDISCARD"})
"""Verbs after which a session is no attempt under way: it queries discard status, or has ended in good order."""


@rule(
    "SR-CRE-01", "SR-BND-03", "SR-BND-05", "SR-CRE-02", "SR-CRE-03", "SR-CRE-07", "SR-ENA-01", "SR-ENA-04",
    "SR-BND-06", "SR-IOP-02", "SR-PRF-07", "SR-TMO-02", "SR-TMO-05", published="two-copies-at-acknowledgement",
)  # fmt: skip
def two_copies_at_acknowledgement(facts: Facts) -> Finding:
    """Check that a shadow copy was stored before each acknowledgement of a message from outside the boundary.

    Only for candidates that claim `shadow-2013`. Sessions that a fault altered are left out.
    """
    finding = Finding("a stored shadow copy at the moment of each acknowledgement")
    if "shadow-2013" not in facts.context.claims:
        return finding
    for name in facts.trace.messages:
        for transaction in facts.trace.transactions_of(name):
            if (
                transaction.acceptance is not None
                and transaction.session not in facts.trace.altered_sessions
                and is_from_outside(facts, transaction)
            ):
                _check_acknowledgement(facts, finding, transaction, transaction.acceptance)
    return finding


def is_from_outside(facts: Facts, transaction: Transaction) -> bool:
    """Return whether a transaction hands a message from outside the boundary to a server of 2013 or later.

    It does so on the listeners `frontend` and `transport`; a shadow copy is not such a message.
    """
    return (
        facts.is_tested_server(transaction.server)
        and transaction.kind != "shadow"
        and transaction.listener in ("frontend", "transport")
        and not facts.is_2010(transaction.server)
        and transaction.client not in facts.topology.boundary(transaction.server)
    )


def _check_acknowledgement(facts: Facts, finding: Finding, transaction: Transaction, acknowledgement: Reply) -> None:
    """Add a violation where a copy had to be stored before an acknowledgement, and was not.

    There is no occasion where no other server can hold a copy, where redundancy is off, where a session with one may have carried the
    copy within TLS, or where RejectMessageOnShadowFailure is false and the primary had a reason to go without a copy. A late copy is
    named in the sentence.
    """
    primary, n = transaction.server, acknowledgement.n
    holders = possible_holders(facts, primary, n)
    if not holders or not facts.parameter(primary, "ShadowRedundancyEnabled", n):
        return
    assert transaction.message is not None
    message = facts.trace.messages[transaction.message]
    copies = [
        copy
        for copy in facts.trace.copies_of(transaction.message)
        if copy.primary == primary and copy.holder in holders
    ]
    if any(transaction.n < copy.transaction.n and copy.stored_reply.n < n for copy in copies):
        finding.occasions += 1
        return
    if any(map(_is_within_tls, _sessions_in_use(facts, transaction, acknowledgement, holders))):
        return
    mandatory = facts.parameter(primary, "RejectMessageOnShadowFailure", n)
    if not mandatory and _has_reason_to_go_without_copy(facts, transaction, acknowledgement, holders):
        return
    finding.occasions += 1
    late = [copy for copy in copies if copy.stored_reply.n > n]
    then = f"; {late[0].holder} stored a shadow only {format_time(late[0].stored_reply)}" if late else ""
    finding.add_message_violation(
        message,
        f"{primary} acknowledged it to {transaction.client} with {acknowledgement.code} "
        f"{format_time(acknowledgement)}, session {transaction.session}, before any other server of the boundary had "
        f"stored a shadow{then}",
        n,
        *[copy.stored_reply.n for copy in late],
        row="SR-CRE-07" if transaction.client == "submission" else None,
    )


def _has_reason_to_go_without_copy(
    facts: Facts, transaction: Transaction, answer: Reply, holders: frozenset[str]
) -> bool:
    """Return whether as many attempts as are permitted failed between MAIL and the final reply `answer`, or a holder was silent.

    Callers have seen that no copy was stored.
    """
    made = count_attempts(facts, transaction, answer, holders)
    permitted = permitted_attempts(facts, transaction.server, answer.n)
    enough = sum(made.values()) >= permitted.remote + permitted.local
    return enough or was_any_holder_silent(facts, transaction, answer, holders)


def count_attempts(facts: Facts, transaction: Transaction, answer: Reply, holders: frozenset[str]) -> dict[bool, int]:
    """Return how many attempts at a copy began between MAIL and the final reply `answer`, by where the asked server is.

    The key is True for other sites and False for the primary's own. Callers have seen that no copy was stored, so all of these
    failed. An attempt that ended before its content may have been for this message. A session in which the holder did not offer
    shadow redundancy counts as an attempt too, and so does one that was lost before the primary could ask for a copy.
    """
    primary = transaction.server
    servers = [
        attempt.server for attempt in facts.shadow_attempts_by_primary.get(primary, ())
        if attempt.server in holders and transaction.n < attempt.n < answer.n
        and attempt.message in (None, transaction.message)
    ]  # fmt: skip
    servers += [
        session.server for session in _sessions_in_use(facts, transaction, answer, holders)
        if session.n > transaction.n and (is_turned_away(session) or is_lost_before_request(session))
    ]  # fmt: skip
    far = sum(is_remote(facts, primary, server) for server in servers)
    return {True: far, False: len(servers) - far}


def _is_within_tls(session: Session) -> bool:
    """Return whether a session goes on, or went on, within TLS, where nothing of it is seen."""
    return any(x.command.verb == "STARTTLS" and x.reply is not None and x.reply.code == 220 for x in session.exchanges)


def _sessions_in_use(facts: Facts, transaction: Transaction, answer: Reply, holders: frozenset[str]) -> list[Session]:
    """Return the primary's sessions on `transport` with holders that were open at any time between MAIL and the final reply."""
    return [
        session
        for holder in holders
        for session in facts.sessions_by_client_and_server.get((transaction.server, holder), ())
        if session.listener == "transport"
        and session.n < answer.n and (session.closed is None or session.closed.n > transaction.n)
    ]  # fmt: skip


def was_any_holder_silent(facts: Facts, transaction: Transaction, answer: Reply, holders: frozenset[str]) -> bool:
    """Return whether a holder owed the primary an answer when the primary ended its effort for a message, at the reply `answer`.

    A connection that a fault held or swallowed counts as silence too, one that it delayed beyond that reply, and one that a paused
    holder never took: that is recorded when the primary gives it up.
    """
    context = facts.context
    if any(
        event.server in holders and event.t <= answer.t and facts.is_paused(event.server, answer.n)
        for event in facts.failed_connections(transaction.server, transaction.n)
    ):
        return True
    ended = {fault.n: facts.trace.events[n].t for n, fault in find_dials(facts.trace).ended.items()}
    if any(
        fault.session is None
        and (
            fault.action in HOLDING_FAULTS
            or fault.action == "partition-blackhole"
            or (
                fault.action in DELAYING_FAULTS
                and (
                    ended.get(fault.n, math.inf) >= answer.t
                    or is_end_unclear(facts.ends_and_held_dials, fault, answer.t)
                )
            )
        )
        and fault.client == transaction.server
        and fault.server in holders
        and transaction.n < fault.n
        and fault.t <= answer.t  # at one moment the order of recording is not exact
        for fault in facts.trace.events_of(FaultFired)
    ):  # a holder that never took the connection
        return True
    return any(
        _is_silent(context, session, transaction, answer)
        and not _is_stored_later(facts, session, transaction, answer)
        and not _was_not_waiting(context, session, answer)
        for session in _sessions_in_use(facts, transaction, answer, holders)
    )


def _is_silent(context: CheckContext, session: Session, transaction: Transaction, acknowledgement: Reply) -> bool:
    """Return whether the holder presumably owed the primary an answer when the primary gave up: when it acknowledged or left before.

    The session was used for the message: it was opened, something was said, or a fault fired in it since MAIL. It served no other
    purpose, nothing was refused in it, and no copy was stored. A copy of unknown content counts as stored: a fault may have
    altered it beyond recognition. False where the holder or the link ended the session before the acknowledgement.
    """
    closed = session.closed
    if closed is not None and closed.n < acknowledgement.n and closed.by != "client":
        return False
    begin = transaction.n
    end = acknowledgement.n if closed is None or closed.n > acknowledgement.n else closed.n
    commands = [x.command for x in session.exchanges if begin < x.command.n < end]
    faulted = any(begin < f.n < end and f.session == session.name for f in context.trace.events_of(FaultFired))
    if not (session.n > begin or commands or faulted):
        return False
    has_mail = any(sent.kind == "plain" and begin < sent.n < end for sent in session.transactions)
    is_stored = any(
        sent.kind == "shadow" and sent.message in (None, transaction.message) and sent.n > begin
        and sent.acceptance is not None and sent.acceptance.n < end
        for sent in session.transactions
    )  # fmt: skip
    if has_mail or is_stored or not _OTHER_PURPOSES.isdisjoint(command.verb for command in commands):
        return False
    return all(reply.code // 100 in (2, 3) for reply in session.replies if begin < reply.n < end)


def _was_not_waiting(context: CheckContext, session: Session, acknowledgement: Reply) -> bool:
    """Return whether the primary's next command shows that it was not waiting for the holder when it acknowledged.

    The next command is the first in this session after the acknowledgement, or the one at which a fault ended the session.
    Without one the answer is False. QUIT and RSET show nothing: they give up. Any other shows that the holder had answered, if no
    answer was owed at the acknowledgement, or if less than `_PROMPT_S` lies between the last command before it and this one.
    Where a fault did more than end the session, its record proves nothing.
    """
    faults = [fault for fault in context.trace.events_of(FaultFired) if fault.session == session.name]
    before = [x for x in session.exchanges if x.command.n < acknowledgement.n]
    later: list[Command | FaultFired] = [x.command for x in session.exchanges if x.command.n > acknowledgement.n]
    later += [fault for fault in faults if fault.n > acknowledgement.n]
    following = min(later, key=lambda event: event.n, default=None)
    if following is None or any(fault.action not in ENDING_FAULTS for fault in faults):
        return False
    if isinstance(following, Command) and following.verb in ("QUIT", "RSET"):
        return False
    greeted = any(reply.n < acknowledgement.n for reply in session.replies)
    owed = not greeted or any(x.reply is None or x.reply.n > acknowledgement.n for x in before)
    return not owed or following.t - (before[-1].command.t if before else session.t) < _PROMPT_S


def _is_stored_later(facts: Facts, session: Session, transaction: Transaction, answer: Reply) -> bool:
    """Return whether a copy was stored in this session after the final reply `answer`, for which the primary was still waiting.

    False for a session that a fault held, and where the session had closed before, or the primary had ended its effort.
    """
    return session.name not in facts.trace.held_sessions and any(
        copy.transaction.session == session.name and copy.stored_reply.n > answer.n
        and (session.closed is None or session.closed.n > copy.stored_reply.n)
        and not _had_ended_its_effort(facts, session, transaction, answer, copy.stored_reply)
        for copy in facts.trace.copies_of(transaction.message or "")
    )  # fmt: skip


def _had_ended_its_effort(
    facts: Facts, session: Session, transaction: Transaction, answer: Reply, stored: Reply
) -> bool:
    """Return whether the primary had ended its effort in a session when it gave the sender its final reply `answer`.

    The copy's reply `stored` came later: a fault, or the holder itself, had kept it back. A primary that had left by then says
    nothing more, and the link records its end of the session only behind that reply; the holder's own end may even come first
    where a fault disturbed the session, or the holder was interrupted. One whose effort goes on has to answer all the same
    before the sender's session ends (ruling 16). False for a primary that answers at once: it had met no silence.
    """
    begun_t = max(transaction.dot_t if transaction.dot_t is not None else transaction.t, session.t)
    if answer.t - begun_t < _PROMPT_S:
        return False
    asking = facts.trace.sessions[transaction.session]
    limits = facts.listener_limits_between(asking.server, asking.listener, asking.n, stored.n)
    if stored.t - asking.t >= min(float(limit["connection_timeout"]) for limit in limits) - facts.slack:
        return True
    closed = session.closed
    if closed is None or any(exchange.command.n > stored.n for exchange in session.exchanges):
        return False
    hidden = facts.is_disturbed(session.name) or facts.was_interrupted_between(session.server, session.n, closed.n)
    return closed.by == "client" or hidden
