"""Sessions and message transfers of a history, for the second opinion.

Nothing of `conformance.judge` is used here. Every question is answered by going through all events again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.history.events import AnyEvent
from conformance.history.values import Digest
from conformance.topology import Topology


@dataclass
class World:
    """A history with its topology and parameters."""

    events: Sequence[AnyEvent]
    topology: Topology
    parameters: dict[str, Any]

    def kind(self, word: str) -> list[Any]:
        return [event for event in self.events if event.kind == word]

    def session(self, name: str) -> Any:
        return next(event for event in self.kind("connected") if event.session == name)

    def is_server(self, party: str) -> bool:
        return any(server.name == party for server in self.topology.servers)

    def by_harness(self, session: str) -> bool:
        return any(event.session == session for event in self.kind("attempt"))

    def broken(self, session: str) -> bool:
        return any(
            event.session == session and event.action in ("garble", "cut", "replace", "answer", "mute")
            for event in self.kind("fault-fired")
        )

    def boundary(self, server: str) -> set[str]:
        one = next(s for s in self.topology.servers if s.name == server)
        if one.dag is None:
            return {s.name for s in self.topology.servers if s.dag is None and s.site == one.site}
        return {s.name for s in self.topology.servers if s.dag == one.dag}

    def message(self, digest: Digest) -> Any:
        """Return the event of the message with this body, None for a report; bodies are unique in these histories."""
        if digest.report is not None:
            return None
        for made in self.kind("message"):
            if made.digest.body_sha256 == digest.body_sha256:
                return made
        return None


@dataclass
class Transfer:
    """One transaction that reached its final dot: a message on its way from one party to another."""

    session: str
    client: str
    server: str
    door: str
    mail: int
    sender: str
    shadow: str | None
    accepted: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    dot: Any = None
    finals: list[Any] = field(default_factory=list)

    @property
    def acceptance(self) -> Any:
        return next((reply for reply in self.finals if 200 <= reply.code <= 299), None)

    def accepted_for(self, recipient: str) -> bool:
        return any(
            200 <= reply.code <= 299 and (reply.recipient is None or reply.recipient == recipient)
            for reply in self.finals
        )


def transfers(world: World) -> list[Transfer]:
    """Read every session from its beginning, once for each MAIL in it."""
    found = []
    for start in world.kind("command"):
        if start.verb != "MAIL":
            continue
        where = world.session(start.session)
        one = Transfer(
            start.session, where.client, where.server, where.listener, start.n,
            start.line.split("<")[1].split(">")[0], start.operation.shadow_id if start.operation else None,
        )  # fmt: skip
        asked = None
        for event in world.events[start.n + 1 :]:
            if getattr(event, "session", None) != start.session:
                continue
            if event.kind == "command" and event.verb in ("MAIL", "RSET", "QUIT"):
                break
            if event.kind == "command" and event.verb == "RCPT":
                asked = event.line.split("<")[1].split(">")[0]
            elif event.kind == "reply" and event.to == "RCPT" and asked is not None:
                (one.accepted if event.code < 300 else one.refused).append(asked)
                asked = None
            elif event.kind == "content":
                one.dot = event
            elif event.kind == "reply" and event.to == "CONTENT":
                one.finals.append(event)
        if one.dot is not None:
            found.append(one)
    return found


def transfers_of(world: World, made: Any) -> list[Transfer]:
    """Return those of one message."""
    return [p for p in transfers(world) if world.message(p.dot.digest) is made]
