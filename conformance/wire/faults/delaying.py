"""Faults by which octets pass later, more slowly, or in other pieces."""

from collections.abc import Callable
from dataclasses import replace

from conformance.wire.faults.effect import Blow, Effect, effect
from conformance.wire.lane import Pace
from conformance.wire.link import Link
from conformance.wire.units import Unit

_MERGED_FOR = 1.0
"""Seconds for which octets wait to be merged with the next, when the fault does not say."""


@effect("delay")
class Delay(Effect):
    """Holds what is about to pass."""

    def on_unit(self, blow: Blow, unit: Unit, skip: int) -> Unit | None:
        """The unit is the next one again when it is over."""
        blow.lane.put_back(unit, skip)
        self._hold(blow)
        return None

    def on_connection(self, blow: Blow, link: Link, let_go: Callable[[str], None]) -> None:
        """The server is dialled when it is over."""
        reason = blow.armed.reason
        blow.fired("at connect")
        blow.relay.barred.add(reason)
        if blow.fault.lasting is not None:
            blow.later(blow.fault.lasting, lambda: let_go(reason))

    def _hold(self, blow: Blow) -> None:
        blow.lane.hold(blow.armed.reason)
        if blow.fault.lasting is not None:
            blow.later(blow.fault.lasting, lambda: blow.lane.release(blow.armed.reason))


@effect("stall")
class Stall(Delay):
    """Holds what is about to pass, or what comes behind what has passed."""

    def behind(self, blow: Blow) -> None:
        """What has passed is on the wire."""
        self._hold(blow)


@effect("throttle")
class Throttle(Effect):
    """Lets octets pass slowly until it is healed."""

    def on_unit(self, blow: Blow, unit: Unit, skip: int) -> Unit | None:
        """And all that comes behind the unit."""
        self._slow(blow)
        return unit

    def on_connection(self, blow: Blow, link: Link, let_go: Callable[[str], None]) -> None:
        """Both ways."""
        blow.fired("at connect")
        self._slow(blow)
        self._slow(replace(blow, lane=blow.relay.down))

    def _slow(self, blow: Blow) -> None:
        lane, rate = blow.lane, blow.fault.rate or 1
        lane.pace = Pace(max(1, rate // 10), blow.duration(1 / rate))

        def undo() -> None:
            lane.pace = None
            lane.quicken()

        blow.armed.on_heal.append(undo)


@effect("split")
class Split(Effect):
    """Takes a unit to pieces."""

    def on_unit(self, blow: Blow, unit: Unit, skip: int) -> Unit | None:
        """One octet each."""
        blow.lane.pace = Pace(1, 0, once=True)
        return unit


@effect("merge")
class Merge(Effect):
    """Makes one piece of a unit and what comes behind it."""

    def on_unit(self, blow: Blow, unit: Unit, skip: int) -> Unit | None:
        """It is recorded now, and written with the next octets, or when it has waited long enough."""
        blow.relay.passing(blow.lane, unit)
        blow.lane.keep(unit.raw[skip:])
        blow.later(_MERGED_FOR if blow.fault.lasting is None else blow.fault.lasting, blow.lane.flush)
        return None
