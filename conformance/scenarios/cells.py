"""Expand a scenario document into cells, and report everything that is wrong with it at any point of its matrix.

1. The names in the document itself are checked: requirements, capabilities, invariants.
2. The axes are read, and references to them checked; the matrix's points are enumerated without the excluded ones.
3. At each point, and for each fault of the fault grid there, the point is checked, and gives a cell if it has no problems
   (`conformance.scenarios.cell_builder`).

A *fault grid* repeats the cells with one fault each, and adds an axis of their names. Where the axes are wrong or the work would
exceed a limit, only the first point is checked. A problem that occurs in several cells is reported once.

A *node* is a value of the YAML file with its place, `mark` (line and column): a scalar, a list (`items`) or a mapping
(`entries`; of an entry, `key` is the place of its key). `report` collects problems. A *point* of a scenario's matrix has a
node for each axis: its value. The loader calls this for each document (`loader.py`).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from conformance.invariants import INVARIANTS
from conformance.requirements.catalogue import catalogue
from conformance.scenarios import fault_grid
from conformance.scenarios.cell_builder import CellBuilder
from conformance.scenarios.document import NEEDS, PARAMETERS_AXIS, Cell, Document
from conformance.scenarios.errors import InvalidFile, ProblemReport, short_repr, unknown_name
from conformance.scenarios.fault_grid import GridFault, GridSize
from conformance.scenarios.matrix import (
    MAX_CELLS,
    MAX_VALUES,
    Point,
    axis_references,
    check_condition,
    matrix_points,
    partial_references,
    read_axes,
)
from conformance.scenarios.own_timers import PLACEHOLDERS as OWN_NAMES
from conformance.scenarios.own_timers import OwnTimers, placeholder_nodes
from conformance.scenarios.step_parser import when_nodes
from conformance.scenarios.yaml_nodes import Node


class CellExpander:
    """Checks one scenario document, and expands it into cells.

    `node` is the document as YAML. `document` is None where its values are wrong: then its steps are checked, and there
    are no cells. `line` is that of its id. Every method that finds a problem adds it to `report`. `check` is called once, before
    `cells`. It sets `_points`, the points to expand without the axis of a fault grid, and `_parameters_axis`, the axis that
    `parameters` adds. `_builder` builds the cell of each point, and `_cells_by_size` keeps what was made.
    """

    def __init__(
        self, path: Path, fixtures: Path, node: Node, document: Document | None, line: int, report: ProblemReport
    ) -> None:
        self._node = node
        self._document = document
        self._report = report
        self._catalogue = catalogue()
        self._builder = CellBuilder(path, fixtures, node, document, line, report)
        self._steps = node.get("steps") or Node(node.mark, ())
        self._points: tuple[Point, ...] = ()
        """The points of the matrix to expand, without the axis of a fault grid; set by `check`."""
        self._parameters_axis: dict[str, tuple[Node, ...]] = {}
        """The axis that `parameters` adds, or {}; set by `check`."""
        self._cells_by_size: dict[tuple[GridSize, OwnTimers | None], tuple[Cell, ...]] = {}

    def check(self) -> None:
        """Report everything that is wrong with the document and, with the smoke grid, at any point of its matrix.

        Keeps the points, and the cells that the smoke grid gives with the example timers.
        """
        self._check_names_of_document()
        before = len(self._report.problems)
        axes = read_axes(self._node.get("axes"), self._report)
        self._parameters_axis = self._read_parameters_axis(axes)
        axes_are_good = len(self._report.problems) == before
        self._check_axes(axes)
        axes = dict(sorted({**axes, **self._parameters_axis}.items()))
        all_points = matrix_points(axes, self._node.get("exclude"), self._report)
        self._points = all_points if axes_are_good else all_points[:1]
        self._check_grid()
        if not self._check_size():
            self._points = self._points[:1]
        self._cells_by_size["smoke", None] = self._expand("smoke", None)

    def cells(self, size: GridSize, timers: OwnTimers | None = None) -> tuple[Cell, ...]:
        """Return the cells with a fault grid of some size; without a problem they are cached.

        `timers` are the candidate's own, used where the scenario has `timers: own` (None: example values), and ignored elsewhere.
        Raises InvalidFile where `report` has a problem afterwards: one of these cells, or one that was there before. Cells that
        `check` has made are returned even then; so the caller, `Scenario.cells`, looks for problems first.
        """
        key = (size, timers if self._has_own_timers else None)
        if key not in self._cells_by_size:
            cells = self._expand(*key)
            if problems := self._report.problems:
                raise InvalidFile(problems)
            self._cells_by_size[key] = cells
        return self._cells_by_size[key]

    @property
    def _has_own_timers(self) -> bool:
        """Whether the scenario has `timers: own`."""
        return self._document is not None and self._document.timers == "own"

    def _expand(self, size: GridSize, timers: OwnTimers | None) -> tuple[Cell, ...]:
        """Check all points and faults, and return their cells; no cell is made once the report has a problem.

        `timers` are those of these cells; they are used where the scenario has `timers: own`.
        """
        placeholders = placeholder_nodes(timers) if self._has_own_timers else {}
        faults = self._document.faults if self._document else None
        if faults is None:
            points: Iterable[tuple[Point, GridFault | None]] = ((point, None) for point in self._points)
        else:
            points = fault_grid.points_with_faults(faults, self._points, size)
        cells = (self._builder.build_cell(point, fault, placeholders) for point, fault in points)
        return tuple(cell for cell in cells if cell is not None)

    def _check_names_of_document(self) -> None:
        """Report unknown requirements, capabilities and waived rules, and a waiver without a reason of 10 characters or more."""
        known = {"requirements": ("requirement", self._catalogue.ids), "needs": ("capability", NEEDS)}
        for key, (kind, names) in known.items():
            for item in (self._node.get(key) or self._node).items:  # a mapping, such as the document, has no items
                if isinstance(item.value, str) and item.value not in names:
                    self._report.add(item.mark, unknown_name(kind, item.value, names))
        for name, entry in (waived.entries if (waived := self._node.get("waive")) else {}).items():
            if (
                name.removeprefix("invariant.") not in INVARIANTS
                and name.removeprefix("model.") not in self._catalogue.ids
            ):
                self._report.add(entry.key, unknown_name("invariant", name, INVARIANTS))
            if not isinstance(entry.node.value, str) or len(entry.node.value) < 10:
                self._report.add(entry.node.mark, "say why the invariant does not hold here")

    def _check_axes(self, axes: Mapping[str, tuple[Node, ...]]) -> None:
        """Report unused and unknown axes, wrong conditions in `when` and `implied`, and `${axis}` inside a longer text.

        `OWN_NAMES` are those of the placeholders `${own-...}`, which are no axes.
        """
        used: set[str] = set()
        for key in ("topology", "configure", "server-names", "steps"):
            part = self._node.get(key)
            for reference, name in axis_references(part) if part else ():
                used.add(name)
                if name not in axes and not (self._has_own_timers and name in OWN_NAMES):
                    known = (*axes, *OWN_NAMES) if self._has_own_timers else axes
                    self._report.add(reference.mark, unknown_name("axis", name, known))
            for stray in partial_references(part) if part else ():
                self._report.add(
                    stray.mark, f"${{axis}} stands for a whole value, not inside one: {short_repr(stray.value)}"
                )
        for when in when_nodes(self._steps):
            used.update(when.entries)
            check_condition(when, {**axes, **self._parameters_axis, **self._fault_axis()}, self._report)
        if (implied := self._node.get("implied")) is not None:
            check_condition(implied, axes, self._report)
        for name in axes.keys() - used:
            entry = (self._node.get("axes") or self._node).entries[name]
            self._report.add(entry.key, f"the axis {name!r} is not used: no ${{{name}}} and no `when` names it")

    def _fault_axis(self) -> dict[str, tuple[Node, ...]]:
        """Return the axis that a fault grid adds, with all its values; empty without a grid."""
        faults = self._document.faults if self._document else None
        if faults is None:
            return {}
        names = [fault_grid.NONE, *(fault.name for fault in fault_grid.faults_of(faults))]
        return {fault_grid.AXIS: tuple(Node(self._node.mark, name) for name in names)}

    def _read_parameters_axis(self, axes: Mapping[str, tuple[Node, ...]]) -> dict[str, tuple[Node, ...]]:
        """Return the axis that `parameters` adds; report an axis of the document with the same name.

        {} without that key, and where the document's values are wrong.
        """
        entry = self._node.entries.get("parameters")
        if entry is None or self._document is None:  # without a document its values are reported as wrong already
            return {}
        if PARAMETERS_AXIS in axes:
            self._report.add(
                entry.key, f"`parameters` makes the axis {PARAMETERS_AXIS!r} itself; call the other one differently"
            )
        return read_axes(Node(self._node.mark, {PARAMETERS_AXIS: entry}), self._report)

    def _check_grid(self) -> None:
        """Report a fault grid with too many cells, or with an axis of the name that it adds."""
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

    def _check_size(self) -> bool:
        """Return whether the steps of all points together have at most MAX_VALUES values; report where they have more.

        The cells that a fault grid adds are not counted.
        """
        cells, values = len(self._points), self._steps.count()
        if cells * values <= MAX_VALUES:
            return True
        self._report.add(
            self._steps.mark,
            f"{cells} cells with steps of {values} values each; all cells together have at most {MAX_VALUES}",
        )
        return False
