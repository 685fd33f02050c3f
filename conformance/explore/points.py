"""The protocol points of a history: where a fault can act, or a node die, if the plan is run once more.

A point is the n-th time that something passes on a link: a connection, a greeting, a command, a part of a body, a final dot.
Points of one *class* look alike to the servers: the roles of both ends, the listener, the place, and what the session is for. Of
each class the first, the second and the last point are tried.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from conformance.history.events import AnyEvent, Command, Connected, Content
from conformance.history.values import Listener
from conformance.topology import Topology
from conformance.trace.sessions import Session
from conformance.trace.trace import Trace

PointClass = tuple[str, str, str, str, str]
"""(role of the client, role of the server, listener, place, purpose of the session)."""


@dataclass(frozen=True, slots=True)
class ProtocolPoint:
    """The `nth` time that `place` passes from `client` to a listener of `server`; `t` is when, in documented seconds.

    `place` is `connect`, `greeting`, a verb, `body` or `dot`; `n` is the number of the event that shows it. A moment at which a
    node dies knows no listener: `nth_of_any` counts those of all listeners of the server.
    """

    client: str
    server: str
    listener: Listener
    place: str
    nth: int
    t: float
    n: int = 0
    nth_of_any: int = 0

    @property
    def text(self) -> str:
        """The point in words: `mbx1>mbx2 dot 2`, `mbx1>mbx2.delivery dot 2`."""
        listener = ".delivery" if self.listener == "delivery" else ""
        return f"{self.client}>{self.server}{listener} {self.place} {self.nth}"


def find_points(events: Iterable[AnyEvent], topology: Topology) -> list[tuple[PointClass, ProtocolPoint]]:
    """Return every point of a history with its class, in the history's order; links to or from servers under test only."""
    trace = Trace(events)
    counts: Counter[tuple[str, ...]] = Counter()
    found = []
    for event in trace.events:
        if not isinstance(event, Connected | Command | Content):
            continue
        session = trace.sessions[event.session]
        if session.client not in topology.by_name and session.server not in topology.by_name:
            continue
        for place in _places_of(event):
            counts[session.client, session.server, session.listener, place] += 1
            counts[session.client, session.server, place] += 1
            nth = counts[session.client, session.server, session.listener, place]
            point = ProtocolPoint(
                client=session.client,
                server=session.server,
                listener=session.listener,
                place=place,
                nth=nth,
                t=event.t,
                n=event.n,
                nth_of_any=counts[session.client, session.server, place],
            )
            found.append((_class_of(session, place, topology), point))
    return found


def representatives(points: Sequence[tuple[PointClass, ProtocolPoint]]) -> Iterator[ProtocolPoint]:
    """Yield the first, the second and the last point of each class, each once, in the history's order."""
    by_class: defaultdict[PointClass, list[int]] = defaultdict(list)
    for number, (name, _) in enumerate(points):
        by_class[name].append(number)
    chosen = {number for numbers in by_class.values() for number in (*numbers[:2], numbers[-1])}
    yield from (points[number][1] for number in sorted(chosen))


def _places_of(event: Connected | Command | Content) -> tuple[str, ...]:
    """Return the places (`ProtocolPoint.place`) that an event stands for; () for a command whose verb is not made of letters."""
    match event:
        case Connected():
            return ("connect", "greeting")
        case Content():
            return ("body", "dot")
        case Command():
            return (event.verb,) if event.verb.isalpha() else ()


def _class_of(session: Session, place: str, topology: Topology) -> PointClass:
    """Return the class of a point in a session.

    The session's purpose is the kind of its first transaction (`plain`, `shadow`, `tracked`); without one `query` if it asks for
    discard notifications, else `other`.
    """
    sent = next((transaction.kind for transaction in session.transactions), None)
    asks = any(e.command.operation and e.command.operation.name == "query-discard" for e in session.exchanges)
    purpose = sent or ("query" if asks else "other")
    return (
        _role_of(session.client, topology),
        _role_of(session.server, topology),
        session.listener,
        place,
        purpose,
    )


def _role_of(party: str, topology: Topology) -> str:
    """Return a server's role with its generation, `store` for a mailbox store, else the name of the sink or sender."""
    server = topology.by_name.get(party)
    if server is not None:
        return f"{server.role} {server.generation}"
    return "store" if party.endswith("-store") else party
