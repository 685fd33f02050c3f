"""What a diagram shows: one row for each exchange that matters, uneventful ones folded, long gaps told.

Folding never crosses a row that matters, so that what is drawn is in the history's order.
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
"""Seconds without any event after which a gap is drawn, folded to one row whatever its length."""

_ROUTINE = frozenset({
    "GREETING", "EHLO", "HELO", "LHLO", "MAIL", "RCPT", "DATA", "RSET", "NOOP", "QUIT", "STARTTLS", "AUTH", "BDAT",
    "XSHADOW", "XSHADOWREQUEST",
})  # fmt: skip
_SHADOW = frozenset({"request-shadow", "track-shadow", "shadow-message", "shadow-stored"})


@dataclass(frozen=True, slots=True)
class DiagramRow:
    """One row: `numbers` are the events that it stands for, `left` and `right` the parties it runs between.

    An arrow's head is at `right`; a note hangs on `left`; a band and a gap run across.
    """

    kind: Kind
    style: Style
    numbers: tuple[int, ...]
    t: float
    text: str
    means: str = ""
    left: str | None = None
    right: str | None = None
    session: str | None = None
    marked: bool = False


def diagram_rows(cell: CellView) -> tuple[DiagramRow, ...]:
    """Return the rows of a cell's diagram, in the history's order."""
    rows: list[DiagramRow] = []
    waiting: dict[str, list[AnyEvent]] = {}
    last = 0.0
    for event in cell.events:
        quiet = event.n not in cell.violation_by_event and _uneventful(event)
        if event.t - last >= GAP:
            rows += _folded(waiting, cell)
            rows.append(DiagramRow("gap", "wire", (), event.t, f"… {rounded_duration(event.t - last)} …"))
        last = event.t
        if quiet:
            if session := getattr(event, "session", None):
                waiting.setdefault(session, []).append(event)
            continue
        rows += _folded(waiting, cell)
        rows.append(_row(event, cell))
    rows += _folded(waiting, cell)
    return tuple(rows)


def party_columns(events: Sequence[AnyEvent], servers: Sequence[str]) -> tuple[str, ...]:
    """Return the columns: senders, then the topology's servers in its order, then sinks and stores."""
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
    seen = {**clients, **others}
    first = [name for name in clients if name not in servers and name not in others]
    middle = [name for name in servers if name in seen]
    return tuple(dict.fromkeys([*first, *middle, *others, *clients]))


def _uneventful(event: AnyEvent) -> bool:
    """Whether an event says nothing but that the protocol went its way."""
    match event:
        case Connected() | MessageMade() | Inspected():
            return True
        case Closed():
            return event.how == "fin"
        case Command():
            return event.verb in _ROUTINE and event.operation is None
        case Reply():
            return event.to in _ROUTINE and 200 <= event.code < 400 and event.operation is None
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


def _folded(waiting: dict[str, list[AnyEvent]], cell: CellView) -> Iterator[DiagramRow]:
    """Empty what waits: a row for each session, in the order in which they began to wait."""
    for session, events in waiting.items():
        drawn = [event for event in events if not isinstance(event, Attempt | Talked)]
        began = cell.sessions.get(session)
        if not drawn or began is None:
            continue
        if len(drawn) == 1:
            yield _row(drawn[0], cell)
            continue
        yield DiagramRow(
            kind="fold",
            style="wire",
            numbers=tuple(event.n for event in events),
            t=drawn[0].t,
            text=_gist(drawn),
            left=began.client,
            right=began.server,
            session=session,
        )
    waiting.clear()


def _gist(events: Sequence[AnyEvent]) -> str:
    """Name the verbs of folded exchanges: `connect, EHLO, MAIL, 3 RCPT, DATA`."""
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
                counts.setdefault("greeting" if event.to == "GREETING" else event.to, 0)
    return ", ".join(f"{count} {verb}" if count > 1 else verb for verb, count in counts.items())


def _row(event: AnyEvent, cell: CellView) -> DiagramRow:
    kind, style, left, right = _shape(event, cell)
    return DiagramRow(
        kind=kind,
        style=style,
        numbers=(event.n,),
        t=event.t,
        text=_told_step(event, cell) if isinstance(event, StepEvent) else event_text(event),
        means=operation_text(event),
        left=left,
        right=right,
        session=getattr(event, "session", None),
        marked=event.n in cell.violation_by_event,
    )


def _told_step(event: StepEvent, cell: CellView) -> str:
    """A step is told by its own line of the scenario, where that is to be had."""
    line = cell.source_line(event.line)
    if event.phase == "failed" or line is None:
        return event_text(event)
    return visible(f"step {event.path}  {line.strip().removeprefix('- ')}", MAX_WIRE_TEXT)


def _shape(event: AnyEvent, cell: CellView) -> tuple[Kind, Style, str | None, str | None]:
    match event:
        case Reply() | Command() | Content() | Connected() | Closed():
            began = cell.sessions.get(event.session)
            if began is None:
                return "band", _style(event), None, None
            back = isinstance(event, Reply) or (isinstance(event, Closed) and event.by == "server")
            ends = (began.server, began.client) if back else (began.client, began.server)
            return "arrow", _style(event), *ends
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
    if isinstance(event, Command | Reply) and event.operation is not None:
        return "shadow" if event.operation.name in _SHADOW else "discard"
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
    """Return a row in one line, as the text alternative and the pointer's hover show it."""
    who = f"{row.left} to {row.right}: " if row.right else f"{row.left}: " if row.left else ""
    numbers = f"#{row.numbers[0]}" + (f"–#{row.numbers[-1]}" if len(row.numbers) > 1 else "") if row.numbers else ""  # noqa: RUF001
    means = f" [{row.means}]" if row.means else ""
    return f"{numbers} {format_moment(row.t)} {who}{row.text}{means}".strip()
