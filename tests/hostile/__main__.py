"""All hostile trials within a budget: `python -m tests.hostile` in 20 minutes on two cores, `--fast` in two.

A seeded sample: the same files, kills and pages each time. With `--work DIR` it goes on where it was ended there; without, or
with another place, it starts anew. Each script has its own full counts.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

AT_ONCE = 2
"""Scripts that run beside each other: a core each."""

FAST: Mapping[str, Sequence[str]] = {
    "kills_try": ("--run", "3", "--report", "1", "--aggregate", "1"),
    "files_try": ("--files", "60", "--commands", "3"),
    "pages_try": ("--runs", "1"),
}
SAMPLE: Mapping[str, Sequence[str]] = {
    "files_try": ("--files", "1500", "--commands", "30", "--seconds", "600"),
    "kills_try": ("--run", "20", "--report", "6", "--aggregate", "4", "--seconds", "400"),
    "parquet_try": ("--files", "20", "--seconds", "240"),
    "many_try": ("--cells", "1000"),
    "pages_try": ("--runs", "8"),
}
"""Script -> its words, those that take longest first. The fast part has no limit of time: it leaves no kind out."""


def main() -> int:
    """Return 1 when any of them found a defect."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="a part of at most two minutes")
    parser.add_argument("--work", type=Path, help="go on in this directory; default: a new one, deleted afterwards")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hostile-") as new:
        codes = run_all(FAST if options.fast else SAMPLE, (options.work or Path(new)).resolve())
    failed = [name for name, code in codes.items() if code]
    print(f"defects: {', '.join(failed)}" if failed else "no defects")
    return 1 if failed else 0


def run_all(scripts: Mapping[str, Sequence[str]], work: Path) -> dict[str, int]:
    """Run scripts, each with a directory of its own; print what each said as it ends, and return their exit codes."""

    def run(name: str) -> int:
        began = time.monotonic()
        words = [sys.executable, "-m", f"tests.hostile.{name}", "--work", str(work / name), *scripts[name]]
        ran = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(f"{ran.stdout}{name}: exit {ran.returncode} after {time.monotonic() - began:.0f} s", flush=True)
        return ran.returncode

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(scripts, pool.map(run, scripts), strict=True))


if __name__ == "__main__":
    sys.exit(main())
