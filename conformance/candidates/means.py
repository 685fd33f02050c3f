"""What a cell asks of servers that run already (kind `remote`), and their descriptions have no means for.

A server that the harness starts itself is told everything: addresses, parameters, times. Of one that was set up by
somebody else it is known only what its description says.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from conformance.candidates.cast import Cast
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.blocks import Step, flattened
from conformance.scenarios.steps.breaking import Answer, Fault, Partition
from conformance.scenarios.steps.nodes import (
    Activate,
    Configure,
    Inspect,
    Kill,
    NodeAction,
    Pause,
    Redirect,
    Resubmit,
    Resume,
    Start,
    Stop,
    Wipe,
)
from conformance.scenarios.steps.sending import Send
from conformance.scenarios.steps.talking import Talk
from conformance.scenarios.steps.timing import Advance
from conformance.topology import Topology

_COMMANDS: dict[type, tuple[str, ...]] = {
    Kill: ("kill", "start"), Stop: ("stop", "start"), Start: ("start",), Wipe: ("wipe", "start"), Pause: ("pause",),
    Resume: ("resume",), Configure: ("reload",), Activate: ("reload",), Inspect: ("inspect",),
    Redirect: ("redirect-messages",), Resubmit: ("resubmit",),
}  # fmt: skip
"""The commands that a step needs, of the servers that it acts on."""

_TIMED = (Advance, Answer, Fault, NodeAction, Partition)
"""Steps after which it matters when a server tries again."""

_RECIPIENT = re.compile(r"RCPT TO:<([^>]*)>", re.IGNORECASE)


def lacking_means(cell: Cell, cast: Cast, scale: float) -> tuple[str, ...]:
    """Return `server: reason` for every server that cannot play its part in a cell; `scale` divides the run's times."""
    reasons = {}
    for server in cell.topology.servers:
        candidate = cast.plays(server.name)
        if candidate.kind == "remote":
            reasons[server.name] = next(_reasons(cell, server.name, cast, scale), None)
    return tuple(f"{server}: {reason}" for server, reason in reasons.items() if reason)


def _reasons(cell: Cell, server: str, cast: Cast, scale: float) -> Iterator[str]:
    candidate = cast.plays(server)
    others = (one.name for one in cell.topology.servers if one.name != server)
    if any(cast.plays(other).addresses == candidate.addresses for other in others):
        yield "it is one server, and cannot be several at the same time; SERVER=CANDIDATE,... gives it one part"
    steps = list(flattened(cell.steps))
    for step in steps:
        for command in commands_needed(step, server):
            if command not in candidate.commands:
                yield f"its description has no command {command!r}, which the step {step.verb!r} needs"
    if candidate.is_told:
        return
    own = cell.topology.by_name[server]
    if set(cell.topology.transport) | set(own.transport) | set(own.listeners):
        yield "it was set up by somebody else, and this scenario wants parameters that differ from the defaults"
    for party in _dialled(cell, server, steps):
        if party not in candidate.next_hops:
            yield f"it was not set up to dial {party}: its description names no such address in `next-hops`"
    if candidate.scale != scale and not candidate.flush_to_retry and any(isinstance(s.action, _TIMED) for s in steps):
        said = "does not say by what" if candidate.scale is None else f"says that by {candidate.scale:g}"
        yield f"its description {said} its times were divided (`scale`), and in this run it is {scale:g}"


def commands_needed(step: Step, server: str) -> tuple[str, ...]:
    """Return the commands that a step needs of a server."""
    action = step.action
    match action:
        case NodeAction(node=names) | Configure(node=names) | Inspect(node=names):
            concerned = server in names or "all" in names
        case Redirect(sender=name) | Resubmit(on=name):
            concerned = name == server
        case _:
            concerned = isinstance(action, Activate)
    return _COMMANDS.get(type(action), ()) if concerned else ()


def _dialled(cell: Cell, server: str, steps: Sequence[Step]) -> Iterator[str]:
    """Yield every party that the server must dial: for its shadows, and for the recipients of the messages."""
    if any(need.startswith("shadow") for need in cell.needs):
        boundary = cell.topology.boundary(server)
        yield from (other.name for other in cell.topology.servers if other.name in boundary - {server})
    for recipient in recipients(steps):
        yield from _hops(cell.topology, server, recipient)


def recipients(steps: Iterable[Step]) -> Iterator[str]:
    """Yield every address that messages of these steps are sent to."""
    for step in steps:
        match step.action:
            case Send(to=addresses):
                yield from addresses
            case Talk(lines=lines):
                yield from (address for line in lines for address in _RECIPIENT.findall(line.say or ""))


def _hops(topology: Topology, server: str, recipient: str) -> Iterator[str]:
    """Yield who is next on the way of a message from a server to a recipient."""
    hosts = {mailbox.address: mailbox.server for mailbox in topology.mailboxes}
    if (host := hosts.get(recipient.lower())) is not None:
        yield topology.store_of(server) if host == server else f"{host}.delivery"
        return
    domain = recipient.rpartition("@")[2].lower()
    routes = [route for route in topology.routes if not route.servers or server in route.servers]
    named = [route for route in routes if route.domain == domain] or [route for route in routes if route.domain == "*"]
    for route in named[:1]:
        yield from (hop for hop in route.next_hops if hop != server)
