"""What can go wrong at a protocol point: the faults of a session, and the ways in which a node goes away.

`injections_at` enumerates them; each that has the same effect as another, or no meaning at its point, comes with the reason to
leave it out. A *unit* is what passes a link or is broken as a whole: a command, a reply, a part of a body, the final dot. The name of
a fault says when it acts: `before` the unit passes, when the other end has `heard` it, `after` its reply has arrived at the link, or
when the reply was passed on (`answered`); with a code (`answered 451`) the harness answers in the server's place. `sweep` puts each
fault into a plan of its own, `sweep_pairs` two into one. A server that is *away* stays so for
more than 3 hours of documented time; a stall and a *frozen* node last 20 minutes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from conformance.explore.points import ProtocolPoint
from conformance.faults import WHENS
from conformance.scenarios.steps.action import Action
from conformance.scenarios.steps.breaking import Fault
from conformance.scenarios.steps.nodes import Kill, Moment, NodeAction, Pause, PowerCut, Start, Wipe
from conformance.scenarios.steps.timing import Advance

_LONG_S = 3 * 3600 + 600
"""Documented seconds that a server stays away: longer than ShadowResubmitTimeSpan and a heartbeat by default."""
_STALL_S = 1200
"""Documented seconds for which a fault holds a unit, or a node is frozen: longer than every timeout of RFC 5321 4.5.3.2."""
_BODY_OFFSETS = (1, 20)
"""After how many octets a body is cut, besides its half: in its first line, and after that."""
_REPLIES = ("451 4.3.0 try later", "550 5.7.1 refused", "421 4.3.2 closing")

NODE_KINDS = ("killed", "away", "renewed", "frozen", "without power")
"""What can happen to a node: it comes back soon, late, or with an empty queue; it stops for a while; or it loses what was not
synced."""

_NODE_PLACES_LEFT_OUT = ("connect", "greeting", "body")


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault at one point of the protocol.

    `node` is the server that it happens to, '' for a fault of the session. `kind` is one of NODE_KINDS for a server, else a name of
    `_session_kinds`, such as `after drop`.
    """

    point: ProtocolPoint
    kind: str
    node: str = ""

    @property
    def text(self) -> str:
        """The fault in words: `mbx1>mbx2 dot 2 after drop`, `mbx1>mbx2 dot 2 mbx1 killed`."""
        return f"{self.point.text} {self.node} {self.kind}" if self.node else f"{self.point.text} {self.kind}"

    def arm(self, name: str) -> Action:
        """Return the step that arms it, to be put before the scenario's steps; a fault of the session gets the name `name`.

        The server of the point goes away when its reply has arrived at the link, before the link passes it on (`arrived`); the client
        when the reply was passed to it. Such a moment counts what passes over all listeners.
        """
        point = self.point
        if not self.node:
            where = {"as": name, "from": point.client, "to": point.server, "listener": point.listener, "nth": point.nth}
            return Fault.model_validate({**where, "at": point.place, **_session_kinds(point.place)[self.kind][0]})
        arrived = self.node == point.server
        moment = Moment.model_validate(
            {
                "from": point.client,
                "to": point.server,
                "after": point.place,
                "nth": point.nth_of_any,
                "arrived": arrived,
            }
        )
        steps: dict[str, type[NodeAction]] = {"frozen": Pause, "without power": PowerCut}
        return steps.get(self.kind, Kill)(node=(self.node,), at=moment)

    def occasion(self, name: str) -> str:
        """Return the name that `FaultFired` events have for the fault: `name` for one of the session, else that of the moment."""
        armed = self.arm(name)
        return armed.occasion if isinstance(armed, NodeAction) else name

    def follow(self, wait: float, *, is_late: bool) -> tuple[Action, ...]:
        """Return the steps to add after those of the scenario, so that the fault acts and has its effect before the drain.

        `wait` is how long after the scenario's steps the point may still come, in documented seconds; `is_late` says whether
        the point comes after them. A server that went away is started by these steps and not by the drain, which ends all faults,
        so that a second fault can follow. A frozen one is resumed by the drain. () for a fault of the session other than a stall,
        at a point that comes during the scenario's steps: nothing is to be awaited then.
        """
        match self.kind.split()[-1]:
            case "away":
                return (Advance(by=wait + _LONG_S), Start(node=(self.node,)))
            case "killed" | "power":
                return (Advance(by=wait), Start(node=(self.node,)))
            case "renewed":
                return (Advance(by=wait), Wipe(node=(self.node,)), Start(node=(self.node,)))
            case "frozen" | "stall":
                return (Advance(by=wait + _STALL_S),)
            case _:
                return (Advance(by=wait),) if is_late else ()


def injections_at(point: ProtocolPoint, servers: frozenset[str]) -> Iterator[tuple[Injection, str]]:
    """Yield each fault at a point with the reason to leave it out ('': it is tried); `servers` are those under test."""
    for kind, (_, reason) in _session_kinds(point.place).items():
        yield Injection(point, kind), reason
    left_out = "a node dies at commands and at the final dot only" if point.place in _NODE_PLACES_LEFT_OUT else ""
    for node in sorted({point.client, point.server} & servers):
        for kind in NODE_KINDS:
            yield Injection(point=point, kind=kind, node=node), left_out


@cache
def _session_kinds(place: str) -> Mapping[str, tuple[Mapping[str, Any], str]]:
    """Return the faults of a session that are possible at a place, by name.

    Each comes with the fields of the step `fault`, and the reason to leave it out ('': it is tried).
    """
    if place == "connect":
        return {
            "refuse": ({"does": "refuse"}, ""),
            "stall": ({"does": "stall", "lasting": _STALL_S}, ""),
            "drop": ({"does": "drop"}, "drop at connect: as refuse"),
        }
    if place == "body":
        return {
            "cut": ({"does": "cut"}, ""),
            **{f"cut at {octets}": ({"does": "cut", "offset": octets}, "") for octets in _BODY_OFFSETS},
        }
    found: dict[str, tuple[Mapping[str, Any], str]] = {}
    whens = WHENS if place != "greeting" else ("after", "answered")
    for when in whens:
        found[f"{when} drop"] = {"does": "drop", "when": when}, ""
        same = "" if when == "after" else f"reset {when} the unit passes: as drop"
        found[f"{when} reset"] = {"does": "reset", "when": when}, same
    for when in ("before", "after") if place != "greeting" else ("after",):
        found[f"{when} stall"] = {"does": "stall", "when": when, "lasting": _STALL_S}, ""
        found[f"{when} cut"] = {"does": "cut", "when": when}, ""
    for reply in _REPLIES:
        found[f"replaced by {reply[:3]}"] = {"does": "replace", "when": "after", "reply": reply}, ""
        if place not in ("greeting", "dot"):
            found[f"answered {reply[:3]}"] = {"does": "answer", "reply": reply}, ""
    return found
