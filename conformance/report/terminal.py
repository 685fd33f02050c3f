"""The end of a run in the terminal: matrix and failures, plain where it is none; annotations and summary for GitHub."""

from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.report.escaping import code_span, escape_annotation, escape_markdown, visible
from conformance.report.evidence_location import EvidenceLocation
from conformance.report.root_causes import RootCause, find_root_causes, order_by_root_cause
from conformance.report.run_summary import CellSummary, MatrixSquare, RunSummary, outcome_matrix
from conformance.verdicts import Outcome
from conformance.verdicts.outcome import OK_OUTCOMES, OUTCOME_DISPLAY

_FAILURES = 20
_REMARKS = 3
"""Remarks of one cell that the summary shows."""
_CAUSES = 10
_ANNOTATIONS = 10
"""GitHub shows so many of a kind for each step, and drops the rest."""


def terminal_summary(run: RunSummary, *, width: int, colour: bool) -> str:
    """Return the matrix, the sentences of what did not pass and the counts, at most `width` columns wide."""
    out = StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        highlight=False,
    )
    console.print(_table(run))
    found = find_root_causes(run.cells)
    for cause in found[:_CAUSES]:
        console.print(Text(_cause(cause, run), style="bold"))
    if len(found) > _CAUSES:
        console.print(f"... and {len(found) - _CAUSES} more rows")
    troubles = _troubles(run, found)
    for cell, root in troubles[:_FAILURES]:
        sign = (f"{OUTCOME_DISPLAY[cell.outcome].sign} ", OUTCOME_DISPLAY[cell.outcome].style)
        console.print(Text.assemble(sign, (visible(cell.name), "bold"), f"  {visible(cell.header.candidate)}"))
        console.print(Text(f"  {cell.sentence or cell.outcome}"))
        if root:
            console.print(Text(f"  may follow from {root}", style="dim"))
        if cell.known:
            console.print(Text(f"  known: {visible(cell.known)}", style="yellow"))
    if len(troubles) > _FAILURES:
        console.print(f"... and {len(troubles) - _FAILURES} more")
    for cell in [cell for cell in run.cells if cell.remarks][:_FAILURES]:
        console.print(
            Text.assemble(("! ", "yellow"), (visible(cell.name), "bold"), f"  {visible(cell.header.candidate)}")
        )
        console.print(Text("\n".join(f"  remark: {sentence}" for sentence in cell.remarks[:_REMARKS]), style="yellow"))
    console.print(_counts(run))
    for words in (*run.notes(), *run.shortfalls()):
        console.print(Text(words, style="yellow"))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def github_annotations(run: RunSummary) -> Iterator[str]:
    """Yield GitHub workflow commands: an error for each violation and harness error, a warning for what is open, a
    notice for what is known to fail.

    Files are named as the node ids name them: from where the run was started, which in CI is the repository's root. A
    scenario of the installed package lies in no repository: what is said of it names no file.
    """
    troubles = [cell for cell, _ in _troubles(run, find_root_causes(run.cells))]
    for level in ("error", "warning", "notice"):
        for cell in [cell for cell in troubles if _level(cell) == level][:_ANNOTATIONS]:
            file = cell.header.nodeid.partition("::")[0]
            place = (
                f"file={escape_annotation(file, is_property=True)},line={_line(cell)}," if is_users_file(file) else ""
            )
            title = escape_annotation(f"{cell.name} ({cell.header.candidate})", is_property=True)
            yield f"::{level} {place}title={title}::{escape_annotation(_told(cell))}"


def is_users_file(file: str) -> bool:
    """Whether a scenario's file, as a node id names it, is one of the user's and none of the installed package."""
    return not file.startswith(("/", "..")) and "site-packages" not in Path(file).parts


def github_step_summary(run: RunSummary) -> str:
    """Return the Markdown for GITHUB_STEP_SUMMARY."""
    lines = [f"## Conformance run {escape_markdown(run.header.run)}", "", _counts(run).plain, ""]
    lines += [f"> {escape_markdown(words)}" for words in (*run.notes(), *run.shortfalls())]
    names = [escape_markdown(name) for name in run.candidates]
    lines += ["", f"| scenario | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for line in outcome_matrix(run):
        squares = " | ".join(_square(square).plain for square in line.squares)
        lines.append(f"| {escape_markdown(line.scenario)} | {squares} |")
    if noted := [cell for cell in run.cells if cell.remarks]:
        lines += ["", "### Remarks: broken `should` rows", ""]
        lines += [
            f"- **{escape_markdown(cell.name)}**: {escape_markdown(cell.remarks[0])}" for cell in noted[:_FAILURES]
        ]
    found = find_root_causes(run.cells)
    troubles = _troubles(run, found)
    if troubles:
        lines += ["", "### What did not pass", ""]
    lines += [f"- **{escape_markdown(_cause(cause, run))}**" for cause in found[:_CAUSES]]
    for cell, root in troubles[:_FAILURES]:
        named = f"**{escape_markdown(cell.name)}** ({escape_markdown(cell.header.candidate)})"
        lines.append(
            f"- {OUTCOME_DISPLAY[cell.outcome].sign} {named}: {escape_markdown(cell.sentence or cell.outcome)}"
        )
        lines += [f"  may follow from {root}"] if root else []
        lines += [f"  known: {escape_markdown(cell.known)}"] if cell.known else []
        lines += [f"  {escape_markdown(location.exchange, 400)}" for location in _decisive(cell)]
        if cell.header.repeat:
            lines.append(f"  {code_span(cell.header.repeat)}")
    if len(troubles) > _FAILURES:
        lines.append(f"- ... and {len(troubles) - _FAILURES} more")
    return "\n".join(lines) + "\n"


def _troubles(run: RunSummary, found: Sequence[RootCause]) -> list[tuple[CellSummary, str]]:
    """Return what did not pass, causes first, with the row that a violation may follow from."""
    cells = [cell for cell in run.cells if cell.outcome not in OK_OUTCOMES]
    return order_by_root_cause(cells, found)


def _cause(cause: RootCause, run: RunSummary) -> str:
    """Return the sentence of a cause; with several candidates it names whose it is."""
    return cause.sentence if len(run.candidates) == 1 else f"{visible(cause.candidate)}: {cause.sentence}"


def _level(cell: CellSummary) -> str:
    return "notice" if cell.known else "warning" if cell.outcome is Outcome.INCONCLUSIVE else "error"


def report_to_github(run: RunSummary, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the annotations to print and append the step summary to its file, when GitHub Actions runs this.

    `environment` is the process's. Raises OSError when the file that GitHub names cannot be written.
    """
    if environment.get("GITHUB_ACTIONS") != "true":
        return
    yield from github_annotations(run)
    if place := environment.get("GITHUB_STEP_SUMMARY"):
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(github_step_summary(run))


def _told(cell: CellSummary) -> str:
    """Return a cell's sentence, then the offending exchange and the command that repeats it, a line each."""
    known = [f"known: {cell.known}"] if cell.known else []
    exchanges = [location.exchange for location in _decisive(cell)]
    return "\n".join([cell.sentence or str(cell.outcome), *known, *exchanges, cell.header.repeat]).strip()


def _decisive(cell: CellSummary) -> list[EvidenceLocation]:
    pairs = zip(cell.verdicts, cell.evidence_locations, strict=True)
    return [location for verdict, location in pairs if location is not None and verdict.outcome is cell.outcome][:1]


def _line(cell: CellSummary) -> int:
    decided = (verdict.line for verdict in cell.verdicts if verdict.outcome is cell.outcome and verdict.line)
    return next(decided, cell.header.line)


def _table(run: RunSummary) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("scenario", overflow="fold")
    for name in run.candidates:
        table.add_column(Text(visible(name)), overflow="fold")
    for line in outcome_matrix(run):
        table.add_row(Text(visible(line.scenario)), *(_square(square) for square in line.squares))
    return table


def _square(square: MatrixSquare) -> Text:
    parts = [
        (f"{OUTCOME_DISPLAY[outcome].sign} {count}", OUTCOME_DISPLAY[outcome].style) for outcome, count in square.counts
    ]
    return Text("  ").join(Text(text, style) for text, style in parts) if parts else Text("not run", "dim")


def _counts(run: RunSummary) -> Text:
    parts = [
        Text(f"{count} {o.replace('-', ' ')}", OUTCOME_DISPLAY[o].style) for o, count in run.outcomes.items() if count
    ]
    return Text(", ").join(parts) if parts else Text("no cell was run")
