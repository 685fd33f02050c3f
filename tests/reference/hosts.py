"""One server of the reference without its listeners.

Its components are wired as in a running server. The database is in a temporary directory, and the test sets the clock.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from conformance.nodes.configuration import Wiring, render
from conformance.reference.components import ComponentClasses, ComponentSets, wire_components
from conformance.reference.config import NodeConfiguration, parse_configuration
from conformance.reference.host import Host
from conformance.reference.message import Envelope, Message, Recipient, new_message
from conformance.reference.receive.session import Receiver
from conformance.reference.storage.database import Database
from conformance.reference.storage.identity import Identity
from conformance.reference.timers import Alarms, Tasks
from conformance.scenarios.fixtures import load_topology

TOPOLOGIES = Path(__file__).parents[2] / "fixtures" / "topologies"
NO_LISTENER = ("127.0.0.1", 9)
"""An address without a listener: a server here has no sessions with others."""

CONTENT = (
    b"From: <alice@outside.test>\r\nDate: Sat, 21 Nov 2026 10:00:00 +0000\r\nMessage-ID: <one@test>\r\n\r\nhello\r\n"
)


def configured(topology: str, server: str | None = None, **changes: object) -> NodeConfiguration:
    """Return the configuration of a topology's first server, or another one, with changed transport parameters."""
    read = load_topology(TOPOLOGIES / f"{topology}.yaml")
    wiring = Wiring(listen=lambda server, door: ("127.0.0.1", 2525), dial=lambda *pair: NO_LISTENER)
    chosen = next(each for each in read.servers if server in (None, each.name))
    return parse_configuration(
        json.dumps(render(read, chosen, wiring, data_dir=Path("/nowhere"), seed=1, changes=changes))
    )


class HandClock:
    """A wall clock that changes only when the test sets it."""

    def __init__(self) -> None:
        self.at = 1_800_000_000.0

    def now(self) -> float:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += seconds


@asynccontextmanager
async def open_host(
    directory: Path,
    config: NodeConfiguration | None = None,
    clock: HandClock | None = None,
    components: ComponentClasses | None = None,
) -> AsyncIterator[tuple[Host, HandClock]]:
    """Yield a server, which is not started, and its clock; commit at the end. Fails if a task of the server raised an exception."""
    failures: list[BaseException] = []
    clock = clock or HandClock()
    config = config or configured("two-servers-one-dag")
    db = Database(directory / "queue.db")
    db.open()
    identity = Identity(db, directory=directory, seed=1, name=config.name, now=clock.now())
    await db.commit()
    tasks, alarms = Tasks(failures.append), Alarms(clock, failures.append)
    host = Host(config, clock, db, tasks, alarms, logging.getLogger("tests.reference"))
    wire_components(host, components or ComponentClasses(), identity)
    host.choice.start()
    try:
        yield host, clock
        await host.db.commit()
    finally:
        alarms.cancel()
        await tasks.cancel()
        db.close()
    assert failures == []


@asynccontextmanager
async def open_session(
    host: Host, listener: str, receiver: type[Receiver] = Receiver
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Yield a connection to a listener of a host, served by `receiver`; close it, and wait until the session has ended."""
    limits = getattr(host.config.listeners, listener)
    assert limits is not None
    sessions: set[Receiver] = set()
    loop = asyncio.get_running_loop()
    serving = await loop.create_server(lambda: receiver(host, listener, limits, sessions), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*serving.sockets[0].getsockname())
    try:
        yield reader, writer
    finally:
        writer.close()
        serving.close()
        while sessions:
            await asyncio.sleep(0)


Steps = Callable[[Host, HandClock], Awaitable[None]]
"""What a test does with a server."""


def run_with_host(
    directory: Path,
    steps: Steps,
    topology: str = "two-servers-one-dag",
    *,
    components: ComponentClasses | None = None,
    **changes: object,
) -> None:
    """Run the steps of a test with a topology's first server, with changed transport parameters, in a new event loop."""

    async def main() -> None:
        async with open_host(directory, configured(topology, **changes), components=components) as (host, clock):
            await steps(host, clock)

    asyncio.run(main())


def run_with_hub(directory: Path, steps: Steps, **changes: object) -> None:
    """Run the steps of a test with one of three hubs of Exchange 2010."""
    run_with_host(directory, steps, "hubs-one-site", components=ComponentSets().for_generation("ex2010"), **changes)


def add_primary(
    host: Host,
    *recipients: str,
    content: bytes = CONTENT,
    sender: str = "alice@outside.test",
    journal_due: bool = False,
) -> Message:
    """Put a primary message into the database; its default recipient is victor@outside.test."""
    to = tuple(Recipient(address) for address in recipients or ("victor@outside.test",))
    draft = new_message(
        content, Envelope(sender, to), message_id=host.identity.new_id(), since=host.now(), journal_due=journal_due
    )
    return host.messages.add(draft, content)


def shadow(host: Host, primary: str, shadow_id: str, *recipients: str, database: str = "db-1") -> Message:
    """Put a shadow of another server's message into the database."""
    to = tuple(Recipient(address) for address in recipients or ("victor@outside.test",))
    draft = new_message(
        CONTENT, Envelope("alice@outside.test", to), message_id=host.identity.new_id(), since=host.now(), place="shadow",
        shadow_id=shadow_id, primary=primary, database=database,
    )  # fmt: skip
    return host.messages.add(draft, CONTENT)


def places(host: Host) -> list[str]:
    """Return the place of each message, oldest first."""
    everywhere = ("primary", "shadow", "safety-net", "shadow-safety-net")
    return [message.place for message in host.messages.held_as(*everywhere)]


def lose_uncommitted(host: Host) -> None:
    """Close the database without a commit, as a kill does, and open it again."""
    host.db.close()
    host.db.open()


async def run_ready_tasks() -> None:
    """Let all tasks run that are ready."""
    for _ in range(5):
        await asyncio.sleep(0)
