"""Runs the node with each of its mistakes in the first cell of each scenario that judges the row that it breaks, and says what was found.

    python try_defects.py OUT [NAME...]

writes a run directory below OUT for each mistake, and prints a line for each: was it caught, and is the requirement that is
blamed first the right one. Exit code 1 when fewer than 95 % are caught, or fewer than 90 % of all rightly blamed.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from defects import DEFECTS

HERE = Path(__file__).parent
MOST = int(os.environ.get("MOST", "100"))
"""Scenarios of a row in which a mistake is tried."""


def main(out: Path, names: list[str]) -> int:
    """Try them, and return the exit code."""
    rows = {row["id"]: row["scenarios"] for row in json.loads(_conformance("requirements", "--json"))}
    cells: dict[str, list[str]] = defaultdict(list)
    for line in _conformance("list").splitlines():
        cell = line.split("  ")[0]
        cells[cell.split("[")[0]].append(cell)
    out.mkdir(parents=True, exist_ok=True)
    caught = right = 0
    for name in names:
        row, what = DEFECTS[name]
        variant = (
            (HERE / "minimal.yaml")
            .read_text("utf-8")
            .replace("{here}", str(HERE))
            .replace('defect: ""', f"defect: {name}")
        )
        (out / f"{name}.yaml").write_text(
            variant.replace("name: minimal-shadow-node", f"name: minimal+{name}"),
            "utf-8",
        )
        chosen = [cells[scenario][0] for scenario in rows[row]][:MOST]
        words = [
            "--candidate",
            str(out / f"{name}.yaml"),
            "--clock",
            "shifted",
            "-n",
            "2",
        ]
        words += ["--run-dir", str(out / name), "--fresh"]
        words += [word for cell in chosen for word in ("--only", cell)]
        _conformance("run", *words)
        blamed = list(_blamed(out / name, row))
        caught += bool(blamed)
        right += row in blamed[:1]
        verdict = "not caught" if not blamed else "right" if row == blamed[0] else f"blamed {blamed[0]}"
        print(
            f"{name:28} {row:10} {verdict:18} {len(blamed):3} findings in {len(chosen)} cells: {what}",
            flush=True,
        )
    print(f"{len(names)} mistakes, {caught} caught, {right} blamed rightly first")
    return 0 if caught >= 0.95 * len(names) and right >= 0.9 * len(names) else 1


def _conformance(*words: str) -> str:
    ran = subprocess.run(["conformance", *words], capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1, 3):
        raise SystemExit(ran.stdout + ran.stderr)
    return ran.stdout


def _blamed(run: Path, row: str):
    """Return the requirements that a run's failed verdicts blame: the first of each cell, then all others.

    Cells of scenarios that are about the row before all come first, in the order of the corpus.
    """
    found = [list(map(json.loads, path.read_text("utf-8").splitlines())) for path in (run / "cells").glob("*.jsonl")]
    rest = []
    for records in sorted(
        found,
        key=lambda r: (r[0]["requirements"][0] != row, r[0]["path"], r[0]["line"]),
    ):
        failed = [r for r in records if r["record"] == "verdict" and r["outcome"] == "fail"]
        if failed:
            yield failed[0]["requirements"][0]
            rest += failed[1:]
    yield from (verdict["requirements"][0] for verdict in rest)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:] or list(DEFECTS)))
