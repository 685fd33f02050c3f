"""The docker kind with a real engine: one well-behaved or misbehaving server in a container."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from conformance.nodes.contract import ConfigurationRefused, NodeError
from conformance.nodes.docker_node import DockerNode
from tests.nodes import programs
from tests.nodes.containers.node import CONFIGURATION, candidate, failure, node_of, run

pytestmark = [pytest.mark.docker, pytest.mark.integration, pytest.mark.slow]

LOOKS_AROUND = programs.GREETS.replace(
    "async def main():",
    """
def tries():
    import os, socket
    found = {"user": os.geteuid(), "capabilities": open("/proc/self/status").read().split("CapEff:")[1].split()[0]}
    for place in ("/", "/etc", "/node", "/node/node.json", "/node/data", "/tmp"):
        read_only = os.statvfs(place).f_flag & os.ST_RDONLY
        found[place] = "read-only" if read_only else "writable" if os.access(place, os.W_OK) else "of another user"
    try:
        socket.create_connection(("192.0.2.1", 25), timeout=2)
    except OSError as error:
        found["outside"] = os.strerror(error.errno) if error.errno else str(error)
    print(json.dumps(found), flush=True)
async def main():
    tries()""",
)


def test_a_container_cannot_dial_out_and_can_write_to_its_data_and_tmp_but_not_to_its_root(tmp_path: Path, base: str):
    async def look(node: DockerNode) -> None:
        assert node._network.attrs["Internal"], (
            "the address below answers nobody, on a network without a way out or with one"
        )
        assert await node.stop() == 0

    run(candidate(base, LOOKS_AROUND, user="65534:65534"), tmp_path, look)
    found = json.loads((tmp_path / "node.log").read_text("utf-8").splitlines()[0])
    assert found == {
        "user": 65534,
        "capabilities": "0000000000000000",
        "/": "read-only",
        "/etc": "read-only",
        "/node": "read-only",
        "/node/node.json": "read-only",
        "/node/data": "writable",
        "/tmp": "writable",
        "outside": "timed out",
    }


REMEMBERS = programs.GREETS.replace(
    "async def main():",
    """
def count():
    with open("/node/data/starts", "a+") as file:
        file.write("x"); file.seek(0); print("start", len(file.read()), flush=True)
async def main():
    count()""",
)


def test_a_killed_container_restarts_with_its_data_unless_wiped(tmp_path: Path, base: str):
    async def steps() -> list[str | None]:
        async with node_of(candidate(base, REMEMBERS), tmp_path) as (node, moves):
            await node.start(CONFIGURATION)
            await node.pause()
            await node.kill()
            await node.start(CONFIGURATION)
            assert await node.stop() == 0
            await node.wipe()
            await node.start(CONFIGURATION)
            return list(moves)

    moves = asyncio.run(steps())
    assert (tmp_path / "node.log").read_text("utf-8").split("\n")[:3] == ["start 1", "start 2", "start 1"]
    assert [move is None for move in moves] == [False, True, False, True, False], (
        "a container that has ended has no address"
    )


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (programs.LEAVES_AT_ONCE, "exit code 3: no licence file"),
        (programs.SPEAKS_HTTP, "in place of a 220 greeting"),
    ],
)
def test_a_container_that_does_not_start_is_reported(tmp_path: Path, base: str, program: str, said: str):
    with pytest.raises(NodeError, match=said) as raised:
        run(candidate(base, program), tmp_path, DockerNode.stop)
    assert not isinstance(raised.value, ConfigurationRefused)


def test_a_container_that_never_answers_is_reported_with_the_time_limit(tmp_path: Path, base: str):
    with pytest.raises(NodeError, match=r"gave no greeting within 0.5 s"):
        run(candidate(base, programs.NEVER_LISTENS, **{"ready-within": 0.5}), tmp_path, DockerNode.stop)


def test_a_refused_configuration_has_its_own_error(tmp_path: Path, base: str):
    with pytest.raises(ConfigurationRefused, match=r"transport\.Bogus: unknown parameter"):
        run(candidate(base, programs.REFUSES), tmp_path, DockerNode.stop)


def test_a_command_that_the_image_lacks_is_reported(tmp_path: Path, base: str):
    with pytest.raises(NodeError, match="no-such-program"):
        run(candidate(base, argv=("no-such-program",)), tmp_path, DockerNode.stop)


def test_a_missing_image_is_reported_with_the_command_that_builds_it(tmp_path: Path, client: Any):
    with pytest.raises(NodeError, match=r"has no image no-such/image:1 \(docker build -t no-such/image:1"):
        run(candidate("no-such/image:1"), tmp_path, DockerNode.stop)


def test_a_container_that_ignores_sigterm_is_reported(tmp_path: Path, base: str):
    with pytest.raises(NodeError, match="did not exit within 0.5 s of SIGTERM"):
        run(candidate(base, programs.IGNORES_SIGTERM, **{"stop-within": 0.5}), tmp_path, DockerNode.stop)


def test_a_server_that_exits_and_leaves_a_child_has_failed(tmp_path: Path, base: str):
    dies = programs.DAEMONISES.replace(
        "asyncio.get_running_loop().add",
        "asyncio.get_running_loop().call_later(0.2, sys.exit, 7)\n    asyncio.get_running_loop().add",
    ).replace('sys.argv[1] + ".grandchild"', '"/tmp/grandchild"')
    assert "exited on its own with exit code 7" in run(candidate(base, dies), tmp_path, failure)


def test_log_and_data_of_a_container_are_limited(tmp_path: Path, base: str):
    floods = programs.GREETS.replace(
        "async def main():",
        """
def flood():
    import threading
    def write():
        with open("/node/data/big", "wb") as file:
            while True: file.write(b"x" * 65536)
    print("y" * 300000, flush=True)
    threading.Thread(target=write, daemon=True).start()
async def main():
    asyncio.get_running_loop().call_later(0.3, flood)""",
    )

    limits = {"log-limit": 4096, "directory-limit": 2**22}
    assert (
        run(candidate(base, floods, **limits), tmp_path, failure) == "killed: its directory grew beyond 4194304 octets"
    )
    log = (tmp_path / "node.log").read_bytes()
    assert b"the log is at its limit" in log
    assert len(log) < 5000


def test_commands_run_in_the_container_with_a_time_limit(tmp_path: Path, base: str):
    sleeps = {
        "inspect": ("{python}", "-c", "open('/node/node.json').close(); print('{\"queues\": []}')"),
        "list-queue": ("{python}", "-c", "import time; time.sleep(60)"),
        "flush": ("{python}", "-c", "import sys; sys.exit('no queue')"),
    }

    async def steps(node: DockerNode) -> Any:
        with pytest.raises(NodeError, match="exit code 1: no queue"):
            await node.command("flush")
        with pytest.raises(NodeError, match="had not ended after 2 s"):
            await node.command("list-queue")
        return await node.command("inspect")

    assert run(candidate(base, commands=sleeps, **{"command-within": 2}), tmp_path, steps) == {"queues": []}


def test_the_version_is_the_image_s_short_id_unless_described(client: Any, base: str):
    assert asyncio.run(DockerNode.version(candidate(base))) == client.images.get(base).short_id
    assert asyncio.run(DockerNode.version(candidate(base, version="7.1"))) == "7.1"
