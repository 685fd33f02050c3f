"""Read the files of fixtures/ that scenarios name: topologies, and templates of messages.

A *node* is a value of the YAML file with its place, `mark` (line and column): a scalar, a list (`items`) or a mapping
(`entries`; of an entry, `key` is the place of its key). `report` collects problems.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from conformance.scenarios.errors import InvalidFile, Mark, ProblemReport
from conformance.scenarios.validation import validate
from conformance.scenarios.values import parse_parameter
from conformance.scenarios.yaml_nodes import Entry, Node, compose, read_text, split_documents
from conformance.topology import Topology


def fixture_names(folder: Path) -> tuple[str, ...]:
    """Return the names of the fixtures in a folder, sorted: the names of its YAML files without suffix. () without the folder."""
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


@lru_cache(maxsize=64)
def load_topology(path: Path) -> Topology:
    """Return the topology in a file, cached by path. Raises InvalidFile, also where its name is not the file's."""
    report = ProblemReport(str(path))
    node = load_node(path, report)
    topology = read_topology(node, report) if node else None
    if topology is not None and topology.name != path.stem:
        report.add(Mark(1, 1), f"the topology is called {topology.name!r}, its file {path.name!r}")
    if topology is None or report.problems:
        raise InvalidFile(report.problems)
    return topology


def load_node(path: Path, report: ProblemReport) -> Node | None:
    """Return the root node of a file's only document; None after reporting why there is none.

    A problem that does not end the reading (`yaml_nodes.compose`) is reported too, and the node is returned.
    """
    text = read_text(path, report)
    if text is None:
        return None
    chunks = list(split_documents(text))
    if len(chunks) != 1:
        report.add(Mark(1, 1), f"expected one document, not {len(chunks)}")
        return None
    return compose(chunks[0], report)


def read_topology(node: Node, report: ProblemReport) -> Topology | None:
    """Return the topology that a node describes; None after reporting problems.

    Its parameters may be written as `2m` and `yes`.
    """
    return validate(Topology, _with_parameters(node), report)


def _with_parameters(node: Node) -> Node:
    """Return the node of a topology, or of one of its servers, with its parameters parsed (`2m` is 120).

    Parsed is each value below `transport` and `listeners`, also in each server. A node that is no mapping is returned unchanged.
    """
    entries: dict[str, Entry] = {}
    for key, entry in node.entries.items():
        inner = entry.node
        if key == "servers" and inner.items:
            inner = Node(inner.mark, tuple(_with_parameters(server) for server in inner.items))
        elif key in ("transport", "listeners"):
            inner = _read_parameters(inner)
        entries[key] = Entry(entry.key, inner)
    return Node(node.mark, entries) if node.entries else node


def _read_parameters(node: Node) -> Node:
    """Return a node with each scalar below it parsed as a parameter; lists stay as they are."""
    if node.entries:
        return Node(node.mark, {key: Entry(e.key, _read_parameters(e.node)) for key, e in node.entries.items()})
    value: Any = node.value if node.items else parse_parameter(node.value)
    return Node(node.mark, value)
