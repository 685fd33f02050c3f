"""The kinds of files that others write: examples of each, how each is read in this process, and by which command.

`read` returns "good" or "refused": any other exception is a defect of the harness.
"""

import asyncio
import gzip
import json
import re
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from os import mkfifo
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

import conformance
from conformance import paths
from conformance.candidates.assignment import read_assignment
from conformance.candidates.description import CandidateError
from conformance.candidates.placeholders import unknown_placeholders
from conformance.commands.judge import find_cell, judge_stored_cell
from conformance.history.consistency import consistent_prefix
from conformance.nodes.commands import parse_output
from conformance.nodes.contract import NodeError
from conformance.report.cell_page import cell_page
from conformance.report.cell_view import view_stored_cell
from conformance.report.run_summary import summarize_cell
from conformance.results.layout import CellUnreadable, SchemaTooNew
from conformance.results.reader import read_cell, read_cell_end
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.fixtures import load_topology
from conformance.scenarios.loader import Scenario, read_corpus, read_scenarios
from conformance.scenarios.yaml_nodes import split_documents
from conformance.suite.baseline import BaselineError, read_baselines
from conformance.wire.client import SessionLost, read_reply
from conformance.wire.session_parser import SessionParser
from tests.hostile.files_mutators import JSON, REPLY, YAML, Mutator, mutated

Name = Literal["scenario", "topology", "candidate", "baseline", "reply", "history"]
ROOT = Path(conformance.__file__).parents[1]
_CHECKOUT = ("pyproject.toml", "conformance", "scenarios")

_LONGEST = 300
"""Characters of a message, without its place."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of file. `place` returns the path of the file in a working directory, where `words` expects it."""

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


def _files(*patterns: str) -> Callable[[Path], Sequence[bytes]]:
    return lambda work: [path.read_bytes() for pattern in patterns for path in sorted(ROOT.glob(pattern))]


# scenarios ---------------------------------------------------------------------------------------------------------------


def _scenarios(work: Path) -> Sequence[bytes]:
    texts = [path.read_text("utf-8") for path in sorted(paths.corpus().rglob("*.scenario.yaml"))]
    return [chunk.text.encode() for text in texts for chunk in split_documents(text)]


def _read_scenario(path: Path) -> str:
    refused = False
    for scenario in read_scenarios(path, paths.fixtures()):
        _short(str(problem).removeprefix(str(path)) for problem in scenario.problems)
        try:
            scenario.cells("smoke")
        except InvalidFile:
            refused = True
    return "refused" if refused else "good"


def _short(messages: Iterable[str]) -> None:
    for message in messages:
        text = re.sub(r"^\S*?:\d+:\d+: ", "", message)
        if len(text) > _LONGEST + 20 or not text.isprintable():
            raise AssertionError(f"a message of {len(text)} characters: {text[:200]!a}")


# topologies --------------------------------------------------------------------------------------------------------------


def _topologies(work: Path) -> Sequence[bytes]:
    """Return the topologies under the name that the file has: a topology is called as its file."""
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "fixtures/topologies").glob("*.yaml"))]
    return [re.sub(r"(?m)^name: .*$", "name: two-servers-one-dag", text).encode() for text in texts]


def _read_topology(path: Path) -> str:
    load_topology.cache_clear()
    try:
        topology = load_topology(path)
    except InvalidFile as error:
        _short(str(problem).removeprefix(str(path)) for problem in error.problems)
        return "refused"
    for server in topology.servers:
        topology.boundary(server.name)
    return "good"


def _topology_words(folder: Path) -> Sequence[str]:
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


def _read_candidate(path: Path) -> str:
    try:
        assignment = read_assignment(str(path), paths.fixtures() / "candidates")
    except CandidateError as error:
        _short(line.removeprefix(str(path)) for line in str(error).splitlines())
        return "refused"
    candidate = assignment.default
    candidate.sha256.encode()
    return "refused" if list(unknown_placeholders(candidate)) else "good"


def _run(option: str, *more: str) -> Callable[[Path], Sequence[str]]:
    """Return the run of a scenario with the file as an option's value."""
    scenario = str(ROOT / "scenarios/relay/relay.scenario.yaml")
    return lambda folder: ("run", scenario, option, "mine.yaml", "-q", "-p", "no:cacheprovider", *more)


# baselines ---------------------------------------------------------------------------------------------------------------


def _read_baseline(path: Path) -> str:
    try:
        read_baselines([str(path)])
    except BaselineError as error:
        _short(line.removeprefix("--baseline ").removeprefix(str(path)) for line in str(error).splitlines())
        return "refused"
    return "good"


# what a node says --------------------------------------------------------------------------------------------------------

_SAID = (
    b"220 mbx1.test ESMTP\r\n250-mbx1.test\r\n250-PIPELINING\r\n250-SIZE 1000000\r\n250-ENHANCEDSTATUSCODES\r\n250-XSHADOWREQUEST\r\n"
    b"250 XSHADOW\r\n250 2.1.0 ok\r\n250 2.1.5 ok\r\n354 go ahead\r\n250 2.6.0 <m1@x.test> queued\r\n221 2.0.0 bye\r\n",
    b"220 x\r\n250 x\r\n250 2.1.0 ok\r\n250 2.1.5 ok\r\n354 go\r\n451 4.3.0 later\r\n250 2.1.0 ok\r\n250 2.1.5 ok\r\n354 go\r\n250 ok\r\n221 bye\r\n",
    json.dumps(
        {
            "database": "0" * 32,
            "queues": [
                {"queue": "shadow of mbx1", "kind": "shadow", "next_hop": "mbx1", "items": [{"message_id": "<a@b>"}]}
            ],
            "delivered_to": 1,
        }
    ).encode(),
    json.dumps({"revision": 3, "applied": True}).encode(),
    b"mail_version = 3.7.11\n",
)

_CLIENT = (
    b"EHLO harness\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\nSubject: x\r\n\r\nbody\r\n.\r\nQUIT\r\n"
)


def _read_reply(path: Path) -> str:
    try:
        octets = path.read_bytes() if path.is_file() else b""
    except OSError:
        octets = b""
    _converse(octets)
    asyncio.run(_sequence(octets))
    text = octets.decode(errors="replace")
    try:
        parse_output("mbx1", "inspect", text)
    except NodeError as error:
        if len(str(error)) > 1200:  # 200 octets, each written as up to four characters
            raise AssertionError(f"a message of {len(str(error))} characters") from error
        return "refused"
    return "good"


def _converse(octets: bytes) -> None:
    parser = SessionParser()
    parser.feed_client(_CLIENT)
    for start in range(0, len(octets), 1000):
        units = [*parser.feed_server(octets[start : start + 1000]), *parser.feed_client(b"")]
        while parser.client_unblocked:
            parser.feed_client(b"")
            units += parser.feed_server(b"")
        if len(parser.unparsed_client) > 2 * 2**20 or parser.unparsed_server_size > 4 * 2**20:
            raise AssertionError(f"{len(parser.unparsed_client)} and {parser.unparsed_server_size} octets are held")


async def _sequence(octets: bytes) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(octets)
    reader.feed_eof()
    for _ in range(100):
        try:
            reply = await read_reply(reader, 5)
        except SessionLost:
            return
        _ = reply.enhanced, reply.text, reply.positive


SERVER = """
import asyncio, json, signal, sys
said = open(sys.argv[2], "rb").read()
lines = [line + b"\\n" for line in said.split(b"\\n")]
async def main():
    async def serve(reader, writer):
        at, data = 1, False
        writer.write(lines[0])
        try:
            while line := await reader.readline():
                if data and line != b".\\r\\n":
                    continue
                data = False
                while at < len(lines):
                    writer.write(lines[at]); at += 1
                    if lines[at - 1][3:4] != b"-":
                        break
                else:
                    break
                data = lines[at - 1].startswith(b"354")
                await writer.drain()
        except (OSError, ValueError):
            pass
        writer.close()
    for door in json.load(open(sys.argv[1]))["listeners"].values():
        await asyncio.start_server(serve, door["host"], door["port"], limit=2**20)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, sys.exit, 0)
    await asyncio.Event().wait()
asyncio.run(main())
"""
"""Says what is in a file, a reply for each line that it hears; its greeting is the file's first line."""

PROBE = """\
id: asked
title: A node says what it likes
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
drain: 1s
steps:
  - send: {as: m, to: victor@outside.test, via: mta1}
  - when: {}
"""


def _reply_words(folder: Path) -> Sequence[str]:
    (folder / "server.py").write_text(SERVER, "utf-8")
    said = folder / "said"
    if not said.is_file():
        said.is_dir() and said.rmdir()
        said.unlink(missing_ok=True)
        said.write_bytes(b"")
    description = {
        "name": "parrot",
        "kind": "exec",
        "claims": ["relay", "inspect"],
        "argv": [sys.executable, str(folder / "server.py"), "{config}", str(said)],
        "commands": {"inspect": ["cat", str(said)], "version": ["cat", str(said)]},
        "ready-within": 2,
    }
    (folder / "parrot.yaml").write_text(json.dumps(description), "utf-8")
    (folder / "asked.scenario.yaml").write_text(PROBE.replace("  - when: {}\n", "  - inspect: {node: mta1}\n"), "utf-8")
    words = (
        "--candidate",
        "parrot.yaml",
        "--run-dir",
        "run",
        "--fresh",
        "--cell-timeout",
        "20",
        "-q",
        "-p",
        "no:cacheprovider",
    )
    return ("run", "asked.scenario.yaml", *words)


# histories ---------------------------------------------------------------------------------------------------------------

WANTED = "inbound or outbound or queue or relay or heartbeat"


def _histories(work: Path) -> Sequence[bytes]:
    """Return the histories of the run in the working directory's parent; see `prepare`."""
    files = sorted((work.parent / "run/cells").glob("*.jsonl.gz"))
    every = [gzip.decompress(path.read_bytes()) for path in files]
    return [octets for octets in every if len(octets) < 60_000]


@cache
def _known() -> dict[str, Scenario]:
    return {scenario.id: scenario for scenario in read_corpus([paths.corpus()], paths.fixtures())}


def _read_history(path: Path) -> str:
    with suppress(CellUnreadable, SchemaTooNew):
        read_cell_end(path)
    try:
        cell = read_cell(path)
    except (CellUnreadable, SchemaTooNew):
        return "refused"
    refused = bool(cell.damage) or cell.cut_short
    material = view_stored_cell(cell, paths.corpus())
    summarize_cell(material, cell.slug)
    cell_page(material, home="index.html", earlier_outcomes=())
    try:
        today = find_cell(_known(), cell.header, "smoke")
    except (ValidationError, InvalidFile):
        return "refused"
    if today is None:
        return "refused"
    events, why = consistent_prefix(cell.events, today.topology.by_name)
    whole = not why
    judge_stored_cell(today, replace(cell, events=tuple(events)), all_events=whole)
    return "refused" if refused or why else "good"


def _history_words(folder: Path) -> Sequence[str]:
    run = folder.parent / "run"
    for name in ("run.json", "footer.json"):
        (folder / "damaged" / name).write_bytes((run / name).read_bytes())
    return "judge", "damaged"


KINDS: dict[Name, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "scenario",
            YAML,
            _scenarios,
            "x.scenario.yaml",
            _read_scenario,
            lambda folder: ("validate", "x.scenario.yaml"),
            frozenset({0, 2}),
        ),
        Kind(
            "topology",
            YAML,
            _topologies,
            "fixtures/topologies/two-servers-one-dag.yaml",
            _read_topology,
            _topology_words,
            frozenset({0, 2}),
        ),
        Kind(
            "candidate",
            YAML,
            _files("fixtures/candidates/*.yaml", "conformance/candidates/new.yaml", "examples/*/*.yaml"),
            "mine.yaml",
            _read_candidate,
            _run("--candidate", "--collect-only"),
            frozenset({0, 2}),
        ),
        Kind(
            "baseline",
            YAML,
            _files("fixtures/baselines/*.yaml", "tests/compat/0.1.0/known.yaml"),
            "mine.yaml",
            _read_baseline,
            _run("--baseline", "-k", "plain and as-it-is", "--run-dir", "run", "--fresh"),
            frozenset({0, 1, 2}),
        ),
        Kind("reply", (*REPLY, *JSON), lambda work: _SAID, "said", _read_reply, _reply_words, frozenset({0, 1, 3})),
        Kind(
            "history", JSON, _histories, "damaged/cells/x.jsonl", _read_history, _history_words, frozenset({0, 1, 2, 3})
        ),
    )
}
