"""Which violated rows may follow from which."""

import pytest
from pydantic import ValidationError

from conformance.requirements.catalogue import catalogue
from conformance.requirements.consequences import independently_violated, root_violations
from conformance.verdicts import Outcome, Verdict
from tests.requirements.test_catalogue import made, row


def test_a_row_follows_from_what_it_presupposes_directly_or_through_others():
    assert "SR-CRE-01" in catalogue()["SR-ENA-01"].presupposes
    assert "SR-CRE-01" in catalogue().prerequisites("SR-MNT-04") - {*catalogue()["SR-MNT-04"].presupposes}
    found = root_violations({"SR-CRE-01", "SR-ENA-01", "SR-MNT-04", "RL-ACK-04"})
    assert found == {
        "SR-CRE-01": "SR-CRE-01",
        "SR-ENA-01": "SR-CRE-01",
        "SR-MNT-04": "SR-CRE-01",
        "RL-ACK-04": "RL-ACK-04",
    }


def test_a_prerequisite_is_a_root_only_if_it_is_violated_too():
    assert root_violations({"SR-MNT-04", "SR-MNT-05"}) == {"SR-MNT-04": "SR-MNT-04", "SR-MNT-05": "SR-MNT-05"}
    assert root_violations({"SR-MNT-04", "SR-MNT-03"})["SR-MNT-04"] == "SR-MNT-03"


def test_a_row_that_is_not_in_the_catalogue_is_its_own_root():
    assert root_violations({"SR-XXX-01", "SR-CRE-01"}) == {"SR-XXX-01": "SR-XXX-01", "SR-CRE-01": "SR-CRE-01"}


def test_a_prerequisite_of_a_row_of_named_generations_names_each_of_them():
    rows = catalogue()
    named = [(one, other) for one in rows.requirements for other in one.presupposes if one.generations != ("any",)]
    assert any(len(one.generations) > 1 for one, _ in named)
    for one, other in named:
        assert set(one.generations) <= set(rows[other].generations), (one.id, other)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([row(presupposes=["SR-CRE-09"])], "SR-CRE-01: presupposes 'SR-CRE-09', which is not in the catalogue"),
        (
            [row(presupposes=["SR-CRE-02"]), row(id="SR-CRE-02", presupposes=["SR-CRE-01"])],
            "SR-CRE-01 presupposes itself",
        ),
        ([row(presupposes=["SR-CRE-01"])], "SR-CRE-01 presupposes itself"),
        (
            [
                row(id=f"SR-CRE-0{one}", presupposes=[f"SR-CRE-0{other}"])
                for one, other in ((1, 2), (2, 3), (3, 4), (4, 2))
            ],
            "SR-CRE-02 presupposes itself",
        ),
    ],
)
def test_unknown_and_circular_prerequisites_are_refused(rows: list[dict[str, object]], problem: str):
    with pytest.raises(ValidationError, match=problem):
        made(*rows)


def test_an_independently_violated_row_is_the_root_of_its_prerequisites():
    assert root_violations({"SR-CRE-01", "SR-PRF-01", "SR-MNT-04"}, independent=["SR-PRF-01"]) == {
        "SR-PRF-01": "SR-PRF-01",
        "SR-CRE-01": "SR-PRF-01",
        "SR-MNT-04": "SR-PRF-01",
    }
    through_others = {"SR-CRE-01", "SR-MNT-03", "SR-MNT-04"}
    assert root_violations(through_others, independent=["SR-MNT-04"]) == dict.fromkeys(through_others, "SR-MNT-04")
    assert root_violations({"SR-CRE-01", "RL-ACK-04"}, independent=["RL-ACK-04"])["SR-CRE-01"] == "SR-CRE-01"


def test_each_independently_violated_row_is_its_own_root():
    found = root_violations(
        {"SR-CRE-01", "SR-ENA-01", "SR-CRE-03", "SR-BND-05"}, independent=["SR-ENA-01", "SR-CRE-03"]
    )
    assert found["SR-ENA-01"] == "SR-ENA-01"
    assert found["SR-CRE-03"] == "SR-CRE-03"
    assert found["SR-CRE-01"] == found["SR-BND-05"] == "SR-ENA-01"
    one_presupposes_the_other = ("SR-MNT-03", "SR-MNT-04")
    found = root_violations(one_presupposes_the_other, independent=one_presupposes_the_other)
    assert found == {row: row for row in one_presupposes_the_other}


def said(
    outcome: Outcome, *rows: str, check: str = "expect.shadow", step: str | None = "1", remark: bool = False
) -> Verdict:
    return Verdict(check=check, outcome=outcome, requirements=rows, step=step, remark=remark)


HELD = said(Outcome.PASS, "SR-CRE-01")
BROKEN = said(Outcome.FAIL, "SR-ENA-01")


def test_a_row_is_independently_violated_if_its_prerequisite_holds_in_the_same_expectation():
    assert independently_violated([[BROKEN, HELD]]) == {"SR-ENA-01": frozenset({"SR-CRE-01"})}


@pytest.mark.parametrize("checks", [("expect.shadow", "expect.queue"), ("expect.shadow", "expect.shadow")])
def test_what_several_checks_have_seen_to_hold_is_united(checks: tuple[str, str]):
    rows = sorted(catalogue().prerequisites("SR-MNT-04"))[:2]
    assert len(rows) == 2
    cells = [
        [said(Outcome.FAIL, "SR-MNT-04", check=check), said(Outcome.PASS, row, check=check)]
        for check, row in zip(checks, rows, strict=True)
    ]
    for ordered in (cells, cells[::-1]):
        assert independently_violated(ordered) == {"SR-MNT-04": frozenset(rows)}


@pytest.mark.parametrize(
    "cells",
    [
        [[BROKEN], [HELD]],
        [[BROKEN, said(Outcome.PASS, "SR-CRE-01", "SR-ENA-01")]],
        [[said(Outcome.FAIL, "SR-ENA-01", "SR-CRE-01"), HELD]],
        [[BROKEN, HELD, said(Outcome.FAIL, "SR-CRE-01")]],
        [[BROKEN, said(Outcome.PASS, "SR-CRE-01", check="expect.reply")]],
        [[BROKEN, said(Outcome.PASS, "SR-CRE-01", step=None)]],
        [[BROKEN, said(Outcome.PASS, "SR-CRE-01", remark=True)]],
        [[BROKEN, said(Outcome.PASS, "SR-CRE-05")]],
        [[BROKEN, HELD], [said(Outcome.PASS, "SR-ENA-01")]],
    ],
    ids=[
        "in-another-cell",
        "held-for-several-rows",
        "violated-for-several-rows",
        "both-held-and-violated",
        "another-check",
        "an-invariant",
        "with-a-remark",
        "not-presupposed",
        "held-elsewhere",
    ],
)
def test_weaker_evidence_does_not_show_an_independent_violation(cells: list[list[Verdict]]):
    assert independently_violated(cells) == {}
