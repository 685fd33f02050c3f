"""The text of a failure in a terminal: what was expected and seen, the step, the exchange, and how to repeat the cell.

The deciding finding is the first of `CellView.findings`: a verdict with the cell's outcome. A requirement is the id of
a row of the catalogue; its clause is the row's text as reports quote it. `visible` makes a server's text printable on one
line, cut at a number of characters. The *evidence* of a verdict are the numbers of the events that it rests on.
"""

import textwrap
from collections.abc import Iterator

from conformance.report.cell_view import CellView
from conformance.report.escaping import visible
from conformance.report.evidence_location import event_line, events_around, locate_evidence
from conformance.requirements.catalogue import catalogue
from conformance.verdicts import Outcome, Verdict
from conformance.verdicts.outcome import OUTCOME_DISPLAY

WIDTH = 100
_INDENT = "  "
BROKE = "the candidate broke"
"""Begins the line about a node that exited or failed to start; one of Allure's categories matches it."""

_MAX_OTHERS = 6
"""Further findings, and remarks, that are listed."""


def failure_text(cell: CellView, *, width: int = WIDTH) -> str:
    """Return the text about a cell for a terminal, in lines of at most `width` columns where they can be wrapped.

    In this order: the heading; the baseline's comment on a known failure; the deciding finding with its sentence, expected and
    seen values and clause; its step in the scenario's file; the offending exchange; other findings; remarks; the command that
    repeats the cell; the history and logs. Without findings the first verdict's sentence stands in place of these.
    """
    parts = [_heading(cell)]
    if cell.known:
        parts.append(_labelled("known", cell.known, width))
    if cell.findings:
        first, *others = cell.findings
        parts += [*_finding_parts(cell, first, width), _step_location(cell, first), _exchange_text(cell, first, width)]
        by_root: dict[str, list[Verdict]] = {"": []}
        for verdict in others:
            by_root.setdefault(cell.may_follow_from(verdict), []).append(verdict)
        parts += [_other_findings(verdicts, width, root) for root, verdicts in by_root.items() if verdicts]
    else:
        parts += [_wrapped(verdict.sentence, width) for verdict in cell.verdicts[:1] if verdict.sentence]
    if cell.remarks:
        parts.append(_remarks(cell, width))
    parts.append(_repeat_and_files(cell))
    return "\n\n".join(part for part in parts if part)


def failure_message(cell: CellView) -> str:
    """Return the beginning of `failure_text` for Allure, which shows the rest elsewhere: heading, sentence and clause.

    '' for a cell that passed.
    """
    if cell.outcome is Outcome.PASS:
        return ""
    verdict = next(iter(cell.findings or cell.verdicts), None)
    parts = [_heading(cell)]
    if verdict is not None:
        clause = clause_of(verdict.requirements[0]) if verdict.requirements and cell.findings else ""
        word = "violates" if verdict.outcome is Outcome.FAIL else "about"
        parts += [visible(verdict.sentence or verdict.check, 1000), f"{word} {clause}" if clause else ""]
    return "\n\n".join(part for part in parts if part)


def exchange_lines(cell: CellView, max_lines: int) -> list[str]:
    """Return the events around the deciding finding's evidence as at most `max_lines` lines, the evidence marked by `>`.

    `...` stands for events that are left out. No lines where the cell has no finding, or its evidence alone takes more lines.
    """
    if not cell.findings:
        return []
    evidence = cell.evidence_of(cell.findings[0])
    chosen = next(
        (lines for radius in (3, 2, 1, 0) if len(lines := events_around(cell.events, evidence, radius)) <= max_lines),
        (),
    )
    marked = frozenset(evidence)
    return ["..." if event is None else event_line(event, cell.sessions, marked=event.n in marked) for event in chosen]


def deciding_sentence(cell: CellView) -> str:
    """Return the sentence of the deciding finding, printable and cut at 400 characters; '' for a cell without findings.

    A finding without a sentence gives the name of its check.
    """
    return visible(cell.findings[0].sentence or cell.findings[0].check, 400) if cell.findings else ""


def clause_of(requirement: str) -> str:
    """Return a requirement with its text as reports quote it, or a note that the catalogue does not have the id."""
    row = catalogue().get(requirement)
    return row.clause if row is not None else f"{visible(requirement, 40)}: not in the catalogue of this version"


def _heading(cell: CellView) -> str:
    """Return the outcome with the cell's and candidate's names, and lines about a crashed node and a cut history.

    A passed cell has no line about a crashed node.
    """
    outcome = cell.outcome
    known = " (known)" if cell.known else ""
    lines = [
        f"{OUTCOME_DISPLAY[outcome].sign} {OUTCOME_DISPLAY[outcome].heading}{known}  {visible(cell.name)}",
        f"{_INDENT}candidate {visible(cell.header.candidate)}",
    ]
    if cell.crashed_node is not None and outcome is not Outcome.PASS:
        lines.append(f"{_INDENT}{BROKE}: node {visible(cell.crashed_node)} exited unexpectedly or failed to start")
    if cell.cut_short:
        lines.append(f"{_INDENT}the run ended before this cell did: its history is incomplete")
    return "\n".join(lines)


def _finding_parts(cell: CellView, verdict: Verdict, width: int) -> Iterator[str]:
    """Yield the sentence of a verdict, then a table: expected, seen, check, requirements, message, offending event.

    Expected, seen and check are left out where the sentence has them; other lines where there is nothing to say.
    """
    yield _wrapped(verdict.sentence or f"{verdict.check}: {verdict.outcome}", width)
    table = [
        _labelled(label, text, width)
        for label, text in (("expected", verdict.expected), ("seen", verdict.seen), ("check", verdict.check))
        if text and text not in verdict.sentence  # a sentence that contains the value needs no line for it
    ]
    word = "violates" if verdict.outcome is Outcome.FAIL else "about"
    table += [_labelled(word, clause_of(requirement), width) for requirement in verdict.requirements[:1]]
    if also := verdict.requirements[1:]:
        table.append(_labelled("also", ", ".join(also), width))
    if (location := locate_evidence(verdict, cell)) is not None:
        table += [_labelled("message", location.message, width)] if location.message else []
        table.append(_labelled("by", location.exchange, width))
    yield "\n".join(table)


def _step_location(cell: CellView, verdict: Verdict) -> str:
    """Return the place of the step that a verdict is about, and its line of YAML.

    The line is left out where the scenario's file is not available. '' for a verdict without a line, as those of
    the model's rules.
    """
    if verdict.line is None:
        return ""
    place = f"step {verdict.step}  " if verdict.step else ""
    line = cell.source_line(verdict.line)
    return f"{_INDENT}{place}{visible(cell.header.path)}:{verdict.line}" + (
        f"\n{_INDENT}{_INDENT}{visible(line.strip(), 400)}" if line else ""
    )


def _exchange_text(cell: CellView, verdict: Verdict, width: int) -> str:
    """Return the events around a verdict's evidence, one on each line; '' where the history has no event of the evidence.

    Lines are cut at `width` characters; `...` stands for events that are left out.
    """
    evidence = cell.evidence_of(verdict)
    chosen = events_around(cell.events, evidence)
    if not chosen:
        return ""
    marked = frozenset(evidence)
    lines = [
        f"{_INDENT}{_INDENT}..."
        if event is None
        else _cut(_INDENT + event_line(event, cell.sessions, marked=event.n in marked), width)
        for event in chosen
    ]
    return "\n".join([f"{_INDENT}the exchange (> marks what the verdict rests on)", *lines])


def _other_findings(verdicts: list[Verdict], width: int, root: str = "") -> str:
    """Return the first `_MAX_OTHERS` of further findings as lines under a heading, and the number of the others.

    The heading names the violated row `root` that they may follow from; with '' they are findings in their own right.
    """
    lines = [
        _cut(
            f"{_INDENT}{OUTCOME_DISPLAY[verdict.outcome].sign} {verdict.check}: {visible(verdict.sentence, 400)}", width
        )
        for verdict in verdicts[:_MAX_OTHERS]
    ]
    if len(verdicts) > _MAX_OTHERS:
        lines.append(f"{_INDENT}... and {len(verdicts) - _MAX_OTHERS} more")
    return "\n".join([f"{_INDENT}may follow from {root}" if root else f"{_INDENT}also found", *lines])


def _remarks(cell: CellView, width: int) -> str:
    """Return the first `_MAX_OTHERS` remarks of a cell, and the number of the others."""
    shown = cell.remarks[:_MAX_OTHERS]
    lines = [_labelled("remark", f"{verdict.sentence} ({verdict.check})", width) for verdict in shown]
    if len(cell.remarks) > _MAX_OTHERS:
        lines.append(f"{_INDENT}... and {len(cell.remarks) - _MAX_OTHERS} more")
    return "\n".join(lines)


def _repeat_and_files(cell: CellView) -> str:
    """Return the command that repeats the cell, and the paths of its history, logs and kept directories, where they exist."""
    lines = []
    if cell.header.repeat:
        lines.append(f"{_INDENT}repeat    {visible(cell.header.repeat)}")
    if cell.file is not None:
        lines.append(f"{_INDENT}history   {visible(str(cell.file))}")
    lines += [f"{_INDENT}log       {visible(str(path))}" for path in cell.logs.values()]
    if cell.kept_directory is not None:
        lines.append(f"{_INDENT}kept      {visible(str(cell.kept_directory))}")
    return "\n".join(lines)


def _wrapped(text: str, width: int) -> str:
    """Return a text as indented lines, printable and cut at 2,000 characters."""
    return textwrap.fill(
        visible(text, 2000), width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
    )


def _labelled(label: str, text: str, width: int) -> str:
    """Return a text beside its label, with further lines indented; printable and cut at 2,000 characters."""
    return textwrap.fill(
        visible(text, 2000),
        width,
        initial_indent=f"{_INDENT}{label:<9s} ",
        subsequent_indent=" " * 12,
        break_on_hyphens=False,
    )


def _cut(line: str, width: int) -> str:
    """Return a line of at most `width` characters, with an ellipsis where it is cut."""
    return line if len(line) <= width else line[: width - 1] + "…"
