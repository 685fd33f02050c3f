"""`python -m conformance.model.exploration`: explore the model, and print, write or check docs/failure-analysis.md.

A tool of the project's developers, with a process of its own; a test runs it with `--check`. A *scope* is a bounded world of
servers, messages and faults, a *way* a minimal set of causes of a loss or a duplicate.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from conformance.model.exploration.causes import Way
from conformance.model.exploration.page import Analysis, analyse, render_page, scope_line
from conformance.model.exploration.scope import LARGE_SCOPES, SCOPES

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def explore(
    scope: Annotated[
        list[str] | None, typer.Option(help="explore only these scopes and print their ways; repeatable")
    ] = None,
    write: Annotated[Path | None, typer.Option(help="write the page to this file")] = None,
    check: Annotated[Path | None, typer.Option(help="exit 1 when this page is out of date", exists=True)] = None,
) -> None:
    """Explore a model of servers that obey the documents, and print every way to lose or duplicate an acknowledged message."""
    known = {each.name for each in (*SCOPES, *LARGE_SCOPES)}
    for name in scope or ():
        if name not in known:
            typer.echo(f"--scope {name}: one of {', '.join(sorted(known))}", err=True)
            raise typer.Exit(2)
    if scope and (write or check):
        typer.echo("--write and --check need every scope: leave out --scope", err=True)
        raise typer.Exit(2)
    analyses = []
    for each in (*SCOPES, *LARGE_SCOPES):
        if scope and each.name not in scope:
            continue
        analyses.append(analyse(each))
        typer.echo(scope_line(analyses[-1]), err=bool(write or check))
        if not write and not check:
            _print_ways(analyses[-1])
    if write:
        write.write_text(render_page(analyses), "utf-8")
    if check and check.read_text("utf-8") != render_page(analyses):
        typer.echo(f"{check} is out of date: write it with --write {check}", err=True)
        raise typer.Exit(1)


def _print_ways(analysis: Analysis) -> None:
    """Print the ways that were found in one scope, on standard output."""
    for way in analysis.ways:
        typer.echo(_format_way(way))


def _format_way(way: Way) -> str:
    """Return a way as lines: its outcome and causes, then its steps."""
    return "\n".join([f"  {way.outcome}: {'; '.join(sorted(way.causes))}", *(f"    {step}" for step in way.steps)])


if __name__ == "__main__":
    sys.exit(app())
