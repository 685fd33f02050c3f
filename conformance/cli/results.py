"""Commands that read stored runs.

Each function has the arguments of a command, and ends it by raising typer.Exit with the exit code that the command's function in
`conformance.commands` returns. What a command needs is imported when it is called.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from conformance.cli.app import RunDir, RunPaths, app, local_path_argument


@app.command()
def aggregate(
    runs: RunPaths,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", parser=local_path_argument, help="where tables and pages are written"),
    ],
    master: Annotated[str, typer.Option("--master", help="Spark master, e.g. spark://host:7077")] = "local[*]",
    conf: Annotated[list[str] | None, typer.Option("--conf", help="Spark setting key=value; repeatable")] = None,
    fail_on: Annotated[
        str,
        typer.Option("--fail-on", help="comma-separated: regression, flaky, disagreement; exit 1 when there is any"),
    ] = "",
    make_jvm_cache: Annotated[
        bool,
        typer.Option(
            "--make-jvm-cache",
            help="cache the classes that Java loads (Java 25, 200 MB): later aggregations start faster",
        ),
    ] = False,
) -> None:
    """Aggregate runs and explorations with Spark into tables (Parquet, CSV, JSON) and a page with all of them."""
    from conformance.commands.aggregate import aggregate_runs

    raise typer.Exit(aggregate_runs(runs, out, master, conf or [], fail_on, make_jvm_cache=make_jvm_cache))


@app.command()
def site(
    runs: RunPaths,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="DIR",
            parser=local_path_argument,
            help="where the site is written; it keeps the runs of earlier calls",
        ),
    ],
    master: Annotated[str, typer.Option("--master", help="Spark master, e.g. spark://host:7077")] = "local[*]",
    conf: Annotated[list[str] | None, typer.Option("--conf", help="Spark setting key=value; repeatable")] = None,
) -> None:
    """Build a static site of many runs: servers, versions and requirements, with a feed of changed verdicts, and badges."""
    from conformance.commands.site import build_results_site

    raise typer.Exit(build_results_site(runs, out, master, conf or []))


@app.command()
def report(
    run_dir: RunDir,
    out: Annotated[Path, typer.Option("--out", help="where the site is written")],
    earlier: Annotated[
        Path | None, typer.Option("--earlier", help="folder of earlier runs; default: the folder that contains RUN_DIR")
    ] = None,
    install_allure: Annotated[
        bool,
        typer.Option("--install-allure", help="first install Allure (npm, into the cache); exit 2 when that fails"),
    ] = False,
    with_allure: Annotated[
        bool, typer.Option("--with-allure", help="like --install-allure, but a failure only prints a line")
    ] = False,
    history: Annotated[
        Path | None,
        typer.Option(
            "--history", help="file with Allure's trend, for when earlier runs are not kept; this run is added to it"
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="write a page for every cell; default: only for those with a finding")
    ] = False,
    cell: Annotated[
        list[str] | None,
        typer.Option("--cell", metavar="TEXT", help="also write pages for cells whose id contains this; repeatable"),
    ] = None,
) -> None:
    """Build the pages of a run: report, sequence diagrams, conformance statement, and Allure's site if Node.js is installed."""
    from conformance.commands.report import build_report
    from conformance.report.cell_pages import PageSelection

    raise typer.Exit(
        build_report(
            run_dir,
            out,
            earlier=earlier,
            install_allure=install_allure,
            with_allure=with_allure,
            history=history,
            selection=PageSelection(every=every, texts=tuple(cell or ())),
        )
    )


@app.command()
def merge(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="run directories of `--shard 1/N` to N/N", exists=True, file_okay=False),
    ],
    out: Annotated[Path, typer.Option("--out", help="the merged run directory to write")],
) -> None:
    """Merge the shards of a run into one run directory; the exit code is that of the whole run."""
    from conformance.commands.shards import print_merge

    raise typer.Exit(print_merge(runs, out))


@app.command()
def export(
    run_dir: RunDir,
    cell: Annotated[
        str,
        typer.Option("--cell", metavar="ID", help="name of the cell's file in cells/, or the beginning of the name"),
    ],
    export_format: Annotated[
        Literal["pcapng", "perfetto", "scenario"],
        typer.Option(
            "--format",
            help="pcapng: Wireshark, tshark; perfetto: ui.perfetto.dev; scenario: a scenario that sends the same commands",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="the file to write")],
) -> None:
    """Write one cell in the format of another tool."""
    from conformance.commands.export import export_cell

    raise typer.Exit(export_cell(run_dir, cell, export_format, out))


@app.command()
def diff(
    before: RunDir,
    after: RunDir,
    should: Annotated[
        Literal["warn", "fail"], typer.Option(help="`fail`: a violated `should` counts as a failure")
    ] = "warn",
) -> None:
    """Compare two runs: which cells changed, and whether candidate, suite, environment or settings may have caused it.

    Regressions come first: cells that passed before, and now fail or cannot be judged. If there are any, the exit code is 1.
    """
    from conformance.commands.report import print_diff

    raise typer.Exit(print_diff(before, after, should))
