"""`conformance report` and `diff`: the doors to the pages, and to the comparison of two runs."""

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
    paged: PageSelection | None = None,
) -> int:
    """Build the pages of a run; 2 when it cannot be read, 3 when the machine ran out of something.

    `earlier` is the folder of the runs before, by default the one that the run lies in. The site is complete without
    Allure's. `with_allure` installs the pinned Allure where it is missing, and says in one line when that fails;
    `install_allure` does too, and such a failure is an error. `history` is a file that keeps Allure's trend,
    `paged` says which cells get a page.
    """
    allure = AllureOptions(paths.allure(), paths.cache(), install=with_allure, history=history)
    try:
        if install_allure:
            typer.echo(f"allure     {ensure_allure_installed(allure.pinned, allure.cache)}")
        before = find_earlier_runs(run_dir, earlier if earlier is not None else run_dir.absolute().parent)
        built = build_site(run_dir, out, corpus=paths.corpus(), allure=allure, earlier=before, paged=paged)
    except (RunDirectoryError, AllureMissing, OSError) as error:
        typer.echo(describe_harness_error(error) if shortage_of(error) else error, err=True)
        return 3 if shortage_of(error) else 2
    for note in built.notes:
        typer.echo(visible(note))
    typer.echo(f"page       {built.page}")
    return 0


def print_diff(before: Path, after: Path, should: Should = "warn") -> int:
    """Print what changed between two runs; 1 when a cell regressed, 2 when they cannot be read."""
    try:
        difference = compare_runs(read_run_summary(before), read_run_summary(after), should)
    except RunDirectoryError as error:
        typer.echo(error, err=True)
        return 2
    typer.echo(comparison_text(difference))
    return 1 if difference.of(ChangeKind.REGRESSION) else 0
