"""Detectors of the dimensions of servers: what happens to them and to their peers, and which of them take part.

A *cell* is one scenario with one value for each of its axes; a *dimension* is something in which scenarios can differ. A detector
returns whether a cell varies its dimension, or the groups of requirements for which it does; its docstring says what the
cell has then. `actions(cell, ...)` are the steps of some kinds (`detection`), in order.
"""

from collections import Counter
from collections.abc import Iterator

from conformance.requirements.catalogue import catalogue
from conformance.scenarios.coverage.detection import actions, detector, repeated, sends
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.breaking import Answer, Disk, Fault, Heal, Partition
from conformance.scenarios.steps.nodes import (
    Activate,
    Configure,
    Inspect,
    Kill,
    NodeAction,
    Pause,
    PowerCut,
    Redirect,
    Resubmit,
    Resume,
    Start,
    Stop,
    Wipe,
)
from conformance.scenarios.steps.sending import Resend, Send
from conformance.scenarios.steps.talking import Talk

# what happens to servers


def _wiped(cell: Cell) -> set[str]:
    """Return the servers whose database a step deletes (`wipe`), as the steps name them: `all` stays `all`."""
    return {name for action in actions(cell, Wipe) for name in action.node}


@detector
def restart(cell: Cell) -> bool:
    """A server is started again on the same database: it has a start, and no wipe in the whole cell."""
    return bool({name for action in actions(cell, Start) for name in action.node} - _wiped(cell))


@detector
def second_restart(cell: Cell) -> bool:
    """A server is started again more than once."""
    starts: Counter[str] = Counter()
    for step, times in repeated(cell.steps):
        if isinstance(step.action, Start):
            starts.update(dict.fromkeys(step.action.node, times))
    return max(starts.values(), default=0) > 1


@detector
def kill(cell: Cell) -> bool:
    """A server is killed, or loses its power."""
    return bool(actions(cell, Kill, PowerCut))


@detector
def kill_at_a_moment(cell: Cell) -> bool:
    """A server is killed at a point of the protocol."""
    return any(action.at is not None for action in actions(cell, Kill, PowerCut))


@detector
def orderly_stop(cell: Cell) -> bool:
    """A server is stopped in an orderly way."""
    return bool(actions(cell, Stop))


@detector
def orderly_stop_at_a_moment(cell: Cell) -> bool:
    """A server is stopped in an orderly way at a point of the protocol."""
    return any(action.at is not None for action in actions(cell, Stop))


@detector
def new_database(cell: Cell) -> bool:
    """A server comes back with a new queue database."""
    started = {name for action in actions(cell, Start) for name in action.node}
    return bool(_wiped(cell) & started)


@detector
def reload(cell: Cell) -> bool:
    """Servers read changed settings while they run."""
    return bool(actions(cell, Configure))


@detector
def reload_with_something_waiting(cell: Cell) -> bool:
    """Servers read changed settings while mail waits: its next hop refuses it for now or is away, or Safety Net holds it."""
    held_up: set[str] = set()
    waiting = False
    for step in cell.all_steps:
        match step.action:
            case Answer(sink=sink, reply=reply):
                held_up = held_up | {sink} if reply[:1] == "4" else held_up - {sink}
            case Partition(name=name) | Fault(name=name):
                held_up = held_up | {name}
            case Heal(what=what):
                held_up = set() if what == "all" else held_up - {what}
            case Kill(node=nodes) | Stop(node=nodes) | Pause(node=nodes) | PowerCut(node=nodes):
                held_up = held_up | set(nodes)
            case Start(node=nodes) | Resume(node=nodes):
                held_up = held_up - set(nodes)
            case Send() | Resend():
                waiting = waiting or bool(held_up) or "safety-net" in cell.needs
            case Configure() if waiting and (held_up or "safety-net" in cell.needs):
                return True
            case _:
                pass
    return False


@detector
def mailbox_move(cell: Cell) -> bool:
    """A mailbox database becomes active on another server."""
    return bool(actions(cell, Activate))


@detector
def resubmission(cell: Cell) -> bool:
    """Safety Net is asked to send again, by a request or by the activation of a mailbox database on another server."""
    return bool(actions(cell, Activate, Resubmit))


@detector
def redirection(cell: Cell) -> bool:
    """The queues of a server are redirected."""
    return bool(actions(cell, Redirect))


@detector
def second_request_of_a_kind(cell: Cell) -> bool:
    """An administrator's request is made a second time."""
    kinds: Counter[type] = Counter()
    for step, times in repeated(cell.steps):
        if isinstance(step.action, Activate | Configure | Redirect | Resubmit):
            kinds[type(step.action)] += times
    return max(kinds.values(), default=0) > 1


# peers


@detector
def frozen_peer(cell: Cell) -> bool:
    """A server is suspended, or a link passes nothing on."""
    black = any(cut.how == "blackhole" for cut in actions(cell, Partition))
    return black or bool(actions(cell, Pause)) or any(fault.does == "stall" for fault in actions(cell, Fault))


@detector
def slow_peer(cell: Cell) -> bool:
    """A link or a disk is slow."""
    slow = any(fault.does in ("throttle", "delay") for fault in actions(cell, Fault))
    return slow or any(disk.trouble == "slow" for disk in actions(cell, Disk))


@detector
def two_peers_lost_at_once(cell: Cell) -> bool:
    """At least two servers are lost at a time, as the steps name them: `all` counts as one."""
    down: set[str] = set()
    for action in actions(cell, NodeAction):
        if isinstance(action, Kill | Stop | Pause | PowerCut):
            down |= set(action.node)
        elif not isinstance(action, Inspect | Wipe):
            down -= set(action.node)
        if len(down) > 1:
            return True
    return False


@detector
def two_primaries(cell: Cell) -> bool:
    """Two servers receive messages as their primary."""
    return len({server for send in sends(cell) for server in send.via}) > 1


@detector
def fault_on_a_link(cell: Cell) -> bool:
    """A session is disturbed at a point of the protocol."""
    return bool(actions(cell, Fault))


# roles


def _groups_of_listener(cell: Cell, listener: str, *, is_used: bool) -> Iterator[str]:
    """Yield the groups for which a cell varies a listener: CFG where its limits are configured, the others where a client uses it."""
    if is_used:
        yield from (group for group in catalogue().groups if group != "CFG")
    if any(listener in change.listeners for change in actions(cell, Configure)):
        yield "CFG"


def _is_listener_used(cell: Cell, listener: str) -> bool:
    """Return whether a step of the harness sends to, or talks with, a listener of this kind, such as `frontend`."""
    return any(action.listener == listener for action in actions(cell, Send, Talk))


@detector
def listener_frontend(cell: Cell) -> Iterator[str]:
    """A client uses a frontend listener, or its limits are configured."""
    return _groups_of_listener(cell, "frontend", is_used=_is_listener_used(cell, "frontend"))


@detector
def listener_transport(cell: Cell) -> Iterator[str]:
    """A client uses a transport listener, or its limits are configured."""
    return _groups_of_listener(cell, "transport", is_used=_is_listener_used(cell, "transport"))


@detector
def listener_delivery(cell: Cell) -> Iterator[str]:
    """A client uses a delivery listener, or its limits are configured.

    A client uses it in a conversation, or by mail for a mailbox on another server of the boundary.
    """
    hosts = {box.address.casefold(): box.server for box in cell.topology.mailboxes}
    mail = (
        (server, hosts[address.casefold()])
        for send in sends(cell)
        for server in send.via
        for address in send.to
        if address.casefold() in hosts
    )
    delivers = any(host != server and host in cell.topology.boundary(server) for server, host in mail)
    return _groups_of_listener(cell, "delivery", is_used=delivers or _is_listener_used(cell, "delivery"))


@detector
def role_edge(cell: Cell) -> bool:
    """An Edge server takes part."""
    return any(server.role == "edge" for server in cell.topology.servers)


@detector
def generation_2010(cell: Cell) -> bool:
    """A server of Exchange 2010 takes part."""
    return any(server.generation == "ex2010" for server in cell.topology.servers)


@detector
def generation_2013(cell: Cell) -> bool:
    """A server of Exchange 2013 takes part."""
    return any(server.generation == "ex2013" for server in cell.topology.servers)


@detector
def generation_2016(cell: Cell) -> bool:
    """A server of Exchange 2016 or 2019 takes part."""
    return any(server.generation == "ex2016" for server in cell.topology.servers)
