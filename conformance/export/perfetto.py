"""A cell as a trace for ui.perfetto.dev and chrome://tracing (Trace Event Format, JSON), in documented time.

Each party is a process with three tracks: `life` (slices while its node is up or paused), `transactions received` (from
MAIL to the first final reply), and `moments` (faults, failed connections, deliveries, changes of nodes). Failed checks are
moments of a process `harness`. The sessions that a party opened and the shadow copies that it holds overlap, so they are
asynchronous slices.

`conformance export --format perfetto` calls `as_perfetto`. An event of the *trace* is not one of the cell's history: a *slice*
has a beginning and an end, a *moment* is a point in time, and a *name* labels a process or track.

A session is eventful if it has a mail transaction or a discard notification. Consecutive uneventful sessions from one
party to one listener become one slice with their number: so 49 days of heartbeats stay readable. A copy lasts from its
acknowledgement until its holder gets the discard notification, or to the end of the cell.
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
_UP_ACTIONS = {"ready", "resumed"}
"""Actions of node events after which the node is up; after those of `_DOWN_ACTIONS` it is down or paused."""
_DOWN_ACTIONS = {"stopped", "killed", "exited", "failed", "paused"}
_SHADOW_REQUESTS = {"request-shadow", "track-shadow"}
"""Operations by which a client says whether its server or itself keeps copies; the last one of a session counts."""

TraceEvent = dict[str, Any]
"""An event of the format: `ph` is its kind, `ts` its time in microseconds, `pid` and `tid` its process and track."""


@dataclass(slots=True)
class _Session:
    """A session, or several uneventful ones that are merged: then `connected` is the first one's."""

    connected: Connected
    ended: float
    """The time of its last event."""
    mail_began: float | None = None
    """The time of MAIL of its current transaction; None outside of a transaction."""
    eventful: bool = False
    tracked: bool = False
    """Whether its client keeps copies of what it sends (XSHADOW, 2010); else its server keeps the copies that it stores."""
    count: int = 1
    """How many uneventful sessions are merged into this one."""


def as_perfetto(cell: StoredCell) -> bytes:
    """Return the trace file of a cell, JSON as octets."""
    trace = _TraceBuilder(cell)
    document = {
        "traceEvents": list(trace.trace_events()),
        "displayTimeUnit": "ms",
        "otherData": {"cell": cell.header.nodeid, "repeat": cell.header.repeat},
    }
    return json.dumps(document, separators=(",", ":")).encode()


class _TraceBuilder:
    """Makes the trace of one cell in one pass over its events; `trace_events` may be called once.

    The fields are what the pass has met and not yet ended: open sessions by their ids, merged sessions, copies and the
    states of nodes. All times are documented seconds.
    """

    def __init__(self, cell: StoredCell) -> None:
        """Begin before the first event of a cell; parties have no process numbers yet."""
        self._cell = cell
        self._process_ids: dict[str, int] = {}
        self._open_sessions: dict[str, _Session] = {}
        """Id -> the session; `_close_session` decides whether it becomes a slice of its own."""
        self._uneventful: dict[tuple[str, str, str], _Session] = {}
        """(client, server, listener) -> the uneventful sessions that are merged so far."""
        self._copies: dict[tuple[str, str], float] = {}
        """(holder, shadow id) -> when the copy was acknowledged."""
        self._node_states: dict[str, tuple[str, float]] = {}
        """Node -> `up` or `paused`, and since when."""

    def trace_events(self) -> Iterator[TraceEvent]:
        """Yield all events of the trace; names of processes and tracks come last.

        At the cell's end the slices of open and merged sessions end with their last event, those of copies and nodes with the
        cell.
        """
        end = self._cell.events[-1].t if self._cell.events else 0.0
        for event in self._cell.events:
            match event:
                case Connected():
                    self._open_sessions[event.session] = _Session(event, event.t)
                case ConnectFailed():
                    yield self._moment(event.client, event.t, f"no session with {event.server}: {event.reason}")
                case Command() | Reply() | Content() if session := self._open_sessions.get(event.session):
                    session.ended = event.t
                    yield from self._note_exchange(event, session)
                case Closed() if session := self._open_sessions.pop(event.session, None):
                    session.ended = event.t
                    yield from self._close_session(session)
                case Delivered():
                    yield self._moment(event.sink, event.t, f"delivered to {event.recipient}")
                case FaultFired():
                    yield self._moment(event.server, event.t, f"fault {event.fault}: {event.action}")
                case NodeEvent():
                    yield from self._node_change(event)
        for session in (*self._open_sessions.values(), *self._uneventful.values()):
            yield from self._session_slice(session)
        for party, (state, began) in self._node_states.items():
            yield self._slice(party, _LIFE, began, end, state)
        for (holder, shadow_id), began in self._copies.items():
            yield from self._copy_slice(holder, shadow_id, began, end)
        yield from self._failed_checks()
        yield from self._names()

    def _note_exchange(self, event: Command | Reply | Content, session: _Session) -> Iterator[TraceEvent]:
        """Note what an event means for its session and for copies; yield the slices of the transaction and copies that it ends.

        `operation` is what a reply means for shadow redundancy, None for nothing. The client of a session that fetches
        a discard list holds the copies. The holder of a stored shadow is the server, in a tracked session the client. A
        reply to `CONTENT` is the one to the final dot or to `BDAT LAST`; of several (LMTP) the first ends the transaction.
        """
        if isinstance(event, Command) and event.operation is not None and event.operation.name in _SHADOW_REQUESTS:
            session.tracked = event.operation.name == "track-shadow"
        if isinstance(event, Command) and event.verb == "MAIL":
            session.mail_began, session.eventful = event.t, True
        if not isinstance(event, Reply):
            return
        operation = event.operation
        if operation is not None and operation.name == "discard-list":
            session.eventful |= bool(operation.shadow_ids)
            for shadow_id in operation.shadow_ids:
                holder = session.connected.client
                if (began := self._copies.pop((holder, shadow_id), None)) is not None:
                    yield from self._copy_slice(holder, shadow_id, began, event.t)
        if operation is not None and operation.name == "shadow-stored" and operation.shadow_id and event.code == 250:
            holder = session.connected.client if session.tracked else session.connected.server
            self._copies[holder, operation.shadow_id] = event.t
        if event.to == "CONTENT" and session.mail_began is not None:
            name = f"{session.connected.client}: {event.code} {' '.join(event.lines)[:120]}"
            yield self._slice(session.connected.server, _RECEIVED, session.mail_began, event.t, name)
            session.mail_began = None

    def _close_session(self, session: _Session) -> Iterator[TraceEvent]:
        """Yield the slice of an eventful session that has ended, after that of the uneventful ones merged before it.

        An uneventful session is merged with earlier ones of the same client, server and listener, and nothing is yielded.
        """
        connected = session.connected
        route = connected.client, connected.server, connected.listener
        merged = self._uneventful.pop(route, None)
        if not session.eventful:
            if merged is not None:
                merged.ended, merged.count = session.ended, merged.count + 1
            self._uneventful[route] = merged or session
            return
        if merged is not None:
            yield from self._session_slice(merged)
        yield from self._session_slice(session)

    def _session_slice(self, session: _Session) -> Iterator[TraceEvent]:
        """Yield the beginning and the end of the slice of a session, or of merged ones, in the process of its client.

        The name of the slice says how many sessions are merged, if more than one.
        """
        connected = session.connected
        name = f"to {connected.server}, {connected.listener}" + (
            f": {session.count} sessions" if session.count > 1 else ""
        )
        yield from self._asynchronous_slice(
            connected.client, "session", connected.session, connected.t, session.ended, name
        )

    def _copy_slice(self, holder: str, shadow_id: str, began: float, ended: float) -> Iterator[TraceEvent]:
        """Return the beginning and the end of the slice of a shadow copy, in the process of its holder."""
        return self._asynchronous_slice(holder, "copy", f"{holder} {shadow_id}", began, ended, f"copy {shadow_id}")

    def _node_change(self, event: NodeEvent) -> Iterator[TraceEvent]:
        """Yield the slice of the state that a node leaves, if any, and a moment for any action but `ready` and `resumed`.

        An action that makes the node neither up, down nor paused gives the moment only.
        """
        if event.action not in _UP_ACTIONS | _DOWN_ACTIONS:
            yield self._moment(event.node, event.t, f"{event.action} {event.detail}".strip())
            return
        if state := self._node_states.pop(event.node, None):
            yield self._slice(event.node, _LIFE, state[1], event.t, state[0])
        if event.action in _UP_ACTIONS or event.action == "paused":
            self._node_states[event.node] = ("paused" if event.action == "paused" else "up", event.t)
        if event.action in _DOWN_ACTIONS:
            yield self._moment(event.node, event.t, f"{event.action} {event.detail}".strip())

    def _failed_checks(self) -> Iterator[TraceEvent]:
        """Yield a moment of the process `harness` for each failed check and each error.

        It is at the time of the latest event of the verdict's evidence, at time 0 where the history has no such event.
        """
        times = {event.n: event.t for event in self._cell.events}
        for verdict in self._cell.verdicts:
            if verdict.outcome in (Outcome.FAIL, Outcome.ERROR):
                at = max((times[n] for n in verdict.evidence if n in times), default=0.0)
                yield self._moment("harness", at, f"{verdict.outcome.value}: {verdict.sentence}"[:300])

    def _process_id(self, party: str) -> int:
        """Return the process number of a party; the first call for a party assigns the next number."""
        return self._process_ids.setdefault(party, len(self._process_ids) + 1)

    def _slice(self, party: str, track: int, began: float, ended: float, name: str) -> TraceEvent:
        """Return a slice on a track of a party; times are in seconds."""
        pid, ts = self._process_id(party), _microseconds(began)
        return {"ph": "X", "pid": pid, "tid": track, "ts": ts, "dur": _microseconds(ended) - ts, "name": name}

    def _moment(self, party: str, t: float, name: str) -> TraceEvent:
        """Return a point in time, `t` seconds after the cell began, on the track `moments` of a party."""
        pid, ts = self._process_id(party), _microseconds(t)
        return {"ph": "i", "s": "t", "pid": pid, "tid": _MOMENTS, "ts": ts, "name": name}

    def _asynchronous_slice(
        self, party: str, category: str, slice_id: str, began: float, ended: float, name: str
    ) -> Iterator[TraceEvent]:
        """Yield the begin and the end of a slice that may overlap others of its party; times are in seconds.

        `category` and `slice_id` together tell the slice from all others.
        """
        shared = {"cat": category, "id": slice_id, "pid": self._process_id(party), "tid": 0, "name": name}
        yield {"ph": "b", "ts": _microseconds(began), **shared}
        yield {"ph": "e", "ts": _microseconds(ended), **shared}

    def _names(self) -> Iterator[TraceEvent]:
        """Yield the names of all processes and of their tracks."""
        for party, pid in self._process_ids.items():
            yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": party}}
            for track, name in _TRACKS.items():
                yield {"ph": "M", "pid": pid, "tid": track, "name": "thread_name", "args": {"name": name}}


def _microseconds(seconds: float) -> int:
    """Return a time of the history, in documented seconds, as the whole microseconds of the format."""
    return round(seconds * 1_000_000)
