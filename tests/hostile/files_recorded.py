"""What a server says, and what a run has recorded: SMTP replies, the output of its commands, histories.

Of each kind there are examples (octets that can be read), a function that reads a file in this process and returns "good" or
"refused", and the words of a command that reads it. Any exception is a defect of the harness, and so is a message or a buffer that
grows with what was said. The first argument of a function is the working directory or the file's path.
"""

import asyncio
import gzip
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from conformance import paths
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
from conformance.scenarios.loader import Scenario, read_corpus
from conformance.wire.client import SessionLost, read_reply
from conformance.wire.session_parser import SessionParser

# what a node says --------------------------------------------------------------------------------------------------------

SAID = (
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
"""What servers and their commands say: the replies of two sessions, the answers to `inspect` and to a configuration, a version."""

_CLIENT = (
    b"EHLO harness\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\nSubject: x\r\n\r\nbody\r\n.\r\nQUIT\r\n"
)


def read_node_output(path: Path) -> str:
    """Read the file as replies of a server, from the harness's client and by a link, and as the output of the command `inspect`."""
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


def node_output_words(folder: Path) -> Sequence[str]:
    """Return the run of a scenario with a server that says what is in the file, and inspects with it too."""
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


def histories(work: Path) -> Sequence[bytes]:
    """Return the histories of the run in the working directory's parent; see `prepare`."""
    files = sorted((work.parent / "run/cells").glob("*.jsonl.gz"))
    every = [gzip.decompress(path.read_bytes()) for path in files]
    return [octets for octets in every if len(octets) < 60_000]


@cache
def _known() -> dict[str, Scenario]:
    return {scenario.id: scenario for scenario in read_corpus([paths.corpus()], paths.fixtures())}


def read_history(path: Path) -> str:
    """Read a cell's history, make its page and its summary, and judge it again as far as its events are consistent."""
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


def history_words(folder: Path) -> Sequence[str]:
    """Return `judge` of the run in whose directory the file is, with the run's own header and footer."""
    run = folder.parent / "run"
    for name in ("run.json", "footer.json"):
        (folder / "damaged" / name).write_bytes((run / name).read_bytes())
    return "judge", "damaged"
