"""Measures the disk space and CPU time of a run, from its first cell to its tables, beside another checkout.

    python -m benchmarks.disk [--against PYTHON] [--rounds 1] [--only TEXT] [--folder DIR]

`run`, `report` and `aggregate` as `tox -e scenarios` gives them, without Allure's site. With `--against` the same is done by
another Python, whose environment has the other checkout, in turns: on a machine that has other work too, only CPU seconds
(user and system, with all children) and their ratios mean something. Sizes are octets as the disk has them (blocks).
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

STEPS = ("run", "report", "aggregate")


@dataclass
class RoundCost:
    """The cost of one round: seconds of the clock and of CPU for each step, and octets for each part."""

    wall: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    octets: dict[str, int] = field(default_factory=dict)


def steps(folder: Path, only: str) -> Mapping[str, Sequence[str]]:
    """Return step -> the arguments of its command."""
    run = folder / "run"
    some = ("-k", only) if only else ()
    return {
        "run": ("run", "scenarios", "--candidate", "reference", "-n", "2", *some, "--run-dir", str(run), "--fresh"),
        "report": ("report", str(run), "--out", str(run / "site")),
        "aggregate": ("aggregate", str(run), "--out", str(run / "tables")),
    }


def measure_round(python: Path, folder: Path, only: str) -> RoundCost:
    """Run the three steps with one Python, and return their cost. Raises subprocess.CalledProcessError."""
    found = RoundCost()
    checkout = checkout_of(python)
    for name, words in steps(folder, only).items():
        before, began = os.times(), time.perf_counter()
        subprocess.run([python, "-m", "conformance", *words], check=True, capture_output=True, cwd=checkout)
        after = os.times()
        found.wall[name] = time.perf_counter() - began
        found.cpu[name] = after[2] + after[3] - before[2] - before[3]
    run = folder / "run"
    pages = run / "site" / "cells"
    found.octets = {
        "run directory, pages, tables": on_disk(run)
        - on_disk(run / "allure-results")
        - on_disk(run / "site" / "allure"),
        "cells": on_disk(run / "cells"),
        "pages of cells": on_disk(pages),
        "tables": on_disk(run / "tables"),
        "the largest page": max((path.stat().st_size for path in pages.rglob("*.html")), default=0),
    }
    return found


def checkout_of(python: Path) -> Path:
    """Return the checkout that is installed in a Python's environment."""
    asked = "import conformance; print(conformance.__file__)"
    said = subprocess.run([python, "-P", "-c", asked], check=True, capture_output=True, text=True, cwd="/")
    return Path(said.stdout.strip()).parent.parent


def on_disk(place: Path) -> int:
    """Return the octets of the blocks that a file, or a folder with all that is in it, has on the disk."""
    return sum(path.lstat().st_blocks * 512 for path in (place, *place.rglob("*"))) if place.exists() else 0


def main() -> None:
    """Print what each round took, and the ratios of the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="the Python of another environment, with the other checkout")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="as -k: some cells only")
    parser.add_argument("--folder", type=Path, default=None, help="default: the system's for temporary files")
    options = parser.parse_args()
    pythons = {"here": Path(sys.executable)} | ({"there": options.against} if options.against else {})
    rounds: dict[str, list[RoundCost]] = {name: [] for name in pythons}
    for _ in range(options.rounds):
        for name, python in pythons.items():
            folder = Path(tempfile.mkdtemp(prefix="conformance-benchmark-", dir=options.folder))
            try:
                rounds[name].append(measure_round(python, folder, options.only))
            finally:
                shutil.rmtree(folder)
            _print(name, rounds[name][-1])
    if options.against:
        for step in STEPS:
            here, there = (sum(one.cpu[step] for one in rounds[name]) for name in ("here", "there"))
            print(f"{step:<30} CPU {here / there:6.2f} of the other's")
        here, there = (sum(sum(one.cpu.values()) for one in rounds[name]) for name in ("here", "there"))
        wall = [sum(sum(one.wall.values()) for one in rounds[name]) for name in ("here", "there")]
        print(f"{'all three':<30} CPU {here / there:6.2f} of the other's, wall {wall[0] / wall[1]:6.2f}")


def _print(name: str, one: RoundCost) -> None:
    for step in STEPS:
        print(f"{name:<6} {step:<30} {one.wall[step]:8.1f} s   CPU {one.cpu[step]:8.1f} s", flush=True)
    print(f"{name:<6} {'load average':<30} {os.getloadavg()[0]:8.1f}", flush=True)
    for part, octets in one.octets.items():
        print(f"{name:<6} {part:<30} {octets / 1e6:8.1f} MB", flush=True)


if __name__ == "__main__":
    main()
