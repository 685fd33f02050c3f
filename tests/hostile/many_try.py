"""Many cells in one run, watched: `python -m tests.hostile.many_try --cells 5000`, `--cells 256 --at-once 64`.

One after another in virtual time with the reference, or `--at-once` of them together with a program each, in scaled time. While it runs,
the memory and open files of its process and the processes below it are looked at. They are flat: what they are at most in the
last third of the cells is what they were in the second, but for what pytest keeps of each test that has ended.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from conformance.results.reader import read_run
from conformance.verdicts import Outcome
from tests.hostile import programs
from tests.suite.helpers import command, environment

PAUSE = 0.1
"""Seconds between two looks."""

OF_A_CELL = 12 * 1024
"""Octets of memory that a cell which has ended may leave in the process: pytest's item and its reports."""

ROOM = 16 * 2**20
"""Octets by which memory may differ besides: what Python's allocator keeps."""

SCENARIO = """\
id: one-of-many
title: A message is passed on, some time after the beginning
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
axes:
  a: [{first}]
  b: [{second}]
steps:
  - advance: "${{a}}"
  - advance: "${{b}}"
  - send: {{as: m, to: victor@outside.test, via: mta1}}
  - expect: {{delivered: {{of: m, at: outside, copies: 1, within: 1m}}}}
"""


@dataclass(frozen=True, slots=True)
class Look:
    """What a run has at a moment, after `cells` cells have ended."""

    cells: int
    files: int
    octets: int
    processes: int


def scenario(cells: int) -> str:
    """Return a scenario of `cells` cells; above 50 they are a multiple of 50."""
    second = min(cells, 50)
    first = -(-cells // second)
    return SCENARIO.format(
        first=", ".join(f"{n + 1}s" for n in range(first)), second=", ".join(f"{n + 1}ms" for n in range(second))
    )


def watched(words: Sequence[str], folder: Path) -> tuple[int, list[Look], str]:
    """Run a command and look at it until its end; return its exit code, what was seen, and what it said."""
    looks: list[Look] = []
    ended = folder / "run" / "cells"
    with (folder / "said.txt").open("w+b") as said:
        process = subprocess.Popen(command(*words), cwd=folder, env=environment(), stdout=said, stderr=said)
        seen = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                below = len(seen.children(recursive=True))
                count = len(list(ended.glob("*.gz"))) if ended.is_dir() else 0  # what runs is not compressed yet
                looks.append(Look(count, seen.num_fds(), seen.memory_info().rss, below))
            except (psutil.NoSuchProcess, psutil.AccessDenied):  # it has just ended
                break
            time.sleep(PAUSE)
        code = process.wait()
        said.seek(0)
        return code, looks, said.read().decode("utf-8", "replace")


def growth(looks: Sequence[Look], cells: int, at_once: int) -> list[str]:
    """Return what is not flat: the second third of the cells held against the last."""
    thirds: list[list[Look]] = [[], [], []]
    most = cells - at_once  # at the end there are fewer beside each other, and then the report
    for look in looks:
        if 0 < look.cells <= most:
            thirds[look.cells * 3 // (most + 1)].append(look)
    if not thirds[1] or not thirds[2]:
        return [f"nothing was seen in a third of the run ({len(looks)} looks): nothing is shown"]
    wrong = []
    before, after = (
        {name: max(getattr(one, name) for one in third) for name in asdict(third[0])} for third in thirds[1:]
    )
    slack = at_once + 4  # who happens to be looked at while it starts
    for name, room in (("files", 3 * slack), ("processes", 3 * slack), ("octets", ROOM + OF_A_CELL * cells // 3)):
        if after[name] > before[name] + room:
            wrong.append(f"{name}: {before[name]} at most in the second third of the cells, {after[name]} in the last")
    return wrong


def try_many(cells: int, at_once: int, folder: Path) -> tuple[dict[str, object], list[str]]:
    """Make and watch a run; return figures, and what is wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "many.scenario.yaml").write_text(scenario(cells), "utf-8")
    words = ["run", "many.scenario.yaml", "--run-dir", "run", "--fresh", "-q", "-p", "no:cacheprovider"]
    if at_once > 1:
        description = {
            "name": "relays", "kind": "exec", "claims": ["relay"], "listeners": ["frontend"],
            "argv": ["{python}", "-S", "-E", programs.__file__, "{config}", "does_nothing"], "exit-codes": [0, 143],
            "ready-within": 300, "stop-within": 300,
        }  # fmt: skip
        (folder / "relays.yaml").write_text(json.dumps(description), "utf-8")
        words += ["--candidate", "relays.yaml", "--cells", str(at_once), "--clock", "scaled", "--scale", "60"]
    began = time.monotonic()
    code, looks, said = watched(words, folder)
    seconds = round(time.monotonic() - began, 1)
    planned = read_run(folder / "run")
    ends = [cell.footer.outcome for cell in planned.cells([]) if cell.footer is not None]
    wrong = growth(looks, len(ends), at_once)
    if any(word in said for word in ("Traceback", "INTERNALERROR", "ran out of something", "harness itself broke")):
        wrong.append(f"exit {code}: {said[-1000:]}")
    if len(ends) != planned.header.cells_planned or (at_once == 1 and set(ends) != {Outcome.PASS}):
        wrong.append(f"{len(ends)} cells of {planned.header.cells_planned} have ended: exit {code}: {said[-1000:]}")
    figures: dict[str, object] = {
        "cells": len(ends), "passed": ends.count(Outcome.PASS), "seconds": seconds, "looks": len(looks),
        **{f"most {name}": max(getattr(one, name) for one in looks) for name in ("files", "octets", "processes")},
    }  # fmt: skip
    return figures, wrong


def main(arguments: list[str] | None = None) -> int:
    """Return 1 when something is not flat, or a cell has not ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("reports/hostile-many"))
    parser.add_argument("--cells", type=int, default=5000)
    parser.add_argument("--at-once", type=int, default=1)
    options = parser.parse_args(arguments)
    figures, wrong = try_many(options.cells, options.at_once, options.work.resolve())
    print(", ".join(f"{name}: {value}" for name, value in figures.items()), *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
