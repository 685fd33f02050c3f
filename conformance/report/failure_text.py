"""The text of a failure, for a stranger with a terminal: what was expected and seen, where, and how to see it again."""

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

_OTHERS = 6


def failure_text(cell: CellView, *, width: int = WIDTH) -> str:
    """Return what the terminal shows of a cell that did not pass.

    First the sentence with what was expected and seen and the clause; then the step in its file, the offending
    exchange, whatever else was found, the command that repeats the cell, and where its whole history is.
    """
    parts = [_head(cell)]
    if cell.known:
        parts.append(_labelled("known", cell.known, width))
    if cell.findings:
        first, *others = cell.findings
        parts += [*_finding(cell, first, width), *_step(cell, first), *_exchange(cell, first, width)]
        by_root: dict[str, list[Verdict]] = {"": []}
        for one in others:
            by_root.setdefault(cell.may_follow_from(one), []).append(one)
        parts += [_others(own, width, root) for root, own in by_root.items() if own]
    else:
        parts += [_wrapped(verdict.sentence, width) for verdict in cell.verdicts[:1] if verdict.sentence]
    if cell.remarks:
        parts.append(_remarks(cell, width))
    parts.append(_where(cell))
    return "\n\n".join(part for part in parts if part)


def failure_message(cell: CellView) -> str:
    """Return the beginning of that text, for a place that shows the rest elsewhere: what was expected and seen, and the
    row with its text. '' for a pass.
    """
    if cell.outcome is Outcome.PASS:
        return ""
    verdict = next(iter(cell.findings or cell.verdicts), None)
    parts = [_head(cell)]
    if verdict is not None:
        clause = clause_of(verdict.requirements[0]) if verdict.requirements and cell.findings else ""
        word = "violates" if verdict.outcome is Outcome.FAIL else "about"
        parts += [visible(verdict.sentence or verdict.check, 1000), f"{word} {clause}" if clause else ""]
    return "\n\n".join(part for part in parts if part)


def exchange_lines(cell: CellView, most: int) -> list[str]:
    """Return the exchange of the finding that decided, at most `most` lines, the offending ones marked with `>`."""
    if not cell.findings:
        return []
    evidence = cell.evidence_of(cell.findings[0])
    chosen = next(
        (lines for radius in (3, 2, 1, 0) if len(lines := events_around(cell.events, evidence, radius)) <= most), ()
    )
    marked = frozenset(evidence)
    return ["..." if event is None else event_line(event, cell.sessions, event.n in marked) for event in chosen]


def deciding_sentence(cell: CellView) -> str:
    """Return one line: the sentence of the finding that decided, or '' when all is well; bounded and visible."""
    return visible(cell.findings[0].sentence or cell.findings[0].check, 400) if cell.findings else ""


def clause_of(requirement: str) -> str:
    """Return a requirement as reports quote it; an id that the catalogue has not is told as such."""
    row = catalogue().get(requirement)
    return row.clause if row is not None else f"{visible(requirement, 40)}: not in the catalogue of this version"


def _head(cell: CellView) -> str:
    outcome = cell.outcome
    known = " (known)" if cell.known else ""
    lines = [
        f"{OUTCOME_DISPLAY[outcome].sign} {OUTCOME_DISPLAY[outcome].heading}{known}  {visible(cell.name)}",
        f"{_INDENT}candidate {visible(cell.header.candidate)}",
    ]
    if cell.crashed_node is not None and outcome is not Outcome.PASS:
        lines.append(f"{_INDENT}{BROKE}: node {visible(cell.crashed_node)} ended on its own, or would not start")
    if cell.cut_short:
        lines.append(f"{_INDENT}the run ended before this cell did: its history has no end")
    return "\n".join(lines)


def _finding(cell: CellView, verdict: Verdict, width: int) -> Iterator[str]:
    yield _wrapped(verdict.sentence or f"{verdict.check}: {verdict.outcome}", width)
    table = [
        _labelled(label, text, width)
        for label, text in (("expected", verdict.expected), ("seen", verdict.seen), ("check", verdict.check))
        if text and text not in verdict.sentence  # a sentence that says it all needs no table of it
    ]
    word = "violates" if verdict.outcome is Outcome.FAIL else "about"
    table += [_labelled(word, clause_of(one), width) for one in verdict.requirements[:1]]
    if also := verdict.requirements[1:]:
        table.append(_labelled("also", ", ".join(also), width))
    if (location := locate_evidence(verdict, cell)) is not None:
        table += [_labelled("message", location.message, width)] if location.message else []
        table.append(_labelled("by", location.exchange, width))
    yield "\n".join(table)


def _step(cell: CellView, verdict: Verdict) -> Iterator[str]:
    if verdict.line is None:
        return
    place = f"step {verdict.step}  " if verdict.step else ""
    line = cell.source_line(verdict.line)
    yield f"{_INDENT}{place}{visible(cell.header.path)}:{verdict.line}" + (
        f"\n{_INDENT}{_INDENT}{visible(line.strip(), 400)}" if line else ""
    )


def _exchange(cell: CellView, verdict: Verdict, width: int) -> Iterator[str]:
    evidence = cell.evidence_of(verdict)
    chosen = events_around(cell.events, evidence)
    if not chosen:
        return
    marked = frozenset(evidence)
    lines = [
        f"{_INDENT}{_INDENT}..."
        if event is None
        else _cut(_INDENT + event_line(event, cell.sessions, event.n in marked), width)
        for event in chosen
    ]
    yield "\n".join([f"{_INDENT}the exchange (> marks what the verdict rests on)", *lines])


def _others(others: list[Verdict], width: int, root: str = "") -> str:
    """List further findings; with `root` those that may follow from the violation of that row."""
    lines = [
        _cut(f"{_INDENT}{OUTCOME_DISPLAY[one.outcome].sign} {one.check}: {visible(one.sentence, 400)}", width)
        for one in others[:_OTHERS]
    ]
    if len(others) > _OTHERS:
        lines.append(f"{_INDENT}... and {len(others) - _OTHERS} more")
    return "\n".join([f"{_INDENT}may follow from {root}" if root else f"{_INDENT}also found", *lines])


def _remarks(cell: CellView, width: int) -> str:
    lines = [_labelled("remark", f"{one.sentence} ({one.check})", width) for one in cell.remarks[:_OTHERS]]
    if len(cell.remarks) > _OTHERS:
        lines.append(f"{_INDENT}... and {len(cell.remarks) - _OTHERS} more")
    return "\n".join(lines)


def _where(cell: CellView) -> str:
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
    return textwrap.fill(
        visible(text, 2000), width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
    )


def _labelled(label: str, text: str, width: int) -> str:
    return textwrap.fill(
        visible(text, 2000),
        width,
        initial_indent=f"{_INDENT}{label:<9s} ",
        subsequent_indent=" " * 12,
        break_on_hyphens=False,
    )


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"
