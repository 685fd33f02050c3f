"""The command line: `conformance COMMAND`. Each command calls one function of `conformance.commands` or of the reference.

What a command needs is imported when it is called: importing everything would take a second before each one.
"""

import gc
import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated, Literal

import typer

from conformance.paths import local_path
from conformance.report.escaping import visible
from conformance.shortage import describe_harness_error

app = typer.Typer(
    name="conformance",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Prove that a mail transport loses no mail: run scenarios against it, judge what happened, report.",
    epilog="Exit codes: 0 all as expected, 1 violations, 2 usage or input, 3 inconclusive or harness errors only.",
)


def _local_path(text: str) -> Path:
    """Return the path that an argument names, as a path or as a `file://` URL."""
    try:
        return local_path(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _existing_path(text: str) -> Path:
    """Return the path that an argument names; refuse one that does not exist."""
    path = _local_path(text)
    if not path.exists():
        raise typer.BadParameter(f"Path '{text}' does not exist.")
    return path


REFERENCE_PROGRAM = "conformance.reference.main"
"""The reference is imported by its name only: the harness shares no code with it."""

RunPaths = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN", parser=_existing_path, help="run directories, or a folder of them; paths or file:// URLs"
    ),
]
RunDir = Annotated[Path, typer.Argument(help="a run directory (reports/...)", exists=True, file_okay=False)]


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"conformance {metadata.version('smtp-conformance')}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and exit"),
    ] = False,
) -> None:
    """Accept the options that come before a command."""


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
        bool, typer.Option("--write-survivors", help="write fixtures/mutants/survivors.txt anew")
    ] = False,
) -> None:
    """Change the reference in one place at a time, and print which changes no cell notices."""
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
    sweep: Annotated[int, typer.Option(min=1, max=1, help="1: every single fault at every point")] = 1,
    at_random: Annotated[bool, typer.Option("--random", help="random plans instead of a sweep of scenarios")] = False,
    candidate: Annotated[str, typer.Option("--candidate", help="what is explored, in virtual time")] = "reference",
    plans: Annotated[int | None, typer.Option(min=1, help="run this many, drawn by --seed; default: all")] = None,
    duration: Annotated[str | None, typer.Option("--for", help="begin no plan after this time: 10m, 1h")] = None,
    seed: Annotated[int, typer.Option(help="seed of all random choices")] = 1,
    jobs: Annotated[
        int | None, typer.Option("-n", min=1, help="how many run at the same time; default: one per core")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="a JSON object: plans, outcomes, fired, findings")] = False,
) -> None:
    """Try faults that no scenario has, at every point of scenarios or in random plans; write what violates the model as files."""
    from conformance.commands import explore as command

    raise typer.Exit(
        command.explore(
            scenarios or [],
            at_random=at_random,
            candidate=candidate,
            plans=plans,
            duration=duration,
            seed=seed,
            jobs=jobs,
            out=out,
            as_json=as_json,
        )
    )


@app.command()
def aggregate(
    runs: RunPaths,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", parser=_local_path, help="where tables and pages are written")
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
    """Aggregate runs with Spark into tables (Parquet, CSV, JSON) and a page with all of them."""
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
            parser=_local_path,
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


@app.command()
def listen(
    port: Annotated[int, typer.Argument(min=0, max=65535, help="0: any free port")] = 2525,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="the address to listen on")] = "127.0.0.1",
    allow_hosts: Annotated[
        list[str] | None,
        typer.Option("--allow-hosts", metavar="HOST,...", help="addresses other than loopback that --host may name"),
    ] = None,
    lasting: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="how long, such as 10m; default: until Ctrl-C")
    ] = None,
    list_behaviours: Annotated[
        bool, typer.Option("--list", help="print what the local part of a recipient can ask for, and exit")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="print a JSON list: check, requirement, clause, outcome, sentence, session, transcript"
        ),
    ] = False,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="also write a JUnit file")] = None,
    everything: Annotated[bool, typer.Option("--all", help="print also what passed and what had no occasion")] = False,
) -> None:
    """Be a next hop that misbehaves, and judge the clients, libraries or relays that send mail to it.

    The recipient's address says what happens: mail to rcpt-451@example.test is refused once with 451, mail to
    silent@example.test gets no reply to its final dot. Sessions are printed as they come, the judgement at the end.
    """
    from conformance.commands.listen import ListenRequest, print_behaviours, print_judgement

    if list_behaviours:
        raise typer.Exit(print_behaviours())
    hosts = [name for word in allow_hosts or () for name in word.split(",")]
    raise typer.Exit(print_judgement(ListenRequest(host, port, hosts, lasting, as_json, junit, everything)))


@app.command()
def schema(
    name: Annotated[str, typer.Argument(help="scenario, topology, candidate, node or inspect")] = "scenario",
    out: Annotated[Path | None, typer.Option("--out", help="a file; default: standard output")] = None,
    names: Annotated[
        bool,
        typer.Option(
            "--names", help="scenario: list the topologies, requirements and messages, so that editors complete them"
        ),
    ] = False,
) -> None:
    """Print a JSON Schema for editors (scenario, topology, candidate), or that of what a node reads (node) and prints (inspect)."""
    from conformance.commands.corpus import print_schema

    raise typer.Exit(print_schema(name, out, with_names=names))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def node(context: typer.Context) -> None:
    """Run one node of the reference transport: `conformance node --config FILE` (the node contract)."""
    raise typer.Exit(import_module(REFERENCE_PROGRAM).main(context.args))


candidate = typer.Typer(
    name="candidate",
    no_args_is_help=True,
    help="Describe mail servers as candidates, install some, and check a description.",
)
app.add_typer(candidate)


@candidate.command("new")
def candidate_new() -> None:
    """Print a commented description to start from: `conformance candidate new > mine.yaml`."""
    from conformance.commands.candidate import print_new

    raise typer.Exit(print_new())


@candidate.command("install")
def candidate_install(
    names: Annotated[
        list[str] | None, typer.Argument(help="names of servers, as `doctor` lists them; default: all")
    ] = None,
) -> None:
    """Install mail servers for the harness, each into its own directory. Nothing else on the system is changed."""
    from conformance.commands.candidate import install

    raise typer.Exit(install(names or []))


@candidate.command("check")
def candidate_check(
    word: Annotated[str, typer.Argument(metavar="CANDIDATE", help="a name or a file, as for --candidate")],
    allow_hosts: Annotated[
        list[str] | None, typer.Option(help="another host that the harness may connect to; repeatable")
    ] = None,
) -> None:
    """Start a candidate, try everything that it claims, and print what does not work."""
    from conformance.commands.candidate import print_check

    raise typer.Exit(print_check(word, allow_hosts or []))


@app.command()
def probe(
    where: Annotated[str, typer.Argument(metavar="HOST:PORT", help="a running mail server, for example 127.0.0.1:25")],
    as_json: Annotated[
        bool, typer.Option("--json", help="print a JSON list: check, requirement, clause, outcome, sentence")
    ] = False,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="also write a JUnit file")] = None,
    rcpt: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="a recipient to whom the probe may send mail; without it no mail is sent"),
    ] = None,
    sink: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=1,
            max=65535,
            help="port at which the probe listens; the server passes mail for --rcpt on to it",
        ),
    ] = None,
    check: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="only this check; repeatable; --all prints the names")
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="the port speaks TLS at once, as port 465 does")] = False,
    allow_hosts: Annotated[
        list[str] | None,
        typer.Option("--allow-hosts", metavar="HOST,...", help="hosts other than this one that may be probed"),
    ] = None,
    seconds: Annotated[float, typer.Option("--timeout", min=1, help="seconds for all checks together")] = 9.0,
    everything: Annotated[bool, typer.Option("--all", help="print also what passed and what does not apply")] = False,
) -> None:
    """Judge a mail server that already runs, by its replies. It needs no scenario, and no configuration of the server."""
    from conformance.commands.probe import ProbeRequest, print_probe

    request = ProbeRequest(where, tuple(allow_hosts or ()), tls, rcpt, seconds, tuple(check or ()), sink)
    raise typer.Exit(print_probe(request, as_json=as_json, junit=junit, everything=everything))


@app.command()
def smuggling(
    candidates: Annotated[list[str], typer.Argument(metavar="CANDIDATE...", help="servers, as for --candidate")],
    out: Annotated[Path, typer.Option("--out", help="where index.html and smuggling.json are written")],
    as_json: Annotated[
        bool, typer.Option("--json", help="print a JSON list: relay, receiver, variant, passage, replies")
    ] = False,
) -> None:
    """Send messages with false ends through every pair of these servers, and show which become two messages (SMTP smuggling)."""
    from conformance.commands.smuggling import print_matrix

    raise typer.Exit(print_matrix(candidates, out, as_json=as_json))


@app.command()
def queues(config: Annotated[Path, typer.Argument(help="the configuration file of a running node")]) -> None:
    """Print the queues of a running node of the reference: delivery, shadow, Safety Net, discard events."""
    raise typer.Exit(import_module(REFERENCE_PROGRAM).show_queues(config))


@app.command()
def doctor() -> None:
    """Print which optional programs are installed (Java, Docker, Node.js, mail servers), and what each is needed for."""
    from conformance.commands.doctor import print_programs

    raise typer.Exit(print_programs())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its exit code. An unexpected error is printed as one sentence, and exits with 3."""
    gc.set_threshold(
        10_000, 10, 10
    )  # the modules loaded now stay: searching them for garbage takes a tenth of the start
    try:
        app(args=list(arguments) if arguments is not None else sys.argv[1:])
    except Exception as error:  # noqa: BLE001  # 1 would mean that the server is wrong
        typer.echo(visible(describe_harness_error(error), 1000), err=True)
        sys.exit(3)
