"""The program: its exit codes, its one-line error messages, and its control channel (node contract)."""

import asyncio
import json
import smtplib
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.candidates.description import REFERENCE
from conformance.nodes.contract import ConfigurationRefused, NodeError
from conformance.nodes.exec_node import ExecNode
from conformance.nodes.places import PortLeases
from conformance.reference.control import CommandFailed, send_command, serve_commands
from conformance.reference.inspection import format_table
from conformance.reference.queue.delivery import CommandRefused

PROGRAM = REFERENCE.model_copy(update={"kind": "exec", "contract": 1, "ready_within": 60.0})


def run(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "conformance.reference", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def conformance(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "conformance", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


async def echo(name: str, arguments) -> object:
    if name == "refuse":
        raise CommandRefused("no, because")
    if name == "unknown":
        raise NotImplementedError
    if name == "fail":
        raise OSError("no such disk")
    return {"name": name, "arguments": list(arguments)}


@pytest.mark.parametrize("depth", [0, 1, 20])
def test_commands_and_answers_pass_over_a_socket_however_long_its_path_is(tmp_path: Path, depth: int):
    directory = tmp_path.joinpath(*["deep" * 30] * depth)
    directory.mkdir(parents=True, exist_ok=True)
    assert depth == 0 or len(str(directory)) > 108, "longer than a socket address"

    async def steps() -> None:
        async with serve_commands(directory, echo):
            assert await send_command(directory, "inspect", ["a", "b"]) == {"name": "inspect", "arguments": ["a", "b"]}
            with pytest.raises(CommandFailed, match="no, because"):
                await send_command(directory, "refuse", [])
            with pytest.raises(CommandFailed, match="there is no command 'unknown'"):
                await send_command(directory, "unknown", [])
            with pytest.raises(CommandFailed, match="OSError: no such disk"):
                await send_command(directory, "fail", [])
        assert list(directory.iterdir()) == []
        with pytest.raises(CommandFailed, match="no node is running"):
            await send_command(directory, "inspect", [])

    asyncio.run(steps())


def test_a_node_that_ends_before_it_reads_a_command_has_not_answered_it(tmp_path: Path):
    def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()  # what was not read makes it a reset

    async def steps() -> None:
        server = await asyncio.start_unix_server(reset, tmp_path / "control.sock")
        with pytest.raises(CommandFailed, match="the node ended before it answered inspect"):
            await send_command(tmp_path, "inspect", ["x" * 100_000])
        server.close()

    asyncio.run(steps())


@pytest.mark.parametrize(
    "line", [b"[1, 2]", b"no JSON", b"", b"\xff", b"{}", b'{"command": "inspect"}', b'{"command": "i", "arguments": 1}']
)
def test_an_invalid_command_gets_an_error_and_the_next_one_is_served(tmp_path: Path, line: bytes):
    async def steps() -> None:
        async with serve_commands(tmp_path, echo):
            reader, writer = await asyncio.open_unix_connection(tmp_path / "control.sock")
            writer.write(line + b"\n")
            assert "not a valid command" in json.loads(await reader.readline())["error"]
            writer.close()
            assert await send_command(tmp_path, "inspect", []) == {"name": "inspect", "arguments": []}

    asyncio.run(steps())


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{}", "contract"),
        ("no JSON", "not a JSON document"),
        (json.dumps({"contract": 3}), "contract"),
    ],
)
def test_a_refused_configuration_ends_the_program_with_2_and_one_line(tmp_path: Path, text: str, named: str):
    (tmp_path / "node.json").write_text(text)
    ended = run("--config", str(tmp_path / "node.json"))
    assert ended.returncode == 2
    assert named in ended.stderr
    assert (ended.stdout, ended.stderr.count("\n"), ended.stderr[-1]) == ("", 1, "\n")


@pytest.fixture
def configuration(tmp_path: Path):
    leases = PortLeases()
    yield {
        "contract": 1, "name": "mbx1", "generation": "ex2016", "role": "mailbox", "site": "NewYork",
        "data_dir": str(tmp_path / "mbx1" / "data"),
        "listeners": {"frontend": {"host": "127.0.0.1", "port": leases.lease()}},
        "mailboxes": [{"address": "bob@corp.test", "database": "DB1", "server": "mbx1"}],
    }  # fmt: skip
    leases.release()


def ehlo(configuration: dict) -> list[str]:
    """Return the lines of the reply to EHLO at the frontend."""
    with smtplib.SMTP("127.0.0.1", configuration["listeners"]["frontend"]["port"], timeout=20) as client:
        code, text = client.ehlo("outside.test")
    return [f"{code}-{line}" for line in text.decode().splitlines()]


@pytest.mark.long
@pytest.mark.integration
def test_a_running_program_answers_commands_reloads_and_exits_with_0(tmp_path: Path, configuration: dict):
    async def steps() -> int:
        node = ExecNode("mbx1", PROGRAM, tmp_path / "mbx1")
        try:
            await node.start(configuration)
            assert (await node.command("inspect"))["queues"] == []
            shown = await asyncio.to_thread(conformance, "queues", str(tmp_path / "mbx1" / "node.json"))
            assert shown.stdout.splitlines()[1].split() == ["queue", "next", "hop", "messages", "oldest", "since"]
            assert shown.stdout.splitlines()[-1] == "delivered-to: 0 rows"
            assert await node.command("resubmit", ["DB1"]) == {"resubmitted": 0}
            with pytest.raises(NodeError, match="not a server of this boundary"):
                await node.command("redirect-messages", ["mbx9"])
            assert "250-SIZE 36700160" in await asyncio.to_thread(ehlo, configuration)
            await node.reload({**configuration, "transport": {"MaxMessageSize": 65536}})
            assert "250-SIZE 65536" in await asyncio.to_thread(ehlo, configuration)
            with pytest.raises(ConfigurationRefused, match="ShadowHeartbeatFrequency"):
                await node.reload({**configuration, "transport": {"ShadowHeartbeatFrequency": -1}})
            assert (await node.command("inspect"))["queues"] == []
            return await node.stop()
        finally:
            await node.close()

    assert asyncio.run(steps()) == 0


@pytest.mark.integration
def test_a_damaged_database_ends_the_program_with_1_and_can_be_wiped(tmp_path: Path, configuration: dict):
    data = tmp_path / "mbx1" / "data"
    data.mkdir(parents=True)
    (data / "queue.db").write_bytes(b"not a database" * 1000)
    path = tmp_path / "node.json"
    path.write_text(json.dumps(configuration))
    ended = run("--config", str(path))
    assert ended.returncode == 1
    assert "queue.db cannot be used" in ended.stderr

    async def steps() -> int:
        node = ExecNode("mbx1", PROGRAM, tmp_path / "mbx1")
        try:
            await node.wipe()
            await node.start(configuration)
            return await node.stop()
        finally:
            await node.close()

    assert asyncio.run(steps()) == 0


def test_queues_are_formatted_as_a_table():
    item = {"message_id": "m", "shadow_id": "s", "primary": None, "recipients": ["bob@corp.test"], "since": 0.0}
    state = {
        "database": "db-1",
        "queues": [
            {
                "queue": "delivery outside",
                "kind": "delivery",
                "next_hop": "outside",
                "items": [{**item, "since": 9}, item],
            },
            {"queue": "shadow mbx2 to mbx1", "kind": "shadow", "next_hop": "mbx1", "items": []},
        ],
        "delivered_to": 3,
    }
    assert format_table(state).splitlines() == [
        "database db-1",
        "queue                next hop  messages  oldest since",
        "delivery outside     outside   2         1970-01-01 00:00:00Z",
        "shadow mbx2 to mbx1  mbx1      0",
        "delivered-to: 3 rows",
    ]


def test_an_unknown_defect_is_refused(tmp_path: Path):
    ended, known = (
        run("--config", str(tmp_path / "node.json"), "--defect", name) for name in ("none-such", "never-shadows")
    )
    assert ended.returncode == 2
    assert "none-such" in ended.stderr
    assert "node.json" in known.stderr, "the file is missing"
    assert "never-shadows" not in known.stderr


def test_a_command_to_a_node_that_does_not_run_fails(tmp_path: Path, configuration: dict):
    Path(configuration["data_dir"]).mkdir(parents=True)
    path = tmp_path / "node.json"
    path.write_text(json.dumps(configuration))
    ended = run("--config", str(path), "inspect")
    assert ended.returncode == 1
    assert "no node is running" in ended.stderr
