"""The application of the command line, and the types of arguments that several commands share.

The modules beside this one register their commands at `app`, or at `candidate` for `conformance candidate ...`. Typer
calls the functions for arguments while it parses the command line.
"""

from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from conformance.operating_system import CAN_RUN_CELLS, NEEDS_LINUX
from conformance.paths import local_path

app = typer.Typer(
    name="conformance",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Prove that a mail transport loses no mail: run scenarios against it, judge what happened, report.",
    epilog="Exit codes: 0 all as expected, 1 violations, 2 usage or input, 3 inconclusive or harness errors only.",
)


def local_path_argument(text: str) -> Path:
    """Return the path that an argument names, as a path or as a `file://` URL. Raises typer.BadParameter for another URL."""
    try:
        return local_path(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def split_hosts(words: list[str] | None) -> list[str]:
    """Return the hosts that `--allow-hosts` names, in all its occurrences: `a,b` and `c` give a, b and c; None gives []."""
    return [host for word in words or () for host in word.split(",")]


def require_linux() -> None:
    """Print a reason and exit with 2 on a system on which no cells can be run. Raises typer.Exit."""
    if not CAN_RUN_CELLS:
        typer.echo(NEEDS_LINUX, err=True)
        raise typer.Exit(2)


def existing_path(text: str) -> Path:
    """Return the path that an argument names. Raises typer.BadParameter for one that does not exist, and for another URL."""
    path = local_path_argument(text)
    if not path.exists():
        raise typer.BadParameter(f"Path '{text}' does not exist.")
    return path


REFERENCE_PROGRAM = "conformance.reference.main"
"""The reference is imported by its name only: the harness shares no code with it."""

RunPaths = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN",
        parser=existing_path,
        help="directories of runs or explorations, or a folder of them; paths or file:// URLs",
    ),
]
RunDir = Annotated[Path, typer.Argument(help="a run directory (reports/...)", exists=True, file_okay=False)]


def _print_version(requested: bool) -> None:
    """Print the version and exit with 0, if `--version` was given."""
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


candidate = typer.Typer(
    name="candidate",
    no_args_is_help=True,
    help="Describe mail servers as candidates, install some, and check a description.",
)
app.add_typer(candidate)
