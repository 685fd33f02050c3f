"""Faults by which octets pass later, more slowly, or in other pieces."""

from collections.abc import Callable
from dataclasses import replace

from conformance.wire.faults.effect import Blow, behind, on_connection, on_unit
from conformance.wire.lane import Pace
from conformance.wire.link import Link
from conformance.wire.units import Unit

_MERGED_FOR = 1.0
"""Seconds for which octets wait to be merged with the next, when the fault does not say."""


@on_unit("stall", "delay")
def _hold_it(blow: Blow, unit: Unit, skip: int) -> None:
    blow.lane.put_back(unit, skip)
    _hold(blow)


@behind("stall")
def _hold(blow: Blow) -> None:
    lane, reason = blow.lane, blow.armed.reason
    lane.hold(reason)
    if blow.fault.lasting is not None:
        blow.later(blow.fault.lasting, lambda: lane.release(reason))


@on_connection("stall", "delay")
def _bar(blow: Blow, link: Link, let_go: Callable[[str], None]) -> None:
    reason = blow.armed.reason
    blow.fired("at connect")
    blow.relay.barred.add(reason)
    if blow.fault.lasting is not None:
        blow.later(blow.fault.lasting, lambda: let_go(reason))


@on_unit("throttle")
def _slow_from_here(blow: Blow, unit: Unit, skip: int) -> Unit:
    _slow(blow)
    return unit


@on_connection("throttle")
def _slow_both_ways(blow: Blow, link: Link, let_go: Callable[[str], None]) -> None:
    blow.fired("at connect")
    _slow(blow)
    _slow(replace(blow, lane=blow.relay.down))


def _slow(blow: Blow) -> None:
    lane, rate = blow.lane, blow.fault.rate or 1
    lane.pace = Pace(max(1, rate // 10), blow.duration(1 / rate))

    def undo() -> None:
        lane.pace = None
        lane.quicken()

    blow.armed.on_heal.append(undo)


@on_unit("split")
def _split(blow: Blow, unit: Unit, skip: int) -> Unit:
    blow.lane.pace = Pace(1, 0, once=True)
    return unit


@on_unit("merge")
def _merge(blow: Blow, unit: Unit, skip: int) -> None:
    blow.relay.passing(blow.lane, unit)
    blow.lane.keep(unit.raw[skip:])
    blow.later(_MERGED_FOR if blow.fault.lasting is None else blow.fault.lasting, blow.lane.flush)
