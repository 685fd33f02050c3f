"""The node: puts the parts together, opens the listeners, and ends."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.reference import inspect
from conformance.reference.clock import Clock
from conformance.reference.config import ConfigurationError, Listener, load
from conformance.reference.defects.catalogue import spoiled
from conformance.reference.host import Host, Tasks
from conformance.reference.parts import Parts
from conformance.reference.receive.session import Door, LocalReceiver, Receiver
from conformance.reference.storage.database import Database, DatabaseError
from conformance.reference.storage.identity import Identity

_BACKLOG = 1024
_DOORS: tuple[Door, ...] = ("frontend", "transport", "delivery")


class Node:
    """One transport server. `failure` says why it broke down on its own, or is None."""

    def __init__(self, path: Path, clock: Clock, parts: Parts) -> None:
        self.failure: str | None = None
        self._path = path
        self._clock = clock
        self._parts = parts
        self._servers: list[asyncio.Server] = []
        self._sessions: set[Receiver] = set()
        self._tasks = Tasks(self._failed)
        self._db: Database | None = None
        self._host: Host | None = None

    async def start(self) -> None:
        """Read the configuration, open the database and the listeners, go on with what is there.

        Raises ConfigurationError, DatabaseError, OSError (a port is taken).
        """
        config = load(self._path)
        logger = logging.getLogger(f"conformance.node.{config.name}")
        data = Path(config.data_dir)
        data.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240  # once, before anything listens
        self._db = db = Database(data / "queue.db")
        new = db.open()
        identity = Identity(db, new=new, directory=data, seed=config.seed, name=config.name, now=self._clock.now())
        await db.durable()
        self._host = host = Host(config, self._clock, db, identity, self._tasks, logger)
        parts = self._parts.of(config.generation)
        store = parts.store(host)
        discards = parts.discards(host)
        manager = parts.manager(host, lambda message: delivery.promote(message))
        creation = parts.creation(host, manager)
        delivery = parts.delivery(host, store, creation, discards, lambda: manager)
        acceptance = parts.acceptance(host, delivery, store, manager)
        self._safety_net = parts.safety_net(host, delivery)
        loop = asyncio.get_running_loop()
        for door in _DOORS:
            limits = getattr(config.listeners, door)
            if limits is None:
                continue

            def session(door: Door = door, first: Listener = limits) -> Receiver:
                now = getattr(host.config.listeners, door) or first
                kind = LocalReceiver if door == "delivery" else parts.receiver
                return kind(door, now, acceptance, discards, manager, self._sessions)

            self._servers.append(await loop.create_server(session, limits.host, limits.port, backlog=_BACKLOG))
        for part in (store, discards, manager, delivery):
            part.start()
        self._safety_net.expire()
        logger.info("started: database %s", identity.database)

    async def stop(self) -> None:
        """End in an orderly way: nothing new comes in, and what was acknowledged is on disk."""
        if self._db is not None:
            await self._db.durable()
        await self.kill()

    async def kill(self) -> None:
        """End as a killed process would: sockets at once, what is not committed is lost."""
        for server in self._servers:
            server.close()
        for session in tuple(self._sessions):
            session.abort()
        if self._db is not None:
            self._db.close()
        await self._tasks.cancel()
        await asyncio.sleep(0)

    async def reload(self) -> None:
        """Read the file again; a bad one is refused and everything stays. Raises ConfigurationError."""
        host = self._running
        before, after = host.config, load(self._path)
        if (after.name, after.data_dir, after.generation) != (before.name, before.data_dir, before.generation):
            raise ConfigurationError("name, data_dir, generation: cannot be changed while the node runs")
        host.config = after
        was = {box.address.casefold(): box.server for box in before.mailboxes}
        moved = {
            box.database
            for box in after.mailboxes
            if was.get(box.address.casefold(), box.server) != box.server and was.get(box.address.casefold())
        }
        for database in sorted(moved):
            self._safety_net.resubmit(database)
        await host.db.durable()

    async def command(self, name: str, arguments: Sequence[str]) -> Any:
        """Run `inspect` or `resubmit DATABASE`. Raises NotImplementedError for what there is not."""
        match name, list(arguments):
            case "inspect", []:
                return inspect.state(self._running)
            case "resubmit", [database]:
                number = self._safety_net.resubmit(database)
                await self._running.db.durable()
                return {"resubmitted": number}
            case _:
                raise NotImplementedError(f"{name} {' '.join(arguments)}")

    @property
    def _running(self) -> Host:
        if self._host is None:
            raise DatabaseError("the node is not running")
        return self._host

    def _failed(self, error: BaseException) -> None:
        """Fail loudly: what nobody expected ends the node."""
        if self.failure is None and not isinstance(error, DatabaseError):
            self.failure = f"{type(error).__name__}: {error}"
            if self._host is not None:
                self._host.log.error("the node failed", exc_info=error)


def create(path: Path, clock: Clock, defect: str | None = None) -> Node:
    """Return a node that is configured by the file at `path`. Raises ValueError for an unknown defect."""
    return Node(path, clock, spoiled(Parts(), defect))
