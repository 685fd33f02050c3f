"""Runs a listener: a sink behind a link that misbehaves, until it is stopped.

`conformance listen` opens one, and judges the clients by the record that `close` returns. The sink takes the mail; the link
records each session, and does to it what the recipients' addresses ask for.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from conformance.history.events import AnyEvent
from conformance.history.recorder import Recorder
from conformance.listen.behaving_link import BehavingLink
from conformance.listen.behaviour_injector import HELD_BACK_S, BehaviourInjector
from conformance.listen.behaviours import SINK
from conformance.listen.record import ListenRecord
from conformance.listen.transcript import transcript_line
from conformance.report.escaping import visible
from conformance.wire.link import Address, RecordedSession
from conformance.wire.sinks import Sink, open_sink

MAX_EVENTS = 200_000
"""Events after which a listener stops, since it keeps them all in memory."""


@dataclass(frozen=True, slots=True)
class _Stopwatch:
    """The clock of the recorder: real seconds since it was made."""

    started: float = field(default_factory=time.monotonic)

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self.started


class Listener:
    """A next hop that misbehaves.

    `say` is called with a line for everything that happens in a session. `stopping` is the event for which the caller waits
    before it calls `close`: it is set when too much was recorded or an exception was caught, and by the caller. `held_back` is
    for how many seconds a reply is held back that a client has to wait for. `_failures` are exceptions that the event loop
    has caught.
    """

    def __init__(self, say: Callable[[str], None], held_back: float = HELD_BACK_S) -> None:
        self._say = say
        self._held_back = held_back
        self._clock = _Stopwatch()
        self._recorder = Recorder(self._clock)
        self._recorder.subscribe(self._report_event)
        self._injector: BehaviourInjector | None = None
        self._link: BehavingLink | None = None
        self._sink: Sink | None = None
        self.stopping = asyncio.Event()
        self._failures: list[BaseException] = []

    async def open(self, at: Address) -> Address:
        """Begin to listen at `at`, and return the address with its port; port 0 is any free one. Raises OSError if it cannot.

        Exceptions that the event loop catches from now on stop the listening.
        """
        asyncio.get_running_loop().set_exception_handler(self._note_failure)
        sink = self._sink = await open_sink(SINK, "smtp", self._recorder, self)
        self._injector = BehaviourInjector(self._recorder, self._clock, sink, self._announce, self._held_back)
        self._link = BehavingLink(sink.address, self._recorder, self._injector, self._announce)
        await self._link.open(at)
        return self._link.address

    def session_behind(self, port: int, dialled: int) -> RecordedSession | None:
        """Return the latest session with a connection from `port` to the sink's port `dialled`, None if there was none."""
        return self._link.names.session_behind(port, dialled) if self._link else None

    async def close(self) -> ListenRecord:
        """End all sessions, and return what was seen before; their ends are not in it.

        Raises the first exception that was raised in a session: what was seen cannot be judged then.
        """
        assert self._injector is not None
        assert self._link is not None
        assert self._sink is not None
        record = self._injector.record
        record.ended = self._clock.elapsed()
        record.events = tuple(self._recorder.events)
        await self._link.close()
        await self._injector.close()
        await self._sink.close()
        if self._failures:
            raise self._failures[0]
        return record

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep an exception that the event loop has caught, and stop listening."""
        self._failures.append(context.get("exception") or RuntimeError(context["message"]))
        self.stopping.set()

    def _announce(self, session: str, text: str) -> None:
        """Say what is done in a session, with the seconds since the start, in printable characters: addresses are the client's."""
        self._say(f"{self._clock.elapsed():9.3f}  {session:4} !  {visible(text)}")

    def _report_event(self, event: AnyEvent) -> None:
        """Pass the event's line in the transcript to `say`, if it has one; after `MAX_EVENTS` events say so and set `stopping`."""
        if (line := transcript_line(event)) is not None:
            self._say(f"{event.t:9.3f}  {getattr(event, 'session', None) or '-':4} {line}")
        if event.n >= MAX_EVENTS and not self.stopping.is_set():
            self._say(f"{event.t:9.3f}  the listening ends: {MAX_EVENTS} events are as much as is kept")
            self.stopping.set()
