"""The docker kind with a real engine: one server in a container, that behaves or does not."""

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
        found[place] = os.access(place, os.W_OK)
    try:
        socket.create_connection(("192.0.2.1", 25), timeout=2)
    except OSError as error:
        found["outside"] = os.strerror(error.errno) if error.errno else str(error)
    print(json.dumps(found), flush=True)
async def main():
    tries()""",
)


def test_a_container_can_reach_nobody_and_write_nothing_but_its_data(tmp_path: Path, base: str):
    async def look(node: DockerNode) -> None:
        assert await node.stop() == 0

    run(candidate(base, LOOKS_AROUND, user="65534:65534"), tmp_path, look)
    found = json.loads((tmp_path / "node.log").read_text("utf-8").splitlines()[0])
    assert found == {
        "user": 65534,
        "capabilities": "0000000000000000",
        "/": False,
        "/etc": False,
        "/node": False,
        "/node/node.json": False,
        "/node/data": True,
        "/tmp": True,
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


def test_what_was_killed_comes_back_with_its_data_unless_it_was_wiped(tmp_path: Path, base: str):
    async def life() -> list[str | None]:
        async with node_of(candidate(base, REMEMBERS), tmp_path) as (node, moves):
            await node.start(CONFIGURATION)
            await node.pause()
            await node.kill()
            await node.start(CONFIGURATION)
            assert await node.stop() == 0
            await node.wipe()
            await node.start(CONFIGURATION)
            return list(moves)

    moves = asyncio.run(life())
    assert (tmp_path / "node.log").read_text("utf-8").split("\n")[:3] == ["start 1", "start 2", "start 1"]
    assert [move is None for move in moves] == [False, True, False, True, False], "nobody dials a dead container"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (programs.LEAVES_AT_ONCE, "exit code 3: no licence file"),
        (programs.SPEAKS_HTTP, "in place of a 220 greeting"),
    ],
)
def test_a_container_that_does_not_start_is_told(tmp_path: Path, base: str, program: str, said: str):
    with pytest.raises(NodeError, match=said):
        run(candidate(base, program), tmp_path, DockerNode.stop)


def test_a_container_that_never_answers_is_told_within_the_bound(tmp_path: Path, base: str):
    with pytest.raises(NodeError, match=r"gave no greeting within 0.5 s"):
        run(candidate(base, programs.NEVER_LISTENS, **{"ready-within": 0.5}), tmp_path, DockerNode.stop)


def test_a_refused_configuration_is_another_error(tmp_path: Path, base: str):
    with pytest.raises(ConfigurationRefused, match=r"transport\.Bogus: unknown parameter"):
        run(candidate(base, programs.REFUSES), tmp_path, DockerNode.stop)


def test_a_command_that_the_image_lacks_is_told_in_the_engine_s_words(tmp_path: Path, base: str):
    with pytest.raises(NodeError, match="no-such-program"):
        run(candidate(base, argv=("no-such-program",)), tmp_path, DockerNode.stop)


def test_an_image_that_is_not_there_is_not_pulled(tmp_path: Path, client: Any):
    with pytest.raises(NodeError, match=r"has no image nobody/nothing:1 \(docker build -t nobody/nothing:1"):
        run(candidate("nobody/nothing:1"), tmp_path, DockerNode.stop)


def test_what_ignores_sigterm_is_killed_and_told(tmp_path: Path, base: str):
    with pytest.raises(NodeError, match="did not exit within 0.5 s of SIGTERM"):
        run(candidate(base, programs.IGNORES_SIGTERM, **{"stop-within": 0.5}), tmp_path, DockerNode.stop)


def test_a_server_that_dies_takes_its_children_with_it_and_has_failed(tmp_path: Path, base: str):
    dies = programs.DAEMONISES.replace(
        "asyncio.get_running_loop().add",
        "asyncio.get_running_loop().call_later(0.2, sys.exit, 7)\n    asyncio.get_running_loop().add",
    ).replace('sys.argv[1] + ".grandchild"', '"/tmp/grandchild"')
    assert "exited on its own with exit code 7" in run(candidate(base, dies), tmp_path, failure)


def test_a_log_has_a_limit_and_so_has_the_data(tmp_path: Path, base: str):
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


def test_a_command_is_run_in_the_container_and_bounded(tmp_path: Path, base: str):
    sleeps = {
        "inspect": ("{python}", "-c", "print('{\"queues\": []}')"),
        "list-queue": ("{python}", "-c", "import time; time.sleep(60)"),
        "flush": ("{python}", "-c", "import sys; sys.exit('no queue')"),
    }

    async def life(node: DockerNode) -> Any:
        with pytest.raises(NodeError, match="exit code 1: no queue"):
            await node.command("flush")
        with pytest.raises(NodeError, match="had not ended after 2 s"):
            await node.command("list-queue")
        return await node.command("inspect")

    assert run(candidate(base, commands=sleeps, **{"command-within": 2}), tmp_path, life) == {"queues": []}


def test_the_version_is_the_image_s_own(base: str):
    assert asyncio.run(DockerNode.version(candidate(base))).startswith("sha256:")
    assert asyncio.run(DockerNode.version(candidate(base, version="7.1"))) == "7.1"
