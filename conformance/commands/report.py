"""`conformance report` and `diff`: the doors to the pages, and to the comparison of two runs."""

import sys
from pathlib import Path

from conformance import paths
from conformance.report.book import read_book
from conformance.report.compare import as_text, diff
from conformance.report.site import build
from conformance.results.errors import RunDirectoryError


def build_report(run_dir: Path, out: Path) -> int:
    """Build the pages of a run; 2 when it cannot be read."""
    pinned = paths.corpus().parent / "allure"
    allure = pinned if (pinned / "package.json").is_file() else None
    try:
        built = build(run_dir, out, corpus=paths.corpus(), allure=allure)
    except (RunDirectoryError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    for note in built.notes:
        print(note)
    print(f"page       {built.page}")
    return 0


def print_diff(before: Path, after: Path) -> int:
    """Print what changed between two runs; 1 when a cell regressed, 2 when they cannot be read."""
    try:
        difference = diff(read_book(before), read_book(after))
    except RunDirectoryError as error:
        print(error, file=sys.stderr)
        return 2
    print(as_text(difference))
    return 1 if difference.regressions else 0
