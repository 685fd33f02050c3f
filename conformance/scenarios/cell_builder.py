"""Build the cell of one point of a scenario's matrix, after reporting everything that is wrong with the scenario there.

`${axis}` is substituted, the steps are parsed and their names checked against the topology. Points that do not differ in the axes
of a step share its parsed form, and cells that name the same topology share that. A problem that occurs in several cells is
reported once.

A *node* is a value of the YAML file with its place, `mark` (line and column): a scalar, a list (`items`) or a mapping
(`entries`; of an entry, `key` is the place of its key). `report` collects problems. A *point* of a scenario's matrix has a
node for each axis: its value. A *fault grid* repeats the cells with one fault each, and adds an axis of their names.
`CellExpander` (`cells.py`) enumerates the points, and calls this for each.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, get_args

from conformance.requirements.catalogue import catalogue
from conformance.scenarios import fault_grid
from conformance.scenarios.document import PARAMETERS_AXIS, Cell, Document, Parameters
from conformance.scenarios.errors import InvalidFile, ProblemReport, short_repr, unknown_name
from conformance.scenarios.fault_grid import GridFault
from conformance.scenarios.fixtures import fixture_names, load_topology, read_topology
from conformance.scenarios.matrix import Point, axis_references, axis_text, substitute_axes
from conformance.scenarios.name_checks import KnownNames, check_fault_grid, check_names, names_of_topology
from conformance.scenarios.step_parser import ParsedStep, parse_step, when_nodes_of_step
from conformance.scenarios.values import parse_parameter
from conformance.scenarios.yaml_nodes import Node
from conformance.topology import NameSpelling, Topology

_LATER_KEYS = ("implied", "parameters", "server_names")
"""Fields of a document that were added to the language later."""


class CellBuilder:
    """Builds the cells of one scenario document.

    `node` is the document as YAML. `document` is None where its values are wrong: then its steps are checked, and there
    are no cells. `line` is that of its id. Every method that finds a problem adds it to `report`. `_parsed` and `_topologies` keep
    what was made.
    """

    def __init__(
        self, path: Path, fixtures: Path, node: Node, document: Document | None, line: int, report: ProblemReport
    ) -> None:
        self._path = path
        self._fixtures = fixtures
        self._node = node
        self._document = document
        self._line = line
        self._report = report
        self._catalogue = catalogue()
        self._messages = fixture_names(fixtures / "messages")
        self._steps = node.get("steps") or Node(node.mark, ())
        self._axes_of_step: dict[int, list[str]] = {}
        """Number of a step -> the axes that it uses."""
        self._parsed: dict[tuple[int, tuple[str, ...]], ParsedStep | None] = {}
        """(number of a step, values of the axes that it uses) -> the step; None: it does not exist there."""
        self._topologies: dict[str, tuple[Topology, dict[str, frozenset[str]]] | None] = {}
        """Topology as JSON -> the topology and its names by kind; None: it has a problem."""

    def build_cell(self, point: Point, fault: GridFault | None, placeholders: Mapping[str, Node]) -> Cell | None:
        """Return the cell of a point, with a fault of the grid or without (None), after reporting what is wrong at the point.

        None where the document has any problem: one that is found here, or one that was reported before. `placeholders` are the
        values of `${own-...}`, which stand for the candidate's own timers; empty where the scenario does not have `timers: own`.
        """
        resolved = self._topology_at(point)
        document = self._document
        if document is not None and document.faults is not None:
            name = Node(self._node.mark, fault.name if fault else fault_grid.NONE)
            point = dict(sorted({**point, fault_grid.AXIS: name}.items()))
        parsed = [self._parse_step(n, item, point, placeholders) for n, item in enumerate(self._steps.items, start=1)]
        present = [step for step in parsed if step is not None]
        if resolved is None:
            return None
        topology, names_of_kinds = resolved
        names = KnownNames(names_of_kinds)
        check_fault_grid(self._node.get("faults"), names, self._report)
        check_names(present, names, self._report)
        self._check_generations(topology)
        server_names = self._server_names_at(point)
        if document is None or self._report.problems:
            return None
        steps = tuple(step.step for step in present if step.step is not None)
        if document.faults is not None and fault is not None:
            steps = (fault.step(document.faults, self._node.entries["faults"].key.line), *steps)
        values = {name: axis_text(value.data()) for name, value in point.items()}
        implied = {name: axis_text(value) for name, value in document.implied.items()}
        parameters: Parameters = "explicit"
        if "parameters" in self._node.entries:
            implied[PARAMETERS_AXIS] = "explicit"
            parameters = "default" if values[PARAMETERS_AXIS] == "default" else "explicit"
        configure = substitute_axes(self._node.get("configure") or Node(self._node.mark, {}), point)
        changes: dict[str, Any] = {key: parse_parameter(entry.node.data()) for key, entry in configure.entries.items()}
        sha256 = self._sha256(document, topology, present)  # of the topology as its file has it
        topology = topology.model_copy(
            update={
                "transport": {**topology.transport, **changes},
                "server_names": server_names or topology.server_names,
            }
        )
        return Cell(
            scenario=document.id,
            title=document.title,
            path=self._shown_path(),
            line=self._line,
            axes={name: text for name, text in values.items() if implied.get(name) != text},
            implied={name: text for name, text in values.items() if implied.get(name) == text},
            requirements=document.requirements,
            needs=document.needs,
            topology=topology,
            waive=document.waive,
            drain=document.drain,
            steps=steps,
            sha256=sha256,
            tags=document.tags,
            timers=document.timers,
            parameters=parameters,
            unscaled=document.unscaled,
        )

    def _parse_step(self, number: int, node: Node, point: Point, placeholders: Mapping[str, Node]) -> ParsedStep | None:
        """Return a step parsed at a point; points that do not differ in the axes of the step share the result.

        None where the step does not exist at the point (`when`), or has no form that can be parsed, which is reported. `number`
        is its place among the steps, from 1.
        """
        if number not in self._axes_of_step:
            axes = chain(
                (name for _, name in axis_references(node)), *(when.entries for when in when_nodes_of_step(node))
            )
            self._axes_of_step[number] = sorted(set(axes))
        values = {**placeholders, **point}
        key = (
            number,
            tuple(f"{name}={axis_text(values[name].data())}" for name in self._axes_of_step[number] if name in values),
        )
        if key not in self._parsed:
            self._parsed[key] = parse_step(substitute_axes(node, values), str(number), point, self._report)
        return self._parsed[key]

    def _topology_at(self, point: Point) -> tuple[Topology, dict[str, frozenset[str]]] | None:
        """Return the topology at a point with the names in it by kind; None without one, or after reporting a problem."""
        node = self._node.get("topology")
        if node is None:
            return None
        bound = substitute_axes(node, point)
        key = json.dumps(bound.data(), sort_keys=True)
        if key not in self._topologies:
            topology = self._read_topology(bound)
            names = names_of_topology(topology, self._catalogue.ids, self._messages) if topology else {}
            self._topologies[key] = (topology, names) if topology else None
        return self._topologies[key]

    def _read_topology(self, node: Node) -> Topology | None:
        """Return the topology that a node is, or names; None after reporting a problem."""
        if node.entries:
            return read_topology(node, self._report)
        folder = self._fixtures / "topologies"
        if not isinstance(node.value, str) or node.value not in fixture_names(folder):
            self._report.add(node.mark, unknown_name("topology", str(node.value), fixture_names(folder)))
            return None
        try:
            return load_topology(folder / f"{node.value}.yaml")
        except InvalidFile as error:
            self._report.add_all(error.problems)
            return None

    def _server_names_at(self, point: Point) -> str:
        """Return the value of `server-names` at a point, '' without that key; a wrong value is reported, and returned as well."""
        node = self._node.get("server-names")
        if node is None:
            return ""
        value = str(substitute_axes(node, point).value)
        if value not in get_args(NameSpelling):
            self._report.add(
                node.mark, f"`server-names` is {' or '.join(get_args(NameSpelling))}, not {short_repr(value)}"
            )
        return value

    def _check_generations(self, topology: Topology) -> None:
        """Report requirements that bind no generation of the topology's servers, so that no cell could judge them."""
        generations = {server.generation for server in topology.servers}
        for item in (self._node.get("requirements") or self._node).items:
            row = self._catalogue.get(item.value) if isinstance(item.value, str) else None
            if row is not None and not row.binds(generations):
                self._report.add(
                    item.mark, f"{row.id} binds {', '.join(row.generations)}; {topology.name!r} has no such server"
                )

    def _sha256(self, document: Document, topology: Topology, steps: Iterable[ParsedStep]) -> str:
        """Return the hash of the document, its topology, and the templates of the messages that its steps send."""
        folder = self._fixtures / "messages"
        messages = {name: _file_hash(folder / f"{name}.yaml") for name in set(_messages_of(steps))}
        parts = [
            # a document without the later keys keeps the hash that it had before there were these
            document.model_dump_json(
                exclude={key for key in _LATER_KEYS if self._node.get(key.replace("_", "-")) is None}
            ),
            topology.model_dump_json(exclude={"server_names"} if topology.server_names == "same" else None),
            json.dumps(messages, sort_keys=True),
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _shown_path(self) -> str:
        """Return the scenario's path relative to the corpus; of a file elsewhere, its folder and name."""
        corpus = self._fixtures.parent / "scenarios"
        if self._path.is_relative_to(corpus):
            return self._path.relative_to(corpus).as_posix()
        return f"{self._path.parent.name}/{self._path.name}"


@lru_cache(maxsize=256)
def _file_hash(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits, cached by path."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _messages_of(steps: Iterable[ParsedStep]) -> Iterator[str]:
    """Yield the names of the templates that steps send, including steps inside blocks; one name may come several times."""
    for parsed in steps:
        action: Any = parsed.step.action if parsed.step else None
        if parsed.verb in ("send", "submit") and action is not None:
            yield action.message
        if parsed.verb == "talk" and action is not None:
            yield from (line.message for line in action.lines if line.message is not None)
        yield from _messages_of(parsed.inner)
