"""In which cells each mutant makes a difference: a mutant is tried in these only.

The sound reference runs every cell once, in virtual time, in forked processes, with the recording code of `instrument`. The command that
tests mutants keeps the result in a file, if one is named, with a hash of everything that it depends on. A *site* is one mutant: a place
in the reference's source and an operator. Cells are known by their numbers in the list of all cells. `root` is the directory of the
reference's package; `Site.file` is a path below it.
"""

import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from conformance.defects.plan import PlannedTrial
from conformance.defects.trial import FinishedTrial, judge_finished, run_planned
from conformance.forked_process import prepare_process
from conformance.mutants.instrument import DIFFERS, instrument
from conformance.mutants.loading import load_instead
from conformance.mutants.operators import Site
from conformance.scenarios.document import Cell
from conformance.verdicts.outcome import OK_OUTCOMES


@dataclass(slots=True)
class Differences:
    """The numbers of the cells in which each site makes a difference, by its id, and the cost of each cell in CPU seconds."""

    cells: dict[str, list[int]] = field(default_factory=dict)
    costs: dict[int, float] = field(default_factory=dict)


def find_differences(
    sites: Sequence[Site], cells: Sequence[Cell], root: Path, seed: int, jobs: int
) -> Iterator[Differences]:
    """Run all cells on the sound reference, in `jobs` processes at a time, and yield what each cell showed. Blocks until the next result.

    Yields one `Differences` for each cell as it ends, in no fixed order: the sites that make a difference in it, and its cost. The
    object is empty for a cell that the reference does not pass, or that is not applicable. Sets the module's list `_SHARED`, so
    only one call can be active at a time.
    """
    _SHARED[:] = [(sites, cells, root, seed)]
    context = multiprocessing.get_context("fork")
    with (
        tempfile.TemporaryDirectory(prefix="conformance-mutants-") as temporary,
        context.Pool(jobs, _load_instrumented, (os.getpid(), temporary)) as pool,
    ):
        yield from pool.imap_unordered(_run_cell, range(len(cells)), chunksize=4)


def merge_differences(sites: Iterable[Site], parts: Iterable[Differences]) -> Differences:
    """Return the differences of all cells in one object, given those of each cell (`parts`).

    A site in the body of a class, which runs when the file is imported, is not recorded in cells. It is given all cells in which
    any other site of its file makes a difference, and [] if there are none.
    """
    merged = Differences()
    for part in parts:
        merged.costs |= part.costs
        for mutant, numbers in part.cells.items():
            merged.cells.setdefault(mutant, []).extend(numbers)
    by_file: dict[str, set[int]] = {}
    for mutant, numbers in merged.cells.items():
        numbers.sort()
        by_file.setdefault(mutant.partition(":")[0], set()).update(numbers)
    merged.cells |= {site.id: sorted(by_file.get(site.file, ())) for site in sites if site.in_class}
    return merged


def read_differences(path: Path, key: str) -> Differences | None:
    """Return what a file of `write_differences` holds; None when it does not exist or was written with another `key`."""
    if not path.exists():
        return None
    stored = json.loads(path.read_text("utf-8"))
    if stored["key"] != key:
        return None
    return Differences(stored["cells"], {int(number): cost for number, cost in stored["costs"].items()})


def write_differences(path: Path, key: str, differences: Differences) -> None:
    """Replace a file with differences for `read_differences`; `key` is the hash of all that they depend on."""
    path.write_text(json.dumps({"key": key, **asdict(differences)}), "utf-8")


_SHARED: list[tuple[Sequence[Site], Sequence[Cell], Path, int]] = []
"""One tuple, the arguments of `find_differences` but `jobs`: forked processes inherit it, since a cell is slow to pickle."""


def _load_instrumented(parent: int, temporary: str) -> None:
    """Make this forked process import the reference with recording code, and end with its parent.

    `parent` is the parent's process id; temporary files are put below `temporary`.
    """
    prepare_process(parent, temporary)
    ((sites, _, root, _),) = _SHARED
    numbers = {site: number for number, site in enumerate(sites)}
    files = sorted({site.file for site in sites})
    trees = {root / file: instrument((root / file).read_text("utf-8"), file, numbers) for file in files}
    load_instead({path: compile(tree, str(path), "exec", dont_inherit=True) for path, tree in trees.items()})


def _run_cell(number: int) -> Differences:
    """Run the cell with this number on the instrumented reference; return the sites that made a difference, and the cost.

    Called in a forked process. Returns an empty `Differences` if the cell is not applicable or did not pass.
    """
    ((sites, cells, _, seed),) = _SHARED
    DIFFERS.clear()
    began = time.process_time()
    finished = run_planned(PlannedTrial(defect=None, cell=cells[number]), seed)
    cost = time.process_time() - began
    if not isinstance(finished, FinishedTrial) or judge_finished(finished).outcome not in OK_OUTCOMES:
        return Differences()
    return Differences({sites[n].id: [number] for n in DIFFERS}, {number: cost})
