"""Check the names in a cell's steps, servers and the like against its topology, others against those of earlier steps.

Which field of a step refers to a name, and of which kind, is declared by the field's type (`name_types.RefersTo`).

A *node* is a value of the YAML file with its place, `mark` (line and column): a scalar, a list (`items`) or a mapping
(`entries`; of an entry, `key` is the place of its key). `report` collects problems. A parsed step has its verb, the node of
its value, and the steps inside it (`step_parser.ParsedStep`).
"""

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

_MAX_DIGITS = 9
"""Digits of the number in `m#3`."""
SENDERS = ("outside", "submission")
"""The harness's own parties that only send."""

PLACES = frozenset(
    {"connect", "greeting", "body", "dot"}
    | {"EHLO", "HELO", "LHLO", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA", "BDAT", "RSET", "NOOP", "VRFY", "QUIT"}
    | set(OPERATIONS_BY_VERB)
    | set(get_args(OperationName))
)
"""Places in a session where a fault can occur: phases, SMTP verbs, and operations of shadow redundancy."""


@dataclass(slots=True)
class KnownNames:
    """The names that a step of a cell can refer to, by kind: those of its topology, and those that earlier steps defined.

    `of_topology` maps a kind to names, `defined` a kind to names with how many messages each stands for (1 for other
    kinds).
    """

    of_topology: dict[str, frozenset[str]]
    defined: dict[str, dict[str, int]] = field(default_factory=dict)

    def define(self, kind: str, name: str, count: int = 1) -> bool:
        """Add a name, which stands for `count` messages; return whether it is new. A known name gets the new count."""
        names = self.defined.setdefault(kind, {})
        is_new = name not in names
        names[name] = count
        return is_new


def names_of_topology(
    topology: Topology, requirements: Iterable[str], messages: Iterable[str]
) -> dict[str, frozenset[str]]:
    """Return the names that exist before any step, by kind: a topology's, the harness's own, and those passed in.

    `requirements` are ids of catalogue rows, `messages` names of message templates.
    """
    servers = frozenset(topology.by_name)
    # Each server delivers to a sink of its own, its mailbox store.
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
    """Report references to unknown names, and names that are defined twice; add the steps' names to `names`.

    `repeated`: the steps are inside a `repeat`, where `send` and `submit` would define their names twice, which is reported.
    """
    for parsed in steps:
        _check_step(parsed, names, report)
        _define_names(parsed, names, report)
        if repeated and parsed.verb in ("send", "submit"):
            report.add(
                parsed.node.mark, "inside `repeat` the same messages would be made twice; use `count`, or `resend`"
            )
        check_names(parsed.inner, names, report, repeated=repeated or parsed.verb == "repeat")


def check_fault_grid(faults: Node | None, names: KnownNames, report: ProblemReport) -> None:
    """Report unknown names in a scenario's `faults`, and define the name `grid` of its fault; None: the scenario has no grid."""
    if faults is None:
        return
    for key, kind in referenced_names(FaultGrid).items():
        for node in _values_at(faults, [key]):
            if isinstance(node.value, str) and (problem := _name_problem(node.value, kind, names)):
                report.add(node.mark, problem)
    names.define("fault", "grid")


def _check_step(parsed: ParsedStep, names: KnownNames, report: ProblemReport) -> None:
    """Report references to unknown names in a step, not in the steps inside it."""
    model = EXPECTATIONS[parsed.expectation] if parsed.expectation else ACTIONS.get(parsed.verb)
    if model is None:  # a block
        return
    for key, kind in referenced_names(model).items():
        for node in _field_nodes(parsed, key):
            if not isinstance(node.value, str):
                continue
            if problem := _name_problem(node.value, kind, names):
                report.add(node.mark, problem)


def _name_problem(name: str, kind: str, names: KnownNames) -> str | None:
    """Return why a name of a kind is unknown; None where it is known. Other kinds than these cases are of the topology."""
    match kind:
        case "message":
            return _message_problem(name, names.defined.get("message", {}))
        case "message or conversation":
            return None if name in names.defined.get("conversation", {}) else _name_problem(name, "message", names)
        case "fault":
            armed = {**names.defined.get("fault", {}), "all": 1}
            return None if name in armed else unknown_name("fault or partition armed before:", name, armed)
        case "label" | "conversation":
            defined = names.defined.get(kind, {})
            return None if name in defined else unknown_name(f"{kind} of an earlier step:", name, defined)
        case _:
            return (
                None
                if name in names.of_topology[kind]
                else unknown_name(kind.split(" or ")[0], name, names.of_topology[kind])
            )


def _message_problem(name: str, defined: Mapping[str, int]) -> str | None:
    """Return why `m` or `m#3` names no message of an earlier step; None where it does."""
    base, hash_sign, number = name.partition("#")
    if base not in defined:
        return unknown_name("message of an earlier step:", base, defined)
    if hash_sign and not (
        number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS and 1 <= int(number) <= defined[base]
    ):
        return f"no message {short_repr(name)}: {base!r} is {defined[base]} message(s), the first is {base}#1"
    return None


def _define_names(parsed: ParsedStep, names: KnownNames, report: ProblemReport) -> None:
    """Add to `names` a step's label and the name that it defines, not those of inner steps; report repeated ones.

    The name that a step with `count` defines stands for that many messages.
    """
    if parsed.label is not None and isinstance(parsed.label.value, str):
        _define(names, "label", parsed.label.value, parsed.label.mark, report)
    definition = defined_name(ACTIONS[parsed.verb]) if parsed.verb in ACTIONS else None
    if definition is None:
        return
    key, kind, default = definition
    node = parsed.node.get(key)
    name = node.value if node else default
    if isinstance(name, str):
        count = parsed.node.get("count")
        number = count.value if count and isinstance(count.value, int) else 1
        _define(names, kind, name, node.mark if node else parsed.node.mark, report, number)


def _define(names: KnownNames, kind: str, name: str, mark: Mark, report: ProblemReport, count: int = 1) -> None:
    """Add a name, and report one that an earlier step has defined already."""
    if not names.define(kind, name, count):
        report.add(mark, f"an earlier step of this cell has given the name {short_repr(name)} to a {kind}")


def _field_nodes(parsed: ParsedStep, key: str) -> Iterator[Node]:
    """Yield the nodes of a field of a step, given as `field` or `field.inner`; of a list each item.

    In a step's short form the bare value is the node of the field that it stands for.
    """
    keys = key.split(".")
    model = ACTIONS.get(parsed.verb)
    if model is not None and model.short == key and not parsed.node.entries:
        keys = []
    yield from _values_at(parsed.node, keys)


def _values_at(node: Node, keys: list[str]) -> Iterator[Node]:
    """Yield the nodes at a path of keys below a node, the node itself for no keys; nothing where a key is missing.

    A list on the way stands for each of its items.
    """
    if node.items:
        for item in node.items:
            yield from _values_at(item, keys)
    elif not keys:
        yield node
    elif (inner := node.get(keys[0])) is not None:
        yield from _values_at(inner, keys[1:])
