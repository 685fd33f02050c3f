"""Checks that a stored history can be true, before it is judged again.

Events must be numbered without a gap and refer only to sessions, messages and servers that came before or are in the topology,
as far as `_event_problem` looks. A judge cannot detect a missing, changed or duplicated line: a reply that was lost from the
file looks like one that was never given, and the server would be blamed. So a history is judged up to the first event that
cannot follow those before it. A *state* is what a node's command `inspect` printed.
"""

from collections.abc import Collection, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

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

_NODE_LISTENERS = ("frontend", "transport", "delivery")  # the others are those of sinks, which are no servers


class _Item(BaseModel):
    """A message in a queue, as far as checks read it."""

    model_config = ConfigDict(extra="ignore")

    message_id: Any = None


class _Queue(BaseModel):
    """A queue of a node, as far as checks read it."""

    model_config = ConfigDict(extra="ignore")

    kind: str
    next_hop: str | None = None
    items: list[_Item]


class _Inspection(BaseModel):
    """The part of a node's `inspect` output that checks read; `conformance schema inspect` has the whole shape."""

    model_config = ConfigDict(extra="ignore")

    queues: list[_Queue]
    delivered_to: int | list[Any] = 0


_INSPECTION: TypeAdapter[_Inspection] = TypeAdapter(_Inspection)


def inspection_problem(state: object) -> str:
    """Return in words why checks cannot read what a node's `inspect` printed, '' where they can.

    Of several reasons the first is returned, with the place in `state`: `queues.0.kind: Field required`. Nodes are checked by it
    too, before such an output is recorded.
    """
    try:
        _INSPECTION.validate_python(state)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))[:80]}: {first['msg']}".removeprefix(": ")
    return ""


def consistent_prefix(events: Sequence[AnyEvent], servers: Collection[str]) -> tuple[Sequence[AnyEvent], str]:
    """Return the events before the first that cannot be right, and in words why that one cannot, '' where all can.

    `servers` are the names of the topology's servers.
    """
    sessions: set[str] = set()
    messages: set[str] = set()
    for number, event in enumerate(events):
        if event.n != number:
            return events[:number], f"event {number} is missing: the next one that is there is event {event.n}"
        if problem := _event_problem(event, servers, sessions, messages):
            return events[:number], f"event {number}: {problem}"
        if isinstance(event, Connected):
            sessions.add(event.session)
        elif isinstance(event, MessageMade):
            messages.add(event.message)
    return events, ""


def _event_problem(event: AnyEvent, servers: Collection[str], sessions: set[str], messages: set[str]) -> str:
    """Return in words why an event cannot follow events with these sessions and messages, '' where it can.

    `sessions` and `messages` are the names of those that came before, `servers` the names in the topology. Events of other types,
    such as `Delivered`, are not checked.
    """
    match event:
        case Connected() if event.session in sessions:
            return f"the session {event.session[:60]!r} was opened before"
        case Connected() | ConnectFailed() if event.listener in _NODE_LISTENERS and event.server not in servers:
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
