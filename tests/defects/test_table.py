"""The gates: each kind of gap is reported, and a table without a gap reports none."""

from dataclasses import replace
from itertools import chain

import pytest

from conformance.defects.page import page
from conformance.defects.plan import Defect, active_defects, disk_defects, retired_defects
from conformance.defects.table import blind_gaps, build_table, gaps
from conformance.defects.trial import Blame, Trial
from conformance.requirements.catalogue import Catalogue, catalogue
from conformance.verdicts import Outcome

ROWS = tuple(row for row in catalogue().requirements if row.id in ("SR-CRE-01", "SR-CRE-02"))
SMALL = catalogue().model_copy(update={"requirements": ROWS})

ONE = Defect("one", "SR-CRE-01", "Does the first thing wrong.")
TWO = Defect("two", "SR-CRE-02", "Does the second thing wrong.")
CHECKS = ("expect.shadow",)

SOUND = Trial(None, "s", "s", Outcome.PASS, (), "")
FIRST = Trial("one", "s", "s", Outcome.FAIL, (Blame("expect.shadow", "SR-CRE-01"),), "no shadow")
SECOND = Trial("two", "s", "s", Outcome.FAIL, (Blame("expect.shadow", "SR-CRE-02"),), "no session")


def reported_gaps(
    *trials: Trial, scenarios: tuple[str, ...] = ("s",), checks: tuple[str, ...] = CHECKS
) -> tuple[str, ...]:
    return gaps(build_table((ONE, TWO), scenarios, trials), SMALL, checks)


def test_a_table_without_a_gap_reports_none():
    assert reported_gaps(SOUND, FIRST, SECOND) == ()
    missed = replace(SECOND, outcome=Outcome.PASS, blames=())
    assert reported_gaps(SOUND, FIRST, missed, SECOND) == (), "it is caught in one of two cells"
    assert reported_gaps(replace(SOUND, outcome=Outcome.NOT_APPLICABLE), FIRST, SECOND) == ()
    assert reported_gaps(SOUND, FIRST, missed) != ()


def test_a_defect_that_no_rule_catches_needs_a_reason_and_no_other_has_one():
    """Where a rule blames, an expectation fails too, in the same cell and in another in which no rule blames."""
    seen = replace(SECOND, blames=(*SECOND.blames, Blame("model.SR-CRE-02", "SR-CRE-02")))
    explained = replace(ONE, needs_expectation="no event shows it")
    assert blind_gaps(build_table((ONE, TWO), ("s",), (SOUND, FIRST, seen))) == (
        "defect one: no rule of the model catches it, and `needs_expectation` has no reason",
    )
    assert blind_gaps(build_table((explained, TWO), ("s",), (SOUND, FIRST, seen))) == ()
    found = replace(FIRST, blames=(*FIRST.blames, Blame("model.SR-CRE-01", "SR-CRE-01")))
    for trials in ((found,), (found, replace(FIRST, cell="t")), (replace(FIRST, cell="t"), found)):
        assert blind_gaps(build_table((explained, TWO), ("s",), (SOUND, *trials, seen))) == (
            "defect one: `needs_expectation` has a reason, and SR-CRE-01 is blamed without",
        )
        assert blind_gaps(build_table((ONE, TWO), ("s",), (SOUND, *trials, seen))) == ()


@pytest.mark.parametrize(
    ("trials", "line"),
    [
        pytest.param((SOUND, FIRST), "defect two: no scenario judges SR-CRE-02, which it breaks", id="not tried"),
        pytest.param(
            (SOUND, FIRST, replace(SECOND, outcome=Outcome.PASS, blames=())),
            "defect two: not caught in any of 1 cells",
            id="not caught",
        ),
        pytest.param(
            (SOUND, FIRST, replace(SECOND, blames=FIRST.blames)),
            "defect two: breaks SR-CRE-02, and only SR-CRE-01 is blamed",
            id="blamed elsewhere",
        ),
        pytest.param(
            (SOUND, FIRST, replace(SECOND, blames=(*FIRST.blames, *SECOND.blames))),
            "first blame: right for 1 of 2 defects, less than 95 %: two (SR-CRE-01, not SR-CRE-02)",
            id="another requirement is blamed first",
        ),
        pytest.param(
            (replace(SOUND, outcome=Outcome.FAIL, sentence="lost"), FIRST, SECOND),
            "the unbroken reference: s: fail: lost",
            id="reference fails",
        ),
        pytest.param(
            (replace(SOUND, outcome=Outcome.INCONCLUSIVE, sentence="vacuous"), FIRST, SECOND),
            "the unbroken reference: s: inconclusive: vacuous",
            id="reference is not judged",
        ),
        pytest.param(
            (SOUND, FIRST, replace(SECOND, outcome=Outcome.PASS, blames=())),
            "requirement SR-CRE-02: no caught defect breaks it",
            id="requirement without proof",
        ),
    ],
)
def test_each_kind_of_gap_in_the_reference_a_defect_or_a_requirement_is_reported(trials: tuple[Trial, ...], line: str):
    assert line in reported_gaps(*trials)


def test_a_scenario_and_a_check_that_catch_nothing_are_reported():
    assert "scenario idle: catches no defect" in reported_gaps(SOUND, FIRST, SECOND, scenarios=("s", "idle"))
    assert "check expect.idle: catches no defect" in reported_gaps(
        SOUND, FIRST, SECOND, checks=(*CHECKS, "expect.idle")
    )


def test_a_scenario_that_cannot_be_tried_is_listed_and_is_not_a_gap():
    disks = Trial("one", "disks", "disks", Outcome.NOT_APPLICABLE, (), "mbx1: no disk")
    assert reported_gaps(SOUND, FIRST, SECOND, disks, scenarios=("s", "disks")) == ()
    found = build_table((ONE, TWO), ("s", "disks"), (SOUND, FIRST, SECOND, disks))
    assert "with disks of their own: disks." in page(found, SMALL)
    assert "with disks of their own:" not in page(build_table((ONE, TWO), ("s",), (SOUND, FIRST, SECOND)), SMALL)
    assert "scenario disks: catches no defect" in reported_gaps(
        SOUND, FIRST, SECOND, disks, replace(disks, outcome=Outcome.PASS), scenarios=("s", "disks")
    )


def test_a_check_catches_a_defect_alone_if_no_other_check_blames_the_broken_requirement():
    also = replace(FIRST, blames=(*FIRST.blames, Blame("expect.reply", "SR-CRE-01")))
    assert build_table((ONE, TWO), ("s",), (SOUND, also, SECOND)).caught_alone == {"expect.shadow": ("two",)}


def test_a_check_catches_a_defect_alone_also_beside_one_that_blames_another_requirement():
    elsewhere = replace(FIRST, blames=(*FIRST.blames, Blame("expect.reply", "SR-CRE-02")))
    assert build_table((ONE, TWO), ("s",), (SOUND, elsewhere, SECOND)).caught_alone == {"expect.shadow": ("one", "two")}


def test_an_error_of_the_harness_is_not_a_catch():
    broke = replace(SECOND, outcome=Outcome.ERROR, blames=(), sentence="OSError")
    assert "defect two: not caught in any of 1 cells" in reported_gaps(SOUND, FIRST, broke)
    table = build_table((ONE, TWO), ("s",), (SOUND, FIRST, broke))
    assert table.rows[1].errors == ("s: OSError",)
    assert table.scenarios == {"s": ("one",)}
    assert table.checks == {"expect.shadow": ("one",)}


def test_the_page_names_every_defect_and_its_requirement():
    retired = Defect("former", "SR-CRE-01", "Did another thing.", retired="Ruling 1 allows it.")
    text = page(build_table((ONE, TWO), ("s",), (SOUND, FIRST, SECOND)), SMALL, (retired,))
    assert "| `former` | Did another thing. | SR-CRE-01 | Ruling 1 allows it. |" in text
    assert "| `one` | Does the first thing wrong. | SR-CRE-01 | 1 of 1 cells | expect.shadow (1) |" in text
    assert "| `two` | Does the second thing wrong. | SR-CRE-02 | 1 of 1 cells | expect.shadow (1) |" in text
    assert "| s | one, two |" in text
    assert "| expect.shadow | one, two | none |" in text
    assert "| SR-CRE-01 | must | wire | one |" in text
    assert "| SR-CRE-02 | must | wire | two |" in text


def test_the_page_names_the_defects_on_failing_disks_and_counts_them_as_proof():
    disk = Defect("on-disk", "SR-CRE-02", "Does not sync.")
    text = page(build_table((ONE, TWO), ("s",), (SOUND, FIRST, SECOND)), SMALL, (), (disk,))
    assert "| `on-disk` | Does not sync. | SR-CRE-02 |" in text
    assert "| SR-CRE-02 | must | wire | on-disk, two |" in text
    assert "On failing disks" not in page(build_table((ONE, TWO), ("s",), (SOUND, FIRST, SECOND)), SMALL)


def test_the_page_says_for_which_defects_another_requirement_is_blamed_first():
    second = replace(SECOND, blames=(*FIRST.blames, *SECOND.blames))
    text = page(build_table((ONE, TWO), ("s",), (SOUND, FIRST, second)), SMALL)
    assert "It is the broken one for 1 of 2 defects" in text
    assert "| `two` | SR-CRE-02 | SR-CRE-01 |" in text
    assert "| `one` | SR-CRE-01 |" not in text


def test_every_defect_has_a_description_and_breaks_a_requirement_of_the_catalogue():
    known: Catalogue = catalogue()
    kinds = (active_defects(), retired_defects(), disk_defects())
    assert all(kinds)
    for defect in chain(*kinds):
        assert defect.breaks in known.ids, defect.name
        assert defect.says.endswith("."), defect.name


def test_what_is_caught_without_expectations_is_counted_by_itself():
    blind = Trial("one", "s", "s", Outcome.FAIL, (*FIRST.blames, Blame("model.SR-CRE-09", "SR-CRE-09")), "no shadow")
    first, second = build_table((ONE, TWO), ("s",), (SOUND, blind, SECOND)).rows
    assert (first.first_blame, first.first_blind_blame) == ("SR-CRE-01", "SR-CRE-09")
    assert (dict(first.blamed), first.blind) == ({"SR-CRE-01": 1, "SR-CRE-09": 1}, (("SR-CRE-09", 1),))
    assert first.blindly_blames_its_group
    assert second.blind == ()
    assert not second.blindly_blames_its_group
