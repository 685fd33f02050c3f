"""The kinds of changes, the causes and flakiness, without any run."""

from itertools import permutations, product
from types import SimpleNamespace

import pytest

from conformance.results.schema import CellHeader
from conformance.verdicts import Outcome, worst_in_cell, worst_over_cells
from conformance.verdicts.changes import CAUSES, CellState, ChangeKind, cell_state, change_causes, change_kind, is_flaky
from conformance.verdicts.outcome import OUTCOME_DISPLAY, outcome_for_row

# One line for each state before, one column for each state after: Regression, New, Fixed, Lost, Other, . for no change.
WRITTEN = """
                pass remark fail inconclusive not-applicable error absent
pass            .    O      R    R            L              R     L
remark          O    .      R    R            L              R     L
fail            F    F      .    O            O              O     O
inconclusive    F    F      R    .            O              O     O
not-applicable  O    O      N    O            .              O     O
error           F    F      R    O            O              .     O
absent          O    O      N    O            O              O     .
"""


def written() -> dict[tuple[CellState, CellState], ChangeKind | None]:
    head, *lines = WRITTEN.strip("\n").splitlines()
    letters = {kind[0].upper(): kind for kind in ChangeKind} | {".": None}
    return {
        (CellState(line.split()[0]), CellState(after)): letters[letter]
        for line in lines
        for after, letter in zip(head.split(), line.split()[1:], strict=True)
    }


def test_every_transition_has_the_kind_in_the_table() -> None:
    assert {pair: change_kind(*pair) for pair in product(CellState, CellState)} == written()


def test_a_remark_on_a_pass_is_a_failure_only_with_should_fail() -> None:
    assert cell_state(Outcome.PASS, remark=True, should="fail") is CellState.FAIL
    assert cell_state(Outcome.PASS, remark=True, should="warn") is CellState.REMARK
    assert cell_state(Outcome.PASS, remark=True) is CellState.REMARK
    assert cell_state(Outcome.PASS, remark=False, should="fail") is CellState.PASS
    assert cell_state(None, remark=True, should="fail") is CellState.ABSENT
    for other in set(Outcome) - {Outcome.PASS}:
        assert cell_state(other, remark=True, should="fail") == cell_state(other) == other.value


def test_each_field_of_a_cause_is_one_of_a_cells_header_and_is_of_that_cause_alone() -> None:
    fields = [field for own in CAUSES.values() for field in own]
    assert set(fields) <= CellHeader.model_fields.keys()
    header = SimpleNamespace(**dict.fromkeys(fields, 1))
    assert change_causes(header, header) == ()
    assert all(CAUSES.values())
    for cause, own in CAUSES.items():
        for field in own:
            assert change_causes(header, SimpleNamespace(**(vars(header) | {field: 2}))) == (cause,)


@pytest.mark.parametrize("runs", range(4))
def test_only_a_pass_and_a_failure_make_a_cell_flaky(runs: int) -> None:
    for outcomes in product(Outcome, repeat=runs):
        assert is_flaky(outcomes) == (Outcome.PASS in outcomes and Outcome.FAIL in outcomes)


def test_an_error_is_worst_within_a_cell_and_a_failure_over_cells() -> None:
    for other in Outcome:
        for order in permutations([other, Outcome.ERROR, Outcome.PASS]):
            assert worst_in_cell(order) is Outcome.ERROR
        for order in permutations([other, Outcome.FAIL, Outcome.PASS]):
            assert worst_over_cells(order) is Outcome.FAIL


def test_without_error_and_failure_what_was_not_judged_is_worst_and_not_applicable_is_best() -> None:
    rest = [Outcome.NOT_APPLICABLE, Outcome.PASS, Outcome.INCONCLUSIVE]
    for worst in (worst_in_cell, worst_over_cells):
        for order in permutations(rest):
            assert worst(order) is Outcome.INCONCLUSIVE
        for order in permutations(rest[:2]):
            assert worst(order) is Outcome.PASS
        assert worst(rest[:1]) is Outcome.NOT_APPLICABLE
    assert worst_in_cell([]) is Outcome.INCONCLUSIVE
    assert worst_over_cells([]) is None


def test_a_failure_is_blamed_on_the_first_row_and_leaves_the_others_open() -> None:
    assert [outcome_for_row(Outcome.FAIL, rank, Outcome.FAIL) for rank in range(3)] == [
        Outcome.FAIL,
        Outcome.INCONCLUSIVE,
        Outcome.INCONCLUSIVE,
    ]
    assert outcome_for_row(Outcome.PASS, 1, Outcome.FAIL) is Outcome.PASS
    assert outcome_for_row(Outcome.PASS, 0, Outcome.ERROR) is Outcome.ERROR


def test_no_two_outcomes_look_alike() -> None:
    assert set(OUTCOME_DISPLAY) == set(Outcome)
    for part in ("sign", "heading", "category", "letter", "style"):
        assert len({getattr(words, part) for words in OUTCOME_DISPLAY.values()}) == len(OUTCOME_DISPLAY)
