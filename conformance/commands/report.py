"""`conformance report` and `conformance diff`: the pages of a run, and the comparison of two runs.

`conformance.report` writes the pages and compares the runs; this module prints what was written, and decides the exit
code.
"""

from pathlib import Path

import typer

from conformance import paths
from conformance.report.allure_site import AllureMissing, ensure_allure_installed
from conformance.report.cell_pages import PageSelection
from conformance.report.compare import compare_runs, comparison_text
from conformance.report.earlier_runs import find_earlier_runs
from conformance.report.escaping import visible
from conformance.report.run_summary import read_run_summary
from conformance.report.site import AllureOptions, build_site
from conformance.results.layout import RunDirectoryError
from conformance.shortage import describe_harness_error, shortage_of
from conformance.verdicts.changes import ChangeKind, Should


def build_report(
    run_dir: Path,
    out: Path,
    *,
    earlier: Path | None = None,
    install_allure: bool = False,
    with_allure: bool = False,
    history: Path | None = None,
    selection: PageSelection | None = None,
) -> int:
    """Build the pages of a run in `out`. Returns 2 when a file cannot be read or written, 3 when the machine ran out of something.

    `earlier` is the folder of earlier runs, by default the one that contains the run. `install_allure` and
    `with_allure` install the pinned Allure where it is missing; a failure returns 2 with the first, and prints a line
    with the second. Without them Allure's site is built where Allure is installed. `history` is the file with Allure's
    trend, `selection` says which cells get a page, by default those with a finding. Otherwise returns 0.
    """
    allure = AllureOptions(paths.allure(), paths.cache(), install=with_allure, history=history)
    try:
        if install_allure:
            typer.echo(f"allure     {ensure_allure_installed(allure.pinned, allure.cache)}")
        earlier_runs = find_earlier_runs(run_dir, earlier if earlier is not None else run_dir.absolute().parent)
        built = build_site(run_dir, out, corpus=paths.corpus(), allure=allure, earlier=earlier_runs, paged=selection)
    except (RunDirectoryError, AllureMissing, OSError) as error:
        typer.echo(describe_harness_error(error) if shortage_of(error) else error, err=True)
        return 3 if shortage_of(error) else 2
    for note in built.notes:
        typer.echo(visible(note))
    typer.echo(f"page       {built.page}")
    return 0


def print_diff(before: Path, after: Path, should: Should = "warn") -> int:
    """Print what changed between two runs. Returns 1 when a cell regressed, 2 when a run cannot be read, else 0.

    A cell regressed if it passed before, and now fails or cannot be judged. With `should` as "fail", a cell that passed with a
    violated `should` requirement counts as failed.
    """
    try:
        difference = compare_runs(read_run_summary(before), read_run_summary(after), should)
    except RunDirectoryError as error:
        typer.echo(error, err=True)
        return 2
    typer.echo(comparison_text(difference))
    return 1 if difference.changes_of(ChangeKind.REGRESSION) else 0
