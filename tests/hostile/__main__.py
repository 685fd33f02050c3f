"""All hostile trials within a budget: `python -m tests.hostile` in 20 minutes on two cores, `--fast` in two.

A seeded sample: the same files, kills and pages each time. Each script has its own full counts, and goes on where it was ended.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

FAST: dict[str, Sequence[str]] = {
    "files_try": ("--files", "60", "--commands", "3", "--seconds", "40"),
    "kills_try": ("--run", "3", "--report", "1", "--aggregate", "1", "--seconds", "60"),
    "pages_try": ("--runs", "1"),
}
SAMPLE: dict[str, Sequence[str]] = {
    "files_try": ("--files", "1500", "--commands", "30", "--seconds", "480"),
    "kills_try": ("--run", "20", "--report", "6", "--aggregate", "4", "--seconds", "300"),
    "parquet_try": ("--files", "20", "--seconds", "240"),
    "pages_try": ("--runs", "8"),
}


def main() -> int:
    """Return 1 when any of them found a defect."""
    failed = []
    with tempfile.TemporaryDirectory(prefix="hostile-") as work:
        for name, words in (FAST if "--fast" in sys.argv[1:] else SAMPLE).items():
            began = time.monotonic()
            command = [sys.executable, "-m", f"tests.hostile.{name}", "--work", str(Path(work) / name), *words]
            code = subprocess.run(command, check=False).returncode
            print(f"{name}: exit {code} after {time.monotonic() - began:.0f} s", flush=True)
            failed += [name] if code else []
    print(f"defects: {', '.join(failed)}" if failed else "no defects")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
