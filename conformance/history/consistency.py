"""How far a stored history can be true: events that are numbered without a gap, and speak of what was there before.

A line that is missing, changed or written twice makes a judge accuse the innocent: a reply that was lost looks like one
that was never given. So a history is judged up to the first event that cannot follow those before it.
"""

from collections.abc import Collection, Sequence

from conformance.history.events import (
    AnyEvent,
    Attempt,
    Closed,
    Command,
    CommandRun,
    Configured,
    Connected,
    ConnectFailed,
    Content,
    Inspected,
    MessageMade,
    NodeEvent,
    Reply,
)
from conformance.history.inspected import inspection_problem

_DOORS = ("frontend", "transport", "delivery")


def consistent_prefix(events: Sequence[AnyEvent], servers: Collection[str]) -> tuple[Sequence[AnyEvent], str]:
    """Return the events up to the first that cannot be right, and why that one cannot ('' where all can).

    `servers` are the names of the topology's servers.
    """
    sessions: set[str] = set()
    messages: set[str] = set()
    for place, event in enumerate(events):
        if event.n != place:
            return events[:place], f"event {place} is missing: the next one that is there is event {event.n}"
        if why := _impossible(event, servers, sessions, messages):
            return events[:place], f"event {place}: {why}"
        if isinstance(event, Connected):
            sessions.add(event.session)
        elif isinstance(event, MessageMade):
            messages.add(event.message)
    return events, ""


def _impossible(event: AnyEvent, servers: Collection[str], sessions: set[str], messages: set[str]) -> str:
    match event:
        case Connected() if event.session in sessions:
            return f"the session {event.session[:60]!r} was opened before"
        case Connected() | ConnectFailed() if event.listener in _DOORS and event.server not in servers:
            return f"the topology has no server {event.server[:60]!r}"
        case Command() | Reply() | Content() | Closed() if event.session not in sessions:
            return f"the session {event.session[:60]!r} was never opened"
        case Attempt() if event.message not in messages:
            return f"the message {event.message[:60]!r} was never made"
        case Attempt() if event.session is not None and event.session not in sessions:
            return f"the session {event.session[:60]!r} was never opened"
        case MessageMade() if event.message in messages:
            return f"the message {event.message[:60]!r} was made before"
        case NodeEvent() | Configured() | Inspected() | CommandRun() if event.node not in servers:
            return f"the topology has no server {event.node[:60]!r}"
        case Inspected(state=state) if why := inspection_problem(state):
            return f"what {event.node} printed: {why}"
        case _:
            return ""
