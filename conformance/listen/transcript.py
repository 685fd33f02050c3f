"""A session as lines of text: what the client and the listener said, and what the listener did.

A listener prints these lines while a session lasts, and findings have them as the session's transcript. An *event* is
one entry of the recorded history; `link` in an event is the listener.
"""

from collections.abc import Sequence

from conformance.history.events import AnyEvent, Closed, Command, ConnectFailed, Content, FaultFired, Reply
from conformance.report.escaping import visible

_WIDTH = 300
"""Characters of a line that are shown."""


def transcript_line(event: AnyEvent) -> str | None:
    """Return an event of a session as a line, cut after 300 characters, invisible ones escaped; None for one without a line.

    Without a line are events of what was neither said nor done, and a fault that only gives a reply: the reply has its own.
    """
    match event:
        case Command():
            text = f"C: {event.line}"
        case Content():
            text = f"C: ({event.digest.size} octets of content, Message-ID {event.digest.message_id or 'missing'})"
        case Reply():
            text = _reply_line(event)
        case FaultFired(action="answer" | "replace"):
            return None  # its reply is a line of its own
        case FaultFired():
            text = f"!  {event.action} {event.detail}"
        case ConnectFailed():
            text = f"!  the connection ended before a greeting: {event.reason}"
        case Closed():
            text = f"-- closed by the {'listener' if event.by == 'link' else event.by} ({event.how})"
        case _:
            return None
    return visible(text, _WIDTH)


def _reply_line(event: Reply) -> str:
    """Return a reply as one line: `S: 250 ok`; of several lines the first and how many follow."""
    more = f" (and {len(event.lines) - 1} lines)" if len(event.lines) > 1 else ""
    return f"S: {event.code or 'unreadable'} {event.lines[0] if event.lines else ''}{more}"


def session_transcript(events: Sequence[AnyEvent], session: str) -> tuple[str, ...]:
    """Return the lines of one session, given by its name, each with its time in seconds since the listener began."""
    return tuple(
        f"{event.t:9.3f}  {line}"
        for event in events
        if getattr(event, "session", None) == session and (line := transcript_line(event)) is not None
    )
