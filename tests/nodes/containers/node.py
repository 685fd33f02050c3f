"""One node in a container: its description, its start and end, and what the engine has of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from conformance.candidates.description import Candidate
from conformance.nodes.docker_node import DockerNode
from conformance.nodes.engine import DIRECTORY_LABEL, Engine
from tests.nodes import programs

CONFIGURATION = {"listeners": {"frontend": {"host": "0.0.0.0", "port": 2525}}}
"""The configuration of a node: the address inside of its container."""


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


@asynccontextmanager
async def node_of(what: Candidate, directory: Path) -> AsyncIterator[tuple[DockerNode, list[str | None]]]:
    """Yield a node of the docker kind, and the list of its addresses; None where it had none."""
    engine = await Engine.connect("mta1", directory)
    network = await engine.make_network()
    moves: list[str | None] = []
    node = DockerNode("mta1", what, directory, engine, network, moves.append)
    try:
        yield node, moves
    finally:
        await node.close()
        await engine.call("network", network.remove)
        engine.close()


def run(what: Candidate, directory: Path, test: Callable[[DockerNode], Awaitable[Any]]) -> Any:
    """Start a node, run the test with it, and remove it."""

    async def steps() -> Any:
        async with node_of(what, directory) as (node, _):
            await node.start(CONFIGURATION)
            return await test(node)

    return asyncio.run(steps())


async def failure(node: DockerNode) -> str | None:
    """Wait until a node has ended, and return why."""
    async with asyncio.timeout(60):
        await node._ended.wait()
    return node.failure


def of_run(client: Any, directory: Path) -> list[str]:
    """Return the names of the containers and networks of nodes whose directories are below this one."""
    made = [*client.containers.list(all=True, filters={"label": DIRECTORY_LABEL}, ignore_removed=True)]
    labels = {container.name: container.labels for container in made}
    labels |= {n.name: n.attrs["Labels"] for n in client.networks.list(filters={"label": DIRECTORY_LABEL})}
    return [name for name, of in labels.items() if Path(of[DIRECTORY_LABEL]).is_relative_to(directory)]
