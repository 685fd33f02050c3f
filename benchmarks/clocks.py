"""The corpus under two clocks, compared verdict by verdict: what virtual time says, another clock must say too.

First the reference runs in virtual time, at the documents' own values. Then the same cells run under another clock, as
`reference` or as `exec:reference`. For the scaled clock the factor is chosen by how long a cell takes in documented
time, so that the whole can be waited for; the shortest times of the documents (30 s) limit it.

    python benchmarks/clocks.py [PATH ...] [--clock shifted] [--candidate exec:reference] [--workers 6] [--out DIR]
    python benchmarks/clocks.py --candidate reference --workers 24 --at-once

It goes file by file. With `--out` what was compared is kept, and not run again: it can be broken off and taken up, hours
at low priority (`nice -n 19`) on a machine that has other things to do. `--at-once` is for one that has not: all files in
one run, with as many workers as it can wait with.

Prints each verdict that differs and each cell that could not be judged, with the reason, and what the runs cost. Exits 1
when a verdict differs. A verdict that one side could not judge (inconclusive) differs from none: it is counted.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from conformance.results.reader import StoredCell, read_cell, read_run
from conformance.verdicts import Outcome, Verdict

FACTORS = ((30_000.0, 60.0), (float("inf"), 600.0))
"""Documented seconds of a cell, up to which the factor beside it is taken: 30,000 s at 60 are 500 s of waiting."""

UNSCALED = ((float("inf"), 1.0),)
"""A clock that goes from timer to timer needs no factor."""

CORPUS = Path(__file__).parents[1] / "scenarios"

_NO_OCCASION = {Outcome.PASS, Outcome.NOT_APPLICABLE}
"""An invariant that had an occasion in one of the runs, and none in the other."""

Cells = dict[str, StoredCell]
"""By node id."""


@dataclass
class Compared:
    """What two runs of the same cells say of each other."""

    same: int = 0
    unjudged: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)


def conformance(words: Iterable[str], directory: Path, workers: int) -> float:
    """Run `conformance run` into a directory and return how many seconds it took. Raises SystemExit when it broke."""
    began = time.monotonic()
    command = [sys.executable, "-m", "conformance", "run", *words, "--run-dir", str(directory), "--fresh", "-q"]
    with (directory.parent / f"{directory.name}.txt").open("w") as log:
        ran = subprocess.run([*command, "-n", str(workers)], stdout=log, stderr=log, check=False)
    if ran.returncode == 2:
        raise SystemExit(f"{log.name}: the run did not begin")
    return time.monotonic() - began


def cells_of(directory: Path) -> Cells:
    """Return the cells of a run that came to their end."""
    stored = (read_cell(path) for path in read_run(directory).files)
    return {cell.header.nodeid: cell for cell in stored if cell.footer is not None}


def by_factor(cells: Cells, clock: str) -> Iterator[tuple[float, list[str]]]:
    """Yield each factor with the node ids that are run at it; what is not applicable is not run again."""
    lower = -1.0
    for upper, factor in FACTORS if clock == "scaled" else UNSCALED:
        chosen = [
            nodeid
            for nodeid, cell in cells.items()
            if _applicable(cell) and cell.footer and lower < cell.footer.simulated_seconds <= upper
        ]
        if chosen:
            yield factor, chosen
        lower = upper


def run_both(path: str, given: argparse.Namespace, out: Path) -> tuple[Cells, Cells]:
    """Return the cells of a file under the virtual clock and under the other; what is kept from before is not run."""
    kept = (out / "whole").exists()
    took = 0.0 if kept else conformance([path, "--candidate", "reference"], out / "virtual", os.cpu_count() or 1)
    virtual = cells_of(out / "virtual")
    report("reference, virtual", virtual, took)
    other: Cells = {}
    for factor, chosen in by_factor(virtual, given.clock):
        clock = [given.clock, "--scale", str(factor)] if given.clock == "scaled" else [given.clock]
        name = f"{given.clock}-{factor:g}"
        words = [*chosen, "--candidate", given.candidate, "--clock", *clock]
        took = 0.0 if kept else conformance(words, out / name, given.workers)
        cells = cells_of(out / name)
        report(f"{given.candidate}, {name}", cells, took)
        other |= cells
    (out / "whole").touch()
    return virtual, other


def compare(one: Cells, other: Cells) -> Compared:
    """Compare every verdict of the cells that both runs have."""
    found = Compared()
    for nodeid in sorted(one.keys() & other.keys()):
        if not _applicable(other[nodeid]):  # its own timers and limits cannot be scaled
            continue
        before, after = _by_check(one[nodeid]), _by_check(other[nodeid])
        short = nodeid.partition("::")[2].replace("candidate=reference", "").replace("::,", " ")
        for key in sorted(before.keys() | after.keys()):
            was, now = before.get(key), after.get(key)
            if was and now and (was.outcome is now.outcome or {was.outcome, now.outcome} == _NO_OCCASION):
                found.same += 1
            elif Outcome.INCONCLUSIVE in {was and was.outcome, now and now.outcome}:
                found.unjudged.append(f"{short} {_words(key, was, now)}")
            else:
                found.different.append(f"{short} {_words(key, was, now)}")
    return found


def _applicable(cell: StoredCell) -> bool:
    return cell.footer is not None and cell.footer.outcome is not Outcome.NOT_APPLICABLE


def _by_check(cell: StoredCell) -> dict[tuple[str, str], Verdict]:
    return {(verdict.check, verdict.step or ""): verdict for verdict in cell.verdicts}


def _words(key: tuple[str, str], was: Verdict | None, now: Verdict | None) -> str:
    sentence = next((v.sentence for v in (now, was) if v and v.sentence), "")
    return f"{' '.join(key)}: {was.outcome if was else 'none'} -> {now.outcome if now else 'none'}  {sentence}"


def report(name: str, cells: Cells, seconds: float) -> None:
    """Print what a run was, and cost."""
    simulated = sum(cell.footer.simulated_seconds for cell in cells.values() if cell.footer)
    cpu = sum(cell.footer.cpu_seconds for cell in cells.values() if cell.footer)
    took = (
        f"{seconds:8.1f} s {len(cells) / seconds:7.2f} cells/s {simulated / seconds:10.0f} simulated s/s"
        if seconds
        else "kept from before"
    )
    print(f"  {name:<28} {len(cells):>4} cells {took} {cpu / max(len(cells), 1):7.3f} s CPU/cell", flush=True)


def files_of(paths: Iterable[str]) -> list[str]:
    """Return the scenario files below the paths; a node id stays as it is."""
    found: list[str] = []
    for path in paths:
        below = sorted(map(str, Path(path).rglob("*.scenario.yaml"))) if Path(path).is_dir() else [path]
        found += below
    return found


def main() -> int:
    """Run the cells under both clocks, compare, and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="*", default=[str(CORPUS)])
    parser.add_argument("--clock", choices=("scaled", "shifted"), default="scaled")
    parser.add_argument("--candidate", choices=("reference", "exec:reference"), default="exec:reference")
    parser.add_argument("--workers", type=int, default=6, help="processes of the other run; they mostly wait")
    parser.add_argument("--out", type=Path, help="where the runs are kept (default: nowhere)")
    parser.add_argument("--at-once", action="store_true", help="all paths in one run, not file by file")
    given = parser.parse_args()
    virtual: Cells = {}
    other: Cells = {}
    with tempfile.TemporaryDirectory() as scratch:
        for path in given.path if given.at_once else files_of(given.path):
            out = (given.out or Path(scratch)).resolve() / re.sub(r"[^\w.-]+", "_", path.removeprefix(str(CORPUS)))
            out.mkdir(parents=True, exist_ok=True)
            print(path)
            one, two = run_both(path, given, out)
            virtual |= one
            other |= two
    applicable = [cell for cell in virtual.values() if _applicable(cell)]
    compared = compare(virtual, other)
    unjudged = sum(
        cell.footer is not None and cell.footer.outcome is Outcome.INCONCLUSIVE
        and one.footer is not None and one.footer.outcome is not Outcome.INCONCLUSIVE
        for one, cell in ((virtual[nodeid], cell) for nodeid, cell in other.items())
    )  # fmt: skip
    for title, lines in (("not judged in one of the two:", compared.unjudged), ("DIFFERENT:", compared.different)):
        print("\n".join([title, *(f"  {line[:400]}" for line in lines)]) if lines else f"{title} none")
    print(
        f"{len(other)} of {len(applicable)} cells in both runs; verdicts: {compared.same} the same,"
        f" {len(compared.unjudged)} not judged, {len(compared.different)} different;"
        f" cells inconclusive in the second run only: {unjudged} ({unjudged / max(len(other), 1):.1%})"
    )
    return 1 if compared.different or len(other) < len(applicable) else 0


if __name__ == "__main__":
    sys.exit(main())
