"""Runs the example server with each of its mistakes, and says what was found.

    python examples/try_defects.py OUT [NAME...] [--sample N --seed S]

Each mistake is tried in the first cell of every scenario that judges the requirement that it violates; where that finds
nothing, in all cells of these scenarios. OUT gets a run directory for each. A line says whether the mistake was caught, and
which requirement is blamed first: that of the first failed verdict of the first cell, in the order of the corpus, that fails.
What a `should` asks for counts as well. Two mistakes are tried at a time, or as many as the environment's PROCESSES says.
Exit code 1 when fewer than 95 % are caught, or fewer than 90 % of all are blamed on the right requirement first.
"""

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

NODE = Path(__file__).with_name("minimal-shadow-node")
sys.path.insert(0, str(NODE))

from defects import DEFECTS  # noqa: E402  # the server's own table

WORDS = ("--clock", "shifted", "--should", "fail", "--fresh")
AT_A_TIME = int(os.environ.get("PROCESSES", "2"))


def main() -> int:
    """Try the mistakes, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--sample", type=int, help="try this number of mistakes, chosen by --seed")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    names = arguments.names or list(DEFECTS)
    if arguments.sample:
        names = random.Random(arguments.seed).sample(names, arguments.sample)  # noqa: S311  # a choice to repeat
    rows = {row["id"]: row["scenarios"] for row in json.loads(_conformance("requirements", "--json"))}
    order = [line.split("  ")[0] for line in _conformance("list").splitlines()]
    cells: dict[str, list[str]] = defaultdict(list)
    for cell in order:
        cells[cell.split("[")[0]].append(cell)
    arguments.out.mkdir(parents=True, exist_ok=True)

    def blamed(name: str) -> list[str]:
        judging = [cells[scenario] for scenario in rows[DEFECTS[name][0]]]
        found = _tried(arguments.out / name, name, [one[0] for one in judging], order)
        return found or _tried(arguments.out / name, name, [cell for one in judging for cell in one], order)

    caught = right = 0
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for name, found in zip(names, pool.map(blamed, names), strict=True):
            row, what, _ = DEFECTS[name]
            caught += bool(found)
            right += found[:1] == [row]
            verdict = "not caught" if not found else "right" if found[0] == row else f"blamed {found[0]}"
            print(f"{name:28} {row:10} {verdict:18} {len(found):3} cells fail: {what}", flush=True)
    print(f"{len(names)} mistakes, {caught} caught, {right} blamed rightly first")
    return 0 if caught >= 0.95 * len(names) and right >= 0.9 * len(names) else 1


def _tried(run: Path, name: str, cells: list[str], order: list[str]) -> list[str]:
    """Run cells with a mistake; return the requirement that the first failed verdict of each failing cell blames."""
    description = run.with_suffix(".yaml")
    text = (NODE / "minimal.yaml").read_text("utf-8").replace("{here}", str(NODE))
    text = text.replace('defect: ""', f"defect: {name}").replace("name: minimal", f"name: {name}+minimal")
    description.write_text(text, "utf-8")
    _conformance("run", *cells, "--candidate", str(description), "--run-dir", str(run), *WORDS)
    found: dict[int, str] = {}
    for path in (run / "cells").glob("*.jsonl.gz"):
        records: list[dict[str, Any]] = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        axes = ",".join(f"{axis}={value}" for axis, value in records[0]["axes"].items())
        cell = records[0]["scenario"] + (f"[{axes}]" if axes else "")
        failed = [one for one in records if one["record"] == "verdict" and one["outcome"] == "fail"]
        if failed:
            found[order.index(cell)] = failed[0]["requirements"][0]
    return [found[place] for place in sorted(found)]


def _conformance(*words: str) -> str:
    ran = subprocess.run(["conformance", *words], capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1, 3):
        raise SystemExit(ran.stdout + ran.stderr)
    return ran.stdout


if __name__ == "__main__":
    sys.exit(main())
