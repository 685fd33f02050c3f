"""The cells that a document makes: it is checked whole, and each of its steps read at every point of the matrix."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from conformance.invariants import INVARIANTS
from conformance.requirements.catalogue import catalogue
from conformance.scenarios import fault_grid
from conformance.scenarios.document import NEEDS, Cell, Document
from conformance.scenarios.errors import InvalidFile, ProblemReport, short_repr, unknown_name
from conformance.scenarios.fault_grid import GridFault, GridSize
from conformance.scenarios.fixtures import fixture_names, load_topology, read_topology
from conformance.scenarios.matrix import (
    MAX_CELLS,
    MAX_VALUES,
    Point,
    axis_references,
    axis_text,
    check_condition,
    matrix_points,
    partial_references,
    read_axes,
    substitute_axes,
)
from conformance.scenarios.name_checks import KnownNames, check_fault_grid, check_names, names_of_topology
from conformance.scenarios.own_timers import PLACEHOLDERS as OWN_NAMES
from conformance.scenarios.own_timers import OwnTimers, placeholder_nodes
from conformance.scenarios.step_parser import ParsedStep, parse_step, when_nodes, when_nodes_of_step
from conformance.scenarios.values import parse_parameter
from conformance.scenarios.yaml_nodes import Node
from conformance.topology import Topology


class CellExpander:
    """A scenario's document and the cells that it makes."""

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
        self._points: tuple[Point, ...] = ()
        self._used: dict[int, list[str]] = {}
        self._read: dict[tuple[int, tuple[str, ...]], ParsedStep | None] = {}
        self._worlds: dict[str, tuple[Topology, dict[str, frozenset[str]]] | None] = {}
        self._own: dict[str, Node] = {}
        self._cells: dict[tuple[GridSize, OwnTimers | None], tuple[Cell, ...]] = {}

    def check(self) -> None:
        """Report everything that is wrong with the document, at whatever point of its matrix."""
        self._check_names_of_document()
        before = len(self._report.problems)
        axes = read_axes(self._node.get("axes"), self._report)
        axes_are_good = len(self._report.problems) == before
        self._check_axes(axes)
        at = matrix_points(axes, self._node.get("exclude"), self._report)
        self._points = at if axes_are_good else at[:1]
        self._check_grid()
        if not self._check_work():
            self._points = self._points[:1]
        self._cells["smoke", None] = self._make("smoke", None)

    def cells(self, size: GridSize, timers: OwnTimers | None = None) -> tuple[Cell, ...]:
        """Return the cells, with the fault grid in some size. Raises Problems for what only such a cell shows."""
        key = (size, timers if self._leaves_timers else None)
        if key not in self._cells:
            self._cells[key] = self._make(*key)
            if problems := self._report.problems:
                raise InvalidFile(problems)
        return self._cells[key]

    @property
    def _leaves_timers(self) -> bool:
        return self._document is not None and self._document.timers == "own"

    def _make(self, size: GridSize, timers: OwnTimers | None) -> tuple[Cell, ...]:
        self._own = placeholder_nodes(timers) if self._leaves_timers else {}
        faults = self._document.faults if self._document else None
        if faults is None:
            laid: Iterable[tuple[Point, GridFault | None]] = ((point, None) for point in self._points)
        else:
            laid = fault_grid.points_with_faults(faults, self._points, size)
        return tuple(cell for point, fault in laid if (cell := self._cell(point, fault)) is not None)

    def _check_names_of_document(self) -> None:
        """Check the document's own names against the catalogue, the capabilities and the invariants."""
        known = {"requirements": ("requirement", self._catalogue.ids), "needs": ("capability", NEEDS)}
        for key, (kind, names) in known.items():
            for item in (self._node.get(key) or self._node).items:
                if isinstance(item.value, str) and item.value not in names:
                    self._report.add(item.mark, unknown_name(kind, item.value, names))
        for name, entry in (waived.entries if (waived := self._node.get("waive")) else {}).items():
            if name not in INVARIANTS:
                self._report.add(entry.key, unknown_name("invariant", name, INVARIANTS))
            if not isinstance(entry.node.value, str) or len(entry.node.value) < 10:
                self._report.add(entry.node.mark, "say why the invariant does not hold here")

    def _check_axes(self, axes: Mapping[str, tuple[Node, ...]]) -> None:
        """Report axes that nobody uses, references to axes that are not there, and `${axis}` inside a text."""
        used: set[str] = set()
        for key in ("topology", "configure", "steps"):
            part = self._node.get(key)
            for reference, name in axis_references(part) if part else ():
                used.add(name)
                if name not in axes and not (self._leaves_timers and name in OWN_NAMES):
                    known = (*axes, *OWN_NAMES) if self._leaves_timers else axes
                    self._report.add(reference.mark, unknown_name("axis", name, known))
            for stray in partial_references(part) if part else ():
                self._report.add(
                    stray.mark, f"${{axis}} stands for a whole value, not inside one: {short_repr(stray.value)}"
                )
        for when in when_nodes(self._steps):
            used.update(when.entries)
            check_condition(when, {**axes, **self._fault_axis()}, self._report)
        if (implied := self._node.get("implied")) is not None:
            check_condition(implied, axes, self._report)
        for name in axes.keys() - used:
            entry = (self._node.get("axes") or self._node).entries[name]
            self._report.add(entry.key, f"the axis {name!r} is not used: no ${{{name}}} and no `when` names it")

    def _fault_axis(self) -> dict[str, tuple[Node, ...]]:
        """Return the axis that a grid adds, with the values that a `when` may name."""
        faults = self._document.faults if self._document else None
        if faults is None:
            return {}
        names = [fault_grid.NONE, *(fault.name for fault in fault_grid.faults_of(faults))]
        return {fault_grid.AXIS: tuple(Node(self._node.mark, name) for name in names)}

    def _check_grid(self) -> None:
        """Report a grid that is too large, or one beside an axis of its name."""
        values = self._fault_axis().get(fault_grid.AXIS)
        if values is None:
            return
        mark = self._node.entries["faults"].key
        if self._points and fault_grid.AXIS in self._points[0]:
            self._report.add(
                mark, f"a fault grid makes the axis {fault_grid.AXIS!r} itself; call the other one differently"
            )
        if (count := len(self._points) * len(values)) > MAX_CELLS:
            self._report.add(mark, f"{count} cells in the full grid; a scenario has at most {MAX_CELLS}")

    def _check_work(self) -> bool:
        """Report steps that are too many for so many cells; return whether they are not."""
        cells, values = len(self._points), self._steps.count()
        if cells * values <= MAX_VALUES:
            return True
        self._report.add(
            self._steps.mark,
            f"{cells} cells with steps of {values} values each; all cells together have at most {MAX_VALUES}",
        )
        return False

    def _cell(self, point: Point, fault: GridFault | None) -> Cell | None:
        world = self._world(point)
        document = self._document
        if document is not None and document.faults is not None:
            name = Node(self._node.mark, fault.name if fault else fault_grid.NONE)
            point = dict(sorted({**point, fault_grid.AXIS: name}.items()))
        read = [self._step(n, item, point) for n, item in enumerate(self._steps.items, start=1)]
        present = [step for step in read if step is not None]
        if world is None:
            return None
        topology, known = world
        names = KnownNames(known)
        check_fault_grid(self._node.get("faults"), names, self._report)
        check_names(present, names, self._report)
        self._check_generations(topology)
        if document is None or self._report.problems:
            return None
        steps = tuple(step.step for step in present if step.step is not None)
        if document.faults is not None and fault is not None:
            steps = (fault.step(document.faults, self._node.entries["faults"].key.line), *steps)
        values = {name: axis_text(value.data()) for name, value in point.items()}
        implied = {name: axis_text(value) for name, value in document.implied.items()}
        configure = substitute_axes(self._node.get("configure") or Node(self._node.mark, {}), point)
        changes: dict[str, Any] = {key: parse_parameter(entry.node.data()) for key, entry in configure.entries.items()}
        return Cell(
            scenario=document.id,
            title=document.title,
            path=self._told_path(),
            line=self._line,
            axes={name: text for name, text in values.items() if implied.get(name) != text},
            implied={name: text for name, text in values.items() if implied.get(name) == text},
            requirements=document.requirements,
            needs=document.needs,
            topology=topology.model_copy(update={"transport": {**topology.transport, **changes}}),
            waive=document.waive,
            drain=document.drain,
            steps=steps,
            sha256=self._sha256(document, topology, present),
            tags=document.tags,
            timers=document.timers,
            unscaled=document.unscaled,
        )

    def _step(self, number: int, node: Node, point: Point) -> ParsedStep | None:
        """Read a step at a point; points that differ in axes that it does not use share it."""
        if number not in self._used:
            named = chain(
                (name for _, name in axis_references(node)), *(when.entries for when in when_nodes_of_step(node))
            )
            self._used[number] = sorted(set(named))
        known = {**self._own, **point}
        key = (number, tuple(f"{name}={axis_text(known[name].data())}" for name in self._used[number] if name in known))
        if key not in self._read:
            self._read[key] = parse_step(substitute_axes(node, known), str(number), point, self._report)
        return self._read[key]

    def _world(self, point: Point) -> tuple[Topology, dict[str, frozenset[str]]] | None:
        written = self._node.get("topology")
        if written is None:
            return None
        bound = substitute_axes(written, point)
        key = json.dumps(bound.data(), sort_keys=True)
        if key not in self._worlds:
            topology = self._topology(bound)
            known = names_of_topology(topology, self._catalogue.ids, self._messages) if topology else {}
            self._worlds[key] = (topology, known) if topology else None
        return self._worlds[key]

    def _topology(self, node: Node) -> Topology | None:
        if node.entries:
            return read_topology(node, self._report)
        folder = self._fixtures / "topologies"
        if not isinstance(node.value, str) or node.value not in fixture_names(folder):
            self._report.add(node.mark, unknown_name("topology", str(node.value), fixture_names(folder)))
            return None
        try:
            return load_topology(folder / f"{node.value}.yaml")
        except InvalidFile as error:
            self._report.take(error.problems)
            return None

    def _check_generations(self, topology: Topology) -> None:
        """Report a requirement that binds no server of the topology: nothing here could judge it."""
        generations = {server.generation for server in topology.servers}
        for item in (self._node.get("requirements") or self._node).items:
            row = self._catalogue.get(item.value) if isinstance(item.value, str) else None
            if row is not None and not row.binds(generations):
                self._report.add(
                    item.mark, f"{row.id} binds {', '.join(row.generations)}; {topology.name!r} has no such server"
                )

    def _sha256(self, document: Document, topology: Topology, steps: Iterable[ParsedStep]) -> str:
        """Return the hash of all that the suite brings: the document, its topology, the messages that it sends."""
        folder = self._fixtures / "messages"
        messages = {name: _file_hash(folder / f"{name}.yaml") for name in set(_messages_of(steps))}
        told = [
            document.model_dump_json(exclude=None if document.implied else {"implied"}),
            topology.model_dump_json(),
            json.dumps(messages, sort_keys=True),
        ]
        return hashlib.sha256("\n".join(told).encode()).hexdigest()

    def _told_path(self) -> str:
        corpus = self._fixtures.parent / "scenarios"
        if self._path.is_relative_to(corpus):
            return self._path.relative_to(corpus).as_posix()
        return f"{self._path.parent.name}/{self._path.name}"


@lru_cache(maxsize=256)
def _file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _messages_of(steps: Iterable[ParsedStep]) -> Iterator[str]:
    for read in steps:
        action: Any = read.step.action if read.step else None
        if read.verb in ("send", "submit") and action is not None:
            yield action.message
        if read.verb == "talk" and action is not None:
            yield from (line.message for line in action.lines if line.message is not None)
        yield from _messages_of(read.inner)
