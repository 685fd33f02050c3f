"""The offending event of a verdict as one line of text, and the events around it.

The line says which event, when, from which party to which, what was sent, and about which message. `events_around`
selects the neighbouring events that explain it, with gaps where events are left out. Failure texts, pages and Allure's results
show both. The *evidence* of a verdict are the numbers of the events that show it, the *offending* one first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

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


def event_line(event: AnyEvent, sessions: Sessions, *, marked: bool = False) -> str:
    """Return one printable line: mark, number, time, session, parties, and what happened.

    What the event means for shadow redundancy, if anything, follows in brackets. `marked`: a verdict rests on the event, and the
    mark is `>`. `sessions` has the event that opened each session, by the session's name.
    """
    session, parties = session_and_parties(event, sessions)
    mark = ">" if marked else " "
    operation = operation_text(event)
    return f"{mark} #{event.n:<5d} {format_moment(event.t):>9s}  {session:<4s} {parties}{event_text(event)}" + (
        f"   [{operation}]" if operation else ""
    )


def session_and_parties(event: AnyEvent, sessions: Sessions) -> tuple[str, str]:
    """Return the name of an event's session and `client -> server  ` (a delivery: `giver -> sink  `); each may be ''.

    A reply gives `client <- server  `: the client is always on the left, so that lines of a session align. Where the
    event that opened the session is missing (a damaged file), the parties are `?`.
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
    connected = sessions.get(event.session)
    return session, f"{connected.client} {arrow} {connected.server}  " if connected else f"? {arrow} ?  "


_MAX_SHOWN_EVIDENCE = 4
"""Events of the evidence that are shown: the first is the offending one, the later ones only support it."""


def events_around(events: Sequence[AnyEvent], evidence: Iterable[int], radius: int = 3) -> list[AnyEvent | None]:
    """Return the evidence's first four events and their neighbours in order, with None between two where events are left out.

    The neighbours of an event of a session are the `radius` events before and after it in that session; those of any
    other event are exchanges, deliveries and attempts of any session. Numbers that the history lacks (its file was
    damaged) are skipped.
    """
    index_of = {event.n: index for index, event in enumerate(events)}
    chosen: set[int] = set()
    for number in list(evidence)[:_MAX_SHOWN_EVIDENCE]:
        if (index := index_of.get(number)) is not None:
            chosen.add(index)
            chosen.update(_neighbours(events, index, radius))
    return _with_gaps(events, sorted(chosen))


def _neighbours(events: Sequence[AnyEvent], index: int, radius: int) -> set[int]:
    """Return the indexes of up to `radius` related events before and after the event at `index`.

    Related are the events of its session; where it has none, all exchanges, deliveries and attempts.
    """
    session: str | None = getattr(events[index], "session", None)

    def is_related(other: AnyEvent) -> bool:
        """Return whether an event is of the same session; where there is no session, whether it passed between parties."""
        if session is not None:
            return bool(getattr(other, "session", None) == session)
        return isinstance(other, Command | Reply | Content | Closed | Delivered | Attempt)

    before = (i for i in range(index - 1, -1, -1) if is_related(events[i]))
    after = (i for i in range(index + 1, len(events)) if is_related(events[i]))
    return {*islice(before, radius), *islice(after, radius)}


def _with_gaps(events: Sequence[AnyEvent], indexes: Sequence[int]) -> list[AnyEvent | None]:
    """Return the events at these ascending indexes, with None between two that are not neighbours."""
    chosen: list[AnyEvent | None] = []
    for position, index in enumerate(indexes):
        if position and index != indexes[position - 1] + 1:
            chosen.append(None)
        chosen.append(events[index])
    return chosen


@dataclass(frozen=True, slots=True)
class EvidenceLocation:
    """The offending event of a verdict: its number, one line about it, and the message that it is about.

    Both texts are printable. `message` has the scenario's name of the message and its Message-ID; it is '' for an event
    about no message.
    """

    event_number: int
    exchange: str
    message: str


def locate_evidence(verdict: Verdict, cell: CellView) -> EvidenceLocation | None:
    """Return the location of the first event of a verdict's evidence that the history has, or None where it has none of them.

    The evidence is that of `CellView.evidence_of`: it may be the last attempt to send the verdict's message.
    """
    event = next((cell.event_by_number[n] for n in cell.evidence_of(verdict) if n in cell.event_by_number), None)
    if event is None:
        return None
    session, parties = session_and_parties(event, cell.sessions)
    operation = operation_text(event)
    exchange = (
        f"event #{event.n} at {format_moment(event.t)}: "
        + (f"{session} " if session else "")
        + parties
        + event_text(event)
    )
    return EvidenceLocation(
        event_number=event.n,
        exchange=exchange + (f"  [{operation}]" if operation else ""),
        message=_message_text(verdict, event, cell),
    )


def _message_text(verdict: Verdict, event: AnyEvent, cell: CellView) -> str:
    """Return the message that a verdict, or else its event, is about: `m#1, Message-ID <x@y>`; '' where neither names one."""
    message_ids = {e.message: e.message_id for e in cell.events if isinstance(e, MessageMade)}
    name = verdict.message or _message_name(event, cell, message_ids)
    if not name:
        return ""
    identity = message_ids.get(name)
    return visible(f"{name}, Message-ID {identity}" if identity else name, 300)


def _message_name(event: AnyEvent, cell: CellView, message_ids: Mapping[str, str | None]) -> str:
    """Return the scenario's name of the message that an event is about, or '' for an event about no message.

    A message that the harness did not make is named by its Message-ID; one without a Message-ID has no name (''). A reply to a
    content is about the content before it. `message_ids` has the Message-IDs of the harness's messages, by the scenario's
    names.
    """
    match event:
        case Attempt():
            return event.message
        case Content() | Delivered():
            identity = event.digest.message_id
        case Reply(to="CONTENT"):
            earlier = (
                e.digest.message_id
                for e in reversed(cell.events)
                if e.n < event.n and isinstance(e, Content) and e.session == event.session
            )
            identity = next(earlier, None)
        case _:
            return ""
    return next(
        (name for name, message_id in message_ids.items() if identity and message_id == identity), identity or ""
    )
