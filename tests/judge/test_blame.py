"""A violated expectation is blamed on the row that it is about, not on the scenario's first row by default."""

import pytest

from conformance.judge.blame import ABOUT, TAKEN_FOR_GRANTED, Kind, about
from conformance.judge.expectations.table import CHECKS
from conformance.requirements.catalogue import catalogue


@pytest.mark.parametrize(
    ("verb", "kind", "rows", "first"),
    [
        ("promoted", "early", ("SR-MNT-09", "SR-MNT-10"), "SR-MNT-10"),
        ("promoted", "late", ("SR-MNT-10", "SR-MNT-09"), "SR-MNT-09"),
        ("shadow", "missing", ("SR-PRF-01", "SR-BND-01", "SR-CRE-01"), "SR-CRE-01"),
        ("shadow", "elsewhere", ("SR-CRE-01", "SR-PRF-01"), "SR-PRF-01"),
        ("not-discarded", "", ("SR-BND-03", "SR-MNT-01"), "SR-MNT-01"),
        ("reply", "missing", ("SR-ENA-03", "SR-ENA-04"), "SR-ENA-04"),
        ("reply", "surplus", ("SR-ENA-04", "SR-ENA-03"), "SR-ENA-03"),
    ],
)
def test_the_kind_of_violation_says_which_of_the_rows_it_is_about(
    verb: str, kind: Kind, rows: tuple[str, ...], first: str
):
    found = about(verb, kind, rows, of_2010=False)
    assert found[0] == first
    assert sorted(found) == sorted(rows)


def test_without_a_row_that_it_is_about_the_scenario_s_order_stays():
    assert about("left", "", ("SR-CFG-03", "SR-CFG-01"), of_2010=False) == ("SR-CFG-03", "SR-CFG-01")


@pytest.mark.parametrize(("of_2010", "row"), [(False, "SR-CRE-01"), (True, "SR-E10-03")])
def test_a_shadow_that_a_scenario_takes_for_granted_has_a_row_of_its_own(of_2010: bool, row: str):
    assert about("shadow", "missing", ("SR-OUT-03",), of_2010=of_2010) == (row, "SR-OUT-03")


def test_the_table_names_verbs_and_rows_that_there_are():
    assert {verb for verb, _ in (*ABOUT, *TAKEN_FOR_GRANTED)} <= set(CHECKS)
    named = {row for rows in ABOUT.values() for row in rows}
    assert named | {row for both in TAKEN_FOR_GRANTED.values() for row in both.values()} <= catalogue().ids
