"""The table of what each check catches, and the gaps in it for which the build fails; `page` writes it.

A trial is one cell, run on the reference with one defect or without. A failed verdict blames the requirement that it names first. A
defect is caught when at least one check blames the requirement that the defect breaks. It is caught in a cell when any verdict of the
cell fails. *Blind* means without expectations: by the rules of the model and the harness's own checks alone. The command `conformance
defects` calls this after all trials; nothing here runs anything or writes a file.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from conformance.defects.plan import Defect
from conformance.defects.trial import Trial
from conformance.requirements.catalogue import Catalogue
from conformance.verdicts import Outcome
from conformance.verdicts.outcome import OK_OUTCOMES

MIN_RIGHT_FIRST_BLAMES = 95
"""Per cent of the defects caught in any cell for which the first blame must be right; with less the build fails."""


@dataclass(frozen=True, slots=True)
class DefectRow:
    """What came of all trials of one defect."""

    defect: Defect
    trials: int
    caught_in: int
    """In how many of the trials a verdict failed."""
    checks: tuple[tuple[str, int], ...]
    """(check that failed, in how many cells), the most frequent first."""
    blamed: tuple[tuple[str, int], ...]
    """(requirement blamed, in how many cells), the most frequent first."""
    right: tuple[str, ...]
    """The checks that blamed, first of all, the requirement that the defect breaks."""
    first_blame: str | None = None
    """The first requirement of the first failed verdict of the first cell, in the corpus's order, that has one; None if none has."""
    blind: tuple[tuple[str, int], ...] = ()
    """(requirement blamed, in how many cells) by the checks that need no expectation; the most frequent first."""
    first_blind_blame: str | None = None
    """As `first_blame`, by the checks that need no expectation alone."""
    errors: tuple[str, ...] = field(default=(), compare=False)
    """The cells that could not be judged, and why."""

    @property
    def caught(self) -> bool:
        """Whether at least one check blamed, first of all, the requirement that the defect breaks."""
        return bool(self.right)

    @property
    def blindly_blames_its_group(self) -> bool:
        """Whether without expectations the requirement that the defect breaks, or one of its group, is blamed first."""
        return self.first_blind_blame is not None and _group_of(self.first_blind_blame) == _group_of(self.defect.breaks)

    @property
    def first_is_right(self) -> bool:
        """Whether the requirement that the defect breaks is the one that is blamed first."""
        return self.first_blame == self.defect.breaks


@dataclass(frozen=True, slots=True)
class DefectTable:
    """What came of all trials."""

    rows: tuple[DefectRow, ...]
    scenarios: dict[str, tuple[str, ...]]
    """Scenario -> the defects that it catches."""
    untried: tuple[str, ...]
    """The scenarios none of whose cells could be run: they need servers that are programs, with disks of their own."""
    checks: dict[str, tuple[str, ...]]
    """Check -> the defects with which it fails, whatever it blames; only checks that fail with any."""
    unsound: tuple[Trial, ...]
    """The trials in which the sound reference neither passed nor was not applicable."""

    @property
    def proven(self) -> dict[str, tuple[str, ...]]:
        """Requirement -> the caught defects that break it; only requirements that have any."""
        proven: defaultdict[str, list[str]] = defaultdict(list)
        for row in self.rows:
            if row.caught:
                proven[row.defect.breaks].append(row.defect.name)
        return {requirement: tuple(names) for requirement, names in sorted(proven.items())}

    @property
    def first_blamed_wrongly(self) -> tuple[DefectRow, ...]:
        """The defects caught in any cell for which another requirement than the broken one is blamed first."""
        return tuple(row for row in self.rows if row.caught_in and not row.first_is_right)

    @property
    def caught_alone(self) -> dict[str, tuple[str, ...]]:
        """Check -> the defects that without it would be missed, or blamed on another requirement; only checks that have any."""
        alone: defaultdict[str, list[str]] = defaultdict(list)
        for row in self.rows:
            if len(row.right) == 1:
                alone[row.right[0]].append(row.defect.name)
        return {check: tuple(names) for check, names in sorted(alone.items())}


def without_expectations(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials with only those blames that come from rules of the model and the harness's own checks."""
    return [replace(t, blames=tuple(b for b in t.blames if not b.check.startswith("expect."))) for t in trials]


def _group_of(requirement: str) -> str:
    """Return the group of a requirement, its id without the last part: `SR-MNT` of `SR-MNT-03`."""
    return requirement.rpartition("-")[0]


def build_table(defects: Sequence[Defect], scenarios: Iterable[str], trials: Sequence[Trial]) -> DefectTable:
    """Return the table of these trials, with a row for each defect.

    `scenarios` are the names of those that have to catch a defect. Each has an entry, an empty one if it catches none, unless all
    of its trials were not applicable; any other scenario has one only if it catches a defect. `trials` are in the corpus's order
    for each defect.
    """
    by_defect: defaultdict[str | None, list[Trial]] = defaultdict(list)
    for trial in trials:
        by_defect[trial.defect].append(trial)
    tried = {trial.scenario for trial in trials if trial.outcome is not Outcome.NOT_APPLICABLE}
    untried = {trial.scenario for trial in trials} - tried
    by_scenario: dict[str, set[str]] = {name: set() for name in scenarios if name not in untried}
    by_check: defaultdict[str, set[str]] = defaultdict(set)
    for trial in trials:
        if trial.defect is not None and trial.blames:
            by_scenario.setdefault(trial.scenario, set()).add(trial.defect)
            for blame in trial.blames:
                by_check[blame.check].add(trial.defect)
    return DefectTable(
        rows=tuple(_build_row(defect, by_defect[defect.name]) for defect in defects),
        scenarios={name: tuple(sorted(caught)) for name, caught in sorted(by_scenario.items())},
        untried=tuple(sorted(untried)),
        checks={name: tuple(sorted(caught)) for name, caught in sorted(by_check.items())},
        unsound=tuple(trial for trial in by_defect[None] if trial.outcome not in OK_OUTCOMES),
    )


def gaps(table: DefectTable, catalogue: Catalogue, checks: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence for each gap for which the build must fail; `checks` are the names of all declared checks.

    Gaps are those of single defects and those of the corpus as a whole.
    """
    return (*defect_gaps(table), *corpus_gaps(table, catalogue, checks))


def defect_gaps(table: DefectTable) -> tuple[str, ...]:
    """Return a sentence for each applicable trial in which the sound reference does not pass, and for each defect not caught.

    A defect is not caught if no trial judges the requirement that it breaks, if no verdict fails, or if only other requirements
    are blamed.
    """
    lines = [f"the unbroken reference: {trial.cell}: {trial.outcome}: {trial.sentence}" for trial in table.unsound]
    for row in table.rows:
        if not row.trials:
            lines.append(f"defect {row.defect.name}: no scenario judges {row.defect.breaks}, which it breaks")
        elif not row.caught_in:
            lines.append(f"defect {row.defect.name}: not caught in any of {row.trials} cells")
        elif not row.caught:
            blamed = ", ".join(requirement for requirement, _ in row.blamed)
            lines.append(f"defect {row.defect.name}: breaks {row.defect.breaks}, and only {blamed} is blamed")
    return tuple(lines)


def corpus_gaps(table: DefectTable, catalogue: Catalogue, checks: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence for each gap that only the trials of all defects show; `checks` are the names of all declared checks.

    Gaps are: too many defects are first blamed on another requirement; a scenario or a check catches nothing; no caught defect
    breaks a binding requirement of the wire (level must, seen on the wire, not retired).
    """
    lines = []
    caught, wrong = sum(bool(row.caught_in) for row in table.rows), table.first_blamed_wrongly
    if 100 * (caught - len(wrong)) < MIN_RIGHT_FIRST_BLAMES * caught:
        first = ", ".join(f"{row.defect.name} ({row.first_blame}, not {row.defect.breaks})" for row in wrong)
        lines.append(
            f"first blame: right for {caught - len(wrong)} of {caught} defects, less than {MIN_RIGHT_FIRST_BLAMES} %: {first}"
        )
    lines += [f"scenario {name}: catches no defect" for name, caught in table.scenarios.items() if not caught]
    proven = table.proven
    lines += [
        f"requirement {row.id}: no caught defect breaks it"
        for row in catalogue.requirements
        if row.level == "must" and row.seen_on == "wire" and row.retired is None and row.id not in proven
    ]
    lines += [f"check {name}: catches no defect" for name in checks if name not in table.checks]
    return tuple(lines)


def blind_gaps(table: DefectTable) -> tuple[str, ...]:
    """Return a sentence for each defect that is caught in no cell without expectations and gives no reason (`needs_expectation`).

    Also one for each defect that gives such a reason and is caught without expectations.
    """
    lines = []
    for row in table.rows:
        if not row.blind and not row.defect.needs_expectation:
            lines.append(
                f"defect {row.defect.name}: no rule of the model catches it, and `needs_expectation` has no reason"
            )
        elif row.blind and row.defect.needs_expectation:
            lines.append(
                f"defect {row.defect.name}: `needs_expectation` has a reason, and {row.blind[0][0]} is blamed without"
            )
    return tuple(lines)


def _build_row(defect: Defect, trials: Sequence[Trial]) -> DefectRow:
    """Return the row of a defect from all of its trials, which are in the corpus's order."""
    checks = Counter(check for trial in trials for check in {blame.check for blame in trial.blames})
    blamed = _count_blamed(trials)
    blind = without_expectations(trials)
    return DefectRow(
        defect=defect,
        trials=len(trials),
        caught_in=sum(bool(trial.blames) for trial in trials),
        checks=_sorted_by_count(checks),
        blamed=_sorted_by_count(blamed),
        right=tuple(sorted({b.check for trial in trials for b in trial.blames if b.requirement == defect.breaks})),
        first_blame=_first_blame(trials),
        blind=_sorted_by_count(_count_blamed(blind)),
        first_blind_blame=_first_blame(blind),
        errors=tuple(f"{t.cell}: {t.sentence}" for t in trials if t.outcome is Outcome.ERROR),
    )


def _count_blamed(trials: Iterable[Trial]) -> Counter[str]:
    """Return in how many of the trials each requirement is blamed; one that is blamed several times in a trial counts once for it."""
    return Counter(row for trial in trials for row in {blame.requirement for blame in trial.blames})


def _first_blame(trials: Iterable[Trial]) -> str | None:
    """Return the requirement that the first failed verdict of the first trial with one blames; None if no verdict failed."""
    return next((trial.blames[0].requirement for trial in trials if trial.blames), None)


def _sorted_by_count(counted: Counter[str]) -> tuple[tuple[str, int], ...]:
    """Return (name, count) pairs, the highest count first and equal ones by name."""
    return tuple(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))
