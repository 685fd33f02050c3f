"""Standings and changed verdicts, as Spark computes them, compared with the same rules written plainly in Python."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from conformance.spark.session import open_session
from conformance.spark.tables.versions import ROW_CHANGES, STANDINGS
from conformance.verdicts import Outcome, worst_over_cells
from conformance.verdicts.changes import CellState, ChangeKind, change_kind

pytestmark = pytest.mark.spark

COLUMNS = ("run", "started", "candidate", "version", "nodeid", "requirement", "outcome")
COUNTED = {
    "pass": "passed", "fail": "failed", "inconclusive": "inconclusive", "not-applicable": "not_applicable", "error": "errors",
}  # fmt: skip
"""The column that counts an outcome."""
Row = dict[str, Any]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with open_session("local[1]") as opened:
        yield opened


def random_rows(seed: int) -> list[Row]:
    """Return what the cells of some runs show: servers that change their version, cells and requirements that come and go.

    The oldest run is first; in the order of names it is the last.
    """
    dice = random.Random(seed)
    rows = []
    for run in range(4):
        for candidate in dice.sample(["exim", "postfix"], dice.randint(1, 2)):
            version = dice.choice(["1", "2"])
            for nodeid in dice.sample(["a", "b", "c"], dice.randint(1, 3)):
                for requirement in ("RL-ACK-01", "RL-ACK-02")[: dice.randint(1, 2)]:
                    outcome = str(dice.choice(list(Outcome)))
                    values = (f"r{3 - run}", f"2026-01-0{run + 1}", candidate, version, nodeid, requirement, outcome)
                    rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def ask(session: SparkSession, rows: list[Row], query: str) -> list[Row]:
    ddl = ", ".join(f"{name} STRING" for name in COLUMNS)
    session.createDataFrame([tuple(row[name] for name in COLUMNS) for row in rows], ddl).createOrReplaceTempView(
        "row_outcomes"
    )
    return session.sql(query).toArrow().to_pylist()


def standings(rows: list[Row]) -> set[tuple[Any, ...]]:
    """Return (candidate, version, requirement, cells, outcome, run) of the latest outcome of each cell, and a count of each outcome."""
    latest: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:  # the oldest run is first
        latest.setdefault((row["candidate"], row["version"], row["requirement"]), {})[row["nodeid"]] = row
    return {
        (*key, len(cells), worst_over_cells(Outcome(cell["outcome"]) for cell in cells.values()),
         max(cells.values(), key=lambda cell: cell["started"])["run"],
         *(sum(cell["outcome"] == outcome for cell in cells.values()) for outcome in COUNTED))
        for key, cells in latest.items()
    }  # fmt: skip


def changes(rows: list[Row]) -> set[tuple[Any, ...]]:
    """Return (run, candidate, requirement, cells, before, outcome, change) of each changed requirement."""
    found: set[tuple[Any, ...]] = set()
    last: dict[tuple[str, str, str], Outcome] = {}
    seen: set[str] = set()
    for run in dict.fromkeys(row["run"] for row in rows):  # the oldest run is first
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in (row for row in rows if row["run"] == run):
            groups.setdefault((row["candidate"], row["requirement"]), []).append(row)
        for (candidate, requirement), cells in groups.items():
            keys = {cell["nodeid"]: (candidate, cell["nodeid"], requirement) for cell in cells}
            old = [cell for cell in cells if keys[cell["nodeid"]] in last]
            failing = [cell for cell in cells if cell not in old and cell["outcome"] == Outcome.FAIL]
            if failing and candidate in seen:
                found.add((run, candidate, requirement, len(failing), "absent", "fail", "new"))
            if old:
                before = worst_over_cells(last[keys[cell["nodeid"]]] for cell in old)
                after = worst_over_cells(Outcome(cell["outcome"]) for cell in old)
                assert before is not None
                assert after is not None
                if kind := change_kind(CellState(before), CellState(after)):
                    found.add((run, candidate, requirement, len(old), str(before), str(after), str(kind)))
        for (candidate, requirement), cells in groups.items():
            seen.add(candidate)
            last |= {(candidate, cell["nodeid"], requirement): Outcome(cell["outcome"]) for cell in cells}
    return found


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_standings_and_changes_follow_the_rules(session: SparkSession, seed: int) -> None:
    rows = random_rows(seed)
    found = ask(session, rows, STANDINGS.query)
    names: tuple[str, ...] = ("candidate", "version", "requirement", "cells", "outcome", "run", *COUNTED.values())
    assert {tuple(row[name] for name in names) for row in found} == standings(rows)
    assert len(found) == len(standings(rows))
    changed = ask(session, rows, ROW_CHANGES.query)
    names = ("run", "candidate", "requirement", "cells", "before", "outcome", "change")
    assert {tuple(row[name] for name in names) for row in changed} == changes(rows)
    assert len(changed) == len(changes(rows)) > 0


def test_a_change_names_both_versions_and_the_earlier_run(session: SparkSession) -> None:
    cell = {"candidate": "exim", "nodeid": "a", "requirement": "RL-ACK-01"}
    rows = [
        {**cell, "run": "r2", "started": "2026-01-01", "version": "4.96", "outcome": "pass"},
        {**cell, "run": "r1", "started": "2026-01-02", "version": "4.97", "outcome": "fail"},
    ]
    (change,) = ask(session, rows, ROW_CHANGES.query)
    assert (change["before_version"], change["version"], change["before_run"]) == ("4.96", "4.97", "r2")
    assert change["change"] == ChangeKind.REGRESSION
    assert {(row["version"], row["outcome"]) for row in ask(session, rows, STANDINGS.query)} == {
        ("4.96", "pass"),
        ("4.97", "fail"),
    }
