"""The rules of `conformance.verdicts` as Spark runs them give what Python gives, for every transition and combination."""

from collections.abc import Iterator
from itertools import product

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession  # noqa: E402

from conformance.report.compare import compare_runs  # noqa: E402
from conformance.spark.session import open_session  # noqa: E402
from conformance.spark.tables import history  # noqa: E402
from conformance.verdicts import Outcome, worst_in_cell, worst_over_cells  # noqa: E402
from conformance.verdicts.changes import CAUSES, CellState, ChangeKind, change_causes, is_flaky  # noqa: E402
from conformance.verdicts.outcome import (  # noqa: E402
    OVER_CELLS,
    WITHIN_A_CELL,
    outcome_for_row,  # noqa: E402
)
from conformance.verdicts.sql import (  # noqa: E402
    COMPARED_COLUMNS,
    outcome_for_row_sql,  # noqa: E402
    worst_outcome_sql,
)
from tests.report.samples import REFERENCE, cell_view, good, judged, passed, run_summary  # noqa: E402

pytestmark = pytest.mark.spark

SETTINGS = {"candidate_sha256": "c", "scenario_sha256": "s", "environment_sha256": "e", "seed": 7, "clock": "virtual"}
SETTINGS |= {"scale": 1.0, "tolerance": 0.0, "should": "warn"}
DDL = "run STRING, started STRING, filtered BOOLEAN, candidate STRING, nodeid STRING, outcome STRING, state STRING, "
DDL += ", ".join(
    f"{name} {'BIGINT' if name == 'seed' else 'DOUBLE' if name in ('scale', 'tolerance') else 'STRING'}"
    for name in COMPARED_COLUMNS
)


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with open_session("local[1]") as opened:
        yield opened


def outcome_of(state: CellState) -> str:
    return "pass" if state is CellState.REMARK else str(state)


def row(run: int, nodeid: str, state: CellState, **changed: object) -> tuple[object, ...]:
    settings = SETTINGS | changed
    # in the order of names the later run is first
    head = (f"r{9 - run}", f"2026-01-0{run}", False, "c", nodeid, outcome_of(state), str(state))
    return (*head, *(settings[name] for name in COMPARED_COLUMNS))


def ask(session: SparkSession, rows: list[tuple[object, ...]], query: str) -> list[dict[str, object]]:
    session.createDataFrame(rows, DDL).createOrReplaceTempView("outcomes")
    return session.sql(query).toArrow().to_pylist()


def by_diff(before: CellState, after: CellState) -> ChangeKind | None:
    """Return what `conformance diff` says of one cell; a second cell keeps both runs from being empty."""

    def run(state: CellState):
        if state is CellState.ABSENT:
            return run_summary(good(axes={"other": "1"}))
        verdict = passed("expect.x", "SR-CRE-01").model_copy(update={"remark": True, "sentence": "broken"})
        cell = (
            cell_view(verdicts=(verdict,), candidate=REFERENCE)
            if state is CellState.REMARK
            else judged(Outcome(state), "SR-CRE-01")
        )
        return run_summary(good(axes={"other": "1"}), cell)

    return next((change.kind for change in compare_runs(run(before), run(after)).changes), None)


@pytest.mark.long
def test_spark_classifies_every_transition_as_diff_does_but_lists_an_absent_state_only_if_new_or_lost(
    session: SparkSession,
) -> None:
    rows = [row(run, "other", CellState.PASS) for run in (1, 2)]
    for before, after in product(CellState, CellState):
        rows += [row(1, f"{before}>{after}", before)] if before is not CellState.ABSENT else []
        rows += [row(2, f"{before}>{after}", after)] if after is not CellState.ABSENT else []
    found = {one["nodeid"]: one["change"] for one in ask(session, rows, history.CHANGES.query)}
    said = {f"{before}>{after}": by_diff(before, after) for before, after in product(CellState, CellState)}
    listed = {
        name: str(kind)
        for name, kind in said.items()
        if kind is not None and ("absent" not in name.split(">") or kind in (ChangeKind.NEW, ChangeKind.LOST))
    }
    assert found == listed


@pytest.mark.long
def test_spark_finds_the_same_causes(session: SparkSession) -> None:
    before = SETTINGS
    for cause, fields in CAUSES.items():
        for field in fields:
            other = type(SETTINGS[field])(9)
            rows = [row(1, "n", CellState.PASS), row(2, "n", CellState.FAIL, **{field: other})]
            (change,) = ask(session, rows, history.CHANGES.query)
            assert change["cause"] == cause
            now = type("Header", (), SETTINGS | {field: other})
            assert change_causes(type("Header", (), before), now) == (cause,)
            assert ask(session, rows, history.FLAKY.query) == []
    others: dict[str, object] = {"candidate_sha256": "9", "environment_sha256": "9", "seed": 9}
    rows = [row(1, "n", CellState.PASS), row(2, "n", CellState.FAIL, **others)]
    (change,) = ask(session, rows, history.CHANGES.query)
    several = change_causes(type("Header", (), before), type("Header", (), SETTINGS | others))
    assert change["cause"] == "+".join(several) == "candidate+environment+settings"
    rows = [row(1, "n", CellState.PASS), row(2, "n", CellState.FAIL)]
    (change,) = ask(session, rows, history.CHANGES.query)
    assert change["cause"] == "unexplained"
    assert change_causes(type("Header", (), before), type("Header", (), before)) == ()
    assert [line["nodeid"] for line in ask(session, rows, history.FLAKY.query)] == ["n"]


def test_spark_finds_the_same_flaky_cells(session: SparkSession) -> None:
    rows = []
    for one, other in product(Outcome, Outcome):
        rows += [row(1, f"{one}>{other}", CellState(one)), row(2, f"{one}>{other}", CellState(other))]
    found = {line["nodeid"] for line in ask(session, rows, history.FLAKY.query)}
    assert found == {f"{one}>{other}" for one, other in product(Outcome, Outcome) if is_flaky((one, other))}


def test_spark_combines_outcomes_the_same_way(session: SparkSession) -> None:
    rows = [
        row(1, f"{'+'.join(group)}", CellState(one)) for group in product(Outcome, Outcome, Outcome) for one in group
    ]
    query = f"SELECT nodeid, {worst_outcome_sql('outcome', OVER_CELLS)} AS over, {worst_outcome_sql('outcome', WITHIN_A_CELL)} AS within "
    found = ask(session, rows, query + "FROM outcomes GROUP BY nodeid")
    assert len(found) == len(Outcome) ** 3
    for line in found:
        group = [Outcome(one) for one in str(line["nodeid"]).split("+")]
        assert (line["over"], line["within"]) == (worst_over_cells(group), worst_in_cell(group))


def test_spark_computes_the_same_outcome_for_a_row(session: SparkSession) -> None:
    cases = list(product(Outcome, range(3), Outcome))
    session.createDataFrame(cases, "outcome STRING, rank INT, cell STRING").createOrReplaceTempView("shares")
    found = (
        session.sql(f"SELECT *, {outcome_for_row_sql('outcome', 'rank', 'cell')} AS said FROM shares")
        .toArrow()
        .to_pylist()
    )
    assert len(found) == len(cases)
    for line in found:
        assert line["said"] == outcome_for_row(Outcome(line["outcome"]), line["rank"], Outcome(line["cell"]))
