"""`conformance aggregate`: the door to the Spark job."""

from pathlib import Path

import typer

from conformance.results.errors import RunDirectoryError


def aggregate_runs(
    runs: list[Path], out: Path, master: str, conf: list[str], fail_on: str, *, make_jvm_cache: bool = False
) -> int:
    """Aggregate runs; 1 when there is something to fail on, 2 when they or the options cannot be used."""
    try:
        from conformance.spark.java import JavaMissing
        from conformance.spark.job import aggregate, failing_from
    except ModuleNotFoundError as error:
        typer.echo(f"{error.name} is missing: pip install 'smtp-conformance[spark]'", err=True)
        return 2
    settings = dict(pair.partition("=")[::2] for pair in conf)
    if wrong := [pair for pair in conf if "=" not in pair]:
        typer.echo(f"--conf {wrong[0]}: write key=value", err=True)
        return 2
    try:
        summary = aggregate(
            runs, out, master=master, conf=settings, fail_on=failing_from(fail_on), make_jvm_cache=make_jvm_cache
        )
    except (RunDirectoryError, JavaMissing, ValueError) as error:
        typer.echo(error, err=True)
        return 2
    typer.echo(
        f"{summary.runs} runs ({summary.added} new), {summary.cells} cells, {summary.cut_short} of them cut short, "
        f"{summary.damaged} damaged lines"
    )
    typer.echo(", ".join(f"{what}: {count}" for what, count in summary.found.items()))
    typer.echo(f"page       {summary.page}")
    return summary.exit_code
