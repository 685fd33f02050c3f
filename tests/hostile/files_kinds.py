"""The kinds of files that others write, and the making of a damaged one.

A kind has examples, a function that reads a file in this process, and the words of a command that reads it. The function returns
"good" or "refused"; any exception is a defect of the harness. `files_written` has these of files that users write,
`files_recorded` those of what a server says and of what a run has recorded. A file is made of an example and a *seed*, a number:
the same seed makes the same file.
"""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import mkfifo
from pathlib import Path
from typing import Literal

from tests.hostile.files_mutators import JSON, REPLY, YAML, Mutator, mutated
from tests.hostile.files_recorded import (
    SAID,
    histories,
    history_words,
    node_output_words,
    read_history,
    read_node_output,
)
from tests.hostile.files_written import (
    examples_from,
    read_baseline,
    read_candidate,
    read_scenario,
    read_topology,
    run_with,
    scenarios,
    topologies,
    topology_words,
)

Name = Literal["scenario", "topology", "candidate", "baseline", "reply", "history"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of file.

    `file` is its path in a working directory, where the command that `words` returns expects it; `exits` are the exit codes that
    the command may have.
    """

    name: Name
    mutators: tuple[Mutator, ...]
    examples: Callable[[Path], Sequence[bytes]]
    file: str
    read: Callable[[Path], str]
    words: Callable[[Path], Sequence[str]]
    exits: frozenset[int]


def make(kind: Kind, seed: int, folder: Path, examples: Sequence[bytes]) -> Path:
    """Write the file of a seed into a working directory and return its path; one in forty is no regular file."""
    path = folder / kind.file
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or path.exists():
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    if seed % 40 == 39:
        _no_file(path, seed // 40 % 6)
        return path
    octets = mutated(seed, examples[seed % len(examples)], kind.mutators)
    path.write_bytes(octets)
    return path


def _no_file(path: Path, what: int) -> None:
    """Make something that is no regular file: a FIFO, a folder, a link to itself, to `/dev/zero` or to nothing, a socket."""
    match what:
        case 0:
            mkfifo(path)
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to(path.name)
        case 3:
            path.symlink_to("/dev/zero")
        case 4:
            path.symlink_to("nowhere")
        case _:
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(str(path))


KINDS: dict[Name, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "scenario",
            YAML,
            scenarios,
            "x.scenario.yaml",
            read_scenario,
            lambda folder: ("validate", "x.scenario.yaml"),
            frozenset({0, 2}),
        ),
        Kind(
            "topology",
            YAML,
            topologies,
            "fixtures/topologies/two-servers-one-dag.yaml",
            read_topology,
            topology_words,
            frozenset({0, 2}),
        ),
        Kind(
            "candidate",
            YAML,
            examples_from("fixtures/candidates/*.yaml", "conformance/candidates/new.yaml", "examples/*/*.yaml"),
            "mine.yaml",
            read_candidate,
            run_with("--candidate", "--collect-only"),
            frozenset({0, 2}),
        ),
        Kind(
            "baseline",
            YAML,
            examples_from("fixtures/baselines/*.yaml", "tests/compat/0.1.0/known.yaml"),
            "mine.yaml",
            read_baseline,
            run_with("--baseline", "-k", "plain and as-it-is", "--run-dir", "run", "--fresh"),
            frozenset({0, 1, 2}),
        ),
        Kind(
            "reply",
            (*REPLY, *JSON),
            lambda work: SAID,
            "said",
            read_node_output,
            node_output_words,
            frozenset({0, 1, 3}),
        ),
        Kind("history", JSON, histories, "damaged/cells/x.jsonl", read_history, history_words, frozenset({0, 1, 2, 3})),
    )
}
