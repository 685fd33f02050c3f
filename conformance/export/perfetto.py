"""A cell as a trace of ui.perfetto.dev and chrome://tracing (Trace Event Format, JSON): time is documented time.

A party is a process. It has a track of its life (up, paused), one of the transactions that it received, one of its moments
(faults, deliveries, failed checks), and as asynchronous slices the sessions that it opened and the copies that it holds.
Sessions without a transaction that were told of no copy to let go, one after another between the same two, are one slice:
so 49 days of heartbeats stay readable. A copy lasts until its holder has been told to let it go, or to the end of the cell.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from conformance.history.events import (
    Closed,
    Command,
    Connected,
    ConnectFailed,
    Content,
    Delivered,
    FaultFired,
    NodeEvent,
    Reply,
)
from conformance.results.reader import StoredCell
from conformance.verdicts import Outcome

_LIFE, _RECEIVED, _MOMENTS = 1, 2, 3
_TRACKS = {_LIFE: "life", _RECEIVED: "transactions received", _MOMENTS: "moments"}
_UP = {"ready", "resumed"}
_DOWN = {"stopped", "killed", "exited", "failed", "paused"}

Record = dict[str, Any]
"""One event of the format: `ph` is its kind, `ts` its time in microseconds, `pid` and `tid` its track."""


@dataclass(slots=True)
class _Session:
    began: Connected
    ended: float
    first: float | None = None
    """When its transaction began; None before MAIL and after the reply to the content."""
    eventful: bool = False
    count: int = 1


def as_perfetto(cell: StoredCell) -> bytes:
    """Return the whole file."""
    trace = _Trace(cell)
    document = {
        "traceEvents": list(trace.records()),
        "displayTimeUnit": "ms",
        "otherData": {"cell": cell.header.nodeid, "repeat": cell.header.repeat},
    }
    return json.dumps(document, separators=(",", ":")).encode()


class _Trace:
    """Goes once through the history."""

    def __init__(self, cell: StoredCell) -> None:
        self._cell = cell
        self._parties: dict[str, int] = {}
        self._sessions: dict[str, _Session] = {}
        self._quiet: dict[tuple[str, str, str], _Session] = {}
        self._copies: dict[tuple[str, str], float] = {}
        self._up: dict[str, tuple[str, float]] = {}

    def records(self) -> Iterator[Record]:
        """Yield all records; names of processes and tracks come last."""
        end = self._cell.events[-1].t if self._cell.events else 0.0
        for event in self._cell.events:
            match event:
                case Connected():
                    self._sessions[event.session] = _Session(event, event.t)
                case ConnectFailed():
                    yield self._moment(event.client, event.t, f"no session with {event.server}: {event.reason}")
                case Command() | Reply() | Content() if session := self._sessions.get(event.session):
                    session.ended = event.t
                    yield from self._transaction(event, session)
                case Closed() if session := self._sessions.pop(event.session, None):
                    session.ended = event.t
                    yield from self._end(session)
                case Delivered():
                    yield self._moment(event.sink, event.t, f"delivered to {event.recipient}")
                case FaultFired():
                    yield self._moment(event.server, event.t, f"fault {event.fault}: {event.action}")
                case NodeEvent():
                    yield from self._life(event)
        for session in (*self._sessions.values(), *self._quiet.values()):
            yield from self._slices(session)
        for party, (state, began) in self._up.items():
            yield self._slice(party, _LIFE, began, end, state)
        for (holder, shadow), began in self._copies.items():
            yield from self._asynchronous(holder, "copy", f"{holder} {shadow}", began, end, f"copy {shadow}")
        yield from self._failed()
        yield from self._names()

    def _transaction(self, event: Command | Reply | Content, session: _Session) -> Iterator[Record]:
        if isinstance(event, Command) and event.verb == "MAIL":
            session.first, session.eventful = event.t, True
        if not isinstance(event, Reply):
            return
        operation = event.operation
        if operation is not None and operation.name == "discard-list":
            session.eventful |= bool(operation.shadow_ids)
            for shadow in operation.shadow_ids:
                holder = session.began.client
                if (began := self._copies.pop((holder, shadow), None)) is not None:
                    name = f"{holder} {shadow}"
                    yield from self._asynchronous(holder, "copy", name, began, event.t, f"copy {shadow}")
        if operation is not None and operation.name == "shadow-stored" and operation.shadow_id and event.code == 250:
            self._copies[session.began.server, operation.shadow_id] = event.t
        if event.to == "CONTENT" and session.first is not None:
            told = f"{session.began.client}: {event.code} {' '.join(event.lines)[:120]}"
            yield self._slice(session.began.server, _RECEIVED, session.first, event.t, told)
            session.first = None

    def _end(self, session: _Session) -> Iterator[Record]:
        between = session.began.client, session.began.server, session.began.listener
        before = self._quiet.pop(between, None)
        if not session.eventful:
            if before is not None:
                before.ended, before.count = session.ended, before.count + 1
            self._quiet[between] = before or session
            return
        if before is not None:
            yield from self._slices(before)
        yield from self._slices(session)

    def _slices(self, session: _Session) -> Iterator[Record]:
        began = session.began
        name = f"to {began.server}, {began.listener}" + (f": {session.count} sessions" if session.count > 1 else "")
        yield from self._asynchronous(began.client, "session", began.session, began.t, session.ended, name)

    def _life(self, event: NodeEvent) -> Iterator[Record]:
        if event.action not in _UP | _DOWN:
            yield self._moment(event.node, event.t, f"{event.action} {event.detail}".strip())
            return
        if known := self._up.pop(event.node, None):
            yield self._slice(event.node, _LIFE, known[1], event.t, known[0])
        if event.action in _UP or event.action == "paused":
            self._up[event.node] = ("paused" if event.action == "paused" else "up", event.t)
        if event.action in _DOWN:
            yield self._moment(event.node, event.t, f"{event.action} {event.detail}".strip())

    def _failed(self) -> Iterator[Record]:
        when = {event.n: event.t for event in self._cell.events}
        for verdict in self._cell.verdicts:
            if verdict.outcome in (Outcome.FAIL, Outcome.ERROR):
                at = max((when[n] for n in verdict.evidence if n in when), default=0.0)
                yield self._moment("harness", at, f"{verdict.outcome.value}: {verdict.sentence}"[:300])

    def _pid(self, party: str) -> int:
        return self._parties.setdefault(party, len(self._parties) + 1)

    def _slice(self, party: str, track: int, began: float, ended: float, name: str) -> Record:
        pid, ts = self._pid(party), _micro(began)
        return {"ph": "X", "pid": pid, "tid": track, "ts": ts, "dur": _micro(ended) - ts, "name": name}

    def _moment(self, party: str, t: float, name: str) -> Record:
        return {"ph": "i", "s": "t", "pid": self._pid(party), "tid": _MOMENTS, "ts": _micro(t), "name": name}

    def _asynchronous(self, party: str, kind: str, of: str, began: float, ended: float, name: str) -> Iterator[Record]:
        shared = {"cat": kind, "id": of, "pid": self._pid(party), "tid": 0, "name": name}
        yield {"ph": "b", "ts": _micro(began), **shared}
        yield {"ph": "e", "ts": _micro(ended), **shared}

    def _names(self) -> Iterator[Record]:
        for party, pid in self._parties.items():
            yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": party}}
            for track, name in _TRACKS.items():
                yield {"ph": "M", "pid": pid, "tid": track, "name": "thread_name", "args": {"name": name}}


def _micro(seconds: float) -> int:
    return round(seconds * 1_000_000)
