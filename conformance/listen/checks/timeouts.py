"""Checks how long a client waits for a reply (RFC 5321 4.5.3.2), in sessions in which the listener held one back.

A fault of the listener holds a reply back; how long the client waits then is compared with the minimum. All times are
real seconds since the listener began. A *tally* counts the occasions to violate a clause, and has what is wrong or
cannot be decided.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.history.events import Command, Content, FaultFired
from conformance.listen.checks.tally import Tally
from conformance.listen.record import HOLDING_ACTIONS, ListenRecord
from conformance.trace.finding import format_seconds
from conformance.trace.sessions import Session
from conformance.trace.trace import Trace

_MINIMUM = {
    "GREETING": ("greeting-timeout", "RFC 5321 4.5.3.2.1", "the greeting", 300.0),
    "MAIL": ("mail-timeout", "RFC 5321 4.5.3.2.2", "the reply to MAIL", 300.0),
    "RCPT": ("rcpt-timeout", "RFC 5321 4.5.3.2.3", "the reply to RCPT", 300.0),
    "DATA": ("data-timeout", "RFC 5321 4.5.3.2.4", "the reply to DATA", 120.0),
    "BLOCK": ("block-timeout", "RFC 5321 4.5.3.2.5", "room for more content", 180.0),
    "CONTENT": ("dot-timeout", "RFC 5321 4.5.3.2.6", "the reply to the final dot", 600.0),
}
"""What is awaited -> check, clause, words, and the seconds that a client should wait at least."""

_TOLERANCE_S = 1.0
"""The client's clock begins before its octets arrive here."""

_GIVES_UP = frozenset({"QUIT", "RSET", "EHLO", "HELO"})
_PIPELINED_S = 0.5
"""A command that follows the awaited one within this time was sent without waiting, and does not mean giving up."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a client was waiting for when a session ended or the listener stopped: since when, and until when.

    `gave_up` is False where the listener ended it.
    """

    awaited: str
    since: float
    until: float
    gave_up: bool

    @property
    def seconds(self) -> float:
        """How many seconds the client waited; 0 where `until` is before `since`."""
        return max(0.0, self.until - self.since)


def check_timeouts(record: ListenRecord, trace: Trace) -> list[Tally]:
    """Check each phase's minimum. A shorter wait that the listener ended, or during which it stopped, is inconclusive.

    A session counts if a fault held something back in it (`held`). Its `wait` is the last one: `awaited` names what for,
    and `gave_up` says whether the client ended it. `half_closed`: when the client sent FIN after QUIT, without all replies.
    """
    tallies = {
        awaited: Tally(check, clause, f"waits at least {format_seconds(least)} for {words}", should=True)
        for awaited, (check, clause, words, least) in _MINIMUM.items()
    }
    early = {octets.session: octets.t for octets in reversed(record.early)}
    held = {e.session: e for e in trace.events_of(FaultFired) if e.session is not None and e.action in HOLDING_ACTIONS}
    for name, fault in held.items():
        wait = last_wait(trace.sessions[name], trace, fault, record.ended, early.get(name))
        if wait is None or wait.awaited not in _MINIMUM:
            continue
        _, _, words, least = _MINIMUM[wait.awaited]
        tally = tallies[wait.awaited]
        waited = f"{format_seconds(wait.seconds)} without {words}; {format_seconds(least)} are the minimum"
        half_closed = record.half_closed.get(name)
        if half_closed is not None and half_closed - wait.since < least - _TOLERANCE_S:
            tally.leave_open("the client closed its direction behind QUIT: how long it waited cannot be seen", name)
        elif wait.seconds >= least - _TOLERANCE_S:
            tally.occasions += 1
        elif wait.gave_up:
            tally.violate(f"gave up after {waited}", name)
        else:
            tally.leave_open(f"had waited {waited}", name)
    return list(tallies.values())


def last_wait(
    session: Session, trace: Trace, fault: FaultFired, ended: float, early: float | None = None
) -> Wait | None:
    """Return what the client was waiting for at the end of a session in which `fault` held something back; None for nothing.

    `ended` is when the listener stopped. `early` is when the client sent octets although the reply to DATA was due, None if it
    did not: they end the wait, as a client that gives up does. `Wait.awaited` is GREETING, a verb, CONTENT (the reply to the final
    dot), or BLOCK: the listener stopped reading in the body.
    """
    contents = [event for event in trace.events_of(Content) if event.session == session.name]
    sent = sorted([*(x.command for x in session.exchanges), *contents], key=lambda event: event.n)
    since = max((reply.t for reply in session.replies), default=session.t)
    answered = len(session.replies)
    if answered == 0:
        awaited, start = "GREETING", session.t
    elif answered - 1 < len(sent):
        first = sent[answered - 1]
        awaited, start = (first.verb, first.t) if isinstance(first, Command) else ("CONTENT", first.t)
    elif (
        session.exchanges
        and session.exchanges[-1].command.verb == "DATA"
        and "of the body" in fault.detail.partition(":")[0]
    ):
        awaited, start = "BLOCK", fault.t
    else:
        return None
    since = max(since, start)
    later = [event for event in sent[answered:] if isinstance(event, Command)]
    until, gave_up = _end_of_wait(later, since, session, ended)
    if awaited == "DATA" and early is not None and since + _PIPELINED_S < early < until:
        until, gave_up = early, True
    return Wait(awaited, since, until, gave_up)


def _end_of_wait(later: Iterable[Command], since: float, session: Session, ended: float) -> tuple[float, bool]:
    """Return when a wait ended, and whether the client ended it: by QUIT, RSET, EHLO or HELO, which give up, or by closing.

    `later` are the commands behind the one that got no reply, `since` is when the wait began; `ended` is when the listener
    stopped. A command within half a second (`_PIPELINED_S`) of the beginning was pipelined, and gives nothing up.
    """
    for command in later:
        if command.verb in _GIVES_UP and command.t - since > _PIPELINED_S:
            return command.t, True
    if session.closed is not None and session.closed.by == "client":
        return session.closed.t, True
    return (session.closed.t if session.closed is not None else ended), False
