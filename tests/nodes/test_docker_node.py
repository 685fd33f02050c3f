"""The docker kind with a real engine: the reference in containers, servers that misbehave in them, and nothing left."""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import docker
import pytest

from conformance import paths
from conformance.candidates.description import Candidate
from conformance.candidates.engine import engine_missing
from conformance.nodes.contract import ConfigurationRefused, NodeError
from conformance.nodes.docker_node import DockerNode
from conformance.nodes.engine import DIRECTORY_LABEL, Engine
from conformance.nodes.version import detect_version
from tests.docs.pages import commands
from tests.nodes import images, programs
from tests.suite.helpers import command, conformance_command, environment

pytestmark = [pytest.mark.docker, pytest.mark.integration, pytest.mark.slow]

DESCRIPTION = paths.fixtures() / "containers" / "reference" / "reference.yaml"


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Return the SDK's client; without an engine there is nothing to test, but in CI there has to be one."""
    if missing := engine_missing():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{missing}; .ci/engine COMMAND starts one for as long as the command runs")
        pytest.skip(missing)
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="module")
def base(client: Any) -> Iterator[str]:
    """Return an image with this machine's own Python."""
    tag = f"conformance-base-{uuid.uuid4().hex[:8]}"
    images.import_base(client, tag)
    yield tag
    client.images.remove(tag, force=True)


@pytest.fixture(scope="module")
def reference(client: Any, base: str) -> Iterator[str]:
    """Return an image of the reference, built with its Dockerfile."""
    tag = base.replace("base", "reference")
    images.build_reference(client, tag, base)
    yield tag
    client.images.remove(tag, force=True)


@pytest.fixture(autouse=True)
def nothing_left_behind(client: Any, tmp_path: Path) -> Iterator[None]:
    """Hold that no container and no network of a test outlives it."""
    yield
    assert of_run(client, tmp_path) == []


def of_run(client: Any, directory: Path) -> list[str]:
    """Return what there is at the engine of nodes whose directories are below this one."""
    made = [*client.containers.list(all=True, filters={"label": DIRECTORY_LABEL}, ignore_removed=True)]
    labels = {container.name: container.labels for container in made}
    labels |= {n.name: n.attrs["Labels"] for n in client.networks.list(filters={"label": DIRECTORY_LABEL})}
    return [name for name, of in labels.items() if Path(of[DIRECTORY_LABEL]).is_relative_to(directory)]


def candidate(image: str, program: str = programs.GREETS, **changes: object) -> Candidate:
    fields = {
        "name": "toy",
        "kind": "docker",
        "claims": ("relay",),
        "listeners": ("frontend",),
        "container": {"image": image, "memory": "128m", "pids": 32},
        "argv": ("{python}", "-c", program, "{config}"),
        "ready-within": 20,
        "stop-within": 20,
    }
    return Candidate.model_validate({**fields, **changes})


CONFIGURATION = {"listeners": {"frontend": {"host": "0.0.0.0", "port": 2525}}}


@asynccontextmanager
async def node_of(what: Candidate, directory: Path) -> AsyncIterator[tuple[DockerNode, list[str | None]]]:
    """Give a node of the kind, and where it has been."""
    engine = Engine("mta1", directory)
    network = await engine.make_network()
    moves: list[str | None] = []
    node = DockerNode("mta1", what, directory, engine, network, moves.append)
    try:
        yield node, moves
    finally:
        await node.close()
        await engine.ask("network", network.remove)
        engine.close()


def run(what: Candidate, directory: Path, test: Callable[[DockerNode], Awaitable[Any]]) -> Any:
    """Start a node, do something with it, and take it down."""

    async def life() -> Any:
        async with node_of(what, directory) as (node, _):
            await node.start(CONFIGURATION)
            return await test(node)

    return asyncio.run(life())


async def failure(node: DockerNode) -> str | None:
    """Wait until a node has ended, and return why."""
    async with asyncio.timeout(60):
        await node._ended.wait()
    return node.failure


def described(tmp_path: Path, image: str) -> None:
    """Write the shipped description of the reference, with the image of this test."""
    text = DESCRIPTION.read_text("utf-8").replace("conformance-reference", image)
    (tmp_path / "mine.yaml").write_text(text, "utf-8")


FEW = "inbound-acknowledgement-waits or (sender-lost-after-the-shadow and drop) or idle-session-is-closed"


def test_the_reference_in_containers_keeps_its_promises(tmp_path: Path, reference: str):
    described(tmp_path, reference)
    ran = conformance_command(
        "run", str(paths.corpus() / "creation"), str(paths.corpus() / "timeouts"), "-k", FEW,
        "--candidate", "./mine.yaml", "--clock", "scaled", "--cells", "3", "--run-dir", "run", cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    assert "3 pass" in ran.stdout
    header = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert header["candidates"][0]["kind"] == "docker"
    assert header["candidates"][0]["version"].startswith("sha256:")


def test_the_commands_of_the_documentation_do_what_it_says(tmp_path: Path, client: Any, base: str):
    page = commands(images.ROOT / "docs" / "testing-your-server.md")
    build, *others = [command.text for command in page if "container" in command.text]
    words = [*shlex.split(build)[:-1], "--build-arg", f"BASE={base}", "--network", "none", "."]
    built = subprocess.run(
        words, cwd=images.ROOT, env={**os.environ, "DOCKER_BUILDKIT": "0"}, capture_output=True, text=True, check=False,
        timeout=240,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    (tmp_path / "fixtures").symlink_to(images.ROOT / "fixtures")
    try:
        assert [shlex.split(command)[:2] for command in others] == [
            ["conformance", "candidate"],
            ["conformance", "run"],
        ]
        for command in others:
            ran = conformance_command(*shlex.split(command)[1:], cwd=tmp_path)
            assert ran.returncode == 0, ran.stdout + ran.stderr
    finally:
        client.images.remove("conformance-reference", force=True)


def test_containers_and_servers_in_this_process_play_together(tmp_path: Path, reference: str):
    described(tmp_path, reference)
    ran = conformance_command(
        "run", str(paths.corpus() / "creation" / "inbound.scenario.yaml"), "-k", "inbound-acknowledgement-waits",
        "--candidate", "mbx1=./mine.yaml,mbx2=exec:reference", "--run-dir", "run", cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    assert "1 pass" in ran.stdout


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
    with pytest.raises(NodeError, match="did not leave within 0.5 s of SIGTERM"):
        run(candidate(base, programs.IGNORES_SIGTERM, **{"stop-within": 0.5}), tmp_path, DockerNode.stop)


def test_a_server_that_dies_takes_its_children_with_it_and_has_failed(tmp_path: Path, base: str):
    async def life(node: DockerNode) -> str | None:
        return await failure(node)

    dies = programs.DAEMONISES.replace(
        "asyncio.get_running_loop().add",
        "asyncio.get_running_loop().call_later(0.2, sys.exit, 7)\n    asyncio.get_running_loop().add",
    ).replace('sys.argv[1] + ".grandchild"', '"/tmp/grandchild"')
    assert "left by itself with exit code 7" in run(candidate(base, dies), tmp_path, life)


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

    async def life(node: DockerNode) -> str | None:
        return await failure(node)

    limits = {"log-limit": 4096, "directory-limit": 2**22}
    assert run(candidate(base, floods, **limits), tmp_path, life) == "killed: its directory outgrew 4194304 octets"
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
    assert asyncio.run(detect_version(candidate(base))).startswith("sha256:")
    assert asyncio.run(detect_version(candidate(base, version="7.1"))) == "7.1"


def test_no_container_outlives_a_run_that_is_killed(tmp_path: Path, client: Any, base: str):
    (tmp_path / "waits.scenario.yaml").write_text(images.WAITS, "utf-8")
    described_toy = candidate(base).model_dump(mode="json", by_alias=True, exclude_none=True)
    (tmp_path / "toy.yaml").write_text(json.dumps(described_toy), "utf-8")
    words = command("run", "waits.scenario.yaml", "--candidate", "./toy.yaml", "--run-dir", "run")
    said = tmp_path / "said.txt"
    with (
        said.open("w") as file,
        subprocess.Popen(words, cwd=tmp_path, env=environment(), stdout=file, stderr=file) as harness,
    ):
        patience = time.monotonic() + 60
        while harness.poll() is None and len(of_run(client, tmp_path)) < 2 and time.monotonic() < patience:
            time.sleep(0.05)
        assert len(of_run(client, tmp_path)) == 2, said.read_text("utf-8")
        harness.kill()
    assert harness.returncode == -signal.SIGKILL
    patience = time.monotonic() + 40
    while of_run(client, tmp_path) and time.monotonic() < patience:
        time.sleep(0.05)
