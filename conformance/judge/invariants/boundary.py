"""Shadows stay within the boundary (SR-BND-01, SR-BND-02, SR-BND-05), and shadow verbs where they belong (SR-WIR)."""

from typing import get_args

from conformance.history.dialects import Keyword
from conformance.history.events import OperationName
from conformance.judge.finding import Case, Finding
from conformance.judge.invariants.check import invariant
from conformance.judge.sessions import Session

SHADOW_OPERATIONS: frozenset[OperationName] = frozenset(
    {"request-shadow", "track-shadow", "shadow-message", "query-discard"}
)
KEYWORDS = frozenset(get_args(Keyword))
"""Keywords of an EHLO reply by which shadow verbs are offered."""

CLOSED_DOORS = frozenset({"frontend", "delivery"})
"""Listeners at which no shadow verb is ever offered or taken (wire-profile.md)."""


@invariant("shadow-inside-boundary", "SR-BND-01", "SR-BND-02", "SR-BND-05")
def shadow_inside_boundary(case: Case) -> Finding:
    """Shadows are asked for, sent and queried only within the boundary, and never on the primary itself.

    What passes between a server of 2010 and any other has no boundary: there the sender keeps the shadow.
    """
    finding = Finding("shadows only on other servers of the boundary")
    for session in case.trace.sessions.values():
        if not (case.acts(session.client, session.name) and case.tested(session.server)):
            continue
        if case.of_2010(session.client) or case.of_2010(session.server):
            continue
        inside = session.server != session.client and session.server in case.cell.topology.boundary(session.client)
        for what, n in _shadow_traffic(session):
            finding.occasions += 1
            if not inside:
                finding.violated(f"{session.client} {what} {session.server} (session {session.name})", n)
    return finding


def _shadow_traffic(session: Session) -> list[tuple[str, int]]:
    found = [("sent a shadow message to", t.n) for t in session.transactions if t.way == "shadow"]
    words = {"request-shadow": "asked for a shadow at", "query-discard": "asked for its discard status at"}
    for exchange in session.exchanges:
        operation = exchange.command.operation
        if operation is not None and operation.name in words:
            found.append((words[operation.name], exchange.command.n))
    return found


@invariant("shadow-verbs-only-where-offered", "SR-WIR-02", "SR-WIR-01")
def shadow_verbs_only_where_offered(case: Case) -> Finding:
    """No frontend and no delivery listener offers a shadow verb, and nobody to whom none was offered can use one.

    A use that was not offered is refused: with 5yz, nothing stored and nothing disclosed.
    """
    finding = Finding(
        "shadow verbs are offered on the transport listener only, and refused to whom they were not offered"
    )
    for session in case.trace.sessions.values():
        if not case.tested(session.server) or session.name in case.trace.tampered:
            continue
        offered = (session.keywords or frozenset()) & KEYWORDS
        if session.listener in CLOSED_DOORS and session.keywords is not None:
            finding.occasions += 1
            if offered:
                finding.violated(
                    f"{session.server} offers {min(offered)} to {session.client} at its {session.listener} listener "
                    f"(session {session.name})",
                    session.n,
                )
        if not offered:
            _refused(finding, session)
    return finding


def _refused(finding: Finding, session: Session) -> None:
    for exchange in session.exchanges:
        operation, reply = exchange.command.operation, exchange.reply
        if operation is None or operation.name not in SHADOW_OPERATIONS or reply is None:
            continue
        finding.occasions += 1
        if reply.code // 100 != 5 and reply.code != 421:
            finding.violated(
                f"{session.server} was asked {exchange.command.verb} by {session.client}, to whom it had not offered it, "
                f"and answered {reply.code} (session {session.name})",
                reply.n,
                exchange.command.n,
            )
