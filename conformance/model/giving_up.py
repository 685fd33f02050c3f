"""What a server may give up: a message that it could not deliver for its whole lifetime, or that was refused, with its report.

A message expires after MessageExpirationTimeout (RFC 5321 4.5.4.1), and its sender gets a report. A message with a null
reverse-path causes none (RL-DSN-02), and so does the report itself: where the way to the sender is as broken as that to the
recipient, the report expires as well. Then a message is gone without a fault of any server.

A server gives up only what it tries in vain: its last attempt at the next hop before the end of the lifetime must have failed.
`address` is a recipient, or the sender as the recipient of the report. Times are documented seconds.
"""

from collections.abc import Iterator

from conformance.history.events import ConnectFailed, FaultFired, MessageMade
from conformance.trace.context import CheckContext
from conformance.trace.parameters import numeric_parameter_at
from conformance.trace.sessions import Session


def is_given_up_without_report(context: CheckContext, message: MessageMade, recipient: str, by_t: float) -> bool:
    """Return whether a server may have given up a message by a time, for a recipient, and has no report to pass on any more."""
    return any(
        not message.sender or _is_report_given_up(context, message, server, failed_t, by_t)
        for server, since_t in _servers_with(context, message)
        for failed_t in _failures(context, server, recipient, since_t)
        if failed_t <= by_t
    )


def _servers_with(context: CheckContext, message: MessageMade) -> Iterator[tuple[str, float]]:
    """Yield each server under test that was given a message or a shadow copy of it, and when."""
    for given in context.trace.transactions_of(message.message):
        if context.is_tested_server(given.server) and given.dot_t is not None:
            yield given.server, given.dot_t


def _is_report_given_up(context: CheckContext, message: MessageMade, maker: str, failed_t: float, by_t: float) -> bool:
    """Return whether the report that a server makes at a time, or a server that took it, may have given it up by another time."""
    carriers = [(maker, failed_t)] + [
        (t.server, t.dot_t)
        for t in context.trace.transactions
        if t.digest is not None
        and t.digest.report == "delivery-status"
        and t.digest.about == message.message_id
        and t.dot_t is not None
        and context.is_tested_server(t.server)
    ]
    return any(
        given_up_t <= by_t
        for server, since_t in carriers
        for given_up_t in _failures(context, server, message.sender, since_t)
    )


def _failures(context: CheckContext, server: str, address: str, since_t: float) -> Iterator[float]:
    """Yield the times at which a server may give up what it has for an address since a time: it was refused, or its time is up."""
    attempts = _attempts(context, server, address)
    yield from (t for t, outcome in attempts if outcome == "refused" and t >= since_t)
    n = next((event.n for event in context.trace.events if event.t >= since_t), 0)
    expires_t = since_t + numeric_parameter_at(context, server, "MessageExpirationTimeout", n)
    before = [outcome for t, outcome in attempts if since_t <= t <= expires_t + context.slack]
    if before and before[-1] == "failed":
        yield expires_t


def _attempts(context: CheckContext, server: str, address: str) -> list[tuple[float, str]]:
    """Return when a server tried to reach a next hop for an address, in order: it `failed`, was `refused`, or it `worked`."""
    hops = {hop.removesuffix(".delivery") for hop in context.cell.topology.next_hops(server, address)}
    found = [(e.t, "failed") for e in context.trace.events_of(ConnectFailed) if e.client == server and e.server in hops]
    broken = {e.session for e in context.trace.events_of(FaultFired)}
    for session in context.trace.sessions.values():
        if session.client == server and session.server in hops:
            outcome = _outcome(context, session, address, session.name in broken)
            found += [(session.t, outcome)] if outcome else []
    return sorted(found)


def _outcome(context: CheckContext, session: Session, address: str, broken: bool) -> str:
    """Return how a session ended for an address, '' for one that nothing shows to be an attempt: it served another purpose."""
    normalize_all = context.normalize_addresses
    wanted = normalize_all((address,))
    own = [t for t in session.transactions if wanted & normalize_all((*t.recipients, *t.refused))]
    if any(wanted & normalize_all(t.accepted_recipients) for t in own):
        return "worked"
    replies = [reply for reply in session.replies if not session.transactions or any(reply.n > t.n for t in own)]
    if any(reply.code // 100 == 5 for reply in replies):
        return "refused"
    return "failed" if broken or any(reply.code // 100 == 4 for reply in replies) else ""
