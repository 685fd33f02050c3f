"""Judges where shadow redundancy is used: within the boundary (SR-BND-01, SR-BND-02, SR-BND-05), and with shadow verbs only
where they were offered (SR-WIR-01, SR-WIR-02).

The *boundary* of a server is the set of servers that may hold its shadow copies: its DAG, or its Active Directory site.
*Shadow verbs* are the commands of shadow redundancy, offered by keywords in the reply to EHLO. `n` is an event's number.

Each rule judges one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model`
describes (`timed=False`: it compares no times). `session.keywords` are those of the reply to EHLO, None without one. A command has
an `operation` if it is a shadow verb; a transaction of kind `shadow` hands over a shadow copy. A session is *altered* where a
fault changed, added or removed octets in it. A *server under test* is one of the topology's.
"""

from typing import get_args

from conformance.history.dialects import ShadowKeyword
from conformance.history.values import OperationName
from conformance.model.parameter_changes import ParameterChanges
from conformance.model.rules import invariant
from conformance.trace.context import CheckContext
from conformance.trace.finding import Finding
from conformance.trace.sessions import Session

_SHADOW_OPERATIONS: frozenset[OperationName] = frozenset(
    {"request-shadow", "track-shadow", "shadow-message", "query-discard"}
)
_KEYWORDS = frozenset(get_args(ShadowKeyword))
"""Keywords of an EHLO reply by which shadow verbs are offered."""

_LISTENERS_WITHOUT_VERBS = frozenset({"frontend", "delivery"})
"""Listeners that never offer or accept a shadow verb (wire-profile.md)."""


@invariant("shadow-inside-boundary", "SR-BND-01", "SR-BND-02", "SR-BND-05", timed=False)
def shadow_inside_boundary(context: CheckContext) -> Finding:
    """Check that servers send and request shadow copies, and ask for discard status, only at other servers of their boundary.

    Each such command is an occasion. Left out are sessions that the harness opened, sessions with the harness's sinks, and
    sessions with a server of 2010 on either side: there the sender keeps the shadow, and no boundary counts.
    """
    finding = Finding("shadows only on other servers of the boundary")
    for session in context.trace.sessions.values():
        if not context.is_opened_by_tested_server(session.client, session.name):
            continue
        if not context.is_tested_server(session.server):
            continue
        if context.is_2010(session.client) or context.is_2010(session.server):
            continue
        boundary = context.cell.topology.boundary(session.client)
        inside = session.server != session.client and session.server in boundary
        for words, n in _shadow_traffic(session):
            finding.occasions += 1
            if not inside:
                finding.add_violation(f"{session.client} {words} {session.server} (session {session.name})", n)
    return finding


def _shadow_traffic(session: Session) -> list[tuple[str, int]]:
    """Return what the client did in a session for shadow redundancy, as (words, number of the event).

    The server's name completes the words: `sent a shadow message to`. Shadow messages come first, then requests for a copy and
    queries for discard status.
    """
    traffic = [("sent a shadow message to", t.n) for t in session.transactions if t.kind == "shadow"]
    words = {"request-shadow": "asked for a shadow at", "query-discard": "asked for its discard status at"}
    for exchange in session.exchanges:
        operation = exchange.command.operation
        if operation is not None and operation.name in words:
            traffic.append((words[operation.name], exchange.command.n))
    return traffic


@invariant("shadow-verbs-only-where-offered", "SR-WIR-02", "SR-WIR-01", timed=False)
def shadow_verbs_only_where_offered(context: CheckContext) -> Finding:
    """Check that no frontend or delivery listener offers a shadow verb, and that servers refuse what they did not offer.

    The offer is judged in each session with such a listener in which EHLO was answered, the refusals on every listener. A session
    in which the server offered any shadow verb is not judged for refusals, nor is a reply before which redundancy may have been
    switched while the session was open. Sessions that a fault altered are left out.
    """
    changes = ParameterChanges(context)
    finding = Finding(
        "shadow verbs are offered on the transport listener only, and refused to clients to which they were not offered"
    )
    for session in context.trace.sessions.values():
        if not context.is_tested_server(session.server) or session.name in context.trace.altered_sessions:
            continue
        offered = (session.keywords or frozenset()) & _KEYWORDS
        if session.listener in _LISTENERS_WITHOUT_VERBS and session.keywords is not None:
            finding.occasions += 1
            if offered:
                finding.add_violation(
                    f"{session.server} offers {min(offered)} to {session.client} at its {session.listener} listener "
                    f"(session {session.name})",
                    session.n,
                )
        if not offered:
            _check_refusals(finding, session, changes)
    return finding


def _check_refusals(finding: Finding, session: Session, changes: ParameterChanges) -> None:
    """Count an occasion for each reply to a shadow verb in a session; add a violation for each that is neither 5yz nor 421.

    To be called for a session in which no shadow verb was offered.
    """
    for exchange in session.exchanges:
        operation, reply = exchange.command.operation, exchange.reply
        if operation is None or operation.name not in _SHADOW_OPERATIONS or reply is None:
            continue
        if len(changes.possible_values(session.server, "ShadowRedundancyEnabled", session.n, reply.n)) > 1:
            continue
        finding.occasions += 1
        if reply.code // 100 != 5 and reply.code != 421:
            finding.add_violation(
                f"{session.server} was asked {exchange.command.verb} by {session.client}, to whom it had not offered it, "
                f"and answered {reply.code} (session {session.name})",
                reply.n,
                exchange.command.n,
            )
