"""The summary at the end of a run: for a terminal, and for GitHub Actions as annotations and a step summary.

`conformance run` calls this when a run has ended. An *annotation* is a line that GitHub shows beside a file; a *square* is one
scenario with one candidate. A *remark* is a pass although a `should` row is violated. `visible` and the functions `escape_...`
make texts of a server harmless (`escaping`). A *root cause* is a violated row of the catalogue from which other violations may
follow; a *known* failure is in the candidate's baseline.
"""

from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.report.escaping import code_span, escape_annotation, escape_markdown, visible
from conformance.report.root_causes import RootCause, find_root_causes, order_by_root_cause
from conformance.report.run_summary import CellSummary, MatrixSquare, RunSummary, cells_of_candidate, outcome_matrix
from conformance.verdicts import Outcome
from conformance.verdicts.outcome import OK_OUTCOMES, OUTCOME_DISPLAY

_MAX_FAILURES = 20
_MAX_REMARKS = 3
"""Remarks of one cell that the summary shows."""
_MAX_CAUSES = 10
_MIN_COLUMN = 12
"""Characters that the matrix needs for each candidate; with less, only the sums of each candidate are shown."""
_MAX_ANNOTATIONS = 10
"""Annotations of one level that GitHub shows for each step; it drops the rest."""


def terminal_summary(run: RunSummary, *, width: int, colour: bool) -> str:
    """Return the matrix, the root causes, the cells that did not pass, remarks, counts and notes, in `width` columns.

    Where the matrix has no room for all candidates, the outcomes of each candidate take its place.
    Long lists are cut; those of root causes and of cells that did not pass end with the number of the others. With `colour` the
    text has escape sequences.
    """
    out = StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        highlight=False,
    )
    has_room = len(run.candidates) * _MIN_COLUMN <= width
    console.print(_matrix_table(run) if has_room else _candidates_table(run))
    root_causes = find_root_causes(run.cells)
    for cause in root_causes[:_MAX_CAUSES]:
        console.print(Text(_cause_text(cause, run), style="bold"))
    if len(root_causes) > _MAX_CAUSES:
        console.print(f"... and {len(root_causes) - _MAX_CAUSES} more rows")
    not_ok = _not_ok_cells(run, root_causes)
    for cell, root in not_ok[:_MAX_FAILURES]:
        sign = (f"{OUTCOME_DISPLAY[cell.outcome].sign} ", OUTCOME_DISPLAY[cell.outcome].style)
        console.print(Text.assemble(sign, (visible(cell.name), "bold"), f"  {visible(cell.header.candidate)}"))
        console.print(Text(f"  {cell.sentence or cell.outcome}"))
        if root:
            console.print(Text(f"  may follow from {root}", style="dim"))
        if cell.known:
            console.print(Text(f"  known: {visible(cell.known)}", style="yellow"))
    if len(not_ok) > _MAX_FAILURES:
        console.print(f"... and {len(not_ok) - _MAX_FAILURES} more")
    for cell in [cell for cell in run.cells if cell.remarks][:_MAX_FAILURES]:
        console.print(
            Text.assemble(("! ", "yellow"), (visible(cell.name), "bold"), f"  {visible(cell.header.candidate)}")
        )
        console.print(
            Text("\n".join(f"  remark: {sentence}" for sentence in cell.remarks[:_MAX_REMARKS]), style="yellow")
        )
    console.print(_outcome_counts(run))
    for note in (*run.notes(), *run.shortfalls()):
        console.print(Text(note, style="yellow"))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def github_annotations(run: RunSummary) -> Iterator[str]:
    """Yield GitHub workflow commands for the cells that did not pass, at most `_MAX_ANNOTATIONS` of each level.

    Violations and harness errors give errors, inconclusive cells warnings, and known failures notices. Paths of files are
    those of the node ids: relative to pytest's root, which in CI is the repository's root. An annotation whose path is not one
    of the user's files (`is_users_file`) names no file.
    """
    not_ok = [cell for cell, _ in _not_ok_cells(run, find_root_causes(run.cells))]
    for level in ("error", "warning", "notice"):
        for cell in [cell for cell in not_ok if _annotation_level(cell) == level][:_MAX_ANNOTATIONS]:
            file = cell.header.nodeid.partition("::")[0]
            place = (
                f"file={escape_annotation(file, is_property=True)},line={_deciding_line(cell)},"
                if is_users_file(file)
                else ""
            )
            title = escape_annotation(f"{cell.name} ({cell.header.candidate})", is_property=True)
            yield f"::{level} {place}title={title}::{escape_annotation(_annotation_text(cell))}"


def is_users_file(file: str) -> bool:
    """Return whether a path in a node id lies below pytest's root and not in `site-packages`, by its text alone."""
    return not file.startswith(("/", "..")) and "site-packages" not in Path(file).parts


def github_step_summary(run: RunSummary) -> str:
    """Return the Markdown that GitHub shows as the summary of a step: counts, notes, matrix, remarks, and what did not pass.

    Long lists are cut; those of root causes and of cells that did not pass end with the number of the others. Of a cell's remarks
    only the first is shown.
    """
    lines = [f"## Conformance run {escape_markdown(run.header.run)}", "", _outcome_counts(run).plain, ""]
    lines += [f"> {escape_markdown(note)}" for note in (*run.notes(), *run.shortfalls())]
    names = [escape_markdown(name) for name in run.candidates]
    lines += ["", f"| scenario | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for line in outcome_matrix(run):
        squares = " | ".join(_square_text(square).plain for square in line.squares)
        lines.append(f"| {escape_markdown(line.scenario)} | {squares} |")
    if remarked := [cell for cell in run.cells if cell.remarks]:
        lines += ["", "### Remarks: broken `should` rows", ""]
        lines += [
            f"- **{escape_markdown(cell.name)}**: {escape_markdown(cell.remarks[0])}"
            for cell in remarked[:_MAX_FAILURES]
        ]
    root_causes = find_root_causes(run.cells)
    not_ok = _not_ok_cells(run, root_causes)
    if not_ok:
        lines += ["", "### What did not pass", ""]
    lines += [f"- **{escape_markdown(_cause_text(cause, run))}**" for cause in root_causes[:_MAX_CAUSES]]
    if len(root_causes) > _MAX_CAUSES:
        lines.append(f"- ... and {len(root_causes) - _MAX_CAUSES} more rows")
    for cell, root in not_ok[:_MAX_FAILURES]:
        heading = f"**{escape_markdown(cell.name)}** ({escape_markdown(cell.header.candidate)})"
        lines.append(
            f"- {OUTCOME_DISPLAY[cell.outcome].sign} {heading}: {escape_markdown(cell.sentence or cell.outcome)}"
        )
        lines += [f"  may follow from {root}"] if root else []
        lines += [f"  known: {escape_markdown(cell.known)}"] if cell.known else []
        if cell.deciding_location is not None:
            lines.append(f"  {escape_markdown(cell.deciding_location.exchange, 400)}")
        if cell.header.repeat:
            lines.append(f"  {code_span(cell.header.repeat)}")
    if len(not_ok) > _MAX_FAILURES:
        lines.append(f"- ... and {len(not_ok) - _MAX_FAILURES} more")
    return "\n".join(lines) + "\n"


def _not_ok_cells(run: RunSummary, root_causes: Sequence[RootCause]) -> list[tuple[CellSummary, str]]:
    """Return the cells that neither passed nor are not applicable, by root cause.

    Each is given with the row that its violation may follow from, or ''.
    """
    cells = [cell for cell in run.cells if cell.outcome not in OK_OUTCOMES]
    return order_by_root_cause(cells, root_causes)


def _cause_text(cause: RootCause, run: RunSummary) -> str:
    """Return the sentence of a root cause, after the candidate's name where the run has several candidates.

    A root cause is a violated row of the catalogue from which other violations may follow.
    """
    return cause.sentence if len(run.candidates) == 1 else f"{visible(cause.candidate)}: {cause.sentence}"


def _annotation_level(cell: CellSummary) -> str:
    """Return the level of GitHub's annotation for a cell that neither passed nor is not applicable.

    `notice` for a known failure, else `warning` for an inconclusive cell, else `error`.
    """
    return "notice" if cell.known else "warning" if cell.outcome is Outcome.INCONCLUSIVE else "error"


def report_to_github(run: RunSummary, environment: Mapping[str, str]) -> Iterator[str]:
    """Under GitHub Actions, yield the annotations to print and append the step summary to its file; else do nothing.

    The summary is appended after the last annotation was taken. `environment` has the process's environment variables. Raises
    OSError where the step summary's file cannot be written.
    """
    if environment.get("GITHUB_ACTIONS") != "true":
        return
    yield from github_annotations(run)
    if path := environment.get("GITHUB_STEP_SUMMARY"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(github_step_summary(run))


def _annotation_text(cell: CellSummary) -> str:
    """Return the text of a cell's annotation: its sentence or else outcome, and what there is of the following, a line each.

    The baseline's comment on a known failure, the offending event, and the command that repeats the cell.
    """
    known = [f"known: {cell.known}"] if cell.known else []
    exchange = [cell.deciding_location.exchange] if cell.deciding_location is not None else []
    return "\n".join([cell.sentence or str(cell.outcome), *known, *exchange, cell.header.repeat]).strip()


def _deciding_line(cell: CellSummary) -> int:
    """Return the line in the scenario's file of the first verdict with the cell's outcome and a line, or the scenario's."""
    decided = (verdict.line for verdict in cell.verdicts if verdict.outcome is cell.outcome and verdict.line)
    return next(decided, cell.header.line)


def _matrix_table(run: RunSummary) -> Table:
    """Return the matrix of scenarios and candidates as a table for the terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("scenario", overflow="fold")
    for name in run.candidates:
        table.add_column(Text(visible(name)), overflow="fold")
    for line in outcome_matrix(run):
        table.add_row(Text(visible(line.scenario)), *(_square_text(square) for square in line.squares))
    return table


def _candidates_table(run: RunSummary) -> Table:
    """Return the outcomes of all scenarios for each candidate as a table for the terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("candidate", overflow="fold")
    table.add_column("cells of all scenarios")
    for name in run.candidates:
        table.add_row(Text(visible(name)), _square_text(MatrixSquare(cells_of_candidate(run.cells, name))))
    return table


def _square_text(square: MatrixSquare) -> Text:
    """Return signs and numbers of the outcomes in a square, or `not run`."""
    parts = [
        (f"{OUTCOME_DISPLAY[outcome].sign} {count}", OUTCOME_DISPLAY[outcome].style) for outcome, count in square.counts
    ]
    return Text("  ").join(Text(text, style) for text, style in parts) if parts else Text("not run", "dim")


def _outcome_counts(run: RunSummary) -> Text:
    """Return the numbers of cells by outcome: `90 pass, 2 fail`; `no cell was run` for none."""
    parts = [
        Text(f"{count} {o.replace('-', ' ')}", OUTCOME_DISPLAY[o].style) for o, count in run.outcomes.items() if count
    ]
    return Text(", ").join(parts) if parts else Text("no cell was run")
