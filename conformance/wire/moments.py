"""Moments: points of the protocol at which something is to be done, such as to kill a server."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from conformance.scenarios.steps.nodes import Moment
from conformance.wire.fault_plan import points
from conformance.wire.roles import Pair
from conformance.wire.units import ContentEnd, Unit


@dataclass(slots=True, eq=False)
class Watch:
    """Waits for the n-th unit of a kind over all sessions of the links that it matches."""

    moment: Moment
    do: Callable[[], Awaitable[None]]
    name: str = ""
    seen: int = 0

    @property
    def reason(self) -> str:
        """Under which name it holds a lane."""
        return f"moment {id(self)}"

    def concerns(self, pair: Pair) -> bool:
        """Whether it may come on a link."""
        return self.moment.sender in ("*", pair.client) and self.moment.to in ("*", pair.server)

    def sees(self, pair: Pair, unit: Unit) -> bool:
        """Count a unit; return whether this is the moment."""
        if not self.concerns(pair) or not self._is(unit):
            return False
        self.seen += 1
        return self.seen == self.moment.nth

    def _is(self, unit: Unit) -> bool:
        if self.moment.after == "content":
            return isinstance(unit, ContentEnd)
        return (self.moment.after, "after") in points(unit)
