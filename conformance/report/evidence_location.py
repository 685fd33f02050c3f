"""Names the offending exchange in one line: which event, when, who to whom, what was said, about which message.
Around it stand the few events that make it understood, each as a line of the conversation, and where something was
left out between.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from conformance.history.events import (
    AnyEvent,
    Attempt,
    Closed,
    Command,
    Connected,
    ConnectFailed,
    Content,
    Delivered,
    MessageMade,
    Reply,
)
from conformance.report.cell_view import CellView
from conformance.report.escaping import visible
from conformance.report.event_text import event_text, format_moment, operation_text
from conformance.verdicts import Verdict

Sessions = Mapping[str, Connected]


def history_text(events: Iterable[AnyEvent], sessions: Sessions, marked: Collection[int] = ()) -> str:
    """Return the events one a line, in their order; the marked ones begin with `>`."""
    return "\n".join(event_line(event, sessions, event.n in marked) for event in events)


def event_line(event: AnyEvent, sessions: Sessions, marked: bool = False) -> str:
    """Return one line: mark, number, time, session, who to whom, what; printable, without a break."""
    session, parties = session_and_parties(event, sessions)
    sign = ">" if marked else " "
    means = operation_text(event)
    return f"{sign} #{event.n:<5d} {format_moment(event.t):>9s}  {session:<4s} {parties}{event_text(event)}" + (
        f"   [{means}]" if means else ""
    )


def session_and_parties(event: AnyEvent, sessions: Sessions) -> tuple[str, str]:
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


T = TypeVar("T")

_SEVERAL = 4
"""So many pieces of evidence are shown; the first is the offending one, the later ones only support it."""


def events_around(events: Sequence[AnyEvent], evidence: Iterable[int], radius: int = 3) -> list[AnyEvent | None]:
    """Return the events around the evidence in their order; None stands where some were left out.

    Around an event of a session these are its neighbours in that session; around any other, its neighbours of the
    wire in the one order. An event that is not in the history (its file was damaged) is passed over.
    """
    places = {event.n: place for place, event in enumerate(events)}
    chosen: set[int] = set()
    for number in list(evidence)[:_SEVERAL]:
        if (place := places.get(number)) is not None:
            chosen.add(place)
            chosen.update(_neighbours(events, place, radius))
    return _with_gaps(events, sorted(chosen))


def _neighbours(events: Sequence[AnyEvent], place: int, radius: int) -> set[int]:
    session: str | None = getattr(events[place], "session", None)

    def near(other: AnyEvent) -> bool:
        if session is not None:
            return bool(getattr(other, "session", None) == session)
        return isinstance(other, Command | Reply | Content | Closed | Delivered | Attempt)

    before = _first(radius, (p for p in range(place - 1, -1, -1) if near(events[p])))
    after = _first(radius, (p for p in range(place + 1, len(events)) if near(events[p])))
    return {*before, *after}


def _first(count: int, values: Iterable[T]) -> list[T]:
    return [value for value, _ in zip(values, range(count), strict=False)]


def _with_gaps(events: Sequence[AnyEvent], places: Sequence[int]) -> list[AnyEvent | None]:
    found: list[AnyEvent | None] = []
    for index, place in enumerate(places):
        if index and place != places[index - 1] + 1:
            found.append(None)
        found.append(events[place])
    return found


@dataclass(frozen=True, slots=True)
class EvidenceLocation:
    """Where a verdict points: the event's number, the line about it, and the message (either may be '').

    Both texts are printable. `message` has the scenario's name of the message and its Message-ID.
    """

    event: int
    exchange: str
    message: str


def locate_evidence(verdict: Verdict, cell: CellView) -> EvidenceLocation | None:
    """Return what the first of the verdict's events was, or None when it names none that the history has."""
    event = next((cell.event_by_number[n] for n in cell.evidence_of(verdict) if n in cell.event_by_number), None)
    if event is None:
        return None
    session, parties = session_and_parties(event, cell.sessions)
    means = operation_text(event)
    told = (
        f"event #{event.n} at {format_moment(event.t)}: "
        + (f"{session} " if session else "")
        + parties
        + event_text(event)
    )
    return EvidenceLocation(event.n, told + (f"  [{means}]" if means else ""), _message(verdict, event, cell))


def _message(verdict: Verdict, event: AnyEvent, cell: CellView) -> str:
    made = {one.message: one.message_id for one in cell.events if isinstance(one, MessageMade)}
    name = verdict.message or _name(event, cell, made)
    if not name:
        return ""
    identity = made.get(name)
    return visible(f"{name}, Message-ID {identity}" if identity else name, 300)


def _name(event: AnyEvent, cell: CellView, made: Mapping[str, str | None]) -> str:
    """Return the name of the message that an event is about; one that the harness did not make has its Message-ID."""
    match event:
        case Attempt():
            return event.message
        case Content() | Delivered():
            identity = event.digest.message_id
        case Reply(to="CONTENT"):
            earlier = (
                one.digest.message_id
                for one in reversed(cell.events)
                if one.n < event.n and isinstance(one, Content) and one.session == event.session
            )
            identity = next(earlier, None)
        case _:
            return ""
    return next((name for name, known in made.items() if identity and known == identity), identity or "")
