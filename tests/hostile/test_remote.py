"""Candidates of the kind `remote`: hostile servers are judged in time, and only allowed hosts are connected to."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from conformance.candidates.assignment import check_hosts
from conformance.candidates.description import Candidate, CandidateError
from conformance.loopback import is_loopback
from conformance.nodes.places import PortLeases
from conformance.results.reader import read_run
from conformance.verdicts import Outcome
from tests.hostile.peers import PEERS, Peer
from tests.hostile.test_peers import PASSES
from tests.nodes.test_hostile import RELAYED
from tests.suite.helpers import ROOT, conformance_command, environment

SERVE = "import sys; from tests.hostile.test_remote import serve; serve(sys.argv[1])"

REDIRECTS = {
    "refers to another by 551": b"551 5.7.1 User not local; please try <victor@[127.0.0.1:TRAP]>\r\n",
    "forwards by 251": b"251 2.1.5 User not local; will forward to <victor@[127.0.0.1:TRAP]>\r\n",
    "refers to another by 421": b"421 4.3.2 Try 127.0.0.1:TRAP\r\n",
    "refers to another by an MX": b"550 5.4.6 outside.test. 1 IN MX 0 127.0.0.1:TRAP.\r\n",
}
"""Replies to RCPT that name another server, which a client might connect to."""


@pytest.fixture
def ports() -> Iterator[PortLeases]:
    leases = PortLeases()
    yield leases
    leases.release()


def serve(servers: str) -> None:
    """Run the servers of a JSON list of [name, host, port, next hop's port, what it says to RCPT], and print `listening` once they do."""

    async def main() -> None:
        for name, host, port, hop, says in json.loads(servers):
            config = {
                "listeners": {"frontend": {"host": host, "port": port}},
                "routes": [{"domain": "*", "next_hops": [{"dial": [host, hop]}]}],
            }
            peer = Says(config, says.encode("latin-1")) if says else Peer(config, name)
            await peer.start()
        print("listening", flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())


class Says(Peer):
    """A relay that answers RCPT with some octets."""

    def __init__(self, configuration: dict[str, Any], octets: bytes) -> None:
        super().__init__(configuration, "answers with bare CR")
        self._octets = octets

    async def _say(self, writer: asyncio.StreamWriter, phase: str, reply: bytes) -> None:
        writer.write(self._octets if phase == "RCPT" else reply + b"\r\n")
        await writer.drain()


def describe(directory: Path, name: str, host: str, port: int, hop: int) -> str:
    word = name.replace(" ", "_")
    description = {
        "name": word, "kind": "remote", "claims": ["relay"], "addresses": {"frontend": {"host": host, "port": port}},
        "next-hops": {"outside": {"host": host, "port": hop}}, "ready-within": 5,
    }  # fmt: skip
    (directory / f"{word}.yaml").write_text(json.dumps(description), "utf-8")  # JSON is YAML
    return f"{word}.yaml"


class Serving:
    """A process of this test in which servers run; the harness has not started it."""

    def __init__(self, servers: list[tuple[str, str, int, int, str]]) -> None:
        variables = {**environment(), "PYTHONPATH": str(ROOT)}
        words = [sys.executable, "-c", SERVE, json.dumps(servers)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=variables)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "listening\n"

    def __enter__(self) -> "subprocess.Popen[str]":
        return self.process

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.long
@pytest.mark.timed
@pytest.mark.integration
def test_hostile_running_servers_are_judged_in_time_and_not_ended(tmp_path: Path, ports: PortLeases):
    (tmp_path / "relayed.scenario.yaml").write_text(RELAYED, "utf-8")
    servers = [(name, "127.0.0.1", ports.lease(), ports.lease(), "") for name in PEERS]
    words = [word for name, *where, _ in servers for word in ("--candidate", describe(tmp_path, name, *where))]
    with Serving(servers) as process:
        ran = conformance_command(
            "run", "relayed.scenario.yaml", *words, "--cells", "8", "--clock", "scaled", "--scale", "600",
            "--cell-timeout", "60", "--run-dir", "run", cwd=tmp_path, timeout=900,
        )  # fmt: skip
        assert process.poll() is None, "the harness ended a process that it had not started"
    said = ran.stdout + ran.stderr
    assert "INTERNALERROR" not in said
    assert "Traceback" not in said
    assert "harness itself broke" not in said
    assert "\x1b" not in said
    cells = {c.header.candidate.replace("_", " "): c for c in read_run(tmp_path / "run").cells([])}
    assert set(cells) == set(PEERS)
    outcomes = {name: cell.footer.outcome for name, cell in cells.items() if cell.footer is not None}
    assert set(outcomes) == set(PEERS), "every cell has its end"
    assert {name for name, outcome in outcomes.items() if outcome is Outcome.PASS} <= PASSES
    assert Outcome.FAIL in outcomes.values()
    assert ran.returncode == 1
    assert max(cell.footer.wall_seconds for cell in cells.values() if cell.footer is not None) < 120


@pytest.mark.timed
@pytest.mark.integration
def test_the_harness_does_not_connect_where_a_reply_refers_it(tmp_path: Path, ports: PortLeases):
    (tmp_path / "relayed.scenario.yaml").write_text(RELAYED, "utf-8")
    with socket.create_server(("127.0.0.1", 0), backlog=64) as trap:
        place = str(trap.getsockname()[1])
        servers = [
            (name, "127.0.0.1", ports.lease(), ports.lease(), says.decode("latin-1").replace("TRAP", place))
            for name, says in REDIRECTS.items()
        ]
        words = [word for name, *where, _ in servers for word in ("--candidate", describe(tmp_path, name, *where))]
        with Serving(servers):
            ran = conformance_command(
                "run", "relayed.scenario.yaml", *words, "--cells", "4", "--clock", "scaled", "--scale", "600",
                "--run-dir", "run", cwd=tmp_path,
            )  # fmt: skip
        cells = {c.header.candidate.replace("_", " "): c for c in read_run(tmp_path / "run").cells([])}
        for name in REDIRECTS:
            seen = "".join(map(repr, cells[name].events))
            assert f"127.0.0.1:{place}" in seen, f"{name}: it was said, and recorded"
        trap.setblocking(False)
        with pytest.raises(BlockingIOError):
            trap.accept()
        with socket.create_connection(trap.getsockname()) as own:
            accepted, whence = trap.accept()
            accepted.close()
            assert whence == own.getsockname(), "a connection would have been seen"
    assert "Traceback" not in ran.stdout + ran.stderr


def elsewhere() -> str:
    """Return a non-loopback IPv4 address of this machine; skip the test if it has none."""
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family == socket.AF_INET and not one.address.startswith("127."):
                return one.address
    pytest.skip("this machine has no address but its loopback's")


@pytest.mark.long
@pytest.mark.timed
@pytest.mark.integration
def test_a_non_loopback_address_is_connected_to_only_when_allowed(tmp_path: Path, ports: PortLeases):
    host, port, hop = elsewhere(), ports.lease(), ports.lease()
    (tmp_path / "relayed.scenario.yaml").write_text(RELAYED, "utf-8")
    mine = describe(tmp_path, "answers QUIT with a flood", host, port, hop)
    words = ["run", "relayed.scenario.yaml", "--candidate", mine, "--clock", "scaled", "--scale", "60", "--run-dir"]
    with socket.create_server((host, port)) as trap:
        for allowed in ([], ["--allow-hosts", "127.0.0.1"], ["--allow-hosts", f"{host}0,{host}.test"]):
            ran = conformance_command(*words, "refused", *allowed, cwd=tmp_path)
            assert ran.returncode == 2
            assert f"addresses.frontend is {host}, which is not this machine" in ran.stdout + ran.stderr
        trap.setblocking(False)
        with pytest.raises(BlockingIOError):
            trap.accept()
    with Serving([("answers QUIT with a flood", host, port, hop, "")]):
        ran = conformance_command(*words, "run", "--allow-hosts", f"192.0.2.7,{host}", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert "1 pass" in ran.stdout
    (cell,) = read_run(tmp_path / "run").cells([])
    assert f"--allow-hosts {host}" in cell.header.repeat


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True), ("127.255.255.254", True), ("::1", True), ("0:0:0:0:0:0:0:1", True), ("localhost", True),
        ("0.0.0.0", False), ("::", False), ("::ffff:192.0.2.7", False), ("fe80::1", False), ("2001:db8::1", False),
        ("128.0.0.1", False), ("10.0.0.1", False), ("127.0.0.1.nip.io", False), ("127.0.0.1 ", False), ("[::1]", False),
        ("0177.0.0.1", False), ("2130706433", False), ("0x7f000001", False), ("localhost.example.test", False),
        ("LOCALHOST.", False), ("mail.test", False), ("127.0.0.1@mail.test", False), ("\u0661\u0662\u0667.0.0.1", False),
        ("", False),
    ],
)  # fmt: skip
def test_only_loopback_names_and_addresses_need_no_permission(host: str, here: bool):
    assert is_loopback(host) is here
    there = Candidate.model_validate(
        {"name": "mine", "kind": "remote", "claims": ["relay"], "addresses": {"frontend": {"host": host, "port": 25}}}
    )
    check_hosts([there], [host])
    if here:
        check_hosts([there], [])
    else:
        for others in ([], ["127.0.0.1", "localhost", "*", "0.0.0.0/0", "::/0"]):
            with pytest.raises(CandidateError, match="which is not this machine"):
                check_hosts([there], others)


@pytest.mark.long
@pytest.mark.timed
@pytest.mark.integration
def test_a_host_name_is_allowed_by_name_and_not_by_its_address(tmp_path: Path, ports: PortLeases):
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        pytest.skip("this machine's name has no address")
    port, hop = ports.lease(), ports.lease()
    (tmp_path / "relayed.scenario.yaml").write_text(RELAYED, "utf-8")
    mine = describe(tmp_path, "answers QUIT with a flood", name, port, hop)
    words = ["run", "relayed.scenario.yaml", "--candidate", mine, "--clock", "scaled", "--scale", "60", "--run-dir"]
    refused = conformance_command(*words, "refused", "--allow-hosts", address, cwd=tmp_path)
    assert refused.returncode == 2
    assert f"addresses.frontend is {name}, which is not this machine" in refused.stdout + refused.stderr
    with Serving([("answers QUIT with a flood", address, port, hop, "")]):
        ran = conformance_command(*words, "run", "--allow-hosts", name, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert "1 pass" in ran.stdout


@pytest.mark.long
@pytest.mark.timed
@pytest.mark.integration
def test_a_server_on_the_ipv6_loopback_is_judged(tmp_path: Path, ports: PortLeases):
    if not socket.has_ipv6 or not any("::1" in [a.address for a in one] for one in psutil.net_if_addrs().values()):
        pytest.skip("this machine has no IPv6 loopback")
    port, hop = ports.lease(), ports.lease()
    (tmp_path / "relayed.scenario.yaml").write_text(RELAYED, "utf-8")
    mine = describe(tmp_path, "answers QUIT with a flood", "::1", port, hop)
    with Serving([("answers QUIT with a flood", "::1", port, hop, "")]):
        ran = conformance_command(
            "run", "relayed.scenario.yaml", "--candidate", mine, "--clock", "scaled", "--scale", "60",
            "--run-dir", "run", cwd=tmp_path,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    assert "1 pass" in ran.stdout
