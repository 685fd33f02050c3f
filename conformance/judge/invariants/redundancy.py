"""Two copies at the moment of each acknowledgement (SR-CRE-01, SR-BND-03)."""

from conformance.history.events import Reply
from conformance.judge.finding import Case, Finding, at, named
from conformance.judge.parameters import connection_timeout, parameter, seconds
from conformance.judge.sessions import Session, Transaction

MARGIN = 30.0
"""Seconds before the end of the receiving session at which a server may give up making a shadow: the sender must still
be told."""


def two_copies_at_acknowledgement(case: Case) -> Finding:
    """When a server of 2013 or later acknowledges a message from outside its boundary, another one there has a shadow.

    Without one it may only accept where RejectMessageOnShadowFailure is false and every permitted attempt has failed,
    or one has failed by silence (SR-TMO-01), or nobody is there to ask (SR-BND-08).
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
    if any(t.n < copy.stored.n < told.n for copy in copies):
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
    """Whether the server was seen to do what it must, in vain, between MAIL and its acknowledgement."""
    failed = sum(
        attempt.client == t.server and attempt.server in others and t.n < attempt.n < told.n
        and attempt.message in (None, t.message)
        for attempt in case.trace.shadow_attempts
    )  # fmt: skip
    opened = [
        session
        for session in case.trace.sessions.values()
        if session.client == t.server and session.server in others and t.n < session.n < told.n
    ]
    failed += sum(_turned_away(session) for session in opened)
    if failed >= permitted(case, t.server, others, told.n):
        return True
    begun = t.dot_t if t.dot_t is not None else t.t
    silent = told.t - begun >= seconds(case, t.server, "SendConnectionInactivityTimeout", told.n) - case.slack
    session = case.trace.sessions[t.session]
    until = session.t + connection_timeout(case, t.server, t.listener, told.n) - MARGIN
    tried = failed > 0 or any(_unheard(session, told) for session in opened)
    return tried and (silent or told.t >= until - case.slack)


def _turned_away(session: Session) -> bool:
    """Whether a server found in the EHLO reply that it may not ask for a shadow there, and did nothing else."""
    used = {exchange.command.verb for exchange in session.exchanges}
    offered = session.keywords is None or "XSHADOWREQUEST" in session.keywords
    return session.listener == "transport" and not offered and used <= {"EHLO", "STARTTLS", "AUTH", "QUIT"}


def _unheard(session: Session, told: Reply) -> bool:
    """Whether a server had no answer to its EHLO yet, where it might have asked for a shadow after that."""
    return session.listener == "transport" and all(r.to != "EHLO" or r.n > told.n for r in session.replies)


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
