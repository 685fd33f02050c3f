"""Says in words what an event is: one line for each kind, hostile content made visible and bounded."""

import re

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
    Delivered,
    Drained,
    FaultArmed,
    FaultFired,
    Inspected,
    Lag,
    MessageMade,
    NodeEvent,
    Reply,
    StepEvent,
    Talked,
)
from conformance.report.escaping import visible
from conformance.scenarios.values import format_duration

MAX_WIRE_TEXT = 300
"""Characters of a line from the wire that are shown; the history has up to 2,048 octets of it."""


def format_moment(seconds: float) -> str:
    """Write a time since the cell began (seconds) for reading: `0.004s`, `31.200s`, `2h58m0.5s`."""
    if abs(seconds) < 60:
        return f"{seconds:.3f}s"
    return format_duration(round(seconds, 3))


def rounded_duration(seconds: float) -> str:
    """Write a long while (seconds) with its parts apart: `2 h 58 m`, `1 d 4 h`, `12.5 s`; no more than two parts."""
    parts: list[str] = []
    rest = seconds
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        count, left = divmod(rest, size)
        if count:
            parts.append(f"{count:.0f} {unit}")
            rest = left
    if rest >= 0.05 or not parts:
        parts.append(f"{round(rest, 1):g} s")
    return " ".join(parts[:2])


def reply_text(reply: Reply) -> str:
    """Return a reply as it stood on the wire, its lines joined by ` / `; long ones are cut."""
    return visible(f"{reply.code:03d} " + " / ".join(reply.lines), MAX_WIRE_TEXT)


def operation_text(event: AnyEvent) -> str:
    """Return what a line means in terms of shadow redundancy (`shadow stored: id`), or '' when nothing."""
    operation = event.operation if isinstance(event, Command | Reply) else None
    if operation is None:
        return ""
    parts = [operation.name.replace("-", " ")]
    if operation.shadow_id is not None:
        parts.append(operation.shadow_id)
    if operation.name == "discard-list":
        parts.append(f"{len(operation.shadow_ids)} told, {operation.left if operation.left is not None else '?'} left")
    elif operation.server is not None:
        parts.append(operation.server + (f" ({operation.database})" if operation.database else ""))
    return visible(": ".join(parts), MAX_WIRE_TEXT)


def event_text(event: AnyEvent) -> str:
    """Return what happened, in one printable line, without parties and time where those stand beside it."""
    return visible(_described(event))


def _described(event: AnyEvent) -> str:  # one branch a kind: a table of lambdas would hide the types
    match event:
        case Connected():
            return f"connected to {event.listener}"
        case ConnectFailed():
            return f"could not connect to {event.listener}: {visible(event.reason, MAX_WIRE_TEXT)}"
        case Command():
            return visible(event.line, MAX_WIRE_TEXT)
        case Reply():
            return reply_text(event) + (f"  (for {visible(event.recipient, 80)})" if event.recipient else "")
        case Content():
            return f"{event.digest.size} octets and final dot, {_identity(event.digest.message_id)}"
        case Closed():
            return f"closed by {event.by} ({event.how})"
        case FaultFired():
            return f"fault {event.fault} fired: {event.action}" + _more(event.detail)
        case FaultArmed():
            done = "healed" if event.healed else "armed"
            return f"fault {event.fault} {done}: {event.action} on {visible(', '.join(event.links), MAX_WIRE_TEXT)}"
        case StepEvent():
            label = f" [{event.label}]" if event.label else ""
            return f"step {event.path} {event.verb}{label} {event.phase}" + _more(event.detail)
        case MessageMade():
            to = visible(", ".join(event.recipients), 120)
            return f"message {event.message} made: {event.digest.size} octets, {visible(event.sender, 80)} to {to}"
        case Attempt():
            answer = f"{event.code} {visible(event.text, 120)}" if event.code is not None else visible(event.text, 120)
            return f"attempt {event.attempt} of {event.message}: {event.outcome} {answer}".rstrip()
        case Delivered():
            return f"delivered to {visible(event.recipient, 80)}: {_identity(event.digest.message_id)}"
        case Talked():
            return f"talk {event.conversation} ended" + _more(event.problem)
        case NodeEvent():
            return f"node {event.node} {event.action}" + _more(event.detail)
        case Configured():
            taken = f"refused: {visible(event.refused, MAX_WIRE_TEXT)}" if event.refused is not None else "taken"
            return f"node {event.node} was offered {visible(str(event.changes), MAX_WIRE_TEXT)}: {taken}"
        case Inspected():
            return f"node {event.node} was inspected: {visible(str(event.state), MAX_WIRE_TEXT)}"
        case CommandRun():
            end = _more(event.failed) if event.failed else ""
            return (
                f"node {event.node} was told {visible(' '.join([event.command, *event.arguments]), MAX_WIRE_TEXT)}{end}"
            )
        case Drained():
            quiet = "quiet" if event.quiet else "NOT quiet"
            return f"drained: {quiet} after {rounded_duration(event.waited)}" + _more(event.detail)
        case Lag():
            return f"the harness was late by up to {event.seconds:.3f}s"


def _identity(message_id: str | None) -> str:
    return f"Message-ID {visible(message_id, 120)}" if message_id else "no Message-ID"


def _more(detail: str) -> str:
    return f": {visible(detail, MAX_WIRE_TEXT)}" if detail else ""


_MESSAGE_ID = re.compile(r" \((<[^<>()\s]+@[^<>()\s]+>)\)")


def without_message_ids(sentence: str) -> str:
    """Return a sentence without the Message-IDs behind the labels of messages: `m#1 (<x@y>)` is `m#1`."""
    return _MESSAGE_ID.sub("", sentence)


def listed_message_ids(sentence: str) -> str:
    """Return the Message-IDs that `label_alone` takes out, once each, or ''."""
    return ", ".join(dict.fromkeys(_MESSAGE_ID.findall(sentence)))
