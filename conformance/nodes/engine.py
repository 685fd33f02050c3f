"""What the `docker` kind wants of a Docker engine, asked in threads; every answer that is none is a NodeError."""

import asyncio
import atexit
import functools
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import docker
import requests
from docker.types import LogConfig, Mount, Ulimit

from conformance.candidates.availability import engine_address
from conformance.candidates.description import Candidate
from conformance.candidates.kinds.local import Container, DockerFields
from conformance.nodes import reaper
from conformance.nodes.contract import NodeError

T = TypeVar("T")

OWNER_LABEL = "conformance.owner"
"""On everything that we make: which process of the harness it is of, so that its reaper finds it."""

DIRECTORY_LABEL = "conformance.directory"
"""On everything that we make: the node's directory, which lies in that of the run."""

_NO_LOG = "none"
"""The engine keeps nothing of what a container prints: it is read while it is printed."""

_NOT_RUNNING = 409
"""What the engine answers when it is to signal a container that does not run."""

_PATIENCE = 60
"""Seconds in which the engine has to do what it is asked."""


@functools.cache
def owner() -> str:
    """Return this process's own name, once its reaper is there: it removes what has that name when this process ends."""
    name = uuid.uuid4().hex
    process = subprocess.Popen(  # noqa: S603  # our own program
        [sys.executable, reaper.__file__, OWNER_LABEL, name], stdin=subprocess.PIPE, start_new_session=True
    )
    atexit.register(_dismiss, process)
    return name


def _dismiss(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(_PATIENCE)


class Engine:
    """One node's connection to the engine that DOCKER_HOST names; `directory` is the node's."""

    def __init__(self, node: str, directory: Path) -> None:
        self._node = node
        self._directory = directory
        self._client: Any = docker.from_env(timeout=_PATIENCE)

    @property
    def api(self) -> Any:
        """The engine's interface as it is, for what is read in a thread of its own."""
        return self._client.api

    async def ask(self, stage: str, what: Callable[[], T]) -> T:
        """Have something done in a thread; whoever is cancelled meanwhile waits until it is done or refused.

        Raises NodeError.
        """
        task = asyncio.ensure_future(asyncio.to_thread(what))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            raise
        except (docker.errors.DockerException, requests.RequestException) as error:
            raise NodeError(self._node, stage, f"the Docker engine: {explained(error)}") from error

    async def image(self, name: str) -> Any:
        """Return an image that the engine has. Raises NodeError when it has none; nothing is pulled."""

        def get() -> Any:
            try:
                return self._client.images.get(name)
            except docker.errors.ImageNotFound:
                return None

        found = await self.ask("start", get)
        if found is None:
            reason = f"the engine at {engine_address()} has no image {name}"
            raise NodeError(self._node, "start", reason, f"docker build -t {name} DIR, or docker pull {name}")
        return found

    async def make_network(self) -> Any:
        """Make a network of the node's own: from it leads no way out but to this machine."""

        def make() -> Any:
            name = f"conformance-{self._node}-{uuid.uuid4().hex[:12]}"
            network = self._client.networks.create(name, driver="bridge", internal=True, labels=self._labels())
            network.reload()
            return network

        return await self.ask("network", make)

    def create(self, candidate: Candidate, command: list[str], mounts: list[Mount], network: Any, user: str) -> Any:
        """Create a container that may do nothing but what a server of ours must; it is not started."""
        needs = DockerFields.of(candidate).container
        assert needs is not None
        return self._client.containers.create(
            needs.image,
            command=command or None,
            name=f"{network.name}-{uuid.uuid4().hex[:6]}",
            hostname=self._node,
            labels=self._labels(),
            environment=candidate.environment,
            user=user or None,
            network=network.name,
            mounts=mounts,
            stdin_open=False,
            log_config=LogConfig(type=_NO_LOG),
            ulimits=[Ulimit(name="fsize", soft=candidate.directory_limit, hard=candidate.directory_limit)],
            **hardening(needs),
        )

    def _labels(self) -> dict[str, str]:
        return {OWNER_LABEL: owner(), DIRECTORY_LABEL: str(self._directory.absolute())}

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()


def hardening(needs: Container) -> dict[str, Any]:
    """Return what keeps a container from doing harm: to this machine, to its other users, to anybody's memory."""
    return {
        "read_only": True,
        "tmpfs": dict.fromkeys(("/tmp", *needs.writable), "size=64m,mode=1777"),  # noqa: S108  # of the container
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "mem_limit": needs.memory,
        "memswap_limit": needs.memory,
        "pids_limit": needs.pids,
        "init": True,
        "ipc_mode": "private",
        "dns": ["127.0.0.1"],  # of the container, where nobody answers: an engine would ask the world for it otherwise
        "restart_policy": {"Name": "no"},
    }


def kill(container: Any) -> None:
    """SIGKILL everything in a container; one that has ended needs none."""
    try:
        container.kill()
    except docker.errors.APIError as error:
        if error.status_code != _NOT_RUNNING:
            raise


def gateway(network: Any) -> str:
    """Return the address at which containers in a network reach this machine."""
    return str(network.attrs["IPAM"]["Config"][0]["Gateway"])


def explained(error: Exception) -> str:
    """Return what the engine says itself, where it says anything."""
    return str(getattr(error, "explanation", None) or error)
