"""Reads one document of a scenario file: checks it whole, and makes the cells of its matrix."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from conformance.requirements.catalogue import catalogue
from conformance.scenarios.document import CAPABILITIES, Cell, Document
from conformance.scenarios.errors import Problem, Problems, Report, shown, unknown
from conformance.scenarios.fixtures import load_topology, names_in, read_topology
from conformance.scenarios.matrix import (
    Point,
    bind,
    check_condition,
    points,
    read_axes,
    references,
    stray_references,
    text_of,
)
from conformance.scenarios.names import INVARIANTS, Names, check_names, world_of
from conformance.scenarios.script import ReadStep, read_step
from conformance.scenarios.validation import validate
from conformance.scenarios.yaml_nodes import Chunk, Node, compose
from conformance.topology import Topology

SUFFIX = ".scenario.yaml"
"""How the name of a file of scenarios ends."""

Grid = Literal["smoke", "pairwise", "full"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario of a file: its cells, or what is wrong with it."""

    id: str
    path: Path
    line: int
    document: Document | None
    plain_cells: tuple[Cell, ...]
    problems: tuple[Problem, ...]

    def cells(self, grid: Grid = "smoke") -> tuple[Cell, ...]:
        """Return the cells in a stable order, with the scenario's fault grid in the size asked for. Raises Problems."""
        if self.problems:
            raise Problems(self.problems)
        return self.plain_cells


def stem(path: Path) -> str:
    """Return a file's name without `.scenario.yaml`."""
    return path.name.removesuffix(SUFFIX)


class Reader:
    """Reads one document of a file."""

    def __init__(self, path: Path, fixtures: Path) -> None:
        self._path = path
        self._fixtures = fixtures
        self._report = Report(str(path))
        self._catalogue = catalogue()
        self._messages = names_in(fixtures / "messages")
        self._used: dict[int, list[str]] = {}
        self._read: dict[tuple[int, tuple[str, ...]], ReadStep | None] = {}
        self._worlds: dict[str, tuple[Topology, dict[str, frozenset[str]]] | None] = {}

    def scenario(self, chunk: Chunk, number: int) -> Scenario:
        """Read the document; `number` stands in for the id where there is none."""
        name, line = f"{stem(self._path)}-{number}", chunk.line
        node = compose(chunk, self._report)
        document: Document | None = None
        cells: tuple[Cell, ...] = ()
        if node is not None:
            if (own := node.get("id")) is not None and isinstance(own.value, str) and own.value:
                name, line = own.value, node.entries["id"].key.line
            document = validate(Document, node, self._report)
            self._check_names_of_document(node)
            cells = self._cells(node, document, line)
        problems = self._report.problems
        return Scenario(name, self._path, line, document, () if problems else cells, problems)

    def _check_names_of_document(self, node: Node) -> None:
        """Check the document's own names against the catalogue, the capabilities, the invariants and the axes."""
        known = {"requirements": ("requirement", self._catalogue.ids), "needs": ("capability", CAPABILITIES)}
        for key, (kind, names) in known.items():
            for item in (node.get(key) or node).items:
                if isinstance(item.value, str) and item.value not in names:
                    self._report.add(item.mark, unknown(kind, item.value, names))
        for name, entry in (waived.entries if (waived := node.get("waive")) else {}).items():
            if name not in INVARIANTS:
                self._report.add(entry.key, unknown("invariant", name, INVARIANTS))
            if not isinstance(entry.node.value, str) or len(entry.node.value) < 10:
                self._report.add(entry.node.mark, "say why the invariant does not hold here")

    def _cells(self, node: Node, document: Document | None, line: int) -> tuple[Cell, ...]:
        before = len(self._report.problems)
        axes = read_axes(node.get("axes"), self._report)
        axes_are_good = len(self._report.problems) == before
        steps = node.get("steps") or Node(node.mark, ())
        self._check_axes(node, axes, steps)
        at = points(axes, node.get("exclude"), self._report)
        cells = [self._cell(node, document, line, point, steps) for point in (at if axes_are_good else at[:1])]
        return tuple(cell for cell in cells if cell is not None)

    def _check_axes(self, node: Node, axes: Mapping[str, tuple[Node, ...]], steps: Node) -> None:
        """Report axes that nobody uses, references to axes that are not there, and `${axis}` inside a text."""
        used: set[str] = set()
        for key in ("topology", "configure", "steps", "drain"):
            part = node.get(key)
            for reference, name in references(part) if part else ():
                used.add(name)
                if name not in axes:
                    self._report.add(reference.mark, unknown("axis", name, axes))
            for stray in stray_references(part) if part else ():
                self._report.add(
                    stray.mark, f"${{axis}} stands for a whole value, not inside one: {shown(stray.value)}"
                )
        for when in _conditions(steps):
            used.update(when.entries)
            check_condition(when, axes, self._report)
        for name in axes.keys() - used:
            entry = (node.get("axes") or node).entries[name]
            self._report.add(entry.key, f"the axis {name!r} is not used: no ${{{name}}} and no `when` names it")

    def _cell(self, node: Node, document: Document | None, line: int, point: Point, steps: Node) -> Cell | None:
        world = self._world(node, point)
        read = [self._step(n, item, point) for n, item in enumerate(steps.items, start=1)]
        present = [step for step in read if step is not None]
        if world is None:
            return None
        topology, known = world
        check_names(present, Names(known), self._report)
        self._check_generations(node, topology)
        configure = node.get("configure")
        if document is None or self._report.problems:
            return None
        changes = document.configure
        if configure is not None and any(references(configure)):
            bound = document.model_validate({**node.data(), "configure": bind(configure, point).data()})
            changes = bound.configure
        return Cell(
            scenario=document.id,
            title=document.title,
            path=self._told_path(),
            line=line,
            axes={name: text_of(value.data()) for name, value in point.items()},
            requirements=document.requirements,
            needs=document.needs,
            topology=topology.model_copy(update={"transport": {**topology.transport, **changes}}),
            waive=document.waive,
            drain=document.drain,
            steps=tuple(step.step for step in present if step.step is not None),
            sha256=self._sha256(document, topology, present),
            tags=document.tags,
        )

    def _step(self, number: int, node: Node, point: Point) -> ReadStep | None:
        """Read a step at a point; points that differ in axes that it does not use share it."""
        if number not in self._used:
            names = {name for _, name in references(node)} | {name for w in _conditions_of(node) for name in w.entries}
            self._used[number] = sorted(names)
        key = (number, tuple(f"{name}={text_of(point[name].data())}" for name in self._used[number] if name in point))
        if key not in self._read:
            self._read[key] = read_step(bind(node, point), str(number), point, self._report)
        return self._read[key]

    def _world(self, node: Node, point: Point) -> tuple[Topology, dict[str, frozenset[str]]] | None:
        written = node.get("topology")
        if written is None:
            return None
        bound = bind(written, point)
        key = json.dumps(bound.data(), sort_keys=True)
        if key not in self._worlds:
            topology = self._topology(bound)
            known = world_of(topology, self._catalogue.ids, self._messages) if topology else {}
            self._worlds[key] = (topology, known) if topology else None
        return self._worlds[key]

    def _topology(self, node: Node) -> Topology | None:
        if node.entries:
            return read_topology(node, self._report)
        folder = self._fixtures / "topologies"
        if not isinstance(node.value, str) or node.value not in (names := names_in(folder)):
            self._report.add(node.mark, unknown("topology", str(node.value), names_in(folder)))
            return None
        assert names
        try:
            return load_topology(folder / f"{node.value}.yaml")
        except Problems as error:
            self._report.take(error.problems)
            return None

    def _check_generations(self, node: Node, topology: Topology) -> None:
        """Report a requirement that binds no server of the topology: nothing here could judge it."""
        generations = {server.generation for server in topology.servers}
        for item in (node.get("requirements") or node).items:
            row = self._catalogue.get(item.value) if isinstance(item.value, str) else None
            if row is not None and not row.binds(generations):
                self._report.add(
                    item.mark, f"{row.id} binds {', '.join(row.generations)}; {topology.name!r} has no such server"
                )

    def _sha256(self, document: Document, topology: Topology, steps: Iterable[ReadStep]) -> str:
        """Return the hash of all that the suite brings: the document, its topology, the messages that it sends."""
        folder = self._fixtures / "messages"
        messages = {name: _file_hash(folder / f"{name}.yaml") for name in set(_messages_of(steps))}
        told = [document.model_dump_json(), topology.model_dump_json(), json.dumps(messages, sort_keys=True)]
        return hashlib.sha256("\n".join(told).encode()).hexdigest()

    def _told_path(self) -> str:
        corpus = self._fixtures.parent / "scenarios"
        if self._path.is_relative_to(corpus):
            return self._path.relative_to(corpus).as_posix()
        return f"{self._path.parent.name}/{self._path.name}"


@lru_cache(maxsize=256)
def _file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _conditions(steps: Node) -> Iterator[Node]:
    """Yield the `when` of each step, those in blocks too."""
    for step in steps.items:
        yield from _conditions_of(step)


def _conditions_of(step: Node) -> Iterator[Node]:
    if (when := step.get("when")) is not None:
        yield when
    for block in ("parallel", "repeat"):
        under = step.get(block)
        if under is not None:
            yield from _conditions(under if under.items else under.get("steps") or Node(under.mark, ()))


def _messages_of(steps: Iterable[ReadStep]) -> Iterator[str]:
    for read in steps:
        action: Any = read.step.action if read.step else None
        if read.verb in ("send", "submit") and action is not None:
            yield action.message
        if read.verb == "talk" and action is not None:
            yield from (line.message for line in action.lines if line.message is not None)
        yield from _messages_of(read.inner)
