"""The second oracle over histories written by hand: its verdicts are those of the judge.

Its queries run in DuckDB here, which takes no JVM; `test_aggregate` runs them in Spark over the same histories.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")

from benchmarks.in_duckdb import tables_of
from conformance import invariants as declared
from conformance.results.parquet import write_parquet
from conformance.spark.invariants import INVARIANTS
from tests.judge.miniature import miniatures
from tests.spark.miniatures import UNSEEN, make_miniatures
from tests.spark.synthetic import DEFECTS, MadeCell, make_run


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    run = make_miniatures(tmp_path_factory.mktemp("runs") / "miniatures")
    write_parquet(run)
    return {name: table.to_pylist() for name, table in tables_of([run], 1).items()}


@pytest.mark.parametrize("starved", [True, False])
def test_a_violation_is_undecided_only_during_a_shortage(starved: bool, tmp_path: Path) -> None:
    names = [name for name in DEFECTS if name != "no-duplicate-without-cause"]  # which a server that stopped excuses
    run = make_run(tmp_path / "run", [MadeCell(name, name, messages=1, starved=starved) for name in names])
    write_parquet(run)
    rows = {row["check"]: row for row in tables_of([run], 1)["rechecks"].to_pylist()}
    for name in names:
        row = rows[f"invariant.{name}"]
        assert (row["failed"], row["undecided"]) == ((0, 1) if starved else (1, 0)), name
        assert row["violations"] >= 1


def test_every_invariant_but_three_has_a_query() -> None:
    unqueried = {"shadow-not-delivered-while-primary-lives", "shadow-verbs-only-where-offered", "replies-well-formed"}
    assert unqueried < set(declared.INVARIANTS)
    assert {one.name for one in INVARIANTS if one.query.strip()} == set(declared.INVARIANTS) - unqueried


@pytest.mark.long
def test_what_both_oracles_decide_is_the_same_in_every_miniature_of_a_whole_history_but_five(
    tables: dict[str, list[dict[str, Any]]],
) -> None:
    assert tables["runs"][0]["cells"] == sum(one.setting.complete for one in miniatures())
    found = {(row["nodeid"].partition("::")[2], row["check"], row["recorded"]) for row in tables["disagreements"]}
    assert {(one, recorded) for one, _, recorded in found} == set(UNSEEN.items())


def test_a_message_is_listed_as_lost_although_its_delay_was_reported(tables: dict[str, list[dict[str, Any]]]) -> None:
    titles = {row["nodeid"].partition("::")[2] for row in tables["losses"]}
    assert "invariant.nothing-acknowledged-is-lost::bad: the report says only that it is late" in titles
    failed = "invariant.nothing-acknowledged-is-lost::good: its sender was told that it failed"
    assert failed in {f"{one.check}::{one.kind}: {one.title}" for one in miniatures() if one.setting.complete}
    assert failed not in titles


def test_of_each_invariant_the_second_oracle_finds_at_least_half_as_many_violations_as_are_recorded(
    tables: dict[str, list[dict[str, Any]]],
) -> None:
    """Some violations cannot be decided from the layers that the queries read."""
    failed = {row["check"]: row["failed"] for row in tables["rechecks"]}
    recorded = Counter(
        row["check"] for row in tables["checks"] for _ in range(row["verdicts"]) if row["outcome"] == "fail"
    )
    for one in INVARIANTS:
        check = f"invariant.{one.name}"
        assert 0 < recorded[check] <= 2 * failed[check], check
