"""One line of text for each kind of event, with invisible characters escaped and long values cut; and times as text.

Terminals, pages, diagrams and Allure's results show these. `visible` escapes what a server under test may have written, and
cuts it.
"""

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
    """Return a time in seconds since the cell began as text: `0.004s`, `31.200s`, `2h58m0.5s`."""
    if abs(seconds) < 60:
        return f"{seconds:.3f}s"
    return format_duration(round(seconds, 3))


def rounded_duration(seconds: float) -> str:
    """Return a duration in seconds as text: `2 h 58 m`, `1 d 4 h`, `12.5 s`.

    The seconds are rounded to tenths. The text has its two largest units that are not 0; smaller ones are cut off.
    """
    parts: list[str] = []
    rest = round(seconds, 1)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        count, remainder = divmod(rest, size)
        if count:
            parts.append(f"{count:.0f} {unit}")
            rest = remainder
    if round(rest, 1) or not parts:
        parts.append(f"{round(rest, 1):g} s")
    return " ".join(parts[:2])


def reply_text(reply: Reply) -> str:
    """Return the code and lines of a reply, joined by ` / `, cut at 300 characters."""
    return visible(f"{reply.code:03d} " + " / ".join(reply.lines), MAX_WIRE_TEXT)


def operation_text(event: AnyEvent) -> str:
    """Return the operation of shadow redundancy that a command or reply is (`shadow stored: ID`), or '' for others.

    A discard list says how many ids it has, and how many notifications the server still keeps (`?`: it did not say).
    """
    operation = event.operation if isinstance(event, Command | Reply) else None
    if operation is None:
        return ""
    parts = [operation.name.replace("-", " ")]
    if operation.shadow_id is not None:
        parts.append(operation.shadow_id)
    if operation.name == "discard-list":
        parts.append(
            f"{len(operation.shadow_ids)} listed, {operation.left if operation.left is not None else '?'} left"
        )
    elif operation.server is not None:
        parts.append(operation.server + (f" ({operation.database})" if operation.database else ""))
    return visible(": ".join(parts), MAX_WIRE_TEXT)


def event_text(event: AnyEvent) -> str:
    """Return what happened, as one printable line; parties and time are left out where callers show them beside it."""
    return visible(_raw_event_text(event))


def _raw_event_text(event: AnyEvent) -> str:  # a table of lambdas instead of branches would lose the types
    """Return the text of an event, which `event_text` makes printable; values from the wire are cut and printable already."""
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
            return f"{event.digest.size} octets and final dot, {_message_id_text(event.digest.message_id)}"
        case Closed():
            return f"closed by {event.by} ({event.how})"
        case FaultFired():
            return f"fault {event.fault} fired: {event.action}" + _detail_suffix(event.detail)
        case FaultArmed():
            done = "healed" if event.healed else "armed"
            return f"fault {event.fault} {done}: {event.action} on {visible(', '.join(event.links), MAX_WIRE_TEXT)}"
        case StepEvent():
            label = f" [{event.label}]" if event.label else ""
            return f"step {event.path} {event.verb}{label} {event.phase}" + _detail_suffix(event.detail)
        case MessageMade():
            to = visible(", ".join(event.recipients), 120)
            return f"message {event.message} made: {event.digest.size} octets, {visible(event.sender, 80)} to {to}"
        case Attempt():
            answer = f"{event.code} {visible(event.text, 120)}" if event.code is not None else visible(event.text, 120)
            return f"attempt {event.attempt} of {event.message}: {event.outcome} {answer}".rstrip()
        case Delivered():
            return f"delivered to {visible(event.recipient, 80)}: {_message_id_text(event.digest.message_id)}"
        case Talked():
            return f"talk {event.conversation} ended" + _detail_suffix(event.problem)
        case NodeEvent():
            return f"node {event.node} {event.action}" + _detail_suffix(event.detail)
        case Configured():
            taken = f"refused: {visible(event.refused, MAX_WIRE_TEXT)}" if event.refused is not None else "taken"
            return f"node {event.node} was offered {visible(str(event.changes), MAX_WIRE_TEXT)}: {taken}"
        case Inspected():
            return f"node {event.node} was inspected: {visible(str(event.state), MAX_WIRE_TEXT)}"
        case CommandRun():
            end = _detail_suffix(event.failed) if event.failed else ""
            return f"node {event.node} was given the command {visible(' '.join([event.command, *event.arguments]), MAX_WIRE_TEXT)}{end}"
        case Drained():
            quiet = "quiet" if event.quiet else "NOT quiet"
            return f"drained: {quiet} after {rounded_duration(event.waited)}" + _detail_suffix(event.detail)
        case Lag():
            return f"the harness was late by up to {event.seconds:.3f}s"


def _message_id_text(message_id: str | None) -> str:
    """Return a Message-ID with its label, or that there is none."""
    return f"Message-ID {visible(message_id, 120)}" if message_id else "no Message-ID"


def _detail_suffix(detail: str) -> str:
    """Return a detail after a colon, or ''."""
    return f": {visible(detail, MAX_WIRE_TEXT)}" if detail else ""


_MESSAGE_ID = re.compile(r" \((<[^<>()\s]+@[^<>()\s]+>)\)")


def without_message_ids(sentence: str) -> str:
    """Return a sentence without the Message-IDs after the names of messages: `m#1 (<x@y>)` becomes `m#1`."""
    return _MESSAGE_ID.sub("", sentence)


def listed_message_ids(sentence: str) -> str:
    """Return the Message-IDs that `without_message_ids` removes, once each, joined by `, `; '' for none."""
    return ", ".join(dict.fromkeys(_MESSAGE_ID.findall(sentence)))
