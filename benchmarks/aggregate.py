"""How long `aggregate` of one run takes, Java's start included, without a cache for Java and with one, beside another checkout.

    python -m benchmarks.aggregate RUN [--against PYTHON --their-run RUN] [--rounds 1]

A run is made with `conformance run scenarios --candidate reference -n 2 --run-dir RUN`; the other checkout makes its own, since
it may know an older schema only. Each round aggregates with the other checkout, then here without a cache, then here with the
cache that was made before the first round. Wall and CPU seconds (user and system, with all children) and the load average before
each: beside other work only CPU seconds and their ratios mean something, and these are upper bounds too.

Measured on two cores with other work on them (load 8 to 10), a run of 771 cells and 381,000 events: 38.3 s of CPU (user and system)
without a cache, and 32.5 s with it. To make the cache took 73 s of CPU, the aggregation included, and 209 MB. Since then a small
history is seen to lie in one part. One after the other at a load of 17 to 18, a run of 151 cells: 42.4 s of CPU before, and 26.1 s
after. Of a quiet machine, and of the clock, there are no figures yet.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def took(python: Path, run: Path, cache: Path, *words: str) -> tuple[float, float]:
    """Aggregate a run from nothing; return wall and CPU seconds. Raises subprocess.CalledProcessError."""
    out = Path(tempfile.mkdtemp(prefix="conformance-benchmark-"))
    try:
        before, began = os.times(), time.perf_counter()
        subprocess.run(
            [python, "-m", "conformance", "aggregate", run, "--out", out, *words],
            check=True,
            capture_output=True,
            env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        )
        after = os.times()
    finally:
        shutil.rmtree(out)
    return time.perf_counter() - began, after[2] + after[3] - before[2] - before[3]


def main() -> None:
    """Print a line for each aggregation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--against", type=Path, help="the Python of another environment, with the other checkout")
    parser.add_argument("--their-run", type=Path, help="a run that the other checkout made; default: the same")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    here = Path(sys.executable)
    with tempfile.TemporaryDirectory(prefix="conformance-benchmark-") as folder:
        without, kept = Path(folder) / "without", Path(folder) / "with"
        _print("here, makes the cache", *took(here, options.run, kept, "--make-jvm-cache"))
        for _ in range(options.rounds):
            if options.against:
                _print("there, without", *took(options.against, options.their_run or options.run, without))
            _print("here, without", *took(here, options.run, without))
            _print("here, with", *took(here, options.run, kept))


def _print(what: str, wall: float, cpu: float) -> None:
    print(f"{what:<24} {wall:8.1f} s   CPU {cpu:8.1f} s   load {os.getloadavg()[0]:5.1f}", flush=True)


if __name__ == "__main__":
    main()
