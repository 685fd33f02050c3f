"""A cell's sessions as a new scenario: one `talk` for each session of the harness, expecting the recorded reply codes.

The scenario repeats the sessions in which the harness was the client (as `outside`, as `submission`, in a server's name),
in their order and with their pauses, on the same topology with the same parameters. It does not repeat faults, kills or
the replies of sinks. A content is replaced by a stand-in, since only its digest was recorded. Secrets in recorded AUTH
lines are redacted, so authentication fails where the scenario is run.

`conformance export --format scenario` calls `as_scenario`. A `talk` is a step that holds one SMTP session from given lines; a
*line* of it has what the client sends (`say` or `octets`), the pause before (`wait`) and the reply's code. A *digest* has the
hash, size and Message-ID of a content. Pauses are documented seconds.
"""

import io
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML

from conformance.export.segments import content_stand_in
from conformance.history.events import AnyEvent, Attempt, Closed, Command, Connected, Content, Reply, Talked
from conformance.parameters import DEFAULTS, effective_parameters
from conformance.results.reader import StoredCell
from conformance.scenarios.values import format_duration
from conformance.topology import Topology

_MIN_PAUSE = 0.5
"""Seconds of documented time; shorter pauses are not repeated."""
_MAX_ID = 52
"""Characters of the old id in the new one, which may have 60 and ends with `-as-seen`."""

YamlMapping = dict[str, Any]
"""A step, a line of a `talk`, or another mapping of the scenario's YAML."""


class NoSession(ValueError):
    """The harness opened no session to a server in this cell."""


@dataclass(slots=True)
class _Session:
    """A session with its commands, replies and contents, and its end, in their order."""

    connected: Connected
    events: list[AnyEvent] = field(default_factory=list)

    @property
    def ended(self) -> float:
        """The time of its last event, in documented seconds; of a session without events that of its beginning."""
        return self.events[-1].t if self.events else self.connected.t


def as_scenario(cell: StoredCell) -> bytes:
    """Return the scenario as a YAML file. Raises NoSession where the harness itself opened no session to a server.

    Raises pydantic.ValidationError where the topology in the cell's header is damaged.
    """
    topology = Topology.model_validate(cell.header.topology)
    sessions = list(_harness_sessions(cell.events, {server.name for server in topology.servers}))
    if not sessions:
        raise NoSession(f"{cell.header.nodeid}: the harness itself held no session with a server")
    document = {
        "id": f"{cell.header.scenario[:_MAX_ID].rstrip('-')}-as-seen",
        "title": f"Servers answer the sessions of {cell.header.scenario} as they did",
        "description": f"Exported from {cell.header.nodeid}, event by event.",
        "requirements": list(cell.header.requirements),
        "topology": _topology_mapping(topology, cell.header.parameters),
        "steps": list(_steps(sessions)),
    }
    yaml = YAML()
    yaml.width = 120
    text = io.BytesIO()
    yaml.dump(document, text)
    return text.getvalue()


def _harness_sessions(events: Iterable[AnyEvent], servers: set[str]) -> Iterator[_Session]:
    """Yield the sessions to servers in which the harness was the client, in the order in which they were opened.

    `servers` are the names of the topology's servers. The sessions are those of a client that is not a server, and those in a
    server's name with an `Attempt` or `Talked`: events that record the end of what the harness itself sent.
    """
    sessions: dict[str, _Session] = {}
    events = tuple(events)
    in_servers_names = {event.session for event in events if isinstance(event, Attempt | Talked)}
    for event in events:
        if isinstance(event, Connected):
            if event.server in servers and (event.client not in servers or event.session in in_servers_names):
                sessions[event.session] = _Session(event)
        elif isinstance(event, Command | Reply | Content | Closed) and event.session in sessions:
            sessions[event.session].events.append(event)
    yield from sessions.values()


def _topology_mapping(topology: Topology, parameters: dict[str, Any]) -> YamlMapping:
    """Return the topology as YAML, where each server has those parameters that differed from the default at the start.

    `parameters` has all transport parameters of each server at the start, by the server's name; they replace what the topology
    states. A server without an entry, as in a run of 0.1.0, has those that the topology states.
    """
    mapping = topology.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    mapping.pop("transport", None)
    for server in mapping["servers"]:
        stated = topology.by_name[server["name"]].transport
        values = parameters.get(server["name"]) or effective_parameters(topology.transport, stated)
        changed = {name: value for name, value in values.items() if value != DEFAULTS.get(name)}
        server.pop("transport", None)
        if changed:
            server["transport"] = changed
    return mapping


def _steps(sessions: Sequence[_Session]) -> Iterator[YamlMapping]:
    """Yield a `talk` for each session, an `advance` for each pause before one, and at the end an expectation for each talk.

    Pauses shorter than `_MIN_PAUSE` are left out. A session during which the next one begins runs in the background. `now` is
    the time that the new scenario has reached.
    """
    now = 0.0
    for number, session in enumerate(sessions, 1):
        if (pause := session.connected.t - now) >= _MIN_PAUSE:
            yield {"advance": format_duration(pause)}
        connected = session.connected
        talk: YamlMapping = {"as": f"s{number}", "to": connected.server, "listener": connected.listener}
        talk |= {"party": connected.client, "lines": list(_talk_lines(session))}
        overlaps = number < len(sessions) and sessions[number].connected.t < session.ended
        if overlaps:
            talk["background"] = True
        yield {"talk": talk}
        now = max(now, session.connected.t if overlaps else session.ended)
    for number in range(1, len(sessions) + 1):
        yield {"expect": {"conversation": {"conversation": f"s{number}"}}}


def _talk_lines(session: _Session) -> Iterator[YamlMapping]:
    """Yield the lines of a session's `talk`: each command or content with the reply to it, and extra replies.

    Servers reply in the order of the commands, so each line of a pipelined group gets its own reply; a line without a recorded
    reply gets none. The greeting is a line of its own, before the others. A pause of at least `_MIN_PAUSE` becomes the line's
    `wait`. Where the session was ended by the server or the harness's link, and not after QUIT, a last line with the code
    `closed` expects that the server ends it.
    """
    replies = deque(event for event in session.events if isinstance(event, Reply))
    if replies and replies[0].to == "GREETING":
        yield _with_reply({}, replies.popleft())
    has_quit, previous_t = False, session.connected.t
    for event in session.events:
        if isinstance(event, Command | Content):
            line = _client_line(event)
            if (pause := event.t - previous_t) >= _MIN_PAUSE:
                line["wait"] = format_duration(pause)
            yield _with_reply(line, replies.popleft()) if replies else line
            has_quit = isinstance(event, Command) and event.verb == "QUIT"
        previous_t = event.t
    for reply in replies:
        yield _with_reply({}, reply)
    last = session.events[-1] if session.events else None
    if isinstance(last, Closed) and last.by != "client" and not has_quit:
        yield {"code": "closed"}


def _client_line(event: Command | Content) -> YamlMapping:
    """Return a command as `say`, or the stand-in of a content as `octets` with `\\r` and `\\n` escaped."""
    if isinstance(event, Command):
        return {"say": event.line}
    text = content_stand_in(event.digest).decode("utf-8", "replace").replace("\\", "\\\\")
    return {"octets": text.replace("\r", "\\r").replace("\n", "\\n")}


def _with_reply(line: YamlMapping, reply: Reply) -> YamlMapping:
    """Add the expected code and enhanced code of a reply to a line, and return the line."""
    line["code"] = reply.code
    if reply.enhanced:
        line["enhanced"] = reply.enhanced
    return line
