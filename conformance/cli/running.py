"""Commands that run scenarios, and that read the corpus and its requirements.

Each function has the arguments of a command, and ends it by raising typer.Exit with the exit code that the command's function in
`conformance.commands` returns. What a command needs is imported when it is called.
"""

from pathlib import Path
from typing import Annotated

import typer

from conformance.cli.app import RunDir, app


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def run(context: typer.Context) -> None:
    """Run scenarios against a mail server with pytest. Accepts all arguments of pytest, and those that `-h` lists.

    Without a path all scenarios that come with the harness (the corpus) are run. Examples:

    conformance run --candidate postfix scenarios/relay

    conformance run -k inbound --clock scaled --scale 60
    """
    from conformance.commands.run import run_pytest

    raise typer.Exit(run_pytest(context.args))


@app.command("list")
def list_cells(
    paths: Annotated[list[Path] | None, typer.Argument(help="scenario files or folders; default: the corpus")] = None,
    grid: Annotated[str, typer.Option(help="how many combinations of faults: smoke, pairwise, full")] = "smoke",
    only: Annotated[list[str] | None, typer.Option(help="a cell's id, or SCENARIO[AXIS=VALUE]; repeatable")] = None,
    requirement: Annotated[
        list[str] | None, typer.Option(help="a requirement (SR-MNT-03) or a group of them (MNT); repeatable")
    ] = None,
) -> None:
    """Print the ids of cells, which `conformance run` accepts. A cell is a scenario with one value for each axis of its matrix."""
    from conformance.commands.corpus import print_list

    raise typer.Exit(print_list(paths or [], grid, only or (), requirement or ()))


@app.command()
def validate(
    paths: Annotated[list[Path] | None, typer.Argument(help="scenario files or folders; default: the corpus")] = None,
) -> None:
    """Check scenario files and print every error in them, as path:line:col: message."""
    from conformance.commands.corpus import print_problems

    raise typer.Exit(print_problems(paths or []))


@app.command()
def judge(
    run_dir: RunDir,
    scenarios: Annotated[
        list[Path] | None, typer.Option(help="files or folders of the scenarios that were run; default: the corpus")
    ] = None,
) -> None:
    """Judge the stored histories of a run again, and print where the verdicts differ from the recorded ones."""
    from conformance.commands.judge import judge_run

    raise typer.Exit(judge_run(run_dir, scenarios or []))


@app.command()
def requirements(
    uncovered: Annotated[bool, typer.Option("--uncovered", help="only requirements that no scenario covers")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="a JSON list: id, level, scenarios, defects, model, spark")
    ] = False,
    write: Annotated[
        Path | None, typer.Option(help="write the requirements as a page (Markdown) to this file, and print nothing")
    ] = None,
) -> None:
    """Print all requirements: which scenarios, rules and Spark queries judge each, and which defects of the reference break it."""
    from conformance.commands.corpus import print_requirements, write_requirements

    raise typer.Exit(
        write_requirements(write) if write is not None else print_requirements(uncovered=uncovered, as_json=as_json)
    )
