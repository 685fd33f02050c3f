"""`conformance merge`: the shards of a run, put together into one run directory."""

from collections.abc import Sequence
from pathlib import Path

import typer
from pydantic import ValidationError

from conformance.report.escaping import visible
from conformance.results.layout import RunDirectoryError
from conformance.results.merge import merge_runs
from conformance.results.reader import read_cell_ends
from conformance.verdicts.outcome import NOT_JUDGED, OK_OUTCOMES, OUTCOME_DISPLAY, Outcome


def merge_and_say(runs: Sequence[Path], out: Path) -> int:
    """Merge, and print how many cells ended how. Return 2 when the runs are no parts of one run, else the exit code that
    the whole run would have had; what a baseline knew when a shard was run is expected here too."""
    try:
        footer = merge_runs(runs, out)
        ends = read_cell_ends(out).ends
    except (RunDirectoryError, ValidationError, OSError) as error:
        typer.echo(visible(str(error), 300), err=True)
        return 2
    counts = ", ".join(
        f"{OUTCOME_DISPLAY[one].sign} {count} {OUTCOME_DISPLAY[one].category}"
        for one, count in footer.outcomes.items()
        if count
    )
    typer.echo(f"{footer.cells} cells of {len(runs)} runs: {counts}")
    if footer.cut_short or footer.missing:
        typer.echo(f"{footer.cut_short} cut short, {footer.missing} missing")
    typer.echo(f"run        {out}")
    unexpected = {end.outcome if end else NOT_JUDGED for _, end in ends if end is None or end.known is None}
    if Outcome.FAIL in unexpected:
        return 1
    return 3 if footer.missing or unexpected - OK_OUTCOMES else 0
