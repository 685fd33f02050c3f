"""The command line: `conformance COMMAND`. Each command is a thin door to a part of the package."""

import gc
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal

import typer

from conformance.report.escaping import visible
from conformance.shortage import describe_harness_error

app = typer.Typer(
    name="conformance",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Prove that a mail transport loses no mail: run scenarios against it, judge what was seen, report.",
    epilog="Exit codes: 0 all as expected, 1 violations, 2 usage or input, 3 inconclusive or harness errors only.",
)

RunDir = Annotated[Path, typer.Argument(help="a run directory (reports/...)", exists=True, file_okay=False)]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"conformance {metadata.version('smtp-conformance')}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and leave"),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def run(context: typer.Context) -> None:
    """Run scenarios: pytest with good defaults. All arguments go to pytest (`conformance run -h` shows ours).

    Without a path the corpus of the harness is run. Examples:

    conformance run --candidate postfix scenarios/relay

    conformance run -k inbound --clock scaled --scale 60
    """
    from conformance.commands.run import run_pytest

    raise typer.Exit(run_pytest(context.args))


@app.command("list")
def list_cells(
    paths: Annotated[list[Path] | None, typer.Argument(help="scenario files or folders; default: the corpus")] = None,
    grid: Annotated[str, typer.Option(help="size of fault grids: smoke, pairwise, full")] = "smoke",
    only: Annotated[list[str] | None, typer.Option(help="a cell's id, or SCENARIO[AXIS=VALUE]; repeatable")] = None,
    requirement: Annotated[
        list[str] | None, typer.Option(help="a row (SR-MNT-03) or a group (MNT) of the catalogue; repeatable")
    ] = None,
) -> None:
    """List cells by their ids, which `conformance run` takes."""
    from conformance.commands.corpus import print_list

    raise typer.Exit(print_list(paths or [], grid, only or (), requirement or ()))


@app.command()
def validate(
    paths: Annotated[list[Path] | None, typer.Argument(help="scenario files or folders; default: the corpus")] = None,
) -> None:
    """Check scenario files and say all that is wrong with them, as path:line:col: message."""
    from conformance.commands.corpus import print_problems

    raise typer.Exit(print_problems(paths or []))


@app.command()
def judge(
    run_dir: RunDir,
    scenarios: Annotated[
        list[Path] | None, typer.Option(help="files or folders of the scenarios that were run; default: the corpus")
    ] = None,
) -> None:
    """Judge the stored histories of a run again, and say where the verdicts differ from the recorded ones."""
    from conformance.commands.judge import judge_run

    raise typer.Exit(judge_run(run_dir, scenarios or []))


@app.command()
def requirements(
    uncovered: Annotated[bool, typer.Option("--uncovered", help="only rows that no scenario covers")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="a JSON list: id, level, scenarios, defects")] = False,
    write: Annotated[
        Path | None, typer.Option(help="write the catalogue as a page (Markdown), and print nothing")
    ] = None,
) -> None:
    """Print the requirement catalogue, and who covers each row."""
    from conformance.commands.corpus import print_requirements, write_requirements

    raise typer.Exit(
        write_requirements(write) if write is not None else print_requirements(uncovered=uncovered, as_json=as_json)
    )


@app.command()
def defects(
    names: Annotated[list[str] | None, typer.Argument(help="only these defects; default: all, and no defect")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="a JSON list: name, breaks, caught_by, blamed, first_blame")
    ] = False,
    gate: Annotated[
        bool, typer.Option("--gate", help="exit 1 when a defect, scenario or check proves nothing")
    ] = False,
    write: Annotated[Path | None, typer.Option(help="write the table as a page (Markdown)")] = None,
    check: Annotated[Path | None, typer.Option(help="exit 1 when that page is not the table's", exists=True)] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="cells at the same time; default: a core each")] = None,
    seed: Annotated[int, typer.Option(help="seed of everything that is chosen")] = 1,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", help="keep the trials there, as a run that `aggregate` reads")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="with --run-dir: delete the run that is there")] = False,
) -> None:
    """Make the reference wrong in one named way after another, and say which checks notice."""
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
            run_dir=run_dir,
            fresh=fresh,
        )
    )


@app.command()
def aggregate(
    runs: Annotated[list[Path], typer.Argument(help="run directories, or a folder of them", exists=True)],
    out: Annotated[Path, typer.Option("--out", help="where tables and pages are written")],
    master: Annotated[str, typer.Option("--master", help="Spark master, e.g. spark://host:7077")] = "local[*]",
    conf: Annotated[list[str] | None, typer.Option("--conf", help="Spark setting key=value; repeatable")] = None,
    fail_on: Annotated[str, typer.Option("--fail-on", help="regression,flaky,disagreement: exit 1 on any")] = "",
    make_jvm_cache: Annotated[
        bool, typer.Option("--make-jvm-cache", help="keep what Java loads (Java 25, 200 MB): later ones start sooner")
    ] = False,
) -> None:
    """Aggregate runs with Spark into tables (Parquet, CSV, JSON) and a page."""
    from conformance.commands.aggregate import aggregate_runs

    raise typer.Exit(aggregate_runs(runs, out, master, conf or [], fail_on, make_jvm_cache=make_jvm_cache))


@app.command()
def report(
    run_dir: RunDir,
    out: Annotated[Path, typer.Option("--out", help="where the site is written")],
    earlier: Annotated[
        Path | None, typer.Option("--earlier", help="folder of the runs before; default: the one RUN_DIR lies in")
    ] = None,
    install_allure: Annotated[
        bool,
        typer.Option(
            "--install-allure", help="first install the pinned Allure (npm, into the cache); exit 2 on failure"
        ),
    ] = False,
    with_allure: Annotated[
        bool, typer.Option("--with-allure", help="as --install-allure, but without npm one line says why not")
    ] = False,
    history: Annotated[
        Path | None,
        typer.Option(
            "--history", help="file that keeps Allure's trend where earlier runs are not kept; this run is added"
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="a page for each cell, also where all is well")] = False,
    cell: Annotated[
        list[str] | None, typer.Option("--cell", metavar="TEXT", help="also pages of cells with this name; repeatable")
    ] = None,
) -> None:
    """Build the pages of a run: report, sequence diagrams, statement, and the Allure site where Node is there."""
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
            paged=PageSelection(every=every, texts=tuple(cell or ())),
        )
    )


@app.command()
def merge(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="the runs of `--shard 1/N` to N/N", exists=True, file_okay=False),
    ],
    out: Annotated[Path, typer.Option("--out", help="the run directory that is made of them")],
) -> None:
    """Put the shards of a run together into one run directory; the exit code is that of the whole run."""
    from conformance.commands.merge import merge_and_say

    raise typer.Exit(merge_and_say(runs, out))


@app.command()
def export(
    run_dir: RunDir,
    cell: Annotated[
        str, typer.Option("--cell", metavar="ID", help="name of the cell's file in cells/, or its beginning")
    ],
    wanted: Annotated[
        Literal["pcapng", "perfetto", "scenario"],
        typer.Option(
            "--format",
            help="pcapng: Wireshark, tshark; perfetto: ui.perfetto.dev; scenario: what was said, as talks of a scenario",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="the file that is written")],
) -> None:
    """Write one cell in the format of a tool that you have."""
    from conformance.commands.export import export_cell

    raise typer.Exit(export_cell(run_dir, cell, wanted, out))


@app.command()
def diff(
    before: RunDir,
    after: RunDir,
    should: Annotated[
        Literal["warn", "fail"], typer.Option(help="`fail`: a pass with a remark counts as a failure")
    ] = "warn",
) -> None:
    """Compare two runs: what changed, and whether candidate, suite, environment or settings may have caused it.

    Regressions are listed first (a cell that passed, and now fails or cannot be judged); with any the exit code is 1.
    """
    from conformance.commands.report import print_diff

    raise typer.Exit(print_diff(before, after, should))


@app.command()
def schema(
    what: Annotated[str, typer.Argument(help="scenario, topology, candidate, node or inspect")] = "scenario",
    out: Annotated[Path | None, typer.Option("--out", help="a file; default: standard output")] = None,
) -> None:
    """Print a JSON Schema: of files that you write, for editors; of what a node reads (node) and prints (inspect)."""
    from conformance.commands.corpus import print_schema

    raise typer.Exit(print_schema(what, out))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def node(context: typer.Context) -> None:
    """Run one node of the reference transport: `conformance node --config FILE` (the node contract)."""
    from conformance.commands.node import run_node

    raise typer.Exit(run_node(context.args))


candidate = typer.Typer(name="candidate", no_args_is_help=True, help="Write and try descriptions of servers.")
app.add_typer(candidate)


@candidate.command("new")
def candidate_new() -> None:
    """Print a commented description to begin with: `conformance candidate new > mine.yaml`."""
    from conformance.commands.candidate import print_new

    raise typer.Exit(print_new())


@candidate.command("install")
def candidate_install(
    names: Annotated[
        list[str] | None, typer.Argument(help="names of servers, as `doctor` lists them; default: all of them")
    ] = None,
) -> None:
    """Install mail servers for the harness, each into a directory of its own; nothing of the system is changed."""
    from conformance.commands.candidate import install

    raise typer.Exit(install(names or []))


@candidate.command("check")
def candidate_check(
    word: Annotated[str, typer.Argument(metavar="CANDIDATE", help="as for --candidate")],
    allow_hosts: Annotated[list[str] | None, typer.Option(help="hosts other than this one; repeatable")] = None,
) -> None:
    """Start a candidate, try every claim of it, and say what is missing."""
    from conformance.commands.candidate import print_check

    raise typer.Exit(print_check(word, allow_hosts or []))


@app.command()
def queues(config: Annotated[Path, typer.Argument(help="the configuration file of a node that runs")]) -> None:
    """Print the queues of a running node of the reference: delivery, shadow, Safety Net, discard events."""
    from conformance.commands.node import print_queues

    raise typer.Exit(print_queues(config))


@app.command()
def doctor() -> None:
    """Say what is there (Java, Docker, Allure, mail servers) and what is missing for what."""
    from conformance.commands.doctor import print_findings

    raise typer.Exit(print_findings())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code; whatever breaks in the harness is a sentence and a 3."""
    gc.set_threshold(10_000, 10, 10)  # what is loaded now stays: to look for garbage in it takes a tenth of the start
    try:
        app(args=list(arguments) if arguments is not None else sys.argv[1:])
    except Exception as error:  # noqa: BLE001  # a 1 would say that a server is wrong
        typer.echo(visible(describe_harness_error(error), 1000), err=True)
        sys.exit(3)
