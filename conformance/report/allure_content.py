"""Allure's results of cells, made through the API of allure-pytest.

`describe_cell` describes the current test, so it must be called while pytest runs (or has just run) the cell's item.
Without `--alluredir` it does nothing and takes no time. `_current_test` is allure-pytest's interface to that test. `visible`
makes a server's text printable on one line, cut at a number of characters.

A *row* is a row of the requirement catalogue. A *finding* is a verdict that is neither a pass nor not applicable; a
*remark* is a pass whose sentence says that a `should` row is violated. The *baseline* of a candidate is the list of its known
failures. The *slug* of a cell names its file.

A result is small, since a run may have thousands: histories and nodes' logs are linked, not attached. The links have
private addresses (`LinkKind`), which `conformance report` replaces by URLs when it builds the site.
"""

import uuid
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any

import allure
from allure_commons import plugin_manager
from allure_commons.model2 import StatusDetails

from conformance.history.events import StepEvent
from conformance.report.allure_run_files import KNOWN_PREFIX
from conformance.report.cell_pages import file_stem
from conformance.report.cell_view import CellView
from conformance.report.diagram.excerpt import excerpt_svg
from conformance.report.escaping import escape_markdown, visible
from conformance.report.failure_text import clause_of, exchange_lines, failure_message
from conformance.requirements.catalogue import catalogue
from conformance.results.layout import slug
from conformance.verdicts import Outcome, Verdict, worst_in_cell
from conformance.verdicts.outcome import OK_OUTCOMES, OUTCOME_DISPLAY, OVER_CELLS

_current_test: Any = allure.dynamic  # untyped, although the package claims types
_attach: Any = allure.attach
_SEVERITY = {"must": "critical", "should": "normal", "may": "minor"}
_MAX_LINES = 20
"""Lines of the offending exchange."""
_MAX_WIDTH = 180
"""Characters of such a line."""


class LinkKind(StrEnum):
    """What a link leads to. The private address of a link is this value, a colon, and the target described here."""

    PAGE = "cell-page"
    """The cell's page; the target is the cell's slug."""
    HISTORY = "cell-history"
    """The cell's history; the target is the cell's slug."""
    LOG = "cell-log"
    """A node's log; the target is the cell's slug, a slash, and the node."""
    KEPT = "cell-kept"
    """The copies of the nodes' directories; the target is the cell's slug."""
    STATEMENT = "statement"
    """A row of the conformance statement; the target is the candidate's file stem, a number sign, and the requirement."""

    def to(self, target: str) -> str:
        """Return the private address of a link of this kind: `cell-page:SLUG`; `target` is what the comment on the kind says."""
        return f"{self}:{target}"


class Violation(AssertionError):
    """An error that makes Allure show a step as failed; Allure shows the class name too."""

    __module__ = "builtins"  # otherwise Allure shows the module too


class NotJudged(Exception):
    """An error that makes Allure show a step as broken; Allure shows the class name too."""

    __module__ = "builtins"


def describe_cell(cell: CellView, *, remark: str = "") -> None:
    """Add everything about a cell to the result of the current test: labels, links, description, steps, message, diagram.

    `remark` is not a remark of the cell but the baseline's complaint about it, such as a stale entry, '' for none; it is put
    before the failure's message. Only a cell with a finding, or one that was cut short, gets a diagram. Without `--alluredir`
    nothing is done.
    """
    if not plugin_manager.hook.add_title.get_hookimpls():  # no listener of allure-pytest: no `--alluredir`
        return
    _add_labels(cell)
    _add_links(cell)
    _add_remarks(cell)
    _add_parameters(cell)
    _add_description(cell)
    _add_steps(cell)
    _replace_message(cell, remark)
    if (cell.findings or cell.cut_short) and (picture := excerpt_svg(cell)):
        _attach(picture, "Sequence diagram", allure.attachment_type.SVG)


def _add_labels(cell: CellView) -> None:
    """Add the title, the place in Allure's two trees, and labels.

    One tree has the generations of the servers, the group of the first row, and the scenario; the other the scenario's folder,
    file and id. Labels are the scenario's rows as tags, the candidate, the row of the first finding that has one, and the severity
    of the strictest row. Rows of the scenario that the catalogue lacks are left out; without any other there is no severity.
    """
    header, rows = cell.header, catalogue()
    _current_test.title(visible(f"{cell.name} · {header.candidate}"))
    known = [row for row in map(rows.get, header.requirements) if row is not None]
    _current_test.epic(", ".join(header.generations) or "any generation")
    _current_test.feature(f"{known[0].group} {rows.groups[known[0].group]}" if known else "no requirement")
    _current_test.story(visible(header.scenario))
    path = PurePosixPath(header.path)
    _current_test.parent_suite(visible(str(path.parent)))
    _current_test.suite(visible(path.name))
    _current_test.sub_suite(visible(header.scenario))
    _current_test.tag(*(row.id for row in known))
    _current_test.label("candidate", visible(header.candidate))
    if blamed := next((verdict.requirements[0] for verdict in cell.findings if verdict.requirements), None):
        _current_test.label("requirement", visible(clause_of(blamed), 160))
    if known:
        _current_test.severity(_SEVERITY[min((row.level for row in known), key=list(_SEVERITY).index)])


def _add_links(cell: CellView) -> None:
    """Add links to the page and history of a cell, to the copies of its nodes' directories if any, and to the statement's rows.

    The nodes' logs are linked only for a cell with a finding or one that was cut short. A row that the catalogue lacks has no link.
    """
    cell_slug = slug(cell.header.nodeid)
    _current_test.link(LinkKind.PAGE.to(cell_slug), link_type="page", name="Page of this cell")
    _current_test.link(LinkKind.HISTORY.to(cell_slug), link_type="history", name="History")
    if cell.findings or cell.cut_short:
        for name in cell.logs:
            _current_test.link(LinkKind.LOG.to(f"{cell_slug}/{name}"), link_type="log", name=f"Log of {visible(name)}")
    if cell.kept_directory is not None:
        _current_test.link(LinkKind.KEPT.to(cell_slug), link_type="kept", name="Kept directories of the nodes")
    candidate = file_stem(cell.header.candidate)
    for row in filter(None, map(catalogue().get, cell.header.requirements)):
        _current_test.link(LinkKind.STATEMENT.to(f"{candidate}#{row.id}"), link_type="requirement", name=row.id)


def _add_remarks(cell: CellView) -> None:
    """Add a tag and the sentences of violated `should` rows for a cell with remarks; the result's status does not change."""
    if cell.remarks:
        _current_test.tag("remark")
        _attach(
            "\n".join(visible(verdict.sentence, 600) for verdict in cell.remarks), "Remark", allure.attachment_type.TEXT
        )


def _add_parameters(cell: CellView) -> None:
    """Add candidate and values of axes, which identify a result in Allure's history, and clock and seed, which do not."""
    header = cell.header
    _current_test.parameter("candidate", visible(header.candidate))
    for axis, value in header.axes.items():
        _current_test.parameter(axis, visible(value))
    _current_test.parameter("clock", header.clock, excluded=True)
    _current_test.parameter("seed", header.seed, excluded=True)


def _add_description(cell: CellView) -> None:
    """Add the title, the rows with their text, the offending exchange if there is one, and the command that repeats the cell."""
    header = cell.header
    parts = [
        f"**{escape_markdown(header.title)}**",
        "\n".join(f"- {escape_markdown(clause_of(row))}" for row in header.requirements),
    ]
    if lines := exchange_lines(cell, _MAX_LINES):
        shown = [line if len(line) <= _MAX_WIDTH else line[: _MAX_WIDTH - 1] + "…" for line in lines]
        parts += ["The exchange (`>` marks what the verdict rests on):", _code_block(shown)]
    if header.repeat:
        parts += ["Repeat this cell:", _code_block([visible(header.repeat)])]
    _current_test.description("\n\n".join(filter(None, parts)))


def _code_block(lines: list[str]) -> str:
    """Return a Markdown code block; it is indented, so that no line in it can end the block."""
    return "\n".join(f"    {line}" for line in lines)


def _replace_message(cell: CellView, remark: str) -> None:
    """Replace the message of a test that did not pass, where allure-pytest puts the whole text twice after a class name.

    The new message has the baseline's comment on a known failure, the baseline's complaint `remark` (either may be ''), and
    `failure_message`. A test that passed has no message (`statusDetails` is None), and gets none.
    """
    from allure_pytest.listener import AllureListener  # pytest must load the plugin first

    listeners = (plugin for plugin in plugin_manager.get_plugins() if isinstance(plugin, AllureListener))
    result = next(listeners).allure_logger.get_test(None)
    if result.statusDetails is not None:
        known = f"{KNOWN_PREFIX} {visible(cell.known, 1000)}" if cell.known else ""
        parts = (known, visible(remark, 1000), failure_message(cell))
        result.statusDetails = StatusDetails(message="\n\n".join(filter(None, parts)))


@dataclass(frozen=True, slots=True)
class AllureStep:
    """One line of Allure's list of steps: a step of the scenario, a check, or several checks with one outcome."""

    title: str
    outcome: Outcome
    sentence: str


def allure_steps(cell: CellView) -> tuple[AllureStep, ...]:
    """Return the scenario's steps in the order in which they began, then the checks that belong to no step that began.

    A step has the worst outcome of its verdicts. A step without verdicts is a pass if it ended, an error if it failed,
    and inconclusive if the cell ended during it. Of the other checks, those without a finding or remark share one step
    for each outcome.
    """
    phases: dict[str, list[StepEvent]] = {}
    for event in cell.events:
        if isinstance(event, StepEvent):
            phases.setdefault(event.path, []).append(event)
    judged: dict[str | None, list[Verdict]] = {}
    for verdict in cell.verdicts:
        judged.setdefault(verdict.step, []).append(verdict)
    steps = [_allure_step(path, events, judged.get(path, []), cell) for path, events in phases.items()]
    others = [v for step, verdicts in judged.items() if step not in phases for v in verdicts]
    others.sort(key=lambda v: v.check)
    checks = {
        check: worst_in_cell(v.outcome for v in verdicts) for check, verdicts in groupby(others, key=lambda v: v.check)
    }
    remarked = {v.check for v in others if v.outcome is Outcome.PASS and v.sentence}
    listed = [check for check, outcome in checks.items() if outcome not in OK_OUTCOMES or check in remarked]
    folded = [
        (ok, [check for check, outcome in checks.items() if outcome is ok and check not in listed])
        for ok in OVER_CELLS
        if ok in OK_OUTCOMES
    ]
    return (
        *steps,
        *(AllureStep(check, *_outcome_and_sentence([v for v in others if v.check == check])) for check in listed),
        *(AllureStep(f"{len(names)} more: {', '.join(names)}", outcome, "") for outcome, names in folded if names),
    )


def _allure_step(path: str, events: list[StepEvent], verdicts: list[Verdict], cell: CellView) -> AllureStep:
    """Return the step with this path: with the worst outcome of its verdicts, or without verdicts by how it ended.

    A step has an event when it begins, and one with the phase `ended` or `failed`; the latter is missing where the cell
    ended during the step.
    """
    first, header = events[0], cell.header
    line = cell.source_line(first.line)
    title = visible(f"{path} {first.verb}  {header.path}:{first.line}" + (f"  {line.strip()}" if line else ""), 300)
    if verdicts:
        return AllureStep(title, *_outcome_and_sentence(verdicts))
    if failed := [event for event in events if event.phase == "failed"]:
        return AllureStep(title, Outcome.ERROR, visible(failed[0].detail, 600))
    ended = events[-1].phase == "ended"
    return AllureStep(title, Outcome.PASS if ended else Outcome.INCONCLUSIVE, "" if ended else "the cell ended in it")


def _outcome_and_sentence(verdicts: list[Verdict]) -> tuple[Outcome, str]:
    """Return the worst outcome of at least one verdict, and the sentence of the first verdict with that outcome.

    A verdict with a remark comes before the others.
    """
    outcome = worst_in_cell(verdict.outcome for verdict in verdicts)
    deciding = sorted((v for v in verdicts if v.outcome is outcome), key=lambda v: not v.remark)
    return outcome, visible(deciding[0].sentence, 600)


def _add_steps(cell: CellView) -> None:
    """Add the steps to the current result, with errors for those that did not pass."""
    hook = plugin_manager.hook
    for step in allure_steps(cell):
        remark = f"  remark: {step.sentence}" if step.outcome is Outcome.PASS and step.sentence else ""
        step_id, error = str(uuid.uuid4()), _step_error(step)
        hook.start_step(uuid=step_id, title=f"{OUTCOME_DISPLAY[step.outcome].sign} {step.title}{remark}", params={})
        hook.stop_step(uuid=step_id, exc_type=error and type(error), exc_val=error, exc_tb=None)


def _step_error(step: AllureStep) -> Exception | None:
    """Return the error with which a step ended, or None for a step that passed or is not applicable."""
    if step.outcome is Outcome.FAIL:
        return Violation(step.sentence)
    return NotJudged(step.sentence) if step.outcome in (Outcome.ERROR, Outcome.INCONCLUSIVE) else None
