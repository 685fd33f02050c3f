"""What the harness said in a cell as a scenario of its own: one `talk` for each of its sessions, which expects the codes that were
seen.

It repeats the conversations that the harness held itself (as `outside`, as `submission`, in a server's name), in their order and with their pauses, on the same
topology with the same parameters. It does not repeat what the harness did beside them: faults, kills, answers of sinks. Of a
content the digest alone was recorded: a stand-in is sent. Secrets were redacted, so a line of AUTH says what it cannot say.
"""

import io
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML

from conformance.export.segments import content_stand_in
from conformance.history.events import AnyEvent, Attempt, Closed, Command, Connected, Content, Reply, Talked
from conformance.parameters import DEFAULTS
from conformance.results.reader import StoredCell
from conformance.scenarios.values import format_duration
from conformance.topology import Topology

_PAUSE = 0.5
"""Seconds of documented time: a shorter pause is none of the client's."""
_ID = 52
"""Characters of the scenario's id that are left in that of the new one, which has 60 at most."""

Entry = dict[str, Any]
"""A line of a `talk`, or a step, as it stands in YAML."""


class NoSession(ValueError):
    """The harness held no session with a server in this cell."""


@dataclass(slots=True)
class _Session:
    began: Connected
    events: list[AnyEvent] = field(default_factory=list)

    @property
    def ended(self) -> float:
        return self.events[-1].t if self.events else self.began.t


def as_scenario(cell: StoredCell) -> bytes:
    """Return the scenario file. Raises NothingSaid."""
    topology = Topology.model_validate(cell.header.topology)
    sessions = list(_sessions(cell.events, {server.name for server in topology.servers}))
    if not sessions:
        raise NoSession(f"{cell.header.nodeid}: the harness itself held no session with a server")
    document = {
        "id": f"{cell.header.scenario[:_ID].rstrip('-')}-as-seen",
        "title": f"What was said to the servers in {cell.header.scenario} is answered as it was",
        "description": f"Exported from {cell.header.nodeid}, event by event.",
        "requirements": list(cell.header.requirements),
        "topology": _world(topology, cell.header.parameters),
        "steps": list(_steps(sessions)),
    }
    yaml = YAML()
    yaml.width = 120
    text = io.BytesIO()
    yaml.dump(document, text)
    return text.getvalue()


def _sessions(events: Iterable[AnyEvent], servers: set[str]) -> Iterator[_Session]:
    """Yield the sessions that the harness itself held with servers, in the order in which they were opened: those of a client
    that is no server, and those in the name of a server that it sent or talked in."""
    found: dict[str, _Session] = {}
    events = tuple(events)
    ours = {event.session for event in events if isinstance(event, Attempt | Talked)}
    for event in events:
        if isinstance(event, Connected):
            if event.server in servers and (event.client not in servers or event.session in ours):
                found[event.session] = _Session(event)
        elif isinstance(event, Command | Reply | Content | Closed) and event.session in found:
            found[event.session].events.append(event)
    yield from found.values()


def _world(topology: Topology, parameters: dict[str, Any]) -> Entry:
    """Return the topology with the parameters that the servers had at the cell's start."""
    world = topology.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    world.pop("transport", None)
    for server in world["servers"]:
        had = parameters.get(server["name"], {})
        changed = {name: value for name, value in had.items() if value != DEFAULTS.get(name)}
        server.pop("transport", None)
        if changed:
            server["transport"] = changed
    return world


def _steps(sessions: Sequence[_Session]) -> Iterator[Entry]:
    """Yield a talk for each session, what passes between them, and at the end the expectation of each."""
    at = 0.0
    for number, session in enumerate(sessions, 1):
        if (pause := session.began.t - at) >= _PAUSE:
            yield {"advance": format_duration(pause)}
        began = session.began
        talk: Entry = {"as": f"s{number}", "to": began.server, "listener": began.listener, "party": began.client}
        talk["lines"] = list(_lines(session))
        overlaps = number < len(sessions) and sessions[number].began.t < session.ended
        if overlaps:
            talk["background"] = True
        yield {"talk": talk}
        at = max(at, session.began.t if overlaps else session.ended)
    for number in range(1, len(sessions) + 1):
        yield {"expect": {"conversation": {"conversation": f"s{number}"}}}


def _lines(session: _Session) -> Iterator[Entry]:
    """Yield the lines of a session. Replies come in the order of the commands, so a pipelined line has its own reply too."""
    replies = deque(event for event in session.events if isinstance(event, Reply))
    if replies and replies[0].to == "GREETING":
        yield _answered({}, replies.popleft())
    quits, before = False, session.began.t
    for event in session.events:
        if isinstance(event, Command | Content):
            line = _said(event)
            if (pause := event.t - before) >= _PAUSE:
                line["wait"] = format_duration(pause)
            yield _answered(line, replies.popleft()) if replies else line
            quits = isinstance(event, Command) and event.verb == "QUIT"
        before = event.t
    for reply in replies:
        yield _answered({}, reply)
    closed = session.events[-1] if session.events else None
    if isinstance(closed, Closed) and closed.by != "client" and not quits:
        yield {"code": "closed"}


def _said(event: Command | Content) -> Entry:
    if isinstance(event, Command):
        return {"say": event.line}
    text = content_stand_in(event.digest).decode("utf-8", "replace").replace("\\", "\\\\")
    return {"octets": text.replace("\r", "\\r").replace("\n", "\\n")}


def _answered(line: Entry, reply: Reply) -> Entry:
    line["code"] = reply.code
    if reply.enhanced:
        line["enhanced"] = reply.enhanced
    return line
