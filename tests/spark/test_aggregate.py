"""One aggregation of made-up runs: the second oracle finds the planted defects and nothing else, and tables describe them."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession

from conformance.commands.aggregate import write_page
from conformance.history.events import Connected, Content, Reply
from conformance.results.reader import read_run
from conformance.spark import aggregation, partitioning
from conformance.spark.aggregation import CROSS_RUN_TABLES, PER_RUN_TABLES, TABLES, AggregationResult, aggregate
from conformance.spark.ingest import read_headers
from conformance.spark.invariants import INVARIANTS
from conformance.spark.session import open_session
from conformance.spark.tables.table import Table
from conformance.spark.views import CACHED_VIEWS, VIEWS_CACHED_WHEN_SMALL
from conformance.spark.warehouse import PARTITIONED_TABLES
from tests.judge.miniature import miniatures
from tests.results.stored import plain, rewrite
from tests.spark.miniatures import UNSEEN, make_miniatures
from tests.spark.synthetic import DEFECTS, MadeCell, make_run

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FINE = MadeCell("fine")
EXCUSED = (
    "nothing-acknowledged-is-lost",
    "two-copies-at-acknowledgement",
    "no-duplicate-in-mailbox",
    "no-duplicate-without-cause",
    "content-unchanged",
)
LOST = replace(FINE, defect="nothing-acknowledged-is-lost")


@pytest.fixture(scope="module")
def spark() -> Iterator[None]:
    """Keep one session for all aggregations of the module: they take the active one."""
    with open_session("local[2]"):
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    planted = [FINE, *(MadeCell(name, name) for name in DEFECTS), MadeCell("blind", DEFECTS[0], agree=False)]
    planted.append(MadeCell("remarked", remark=True))
    make_run(folder / "planted", [*planted, *(MadeCell(f"grid[x={n}]") for n in range(10))])
    make_run(folder / "loose", [*planted, *(MadeCell(f"grid[x={n}]") for n in range(10))], whole=False)
    excused = [MadeCell(f"excused-{name}", name, agree=False, excused=True) for name in EXCUSED]
    waived = [MadeCell(f"waived-{name}", name, agree=False, waived=True) for name in DEFECTS]
    make_run(folder / "excused", [*excused, *waived])
    for day, (cell, candidate) in enumerate([(FINE, "c"), (LOST, "d"), (LOST, "d"), (FINE, "d"), (LOST, "d")], start=1):
        suite = "6" * 64 if day == 4 else "5" * 64
        cells = [replace(cell, name="history", scenario_sha256=suite)]
        started = f"2026-02-0{day}T00:00:00Z"
        make_run(folder / f"day{day}", cells, started=started, candidate_sha256=candidate * 64)
    killed = make_run(folder / "killed", [FINE, MadeCell("torn", cut=True)], whole=False)
    damaged = next((killed / "cells").glob("fine-*.jsonl.gz"))
    lines = plain(damaged).splitlines(keepends=True)
    rewrite(damaged, b"".join([*lines[:40], b'{"record":"event","n":"\xff\n', b"garbage\n", *lines[40:]]))
    return folder


@pytest.fixture(scope="module")
def made(spark: None, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, AggregationResult]:
    out = tmp_path_factory.mktemp("out")
    return out, aggregate(
        [runs],
        out,
        fail_on=frozenset({"regression", "disagreement"}),
        write_page=partial(write_page, out),
    )


def table(made: tuple[Path, AggregationResult], name: str, **wanted: Any) -> list[dict[str, Any]]:
    rows = json.loads((made[0] / "tables" / f"{name}.json").read_text())
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def test_each_planted_defect_is_found_by_its_invariant(made: tuple[Path, AggregationResult]) -> None:
    cells = {row["check"]: row["failed"] for row in table(made, "rechecks", run="planted")}
    expected = {f"invariant.{name}": 1 for name in DEFECTS}
    expected["invariant.nothing-acknowledged-is-lost"] = 2  # `blind` loses too
    expected["invariant.no-duplicate-without-cause"] = 2  # a second copy in a mailbox has no cause either
    assert cells == expected
    recorded = {(row["check"], row["nodeid"].partition("::")[2]) for row in table(made, "failures", run="planted")}
    assert recorded == {(f"invariant.{name}", name) for name in DEFECTS}
    differing = {
        (row["check"], row["nodeid"].partition("::")[2]) for row in table(made, "disagreements", run="planted")
    }
    assert recorded.isdisjoint(differing), "it is found in the cell that has it"


def test_the_oracles_disagree_only_where_the_recorded_verdict_is_wrong(made: tuple[Path, AggregationResult]) -> None:
    rows = table(made, "disagreements", run="planted")
    found = {(row["nodeid"].partition("::")[2], row["check"], row["recorded"]) for row in rows}
    assert found == {
        ("blind", "invariant.nothing-acknowledged-is-lost", "pass"),
        ("no-duplicate-in-mailbox", "invariant.no-duplicate-without-cause", "pass"),
    }


def test_what_spark_and_the_judge_decide_is_the_same_in_every_miniature_of_a_whole_history_but_five(
    spark: None, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    summary = aggregate([make_miniatures(tmp_path / "miniatures")], out)
    assert summary.cells == sum(one.setting.complete for one in miniatures())
    found = {row["check"]: row["failed"] for row in table((out, summary), "rechecks")}
    assert [one.name for one in INVARIANTS if not found[f"invariant.{one.name}"]] == []
    rows = table((out, summary), "disagreements")
    assert {(row["nodeid"].partition("::")[2], row["recorded"]) for row in rows} == set(UNSEEN.items())
    assert len(UNSEEN) == 5


def test_an_excused_or_waived_defect_is_no_violation(made: tuple[Path, AggregationResult]) -> None:
    rows = table(made, "rechecks", run="excused")
    judged = {row["check"]: row["passed"] + row["failed"] + row["undecided"] for row in rows}
    but_one = len(EXCUSED) + len(DEFECTS) - 1  # a cell that waives a check is not judged by it
    assert judged == {f"invariant.{name}": but_one for name in DEFECTS}
    failed = {row["check"]: row["failed"] for row in rows if row["failed"]}
    assert failed == {"invariant.no-duplicate-without-cause": 1}  # a second copy in a mailbox, waived there only
    (row,) = table(made, "disagreements", run="excused")
    assert row["nodeid"].endswith("::waived-no-duplicate-in-mailbox")


def test_parquet_and_lines_give_the_same_tables(made: tuple[Path, AggregationResult], runs: Path) -> None:
    found = read_headers([runs / "planted", runs / "loose"]).runs
    assert (found["planted"].parquet, found["loose"].parquet) == (True, False)
    for one in TABLES:
        if one.across:
            continue
        planted, loose = table(made, one.name, run="planted"), table(made, one.name, run="loose")
        assert [{**row, "run": ""} for row in planted] == [{**row, "run": ""} for row in loose]
        assert planted or one.name in ("faults", "coverage")


def test_a_small_history_is_shuffled_by_two_queries_only(
    spark: None, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has one partition, so that a shuffle would only cost time."""
    plans: dict[str, str] = {}
    cached, query = partitioning.Partitioning.cached, aggregation._query

    def plan(rows: DataFrame) -> str:
        return str(rows._jdf.queryExecution().executedPlan().toString())

    def keep(self: partitioning.Partitioning, rows: DataFrame) -> DataFrame:
        plans[f"view {len(plans)}"] = plan(rows)
        return cached(self, rows)

    def ask(session: SparkSession, table: Table) -> Any:
        plans[table.name] = plan(session.sql(table.query))
        return query(session, table)

    monkeypatch.setattr(partitioning.Partitioning, "cached", keep)
    monkeypatch.setattr(aggregation, "_query", ask)
    aggregate([runs / "planted"], tmp_path / "out", conf={"spark.sql.maxPlanStringLength": "1000000"})
    assert len(plans) == len(CACHED_VIEWS) + len(VIEWS_CACHED_WHEN_SMALL) + len(PER_RUN_TABLES) + len(CROSS_RUN_TABLES)
    moved = {name: len(re.findall(r"\bExchange ", text)) for name, text in plans.items()}  # of any partitioning
    # `count(DISTINCT)` of two things makes two rows of each, of which Spark does not know where they lie.
    assert {name for name, times in moved.items() if times} == {"placement", "faults"}


def test_a_partitioned_history_gives_the_same_tables(
    made: tuple[Path, AggregationResult], runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioning, "SMALL_OCTETS", 0)
    out = tmp_path / "in [parts]"
    aggregate([runs], out)
    for layer in PARTITIONED_TABLES:
        assert len(list((out / "warehouse" / layer).glob("batch=*/*.parquet"))) == partitioning.MIN_PARTITIONS
    for one in TABLES:
        assert table((out, made[1]), one.name) == table(made, one.name), one.name
    session = SparkSession.getActiveSession()
    assert session is not None
    assert session.sql("SHOW TABLES").where("NOT isTemporary").collect() == []


def test_losses_and_duplicates_are_listed(made: tuple[Path, AggregationResult]) -> None:
    assert [row["nodeid"].partition("::")[2] for row in table(made, "losses", run="planted")] == ["blind", DEFECTS[0]]
    duplicates = table(made, "duplicates", run="planted")
    assert [(row["nodeid"].partition("::")[2], row["sink"], row["copies"]) for row in duplicates] == [
        ("no-duplicate-in-mailbox", "mbx1-store", 2),
        ("no-duplicate-without-cause", "outside", 2),
    ]


def latencies(run: Path, scenario: str) -> list[float]:
    """Return the seconds from each final dot that came from outside to its acknowledgement."""
    found: list[float] = []
    for cell in read_run(run).cells():
        if cell.header.scenario == scenario:
            outside = {e.session for e in cell.events if isinstance(e, Connected) and e.client == "outside"}
            dots = {e.session: e.t for e in cell.events if isinstance(e, Content)}
            replies = [e for e in cell.events if isinstance(e, Reply) and e.to == "CONTENT" and e.session in outside]
            found += [reply.t - dots[reply.session] for reply in replies]
    return found


def test_latency_and_placement_are_computed(made: tuple[Path, AggregationResult], runs: Path) -> None:
    (row,) = table(made, "latency", run="planted", scenario="grid")
    seconds = latencies(runs / "planted", "grid")
    assert row["messages"] == len(seconds) == 30
    expected = np.percentile(seconds, [0, 50, 95, 99, 100])
    assert [row[name] for name in ("least", "p50", "p95", "p99", "most")] == pytest.approx(expected, abs=1e-6)
    assert len(set(expected)) == 5
    (row,) = table(made, "placement", run="planted", scenario="grid")
    assert (row["primary_site"], row["holder_site"], row["same_site"], row["copies"]) == (
        "NewYork",
        "London",
        False,
        30,
    )
    strange = table(made, "placement", run="planted", scenario="shadow-inside-boundary", inside_boundary=False)
    assert [row["copies"] for row in strange] == [1]


def test_a_change_names_its_kind_its_cause_and_whether_it_is_the_latest(made: tuple[Path, AggregationResult]) -> None:
    changes = [row for row in table(made, "changes") if row["nodeid"].endswith("::history")]
    assert [(row["run"], row["change"], row["cause"], row["standing"]) for row in changes] == [
        ("day2", "regression", "candidate", False),
        ("day4", "fixed", "suite", False),
        ("day5", "regression", "suite", True),
    ]


def test_a_change_with_a_cause_is_not_flaky(made: tuple[Path, AggregationResult]) -> None:
    """It passed twice and failed three times; what is flaky when nothing differs is shown below, with a sixth day."""
    outcomes = {row["run"]: row for row in table(made, "matrix", scenario="history")}
    assert {run: (row["passed"], row["failed"]) for run, row in outcomes.items()} == {
        "day1": (1, 0), "day2": (0, 1), "day3": (0, 1), "day4": (1, 0), "day5": (0, 1),
    }  # fmt: skip
    assert [row["nodeid"].partition("::")[2] for row in table(made, "changes", cause="unexplained")] == []
    assert [row["nodeid"] for row in table(made, "flaky")] == []


def test_a_killed_run_is_read_and_its_damage_counted(made: tuple[Path, AggregationResult]) -> None:
    (row,) = table(made, "runs", run="killed")
    assert (row["cells"], row["passed"], row["cut_short"], row["damaged"]) == (2, 1, 1, 2)
    assert made[1].damaged == 2
    assert {row["cells"] for row in table(made, "matrix", run="killed")} == {1}


def test_the_exit_code_follows_fail_on(made: tuple[Path, AggregationResult]) -> None:
    assert made[1].found == {"regression": 1, "flaky": 0, "disagreement": 5}
    assert made[1].failing == ("disagreement", "regression")
    assert made[1].exit_code == 1
    assert replace(made[1], fail_on=frozenset()).exit_code == 0
    assert replace(made[1], fail_on=frozenset({"flaky"})).exit_code == 0


def test_repeating_an_aggregation_changes_no_table_and_a_new_run_is_added(
    made: tuple[Path, AggregationResult], runs: Path, tmp_path: Path
) -> None:
    out = made[0]
    before = {path.name: path.read_bytes() for path in (out / "tables").iterdir()}
    assert {f"{one.name}.{suffix}" for one in TABLES for suffix in ("json", "csv", "parquet")} == before.keys()
    again = aggregate([runs], out)
    assert again.added == 0
    assert {path.name: path.read_bytes() for path in (out / "tables").iterdir()} == before

    names = ["history" if n == 0 else f"h{n}" for n in range(3)]
    late = make_run(
        tmp_path / "day6", [MadeCell(name) for name in names], started="2026-02-06T00:00:00Z", candidate_sha256="d" * 64
    )
    more = aggregate([late], out)
    assert (more.runs, more.added, more.cells) == (again.runs + 1, 1, again.cells + 3)
    (row,) = [row for row in table(made, "flaky") if row["nodeid"].endswith("::history")]
    assert (row["failures"], row["runs"]) == (3, 4)
    low, high = wilson(3, 4)
    assert (row["low"], row["high"]) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))


def wilson(k: int, n: int) -> tuple[float, float]:
    """Return the Wilson score interval by its definition: the roots of (p - k/n)^2 = z^2 p (1 - p) / n."""
    z2 = 1.959963984540054**2
    a, b, c = 1 + z2 / n, -(2 * k / n + z2 / n), (k / n) ** 2
    root = math.sqrt(b * b - 4 * a * c)
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


def test_the_page_shows_the_failures_and_loads_nothing(made: tuple[Path, AggregationResult]) -> None:
    page = (made[0] / "index.html").read_text()
    assert [name for name in DEFECTS if f"{name} is violated" not in page] == []
    assert "http://" not in page
    assert "https://" not in page
    assert not re.search(r"<[^>]+ (?:src|srcset|data)=|<link |@import|url\(", page)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none'; ")
    assert "connect-src" not in policy, "its script loads nothing either"
