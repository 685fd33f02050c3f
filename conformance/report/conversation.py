"""A cell's conversation as text, everything in its one order."""

from collections.abc import Collection, Iterable, Mapping

from conformance.history.events import (
    AnyEvent,
    Attempt,
    Closed,
    Command,
    Connected,
    ConnectFailed,
    Content,
    Delivered,
    Reply,
)
from conformance.report.words import described, meaning, moment

Sessions = Mapping[str, Connected]


def in_order(events: Iterable[AnyEvent], sessions: Sessions, marked: Collection[int] = ()) -> str:
    """Return the events one a line, in their order; the marked ones begin with `>`."""
    return "\n".join(told_line(event, sessions, event.n in marked) for event in events)


def told_line(event: AnyEvent, sessions: Sessions, marked: bool = False) -> str:
    """Return one line: mark, number, time, session, who to whom, what; printable, without a break."""
    session, parties = whereabouts(event, sessions)
    sign = ">" if marked else " "
    means = meaning(event)
    return f"{sign} #{event.n:<5d} {moment(event.t):>9s}  {session:<4s} {parties}{described(event)}" + (
        f"   [{means}]" if means else ""
    )


def whereabouts(event: AnyEvent, sessions: Sessions) -> tuple[str, str]:
    """Return the session's name and `client -> server  `; both '' for what has neither.

    A reply's arrow points back: the client always stands left, so that a column is a party.
    """
    session = getattr(event, "session", None) or ""
    match event:
        case Reply():
            arrow = "<-"
        case Command() | Content() | Connected() | Closed():
            arrow = "->"
        case ConnectFailed() | Attempt():
            return session, f"{event.client} -> {event.server}  "
        case Delivered():
            return session, f"{event.giver} -> {event.sink}  "
        case _:
            return session, ""
    began = sessions.get(event.session)
    return session, f"{began.client} {arrow} {began.server}  " if began else f"? {arrow} ?  "
