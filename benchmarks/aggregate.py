"""Measures `aggregate` of one run with Java's start, without a cache for Java and with one; optionally against another checkout.

    python -m benchmarks.aggregate RUN [--against PYTHON --their-run RUN] [--rounds 1]

A run is made with `conformance run scenarios --candidate reference -n 2 --run-dir RUN`; the other checkout makes its own, since
it may know an older schema only. Each round aggregates with the other checkout, then here without a cache, then here with the
cache that was made before the first round. Wall and CPU seconds (user and system, with all children) and the load average before
each: beside other work only CPU seconds and their ratios mean something, and these are upper bounds too.

Measured on two cores with other work on them (load 13 to 16), before which the measured process had the processor; a run of 774
cells and 383,000 events: 17 s of the clock and 26 s of CPU (user and system) without a cache, 14.3 s and 22.5 s with it. To make the
cache took 37 s and 45 s of CPU, the aggregation included. Of these 22.5 s some 8 are Spark's tasks, which take 7 in a session that
has done it all before: rows are copied, field by field, by code that is interpreted. Of a quiet machine there are no figures yet.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.disk import checkout_of


def measure_aggregation(python: Path, run: Path, cache: Path, *words: str) -> tuple[float, float]:
    """Aggregate a run into a new folder, and delete it; return wall and CPU seconds. Raises subprocess.CalledProcessError."""
    out = Path(tempfile.mkdtemp(prefix="conformance-benchmark-"))
    try:
        before, began = os.times(), time.perf_counter()
        subprocess.run(
            [python, "-m", "conformance", "aggregate", run.resolve(), "--out", out, *words],
            check=True,
            capture_output=True,
            env={**os.environ, "XDG_CACHE_HOME": str(cache)},
            cwd=checkout_of(python),
        )
        after = os.times()
    finally:
        shutil.rmtree(out)
    return time.perf_counter() - began, after[2] + after[3] - before[2] - before[3]


def main() -> None:
    """Run the aggregations, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--against", type=Path, help="the Python of another environment, with the other checkout")
    parser.add_argument("--their-run", type=Path, help="a run that the other checkout made; default: the same")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    here = Path(sys.executable)
    with tempfile.TemporaryDirectory(prefix="conformance-benchmark-") as folder:
        without, kept = Path(folder) / "without", Path(folder) / "with"
        _print("here, makes the cache", *measure_aggregation(here, options.run, kept, "--make-jvm-cache"))
        for _ in range(options.rounds):
            if options.against:
                _print(
                    "there, without", *measure_aggregation(options.against, options.their_run or options.run, without)
                )
            _print("here, without", *measure_aggregation(here, options.run, without))
            _print("here, with", *measure_aggregation(here, options.run, kept))


def _print(what: str, wall: float, cpu: float) -> None:
    print(f"{what:<24} {wall:8.1f} s   CPU {cpu:8.1f} s   load {os.getloadavg()[0]:5.1f}", flush=True)


if __name__ == "__main__":
    main()
