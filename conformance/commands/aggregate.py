"""`conformance aggregate`: the door to the Spark job."""

import sys
from pathlib import Path

from conformance.results.errors import RunDirectoryError


def aggregate_runs(runs: list[Path], out: Path, master: str, conf: list[str], fail_on: str) -> int:
    """Aggregate runs; 1 when there is something to fail on, 2 when they or the options cannot be used."""
    try:
        from conformance.spark.java import JavaMissing
        from conformance.spark.job import aggregate, failing_from
    except ModuleNotFoundError as error:
        print(f"{error.name} is missing: pip install 'smtp-conformance[spark]'", file=sys.stderr)
        return 2
    settings = dict(pair.partition("=")[::2] for pair in conf)
    if wrong := [pair for pair in conf if "=" not in pair]:
        print(f"--conf {wrong[0]}: write key=value", file=sys.stderr)
        return 2
    try:
        summary = aggregate(runs, out, master=master, conf=settings, fail_on=failing_from(fail_on))
    except (RunDirectoryError, JavaMissing, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{summary.runs} runs ({summary.added} new), {summary.cells} cells, {summary.damaged} damaged lines")
    print(", ".join(f"{what}: {count}" for what, count in summary.found.items()))
    print(f"page       {summary.page}")
    return summary.exit_code
