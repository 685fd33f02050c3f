"""The remote kind: servers that run already, with and without commands to start and end them."""

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

from conformance import paths
from conformance.candidates.assignment import Assignment, check_hosts
from conformance.candidates.cell_needs import unsupported_reasons
from conformance.candidates.description import REFERENCE, Candidate, CandidateError
from conformance.cli import main
from conformance.loopback import is_loopback
from conformance.nodes.contract import NodeError, Unsupported
from conformance.nodes.places import PortLeases
from conformance.nodes.remote_node import RemoteNode
from conformance.run.applicability import inapplicable_reason
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_corpus
from tests.results.stored import plain
from tests.suite.helpers import conformance_command

PROXY = """
import sys
from aiosmtpd.controller import UnthreadedController
from aiosmtpd.handlers import Proxy
import asyncio
loop = asyncio.new_event_loop()
UnthreadedController(Proxy("127.0.0.1", int(sys.argv[2])), "127.0.0.1", int(sys.argv[1]), loop=loop).begin()
loop.run_forever()
"""


@pytest.fixture
def ports() -> Iterator[PortLeases]:
    leases = PortLeases()
    yield leases
    leases.release()


def candidate(port: int = 2525, **changes: Any) -> Candidate:
    fields = {"name": "mine", "kind": "remote", "claims": ("relay",), "addresses": {"frontend": {"port": port}}}
    return Candidate.model_validate({**fields, "ready-within": 10, **changes})


RELAYED = """\
id: relayed
title: A message is passed on
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
waive: {content-unchanged: "aiosmtpd's Proxy adds a field of its own"}
steps:
  - send: {as: m, to: victor@outside.test, via: mta1}
  - expect: {delivered: {of: m, at: outside, copies: 1, within: 1m}}
---
id: relayed-to-another
title: A message is passed on to another next hop
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
waive: {content-unchanged: "aiosmtpd's Proxy adds a field of its own"}
steps:
  - send: {as: m, to: wendy@second.test, via: mta1}
  - expect: {delivered: {of: m, at: outside2, copies: 1, within: 1m}}
---
id: killed
title: A message outlives the server
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
waive: {content-unchanged: "aiosmtpd's Proxy adds a field of its own"}
steps:
  - send: {as: m, to: victor@outside.test, via: mta1}
  - kill: mta1
  - start: mta1
  - expect: {delivered: {of: m, at: outside, copies: 1, within: 1m}}
---
id: tried-again
title: A message that the next hop does not want yet is tried again
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
waive: {content-unchanged: "aiosmtpd's Proxy adds a field of its own"}
steps:
  - answer: {sink: outside, at: MAIL, reply: 451 4.3.2 not now, times: 1}
  - send: {as: m, to: victor@outside.test, via: mta1, retry: {every: 1m, times: 3}}
  - expect: {delivered: {of: m, at: outside, copies: 1, within: 10m}}
---
id: with-other-limits
title: A server with a limit of its own
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
waive: {content-unchanged: "aiosmtpd's Proxy adds a field of its own"}
configure: {MaxMessageSize: 1000000}
steps:
  - send: {as: m, to: victor@outside.test, via: mta1}
  - expect: {delivered: {of: m, at: outside, copies: 1, within: 1m}}
"""


@pytest.fixture
def cells(tmp_path: Path) -> dict[str, Cell]:
    """Return the cells of the scenarios by their names."""
    (tmp_path / "these.scenario.yaml").write_text(RELAYED, "utf-8")
    scenarios = read_corpus([tmp_path / "these.scenario.yaml"], paths.fixtures())
    return {scenario.id: scenario.cells("smoke")[0] for scenario in scenarios}


def outside(port: int = 25025) -> dict[str, Any]:
    return {"outside": {"port": port}}


@pytest.mark.parametrize(
    ("scenario", "changes", "said"),
    [
        ("relayed", {"next-hops": outside()}, ""),
        ("relayed", {}, "it was not configured to dial outside:"),
        ("relayed-to-another", {"next-hops": outside()}, "it was not configured to dial outside2:"),
        ("killed", {"next-hops": outside()}, "its description has no command 'kill', which the step 'kill' needs"),
        ("killed", {"commands": {"kill": ["x"], "start": ["y"]}}, ""),
        ("tried-again", {"next-hops": outside()}, "its description does not state `scale`"),
        ("tried-again", {"next-hops": outside(), "scale": 1}, "its description states `scale: 1`"),
        ("tried-again", {"next-hops": outside(), "scale": 60}, ""),
        ("tried-again", {"next-hops": outside(), "flush-to-retry": True, "commands": {"flush": ["x"]}}, ""),
        (
            "with-other-limits",
            {"next-hops": outside()},
            "its user configured it, and this scenario sets parameters that differ from the defaults",
        ),
        ("with-other-limits", {"commands": {"stop": ["x"], "start": ["y"]}}, ""),
    ],
)
def test_a_cell_that_needs_means_the_server_lacks_is_not_applicable(
    cells: dict[str, Cell], scenario: str, changes: dict[str, Any], said: str
):
    settings = Settings(clock="scaled", seed=1, scale=60.0)
    reason = inapplicable_reason(cells[scenario], Assignment(candidate(**changes)), settings)
    if not said:
        assert reason == ""
    else:
        assert reason.startswith(f"cannot be run: mta1: {said}")


SHADOWS = {"claims": ("shadow-2013", "lmtp-delivery"), "addresses": {"frontend": {"port": 25}}}


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ((), "was not configured to dial mbx1:"),
        (("mbx1",), "was not configured to dial mbx1.delivery:"),
        (("mbx1", "mbx1.delivery"), ""),
    ],
)
def test_a_remote_server_must_be_configured_to_dial_the_other_servers(known: tuple[str, ...], said: str):
    path = paths.corpus() / "creation" / "inbound.scenario.yaml"
    cell = read_corpus([path], paths.fixtures())[0].cells("smoke")[0]
    hops = {party: {"port": 30001 + number} for number, party in enumerate(known)}
    mine = candidate(**SHADOWS, **{"next-hops": hops, "scale": 60})
    found = unsupported_reasons(cell, Assignment(REFERENCE, {"mbx2": mine}), 60.0)
    assert [said in reason for reason in found] == [True] * bool(said), found


def test_one_remote_server_cannot_be_several_servers_of_a_topology():
    path = paths.corpus() / "creation" / "inbound.scenario.yaml"
    cell = read_corpus([path], paths.fixtures())[0].cells("smoke")[0]
    mine, same = candidate(claims=("shadow-2013",)), candidate(claims=("shadow-2013",), name="another-name")
    assert "cannot be several" in unsupported_reasons(cell, Assignment(mine), 60.0)[0]
    described_twice = Assignment(REFERENCE, {"mbx1": mine, "mbx2": same})
    assert "cannot be several" in unsupported_reasons(cell, described_twice, 60.0)[0]
    elsewhere = candidate(2526, claims=("shadow-2013",))
    found = unsupported_reasons(cell, Assignment(REFERENCE, {"mbx1": mine, "mbx2": elsewhere}), 60.0)
    assert [reason for reason in found if "cannot be several" in reason] == [], "these are two servers"


@pytest.mark.parametrize(
    ("host", "here"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("mail.test", False)],
)
def test_a_host_other_than_this_machine_needs_to_be_allowed(host: str, here: bool):
    assert is_loopback(host) is here
    there = {"host": host, "port": 25}
    descriptions: dict[str, dict[str, Any]] = {
        "addresses.frontend": {"addresses": {"frontend": there, "transport": {"port": 26}}},
        "addresses.transport": {"addresses": {"frontend": {"port": 26}, "transport": there}},
        "next-hops.outside2": {"next-hops": {"outside": {"port": 26}, "outside2": there}},
    }
    for key, changes in descriptions.items():
        described = candidate(**changes)
        check_hosts([described], [host])
        if here:
            check_hosts([described], [])
        else:
            with pytest.raises(CandidateError, match=f"{key} is {host}, .* --allow-hosts {host}"):
                check_hosts([candidate(), described], ["192.0.2.7"])


@pytest.mark.parametrize(
    "command",
    [("explore", "inbound-acknowledged", "--plans", "1", "--candidate"), ("smuggling",)],
    ids=lambda words: words[0],
)
def test_another_machine_is_neither_explored_nor_sent_false_ends(
    tmp_path: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    dialled: list[object] = []
    for connect in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, connect, lambda sock, address: dialled.append(address))
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as ended:
        main([*command, "tcp:192.0.2.7:25", "--allow-hosts", "192.0.2.6,192.0.2.8", "--out", str(out)])
    assert ended.value.code == 2
    assert "192.0.2.7, which is not this machine; with --allow-hosts 192.0.2.7" in capsys.readouterr().err
    assert not out.exists()
    assert dialled == []


@pytest.mark.long
def test_another_machine_is_refused_before_a_run_begins(tmp_path: Path):
    ran = conformance_command("run", "--candidate", "tcp:192.0.2.7:25", "--run-dir", "run", cwd=tmp_path)
    assert ran.returncode == 2
    assert "192.0.2.7, which is not this machine" in ran.stdout + ran.stderr
    assert not (tmp_path / "run").exists()
    checked = conformance_command("candidate", "check", "tcp:192.0.2.7:25", cwd=tmp_path)
    assert checked.returncode == 2
    assert "--allow-hosts 192.0.2.7" in checked.stderr


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"addresses": {"transport": {"port": 25}}}, "every server has a frontend"),
        ({"commands": {"start": ["x"]}}, "'start' needs 'stop' or 'kill'"),
        ({"next-hops": {"outside": {"port": 25}, "outside2": {"port": 25}}}, "two parties have the same address"),
    ],
)
def test_a_description_with_contradicting_keys_is_refused(changes: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=said):
        candidate(**changes)


@pytest.mark.timed
@pytest.mark.integration
def test_a_running_server_is_judged_by_its_address_and_left_running(
    tmp_path: Path, ports: PortLeases, cells: dict[str, Cell]
):
    port, hop = ports.lease(), ports.lease()
    others = len(cells) - 1  # all scenarios but `relayed`
    described = candidate(port, **{"next-hops": outside(hop)}).model_dump(mode="json", by_alias=True, exclude_none=True)
    (tmp_path / "mine.yaml").write_text(json.dumps(described), "utf-8")
    with subprocess.Popen([sys.executable, "-c", PROXY, str(port), str(hop)]) as server:
        ran = conformance_command(
            "run", "these.scenario.yaml", "--candidate", "mine.yaml", "--candidate", "reference", "--cells", "2",
            "--clock", "scaled", "--scale", "600", "--run-dir", "run", cwd=tmp_path,
        )  # fmt: skip
        assert server.poll() is None
        server.kill()
    assert ran.returncode == 0, ran.stdout
    assert f"{others} not applicable" in ran.stdout
    whys = [json.loads(plain(path).splitlines()[-1]) for path in (tmp_path / "run/cells").glob("*mine*.jsonl.gz")]
    assert sum("cannot be run: mta1: " in json.dumps(why) for why in whys) == others
    assert sum(why["outcome"] == "pass" for why in whys) == 1


def is_running(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


STARTS = """
import subprocess, sys
server = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2], sys.argv[3]], start_new_session=True)
open(sys.argv[4], "a").write(f"{server.pid}\\n")
"""

KILLS = "import os, signal, sys; os.kill(int(open(sys.argv[1]).read().split()[-1]), signal.SIGKILL)"


@pytest.mark.timed
@pytest.mark.integration
def test_the_description_s_commands_kill_and_start_a_remote_server(tmp_path: Path, ports: PortLeases):
    (tmp_path / "these.scenario.yaml").write_text(RELAYED, "utf-8")
    pids = str(tmp_path / "pids")
    python = sys.executable
    described = candidate(
        ports.lease(),
        commands={
            "start": [python, "-c", STARTS, PROXY, "{listen.frontend}", "{next_hop.port}", pids],
            "kill": [python, "-c", KILLS, pids],
        },
    ).model_dump(mode="json", by_alias=True, exclude_none=True)
    (tmp_path / "mine.yaml").write_text(json.dumps(described), "utf-8")
    ran = conformance_command(
        "run", "these.scenario.yaml", "-k", "killed or (relayed and not another)", "--candidate", "mine.yaml",
        "--clock", "scaled", "--scale", "600", "--run-dir", "run", cwd=tmp_path,
    )  # fmt: skip
    assert "2 pass" in ran.stdout, ran.stdout
    started = [int(line) for line in Path(pids).read_text("utf-8").split()]
    assert len(set(started)) == 3, "one for the first scenario, two for the one with a kill"
    assert not any(is_running(pid) for pid in started)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("no-such-program",), "no-such-program: No such file or directory"),
        (("{python}", "-c", "import sys; sys.exit('no licence')"), "exit code 1: no licence"),
        (("{python}", "-c", "import time; time.sleep(60)"), "had not ended after 0.5 s"),
    ],
)
def test_a_command_that_fails_is_reported(tmp_path: Path, command: tuple[str, ...], said: str):
    commands = dict.fromkeys(("start", "stop", "reload", "flush"), command)
    node = RemoteNode("mta1", candidate(commands=commands, **{"command-within": 0.5}), tmp_path)

    async def steps() -> None:
        with pytest.raises(NodeError, match=f"mta1: start: .*{said}"):
            await node.start({"listeners": {}})
        with pytest.raises(NodeError, match=f"mta1: stop: .*{said}"):
            await node.stop()
        with pytest.raises(NodeError, match=f"mta1: reload: .*{said}"):
            await node.reload({"listeners": {}})
        with pytest.raises(NodeError, match=f"mta1: flush: .*{said}"):
            await node.command("flush")

    asyncio.run(steps())
    assert psutil.Process().children() == []


def test_an_action_without_a_command_in_the_description_is_unsupported(tmp_path: Path):
    node = RemoteNode("mta1", candidate(), tmp_path)

    async def steps() -> None:
        await node.start({"listeners": {}})
        for what in (node.stop, node.kill, node.pause, node.resume):
            with pytest.raises(Unsupported):
                await what()
        for configure in (node.start, node.reload):
            with pytest.raises(Unsupported):
                await configure({"listeners": {}})
        with pytest.raises(Unsupported):
            await node.command("inspect")
        await node.close()
        with pytest.raises(Unsupported):
            await node.wipe()

    asyncio.run(steps())
