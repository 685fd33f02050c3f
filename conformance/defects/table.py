"""The table of what each check catches, and the gates: what must not be missing in it. And it is a page of the
documentation, the same for the same table.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from conformance.defects.plan import MAX_CELLS_PER_SCENARIO, Defect
from conformance.defects.trial import Trial
from conformance.requirements.catalogue import Catalogue
from conformance.verdicts import Outcome
from conformance.verdicts.outcome import OK_OUTCOMES

FIRST_BLAME = 95
"""Of so many per cent of the defects that are caught the first blame must be right, for the build to pass."""


@dataclass(frozen=True, slots=True)
class Row:
    """One defect: which checks caught it in how many cells, and which requirements were blamed, the most often first.

    `right` names the checks that blamed, first of all, the requirement that the defect breaks. `first_blame` is the
    first requirement of the first failed verdict of the first cell, in the corpus's order, that caught it; None when
    no cell did.
    """

    defect: Defect
    trials: int
    caught_in: int
    checks: tuple[tuple[str, int], ...]
    blamed: tuple[tuple[str, int], ...]
    right: tuple[str, ...]
    first_blame: str | None = None
    troubles: tuple[str, ...] = field(default=(), compare=False)

    @property
    def caught(self) -> bool:
        """Whether at least one check blamed, first of all, the requirement that the defect breaks."""
        return bool(self.right)

    @property
    def first_is_right(self) -> bool:
        """Whether the requirement that the defect breaks is the one that is blamed first."""
        return self.first_blame == self.defect.breaks


@dataclass(frozen=True, slots=True)
class DefectTable:
    """All defects, what each scenario and each check catches, and the cells in which the unbroken reference failed.

    `elsewhere` are scenarios that cannot be tried like this: they want servers that are programs, with disks.
    """

    rows: tuple[Row, ...]
    scenarios: dict[str, tuple[str, ...]]
    elsewhere: tuple[str, ...]
    checks: dict[str, tuple[str, ...]]
    unsound: tuple[Trial, ...]

    @property
    def proven(self) -> dict[str, tuple[str, ...]]:
        """The requirements that a caught defect breaks, with the defects."""
        proven: defaultdict[str, list[str]] = defaultdict(list)
        for row in self.rows:
            if row.caught:
                proven[row.defect.breaks].append(row.defect.name)
        return {requirement: tuple(names) for requirement, names in sorted(proven.items())}

    @property
    def blamed_elsewhere_first(self) -> tuple[Row, ...]:
        """The defects that are caught and for which another requirement than the broken one is blamed first."""
        return tuple(row for row in self.rows if row.caught_in and not row.first_is_right)

    @property
    def alone(self) -> dict[str, tuple[str, ...]]:
        """The checks without which a defect would be missed, or blamed on another requirement, with those defects."""
        alone: defaultdict[str, list[str]] = defaultdict(list)
        for row in self.rows:
            if len(row.right) == 1:
                alone[row.right[0]].append(row.defect.name)
        return {check: tuple(names) for check, names in sorted(alone.items())}


def build_table(defects: Sequence[Defect], scenarios: Iterable[str], trials: Sequence[Trial]) -> DefectTable:
    """Make the table of all trials."""
    of: defaultdict[str | None, list[Trial]] = defaultdict(list)
    for trial in trials:
        of[trial.defect].append(trial)
    tried = {trial.scenario for trial in trials if trial.outcome is not Outcome.NOT_APPLICABLE}
    elsewhere = {trial.scenario for trial in trials} - tried
    by_scenario: dict[str, set[str]] = {name: set() for name in scenarios if name not in elsewhere}
    by_check: defaultdict[str, set[str]] = defaultdict(set)
    for trial in trials:
        if trial.defect is not None and trial.blames:
            by_scenario[trial.scenario].add(trial.defect)
            for blame in trial.blames:
                by_check[blame.check].add(trial.defect)
    return DefectTable(
        rows=tuple(_row(defect, of[defect.name]) for defect in defects),
        scenarios={name: tuple(sorted(caught)) for name, caught in sorted(by_scenario.items())},
        elsewhere=tuple(sorted(elsewhere)),
        checks={name: tuple(sorted(caught)) for name, caught in sorted(by_check.items())},
        unsound=tuple(t for t in of[None] if t.outcome not in OK_OUTCOMES),
    )


def gaps(found: DefectTable, catalogue: Catalogue, checks: Iterable[str]) -> tuple[str, ...]:
    """Return, in words, everything for which the build must fail."""
    lines = [f"the unbroken reference: {trial.cell}: {trial.outcome}: {trial.sentence}" for trial in found.unsound]
    for row in found.rows:
        if not row.trials:
            lines.append(f"defect {row.defect.name}: no scenario judges {row.defect.breaks}, which it breaks")
        elif not row.caught_in:
            lines.append(f"defect {row.defect.name}: not caught in any of {row.trials} cells")
        elif not row.caught:
            blamed = ", ".join(requirement for requirement, _ in row.blamed)
            lines.append(f"defect {row.defect.name}: breaks {row.defect.breaks}, and only {blamed} is blamed")
    caught, elsewhere = sum(bool(row.caught_in) for row in found.rows), found.blamed_elsewhere_first
    if 100 * (caught - len(elsewhere)) < FIRST_BLAME * caught:
        first = ", ".join(f"{row.defect.name} ({row.first_blame}, not {row.defect.breaks})" for row in elsewhere)
        lines.append(
            f"first blame: right for {caught - len(elsewhere)} of {caught} defects, less than {FIRST_BLAME} %: {first}"
        )
    lines += [f"scenario {name}: catches no defect" for name, caught in found.scenarios.items() if not caught]
    proven = found.proven
    lines += [
        f"requirement {row.id}: no caught defect breaks it"
        for row in catalogue.requirements
        if row.level == "must" and row.seen_on == "wire" and row.retired is None and row.id not in proven
    ]
    lines += [f"check {name}: catches no defect" for name in checks if name not in found.checks]
    return tuple(lines)


def _row(defect: Defect, trials: Sequence[Trial]) -> Row:
    checks = Counter(check for trial in trials for check in {blame.check for blame in trial.blames})
    blamed = Counter(one for trial in trials for one in {blame.requirement for blame in trial.blames})
    return Row(
        defect=defect,
        trials=len(trials),
        caught_in=sum(bool(trial.blames) for trial in trials),
        checks=_by_count(checks),
        blamed=_by_count(blamed),
        right=tuple(sorted({b.check for trial in trials for b in trial.blames if b.requirement == defect.breaks})),
        first_blame=next((trial.blames[0].requirement for trial in trials if trial.blames), None),
        troubles=tuple(f"{t.cell}: {t.sentence}" for t in trials if t.outcome is Outcome.ERROR),
    )


def _by_count(counted: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))


_HEAD = """\
# What each check catches

The reference transport can be made wrong in {count} named ways (`--candidate reference+NAME`). Each of these defects
was run in virtual time in each scenario that judges the requirement that it breaks, in {few} cells of it at most; the
table says which checks saw it. A defect that is not caught, one that is only blamed on another requirement, a scenario
or a check that catches nothing, and a binding requirement of the wire that no defect breaks: each fails the build.

This page is written by `conformance defects --write docs/defects.md`.
"""

ALONE = "## What each check catches alone"
"""The heading of the section that tells what would be missed without a check."""


def page(found: DefectTable, catalogue: Catalogue, retired: Sequence[Defect] = ()) -> str:
    """Return the page as Markdown; `retired` are the defects that a ruling has made right."""
    parts = (
        *_groups(found, catalogue),
        *_first(found),
        *_retired(retired),
        *_checks(found),
        *_scenarios(found),
        *_requirements(found, catalogue),
    )
    return "\n".join([_HEAD.format(count=len(found.rows), few=MAX_CELLS_PER_SCENARIO), *parts, ""])


def _groups(found: DefectTable, catalogue: Catalogue) -> Iterator[str]:
    for group, about in catalogue.groups.items():
        rows = [row for row in found.rows if catalogue[row.defect.breaks].group == group]
        if not rows:
            continue
        yield f"## {group}: {about}\n"
        yield "| defect | what it does | breaks | caught in | by |"
        yield "|---|---|---|---|---|"
        yield from (_line(row) for row in sorted(rows, key=lambda row: (row.defect.breaks, row.defect.name)))
        yield ""


def _first(found: DefectTable) -> Iterator[str]:
    caught, elsewhere = sum(bool(row.caught_in) for row in found.rows), found.blamed_elsewhere_first
    yield "## What is blamed first\n"
    yield (
        "The first blame is the first requirement of the first violation of the first cell, in the corpus's order, that\n"
        f"catches a defect. It is the broken one for {caught - len(elsewhere)} of {caught} defects; less than "
        f"{FIRST_BLAME} % fails the build."
    )
    yield ""
    if elsewhere:
        yield "| defect | breaks | blamed first |"
        yield "|---|---|---|"
        yield from (f"| `{row.defect.name}` | {row.defect.breaks} | {row.first_blame} |" for row in elsewhere)
        yield ""


def _retired(defects: Sequence[Defect]) -> Iterator[str]:
    if defects:
        yield "## Retired\n"
        yield "What these do was a defect once and is right by a ruling. They can still be switched on.\n"
        yield "| name | what it does | broke | why it is right |"
        yield "|---|---|---|---|"
        yield from (f"| `{one.name}` | {one.says} | {one.breaks} | {one.retired} |" for one in defects)
        yield ""


def _line(row: Row) -> str:
    checks = ", ".join(f"{name} ({count})" for name, count in row.checks)
    return (
        f"| `{row.defect.name}` | {row.defect.says} | {row.defect.breaks} | "
        f"{row.caught_in} of {row.trials} cells | {checks or 'nothing'} |"
    )


def _checks(found: DefectTable) -> Iterator[str]:
    yield f"{ALONE}\n"
    yield "Without the check, the defects that it alone catches would be missed or blamed on another requirement.\n"
    yield "| check | it alone | with others |"
    yield "|---|---|---|"
    alone = found.alone
    for name, caught in found.checks.items():
        mine = alone.get(name, ())
        others = [defect for defect in caught if defect not in mine]
        yield f"| {name} | {', '.join(mine) or 'none'} | {', '.join(others) or 'none'} |"
    yield ""


def _scenarios(found: DefectTable) -> Iterator[str]:
    yield "## What each scenario catches\n"
    yield "| scenario | defects |"
    yield "|---|---|"
    for name, caught in found.scenarios.items():
        yield f"| {name} | {', '.join(caught) or 'none'} |"
    yield ""
    if found.elsewhere:
        yield f"Not tried, for they want servers that are programs with disks of their own: {', '.join(found.elsewhere)}.\n"


def _requirements(found: DefectTable, catalogue: Catalogue) -> Iterator[str]:
    yield "## What proves that a requirement is judged\n"
    yield "| requirement | level | seen on | defects |"
    yield "|---|---|---|---|"
    proven = found.proven
    for row in catalogue.requirements:
        if row.retired is None:
            yield f"| {row.id} | {row.level} | {row.seen_on} | {', '.join(proven.get(row.id, ())) or 'none'} |"
