"""Commands that try the harness itself: known defects, mutants of the reference, and faults that no scenario has.

Each function has the arguments of a command, and ends it by raising typer.Exit with the exit code that the command's function in
`conformance.commands` returns. What a command needs is imported when it is called.
"""

from pathlib import Path
from typing import Annotated

import typer

from conformance.cli.app import app, require_linux, split_hosts
from conformance.clocks import ClockName


@app.command()
def defects(
    names: Annotated[
        list[str] | None, typer.Argument(help="only these defects; default: all, and the reference without a defect")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print a JSON list: name, breaks, caught_by, blamed, first_blame")
    ] = False,
    gate: Annotated[
        bool, typer.Option("--gate", help="exit 1 when a defect is not caught, or a scenario or check catches none")
    ] = False,
    write: Annotated[Path | None, typer.Option(help="write the table as a page (Markdown) to this file")] = None,
    check: Annotated[
        Path | None, typer.Option(help="exit 1 when this page differs from the table", exists=True)
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="how many cells run at the same time; default: one per core")
    ] = None,
    seed: Annotated[int, typer.Option(help="seed of all random choices")] = 1,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="try this many defects, drawn by --draw; --gate and --check judge these alone"),
    ] = None,
    drawn_by: Annotated[int, typer.Option("--draw", help="which defects --sample draws")] = 1,
    run_dir: Annotated[
        Path | None,
        typer.Option("--run-dir", help="keep the trials as a run in this directory, which `aggregate` can read"),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="with --run-dir: first delete the run that the directory holds")
    ] = False,
    blind: Annotated[
        bool, typer.Option("--blind", help="print what the model alone catches, without the expectations of scenarios")
    ] = False,
) -> None:
    """Run the reference with each of its deliberate defects, and print which checks catch it."""
    require_linux()
    from conformance.commands.defects import print_defects

    raise typer.Exit(
        print_defects(
            names or [],
            as_json=as_json,
            gate=gate,
            write=write,
            check=check,
            jobs=jobs,
            seed=seed,
            sample=sample,
            drawn_by=drawn_by,
            run_dir=run_dir,
            fresh=fresh,
            blind=blind,
        )
    )


@app.command()
def mutants(
    names: Annotated[
        list[str] | None, typer.Argument(help="ids of mutants, or files of the reference; default: all of them")
    ] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="try this many, drawn by --seed; default: all")] = None,
    seed: Annotated[int, typer.Option(help="which mutants --sample draws")] = 1,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="how many run at the same time; default: one per core")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="a JSON list: id, file, line, outcome, check, requirement")
    ] = False,
    store: Annotated[
        Path | None, typer.Option(help="keep the results in this file; mutants that it has are not run again")
    ] = None,
    write_survivors: Annotated[
        bool, typer.Option("--write-survivors", help="write fixtures/mutants/survivors.yaml anew")
    ] = False,
) -> None:
    """Change the reference in one place at a time, and print which changes no cell notices."""
    require_linux()
    from conformance.commands.mutants import print_mutants

    raise typer.Exit(
        print_mutants(
            names or [],
            sample=sample,
            seed=seed,
            jobs=jobs,
            as_json=as_json,
            store=store,
            write_survivors=write_survivors,
        )
    )


@app.command()
def explore(
    out: Annotated[Path, typer.Option("--out", help="where findings are written, each as a scenario file")],
    scenarios: Annotated[
        list[str] | None, typer.Argument(help="ids of scenarios; default: every scenario whose run is short")
    ] = None,
    sweep: Annotated[
        int,
        typer.Option(
            min=1, max=2, help="1: every single fault at every point; 2: every pair, in scenarios that are named"
        ),
    ] = 1,
    at_random: Annotated[bool, typer.Option("--random", help="random plans instead of a sweep of scenarios")] = False,
    candidate: Annotated[str, typer.Option("--candidate", help="what is explored")] = "reference",
    clock: Annotated[
        ClockName | None, typer.Option(help="as of `run`: virtual where the candidate can, else scaled; shifted; real")
    ] = None,
    scale: Annotated[
        float | None, typer.Option(help="what documented times are divided by on the clock scaled; default: 60")
    ] = None,
    plans: Annotated[int | None, typer.Option(min=1, help="run this many, drawn by --seed; default: all")] = None,
    duration: Annotated[str | None, typer.Option("--for", help="begin no plan after this time: 10m, 1h")] = None,
    seed: Annotated[int, typer.Option(help="seed of all random choices")] = 1,
    jobs: Annotated[
        int | None,
        typer.Option(
            "-n", min=1, help="how many run at the same time; default: one per core, eight where time passes by itself"
        ),
    ] = None,
    allow_hosts: Annotated[
        list[str] | None,
        typer.Option("--allow-hosts", metavar="HOST,...", help="hosts other than this one that the candidate may name"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="a JSON object: plans, outcomes, fired, findings")] = False,
) -> None:
    """Try faults that no scenario has, at every point of scenarios or in random plans; write what violates the model as files."""
    require_linux()
    from conformance.commands import explore as command

    raise typer.Exit(
        command.explore(
            scenarios or [],
            faults=sweep,
            at_random=at_random,
            candidate=candidate,
            clock=clock,
            scale=scale,
            plans=plans,
            duration=duration,
            seed=seed,
            jobs=jobs,
            hosts=split_hosts(allow_hosts),
            out=out,
            as_json=as_json,
        )
    )
