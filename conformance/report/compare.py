"""Compares two runs: which cells changed, and who did it, told by the hashes in the cells' headers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from conformance.judge.verdicts import Outcome
from conformance.report.book import Book, Entry
from conformance.report.material import GLYPHS
from conformance.report.safe import visible
from conformance.results.schema import CellHeader

Cause = Literal["candidate", "suite", "environment", "settings"]
Kind = Literal["regression", "fix", "other"]

_PARTS: tuple[tuple[Cause, Callable[[CellHeader], object]], ...] = (
    ("candidate", lambda header: header.candidate_sha256),
    ("suite", lambda header: header.scenario_sha256),
    ("environment", lambda header: header.environment_sha256),
    ("settings", lambda header: (header.seed, header.clock, header.scale, header.tolerance)),
)


@dataclass(frozen=True, slots=True)
class Change:
    """A cell that ended differently. `causes` is what else differs; empty when nothing that is recorded does."""

    before: Entry
    after: Entry
    causes: tuple[Cause, ...]

    @property
    def kind(self) -> Kind:
        """`regression` from a pass to anything judged worse, `fix` the other way round."""
        if self.before.outcome is Outcome.PASS and self.after.outcome is not Outcome.NOT_APPLICABLE:
            return "regression"
        if self.after.outcome is Outcome.PASS and self.before.outcome is not Outcome.NOT_APPLICABLE:
            return "fix"
        return "other"


@dataclass(frozen=True, slots=True)
class Difference:
    """What two runs differ in: cells that changed, that only one of them has, and how many stayed as they were."""

    before: str
    after: str
    changes: tuple[Change, ...]
    added: tuple[Entry, ...]
    removed: tuple[Entry, ...]
    same: int

    @property
    def regressions(self) -> tuple[Change, ...]:
        """The changes for the worse."""
        return tuple(change for change in self.changes if change.kind == "regression")


def diff(before: Book, after: Book) -> Difference:
    """Compare two runs cell by cell; a cell is known by its node id (scenario, candidate's name, axis values)."""
    old, new = ({cell.header.nodeid: cell for cell in book.cells} for book in (before, after))
    both = [(old[nodeid], cell) for nodeid, cell in new.items() if nodeid in old]
    changes = [
        Change(was, now, causes_between(was.header, now.header)) for was, now in both if was.outcome is not now.outcome
    ]
    return Difference(
        before=before.header.run,
        after=after.header.run,
        changes=tuple(changes),
        added=tuple(cell for nodeid, cell in new.items() if nodeid not in old),
        removed=tuple(cell for nodeid, cell in old.items() if nodeid not in new),
        same=len(both) - len(changes),
    )


def as_text(difference: Difference) -> str:
    """Return the comparison for a terminal, regressions first."""
    lines = [f"{visible(difference.before)} -> {visible(difference.after)}"]
    for kind, title in (("regression", "worse"), ("fix", "better"), ("other", "otherwise changed")):
        chosen = [change for change in difference.changes if change.kind == kind]
        if chosen:
            lines += ["", f"{title}: {len(chosen)}", *(line for change in chosen for line in _told(change))]
    for title, cells in (("only in the later run", difference.added), ("only in the earlier run", difference.removed)):
        if cells:
            lines += ["", f"{title}: {len(cells)}"]
            lines += [f"  {GLYPHS[c.outcome]} {visible(c.name)}  {visible(c.header.candidate)}" for c in cells]
    return "\n".join([*lines, "", f"unchanged: {difference.same}"])


def causes_between(was: CellHeader, now: CellHeader) -> tuple[Cause, ...]:
    """Return what is different between two runs of one cell; nothing when nothing that is recorded is."""
    return tuple(cause for cause, part in _PARTS if part(was) != part(now))


def _told(change: Change) -> list[str]:
    why = f"changed: {', '.join(change.causes)}" if change.causes else "nothing recorded changed: it may be flaky"
    arrow = f"{change.before.outcome} -> {change.after.outcome}"
    told = [f"  {visible(change.after.name)}  {visible(change.after.header.candidate)}: {arrow}  ({why})"]
    return [*told, f"      {change.after.sentence}"] if change.after.sentence else told
