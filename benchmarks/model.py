"""Measures what the rules of the model cost: the CPU time of the corpus with all rules, and with the invariants of 0.1.0 alone.

The corpus is run once in virtual time, in one process for each core. Then each of its histories is judged by every rule, and the
time is counted for each rule. The corpus without a rule would have taken its time less that of the rule. Printed are the CPU
seconds of the run, those of the invariants and of the other rules, the ratio of the run with all rules to the run with the
invariants alone, and the costliest rules. The exit code is 1 if the ratio is above 1.2.

    python benchmarks/model.py [--run-dir DIR] [SCENARIO...]
"""

import argparse
import gc
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from conformance import paths
from conformance.commands.judge import find_cell, read_scenarios
from conformance.model import RULES
from conformance.model.facts import Facts
from conformance.results.reader import StoredCell, StoredRun, read_run
from conformance.scenarios.document import Cell
from conformance.scenarios.fault_grid import GRID_SIZES
from conformance.trace.context import CheckContext
from conformance.trace.trace import Trace

MAX_RATIO = 1.2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, judge, and print the figures; return 1 where the rules cost too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run-dir", type=Path, help="keep the run here (default: a temporary directory)")
    parser.add_argument("scenarios", nargs="*", default=[str(paths.corpus())])
    options = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="model-") as made:
        directory = options.run_dir or Path(made) / "run"
        cpu = _run(directory, options.scenarios)
        run = read_run(directory)
        seconds, cells = _judge(run, [Path(name.partition("::")[0]) for name in options.scenarios])
    invariants = sum(spent for name, spent in seconds.items() if name.startswith("invariant."))
    others = seconds.total() - invariants
    ratio = cpu / (cpu - others)
    print(f"{cells} cells, {cpu:.1f} CPU s; of these {invariants:.2f} s by invariants, {others:.2f} s by other rules")
    print(f"with all rules: {ratio:.3f} of the time with the invariants alone (at most {MAX_RATIO})")
    for name, spent in seconds.most_common(8):
        print(f"{spent:8.3f} s  {name}")
    return 1 if ratio > MAX_RATIO else 0


def _run(directory: Path, scenarios: Sequence[str]) -> float:
    """Run the scenarios, and return the CPU seconds of all processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [
        "conformance",
        "run",
        *scenarios,
        "-n",
        "2",
        "--dist",
        "worksteal",
        "--run-dir",
        str(directory),
        "--fresh",
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _judge(run: StoredRun, files: Sequence[Path]) -> tuple[Counter[str], int]:
    """Judge each stored history by each rule; return the CPU seconds of each rule, and the number of histories."""
    stored = [cell for cell in run.cells([]) if cell.events]
    scenarios = read_scenarios({cell.header.scenario for cell in stored}, list(files))
    seconds: Counter[str] = Counter()
    for one in stored:
        cell = find_cell(scenarios, one.header, GRID_SIZES.get(run.header.grid, "full"))
        if cell is not None:
            seconds.update(_cost(one, cell))
    return seconds, len(stored)


def _cost(stored: StoredCell, cell: Cell) -> dict[str, float]:
    """Return the CPU seconds that each rule takes for one history; what several share is counted to the first."""
    facts = Facts(CheckContext(cell, Trace(stored.events), stored.header.tolerance, frozenset(stored.header.claims)))
    gc.collect()
    spent = {}
    for name, rule in RULES.items():
        began = time.process_time()
        rule.check(facts)
        spent[name] = time.process_time() - began
    return spent


if __name__ == "__main__":
    sys.exit(main())
