"""Comparison of two runs cell by cell: changed outcomes, and what else changed according to the cells' headers.

`conformance diff` calls this. The *state* of a cell in a run is its outcome, a pass with a remark, or that the run lacks the
cell. A *remark* says that a `should` row is violated. The *causes* of a change are what differs between the cell's headers:
candidate, suite, environment, settings.
"""

from dataclasses import dataclass

from conformance.report.escaping import visible
from conformance.report.run_summary import CellSummary, RunSummary
from conformance.verdicts.changes import Cause, CellState, ChangeKind, Should, cell_state, change_causes, change_kind

_TITLES = {
    ChangeKind.REGRESSION: "regressions",
    ChangeKind.NEW: "new failures",
    ChangeKind.FIXED: "fixed",
    ChangeKind.LOST: "lost",
    ChangeKind.OTHER: "other changes",
}


@dataclass(frozen=True, slots=True)
class CellChange:
    """A cell whose state differs between two runs.

    `before` or `after` is None where that run lacks the cell. `states` are the states before and after. `causes` names what
    else was recorded as different; it is empty where nothing was, and where a run lacks the cell.
    """

    before: CellSummary | None
    after: CellSummary | None
    states: tuple[CellState, CellState]
    kind: ChangeKind
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The comparison of two runs: their names, and the changed cells in the order of the later run.

    `same` counts the unchanged cells. `left_out` counts the cells of the earlier run that the later run did not run
    because only a part of the suite was asked for.
    """

    before: str
    after: str
    changes: tuple[CellChange, ...]
    same: int
    left_out: int

    def changes_of(self, kind: ChangeKind) -> tuple[CellChange, ...]:
        """Return the changes of one kind, in the order of the later run; cells that it lacks come last."""
        return tuple(change for change in self.changes if change.kind is kind)


def compare_runs(before: RunSummary, after: RunSummary, should: Should = "warn") -> RunComparison:
    """Return what changed between two runs; cells are matched by node id: file, scenario, candidate's name, axis values.

    Where the later run was asked for only a part of the suite, the cells that it lacks do not count as lost. With
    `should="fail"` a pass with a remark counts as a failure.
    """
    old, new = ({cell.header.nodeid: cell for cell in run.cells} for run in (before, after))
    missing = [nodeid for nodeid in old if nodeid not in new]
    compared = [*new, *([] if after.header.filtered else missing)]
    changes = [c for nodeid in compared if (c := _compare_cell(old.get(nodeid), new.get(nodeid), should)) is not None]
    return RunComparison(
        before=before.header.run,
        after=after.header.run,
        changes=tuple(changes),
        same=len(compared) - len(changes),
        left_out=len(missing) if after.header.filtered else 0,
    )


def _compare_cell(before: CellSummary | None, after: CellSummary | None, should: Should) -> CellChange | None:
    """Return the change of a cell between two runs, or None where its state is the same.

    `before` or `after` is None where that run lacks the cell. With `should="fail"` a pass with a remark is a failure. Without a
    cell in both runs, the change has no causes.
    """
    was, now = (
        cell_state(
            cell.outcome if cell is not None else None, remark=cell is not None and bool(cell.remarks), should=should
        )
        for cell in (before, after)
    )
    kind = change_kind(was, now)
    if kind is None:
        return None
    causes = change_causes(before.header, after.header) if before is not None and after is not None else ()
    return CellChange(before, after, states=(was, now), kind=kind, causes=causes)


def comparison_text(comparison: RunComparison) -> str:
    """Return a comparison as text for a terminal: the changed cells by kind, regressions first, and the number of the others."""
    lines = [f"{visible(comparison.before)} -> {visible(comparison.after)}"]
    for kind, title in _TITLES.items():
        if chosen := comparison.changes_of(kind):
            lines += ["", f"{title}: {len(chosen)}", *(line for change in chosen for line in _change_lines(change))]
    lines += ["", f"unchanged: {comparison.same}"]
    if comparison.left_out:
        lines.append(f"not in the later run, which was asked for a part of the suite: {comparison.left_out}")
    return "\n".join(lines)


def _change_lines(change: CellChange) -> list[str]:
    """Return the line of a changed cell, with the causes of the change, and the later run's deciding sentence if there is one.

    Where both runs have the cell and there are no causes, the line says that it may be flaky.
    """
    cell = change.after or change.before
    assert cell is not None  # one of the two runs has it
    was, now = change.states
    cause_text = ""
    if change.causes:
        cause_text = f"  (changed: {', '.join(change.causes)})"
    elif change.before is not None and change.after is not None:
        cause_text = "  (nothing recorded changed: it may be flaky)"
    lines = [f"  {visible(cell.name)}  {visible(cell.header.candidate)}: {was} -> {now}{cause_text}"]
    return [*lines, f"      {cell.sentence}"] if cell is change.after and cell.sentence else lines
