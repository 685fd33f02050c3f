"""The rows of a cell's diagram, made from its events.

An event is routine if it only shows that the protocol went its way (`_is_routine`), and it is not evidence of a violation
or error. Consecutive routine events are folded into one row for each session, with the verbs as text; those without a
session (a step's end, a made message) are left out. Any other event is a row of its own: an arrow between two parties, a
note at one party, or a band across the diagram. Time without any event becomes a gap row of constant height. Routine events that
wait to be folded are *pending*; their rows come before each other row, so that rows stay in the history's order. `cell_page` and
`excerpt` call this.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

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
from conformance.report.cell_view import CellView
from conformance.report.escaping import visible
from conformance.report.event_text import MAX_WIRE_TEXT, event_text, format_moment, operation_text, rounded_duration

Kind = Literal["arrow", "fold", "note", "band", "gap"]
Style = Literal["wire", "content", "final", "refusal", "shadow", "discard", "fault", "down", "node", "step", "given"]

GAP = 1.0
"""Seconds without any event from which on a gap row is drawn."""

_ROUTINE_VERBS = frozenset({
    "GREETING", "EHLO", "HELO", "LHLO", "MAIL", "RCPT", "DATA", "RSET", "NOOP", "QUIT", "STARTTLS", "AUTH", "BDAT",
    "XSHADOW", "XSHADOWREQUEST",
})  # fmt: skip
_SHADOW_OPERATIONS = frozenset({"request-shadow", "track-shadow", "shadow-message", "shadow-stored"})


@dataclass(frozen=True, slots=True)
class DiagramRow:
    """One row of a diagram; `numbers` are those of the events that it shows, `t` the time of the first one that is drawn.

    A gap has no events and, where it stands for time, the time of the event after it. An arrow or fold runs from the party `left`
    to the party `right`; a note is at the party `left`; a band or gap runs across. `operation` is the operation of shadow
    redundancy (`operation_text`). `marked` says that one of the events is evidence of a violation or error.
    """

    kind: Kind
    style: Style
    numbers: tuple[int, ...]
    t: float
    text: str
    operation: str = ""
    left: str | None = None
    right: str | None = None
    session: str | None = None
    marked: bool = False


def diagram_rows(cell: CellView) -> tuple[DiagramRow, ...]:
    """Return the rows of a cell's diagram, in the history's order.

    The time before the first event may be a gap too. No rows where all events are left out.
    """
    rows: list[DiagramRow] = []
    pending: dict[str, list[AnyEvent]] = {}  # session -> its routine events since the last row
    last = 0.0
    for event in cell.events:
        if event.t - last >= GAP:
            rows += _flush_folded(pending, cell)
            text = f"… {rounded_duration(event.t - last)} …"
            rows.append(DiagramRow(kind="gap", style="wire", numbers=(), t=event.t, text=text))
        last = event.t
        if event.n not in cell.violation_by_event and _is_routine(event):
            if session := getattr(event, "session", None):
                pending.setdefault(session, []).append(event)
            continue
        rows += _flush_folded(pending, cell)
        rows.append(_make_row(event, cell))
    rows += _flush_folded(pending, cell)
    return tuple(rows)


def party_columns(events: Sequence[AnyEvent], servers: Sequence[str]) -> tuple[str, ...]:
    """Return the parties of these events in the order of their columns: senders, servers of the topology, then the others.

    `servers` has the names of the topology's servers in its order. A command, reply or content names no parties: those of its
    session are included only if the event that opened the session is among `events`.
    """
    clients, others = dict[str, None](), dict[str, None]()
    for event in events:
        match event:
            case Connected() | ConnectFailed() | Attempt() | Talked() | FaultFired():
                clients.setdefault(event.client)
                others.setdefault(event.server)
            case Delivered():
                others.setdefault(event.giver)
                others.setdefault(event.sink)
            case NodeEvent() | Configured() | Inspected() | CommandRun():
                others.setdefault(event.node)
    present = {**clients, **others}
    senders = [name for name in clients if name not in servers and name not in others]
    present_servers = [name for name in servers if name in present]
    return tuple(dict.fromkeys([*senders, *present_servers, *others, *clients]))


def _is_routine(event: AnyEvent) -> bool:
    """Return whether an event only shows that the protocol went its way: connecting, positive replies, ended steps.

    Made messages, inspections, answered attempts, talks without a problem, and a lag of less than a millisecond are routine too.
    Commands and replies that mean something for shadow redundancy are not, and neither are verbs outside of `_ROUTINE_VERBS`.
    """
    match event:
        case Connected() | MessageMade() | Inspected():
            return True
        case Closed():
            return event.how == "fin"
        case Command():
            return event.verb in _ROUTINE_VERBS and event.operation is None
        case Reply():
            return event.to in _ROUTINE_VERBS and 200 <= event.code < 400 and event.operation is None
        case StepEvent():
            return event.phase == "ended"
        case Lag():
            return event.seconds < 0.001
        case Attempt():
            return event.outcome == "answered"
        case Talked():
            return not event.problem
        case _:
            return False


def _flush_folded(pending: dict[str, list[AnyEvent]], cell: CellView) -> Iterator[DiagramRow]:
    """Yield a row for each session with pending events, in the order of their first ones; then empty `pending`.

    `pending` has the routine events of each session since the last row. A single event gets a row of its own kind. A session that
    the history does not open is left out, and so is one with nothing but the ends of attempts and talks, which its exchanges
    show already.
    """
    for session, events in pending.items():
        drawn = [event for event in events if not isinstance(event, Attempt | Talked)]
        connected = cell.sessions.get(session)
        if not drawn or connected is None:
            continue
        if len(drawn) == 1:
            yield _make_row(drawn[0], cell)
            continue
        yield DiagramRow(
            kind="fold",
            style="wire",
            numbers=tuple(event.n for event in events),
            t=drawn[0].t,
            text=_folded_text(drawn),
            left=connected.client,
            right=connected.server,
            session=session,
        )
    pending.clear()


def _folded_text(events: Sequence[AnyEvent]) -> str:
    """Return the verbs of folded events with their numbers: `connect, EHLO, MAIL, 3 RCPT, DATA`.

    A reply whose command is not among the events gives the verb that it answers.
    """
    counts: dict[str, int] = {}
    for event in events:
        match event:
            case Connected():
                counts["connect"] = 1
            case Command():
                counts[event.verb] = counts.get(event.verb, 0) + 1
            case Closed():
                counts["close"] = 1
            case Reply():
                # Its command may be in an earlier row; 0 is shown as the verb alone.
                counts.setdefault("greeting" if event.to == "GREETING" else event.to, 0)
    return ", ".join(f"{count} {verb}" if count > 1 else verb for verb, count in counts.items())


def _make_row(event: AnyEvent, cell: CellView) -> DiagramRow:
    """Return the row of a single event; it is marked if the event is evidence of a violation or error."""
    kind, style, left, right = _kind_style_and_parties(event, cell)
    return DiagramRow(
        kind=kind,
        style=style,
        numbers=(event.n,),
        t=event.t,
        text=_step_text(event, cell) if isinstance(event, StepEvent) else event_text(event),
        operation=operation_text(event),
        left=left,
        right=right,
        session=getattr(event, "session", None),
        marked=event.n in cell.violation_by_event,
    )


def _step_text(event: StepEvent, cell: CellView) -> str:
    """Return a step's path and its line of the scenario, printable; for a failed step, or without that line, the event's text."""
    line = cell.source_line(event.line)
    if event.phase == "failed" or line is None:
        return event_text(event)
    return visible(f"step {event.path}  {line.strip().removeprefix('- ')}", MAX_WIRE_TEXT)


def _kind_style_and_parties(event: AnyEvent, cell: CellView) -> tuple[Kind, Style, str | None, str | None]:
    """Return kind, style, left and right of the row of an event; an event of an unknown session is a band.

    Left and right are the parties from and to which the row runs, as in `DiagramRow`: for a reply the server is left.
    """
    match event:
        case Reply() | Command() | Content() | Connected() | Closed():
            connected = cell.sessions.get(event.session)
            if connected is None:
                return "band", _style(event), None, None
            from_server = isinstance(event, Reply) or (isinstance(event, Closed) and event.by == "server")
            parties = connected.client, connected.server
            return "arrow", _style(event), *(reversed(parties) if from_server else parties)
        case ConnectFailed() | FaultFired() | Attempt() | Talked():
            return "arrow", _style(event), event.client, event.server
        case Delivered():
            return "note", "given", event.sink, None
        case NodeEvent():
            return (
                "note",
                "down" if event.action in ("killed", "exited", "failed", "wiped") else "node",
                event.node,
                None,
            )
        case Configured() | Inspected() | CommandRun():
            return "note", "node", event.node, None
        case FaultArmed() | StepEvent() | MessageMade() | Drained() | Lag():
            return "band", "fault" if isinstance(event, FaultArmed) else "step", None, None


def _style(event: AnyEvent) -> Style:
    """Return the style of an arrow, which decides its colour and sign.

    "final" is a positive answer to a whole message. A `Talked` event has an arrow only where a reply was not as expected.
    """
    if isinstance(event, Command | Reply) and event.operation is not None:
        return "shadow" if event.operation.name in _SHADOW_OPERATIONS else "discard"
    match event:
        case Content():
            return "content"
        case FaultFired():
            return "fault"
        case ConnectFailed() | Talked():
            return "refusal"
        case Attempt():
            return "final" if event.outcome == "answered" and (event.code or 0) < 400 else "refusal"
        case Closed():
            return "wire" if event.how == "fin" else "refusal"
        case Reply():
            return "refusal" if event.code >= 400 or event.code < 200 else "final" if event.to == "CONTENT" else "wire"
        case _:
            return "wire"


def row_text(row: DiagramRow) -> str:
    """Return a row as one line, for its text alternative and its tooltip: event numbers, time, parties, text, operation."""
    parties = f"{row.left} to {row.right}: " if row.right else f"{row.left}: " if row.left else ""
    numbers = f"#{row.numbers[0]}" + (f"–#{row.numbers[-1]}" if len(row.numbers) > 1 else "") if row.numbers else ""  # noqa: RUF001
    operation = f" [{row.operation}]" if row.operation else ""
    return f"{numbers} {format_moment(row.t)} {parties}{row.text}{operation}".strip()
