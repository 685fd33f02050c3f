"""The node: the lifecycle of one server (start, reload, stop, kill), its listeners and its status file.

A node that runs as a program (main.py) and a node in the harness's process are both this `Node`, made by `create`. The status
file is JSON, `{"revision": N, "applied": true}`: by it the harness sees that a changed configuration is in force (node contract).
`revision` is a number that the writer of the configuration gives it. A node counts as *running* from the moment when `start` has
opened its database until `kill`, with which `stop` ends.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from conformance.reference import inspection
from conformance.reference.components import ComponentClasses, ComponentSets, wire_components
from conformance.reference.config import (
    ConfigurationError,
    Listener,
    NodeConfiguration,
    load_configuration,
    read_revision,
)
from conformance.reference.host import Host
from conformance.reference.receive.session import Receiver
from conformance.reference.receive.verbs import ListenerName
from conformance.reference.storage.database import Database, DatabaseError
from conformance.reference.timers import Alarms, Clock, Tasks

_BACKLOG = 1024
_LISTENERS: tuple[ListenerName, ...] = ("frontend", "transport", "delivery")
_IMMUTABLE = ("name", "generation", "role", "site", "dag", "data_dir", "seed")
"""The fields of the configuration that a reload cannot change."""
GRACE = 5.0
"""Seconds for which an orderly stop waits for messages in transmission."""


class Node:
    """One transport server.

    `path` is its configuration file, `classes` has the component classes of each generation. `failure` is the first
    unexpected exception of a task or an alarm, as text, or None. A failure does not stop the node: the node calls `when_failed`,
    a function that its owner sets, and that may have the node stopped; the default does nothing.
    """

    def __init__(self, path: Path, clock: Clock, classes: ComponentSets) -> None:
        self.failure: str | None = None
        self.when_failed: Callable[[], None] = lambda: None
        self._path = path
        self._clock = clock
        self._classes = classes
        self._servers: list[asyncio.Server] = []
        self._sessions: set[Receiver] = set()
        self._tasks = Tasks(self._record_failure)
        self._alarms = Alarms(clock, self._record_failure)
        self._db: Database | None = None
        self._host: Host | None = None
        self._ended = False

    async def start(self) -> None:
        """Read the configuration, open the database and the listeners, and resume the messages in the database.

        The data directory is created if it does not exist, and the status file, if configured, says that the configuration is
        applied. Raises ConfigurationError, DatabaseError, or OSError (such as for a port that is in use); the caller then calls
        `kill`, which closes what was opened before.
        """
        config = load_configuration(self._path, self._classes.configuration)
        logger = logging.getLogger(f"conformance.node.{config.name}")
        classes = self._classes.for_generation(config.generation)
        data = Path(config.data_dir)
        data.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240  # once, before anything listens
        self._db = db = classes.database(data / "queue.db")
        db.open()
        identity = classes.identity(db, directory=data, seed=config.seed, name=config.name, now=self._clock.now())
        await db.commit()
        self._host = host = Host(config, self._clock, db, self._tasks, self._alarms, logger)
        wire_components(host, classes, identity)
        for name in _LISTENERS:
            if (limits := getattr(config.listeners, name)) is not None:
                self._servers.append(await self._listen(classes, host, name, limits))
        for component in host.components:
            component.start()
        logger.info("started: database %s", identity.database)
        self._write_status(config, config.revision)

    async def _listen(
        self, classes: ComponentClasses, host: Host, name: ListenerName, initial: Listener
    ) -> asyncio.Server:
        """Open the listener `name` at the address in `initial`, and return asyncio's object for it.

        It speaks LMTP if it is `delivery`, else SMTP. A session begins with the limits that are configured then. Raises OSError
        if the address cannot be used.
        """
        receiver = classes.local_receiver if name == "delivery" else classes.receiver  # LMTP or SMTP

        def new_session() -> Receiver:
            """Return the protocol object of a new session; asyncio calls this for each connection."""
            return receiver(host, name, getattr(host.config.listeners, name), self._sessions)

        loop = asyncio.get_running_loop()
        return await loop.create_server(new_session, initial.host, initial.port, backlog=_BACKLOG)

    async def stop(self) -> None:
        """Stop in an orderly way: close the listeners and sessions, let messages in transmission finish, and write all to disk.

        Waits GRACE seconds at most for messages being sent, and as long again for those being received. A session ends with 421,
        at once or after the reply to its message. The last commit waits without limit while the disk is full. At the end calls
        `kill`; for a node that was killed or never started this is all. If the last commit fails, raises DatabaseError, and
        `kill` is not called.
        """
        for server in self._servers:
            server.close()
        if self._host is not None and not self._ended:
            for session in tuple(self._sessions):
                session.shut_down()  # ends with 421, now or after the reply to its message
            await self._host.delivery.stop(GRACE)
            await self._wait_for_replies()
            await self._host.db.commit()
        await self.kill()

    async def _wait_for_replies(self) -> None:
        """Wait until every message that is being accepted or refused has its reply, at most GRACE seconds."""
        if working := [session.acceptance_task for session in self._sessions if session.acceptance_task is not None]:
            await asyncio.wait(working, timeout=GRACE)
        await asyncio.sleep(0)  # lets the sessions write their replies

    async def kill(self) -> None:
        """End as a killed process would: close all sockets at once, and lose what is not committed to the database.

        Waits until all tasks of the node, except the current one, have ended. A second call changes nothing.
        """
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
        """Read the configuration file again and apply it: to open sessions, to each component, and for the future.

        Raises ConfigurationError if it is refused: a parameter is wrong, or one that cannot change was changed. The configuration
        in force then stays. The status file says whether the new one was applied: the file that the new one names or, if it was
        refused, the one in force. Raises DatabaseError if the node is not running or the commit fails. Returns once all is on
        disk that the new configuration made the components write.
        """
        host = self._running_host
        before = host.config
        try:
            after = load_configuration(self._path, self._classes.configuration)
            _refuse_immutable_changes(before, after)
        except ConfigurationError as error:
            self._write_status(before, read_revision(self._path), str(error))
            raise
        host.config = after
        for session in tuple(self._sessions):
            session.apply_limits(getattr(after.listeners, session.session_state.listener))
        for component in host.components:
            component.reconfigured(before)
        await host.db.commit()
        host.log.info("configuration read again")
        self._write_status(after, after.revision)

    def start_task(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        """Start a coroutine as a task of the node: an exception that ends it is a failure of the node, and `kill` cancels it."""
        self._tasks.start(coroutine, name)

    def _write_status(self, config: NodeConfiguration, revision: int | None, error: str = "") -> None:
        """Write to the status file of `config` whether a revision was applied; `error` says why it was not, and is empty if it was.

        Writes nothing if no status file is configured, or the configuration file that was read has no revision (None).
        """
        if config.status_file is not None and revision is not None:
            write_status(Path(config.status_file), revision, error)

    async def command(self, name: str, arguments: Sequence[str]) -> Any:
        """Run an administrator's command; return its result, a value for JSON.

        `inspect` returns the queues. `resubmit DATABASE` sends what Safety Net holds for a mailbox database again, and returns
        {"resubmitted": number}, 0 for an unknown database. `redirect-messages TARGET` drains the delivery queues to another
        server, waits for that, and returns {"redirected": number, "kept": number}.

        Raises CommandRefused (a ValueError) for a TARGET that cannot be used, NotImplementedError for an unknown command or
        number of arguments, and DatabaseError when the node is not running.
        """
        host = self._running_host
        match name, list(arguments):
            case "inspect", []:
                return inspection.queue_state(host)
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
        """The directory of this node's data. Raises DatabaseError if the node is not running."""
        return Path(self._running_host.config.data_dir)

    @property
    def _running_host(self) -> Host:
        """The object that has the components of the running node. Raises DatabaseError if the node is not running."""
        if self._host is None or self._ended:
            raise DatabaseError("the node is not running")
        return self._host

    def _record_failure(self, error: BaseException) -> None:
        """Record and log the first unexpected exception of a task or an alarm, and call `when_failed`, which the node's owner has set.

        Ignore later exceptions, and any after `kill`.
        """
        if self.failure is None and not self._ended:
            self.failure = f"{type(error).__name__}: {error}"
            if self._host is not None:
                self._host.log.error("the node failed", exc_info=error)
            self.when_failed()


def write_status(path: Path, revision: int, error: str = "") -> None:
    """Replace the status file atomically with `revision` and whether it was applied.

    `error` says why the configuration was refused, and is empty for an applied one; it is cut to 2000 characters.
    """
    status: dict[str, Any] = {"revision": revision, "applied": not error}
    if error:
        status["error"] = error[:2000]
    new = path.with_name(f"{path.name}.new")
    new.write_text(json.dumps(status), encoding="utf-8")
    new.replace(path)


def _refuse_immutable_changes(before: NodeConfiguration, after: NodeConfiguration) -> None:
    """Raise ConfigurationError, which names them, if the configurations differ in fields that a reload cannot change.

    These are the fields in `_IMMUTABLE`, such as `name` and `data_dir`, and which listeners there are and at which addresses.
    """
    changed = [name for name in _IMMUTABLE if getattr(before, name) != getattr(after, name)]
    for name in _LISTENERS:
        old, new = getattr(before.listeners, name), getattr(after.listeners, name)
        if (old and (old.host, old.port)) != (new and (new.host, new.port)):
            changed.append(f"listeners.{name}")
    if changed:
        raise ConfigurationError(f"{', '.join(changed)}: cannot be changed while the node runs")


def create(path: Path, clock: Clock, defect: str | None = None) -> Node:
    """Return a node, not started, that is configured by the file at `path`.

    `defect` names deliberate mistakes that the node makes, to test the harness, or other conforming readings: NAME or NAME+NAME.
    Raises ValueError for an unknown name. The file is read by `Node.start`.
    """
    classes = ComponentSets()
    if defect is not None:
        # a dozen modules that a node without a defect does not need
        from conformance.reference.defects.catalogue import apply_by_name

        classes = apply_by_name(classes, defect)
    return Node(path, clock, classes)
