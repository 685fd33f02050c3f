"""Records the events of a cell: each gets its number and its time, loses its secrets, and is handed to the listeners.

All that acts in a cell (links, sinks, steps, supervisors) calls the one `Recorder` of the cell. A *secret* is a password,
whose text is replaced before an event is made. A *listener* is here a function that is called with each event.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from conformance.history.events import AnyEvent, Event
from conformance.history.secrets import Secrets

E = TypeVar("E", bound=Event)


class ElapsedClock(Protocol):
    """The part of a clock that a recorder needs."""

    def elapsed(self) -> float:
        """Return the seconds since the cell began, in documented time."""
        ...


class Recorder:
    """Numbers and stamps events, and calls its listeners with each.

    `events` has all events so far; a list that is given to the constructor is appended to. A listener (the writer of the cell's
    file, a waiting expectation) is called with every event, in order, before `record` returns. `secrets` are replaced in
    all events recorded from when they are added.
    """

    def __init__(self, clock: ElapsedClock, events: list[AnyEvent] | None = None) -> None:
        """Record by the clock's documented time, from an empty history or at the end of `events`."""
        self._clock = clock
        self.secrets = Secrets()
        self.events: list[AnyEvent] = [] if events is None else events
        self._listeners: tuple[Callable[[AnyEvent], None], ...] = ()
        self._last_elapsed = self._last_stamp = 0.0  # a time, and the same rounded

    def subscribe(self, listener: Callable[[AnyEvent], None]) -> Callable[[], None]:
        """Add a listener, which is called with every later event; return a function that removes it again."""
        self._listeners = (*self._listeners, listener)
        return lambda: self._unsubscribe(listener)

    def _unsubscribe(self, listener: Callable[[AnyEvent], None]) -> None:
        """Remove a listener; do nothing when it was removed before."""
        self._listeners = tuple(known for known in self._listeners if known is not listener)

    def record(self, event_type: type[E], /, **fields: Any) -> E:
        """Make the event `event_type(**fields)` with its number and time, add it, call the listeners, and return it.

        Secrets in the fields are replaced first. Raises TypeError when the fields are not those of the event type, and what a
        listener raises: the event is in the history then, and the listeners after that one are not called.
        """
        elapsed = self._clock.elapsed()
        if elapsed != self._last_elapsed:  # many events have the same virtual time, and rounding is slow
            self._last_elapsed, self._last_stamp = elapsed, round(elapsed, 6)
        if self.secrets:
            fields = self.secrets.redact_fields(fields)
        event = event_type(n=len(self.events), t=self._last_stamp, **fields)
        self.events.append(event)  # type: ignore[arg-type]  # every concrete Event is one of AnyEvent
        for listener in self._listeners:
            listener(event)  # type: ignore[arg-type]
        return event
