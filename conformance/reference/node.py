"""The node: puts the parts together, opens the listeners, and ends."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from conformance.reference import inspection
from conformance.reference.components import ComponentClasses, ComponentSets, wire_components
from conformance.reference.config import ConfigurationError, Listener, NodeConfiguration, load
from conformance.reference.host import Host
from conformance.reference.receive.session import Receiver
from conformance.reference.receive.verbs import ListenerName
from conformance.reference.status import read_revision, write_status
from conformance.reference.storage.database import Database, DatabaseError
from conformance.reference.timers import Alarms, Clock, Tasks

_BACKLOG = 1024
_DOORS: tuple[ListenerName, ...] = ("frontend", "transport", "delivery")
_FIXED = ("name", "generation", "role", "site", "dag", "data_dir", "seed")
"""What cannot be changed while the node runs."""
GRACE = 5.0
"""Seconds that an orderly stop leaves to messages in the midst of a session."""


class Node:
    """One transport server. `failure` says why it broke down on its own, or is None."""

    def __init__(self, path: Path, clock: Clock, parts: ComponentSets) -> None:
        self.failure: str | None = None
        self.when_failed: Callable[[], None] = lambda: None
        self._path = path
        self._clock = clock
        self._parts = parts
        self._servers: list[asyncio.Server] = []
        self._sessions: set[Receiver] = set()
        self._tasks = Tasks(self._failed)
        self._alarms = Alarms(clock)
        self._db: Database | None = None
        self._host: Host | None = None
        self._ended = False

    async def start(self) -> None:
        """Read the configuration, open the database and the listeners, go on with what is there.

        Raises ConfigurationError, DatabaseError, OSError (a port is taken).
        """
        config = load(self._path, self._parts.configuration)
        logger = logging.getLogger(f"conformance.node.{config.name}")
        parts = self._parts.for_generation(config.generation)
        data = Path(config.data_dir)
        data.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240  # once, before anything listens
        self._db = db = parts.database(data / "queue.db")
        db.open()
        identity = parts.identity(db, directory=data, seed=config.seed, name=config.name, now=self._clock.now())
        await db.commit()
        self._host = host = Host(config, self._clock, db, self._tasks, self._alarms, logger)
        wire_components(host, parts, identity)
        for door in _DOORS:
            if (limits := getattr(config.listeners, door)) is not None:
                self._servers.append(await self._listen(parts, host, door, limits))
        for part in host.components:
            part.start()
        logger.info("started: database %s", identity.database)
        self._answer(config, config.revision)

    async def _listen(self, parts: ComponentClasses, host: Host, door: ListenerName, first: Listener) -> asyncio.Server:
        kind = parts.local_receiver if door == "delivery" else parts.receiver

        def session() -> Receiver:
            return kind(host, door, getattr(host.config.listeners, door) or first, self._sessions)

        loop = asyncio.get_running_loop()
        return await loop.create_server(session, first.host, first.port, backlog=_BACKLOG)

    async def stop(self) -> None:
        """End in an orderly way: nothing new comes in, messages in hand are finished, and all is on disk."""
        for server in self._servers:
            server.close()
        if self._host is not None and not self._ended:
            for session in tuple(self._sessions):
                session.shut_down()
            await self._host.delivery.stop(GRACE)
            await self._answered()
            await self._host.db.commit()
        await self.kill()

    async def _answered(self) -> None:
        """Return when no message waits for its reply any more, after GRACE at the latest."""
        if working := [session.acceptance_task for session in self._sessions if session.acceptance_task is not None]:
            await asyncio.wait(working, timeout=GRACE)
        await asyncio.sleep(0)  # the sessions write their replies

    async def kill(self) -> None:
        """End as a killed process would: sockets at once, what is not committed is lost."""
        self._ended = True
        for server in self._servers:
            server.close()
        for session in tuple(self._sessions):
            session.abort()
        self._alarms.cancel()
        if self._db is not None:
            self._db.close()
        await self._tasks.cancel()
        await asyncio.sleep(0)

    async def reload(self) -> None:
        """Read the file again; a bad one is refused and everything stays. Raises ConfigurationError."""
        host = self._running
        before = host.config
        try:
            after = load(self._path, self._parts.configuration)
            _compare(before, after)
        except ConfigurationError as error:
            self._answer(before, read_revision(self._path), str(error))
            raise
        host.config = after
        for session in tuple(self._sessions):
            session.apply_limits(getattr(after.listeners, session.session_state.listener))
        for part in host.components:
            part.reconfigured(before)
        await host.db.commit()
        host.log.info("configuration read again")
        self._answer(after, after.revision)

    def _answer(self, config: NodeConfiguration, revision: int | None, error: str = "") -> None:
        """Say in the status file, where the contract has one, whether a revision of the file was applied."""
        if config.status_file is not None and revision is not None:
            write_status(Path(config.status_file), revision, error)

    async def command(self, name: str, arguments: Sequence[str]) -> Any:
        """Run `inspect`, `resubmit DATABASE` or `redirect-messages TARGET`.

        Raises CommandRefused for what cannot be done, and NotImplementedError for what there is not.
        """
        host = self._running
        match name, list(arguments):
            case "inspect", []:
                return inspection.state(host)
            case "resubmit", [database]:
                number = host.safety_net.resubmit(database)
                await host.db.commit()
                return {"resubmitted": number}
            case "redirect-messages", [target]:
                return await host.redirection.redirect(target)
            case _:
                raise NotImplementedError(f"{name} {' '.join(arguments)}")

    @property
    def data_dir(self) -> Path:
        """The directory of this node's data."""
        return Path(self._running.config.data_dir)

    @property
    def _running(self) -> Host:
        if self._host is None or self._ended:
            raise DatabaseError("the node is not running")
        return self._host

    def _failed(self, error: BaseException) -> None:
        """Fail loudly: what nobody expected ends the node. What a kill cut short is no failure."""
        if self.failure is None and not self._ended:
            self.failure = f"{type(error).__name__}: {error}"
            if self._host is not None:
                self._host.log.error("the node failed", exc_info=error)
            self.when_failed()


def _compare(before: NodeConfiguration, after: NodeConfiguration) -> None:
    """Raise ConfigurationError when something differs that cannot be changed while the node runs."""
    changed = [name for name in _FIXED if getattr(before, name) != getattr(after, name)]
    for door in _DOORS:
        old, new = getattr(before.listeners, door), getattr(after.listeners, door)
        if (old and (old.host, old.port)) != (new and (new.host, new.port)):
            changed.append(f"listeners.{door}")
    if changed:
        raise ConfigurationError(f"{', '.join(changed)}: cannot be changed while the node runs")


def create(path: Path, clock: Clock, defect: str | None = None) -> Node:
    """Return a node that is configured by the file at `path`. Raises ValueError for an unknown defect."""
    parts = ComponentSets()
    if defect is not None:
        from conformance.reference.defects.catalogue import spoiled  # a dozen modules that a whole node has no use for

        parts = spoiled(parts, defect)
    return Node(path, clock, parts)
