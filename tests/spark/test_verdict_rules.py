"""The rules of `conformance.verdicts` as Spark runs them give what Python gives, for every transition and combination."""

from collections.abc import Iterator
from itertools import product

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession  # noqa: E402

from conformance.report.compare import diff  # noqa: E402
from conformance.spark.session import open_session  # noqa: E402
from conformance.spark.tables import history  # noqa: E402
from conformance.verdicts import Outcome, most_telling, worst  # noqa: E402
from conformance.verdicts.changes import CAUSES, Kind, State, causes_of, is_flaky  # noqa: E402
from conformance.verdicts.outcome import (  # noqa: E402
    OVER_CELLS,
    WITHIN_A_CELL,
    share,  # noqa: E402
)
from conformance.verdicts.sql import RECORDED, first_of  # noqa: E402
from conformance.verdicts.sql import share as share_sql  # noqa: E402
from tests.report.samples import passed  # noqa: E402
from tests.report.test_run import REFERENCE, book, good, judged, material  # noqa: E402

pytestmark = pytest.mark.spark

SETTINGS = {"candidate_sha256": "c", "scenario_sha256": "s", "environment_sha256": "e", "seed": 7, "clock": "virtual"}
SETTINGS |= {"scale": 1.0, "tolerance": 0.0, "should": "warn"}
DDL = "run STRING, started STRING, filtered BOOLEAN, candidate STRING, nodeid STRING, outcome STRING, state STRING, "
DDL += ", ".join(
    f"{name} {'BIGINT' if name == 'seed' else 'DOUBLE' if name in ('scale', 'tolerance') else 'STRING'}"
    for name in RECORDED
)


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with open_session("local[1]") as opened:
        yield opened


def outcome_of(state: State) -> str:
    return "pass" if state is State.REMARK else str(state)


def row(run: int, nodeid: str, state: State, **changed: object) -> tuple[object, ...]:
    settings = SETTINGS | changed
    head = (f"r{run}", f"2026-01-0{run}", False, "c", nodeid, outcome_of(state), str(state))
    return (*head, *(settings[name] for name in RECORDED))


def ask(session: SparkSession, rows: list[tuple[object, ...]], query: str) -> list[dict[str, object]]:
    session.createDataFrame(rows, DDL).createOrReplaceTempView("outcomes")
    return session.sql(query).toArrow().to_pylist()


def by_diff(before: State, after: State) -> Kind | None:
    """Return what `conformance diff` says of one cell; a second cell keeps both runs from being empty."""

    def run(state: State):
        if state is State.ABSENT:
            return book(good(axes={"other": "1"}))
        verdict = passed("expect.x", "SR-CRE-01").model_copy(update={"remark": True, "sentence": "broken"})
        cell = (
            material(verdicts=(verdict,), candidate=REFERENCE)
            if state is State.REMARK
            else judged(Outcome(state), "SR-CRE-01")
        )
        return book(good(axes={"other": "1"}), cell)

    return next((change.kind for change in diff(run(before), run(after)).changes), None)


def test_every_transition_is_the_same_in_diff_and_in_the_table(session: SparkSession) -> None:
    rows = [row(run, "other", State.PASS) for run in (1, 2)]
    for before, after in product(State, State):
        rows += [row(1, f"{before}>{after}", before)] if before is not State.ABSENT else []
        rows += [row(2, f"{before}>{after}", after)] if after is not State.ABSENT else []
    found = {one["nodeid"]: one["change"] for one in ask(session, rows, history.CHANGES.query)}
    said = {f"{before}>{after}": by_diff(before, after) for before, after in product(State, State)}
    listed = {
        name: str(kind)
        for name, kind in said.items()
        if kind is not None and ("absent" not in name.split(">") or kind in (Kind.NEW, Kind.LOST))
    }
    assert found == listed


def test_causes_are_the_same(session: SparkSession) -> None:
    before = SETTINGS
    for cause, fields in CAUSES.items():
        for field in fields:
            other = type(SETTINGS[field])(9)
            rows = [row(1, "n", State.PASS), row(2, "n", State.FAIL, **{field: other})]
            (change,) = ask(session, rows, history.CHANGES.query)
            assert change["cause"] == cause
            now = type("Header", (), SETTINGS | {field: other})
            assert causes_of(type("Header", (), before), now) == (cause,)
            assert ask(session, rows, history.FLAKY.query) == []
    (change,) = ask(session, [row(1, "n", State.PASS), row(2, "n", State.FAIL)], history.CHANGES.query)
    assert change["cause"] == "unexplained"


def test_flaky_is_the_same(session: SparkSession) -> None:
    rows = []
    for one, other in product(Outcome, Outcome):
        rows += [row(1, f"{one}>{other}", State(one)), row(2, f"{one}>{other}", State(other))]
    found = {line["nodeid"] for line in ask(session, rows, history.FLAKY.query)}
    assert found == {f"{one}>{other}" for one, other in product(Outcome, Outcome) if is_flaky((one, other))}


def test_the_outcome_of_many_is_the_same(session: SparkSession) -> None:
    rows = [row(1, f"{'+'.join(group)}", State(one)) for group in product(Outcome, Outcome, Outcome) for one in group]
    query = f"SELECT nodeid, {first_of('outcome', OVER_CELLS)} AS over, {first_of('outcome', WITHIN_A_CELL)} AS within "
    for line in ask(session, rows, query + "FROM outcomes GROUP BY nodeid"):
        group = [Outcome(one) for one in str(line["nodeid"]).split("+")]
        assert (line["over"], line["within"]) == (most_telling(group), worst(group))


def test_the_share_of_a_row_is_the_same(session: SparkSession) -> None:
    cases = list(product(Outcome, range(3), Outcome))
    session.createDataFrame(cases, "outcome STRING, rank INT, cell STRING").createOrReplaceTempView("shares")
    found = session.sql(f"SELECT *, {share_sql('outcome', 'rank', 'cell')} AS said FROM shares").toArrow().to_pylist()
    assert len(found) == len(cases)
    for line in found:
        assert line["said"] == share(Outcome(line["outcome"]), line["rank"], Outcome(line["cell"]))
