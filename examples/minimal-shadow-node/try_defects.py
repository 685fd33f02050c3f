"""Runs the node with each of its mistakes in the scenarios that judge the row that it breaks, and says what was found.

    python try_defects.py OUT [NAME...]

writes a run directory below OUT for each mistake, and prints a line for each: was it caught, and is the requirement that is
blamed first the right one. Exit code 1 when fewer than 95 % are caught, or fewer than 90 % of all rightly blamed.
"""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from defects import DEFECTS

HERE = Path(__file__).parent
CELLS = 2
"""Cells of one scenario in which a mistake is tried: the first and the last."""


def main(out: Path, names: list[str]) -> int:
    """Try them, and return the exit code."""
    rows = {row["id"]: row["scenarios"] for row in json.loads(_conformance("requirements", "--json"))}
    cells: dict[str, list[str]] = defaultdict(list)
    for line in _conformance("list").splitlines():
        cell = line.split("  ")[0]
        cells[cell.split("::")[1].split("[")[0]].append(cell)
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
            variant.replace("name: minimal-shadow-node", f"name: minimal+{name}"), "utf-8"
        )
        chosen = [
            cell
            for scenario in rows[row]
            for cell in dict.fromkeys(cells[scenario][:: max(1, len(cells[scenario]) - 1)][:CELLS])
        ]
        words = [
            "--candidate",
            str(out / f"{name}.yaml"),
            "--clock",
            "shifted",
            "-n",
            "2",
            "--run-dir",
            str(out / name),
            "--fresh",
        ]
        _conformance("run", *chosen, *words)
        blamed = list(_blamed(out / name))
        caught += bool(blamed)
        right += row in blamed[:1]
        verdict = "not caught" if not blamed else "right" if row == blamed[0] else f"blamed {blamed[0]}"
        print(f"{name:28} {row:10} {verdict:18} {len(blamed):3} findings in {len(chosen)} cells: {what}", flush=True)
    print(f"{len(names)} mistakes, {caught} caught, {right} blamed rightly first")
    return 0 if caught >= 0.95 * len(names) and right >= 0.9 * len(names) else 1


def _conformance(*words: str) -> str:
    ran = subprocess.run(["conformance", *words], capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1, 3):
        raise SystemExit(ran.stdout + ran.stderr)
    return ran.stdout


def _blamed(run: Path):  # the requirements blamed by the failed verdicts of a run, the first of each cell first
    rest = []
    for path in sorted((run / "cells").glob("*.jsonl")):
        records = map(json.loads, path.read_text("utf-8").splitlines())
        failed = [r for r in records if r["record"] == "verdict" and r["outcome"] == "fail"]
        if failed:
            yield failed[0]["requirements"][0]
            rest += failed[1:]
    yield from (verdict["requirements"][0] for verdict in rest)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:] or list(DEFECTS)))
