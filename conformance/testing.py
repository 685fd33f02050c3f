"""Sinks, links and servers for tests outside this project; `conformance.fixtures` makes pytest fixtures of them.

A sink is an SMTP or LMTP server that can be made to misbehave; a link is a connection that can be broken; a node is a mail
server with a description of a candidate. All methods block: the work is done by an event loop in a thread, so that a test
without an event loop can use them. All addresses are those of links, which record everything that passes as events
(`conformance.history.events`).
"""

import asyncio
import email
import itertools
import json
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import JsonValue

from conformance import paths
from conformance.candidates.assignment import check_hosts, read_assignment
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

ALLOW_HOSTS = 'allow_hosts=["{host}"]'
"""The argument that permits the host `{host}`, which is not loopback, as errors show it."""

_CLIENT = "client"
_NODE = "mta1"
_SCENARIO = """\
id: a-server-in-a-test
title: A server in a test outside this project
requirements: [RL-ACK-01]
topology:
  name: one-server-in-a-test
  servers: [{{name: {name}, site: Main, transport: {transport}}}]
  sinks: [{{name: outside, domains: ["*"]}}]
  routes: [{{domain: "*", next-hops: [outside]}}]
steps: [{{advance: 1s}}]
"""


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message that a sink accepted: its envelope, and its content octet for octet."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes

    @property
    def message(self) -> EmailMessage:
        """The content, parsed by the standard library."""
        return email.message_from_bytes(self.content, policy=SMTP)


class BackgroundLoop:
    """An event loop in a thread of its own; its methods are called from other threads and block."""

    def __init__(self) -> None:
        """Start the thread, which runs the loop until `close`."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="conformance", daemon=True)
        self._thread.start()

    def run(self, awaitable: Awaitable[T]) -> T:
        """Await an awaitable on the loop, and return its result. Raises what it raises."""

        async def run() -> T:
            """Await it, as a coroutine, which the loop can run."""
            return await awaitable

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function on the loop, and return its result. Raises what it raises."""
        result: Future[T] = Future()

        def run() -> None:
            """Call the function, and hand what it returns or raises to the caller's thread."""
            try:
                result.set_result(function(*arguments))
            except BaseException as error:  # noqa: BLE001  # it is raised to the caller
                result.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return result.result()

    def close(self) -> None:
        """Stop the loop, and block until its thread and those of its executor have ended; nothing can be called afterwards."""
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@dataclass(slots=True)
class _Stopwatch:
    """The clock of a recorder: real time since the stopwatch was made."""

    started: float = field(default_factory=time.monotonic)

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self.started


class MailLink:
    """A connection to a server by way of `host` and `port`, which can be broken (`fault`) and is recorded (`history`).

    `_pair` is the link's client, server and listener in `_links`; what touches `_links` is called on the background loop.
    """

    def __init__(
        self, background: BackgroundLoop, links: Links, recorder: Recorder, pair: tuple[str, str, str]
    ) -> None:
        """Represent a link that is open in `links`, whose events `recorder` has. Raises KeyError where there is none."""
        self._background = background
        self._links = links
        self._recorder = recorder
        self._pair = pair
        self._faults = itertools.count(1)
        self.host, self.port = links.address(*pair)

    def fault(self, does: str, **fields: Any) -> str:
        """Arm a fault of the scenario language, such as `fault("reset", at="dot", when="after", times=1)`; return its name.

        Fields are those of `fault` (docs/writing-scenarios.md) except `may_not_fire`; durations are seconds or `"5s"`.
        Raises ValueError when the fields contradict each other or the kind of fault.
        """
        client, server, listener = self._pair
        name = f"fault-{next(self._faults)}"
        values = {"as": name, "from": client, "to": server, "listener": listener, "does": does, **fields}
        self._background.call(self._links.arm, Fault.model_validate(values))
        return name

    def connect_to(self, host: str, port: int) -> None:
        """Connect every session that begins from now on to the server at this address."""
        link = self._links.link(*self._pair)
        self._background.call(setattr, link, "target", (host, port))

    def end_sessions(self, within: float = 0.0) -> None:
        """Wait up to this many seconds until the clients have ended their sessions, then reset those that are still open."""
        self._background.run(self._links.link(*self._pair).end_sessions(within))

    def heal(self, name: str = "all") -> None:
        """Remove a fault by its name, or all faults. Raises ValueError when no fault has that name."""
        self._background.call(self._links.heal, name)

    @property
    def history(self) -> tuple[AnyEvent, ...]:
        """All events recorded so far, in order, of this link and of the others of the same bench or node."""
        return self._background.call(lambda: tuple(self._recorder.events))

    @property
    def commands(self) -> list[str]:
        """The command lines that clients have sent on this link so far, in order."""
        events = self.history
        sessions = {
            event.session
            for event in events
            if isinstance(event, Connected) and (event.client, event.server, event.listener) == self._pair
        }
        return [event.line for event in events if isinstance(event, Command) and event.session in sessions]


class MailSink(MailLink):
    """A server at `host` and `port` that accepts all mail, except where `answer` or a fault says otherwise."""

    def __init__(
        self, background: BackgroundLoop, links: Links, recorder: Recorder, pair: tuple[str, str, str], sink: Sink
    ) -> None:
        """Represent an open sink and the link to it, and collect what the sink accepts from now on."""
        super().__init__(background, links, recorder, pair)
        self._sink = sink
        self._messages: list[ReceivedMessage] = []
        self._changed = threading.Condition()
        sink.on_delivery = self._add_message

    def _add_message(self, sender: str, recipients: Sequence[str], content: bytes) -> None:
        """Add an accepted message, and wake those who wait for one; called on the loop's thread, before the sink replies."""
        with self._changed:
            self._messages.append(ReceivedMessage(sender, tuple(recipients), content))
            self._changed.notify_all()

    def answer(
        self,
        at: Literal["connect", "MAIL", "RCPT", "DATA", "dot"],
        reply: str,
        *,
        recipient: str | None = None,
        times: int | None = None,
    ) -> None:
        """Send this reply at a point of the session from now on, `times` times or always; `accept` ends earlier replies there.

        With `recipient` it is sent for that recipient only.
        """
        values = {"sink": self._sink.name, "at": at, "reply": reply, "recipient": recipient, "times": times}
        self._background.call(self._sink.script_answer, Answer.model_validate(values))

    @property
    def messages(self) -> list[ReceivedMessage]:
        """The messages accepted so far, in order."""
        with self._changed:
            return list(self._messages)

    def wait_until(self, condition: Callable[[Sequence[ReceivedMessage]], bool], within: float = 10.0) -> bool:
        """Wait until a condition on the accepted messages holds; return whether it does within this many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self._messages), within)

    def wait_for(self, count: int, within: float = 10.0) -> list[ReceivedMessage]:
        """Wait until `count` messages have been accepted, and return all. Raises TimeoutError after `within` seconds."""
        if not self.wait_until(lambda messages: len(messages) >= count, within):
            raise TimeoutError(f"{len(self.messages)} of {count} messages came within {within:g} s")
        return self.messages


class MailBench:
    """Makes sinks and links with one recorder, and closes them."""

    def __init__(self) -> None:
        """Start the background loop; there are no sinks and links yet."""
        self._background = BackgroundLoop()
        self._recorder = Recorder(_Stopwatch())
        self._links = Links(self._recorder)
        self._sinks: list[Sink] = []

    def sink(self, name: str, protocol: Literal["smtp", "lmtp"]) -> MailSink:
        """Open a sink and a link to it. Raises OSError when no port is free, ValueError when name and protocol are taken."""
        sink = self._background.run(open_sink(name, protocol, self._recorder, self._links))
        self._sinks.append(sink)
        self._open_link(name, protocol, sink.address)
        return MailSink(self._background, self._links, self._recorder, (_CLIENT, name, protocol), sink)

    def link(self, name: str, to: Address) -> MailLink:
        """Open a link to a running server. Raises OSError when no port is free.

        Raises ValueError when an SMTP sink or another link of the bench has the name.
        """
        self._open_link(name, "smtp", to)
        return MailLink(self._background, self._links, self._recorder, (_CLIENT, name, "smtp"))

    def _open_link(self, name: str, protocol: str, to: Address) -> None:
        """Open the link from the client to a server at address `to`, named `name` in the history. Raises OSError, ValueError."""
        self._background.run(self._links.open(_CLIENT, name, protocol, to))

    def close(self) -> None:
        """Close all links and sinks, and the background loop. Raises the first exception that a sink met, if there was one."""
        try:
            self._background.run(self._links.close())
            for sink in self._sinks:
                self._background.run(sink.close())
        finally:
            self._background.close()


class MailNode(MailLink):
    """A mail server at `host` and `port`; it relays mail for every domain to the sink `next_hop`."""

    def __init__(self, background: BackgroundLoop, world: World, name: str) -> None:
        """Represent the server `name` of a running world, in which the sink is `outside` and so is the server's client."""
        pair = ("outside", name, "frontend")
        super().__init__(background, world.links, world.recorder, pair)
        self._supervisor = world.supervisors[name]
        self.next_hop = MailSink(
            background, world.links, world.recorder, (name, "outside", "smtp"), world.sink("outside")
        )

    def kill(self) -> None:
        """SIGKILL all processes of the server."""
        self._background.run(self._supervisor.kill())

    def start(self) -> None:
        """Start the killed server again on its queue, and wait until it is ready. Raises NodeError."""
        self._background.run(self._supervisor.start())

    @property
    def log(self) -> Path:
        """The file of what the server printed."""
        return self._supervisor.node.log


class MailNodes:
    """Starts mail servers by their descriptions, each in a world of its own, and ends them.

    `_running` is, for each world, the event that ends it and the task that holds it open. `_numbers` are the names of the worlds'
    directories; one whose start failed is not used again.
    """

    def __init__(self, directory: Path) -> None:
        """Start the background loop; `directory` gets a directory for each server that is started."""
        self._directory = directory
        self._background = BackgroundLoop()
        self._running: list[tuple[asyncio.Event, asyncio.Task[None]]] = []
        self._numbers = itertools.count(1)

    def start(
        self,
        candidate: str,
        *,
        name: str = _NODE,
        next_hop: Address | None = None,
        transport: Mapping[str, JsonValue] | None = None,
        allow_hosts: Collection[str] = (),
    ) -> MailNode:
        """Start the server of a description, given by name or file, and wait until it is ready.

        `name` is what the server calls itself: servers that send each other mail need different names. It transmits to
        `next_hop`, None for a sink. `transport` are its transport parameters, such as `{"MessageRetryInterval": 5}`.
        `allow_hosts` are the hosts other than this machine that the description may name. Raises CandidateError, also for
        another host; InvalidFile for a `name` that is not valid, or is that of the sink (`outside`); NodeError.
        """
        assignment = read_assignment(candidate, paths.fixtures() / "candidates")
        check_hosts(assignment.candidates, allow_hosts, ALLOW_HOSTS)
        directory = self._directory / f"{next(self._numbers)}"
        directory.mkdir(parents=True)
        file = directory / "world.scenario.yaml"
        file.write_text(_SCENARIO.format(name=name, transport=json.dumps(dict(transport or {}))), "utf-8")
        (cell,) = read_corpus([file], paths.fixtures())[0].cells("smoke")

        async def start_world() -> World:
            """Return a running world, which a task of its own enters now and leaves when its event in `_running` is set."""
            loop = asyncio.get_running_loop()
            clock = RealClock(loop, 1.0)
            world = World(cell, assignment, Settings(clock="real"), clock, Recorder(clock), directory)
            started: asyncio.Future[None] = loop.create_future()
            end = asyncio.Event()

            async def live() -> None:
                """Hold the world open until `end` is set; hand an exception of its start to `started`."""
                try:
                    async with world:
                        started.set_result(None)
                        await end.wait()
                except BaseException as error:
                    if started.done():
                        raise
                    started.set_exception(error)

            self._running.append((end, loop.create_task(live())))
            await started
            return world

        world = self._background.run(start_world())
        if next_hop is not None:
            world.links.link(name, "outside", "smtp").target = next_hop
        return MailNode(self._background, world, name)

    def close(self) -> None:
        """End all servers, and the background loop. Raises the first exception that ending one raised, if there was one."""

        async def end_all() -> None:
            """Set the event of each world, and wait until each has ended."""
            for end, _ in self._running:
                end.set()
            for _, task in self._running:
                await task

        try:
            self._background.run(end_all())
        finally:
            self._background.close()
