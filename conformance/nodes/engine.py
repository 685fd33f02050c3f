"""What the `docker` kind asks of a Docker engine. Calls run in threads; every failure of the engine becomes a NodeError.

Containers and networks have labels that name the process which made them and the node's directory. The *reaper* is a
small process that removes everything with the first label when the harness has ended, in whatever way. A *stage* is
what the caller does at the time (`start`, `kill`); it only appears in the text of a NodeError.
"""

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
"""A label of every container and network: which process of the harness made it, so that its reaper finds it."""

DIRECTORY_LABEL = "conformance.directory"
"""A label of every container and network: the node's directory, which lies in that of the run."""

_NO_LOG = "none"
"""The log driver with which the engine stores nothing of what a container prints: it is read while it is printed."""

_NOT_RUNNING = 409
"""The engine's status code when it is to signal a container that does not run."""

_MAX_CALL_S = 60
"""Seconds that the engine has to answer."""


@functools.cache
def owner_id() -> str:
    """Return the value of OWNER_LABEL for this process.

    The first call starts this process's reaper, which removes everything with that label when the process has ended.
    """
    name = uuid.uuid4().hex
    process = subprocess.Popen(  # noqa: S603  # our own program
        [sys.executable, reaper.__file__, OWNER_LABEL, name], stdin=subprocess.PIPE, start_new_session=True
    )
    atexit.register(_end_reaper, process)
    return name


def _end_reaper(process: subprocess.Popen[bytes]) -> None:
    """Close the reaper's input, by which it sees that this process ends, and wait until it has removed what is left.

    Called when this process exits. Raises TimeoutExpired when that takes more than 60 s.
    """
    assert process.stdin is not None
    process.stdin.close()
    process.wait(_MAX_CALL_S)


class Engine:
    """One node's connection to the engine that DOCKER_HOST names; `directory` is the node's, and becomes a label.

    A `stage` is what the caller is doing (`start`, `kill`); it is only for the text of a NodeError.
    """

    def __init__(self, node: str, directory: Path, client: Any) -> None:
        """Keep the SDK's `client`; `connect` makes the client and this object."""
        self._node = node
        self._directory = directory
        self._client = client

    @classmethod
    async def connect(cls, node: str, directory: Path) -> "Engine":
        """Connect to the engine, which asks it for its version. Raises NodeError when it refuses or does not answer."""
        try:
            client = await asyncio.to_thread(docker.from_env, timeout=_MAX_CALL_S)
        except (docker.errors.DockerException, requests.RequestException) as error:
            raise NodeError(node, "connect", f"the Docker engine: {error_text(error)}") from error
        return cls(node, directory, client)

    @property
    def api(self) -> Any:
        """The SDK's low-level client, for calls that the caller makes in a thread of its own."""
        return self._client.api

    async def call(self, stage: str, function: Callable[[], T]) -> T:
        """Return what a blocking function returns, run in a thread. A cancelled caller still waits for its end.

        Raises NodeError, naming the stage, when the engine refuses or does not answer.
        """
        task = asyncio.ensure_future(asyncio.to_thread(function))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            raise
        except (docker.errors.DockerException, requests.RequestException) as error:
            raise NodeError(self._node, stage, f"the Docker engine: {error_text(error)}") from error

    async def image(self, name: str) -> Any:
        """Return an image that the engine has. Raises NodeError when it does not have it; nothing is pulled."""

        def get() -> Any:
            """Return the image, None when the engine does not have it. Blocks."""
            try:
                return self._client.images.get(name)
            except docker.errors.ImageNotFound:
                return None

        image = await self.call("start", get)
        if image is None:
            reason = f"the engine at {engine_address()} has no image {name}"
            raise NodeError(self._node, "start", reason, f"docker build -t {name} DIR, or docker pull {name}")
        return image

    async def make_network(self) -> Any:
        """Make a network for the node alone, from which only this machine can be reached; return it. Raises NodeError."""

        def make() -> Any:
            """Make the network, and read its attributes, which have its addresses. Blocks."""
            name = f"conformance-{self._node}-{uuid.uuid4().hex[:12]}"
            network = self._client.networks.create(name, driver="bridge", internal=True, labels=self._labels())
            network.reload()
            return network

        return await self.call("network", make)

    def create(self, candidate: Candidate, command: list[str], mounts: list[Mount], network: Any, user: str) -> Any:
        """Return a new container that is not started, in a network of `make_network`. Blocks. Raises what the SDK raises.

        It has the options of `hardening_options`, and a limit on the size of each file. `command` [] and `user` '' leave the
        image's own.
        """
        fields = DockerFields.of(candidate).container
        assert fields is not None
        return self._client.containers.create(
            fields.image,
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
            **hardening_options(fields),
        )

    def _labels(self) -> dict[str, str]:
        """Return the labels of a new container or network: the process that made it, and the node's directory."""
        return {OWNER_LABEL: owner_id(), DIRECTORY_LABEL: str(self._directory.absolute())}

    def close(self) -> None:
        """Close the connection; containers and networks stay."""
        self._client.close()


def hardening_options(fields: Container) -> dict[str, Any]:
    """Return the options of `containers.create` that restrict a container.

    It gets a read-only root with a tmpfs for `/tmp` and the `writable` directories, no capabilities, a name server that does not
    answer, and limits on memory and processes.
    """
    return {
        "read_only": True,
        "tmpfs": dict.fromkeys(("/tmp", *fields.writable), "size=64m,mode=1777"),  # noqa: S108  # of the container
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "mem_limit": fields.memory,
        "memswap_limit": fields.memory,
        "pids_limit": fields.pids,
        "init": True,
        "ipc_mode": "private",
        "dns": ["127.0.0.1"],  # nothing answers there; without it an engine forwards queries to the world
        "restart_policy": {"Name": "no"},
    }


def kill(container: Any) -> None:
    """SIGKILL all processes in a container; do nothing when it has ended already. Blocks. Raises other errors of the engine."""
    try:
        container.kill()
    except docker.errors.APIError as error:
        if error.status_code != _NOT_RUNNING:
            raise


def gateway_address(network: Any) -> str:
    """Return the IP address at which containers in a network reach this machine."""
    return str(network.attrs["IPAM"]["Config"][0]["Gateway"])


def error_text(error: Exception) -> str:
    """Return the engine's own explanation of an error, else the text of the exception."""
    return str(getattr(error, "explanation", None) or error)
