"""Every check against histories written by hand: the verdict, its sentence, and the requirement that is blamed."""

from collections import Counter, defaultdict

import pytest

from conformance.invariants import INVARIANTS
from conformance.judge import cell
from conformance.judge.expectations import EXPECTATION_CHECKS
from conformance.model import RULES
from conformance.scenarios.expectations import EXPECTATIONS
from tests.judge.checks import ALL, blind
from tests.judge.miniature import ELSEWHERE, Miniature, miniatures


def identify(one: Miniature) -> str:
    return f"{one.check}: {one.title}"


@pytest.mark.parametrize("one", miniatures(), ids=identify)
def test_a_miniature_gets_its_verdict(one: Miniature) -> None:
    verdict = one.judge()
    assert verdict.outcome is one.outcome, verdict.sentence
    assert not verdict.remark, verdict.sentence
    assert (verdict.occasions == 0) is (one.kind == "vacuous")
    assert one.says in verdict.sentence
    if one.kind == "bad":
        assert verdict.requirements[0] == one.requirement
        assert verdict.sentence.startswith(f"{one.requirement}: expected {verdict.expected}; seen: ")
        assert set(verdict.evidence) <= {event.n for event in one.history.events}


@pytest.mark.parametrize("check", ALL)
def test_every_check_has_good_bad_and_vacuous_miniatures(check: str) -> None:
    kinds = Counter(one.kind for one in miniatures() if one.check == check)
    assert kinds["good"] >= 1
    assert kinds["bad"] >= (1 if check.startswith("model.") else 2)
    assert kinds["vacuous"] >= 1


def test_every_expectation_and_invariant_has_a_check_and_miniatures() -> None:
    assert set(EXPECTATION_CHECKS) == set(EXPECTATIONS)
    assert {name.removeprefix("invariant.") for name in RULES if name.startswith("invariant.")} == set(INVARIANTS)
    assert {one.check for one in miniatures()} == set(ALL)


def test_no_two_miniatures_of_one_check_have_the_same_title() -> None:
    assert max(Counter(map(identify, miniatures())).values()) == 1


@pytest.mark.parametrize("check", [check for check in ALL if not check.startswith("model.")])
def test_of_all_bad_miniatures_those_of_a_removed_check_alone_are_judged_otherwise(
    check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each bad miniature of the check loses its verdict, and each of another check keeps it.

    The other rules of the model are left out: each is a function of the history that no other check calls.
    """
    if check.startswith("expect."):
        blind(check, monkeypatch)
    else:
        monkeypatch.setattr(cell, "RULES", {name: rule for name, rule in RULES.items() if name != check})
    for one in miniatures():
        if one.kind == "bad":
            judged = {verdict.check: verdict.outcome for verdict in one.all_verdicts()}
            assert (judged.get(one.check) is one.outcome) is (one.check != check), identify(one)
    assert {check} < {one.check for one in miniatures() if one.kind == "bad"}


@pytest.mark.parametrize("check", ALL)
def test_a_check_that_finds_nothing_misses_all_of_its_bad_miniatures(
    check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blind one check: each of its bad miniatures is missed, however many other checks there are."""
    blind(check, monkeypatch)
    bad = [one for one in miniatures() if one.check == check and one.kind == "bad"]
    assert bad
    assert [identify(one) for one in bad if one.judge().outcome is one.outcome] == []


def test_a_good_miniature_of_a_rule_violates_no_invariant_and_no_rule_of_its_topic() -> None:
    """Good miniatures of expectations are left out: their scenarios would waive invariants.

    Rules of other topics are left out too: each history would have to show every retry and heartbeat that a duty demands.
    """
    topics = defaultdict(set)
    for one in miniatures():
        topics[one.file].add(one.check)
    wrong = {
        identify(one): [
            v.sentence
            for v in one.all_verdicts()
            if (v.outcome.value in ("fail", "error") or v.remark)
            and (v.check in topics[one.file] or v.check.startswith("invariant."))
        ]
        for one in miniatures()
        if one.kind == "good" and not one.check.startswith("expect.")
    }
    assert {one.check for one in miniatures() if identify(one) in wrong} == set(RULES)
    assert {title: sentences for title, sentences in wrong.items() if sentences} == {}


def test_an_expectation_blames_the_requirement_of_the_scenario_but_a_missing_shadow_that_of_shadows() -> None:
    bad = [one for one in miniatures() if one.check.startswith("expect.") and one.kind == "bad"]
    blamed = {(one.check, one.judge().requirements[0]) for one in bad}
    missing_shadow = {("expect.shadow", "SR-CRE-01")}  # a shadow that a scenario takes for granted
    assert blamed == {(f"expect.{verb}", ELSEWHERE) for verb in EXPECTATIONS} | missing_shadow
