"""Faults by which octets pass later, more slowly, or in other pieces."""

from collections.abc import Callable
from dataclasses import replace

from conformance.wire.faults.handlers import FaultContext, after_unit, on_connection, on_unit
from conformance.wire.lane import Pace
from conformance.wire.link import Link
from conformance.wire.units import Unit

_MERGED_FOR = 1.0
"""Seconds for which octets wait to be merged with the next, when the fault does not say."""


@on_unit("stall", "delay")
def _hold_it(context: FaultContext, unit: Unit, skip: int) -> None:
    context.lane.put_back(unit, skip)
    _hold(context)


@after_unit("stall")
def _hold(context: FaultContext) -> None:
    lane, reason = context.lane, context.armed.reason
    lane.hold(reason)
    if context.fault.lasting is not None:
        context.later(context.fault.lasting, lambda: lane.release(reason))


@on_connection("stall", "delay")
def _bar(context: FaultContext, link: Link, let_go: Callable[[str], None]) -> None:
    reason = context.armed.reason
    context.fired("at connect")
    context.relay.barred.add(reason)
    if context.fault.lasting is not None:
        context.later(context.fault.lasting, lambda: let_go(reason))


@on_unit("throttle")
def _slow_from_here(context: FaultContext, unit: Unit, skip: int) -> Unit:
    _slow(context)
    return unit


@on_connection("throttle")
def _slow_both_ways(context: FaultContext, link: Link, let_go: Callable[[str], None]) -> None:
    context.fired("at connect")
    _slow(context)
    _slow(replace(context, lane=context.relay.down))


def _slow(context: FaultContext) -> None:
    lane, rate = context.lane, context.fault.rate or 1
    lane.pace = Pace(max(1, rate // 10), context.duration(1 / rate))

    def undo() -> None:
        lane.pace = None
        lane.quicken()

    context.armed.on_heal.append(undo)


@on_unit("split")
def _split(context: FaultContext, unit: Unit, skip: int) -> Unit:
    context.lane.pace = Pace(1, 0, once=True)
    return unit


@on_unit("merge")
def _merge(context: FaultContext, unit: Unit, skip: int) -> None:
    context.relay.passing(context.lane, unit)
    context.lane.keep(unit.raw[skip:])
    context.later(_MERGED_FOR if context.fault.lasting is None else context.fault.lasting, context.lane.flush)
