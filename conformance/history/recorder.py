"""The recorder: every event of a cell passes through it once, and gets its number and its time."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from conformance.history.events import AnyEvent, Event
from conformance.history.secrets import Secrets

E = TypeVar("E", bound=Event)


class ElapsedClock(Protocol):
    """What a recorder needs of a clock."""

    def elapsed(self) -> float:
        """Return the seconds since the cell began, in documented time."""
        ...


class Recorder:
    """Numbers and stamps events, keeps them (in `events`, when that is given), and hands each to its listeners at once.

    A listener (the cell's file, a waiting expectation) is called with every event, in order, before `record`
    returns: what was
    recorded has been written when the program is killed a moment later.
    """

    def __init__(self, clock: ElapsedClock, events: list[AnyEvent] | None = None) -> None:
        self._clock = clock
        self.secrets = Secrets()
        """What is taken out of all that is recorded from now on."""
        self.events: list[AnyEvent] = [] if events is None else events
        self._listeners: tuple[Callable[[AnyEvent], None], ...] = ()
        self._elapsed = self._stamp = 0.0

    def subscribe(self, listener: Callable[[AnyEvent], None]) -> Callable[[], None]:
        """Add a listener; return what takes it away again."""
        self._listeners = (*self._listeners, listener)
        return lambda: self._forget(listener)

    def _forget(self, listener: Callable[[AnyEvent], None]) -> None:
        self._listeners = tuple(known for known in self._listeners if known is not listener)

    def record(self, kind: type[E], /, **fields: Any) -> E:
        """Make the event `kind(**fields)`, numbered and stamped, and hand it on.

        Raises TypeError when the fields are not those of the event.
        """
        elapsed = self._clock.elapsed()
        if elapsed != self._elapsed:  # of virtual time many events have the same
            self._elapsed, self._stamp = elapsed, round(elapsed, 6)
        if self.secrets:
            fields = self.secrets.redact_fields(fields)
        event = kind(n=len(self.events), t=self._stamp, **fields)
        self.events.append(event)  # type: ignore[arg-type]  # every concrete Event is one of AnyEvent
        for listener in self._listeners:
            listener(event)  # type: ignore[arg-type]
        return event
