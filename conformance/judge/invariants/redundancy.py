"""Two copies at the moment of each acknowledgement (SR-CRE-01, SR-BND-03)."""

from conformance.faults import ENDING_FAULTS
from conformance.history.events import Command, FaultFired, Reply
from conformance.judge.finding import Case, Finding, at, named
from conformance.judge.invariants.check import invariant
from conformance.judge.parameters import parameter, seconds
from conformance.judge.sessions import Session, Transaction


@invariant("two-copies-at-acknowledgement", "SR-CRE-01", "SR-BND-03")
def two_copies_at_acknowledgement(case: Case) -> Finding:
    """When a server of 2013 or later acknowledges a message from outside its boundary, another one there has a shadow.

    The copy is one of this transaction: its MAIL comes after the sender's (ruling 14). Without one the server may only
    accept where RejectMessageOnShadowFailure is false and every permitted attempt has failed, or a shadow server was
    silent (SR-TMO-01, ruling 16), or nobody is there to ask (SR-BND-08).
    """
    finding = Finding("a stored shadow copy at the moment of each acknowledgement")
    if "shadow-2013" not in case.claims:
        return finding
    for message in case.trace.messages:
        for t in case.trace.transactions_of(message):
            if t.accepted is not None and t.session not in case.trace.tampered and _from_outside(case, t):
                _judge(case, finding, t, t.accepted)
    return finding


def _from_outside(case: Case, t: Transaction) -> bool:
    return (
        case.tested(t.server)
        and t.way != "shadow"
        and t.listener in ("frontend", "transport")
        and not case.of_2010(t.server)
        and t.client not in case.cell.topology.boundary(t.server)
    )


def _judge(case: Case, finding: Finding, t: Transaction, told: Reply) -> None:
    others = _others(case, t.server)
    if not others or not parameter(case, t.server, "ShadowRedundancyEnabled", told.n):
        return
    assert t.message is not None
    made = case.trace.messages[t.message]
    copies = [c for c in case.trace.copies_of(t.message) if c.primary == t.server and c.holder in others]
    if any(t.n < copy.transaction.n and copy.stored.n < told.n for copy in copies):
        finding.occasions += 1
        return
    mandatory = parameter(case, t.server, "RejectMessageOnShadowFailure", told.n)
    if not mandatory and _impossible(case, t, told, others):
        return
    finding.occasions += 1
    late = [copy for copy in copies if copy.stored.n > told.n]
    then = f"; {late[0].holder} stored a shadow only {at(late[0].stored)}" if late else ""
    finding.violated(
        f"{named(made)}: {t.server} acknowledged it to {t.client} with {told.code} {at(told)}, session {t.session}, before "
        f"any other server of the boundary had stored a shadow{then}",
        told.n,
        *[copy.stored.n for copy in late],
        message=t.message,
        row="SR-CRE-07" if t.client == "submission" else None,
    )


def _others(case: Case, server: str) -> frozenset[str]:
    """Return the servers that may keep a shadow for one."""
    topology = case.cell.topology
    return frozenset(
        other
        for other in topology.boundary(server) - {server}
        if not case.of_2010(other) and topology.by_name[other].role in ("mailbox", "hub")
    )


def _impossible(case: Case, t: Transaction, told: Reply, others: frozenset[str]) -> bool:
    """Whether the server was seen to do what it must, in vain, between MAIL and its acknowledgement.

    Each permitted attempt failed, or one met with silence: on that a server may end its effort at any moment (ruling 16).
    A shadow server whose answer is still waited for, and comes, was not silent.
    """
    failed = sum(
        attempt.client == t.server and attempt.server in others and t.n < attempt.n < told.n
        and attempt.message in (None, t.message)
        for attempt in case.trace.shadow_attempts
    )  # fmt: skip
    used = [
        session
        for session in case.trace.sessions.values()
        if session.client == t.server and session.server in others and session.listener == "transport"
        and session.n < told.n and (session.closed is None or session.closed.n > t.n)
    ]  # fmt: skip
    failed += sum(_turned_away(session) for session in used if session.n > t.n)
    if failed >= permitted(case, t.server, others, told.n):
        return True
    return any(
        _silent(case, session, t, told)
        and not _stored_later(case, session, t, told)
        and not _went_on(case, session, told)
        for session in used
    )


def _silent(case: Case, session: Session, t: Transaction, told: Reply) -> bool:
    """Whether a shadow server owed an answer when the server gave up: at its acknowledgement, or when it left before.

    What is held on the way to the shadow server is not in the history yet. So a session that was used since the sender's
    MAIL, opened for the message or kept from before, is one that met with silence if nothing was refused in it and it
    served no other purpose. A copy that was taken is an answer, also one that is so altered that nobody can tell of what.
    """
    closed = session.closed
    if closed is not None and closed.n < told.n and closed.by != "client":
        return False
    until = told.n if closed is None or closed.n > told.n else closed.n
    said = [x.command for x in session.exchanges if t.n < x.command.n < until]
    struck = any(t.n < fault.n < until and fault.session == session.name for fault in case.trace.of(FaultFired))
    if not (session.n > t.n or said or struck):
        return False
    plain = any(sent.way == "plain" and t.n < sent.n < until for sent in session.transactions)
    stored = any(
        sent.way == "shadow" and sent.message in (None, t.message) and sent.n > t.n
        and sent.accepted is not None and sent.accepted.n < until
        for sent in session.transactions
    )  # fmt: skip
    other = plain or stored or not {command.verb for command in said}.isdisjoint(_OTHER_PURPOSES)
    return not other and all(reply.code // 100 in (2, 3) for reply in session.replies if t.n < reply.n < until)


_OTHER_PURPOSES = frozenset({"QUIT", "XQDISCARD", "XQUERYDISCARD"})
"""Verbs of a session that is no attempt at a shadow under way: it asks for discard status, or has ended in good order."""


def _went_on(case: Case, session: Session, told: Reply) -> bool:
    """Whether the server was still at it when it acknowledged.

    The next thing that it said in the session, or would have said when a fault ended it, ended neither the session nor the
    transaction, and it had been owed no answer there, or said it within a second of what it had said last. A fault that
    holds what is said tells nothing of when it was said.
    """
    faults = [fault for fault in case.trace.of(FaultFired) if fault.session == session.name]
    before = [x for x in session.exchanges if x.command.n < told.n]
    then: list[Command | FaultFired] = [x.command for x in session.exchanges if x.command.n > told.n]
    later = min([*then, *(fault for fault in faults if fault.n > told.n)], key=lambda event: event.n, default=None)
    if later is None or any(fault.action not in ENDING_FAULTS for fault in faults):
        return False
    if isinstance(later, Command) and later.verb in ("QUIT", "RSET"):
        return False
    greeted = any(reply.n < told.n for reply in session.replies)
    owed = not greeted or any(x.reply is None or x.reply.n > told.n for x in before)
    return not owed or later.t - (before[-1].command.t if before else session.t) < AT_ONCE


AT_ONCE = 1.0
"""Documented seconds within which an answer comes from a server that is not silent."""


def _stored_later(case: Case, session: Session, t: Transaction, told: Reply) -> bool:
    """Whether the copy was stored all the same, in a session that the server had not left and that no fault held."""
    return session.name not in case.trace.held and any(
        copy.transaction.session == session.name and copy.stored.n > told.n
        and (session.closed is None or session.closed.n > copy.stored.n)
        for copy in case.trace.copies_of(t.message or "")
    )  # fmt: skip


def _turned_away(session: Session) -> bool:
    """Whether a server found in the EHLO reply that it may not ask for a shadow there, and did nothing else."""
    used = {exchange.command.verb for exchange in session.exchanges}
    offered = session.keywords is None or "XSHADOWREQUEST" in session.keywords
    return session.listener == "transport" and not offered and used <= {"EHLO", "STARTTLS", "AUTH", "QUIT"}


def permitted(case: Case, server: str, others: frozenset[str], n: int) -> int:
    """Return how many attempts the parameters in force permit (SR-PRF-01 to SR-PRF-06)."""
    home = case.site(server)
    local = any(case.site(other) == home for other in others)
    remote = any(case.site(other) != home for other in others)
    near = int(seconds(case, server, "MaxRetriesForLocalSiteShadow", n)) if local else 0
    far = int(seconds(case, server, "MaxRetriesForRemoteSiteShadow", n)) if remote else 0
    preference = parameter(case, server, "ShadowMessagePreferenceSetting", n)
    if not remote or preference == "LocalOnly":
        return near
    return far if preference == "RemoteOnly" else far + near
