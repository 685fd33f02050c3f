"""Judges how sessions end: after 421 as a client (RL-421-02), and at an orderly stop as a server (RL-STP-01).

421 means that the server closes the transmission channel; it may come at any command, and amid the body (RFC 5321 3.8, 4.2.1). An
*orderly stop* is a stop by a step of the scenario, not a kill. `n` is an event's number, `t` its time in documented seconds.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). A `Transaction` is one mail transaction: `n` and `t` are
those of its MAIL. A session is *altered* where a fault changed, added or removed octets in it, *held* where a fault kept octets
back (`stall`), and *disturbed* where any fault acted in it or may have delayed it. `facts.slack` is by how many seconds a time
may miss a bound.

Records: a `StepEvent` is the begin or end of a step of the scenario; a `FaultFired` event is a fault that acted.
"""

from collections.abc import Iterator

from conformance.history.events import FaultFired, Reply, StepEvent
from conformance.model.facts import Facts
from conformance.model.rules import rule
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import Session, Transaction

_LINGERS_S = 300.0
"""Documented seconds after which a session that neither side has ended since 421 is left open: the wait for a reply to most
commands (RFC 5321 4.5.3.2)."""

_CROSSES_S = 1.0
"""Documented seconds within which a 421 and a command may be under way at once."""

_OTHER_REASONS = ("5.1.", "5.2.", "5.5.", "5.6.", "5.7.", "5.3.4")
"""Enhanced status codes of refusals that have nothing to do with a stop: of an address, a command, a content, a policy, a size."""


@rule("RL-421-02")
def client_leaves_after_421(facts: Facts) -> Finding:
    """Check that a client begins no transaction in a session in which it got 421, and ends the session where the server does not.

    A 421 that answers no command may cross with a MAIL of the client that comes within `_CROSSES_S` of it; if the client goes on as
    far as a final dot there, it did not. A violation too is a session that stays open while the client works for more than
    `_LINGERS_S` in one go. Disturbed sessions are
    left out: what the client had when it went on is not known. A session that is still open, and not for so long, is no occasion.
    """
    finding = Finding("after 421 a client begins no further transaction in the session, and leaves")
    for session in facts.trace.sessions.values():
        goodbye = next((r for r in session.replies if r.code == 421), None)
        if (
            goodbye is None
            or not facts.is_opened_by_tested_server(session.client, session.name)
            or facts.is_disturbed(session.name)
        ):
            continue
        later = next((t for t in session.transactions if t.n > goodbye.n and not _crosses(t, goodbye)), None)
        until = session.closed.t if session.closed is not None else facts.end_t
        lingered = max(
            (min(until, span.until_t) - max(goodbye.t, span.since_t) for span in facts.working_spans[session.client]),
            default=0.0,
        )
        if later is not None:
            finding.add_violation(
                f"session {session.name}: {session.client} began a transaction after {session.server} had said 421",
                later.n,
            )
        elif lingered > _LINGERS_S + facts.slack:
            finding.add_violation(
                f"session {session.name}: {session.client} left it open for {format_seconds(lingered)} after "
                f"{session.server} had said 421",
                goodbye.n,
            )
        finding.occasions += later is not None or lingered > _LINGERS_S or session.closed is not None
    return finding


def _crosses(sent: Transaction, goodbye: Reply) -> bool:
    """Return whether a transaction may have begun before the client could read a 421 that answers no command."""
    return not goodbye.to and sent.t - goodbye.t <= _CROSSES_S and sent.dot_n is None


@rule("RL-STP-01", timed=False)
def orderly_stop_refuses_nothing_for_good(facts: Facts) -> Finding:
    """Check that a server which is being stopped refuses greetings and transactions for now only.

    A violation is 521, 550 or 554, unless its enhanced status code names another reason than the stop (`_OTHER_REASONS`).
    """
    finding = Finding("a server that is being stopped refuses nothing for good")
    for session, begin in _interrupted_sessions(facts):
        replies = [r for r in session.replies if r.n > begin]
        finding.occasions += bool(replies)
        for reply in replies:
            is_judged = reply.to in ("GREETING", "MAIL", "RCPT", "DATA", "CONTENT", "") and reply.code in (
                521,
                550,
                554,
            )
            if is_judged and not (reply.enhanced or "").startswith(_OTHER_REASONS):
                finding.add_violation(
                    f"session {session.name}: {session.server} answered {reply.to or 'nothing'} with {reply.code} while it was "
                    "being stopped",
                    reply.n,
                )
    return finding


def _interrupted_sessions(facts: Facts) -> Iterator[tuple[Session, int]]:
    """Yield the sessions that were open when their server was being stopped, with the number of the event at which that began.

    What the server still said may be recorded after its end. Altered and held sessions are left out.
    """
    for server, begin, end in _orderly_stops(facts):
        for session in facts.trace.sessions.values():
            is_open = session.n < end and (session.closed is None or session.closed.n > begin)
            if session.server == server and is_open and not facts.is_altered_or_held(session.name):
                yield session, begin


def _orderly_stops(facts: Facts) -> list[tuple[str, int, int]]:
    """Return the orderly stops: the server, and the numbers of the two events between which it was being stopped.

    A stop at a moment of the protocol begins when the moment comes, which is recorded as a fault named `stop ...`. The last begin
    before the server had stopped counts, of whichever server it is. A stop without one begins and ends with the same event.
    """
    begun = [e.n for e in facts.trace.events_of(StepEvent) if e.verb == "stop" and e.phase == "began"]
    begun += [e.n for e in facts.trace.events_of(FaultFired) if e.fault.startswith("stop ")]
    return [
        (server, max((n for n in begun if n < event.n), default=event.n), event.n)
        for server, events in facts.node_events.items()
        for event in events
        if event.action == "stopped"
    ]
