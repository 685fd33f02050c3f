"""Finds the dimensions that a cell varies, from its steps, its topology and its axes; nothing is run.

A *dimension* is something in which scenarios can differ, such as a second message or a restart. An *action* is what a step of a
scenario does; its class is the model of the step's verb.

A detector is a function of a cell whose name is the dimension's id in `dimensions.yaml`, with `_` for `-`. It may be generous: it
says that a cell gives an occasion, not that every requirement of the cell is judged by it.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from conformance.parameters import TransportParameters
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.action import Parallel, Repeat, Step
from conformance.scenarios.steps.breaking import Answer, Disk, Fault, Partition
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
    Start,
    Stop,
    Wipe,
)
from conformance.scenarios.steps.sending import Resend, Send
from conformance.scenarios.steps.talking import Talk

Detector = Callable[[Cell], bool]

DETECTORS: dict[str, Detector] = {}
"""Detectors by the id of their dimension."""


def dimensions_of(cell: Cell) -> frozenset[str]:
    """Return the ids of the dimensions that a cell varies."""
    return frozenset(name for name, detector in DETECTORS.items() if detector(cell))


def _detector(function: Detector) -> Detector:
    DETECTORS[function.__name__.replace("_", "-")] = function
    return function


def _actions(cell: Cell, *kinds: type) -> list[Any]:
    """Return the actions of these kinds, in order."""
    return [step.action for step in cell.all_steps if isinstance(step.action, kinds)]


def _sends(cell: Cell) -> list[Send]:
    return _actions(cell, Send)


def _repeated(steps: Iterable[Step], times: int = 1) -> Iterator[tuple[Step, int]]:
    """Yield each step with the number of times that it is done."""
    for step in steps:
        yield step, times
        if isinstance(step.action, Parallel | Repeat):
            yield from _repeated(step.action.steps, times * getattr(step.action, "times", 1))


def _number_of_messages(cell: Cell) -> int:
    """Return how many messages a cell sends."""
    return sum(
        times * getattr(step.action, "count", 1)
        for step, times in _repeated(cell.steps)
        if isinstance(step.action, Send | Resend)
    )


def _values(cell: Cell) -> Iterator[tuple[str, Any]]:
    """Yield the transport parameters that a cell sets, with their values."""
    yield from cell.topology.transport.items()
    for server in cell.topology.servers:
        yield from server.transport.items()
    for change in _actions(cell, Configure):
        yield from change.transport.items()


def _at_limit(cell: Cell, *bounds: str) -> bool:
    """Return whether a parameter has the value of one of these bounds (`ge`, `le`) of its range."""
    fields = TransportParameters.model_fields
    return any(
        getattr(mark, bound, None) == value
        for name, value in _values(cell)
        if name in fields and not isinstance(value, bool | str)
        for mark in fields[name].metadata
        for bound in bounds
    )


# what is configured


@_detector
def value_left_out(cell: Cell) -> bool:
    """Nothing is in the nodes' files that the scenario does not set."""
    return cell.axes.get("parameters") == "default" or cell.implied.get("parameters") == "default"


@_detector
def value_at_its_minimum(cell: Cell) -> bool:
    """A parameter has the least value of its range."""
    return _at_limit(cell, "ge")


@_detector
def value_at_its_maximum(cell: Cell) -> bool:
    """A parameter has the greatest value of its range."""
    return _at_limit(cell, "le")


@_detector
def value_zero(cell: Cell) -> bool:
    """A number is 0."""
    return any(value == 0 and not isinstance(value, bool | str) for _, value in _values(cell))


@_detector
def size_at_the_limit(cell: Cell) -> bool:
    """A message has a size given to the octet."""
    return any(send.whole is not None for send in _sends(cell))


# how many messages


@_detector
def second_message(cell: Cell) -> bool:
    """There is more than one message."""
    return _number_of_messages(cell) > 1


@_detector
def second_message_of_a_session(cell: Cell) -> bool:
    """A session carries more than one message."""
    talks = (sum(line.message is not None for line in talk.lines) > 1 for talk in _actions(cell, Talk))
    return any(send.sessions == "one" and send.count > 1 for send in _sends(cell)) or any(talks)


@_detector
def more_than_20_messages(cell: Cell) -> bool:
    """There are more messages than a session carries (20)."""
    return _number_of_messages(cell) > 20


@_detector
def more_than_100_messages(cell: Cell) -> bool:
    """There are more than 100 messages."""
    return _number_of_messages(cell) > 100


@_detector
def more_than_1000_messages(cell: Cell) -> bool:
    """There are more than 1,000 messages."""
    return _number_of_messages(cell) > 1000


@_detector
def two_sessions_at_once(cell: Cell) -> bool:
    """Messages are sent in several sessions at the same time."""
    background = sum(getattr(action, "background", False) for action in _actions(cell, Send, Resend, Talk))
    parallel = any(isinstance(step.action, Parallel) for step in cell.all_steps)
    return background > 1 or parallel or any(send.concurrency > 1 for send in _sends(cell))


# envelopes and spelling


@_detector
def several_recipients(cell: Cell) -> bool:
    """A message has more than one recipient."""
    return any(len(send.to) > 1 for send in _sends(cell))


@_detector
def many_recipients(cell: Cell) -> bool:
    """A message has at least 20 recipients."""
    return any(len(send.to) >= 20 for send in _sends(cell))


@_detector
def some_recipients_refused(cell: Cell) -> bool:
    """A next hop treats one of several recipients in another way than the others."""
    return any(answer.recipient is not None for answer in _actions(cell, Answer)) and several_recipients(cell)


@_detector
def null_sender(cell: Cell) -> bool:
    """A message has a null reverse-path."""
    return any(send.sender in ("", "<>") for send in _sends(cell))


@_detector
def delivery_status_requested(cell: Cell) -> bool:
    """A message has NOTIFY, RET, ENVID or the like in its envelope."""
    fields = ("notify", "ret", "envid", "orcpt", "body", "smtputf8")
    return any(getattr(send, field, None) for send in _sends(cell) for field in fields)


@_detector
def case_of_a_domain(cell: Cell) -> bool:
    """A recipient's domain is not in lower case."""
    return any(re.search(r"@.*[A-Z]", address) for send in _sends(cell) for address in send.to)


@_detector
def case_of_a_local_part(cell: Cell) -> bool:
    """A recipient's local part is not in lower case."""
    return any(re.search(r"[A-Z].*@", address) for send in _sends(cell) for address in send.to)


@_detector
def case_of_a_server_name(cell: Cell) -> bool:
    """A client writes the name of a server in another letter case than the topology."""
    names = {server.name for server in cell.topology.servers}
    folded = {name.casefold() for name in names}
    said = [word for talk in _actions(cell, Talk) for line in talk.lines for word in (line.say or "").split()]
    return any(word not in names and word.casefold() in folded for word in said)


@_detector
def names_that_begin_alike(cell: Cell) -> bool:
    """The name of a server or a mailbox begins with that of another one."""
    boxes = [box.address.partition("@")[0] for box in cell.topology.mailboxes]
    groups = ([server.name for server in cell.topology.servers], boxes)
    return any(one != other and one.startswith(other) for names in groups for one in names for other in names)


@_detector
def numbers_of_several_digits(cell: Cell) -> bool:
    """Costs have different numbers of digits, or there are more than nine of something that is counted."""
    lengths = {len(str(link.cost)) for link in cell.topology.site_links}
    return len(lengths) > 1 or _number_of_messages(cell) > 9


@_detector
def odd_headers(cell: Cell) -> bool:
    """A message has a header field that the scenario sets, leaves out or folds."""
    return any(send.headers for send in _sends(cell))


# what happens to servers


def _follows_sending(cell: Cell, *kinds: type) -> bool:
    """Return whether an action of these kinds comes after a step that sends messages."""
    seen = False
    for step in cell.all_steps:
        if isinstance(step.action, Send | Resend | Talk):
            seen = True
        elif isinstance(step.action, kinds) and seen:
            return True
    return False


@_detector
def restart(cell: Cell) -> bool:
    """A server is stopped or killed, and started again on the same database."""
    return bool(_actions(cell, Start)) and not _actions(cell, Wipe)


@_detector
def second_restart(cell: Cell) -> bool:
    """A server is started again more than once."""
    return sum(times for step, times in _repeated(cell.steps) if isinstance(step.action, Start)) > 1


@_detector
def kill(cell: Cell) -> bool:
    """A server is killed, or loses its power."""
    return bool(_actions(cell, Kill, PowerCut))


@_detector
def kill_at_a_moment(cell: Cell) -> bool:
    """A server is killed at a point of the protocol."""
    return any(action.at is not None for action in _actions(cell, Kill, PowerCut))


@_detector
def orderly_stop(cell: Cell) -> bool:
    """A server is stopped in an orderly way."""
    return bool(_actions(cell, Stop))


@_detector
def orderly_stop_at_a_moment(cell: Cell) -> bool:
    """A server is stopped in an orderly way at a point of the protocol."""
    return any(action.at is not None for action in _actions(cell, Stop))


@_detector
def new_database(cell: Cell) -> bool:
    """A server comes back with a new queue database."""
    return bool(_actions(cell, Wipe))


@_detector
def reload(cell: Cell) -> bool:
    """Servers read changed settings while they run."""
    return bool(_actions(cell, Configure))


@_detector
def reload_with_something_waiting(cell: Cell) -> bool:
    """Servers read changed settings after a message was sent."""
    return _follows_sending(cell, Configure)


@_detector
def mailbox_move(cell: Cell) -> bool:
    """A mailbox database becomes active on another server."""
    return bool(_actions(cell, Activate))


@_detector
def resubmission(cell: Cell) -> bool:
    """Safety Net is asked to send again."""
    return bool(_actions(cell, Activate, Resubmit))


@_detector
def redirection(cell: Cell) -> bool:
    """The queues of a server are redirected."""
    return bool(_actions(cell, Redirect))


@_detector
def second_request_of_a_kind(cell: Cell) -> bool:
    """An administrator's request is made a second time."""
    kinds = [type(action) for action in _actions(cell, Activate, Configure, Redirect, Resubmit)]
    return len(kinds) > len(set(kinds))


# peers


@_detector
def frozen_peer(cell: Cell) -> bool:
    """A server is suspended, or a link passes nothing on."""
    black = any(cut.how == "blackhole" for cut in _actions(cell, Partition))
    return black or bool(_actions(cell, Pause)) or any(fault.does == "stall" for fault in _actions(cell, Fault))


@_detector
def slow_peer(cell: Cell) -> bool:
    """A link or a disk is slow."""
    slow = any(fault.does in ("throttle", "delay") for fault in _actions(cell, Fault))
    return slow or any(disk.trouble == "slow" for disk in _actions(cell, Disk))


@_detector
def two_peers_lost_at_once(cell: Cell) -> bool:
    """At least two servers are lost at a time."""
    one_step = any(len(action.node) > 1 for action in _actions(cell, Kill, Stop, Pause, PowerCut))
    down: set[str] = set()
    for action in _actions(cell, NodeAction):
        if isinstance(action, Kill | Stop | Pause | PowerCut):
            down |= set(action.node)
        elif not isinstance(action, Inspect | Wipe):
            down -= set(action.node)
        if len(down) > 1:
            return True
    return one_step


@_detector
def two_primaries(cell: Cell) -> bool:
    """Two servers receive messages as their primary."""
    return len({server for send in _sends(cell) for server in send.via}) > 1


@_detector
def fault_on_a_link(cell: Cell) -> bool:
    """A session is disturbed at a point of the protocol."""
    return bool(_actions(cell, Fault))


@_detector
def partial_success(cell: Cell) -> bool:
    """One next hop of a message takes it and another one does not."""
    return several_recipients(cell) and bool(_actions(cell, Answer, Partition, Fault, Kill, Stop))


# roles


@_detector
def listener_frontend(cell: Cell) -> bool:
    """A client uses a frontend listener."""
    return any(action.listener == "frontend" for action in _actions(cell, Send, Talk))


@_detector
def listener_transport(cell: Cell) -> bool:
    """A client uses a transport listener."""
    return any(action.listener == "transport" for action in _actions(cell, Send, Talk))


@_detector
def listener_delivery(cell: Cell) -> bool:
    """A client uses a delivery listener."""
    return any(action.listener == "delivery" for action in _actions(cell, Talk))


@_detector
def role_edge(cell: Cell) -> bool:
    """An Edge server takes part."""
    return any(server.role == "edge" for server in cell.topology.servers)


@_detector
def generation_2010(cell: Cell) -> bool:
    """A server of Exchange 2010 takes part."""
    return any(server.generation == "ex2010" for server in cell.topology.servers)


@_detector
def generation_2013(cell: Cell) -> bool:
    """A server of Exchange 2013 takes part."""
    return any(server.generation == "ex2013" for server in cell.topology.servers)


@_detector
def generation_2016(cell: Cell) -> bool:
    """A server of Exchange 2016 or 2019 takes part."""
    return any(server.generation == "ex2016" for server in cell.topology.servers)
