"""Sinks, links and servers for other people's tests: an SMTP server that can be told to misbehave, a connection that can be
broken, a mail server that was installed for the harness. `conformance.fixtures` gives them to pytest.

They run on an event loop in a thread of their own, so that a test without one can use them. Addresses are those of links:
everything that passes is recorded as events (`conformance.history.events`).
"""

import asyncio
import email
import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any, Literal, TypeVar

from conformance import paths
from conformance.candidates.assignment import read_assignment
from conformance.history.events import AnyEvent, Command, Connected
from conformance.history.recorder import Recorder
from conformance.run.clocks.scaled import RealClock
from conformance.run.settings import Settings
from conformance.run.world import World
from conformance.scenarios.loader import read_corpus
from conformance.scenarios.steps.breaking import Answer, Fault
from conformance.wire.link import Address
from conformance.wire.links import Links
from conformance.wire.sinks import Sink, open_sink

T = TypeVar("T")

_CLIENT = "client"
_NODE = "mta1"
_WORLD = """\
id: a-server-in-a-test
title: A server in a test of somebody else
requirements: [RL-ACK-01]
topology:
  name: one-server-in-a-test
  servers: [{name: mta1, site: Main}]
  sinks: [{name: outside, domains: ["*"]}]
  routes: [{domain: "*", next-hops: [outside]}]
steps: [{advance: 1s}]
"""


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message that a sink took: the envelope, and the content octet for octet."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes

    @property
    def message(self) -> EmailMessage:
        """The content as the standard library reads it."""
        return email.message_from_bytes(self.content, policy=SMTP)


class BackgroundLoop:
    """An event loop in a thread. Every coroutine and function given to it runs there."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="conformance", daemon=True)
        self._thread.start()

    def wait(self, work: Awaitable[T]) -> T:
        """Return what an awaitable returns. Raises what it raises."""

        async def run() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what a function returns. Raises what it raises."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(function(*arguments))
            except BaseException as error:  # noqa: BLE001  # it is raised to the caller
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result()

    def close(self) -> None:
        """End the loop, its threads and its own thread."""
        self.wait(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@dataclass(slots=True)
class _Stopwatch:
    began: float = field(default_factory=time.monotonic)

    def elapsed(self) -> float:
        return time.monotonic() - self.began


class Link:
    """One link: dial it (`host`, `port`), break it (`fault`), read what passed (`history`, `commands`)."""

    def __init__(
        self, background: BackgroundLoop, links: Links, recorder: Recorder, pair: tuple[str, str, str]
    ) -> None:
        self._background = background
        self._links = links
        self._recorder = recorder
        self._pair = pair
        self._faults = itertools.count(1)
        self.host, self.port = links.address(*pair)

    def fault(self, does: str, **fields: Any) -> str:
        """Arm a fault of the scenario language, such as `fault("reset", at="dot", when="after", times=1)`; return its name.

        Fields are those of `fault` (docs/writing-scenarios.md), `may_not_fire` excepted; durations are seconds or `"5s"`.
        Raises ValueError when it makes no sense.
        """
        client, server, listener = self._pair
        name = f"fault-{next(self._faults)}"
        given = {"as": name, "from": client, "to": server, "listener": listener, "does": does, **fields}
        self._background.call(self._links.arm, Fault.model_validate(given))
        return name

    def heal(self, name: str = "all") -> None:
        """Take a fault away by its name, or all. Raises ValueError when none has that name."""
        self._background.call(self._links.heal, name)

    @property
    def history(self) -> tuple[AnyEvent, ...]:
        """All that was recorded up to now, in its order: of this link and of what is beside it."""
        return self._background.call(lambda: tuple(self._recorder.events))

    @property
    def commands(self) -> list[str]:
        """The command lines that clients of this link said, in their order."""
        client, server, _ = self._pair
        events = self.history
        ours = {e.session for e in events if isinstance(e, Connected) and (e.client, e.server) == (client, server)}
        return [event.line for event in events if isinstance(event, Command) and event.session in ours]


class MailSink(Link):
    """A server that takes mail, and answers otherwise where it is told to. Clients dial `host` and `port`."""

    def __init__(
        self, background: BackgroundLoop, links: Links, recorder: Recorder, pair: tuple[str, str, str], sink: Sink
    ) -> None:
        super().__init__(background, links, recorder, pair)
        self._sink = sink
        self._taken: list[ReceivedMessage] = []
        self._news = threading.Condition()
        sink.on_delivery = self._keep

    def _keep(self, sender: str, recipients: Sequence[str], content: bytes) -> None:
        with self._news:
            self._taken.append(ReceivedMessage(sender, tuple(recipients), content))
            self._news.notify_all()

    def answer(
        self,
        at: Literal["connect", "MAIL", "RCPT", "DATA", "dot"],
        reply: str,
        *,
        recipient: str | None = None,
        times: int | None = None,
    ) -> None:
        """Answer so from now on, `times` times or for good; the reply `accept` ends the earlier ones at this place."""
        given = {"sink": self._sink.name, "at": at, "reply": reply, "recipient": recipient, "times": times}
        self._background.call(self._sink.script_answer, Answer.model_validate(given))

    @property
    def messages(self) -> list[ReceivedMessage]:
        """What was taken up to now, in its order."""
        with self._news:
            return list(self._taken)

    def wait_for(self, count: int, within: float = 10.0) -> list[ReceivedMessage]:
        """Wait until so many messages were taken, and return all. Raises TimeoutError after `within` seconds."""
        with self._news:
            if not self._news.wait_for(lambda: len(self._taken) >= count, within):
                raise TimeoutError(f"{len(self._taken)} of {count} messages came within {within:g} s")
            return list(self._taken)


class MailBench:
    """Makes sinks and links, and ends them."""

    def __init__(self) -> None:
        self._background = BackgroundLoop()
        self._recorder = Recorder(_Stopwatch())
        self._links = Links(self._recorder)
        self._sinks: list[Sink] = []

    def sink(self, name: str, protocol: Literal["smtp", "lmtp"]) -> MailSink:
        """Open a sink behind a link. Raises OSError without a port, ValueError for a name that there is."""
        sink = self._background.wait(open_sink(name, protocol, self._recorder, self._links))
        self._sinks.append(sink)
        self._lay(name, protocol, sink.address)
        return MailSink(self._background, self._links, self._recorder, (_CLIENT, name, protocol), sink)

    def link(self, name: str, to: Address) -> Link:
        """Lay a link to a server that runs already. Raises OSError without a port, ValueError for a name that there is."""
        self._lay(name, "smtp", to)
        return Link(self._background, self._links, self._recorder, (_CLIENT, name, "smtp"))

    def _lay(self, name: str, protocol: str, to: Address) -> None:
        self._background.wait(self._links.open(_CLIENT, name, protocol, to))

    def close(self) -> None:
        """End all of it. Raises the first exception that a sink met, if there was one."""
        try:
            self._background.wait(self._links.close())
            for sink in self._sinks:
                self._background.wait(sink.close())
        finally:
            self._background.close()


class MailNode(Link):
    """A mail server: dial `host` and `port`. What it passes on arrives at `next_hop`, whatever the recipient's domain."""

    def __init__(self, background: BackgroundLoop, world: World) -> None:
        pair = ("outside", _NODE, "frontend")
        super().__init__(background, world.links, world.recorder, pair)
        self._keeper = world.supervisors[_NODE]
        self.next_hop = MailSink(
            background, world.links, world.recorder, (_NODE, "outside", "smtp"), world.sink("outside")
        )

    def kill(self) -> None:
        """SIGKILL all of it."""
        self._background.wait(self._keeper.kill())

    def start(self) -> None:
        """Start it again on the queue that it has, and wait until it is ready. Raises NodeError."""
        self._background.wait(self._keeper.start())

    @property
    def log(self) -> Path:
        """The file of what it printed."""
        return self._keeper.node.log


class MailNodes:
    """Starts mail servers by the names of their descriptions, and ends them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._background = BackgroundLoop()
        self._ends: list[tuple[asyncio.Event, asyncio.Task[None]]] = []

    def start(self, candidate: str) -> MailNode:
        """Start a server. Raises CandidateError, NodeError."""
        place = self._directory / f"{len(self._ends) + 1}"
        place.mkdir(parents=True)
        file = place / "world.scenario.yaml"
        file.write_text(_WORLD, "utf-8")
        (cell,) = read_corpus([file], paths.fixtures())[0].cells("smoke")
        assignment = read_assignment(candidate, paths.fixtures() / "candidates")

        async def begin() -> World:
            loop = asyncio.get_running_loop()
            clock = RealClock(loop, 1.0)
            world = World(cell, assignment, Settings(clock="real"), clock, Recorder(clock), place)
            up: asyncio.Future[None] = loop.create_future()
            end = asyncio.Event()

            async def live() -> None:
                try:
                    async with world:
                        up.set_result(None)
                        await end.wait()
                except BaseException as error:
                    if up.done():
                        raise
                    up.set_exception(error)

            self._ends.append((end, loop.create_task(live())))
            await up
            return world

        return MailNode(self._background, self._background.wait(begin()))

    def close(self) -> None:
        """End all of them. Raises the first exception of an end, if there was one."""

        async def end() -> None:
            for over, _ in self._ends:
                over.set()
            for _, life in self._ends:
                await life

        try:
            self._background.wait(end())
        finally:
            self._background.close()
