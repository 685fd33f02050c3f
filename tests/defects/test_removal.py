"""Without any one expectation or invariant the gates report a gap. (Miniatures prove that of the model's other rules.)

The published table names the defects that a check catches. One of them is run, and judged with the check and without it. If
the check alone catches the defect, it is missed then or blamed on another requirement; otherwise the gates report only
that the check catches nothing.
"""

import functools
import re
from typing import NamedTuple

import pytest

from conformance import paths
from conformance.candidates.description import REFERENCE
from conformance.defects.page import ALONE
from conformance.defects.plan import PlannedTrial, active_defects, disk_defects, plan_trials
from conformance.defects.table import build_table, gaps
from conformance.defects.trial import FinishedTrial, Trial, judge_finished, run_planned
from conformance.model import RULES
from conformance.requirements.catalogue import catalogue
from conformance.scenarios.loader import read_corpus
from tests.docs.pages import ROOT
from tests.judge.checks import ALL, blind

DEFECTS = {defect.name: defect for defect in active_defects()}

CHECKS = [check for check in ALL if not check.startswith("model.")]

SLOW = frozenset({"reports-about-reports", "expires-without-a-report"})
"""Defects whose trials simulate retries every minute for days; other defects show the same in less time."""


class Published(NamedTuple):
    """The row of a check in the table: the defects that it alone catches, and those that others catch too."""

    alone: tuple[str, ...]
    shared: tuple[str, ...]

    @property
    def witness(self) -> str:
        """The defect with the fewest trials; one that the check alone catches, if there is one."""
        cheap = [name for name in self.alone or self.shared if name not in SLOW]
        return min(cheap, key=lambda name: (len(trials()[name]), name))


@functools.cache
def published() -> dict[str, Published]:
    _, _, section = (ROOT / "docs" / "defects.md").read_text("utf-8").partition(ALONE)
    rows = re.findall(r"^\| ((?:expect|invariant|model)\.\S+) \| (.+) \| (.+) \|$", section, re.MULTILINE)
    return {check: Published(defects(alone), defects(shared)) for check, alone, shared in rows}


def defects(cell: str) -> tuple[str, ...]:
    return () if cell == "none" else tuple(cell.split(", "))


@functools.cache
def trials() -> dict[str, list[PlannedTrial]]:
    """Return the planned trials of each defect."""
    corpus = read_corpus([paths.corpus()], paths.fixtures())
    cells = [cell for scenario in corpus for cell in scenario.cells("smoke", REFERENCE.own_timers)]
    found: dict[str, list[PlannedTrial]] = {name: [] for name in DEFECTS}
    for planned in plan_trials(DEFECTS.values(), cells):
        if planned.defect is not None:
            found[planned.defect].append(planned)
    return found


def reported_gaps(defect: str, check: str, performed: list[Trial]) -> list[str]:
    """Return the gaps that the gates report for a defect and a check after these trials."""
    found = build_table([DEFECTS[defect]], {trial.scenario for trial in performed}, performed)
    about = (f"defect {defect}:", f"check {check}:")
    return [line for line in gaps(found, catalogue(), [check]) if line.startswith(about)]


def judged(one: FinishedTrial | Trial) -> Trial:
    """Return a trial with its verdicts by the checks in force."""
    return one if isinstance(one, Trial) else judge_finished(one)


def perform(defect: str, check: str, *, alone: bool) -> tuple[list[FinishedTrial | Trial], list[Trial]]:
    """Run a defect's trials until the gates report no gap, and return them as they were run and as they were judged.

    Without `alone` the trials go on until another check catches the defect too.
    """
    performed: list[FinishedTrial | Trial] = []
    seen: list[Trial] = []
    for planned in trials()[defect]:
        performed.append(run_planned(planned, seed=1))
        seen.append(judged(performed[-1]))
        right = build_table([DEFECTS[defect]], (), seen).rows[0].right
        if not reported_gaps(defect, check, seen) and (alone or {*right} - {check}):
            break
    return performed, seen


def test_the_published_table_has_every_check_but_those_about_failing_disks() -> None:
    broken = {defect.breaks for defect in disk_defects()}
    on_disks = {name for name, rule in RULES.items() if broken.issuperset(rule.requirements)}
    assert on_disks
    assert set(published()) == set(ALL) - on_disks
    assert on_disks.isdisjoint(CHECKS)


@pytest.mark.long
@pytest.mark.parametrize("check", CHECKS)
def test_without_a_check_the_gates_report_a_gap(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = published()[check]
    performed, seen = perform(row.witness, check, alone=bool(row.alone))
    assert reported_gaps(row.witness, check, seen) == []
    blind(check, monkeypatch)
    lines = reported_gaps(row.witness, check, [judged(one) for one in performed])
    assert f"check {check}: catches no defect" in lines
    assert any(line.startswith(f"defect {row.witness}:") for line in lines) is bool(row.alone)
