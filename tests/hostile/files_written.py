"""Files that users write: scenarios, topologies, descriptions of candidates, baselines.

Of each kind there are examples (the octets of good files), a function that reads a file in this process and returns "good" or
"refused", and the words of a command that reads it. Any exception is a defect of the harness, and so is a message that is too long
or cannot be printed. The first argument of a function is the working directory or the file's path.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import conformance
from conformance import paths
from conformance.candidates.assignment import read_assignment
from conformance.candidates.description import CandidateError
from conformance.candidates.placeholders import unknown_placeholders
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.fixtures import load_topology
from conformance.scenarios.loader import read_scenarios
from conformance.scenarios.yaml_nodes import split_documents
from conformance.suite.baseline import BaselineError, read_baselines

ROOT = Path(conformance.__file__).parents[1]
_CHECKOUT = ("pyproject.toml", "conformance", "scenarios")

_LONGEST = 300
"""Characters of a message, without its place."""


def examples_from(*patterns: str) -> Callable[[Path], Sequence[bytes]]:
    """Return a function that returns the contents of the checkout's files that match these patterns, sorted for each pattern."""
    return lambda work: [path.read_bytes() for pattern in patterns for path in sorted(ROOT.glob(pattern))]


# scenarios ---------------------------------------------------------------------------------------------------------------


def scenarios(work: Path) -> Sequence[bytes]:
    """Return each scenario of the corpus, as a file of its own."""
    texts = [path.read_text("utf-8") for path in sorted(paths.corpus().rglob("*.scenario.yaml"))]
    return [chunk.text.encode() for text in texts for chunk in split_documents(text)]


def read_scenario(path: Path) -> str:
    """Read a file of scenarios, and make the cells of each; "refused" if one has a problem."""
    refused = False
    for scenario in read_scenarios(path, paths.fixtures()):
        _short(str(problem).removeprefix(str(path)) for problem in scenario.problems)
        try:
            scenario.cells("smoke")
        except InvalidFile:
            refused = True
    return "refused" if refused else "good"


def _short(messages: Iterable[str]) -> None:
    """Assert that each message is printable, and has at most `_LONGEST` characters and a little more."""
    for message in messages:
        text = re.sub(r"^\S*?:\d+:\d+: ", "", message)
        if len(text) > _LONGEST + 20 or not text.isprintable():
            raise AssertionError(f"a message of {len(text)} characters: {text[:200]!a}")


# topologies --------------------------------------------------------------------------------------------------------------


def topologies(work: Path) -> Sequence[bytes]:
    """Return the topologies under the name that the file has: a topology is called as its file."""
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "fixtures/topologies").glob("*.yaml"))]
    return [re.sub(r"(?m)^name: .*$", "name: two-servers-one-dag", text).encode() for text in texts]


def read_topology(path: Path) -> str:
    """Read a topology, and ask for the boundary of each server."""
    load_topology.cache_clear()
    try:
        topology = load_topology(path)
    except InvalidFile as error:
        _short(str(problem).removeprefix(str(path)) for problem in error.problems)
        return "refused"
    for server in topology.servers:
        topology.boundary(server.name)
    return "good"


def topology_words(folder: Path) -> Sequence[str]:
    """Return `validate` of the corpus's scenarios of this topology, in a checkout that has the file in its fixtures."""
    for name in _CHECKOUT:
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    for part in (ROOT / "fixtures").iterdir():
        here = folder / "fixtures" / part.name
        if part.name != "topologies" and not here.exists():
            here.symlink_to(part)
    for other in (ROOT / "fixtures/topologies").iterdir():
        here = folder / "fixtures/topologies" / other.name
        if other.name != "two-servers-one-dag.yaml" and not here.exists():
            here.symlink_to(other)
    return "validate", "scenarios/creation"


# candidates --------------------------------------------------------------------------------------------------------------


def read_candidate(path: Path) -> str:
    """Read a candidate's description; one with unknown placeholders counts as refused."""
    try:
        assignment = read_assignment(str(path), paths.fixtures() / "candidates")
    except CandidateError as error:
        _short(line.removeprefix(str(path)) for line in str(error).splitlines())
        return "refused"
    candidate = assignment.default
    candidate.sha256.encode()
    return "refused" if list(unknown_placeholders(candidate)) else "good"


def run_with(option: str, *more: str) -> Callable[[Path], Sequence[str]]:
    """Return the run of a scenario with the file as an option's value."""
    scenario = str(ROOT / "scenarios/relay/relay.scenario.yaml")
    return lambda folder: ("run", scenario, option, "mine.yaml", "-q", "-p", "no:cacheprovider", *more)


# baselines ---------------------------------------------------------------------------------------------------------------


def read_baseline(path: Path) -> str:
    """Read a baseline, the list of the failures that are known."""
    try:
        read_baselines([str(path)])
    except BaselineError as error:
        _short(line.removeprefix("--baseline ").removeprefix(str(path)) for line in str(error).splitlines())
        return "refused"
    return "good"
