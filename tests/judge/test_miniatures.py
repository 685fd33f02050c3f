"""Every check against histories written by hand: what it must find, what it must leave alone, and in whose name."""

from collections import Counter

import pytest

from conformance.invariants import INVARIANTS
from conformance.judge import cell
from conformance.judge.expectations import EXPECTATION_CHECKS
from conformance.judge.invariants import INVARIANT_CHECKS
from conformance.scenarios.expectations import EXPECTATIONS
from tests.judge.checks import ALL, blind
from tests.judge.miniature import ELSEWHERE, Miniature, miniatures


def identify(one: Miniature) -> str:
    return f"{one.check}: {one.title}"


@pytest.mark.parametrize("one", miniatures(), ids=identify)
def test_it_is_judged_as_it_says(one: Miniature) -> None:
    verdict = one.judge()
    assert verdict.outcome is one.outcome, verdict.sentence
    assert one.says in verdict.sentence
    if one.kind == "bad":
        assert verdict.requirements[0] == one.requirement
        assert verdict.sentence.startswith(f"{one.requirement}: expected {verdict.expected}; seen: ")
        assert set(verdict.evidence) <= {event.n for event in one.history.events}


@pytest.mark.parametrize("check", ALL)
def test_every_check_has_a_good_one_two_bad_ones_and_one_without_occasion(check: str) -> None:
    kinds = Counter(one.kind for one in miniatures() if one.check == check)
    assert kinds["good"] >= 1
    assert kinds["bad"] >= 2
    assert kinds["vacuous"] >= 1


def test_every_verb_and_every_invariant_has_a_check_and_no_other_has() -> None:
    assert set(EXPECTATION_CHECKS) == set(EXPECTATIONS)
    assert set(INVARIANT_CHECKS) == set(INVARIANTS)
    assert {one.check for one in miniatures()} == set(ALL)


def test_titles_are_told_apart() -> None:
    assert max(Counter(map(identify, miniatures())).values()) == 1


@pytest.mark.parametrize("check", ALL)
def test_without_the_check_a_miniature_fails(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take one check away: the bad miniatures of that check, and no others, are judged otherwise."""
    kind, _, name = check.partition(".")
    if kind == "expect":
        blind(check, monkeypatch)
    else:
        monkeypatch.setattr(cell, "INVARIANTS", [one for one in INVARIANTS if one != name])
    for one in miniatures():
        if one.kind == "bad":
            judged = {verdict.check: verdict.outcome for verdict in one.all_verdicts()}
            assert (judged.get(one.check) is one.outcome) is (one.check != check)


@pytest.mark.parametrize("check", ALL)
def test_a_check_that_finds_nothing_is_caught(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blind one check: each of its bad miniatures is missed, however many other checks there are."""
    blind(check, monkeypatch)
    bad = [one for one in miniatures() if one.check == check and one.kind == "bad"]
    assert not any(one.judge().outcome is one.outcome for one in bad)


def test_no_good_miniature_of_an_invariant_is_bad_for_another() -> None:
    """What is right is right altogether, but for what its scenario would have waived."""
    wrong = {
        identify(one): [v.sentence for v in one.all_verdicts() if v.outcome.value in ("fail", "error")]
        for one in miniatures()
        if one.kind == "good" and one.check.startswith("invariant.")
    }
    assert {title: sentences for title, sentences in wrong.items() if sentences} == {}


def test_the_scenario_s_own_requirement_is_blamed_where_a_check_has_none() -> None:
    blamed = {(one.check, one.requirement) for one in miniatures() if one.check.startswith("expect.")}
    others = {(check, row) for check, row in blamed if row != ELSEWHERE}
    assert others == {("expect.shadow", "SR-CRE-01")}  # a shadow that a scenario takes for granted
