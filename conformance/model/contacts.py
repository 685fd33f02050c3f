"""Contacts between servers under test: attempts at a session, and the names of queue databases that were given in sessions.

`Facts` computes these once for each history; rules of the model about heartbeats, takeovers and relaying read them. Two functions
say of a session without a request for a shadow copy whether it may have been an attempt at one. `n` is an event's number, times
are documented seconds. A *queue database* is the store of a server's queue: its name changes when the server loses its queue. A
*dial* is a client's call for a connection. A fault that holds a dial back fires when the client dials; the connection, or its
failure (`ConnectFailed`), is recorded later. A server's listener `transport` is the one for other servers.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from conformance.history.events import ConnectFailed, FaultFired
from conformance.trace.context import CheckContext
from conformance.trace.dials import find_dials
from conformance.trace.sessions import Session
from conformance.trace.trace import Trace

_WITHOUT_MEANING = frozenset({"GREETING", "EHLO", "HELO", "QUIT"})
"""Replies to these show a listener, and not that the server behind it works."""

_SET_UP = frozenset({"EHLO", "STARTTLS", "AUTH"})
"""Commands that say nothing of what a session is for."""


@dataclass(frozen=True, slots=True)
class Contact:
    """An attempt of one server at a session with another's listener `transport`, from its begin to its end.

    It is `failed` where the other did not even accept EHLO, or no connection came about. It is `reached` where the other gave a
    positive reply to a command other than EHLO, HELO and QUIT, and the session was not broken off (reset, or closed after a QUIT
    that was not answered). It is `unclear` otherwise. `n` and `t` are those of the dial if a fault held it back, else of the
    connection or of its failure. While the session is open, `end_n` is the number after the history's last event, and `end_t` the
    time of that event.
    """

    n: int
    t: float
    end_n: int
    end_t: float
    outcome: Literal["reached", "failed", "unclear"]


def find_contacts(context: CheckContext) -> Mapping[tuple[str, str], list[Contact]]:
    """Return the contacts of each pair (client, server), in the order in which they began.

    The clients are servers under test, and only their attempts at a listener `transport` count. Sessions that the harness opened
    under a server's name are left out.
    """
    trace = context.trace
    last = trace.events[-1] if trace.events else None
    end = (last.n + 1, last.t) if last else (0, 0.0)
    dials = find_dials(trace)
    found: dict[tuple[str, str], list[Contact]] = defaultdict(list)
    for session in trace.sessions.values():
        if session.listener == "transport" and context.is_opened_by_tested_server(session.client, session.name):
            found[session.client, session.server].append(_contact_of_session(session, dials.ended.get(session.n), *end))
    for event in trace.events_of(ConnectFailed):
        if event.listener == "transport" and context.is_tested_server(event.client):
            dialled = dials.ended.get(event.n, event)
            found[event.client, event.server].append(
                Contact(n=dialled.n, t=dialled.t, end_n=event.n, end_t=event.t, outcome="failed")
            )
    for attempts in found.values():
        attempts.sort(key=lambda contact: contact.n)
    return found


def _contact_of_session(session: Session, dialled: FaultFired | None, end_n: int, end_t: float) -> Contact:
    """Return the contact that a session was.

    `dialled` is the fault that held the dial of this session back: the contact began with it. None without such a fault: the
    contact began with the session. `end_n` and `end_t` are the end of the history, which counts as the contact's end while the
    session is open.
    """
    answered = any(reply.code // 100 == 2 and reply.to not in _WITHOUT_MEANING for reply in session.replies)
    left = any(exchange.command.verb == "QUIT" and exchange.reply is None for exchange in session.exchanges)
    broken = session.closed is not None and (session.closed.how == "reset" or left)
    outcome: Literal["reached", "failed", "unclear"]
    outcome = "failed" if session.keywords is None else "reached" if answered and not broken else "unclear"
    if session.closed is not None:
        end_n, end_t = session.closed.n, session.closed.t
    begun = dialled or session
    return Contact(n=begun.n, t=begun.t, end_n=end_n, end_t=end_t, outcome=outcome)


def find_database_names(trace: Trace) -> Mapping[tuple[str, str], list[tuple[int, float, str]]]:
    """Return the names of queue databases that were seen: (reader, owner) -> event's number, time and name, in order.

    A server names its database when it asks for redundancy, when it grants that, and in its discard lists. The reader is the
    other side. Sessions that the harness opened under a server's name are not left out.
    """
    found: dict[tuple[str, str], list[tuple[int, float, str]]] = defaultdict(list)
    for session in trace.sessions.values():
        for exchange in session.exchanges:
            command, reply = exchange.command, exchange.reply
            if command.operation is None:
                continue
            if command.operation.database is not None:
                found[session.server, session.client].append((command.n, command.t, command.operation.database))
            if reply is not None and reply.operation is not None and reply.operation.database is not None:
                found[session.client, session.server].append((reply.n, reply.t, reply.operation.database))
    for names in found.values():
        names.sort()
    return found


def is_turned_away(session: Session) -> bool:
    """Return whether a session's reply to EHLO did not offer XSHADOWREQUEST, and the client sent nothing but set-up and QUIT.

    False without a reply to EHLO, and for a session on another listener than `transport`.
    """
    verbs = {exchange.command.verb for exchange in session.exchanges}
    offered = session.keywords is None or "XSHADOWREQUEST" in session.keywords
    return session.listener == "transport" and not offered and verbs <= {*_SET_UP, "QUIT"}


def is_lost_before_request(session: Session, *, is_disturbed: bool = False) -> bool:
    """Return whether a session was lost once EHLO was answered, and nothing but set-up is seen of the client.

    Lost: the server or the link ended it, not the client. With `is_disturbed` it counts however it ended, and while it is open: a
    fault may have kept from the history what the client said next. False for a session on another listener than `transport`.
    """
    verbs = {exchange.command.verb for exchange in session.exchanges}
    is_lost = is_disturbed or (session.closed is not None and session.closed.by != "client")
    return session.listener == "transport" and is_lost and session.keywords is not None and verbs <= _SET_UP
