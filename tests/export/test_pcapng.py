"""Captures of stored cells: what a reader of pcapng finds in them, and what Wireshark makes of them."""

import html
import io
import re
import shlex
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import dpkt
import pytest

from conformance.export.pcapng import as_pcapng
from conformance.export.segments import content_stand_in, reply_octets
from conformance.history.events import Closed, Command, Connected, Content, FaultFired, Reply
from conformance.report.cell_page import cell_page
from conformance.report.cell_view import view_stored_cell
from conformance.results.reader import StoredCell
from conformance.verdicts import Outcome
from tests.report.conftest import unavailable
from tests.suite.helpers import conformance_command

pytestmark = pytest.mark.integration

Stream = tuple[bytes, int, bytes, int]


def streams(octets: bytes) -> dict[Stream, bytearray]:
    """Return what each side of each connection sent, held against its sequence numbers."""
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


def test_both_sides_say_what_the_history_has(cells: list[StoredCell]):
    for cell in cells:
        said: dict[str, list[bytearray]] = {}
        for event in cell.events:
            match event:
                case Connected():
                    said[event.session] = [bytearray(), bytearray()]
                case Command():
                    said[event.session][0] += event.line.encode("utf-8", "surrogateescape") + b"\r\n"
                case Content():
                    said[event.session][0] += content_stand_in(event.digest)
                case Reply():
                    said[event.session][1] += reply_octets(event)
        found = streams(as_pcapng(cell))
        seen = sorted(
            (bytes(sent), bytes(found.get((dst, dport, src, sport), b"")))
            for (src, sport, dst, dport), sent in found.items()
            if dport == 25
        )
        spoken = sorted((bytes(client), bytes(server)) for client, server in said.values())
        assert [both for both in seen if any(both)] == [both for both in spoken if any(both)], cell.slug


def test_a_session_ends_as_it_was_seen_to_end(cells: list[StoredCell]):
    ends = [event.how for cell in cells for event in cell.events if isinstance(event, Closed)]
    assert {"fin", "reset"} <= set(ends)
    flags = [
        dpkt.ip.IP(packet).data.flags for cell in cells for _, packet in dpkt.pcapng.Reader(io.BytesIO(as_pcapng(cell)))
    ]
    refused = sum(event.kind == "connect-failed" for cell in cells for event in cell.events)
    assert sum(bool(flag & dpkt.tcp.TH_RST) for flag in flags) == ends.count("reset") + refused
    assert sum(bool(flag & dpkt.tcp.TH_FIN) for flag in flags) == 2 * (len(ends) - ends.count("reset"))


def test_a_long_content_is_cut_into_segments(cells: list[StoredCell]):
    cell = next(cell for cell in cells if "large-content" in cell.slug)
    assert all(len(packet) < 65536 for _, packet in dpkt.pcapng.Reader(io.BytesIO(as_pcapng(cell))))


@pytest.fixture
def tshark() -> str:
    """The program, where it is installed."""
    found = shutil.which("tshark")
    if found is None:
        unavailable("tshark: .ci/programs installs it")
    assert found is not None
    return found


def read(tshark: str, file: Path, *words: str) -> list[str]:
    """Return the lines that tshark prints of a capture."""
    ran = subprocess.run([tshark, "-r", str(file), *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_wireshark_reads_commands_and_replies_as_smtp(cells: list[StoredCell], tshark: str, tmp_path: Path):
    for cell in cells[::3]:
        file = tmp_path / f"{cell.slug}.pcapng"
        file.write_bytes(as_pcapng(cell))
        bad = "_ws.malformed || tcp.analysis.lost_segment || (tcp.len > 0 && !smtp)"
        assert read(tshark, file, "-Y", bad) == [], cell.slug
        seen = read(tshark, file, "-Y", "smtp.req.command", "-T", "fields", "-e", "smtp.req.command")
        verbs = [event.verb for event in cell.events if isinstance(event, Command)]
        assert seen == [verb for verb in verbs if len(verb) == 4], cell.slug
        comments = read(tshark, file, "-Y", "smtp && frame.comment", "-T", "fields", "-e", "frame.comment")
        assert all(any(verb in comment for comment in comments) for verb in verbs if len(verb) > 4), cell.slug


def test_faults_and_failed_checks_are_comments_of_packets(cells: list[StoredCell], tshark: str, tmp_path: Path):
    broken = next(cell for cell in cells if any(isinstance(event, FaultFired) for event in cell.events))
    wrong = next(cell for cell in cells if any(v.outcome is Outcome.FAIL and v.evidence for v in cell.verdicts))
    fault = next(event.fault for event in broken.events if isinstance(event, FaultFired))
    sentence = next(v.sentence for v in wrong.verdicts if v.outcome is Outcome.FAIL and v.evidence)
    for cell, words in ((broken, f"fault {fault}"), (wrong, sentence)):
        file = tmp_path / "one.pcapng"
        file.write_bytes(as_pcapng(cell))
        comments = read(tshark, file, "-Y", "frame.comment", "-T", "fields", "-e", "frame.comment")
        assert any(words in comment for comment in comments), comments


def test_the_command_writes_a_cell_by_the_beginning_of_its_name(run_dir: Path, cells: list[StoredCell], tmp_path: Path):
    name = next(cell.slug for cell in cells if cell.slug.startswith("killed-under-load-candidate=reference-"))
    for number, words in enumerate((name, name[: len("killed-under-load-candidate=reference-")])):
        out = tmp_path / f"{number}.pcapng"
        ran = conformance_command(
            "export", str(run_dir), "--cell", words, "--format", "pcapng", "--out", str(out), cwd=tmp_path
        )
        assert ran.returncode == 0, ran.stderr
        assert out.read_bytes()[:4] == b"\x0a\x0d\x0d\x0a"


def test_the_commands_on_a_cells_page_write_the_cell(run_dir: Path, cells: list[StoredCell], tmp_path: Path):
    wrong = next(cell for cell in cells if any(v.outcome is Outcome.FAIL for v in cell.verdicts))
    page = cell_page(view_stored_cell(wrong))
    commands = re.findall(r">(conformance export [^<]+)<", page)
    assert len(commands) == 3
    for command in map(shlex.split, map(html.unescape, commands)):
        ran = conformance_command(*command[1:], cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
        assert (tmp_path / command[-1]).stat().st_size > 100


@pytest.mark.parametrize(
    ("cell", "said"),
    [("no-such-cell", "no cell of"), ("whatever", "is the beginning of"), ("../run", "no cell of")],
)
def test_what_is_no_cell_is_a_usage_error(run_dir: Path, cell: str, said: str, tmp_path: Path):
    ran = conformance_command("export", str(run_dir), "--cell", cell, "--format", "pcapng", "--out", "x", cwd=tmp_path)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert not (tmp_path / "x").exists()
