"""Captures of stored cells, as a pcapng reader and Wireshark decode them."""

import html
import io
import re
import shlex
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import dpkt
import pytest

from conformance.export.pcapng import as_pcapng
from conformance.export.perfetto import as_perfetto
from conformance.export.scenario import as_scenario
from conformance.export.segments import content_stand_in, reply_octets
from conformance.history.events import Closed, Command, Connected, ConnectFailed, Content, FaultFired, Reply
from conformance.report.cell_page import cell_page
from conformance.report.cell_view import view_stored_cell
from conformance.results.reader import StoredCell
from conformance.verdicts import Outcome
from tests.export.readers import check_commands_and_replies, run_tshark
from tests.suite.helpers import conformance_command

pytestmark = [pytest.mark.integration, pytest.mark.long]

Stream = tuple[bytes, int, bytes, int]


def streams(octets: bytes) -> dict[Stream, bytearray]:
    """Return the octets that each side of each connection sent; fail where a sequence number does not fit them."""
    sent: dict[Stream, bytearray] = defaultdict(bytearray)
    first: dict[Stream, int] = {}
    for _, packet in dpkt.pcapng.Reader(io.BytesIO(octets)):
        ip = dpkt.ip.IP(packet)
        tcp = ip.data
        side = (ip.src, tcp.sport, ip.dst, tcp.dport)
        if tcp.flags & dpkt.tcp.TH_SYN:
            first[side] = tcp.seq + 1
            sent[side] = bytearray()
        elif tcp.data:
            assert tcp.seq - first[side] == len(sent[side])
            sent[side] += tcp.data
    return sent


def test_each_side_of_a_connection_sends_what_the_history_records(cells: list[StoredCell]):
    compared = 0
    for cell in cells:
        recorded: dict[str, list[bytearray]] = {}
        for event in cell.events:
            match event:
                case Connected():
                    recorded[event.session] = [bytearray(), bytearray()]
                case Command():
                    recorded[event.session][0] += event.line.encode("utf-8", "surrogateescape") + b"\r\n"
                case Content():
                    recorded[event.session][0] += content_stand_in(event.digest)
                case Reply():
                    recorded[event.session][1] += reply_octets(event)
        found = streams(as_pcapng(cell))
        captured = sorted(
            (bytes(sent), bytes(found.get((dst, dport, src, sport), b"")))
            for (src, sport, dst, dport), sent in found.items()
            if dport == 25
        )
        expected = sorted((bytes(client), bytes(server)) for client, server in recorded.values())
        assert [both for both in captured if any(both)] == [both for both in expected if any(both)], cell.slug
        compared += sum(all(both) for both in expected)
    assert compared > len(cells), "there are sessions in which both sides said something"


def captured_endings(octets: bytes) -> list[tuple[str, str]]:
    """Return how each connection of a capture ended, and by which side, in their order; fail where one side alone has a FIN."""
    ended: list[tuple[str, str]] = []
    finished: dict[frozenset[tuple[bytes, int]], set[int]] = defaultdict(set)
    for _, packet in dpkt.pcapng.Reader(io.BytesIO(octets)):
        ip = dpkt.ip.IP(packet)
        tcp = ip.data
        side = "client" if tcp.dport == 25 else "server"
        if tcp.flags & dpkt.tcp.TH_RST:
            ended.append(("reset", side))
        elif tcp.flags & dpkt.tcp.TH_FIN:
            sides = finished[frozenset({(ip.src, tcp.sport), (ip.dst, tcp.dport)})]
            if not sides:
                ended.append(("fin", side))
            sides.add(tcp.sport)
    assert all(len(sides) == 2 for sides in finished.values())
    return ended


def test_a_captured_session_ends_as_the_history_records(cells: list[StoredCell]):
    endings: set[str] = set()
    for cell in cells:
        expected = [
            ("reset", "server")
            if isinstance(event, ConnectFailed)
            else ("reset" if event.how == "reset" else "fin", "client" if event.by == "client" else "server")
            for event in cell.events
            if isinstance(event, Closed | ConnectFailed)
        ]
        assert captured_endings(as_pcapng(cell)) == expected, cell.slug
        endings |= {how for how, _ in expected}
    assert {"fin", "reset"} <= endings


def test_a_line_longer_than_an_ip_packet_is_split_into_segments(cells: list[StoredCell]):
    connected = next(event for event in cells[0].events if isinstance(event, Connected))
    line = "NOOP " + "x" * 100_000
    long = Command(n=connected.n + 1, t=connected.t, session=connected.session, verb="NOOP", line=line)
    said = Reply(n=long.n + 1, t=long.t, session=long.session, to="NOOP", code=250, lines=("y" * 100_000,))
    capture = as_pcapng(replace(cells[0], events=(connected, long, said), verdicts=()))
    assert all(len(packet) < 65536 for _, packet in dpkt.pcapng.Reader(io.BytesIO(capture)))
    assert [bytes(sent) for sent in streams(capture).values()] == [line.encode() + b"\r\n", reply_octets(said)]


def test_wireshark_reads_commands_and_replies_as_smtp(cells: list[StoredCell], tshark: str, tmp_path: Path):
    long: set[str] = set()
    for cell in cells[::3]:
        file = tmp_path / f"{cell.slug}.pcapng"
        file.write_bytes(as_pcapng(cell))
        check_commands_and_replies(tshark, file, cell)
        codes = run_tshark(tshark, file, "-Y", "smtp.response.code", "-T", "fields", "-e", "smtp.response.code")
        replies = [str(event.code) for event in cell.events if isinstance(event, Reply)]
        assert [code for line in codes for code in line.split(",")] == replies, cell.slug
        verbs = {event.verb for event in cell.events if isinstance(event, Command) and len(event.verb) > 4}
        comments = run_tshark(tshark, file, "-Y", "smtp && frame.comment", "-T", "fields", "-e", "frame.comment")
        assert all(any(verb in comment for comment in comments) for verb in verbs), cell.slug
        long |= verbs
    assert long, "Wireshark itself recognizes none of these"


def test_faults_and_failed_checks_are_comments_of_packets(cells: list[StoredCell], tshark: str, tmp_path: Path):
    broken = next(cell for cell in cells if any(isinstance(event, FaultFired) for event in cell.events))
    wrong = next(cell for cell in cells if any(v.outcome is Outcome.FAIL and v.evidence for v in cell.verdicts))
    faults = [f"fault {e.fault}: {e.action}" for e in broken.events if isinstance(e, FaultFired)]
    sentences = [f"fail: {v.sentence}" for v in wrong.verdicts if v.outcome is Outcome.FAIL and v.evidence]
    for cell, texts in ((broken, faults), (wrong, sentences)):
        file = tmp_path / "one.pcapng"
        file.write_bytes(as_pcapng(cell))
        comments = run_tshark(tshark, file, "-Y", "frame.comment", "-T", "fields", "-e", "frame.comment")
        assert [text for text in texts if not any(text in comment for comment in comments)] == [], comments


def test_the_command_exports_the_cell_with_this_name_or_beginning_of_a_name(
    run_dir: Path, cells: list[StoredCell], tmp_path: Path
):
    beginning = "killed-under-load-candidate=reference-"
    (cell,) = (cell for cell in cells if cell.slug.startswith(beginning))
    for number, name in enumerate((cell.slug, beginning)):
        out = tmp_path / f"{number}.pcapng"
        ran = conformance_command(
            "export", str(run_dir), "--cell", name, "--format", "pcapng", "--out", str(out), cwd=tmp_path
        )
        assert ran.returncode == 0, ran.stderr
        assert out.read_bytes() == as_pcapng(cell)


def test_the_commands_on_a_cells_page_export_that_cell(run_dir: Path, cells: list[StoredCell], tmp_path: Path):
    wrong = next(cell for cell in cells if any(v.outcome is Outcome.FAIL for v in cell.verdicts))
    page = cell_page(view_stored_cell(wrong))
    commands = re.findall(r">(conformance export [^<]+)<", page)
    exported = []
    for command in map(shlex.split, map(html.unescape, commands)):
        ran = conformance_command(*command[1:], cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
        exported.append((tmp_path / command[-1]).read_bytes())
    assert sorted(exported) == sorted([as_pcapng(wrong), as_perfetto(wrong), as_scenario(wrong)])


@pytest.mark.parametrize(
    ("cell", "error"),
    [("no-such-cell", "no cell of"), ("whatever", "is the beginning of"), ("../run", "no cell of")],
)
def test_a_name_that_fits_no_cell_or_several_is_a_usage_error(run_dir: Path, cell: str, error: str, tmp_path: Path):
    ran = conformance_command("export", str(run_dir), "--cell", cell, "--format", "pcapng", "--out", "x", cwd=tmp_path)
    assert ran.returncode == 2
    assert error in ran.stderr
    assert not (tmp_path / "x").exists()
