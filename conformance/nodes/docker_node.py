"""The `docker` kind: a server in a container of an image, hardened, on a network of its own.

The node sees its directory as `/node`, read-only but for `/node/data` and (contract 2) `/node/status`. Every start makes
a new container, so that a node that was killed comes back with its data and with nothing else. The *engine* is the Docker engine
that DOCKER_HOST names; a *place* (`conformance.nodes.places`) has the addresses that a node opens and at which links dial it.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

import docker
import requests
from docker.types import Mount

from conformance.candidates.availability import Availability
from conformance.candidates.description import Candidate
from conformance.candidates.kinds.local import DockerFields
from conformance.nodes.commands import MAX_OUTPUT, checked_output
from conformance.nodes.configuration import Address, listeners_of
from conformance.nodes.contract import NodeConfiguration, NodeError
from conformance.nodes.engine import Engine, error_text, gateway_address, kill
from conformance.nodes.kinds import NodeContext
from conformance.nodes.managed import ManagedNode
from conformance.nodes.node_directory import NodeDirectory
from conformance.nodes.places import Place, PortLeases, addresses_by_listener
from conformance.nodes.private_root import NODE
from conformance.nodes.readiness import wait_ready
from conformance.nodes.streams import Stream, copy_to_log, run_inside
from conformance.topology import Server
from conformance.untrusted.tree import disk_usage

ALL_INTERFACES = "0.0.0.0"  # noqa: S104  # in a container, whose network leads to this machine only

_VERSION_LABEL = "org.opencontainers.image.version"
"""The label of an image, by the OCI's conventions, that has the version of its software."""

_SIZE_INTERVAL = 0.5
"""Seconds between two looks at the size of the node's directory."""

_MAX_END_S = 30.0
"""Seconds from SIGKILL until the engine reports the end of a container."""


class DockerNode(ManagedNode, kind="docker"):
    """One node as a container in `network`; `directory` holds its data, its files and its log.

    `set_host` is called with the address of a container that has just started, and with None when it has ended: it
    tells the links to the node which host to dial. `_engine` is the connection to the Docker engine: its `call` runs a
    blocking function in a thread, and its errors name a stage such as `start`.

    `_container` is None while the node is down, `_log_thread` until the container was started. `_over_limit` says that
    `_size_task` killed it because its directory was too large, '' otherwise.
    """

    seen_at = NODE

    def __init__(
        self,
        name: str,
        candidate: Candidate,
        directory: Path,
        engine: Engine,
        network: Any,
        set_host: Callable[[str | None], None],
    ) -> None:
        files = NodeDirectory(name, candidate, directory, Availability(), seen_as=NODE, python="python3")
        super().__init__(candidate, files)
        self._engine = engine
        self._network = network
        self._set_host = set_host
        self._container: Any = None
        self._log_thread: threading.Thread | None = None
        self._over_limit = ""
        self._size_task: asyncio.Task[None] | None = None

    @classmethod
    async def version(cls, candidate: Candidate) -> str:
        """Return the version that the image's label has, else the description's, else (`unknown`) the image's short id.

        Where no engine answers here, or the description names no image, only the description's. Raises NodeError when
        the engine fails or does not have the image.
        """
        container = DockerFields.of(candidate).container
        if candidate.check_availability().missing or container is None:
            return candidate.version
        engine = await Engine.connect(candidate.name, Path())  # nothing is made, so no directory becomes a label
        try:
            image = await engine.image(container.image)
        finally:
            engine.close()
        label = (image.labels or {}).get(_VERSION_LABEL)
        return str(label or (candidate.version if candidate.version != "unknown" else image.short_id))

    @classmethod
    async def find_place(
        cls, server: Server, candidate: Candidate, directory: Path, leases: PortLeases, exit_stack: AsyncExitStack
    ) -> Place:
        """Make a network for the node; its listeners have the ports of the description, its host is not known yet.

        The place's `resources` are the engine and the network, which `create` takes from there and `exit_stack` releases. No
        port is leased.
        """
        engine = await Engine.connect(server.name, directory)
        exit_stack.callback(engine.close)
        network = await engine.make_network()
        exit_stack.push_async_callback(engine.call, "network", network.remove)
        container, listeners = DockerFields.of(candidate).container, listeners_of(server.role)
        ports = {} if container is None else container.ports
        opened: dict[str, Address] = {
            name: (ALL_INTERFACES, ports[name]) for name in candidate.listeners if name in listeners
        }
        addresses = addresses_by_listener(server.role, opened)
        here = (gateway_address(network), 0)
        return Place(
            listen_addresses=addresses,
            dial_addresses=dict.fromkeys(addresses),
            link_address=lambda party, listener: here,
            resources=(engine, network),
        )

    @classmethod
    def create(cls, context: NodeContext) -> Self:
        """Return a node that is down, on the engine and network of its place."""
        engine, network = context.place.resources
        return cls(context.name, context.candidate, context.directory, engine, network, context.set_host)

    @property
    def guard_pid(self) -> None:
        """None: the container's processes are the engine's."""

    @property
    def oom_kills(self) -> None:
        """None: the engine reports such a kill of the first process only."""

    async def start(self, configuration: NodeConfiguration) -> None:
        """Write the files, make and start a container, and wait until every listener has greeted.

        Raises NodeError, as ConfigurationRefused when the program ended with exit code 2; the container is removed then.
        """
        fields = DockerFields.of(self._candidate).container
        assert fields is not None
        image = await self._engine.image(fields.image)
        user, self._for_any_user = self._choose_user(str(image.attrs["Config"].get("User") or ""))
        self._files.write(configuration, for_any_user=self._for_any_user)
        self._reset()
        self._over_limit = ""
        try:
            self._container = await self._engine.call("start", partial(self._create_container, user))
            self._size_task = asyncio.create_task(self._watch_size(), name=f"size of {self.name}")
            await self._start_container(configuration)
        except NodeError as error:
            code, over_limit = self._exit_code, self._over_limit
            await self._terminate()
            if over_limit:
                raise NodeError(self.name, "start", over_limit) from error
            if code is not None:
                raise self._start_error(code) from error
            raise

    async def pause(self) -> None:
        """Freeze all processes in the container. Raises NodeError when the node is down."""
        await self._engine.call("pause", self._running_container("pause").pause)

    async def resume(self) -> None:
        """Let the frozen processes go on. Raises NodeError when the node is down."""
        await self._engine.call("resume", self._running_container("resume").unpause)

    async def _start_container(self, configuration: NodeConfiguration) -> None:
        """Start the container that was made, and wait until every listener has greeted. Raises NodeError."""
        await self._engine.call("start", partial(self._launch, self._container, asyncio.get_running_loop()))
        host = await self._engine.call("start", self._address)
        if not host:  # it has ended already: `_on_ended` will note the exit code
            await self._wait_until_ended("start")
        if self._ended.is_set():
            raise NodeError(self.name, "start", "the container ended before it was ready", "see its log")
        self._set_host(host)
        listeners = [(name, host, at["port"]) for name, at in configuration["listeners"].items()]
        await wait_ready(self.name, listeners, self._candidate.ready_within, self._ended)

    def _choose_user(self, image_user: str) -> tuple[str, bool]:
        """Return the user to run as ('': the image's), and whether all users of this machine need access to the files.

        The user is the description's, else this process's, so that the node's files are its own. A harness that is root leaves
        the choice to the image. Access for all is needed where the description or (for root) the image names a user other
        than root.
        """
        if self._candidate.user is not None or os.geteuid() == 0:
            other = (self._candidate.user or image_user).partition(":")[0] not in ("", "0", "root")
            return self._candidate.user or "", other
        return f"{os.geteuid()}:{os.getegid()}", False

    def _create_container(self, user: str) -> Any:
        """Make and return a container of the node's image with the node's directories mounted. Blocks."""
        files = self._files
        mounts = [
            Mount(str(NODE), str(files.directory.absolute()), type="bind", read_only=True),
            *(Mount(str(NODE / path.name), str(path.absolute()), type="bind") for path in files.writable),
        ]
        return self._engine.create(self._candidate, files.fill(self._candidate.argv), mounts, self._network, user)

    def _address(self) -> str:
        """Return the IP address of the container that was just started; '' when it has ended already. Blocks."""
        self._container.reload()
        return str(self._container.attrs["NetworkSettings"]["Networks"][self._network.name]["IPAddress"])

    def _launch(self, container: Any, loop: asyncio.AbstractEventLoop) -> None:
        """Start a container, and a thread that writes what it prints to the log from the first octet on. Blocks until it has started."""
        stream = Stream.from_answer(container.attach(stream=True, logs=False))
        try:
            container.start()
        except BaseException:
            stream.close()
            raise
        arguments = (container, stream, loop)
        self._log_thread = threading.Thread(target=self._log, args=arguments, name=f"log {self.name}", daemon=True)
        self._log_thread.start()

    def _log(self, container: Any, stream: Stream, loop: asyncio.AbstractEventLoop) -> None:
        """Write what a container prints to the log until it has ended, then report its end to the loop; runs in a thread.

        When the engine or the log fails, the end is reported without an exit code. A loop that is closed gets no report.
        """
        code: int | None = None
        try:
            code = copy_to_log(container, stream, self._files.log.descriptor, self._candidate.log_limit)
            why = self._describe_exit(code, "it exited on its own")
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            why = f"the Docker engine cannot say how it ended: {error_text(error)}"
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._on_ended, code, why)

    def _on_ended(self, code: int | None, why: str) -> None:
        """Note that the container ended, and let links dial nowhere; runs on the event loop.

        `code` is the exit code, None when the engine could not be asked. `why` becomes the node's failure unless it was
        asked to end.
        """
        self._exit_code = code
        if not self._asked_to_end and self._failure is None:
            self._failure = why
        self._set_host(None)
        self._ended.set()

    async def _watch_size(self) -> None:
        """Wait until the node's directory is larger than its limit, then kill the container and note that as its failure."""
        limit = self._candidate.directory_limit
        while await asyncio.to_thread(disk_usage, str(self._files.directory)) <= limit:  # noqa: ASYNC110
            await asyncio.sleep(_SIZE_INTERVAL)  # no event comes of what another process writes
        self._failure = self._over_limit = f"killed: its directory grew beyond {limit} octets"
        try:
            await self._engine.call("size", partial(kill, self._running_container("size")))
        except NodeError as error:
            self._failure = self._over_limit = (
                f"its directory grew beyond {limit} octets, and it could not be killed: {error.reason}"
            )

    async def _terminate(self) -> None:
        """Kill the container if it runs, wait until all that it printed is in the log, and remove it.

        Without a container only the watch on the directory's size ends. Raises NodeError when the engine fails.
        """
        container, self._container = self._container, None
        self._asked_to_end = True
        if self._size_task is not None:
            self._size_task.cancel()
            await asyncio.gather(self._size_task, return_exceptions=True)
            self._size_task = None
        if container is None:
            return
        try:
            started, self._log_thread = self._log_thread is not None, None
            if started and not self._ended.is_set():
                await self._engine.call("kill", partial(kill, container))
            if started:
                await self._wait_until_ended("kill")
        finally:
            await self._engine.call("kill", partial(container.remove, v=True, force=True))

    async def _wait_until_ended(self, stage: str) -> None:
        """Wait for the end of a container that was killed or ends by itself. Raises NodeError after 30 s."""
        try:
            async with asyncio.timeout(_MAX_END_S):
                await self._ended.wait()
        except TimeoutError:
            reason = f"the Docker engine reported no end within {_MAX_END_S:g} s"
            raise NodeError(self.name, stage, reason) from None

    async def _send_signal(self, stage: str, number: signal.Signals) -> None:
        """Send a signal to the container's first process. Raises NodeError, naming the stage, also when the node is down."""
        await self._engine.call(stage, partial(self._running_container(stage).kill, signal=number.name))

    async def _run(self, name: str, template: Sequence[str], arguments: Sequence[str] = ()) -> str:
        """Run a command in the container and return what it printed. Raises NodeError.

        One octet more than a command may print is read, which shows `checked_output` that it printed too much.
        """
        container = self._running_container(name)
        argv = self._files.fill(template, arguments)
        limit = self._candidate.command_within
        try:
            code, stdout, stderr = await asyncio.to_thread(
                run_inside, self._engine.api, container.id, argv, within=limit, max_octets=MAX_OUTPUT + 1
            )
        except TimeoutError:
            raise NodeError(self.name, name, f"{argv[0]} had not ended after {limit:g} s") from None
        except (docker.errors.DockerException, requests.RequestException) as error:
            raise NodeError(self.name, name, f"the Docker engine: {error_text(error)}") from error
        return checked_output(self.name, name, argv, code, stdout, stderr)

    def _running_container(self, stage: str) -> Any:
        """Return the container. Raises NodeError, naming the stage, when the node is down."""
        self._require_running(stage)
        return self._container

    @property
    def _is_running(self) -> bool:
        """Whether there is a container that `_terminate` has not removed yet."""
        return self._container is not None
