"""A broken `should` is a pass with a remark, or a failure where that is asked for; a broken `must` always fails."""

import pytest

from conformance.judge.remarks import apply_should_level
from conformance.verdicts import Outcome, Verdict, worst_in_cell


def failed(*requirements: str) -> Verdict:
    return Verdict(check="expect.discarded", outcome=Outcome.FAIL, requirements=requirements, sentence="seen: nothing")


@pytest.mark.parametrize("requirements", [("SR-WIR-05",), ("SR-WIR-05", "SR-MNT-04")])
def test_a_broken_should_is_a_pass_with_a_remark(requirements: tuple[str, ...]) -> None:
    (verdict,) = apply_should_level([failed(*requirements)], "warn")
    assert (verdict.outcome, verdict.remark, verdict.sentence) == (Outcome.PASS, True, "seen: nothing")
    assert list(apply_should_level([failed(*requirements)], "fail")) == [failed(*requirements)]


@pytest.mark.parametrize("requirements", [("SR-MNT-04",), ("SR-MNT-04", "SR-WIR-05"), ("SR-XXX-01",), ()])
def test_what_blames_another_row_first_stays_a_failure(requirements: tuple[str, ...]) -> None:
    assert list(apply_should_level([failed(*requirements)], "warn")) == [failed(*requirements)]


def test_a_remark_hides_no_failure_of_its_cell() -> None:
    verdicts = apply_should_level([failed("SR-WIR-05"), failed("SR-MNT-04")], "warn")
    assert worst_in_cell(verdict.outcome for verdict in verdicts) is Outcome.FAIL
