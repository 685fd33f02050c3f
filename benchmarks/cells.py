"""Measures what `--cells N` saves: the relay suite against the five servers, one cell at a time and then N at once.

Both runs must come to the same verdicts: for every cell the same outcome, and the same failed checks of the same
requirements; but for races of a server's own, which its baseline names (`sometimes`): a lost one is printed and
not compared. Each difference is printed, and the exit code is then 1. Printed of time: wall seconds of both runs, CPU
seconds (of all processes that ended), and the ratio, which is to be a third at most. `--parts` makes the first run a run
for each candidate, all side by side, each with one cell in flight, and adds their times up: on a machine with nothing
else to do that comes to the same, and takes a fifth of the time.

    conformance candidate install
    python benchmarks/cells.py [--cells 16] [--candidate NAME]... [--only EXPRESSION] [--parts] [--keep DIR]
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from conformance.paths import fixtures
from conformance.results.reader import StoredCell, read_run
from conformance.suite.baseline import Baseline, read_baselines
from conformance.verdicts import Outcome

SUITE = (
    "scenarios/relay/relay.scenario.yaml",
    "scenarios/relay/losses.scenario.yaml",
    "scenarios/faults/disks.scenario.yaml::acknowledged-means-synced",
)
BASELINES = fixtures() / "baselines"
SERVERS = ("postfix", "exim", "sendmail", "haraka", "opensmtpd")

Verdicts = dict[str, tuple[str, ...]]
"""Of each cell, by its node id: its outcome, then every check that failed, with the requirement that it blames."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run, or several side by side: verdicts, wall seconds (added up), CPU seconds."""

    verdicts: Verdicts
    wall: float
    cpu: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure both and print the results; return 1 where the verdicts differ."""
    options = _options(arguments)
    with TemporaryDirectory(prefix="cells-") as made:
        directory = options.keep or Path(made)
        directory.mkdir(parents=True, exist_ok=True)
        parts = [(one,) for one in options.candidate] if options.parts else [tuple(options.candidate)]
        alone = _measure(directory, "one", 1, parts, options.only)
        together = _measure(directory, "many", options.cells, [tuple(options.candidate)], options.only)
    print(f"{'cells':>8}{'wall s':>10}{'CPU s':>10}")
    print(f"{1:>8}{alone.wall:>10.1f}{alone.cpu:>10.1f}")
    print(f"{options.cells:>8}{together.wall:>10.1f}{together.cpu:>10.1f}")
    print(f"{together.wall / alone.wall:.2f} of the time, {len(together.verdicts)} cells")
    differing = [*differences(alone.verdicts, together.verdicts)]
    print("\n".join(differing) or "the same verdicts")
    return 1 if differing else 0


def differences(one: Verdicts, other: Verdicts) -> list[str]:
    """Return a line for each cell whose verdicts differ, or that only one of the two has."""
    cells = sorted({*one, *other})
    return [
        f"{cell}: {' '.join(one.get(cell, ('not run',)))}; together: {' '.join(other.get(cell, ('not run',)))}"
        for cell in cells
        if one.get(cell) != other.get(cell)
    ]


def verdicts(directory: Path, baselines: Mapping[str, Baseline]) -> Verdicts:
    """Read what the cells of a run came to, without the races that were lost."""
    return {cell.header.nodeid: _outcome_and_failures(cell, baselines) for cell in read_run(directory).cells([])}


def _outcome_and_failures(cell: StoredCell, baselines: Mapping[str, Baseline]) -> tuple[str, ...]:
    known = baselines[cell.header.candidate].known if cell.header.candidate in baselines else ()
    races = [entry for entry in known if entry.sometimes and entry.covers(cell.header)]
    failed = [verdict for verdict in cell.verdicts if verdict.outcome is Outcome.FAIL]
    news = [verdict for verdict in failed if not any(entry.matches(verdict) for entry in races)]
    outcome = str(cell.footer.outcome if cell.footer else "cut short")
    if len(news) < len(failed):
        print(f"a race was lost: {cell.header.nodeid}")
        outcome = outcome if news else "pass"
    return (outcome, *sorted({f"{verdict.check}/{verdict.requirements[0]}" for verdict in news}))


def _measure(directory: Path, name: str, cells: int, parts: Sequence[tuple[str, ...]], only: str | None) -> Measured:
    """Run the parts side by side and add their times up."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    places = [directory / f"{name}-{number}" for number, _ in enumerate(parts)]
    running = [
        subprocess.Popen(_command(place, cells, part, only), stdout=subprocess.DEVNULL)
        for place, part in zip(places, parts, strict=True)
    ]
    wall = 0.0
    while running:
        ended = [one for one in running if one.poll() is not None]
        wall += len(ended) * (time.monotonic() - began)
        running = [one for one in running if one not in ended]
        time.sleep(0.2)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    baselines = read_baselines([str(BASELINES)])
    return Measured({cell: what for place in places for cell, what in verdicts(place, baselines).items()}, wall, cpu)


def _command(directory: Path, cells: int, candidates: Sequence[str], only: str | None) -> list[str]:
    arguments = [sys.executable, "-m", "conformance", "run", *SUITE, "--run-dir", str(directory), "--fresh"]
    arguments += [word for name in candidates for word in ("--candidate", name)]
    return [*arguments, "--cells", str(cells), *(("-k", only) if only else ())]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", type=int, default=16)
    parser.add_argument("--candidate", action="append")
    parser.add_argument("--only", metavar="EXPRESSION", help="as pytest's -k")
    parser.add_argument("--parts", action="store_true", help="one cell at a time of each candidate, side by side")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the run directories stay")
    options = parser.parse_args(arguments)
    options.candidate = options.candidate or list(SERVERS)
    return options


if __name__ == "__main__":
    sys.exit(main())
