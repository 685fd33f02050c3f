"""Commands about servers under test, the reference among them, and about their files.

Each function has the arguments of a command, and ends it by raising typer.Exit with the exit code that the command's function in
`conformance.commands` or of the reference returns. What a command needs is imported when it is called.
"""

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from conformance.cli.app import REFERENCE_PROGRAM, app, candidate, require_linux, split_hosts


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
    require_linux()
    from conformance.commands.candidate import print_check

    raise typer.Exit(print_check(word, split_hosts(allow_hosts)))


@app.command()
def queues(config: Annotated[Path, typer.Argument(help="the configuration file of a running node")]) -> None:
    """Print the queues of a running node of the reference: delivery, shadow, Safety Net, discard events."""
    raise typer.Exit(import_module(REFERENCE_PROGRAM).show_queues(config))


@app.command()
def doctor() -> None:
    """Print which optional programs are installed (Java, Docker, Node.js, mail servers), and what each is needed for."""
    from conformance.commands.doctor import print_programs

    raise typer.Exit(print_programs())
