"""The `docker` kind: a server in a container of an image, hardened, on a network of its own.

The node's directory is `/node` in there, read-only but for `/node/data` and (contract 2) `/node/status`. Every start makes a new container, so that a
killed one comes back with its data and with nothing else.
"""

import asyncio
import os
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
from conformance.nodes.commands import MOST, command_template, parse_output
from conformance.nodes.configuration import listeners_of
from conformance.nodes.contract import REFUSED, CommandFailed, ConfigurationRefused, NodeConfiguration, NodeError
from conformance.nodes.engine import Engine, explained, gateway, kill
from conformance.nodes.kinds import NodeBase, NodeContext
from conformance.nodes.node_directory import NodeDirectory
from conformance.nodes.places import Place, PortLeases, addresses_by_listener
from conformance.nodes.private_root import NODE
from conformance.nodes.readiness import reload, wait_ready
from conformance.nodes.streams import Stream, follow, run_inside
from conformance.shortage import KILLED, is_sigkill
from conformance.topology import Server
from conformance.untrusted.tree import disk_usage

EVERYWHERE = "0.0.0.0"  # noqa: S104  # in a container, whose network leads to this machine only

_VERSION_LABEL = "org.opencontainers.image.version"
"""What an image is labelled with by those who keep to the OCI's names."""

_LOOK = 0.5
"""Seconds between two looks at how large the directory has become."""

_FAREWELL = 30.0
"""Seconds from SIGKILL to the end of a container, by the engine's word."""

Moved = Callable[[str | None], None]
"""Called with the address of a container that has one, and with None once it is gone."""


class DockerNode(NodeBase, kind="docker"):
    """One node as a container in `network`; `directory` holds its data, its files and its log."""

    seen_at = NODE

    def __init__(
        self, name: str, candidate: Candidate, directory: Path, engine: Engine, network: Any, moved: Moved
    ) -> None:
        self.name = name
        self._candidate = candidate
        self._engine = engine
        self._network = network
        self._moved = moved
        self._shop = NodeDirectory(name, candidate, directory, Availability(), seen_as=NODE, python="python3")
        self._for_any_user = False
        self._container: Any = None
        self._follower: threading.Thread | None = None
        self._ended = asyncio.Event()
        self._exit_code: int | None = None
        self._asked_to_end = False
        self._failure: str | None = None
        self._outgrew = ""
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    async def version(cls, candidate: Candidate) -> str:
        """See NodeBase; of an image it is the one that its label tells, else the description's, else the image's id."""
        container = DockerFields.of(candidate).container
        if candidate.check_availability().missing or container is None:
            return candidate.version
        engine = Engine(candidate.name, Path())
        try:
            image = await engine.image(container.image)
        finally:
            engine.close()
        label = (image.labels or {}).get(_VERSION_LABEL)
        return str(label or (candidate.version if candidate.version != "unknown" else image.short_id))

    @classmethod
    async def find_place(
        cls, server: Server, candidate: Candidate, directory: Path, leases: PortLeases, leaving: AsyncExitStack
    ) -> Place:
        """See NodeBase; on a network of its own."""
        engine = Engine(server.name, directory)
        leaving.callback(engine.close)
        network = await engine.make_network()
        leaving.push_async_callback(engine.ask, "network", network.remove)
        container, roles = DockerFields.of(candidate).container, listeners_of(server.role)
        ports = {} if container is None else container.ports
        doors = addresses_by_listener(
            server.role, {d: (EVERYWHERE, ports[d]) for d in candidate.listeners if d in roles}
        )
        here = (gateway(network), 0)
        return Place(doors, dict.fromkeys(doors), lambda party, listener: here, (engine, network))

    @classmethod
    def create(cls, context: NodeContext) -> Self:
        """See NodeBase."""
        engine, network = context.place.resources
        return cls(context.name, context.candidate, context.directory, engine, network, context.set_host)

    @property
    def log(self) -> Path:
        """What the container's processes wrote to stdout and stderr."""
        return self._shop.log_file

    @property
    def guard(self) -> None:
        """None: its processes are the engine's."""

    @property
    def oom_kills(self) -> None:
        """None: the engine tells it of the first process only."""

    @property
    def failure(self) -> str | None:
        """Why the container ended without being asked to, or None."""
        return self._failure

    async def start(self, configuration: NodeConfiguration) -> None:
        """Write the files, make a container and start it, wait for the greetings."""
        needs = DockerFields.of(self._candidate).container
        assert needs is not None
        image = await self._engine.image(needs.image)
        user, self._for_any_user = self._user(str(image.attrs["Config"].get("User") or ""))
        self._shop.write(configuration, for_any_user=self._for_any_user)
        self._ended.clear()
        self._exit_code, self._failure, self._asked_to_end, self._outgrew = None, None, False, ""
        self._shop.log.begin()
        try:
            self._container = await self._engine.ask("start", partial(self._create, user))
            self._watching = asyncio.create_task(self._watch_size(), name=f"size of {self.name}")
            await self._begin(configuration)
        except NodeError as error:
            code, outgrew = self._exit_code, self._outgrew
            await self._end()
            if outgrew:
                raise NodeError(self.name, "start", outgrew) from error
            if code == REFUSED:
                raise ConfigurationRefused(self.name, "start", self._shop.log.failure_excerpt()) from error
            if code is not None:
                raise NodeError(self.name, "start", self._end_of(code, "it left")) from error
            raise

    async def stop(self) -> int:
        """SIGTERM, or the `stop` command, and wait for the end; what does not leave is killed and told as an error."""
        container = self._running("stop")
        self._asked_to_end = True
        if template := self._candidate.commands.get("stop"):
            await self._run("stop", template)
        else:
            await self._engine.ask("stop", partial(container.kill, signal="SIGTERM"))
        bound = self._candidate.stop_within
        try:
            async with asyncio.timeout(bound):
                await self._ended.wait()
        except TimeoutError:
            await self._end()
            raise NodeError(self.name, "stop", f"it did not leave within {bound:g} s of SIGTERM") from None
        code = self._exit_code or 0
        await self._end()
        return 0 if code in self._candidate.exit_codes else code

    async def kill(self) -> None:
        """SIGKILL everything in the container."""
        self._running("kill")
        await self._end()

    async def wipe(self) -> None:
        """Delete what is in the data directory."""
        if self._container is not None:
            raise NodeError(self.name, "wipe", "the node is running", "stop or kill it first")
        self._shop.wipe()

    async def pause(self) -> None:
        """Freeze everything in the container."""
        await self._engine.ask("pause", self._running("pause").pause)

    async def resume(self) -> None:
        """Thaw it."""
        await self._engine.ask("resume", self._running("resume").unpause)

    async def reload(self, configuration: NodeConfiguration) -> None:
        """Write the files anew, send SIGHUP (or run the `reload` command), and wait for the node's answer."""
        container = self._running("reload")

        async def signal() -> None:
            await self._engine.ask("reload", partial(container.kill, signal="SIGHUP"))

        await reload(self._shop, self._candidate, configuration, self.command, signal, for_any_user=self._for_any_user)

    async def command(self, name: str, arguments: Sequence[str] = ()) -> Any:
        """Run the description's command of that name in the container, and read its JSON."""
        text = await self._run(name, command_template(self._candidate, self.name, name), arguments)
        return parse_output(self.name, name, text)

    async def close(self) -> None:
        """End the node however it is."""
        try:
            await self._end()
        finally:
            self._shop.close()

    async def _begin(self, configuration: NodeConfiguration) -> None:
        """Start the container that was made, and wait until it is ready."""
        await self._engine.ask("start", partial(self._launch, self._container, asyncio.get_running_loop()))
        host = await self._engine.ask("start", self._address)
        if not host:
            await self._until_ended("start")
        if self._ended.is_set():
            raise NodeError(self.name, "start", "the container ended before it was ready", "see its log")
        self._moved(host)
        listeners = [(door, host, at["port"]) for door, at in configuration["listeners"].items()]
        await wait_ready(self.name, listeners, self._candidate.ready_within, self._ended)

    def _user(self, of_image: str) -> tuple[str, bool]:
        """Return whom to run as, and whether that may be any user here, who has to be let in.

        It is who is described, else who we are, so that its files are ours; root leaves it to the image.
        """
        if self._candidate.user is not None or os.geteuid() == 0:
            stranger = (self._candidate.user or of_image).partition(":")[0] not in ("", "0", "root")
            return self._candidate.user or "", stranger
        return f"{os.geteuid()}:{os.getegid()}", False

    def _create(self, user: str) -> Any:
        shop = self._shop
        mounts = [
            Mount(str(NODE), str(shop.directory.absolute()), type="bind", read_only=True),
            *(Mount(str(NODE / path.name), str(path.absolute()), type="bind") for path in shop.writable),
        ]
        return self._engine.create(self._candidate, shop.filled(self._candidate.argv), mounts, self._network, user)

    def _address(self) -> str:
        """Return the address of the container that was just started; '' when it has ended already."""
        self._container.reload()
        return str(self._container.attrs["NetworkSettings"]["Networks"][self._network.name]["IPAddress"])

    def _launch(self, container: Any, loop: asyncio.AbstractEventLoop) -> None:
        """Start a container, and a thread that reads what it prints from the first octet on."""
        stream = Stream.of(container.attach(stream=True, logs=False))
        try:
            container.start()
        except BaseException:
            stream.close()
            raise
        following = (container, stream, loop)
        self._follower = threading.Thread(target=self._follow, args=following, name=f"follow {self.name}", daemon=True)
        self._follower.start()

    def _follow(self, container: Any, stream: Stream, loop: asyncio.AbstractEventLoop) -> None:
        """Write what a container prints to the log, and tell of its end; in a thread."""
        code: int | None = None
        try:
            code = follow(container, stream, self._shop.log.handle, self._candidate.log_limit)
            why = self._end_of(code, "it left by itself")
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            why = f"the Docker engine lost sight of it: {explained(error)}"
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._over, code, why)

    def _end_of(self, code: int, how: str) -> str:
        """Return why the container ended that nobody had asked to."""
        words = self._shop.log.failure_excerpt()
        return f"{KILLED}; its log ends: {words}" if is_sigkill(code) else f"{how} with exit code {code}: {words}"

    def _over(self, code: int | None, why: str) -> None:
        self._exit_code = code
        if not self._asked_to_end and self._failure is None:
            self._failure = why
        self._moved(None)
        self._ended.set()

    async def _watch_size(self) -> None:
        """Kill the container once its directory outgrows its limit."""
        limit = self._candidate.directory_limit
        while await asyncio.to_thread(disk_usage, str(self._shop.directory)) <= limit:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK)  # no event comes of what another process writes
        self._failure = self._outgrew = f"killed: its directory outgrew {limit} octets"
        try:
            await self._engine.ask("size", partial(kill, self._running("size")))
        except NodeError as error:
            self._failure = self._outgrew = (
                f"its directory outgrew {limit} octets, and it could not be killed: {error.reason}"
            )

    async def _end(self) -> None:
        """Kill the container, wait until all that it said was read, and remove it."""
        container, self._container = self._container, None
        self._asked_to_end = True
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
            self._watching = None
        if container is not None:
            try:
                await self._finish(container)
            finally:
                await self._engine.ask("kill", partial(container.remove, v=True, force=True))

    async def _finish(self, container: Any) -> None:
        """Kill what is followed, and wait until it has ended."""
        if self._follower is None:
            return
        self._follower = None
        if not self._ended.is_set():
            await self._engine.ask("kill", partial(kill, container))
        await self._until_ended("kill")

    async def _until_ended(self, stage: str) -> None:
        """Wait for the end of a container that was killed, or ended by itself. Raises NodeError."""
        try:
            async with asyncio.timeout(_FAREWELL):
                await self._ended.wait()
        except TimeoutError:
            raise NodeError(self.name, stage, f"the Docker engine told of no end within {_FAREWELL:g} s") from None

    async def _run(self, name: str, template: Sequence[str], arguments: Sequence[str] = ()) -> str:
        """Run a command in the container and return what it printed."""
        container = self._running(name)
        argv = self._shop.filled(template, arguments)
        bound = self._candidate.command_within
        try:
            code, out, err = await asyncio.to_thread(
                run_inside, self._engine.api, container.id, argv, within=bound, most=MOST + 1
            )
        except TimeoutError:
            raise NodeError(self.name, name, f"{argv[0]} had not ended after {bound:g} s") from None
        except (docker.errors.DockerException, requests.RequestException) as error:
            raise NodeError(self.name, name, f"the Docker engine: {explained(error)}") from error
        if len(out) > MOST:
            raise NodeError(self.name, name, f"{argv[0]} printed more than {MOST} octets")
        if code:
            raise CommandFailed(self.name, name, code, err.decode(errors="replace").strip()[-300:])
        return out.decode(errors="replace")

    def _running(self, stage: str) -> Any:
        if self._container is None:
            raise NodeError(self.name, stage, "the node is not running")
        return self._container
