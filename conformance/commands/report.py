"""`conformance report` and `diff`: the doors to the pages, and to the comparison of two runs."""

from pathlib import Path

import typer

from conformance import paths
from conformance.report.book import read_book
from conformance.report.compare import as_text, diff
from conformance.report.site import build
from conformance.results.errors import RunDirectoryError


def build_report(run_dir: Path, out: Path) -> int:
    """Build the pages of a run; 2 when it cannot be read."""
    pinned = paths.corpus().parent / "reports" / "allure"
    allure = pinned if (pinned / "package.json").is_file() else None
    try:
        built = build(run_dir, out, corpus=paths.corpus(), allure=allure)
    except (RunDirectoryError, OSError) as error:
        typer.echo(error, err=True)
        return 2
    for note in built.notes:
        typer.echo(note)
    typer.echo(f"page       {built.page}")
    return 0


def print_diff(before: Path, after: Path) -> int:
    """Print what changed between two runs; 1 when a cell regressed, 2 when they cannot be read."""
    try:
        difference = diff(read_book(before), read_book(after))
    except RunDirectoryError as error:
        typer.echo(error, err=True)
        return 2
    typer.echo(as_text(difference))
    return 1 if difference.regressions else 0
