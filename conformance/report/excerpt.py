"""Finds the offending exchange: the few events around the evidence, and where something was left out between."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from conformance.history.events import AnyEvent, Attempt, Closed, Command, Content, Delivered, Reply

T = TypeVar("T")

_SEVERAL = 4
"""So many pieces of evidence are shown; the first is the offending one, the later ones only support it."""


def around(events: Sequence[AnyEvent], evidence: Iterable[int], radius: int = 3) -> list[AnyEvent | None]:
    """Return the events around the evidence in their order; None stands where some were left out.

    Around an event of a session these are its neighbours in that session; around any other, its neighbours of the
    wire in the one order. An event that is not in the history (its file was damaged) is passed over.
    """
    places = {event.n: place for place, event in enumerate(events)}
    chosen: set[int] = set()
    for number in list(evidence)[:_SEVERAL]:
        if (place := places.get(number)) is not None:
            chosen.add(place)
            chosen.update(_neighbours(events, place, radius))
    return _with_gaps(events, sorted(chosen))


def _neighbours(events: Sequence[AnyEvent], place: int, radius: int) -> set[int]:
    session: str | None = getattr(events[place], "session", None)

    def near(other: AnyEvent) -> bool:
        if session is not None:
            return bool(getattr(other, "session", None) == session)
        return isinstance(other, Command | Reply | Content | Closed | Delivered | Attempt)

    before = _first(radius, (p for p in range(place - 1, -1, -1) if near(events[p])))
    after = _first(radius, (p for p in range(place + 1, len(events)) if near(events[p])))
    return {*before, *after}


def _first(count: int, values: Iterable[T]) -> list[T]:
    return [value for value, _ in zip(values, range(count), strict=False)]


def _with_gaps(events: Sequence[AnyEvent], places: Sequence[int]) -> list[AnyEvent | None]:
    found: list[AnyEvent | None] = []
    for index, place in enumerate(places):
        if index and place != places[index - 1] + 1:
            found.append(None)
        found.append(events[place])
    return found
