"""Checks the names in a cell's steps: parties against its topology, and what earlier steps have to have named."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args

from conformance.history.dialects import OPERATIONS_BY_VERB
from conformance.history.values import OperationName
from conformance.scenarios.document import FaultGrid
from conformance.scenarios.errors import Mark, ProblemReport, short_repr, unknown_name
from conformance.scenarios.expectations import EXPECTATIONS
from conformance.scenarios.name_types import defined_name, referenced_names
from conformance.scenarios.step_parser import ParsedStep
from conformance.scenarios.steps import ACTIONS
from conformance.scenarios.yaml_nodes import Node
from conformance.topology import Topology

_MOST_DIGITS = 9
"""Of the number of a message: `m#3`."""
SENDERS = ("outside", "submission")
"""Parties of the harness that only send."""

PLACES = frozenset(
    {"connect", "greeting", "body", "dot"}
    | {"EHLO", "HELO", "LHLO", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA", "BDAT", "RSET", "NOOP", "VRFY", "QUIT"}
    | set(OPERATIONS_BY_VERB)
    | set(get_args(OperationName))
)
"""Where a fault can strike: places of a session, verbs, and what lines mean in the terms of shadow redundancy."""


@dataclass(slots=True)
class KnownNames:
    """The names that are known at a step of a cell: those of its world, and those that steps have given so far."""

    known: dict[str, frozenset[str]]
    given: dict[str, dict[str, int]] = field(default_factory=dict)

    def give(self, kind: str, name: str, count: int = 1) -> bool:
        """Take a name that a step gives; return whether it is new. `count` is how many messages it stands for."""
        names = self.given.setdefault(kind, {})
        new = name not in names
        names[name] = count
        return new


def names_of_topology(
    topology: Topology, requirements: Iterable[str], messages: Iterable[str]
) -> dict[str, frozenset[str]]:
    """Return the names of every kind that a topology (and what belongs to the harness) gives."""
    servers = frozenset(topology.by_name)
    stores = frozenset(topology.store_name(server) for server in servers)
    sinks = stores | {sink.name for sink in topology.sinks}
    parties = servers | sinks | set(SENDERS)
    return {
        "server": servers,
        "server or all": servers | {"all"},
        "sink": sinks,
        "hop": servers | sinks,
        "sender": servers | set(SENDERS),
        "party": parties,
        "party or *": parties | {"*"},
        "site": frozenset(topology.all_sites) | {"remote", "local"},
        "database": frozenset(mailbox.database for mailbox in topology.mailboxes),
        "mailbox": frozenset(mailbox.address for mailbox in topology.mailboxes),
        "requirement": frozenset(requirements),
        "message fixture": frozenset(messages),
        "place": PLACES,
        "place or content": PLACES - {"connect", "greeting", "body"} | {"content"},
    }


def check_names(
    steps: Iterable[ParsedStep], names: KnownNames, report: ProblemReport, *, repeated: bool = False
) -> None:
    """Report every name in the steps that nobody has, and every name that two steps give, or one step twice."""
    for read in steps:
        _check_step(read, names, report)
        _give_names(read, names, report)
        if repeated and read.verb in ("send", "submit"):
            report.add(
                read.node.mark, "inside `repeat` the same messages would be made twice; use `count`, or `resend`"
            )
        check_names(read.inner, names, report, repeated=repeated or read.verb == "repeat")


def check_fault_grid(faults: Node | None, names: KnownNames, report: ProblemReport) -> None:
    """Report every name in `faults:` that nobody has; its fault is known to the steps as `grid`."""
    if faults is None:
        return
    for key, kind in referenced_names(FaultGrid).items():
        for node in _pick(faults, [key]):
            if isinstance(node.value, str) and (problem := _problem(node.value, kind, names)):
                report.add(node.mark, problem)
    names.give("fault", "grid")


def _check_step(read: ParsedStep, names: KnownNames, report: ProblemReport) -> None:
    model = EXPECTATIONS[read.expectation] if read.expectation else ACTIONS.get(read.verb)
    if model is None:
        return
    for key, kind in referenced_names(model).items():
        for node in _at(read, key):
            if not isinstance(node.value, str):
                continue
            if problem := _problem(node.value, kind, names):
                report.add(node.mark, problem)


def _problem(name: str, kind: str, names: KnownNames) -> str | None:
    match kind:
        case "message":
            return _message_problem(name, names.given.get("message", {}))
        case "message or conversation":
            return None if name in names.given.get("conversation", {}) else _problem(name, "message", names)
        case "fault":
            given = {**names.given.get("fault", {}), "all": 1}
            return None if name in given else unknown_name("fault or partition armed before:", name, given)
        case "label" | "conversation":
            given = names.given.get(kind, {})
            return None if name in given else unknown_name(f"{kind} of an earlier step:", name, given)
        case _:
            return None if name in names.known[kind] else unknown_name(kind.split(" or ")[0], name, names.known[kind])


def _message_problem(name: str, given: Mapping[str, int]) -> str | None:
    base, hash_sign, number = name.partition("#")
    if base not in given:
        return unknown_name("message of an earlier step:", base, given)
    if hash_sign and not (
        number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS and 1 <= int(number) <= given[base]
    ):
        return f"no message {short_repr(name)}: {base!r} is {given[base]} message(s), the first is {base}#1"
    return None


def _give_names(read: ParsedStep, names: KnownNames, report: ProblemReport) -> None:
    if read.label is not None and isinstance(read.label.value, str):
        _give(names, "label", read.label.value, read.label.mark, report)
    given = defined_name(ACTIONS[read.verb]) if read.verb in ACTIONS else None
    if given is None:
        return
    key, kind, default = given
    node = read.node.get(key)
    name = node.value if node else default
    if isinstance(name, str):
        count = read.node.get("count")
        number = count.value if count and isinstance(count.value, int) else 1
        _give(names, kind, name, node.mark if node else read.node.mark, report, number)


def _give(names: KnownNames, kind: str, name: str, mark: Mark, report: ProblemReport, count: int = 1) -> None:
    if not names.give(kind, name, count):
        report.add(mark, f"an earlier step of this cell has given the name {short_repr(name)} to a {kind}")


def _at(read: ParsedStep, key: str) -> Iterator[Node]:
    """Yield the nodes of a field; a bare value stands for the verb's short field."""
    keys = key.split(".")
    model = ACTIONS.get(read.verb)
    if model is not None and model.short == key and not read.node.entries:
        keys = []
    yield from _pick(read.node, keys)


def _pick(node: Node, keys: list[str]) -> Iterator[Node]:
    if node.items:
        for item in node.items:
            yield from _pick(item, keys)
    elif not keys:
        yield node
    elif (inner := node.get(keys[0])) is not None:
        yield from _pick(inner, keys[1:])
