"""Faults that forward octets later, more slowly, or split and merged in other pieces.

A *relay* is one session over a link, a *lane* one of its two directions, a *unit* what is forwarded as a whole
(`wire.units`). A *hold* stops a lane, or the dialling of the server, until it is released by its reason. `FaultInjector`
calls the handlers when a fault fires, through the functions `apply` of `handlers`. A handler of a unit returns the unit to
forward now, None for nothing; `skip` octets of the unit were written before. A handler of a connection gets its link.
Documented seconds are those of the scenario; `context.duration` converts them to seconds of the event loop.
"""

from dataclasses import replace

from conformance.wire.faults.handlers import FaultContext, after_unit, on_connection, on_unit
from conformance.wire.lane import Pace
from conformance.wire.link import Link
from conformance.wire.units import Unit

_MERGED_FOR = 1.0
"""Documented seconds for which octets wait for the next ones, if the fault has no `lasting`."""


@on_unit("stall", "delay")
def _hold_unit(context: FaultContext, unit: Unit, skip: int) -> None:
    """Requeue the unit, which is not examined a second time, and hold its direction as `_hold_lane` does; return None."""
    context.lane.requeue(unit, skip)
    _hold_lane(context)


@after_unit("stall")
def _hold_lane(context: FaultContext) -> None:
    """Hold the direction for `lasting` documented seconds, without `lasting` until the fault is healed.

    `_hold_unit` calls it too, for the faults before a unit.
    """
    lane, reason = context.lane, context.armed.hold_reason
    lane.hold(reason)
    if context.fault.lasting is not None:
        context.call_later(context.fault.lasting, lambda: lane.release(reason))


@on_connection("stall", "delay")
def _hold_dialling(context: FaultContext, link: Link) -> None:
    """Let the link dial the server only after `lasting` documented seconds, or when the fault is healed, whichever is first.

    The time counts for this session alone: another that the fault holds has its own. Healing releases all of them.
    """
    reason = context.armed.hold_reason
    context.record_fired("at connect")
    context.relay.dial_holds.add(reason)
    if context.fault.lasting is not None:
        context.call_later(context.fault.lasting, lambda: link.allow_dialling(context.relay, reason))


@on_unit("throttle")
def _throttle(context: FaultContext, unit: Unit, skip: int) -> Unit:
    """Throttle the unit's direction from this unit on, and return the unit."""
    _throttle_lane(context)
    return unit


@on_connection("throttle")
def _throttle_connection(context: FaultContext, link: Link) -> None:
    """Throttle both directions of a new connection; the server is dialled."""
    context.record_fired("at connect")
    _throttle_lane(context)  # at connect its lane is the one to the server
    _throttle_lane(replace(context, lane=context.relay.to_client))


def _throttle_lane(context: FaultContext) -> None:
    """Write at `rate` octets a documented second, in some ten pieces a second or octet by octet, until the fault is healed."""
    lane, rate = context.lane, context.fault.rate or 1
    lane.pace = Pace(octets=max(1, rate // 10), seconds=context.duration(1 / rate))

    def undo() -> None:
        """Remove the pace, and write at once what it has kept back."""
        lane.pace = None
        lane.flush_throttled()

    context.armed.undo.append(undo)


@on_unit("split")
def _split(context: FaultContext, unit: Unit, skip: int) -> Unit:
    """Return the unit, and have its lane write each of its octets by itself; then the lane writes at once, unthrottled."""
    context.lane.pace = Pace(octets=1, seconds=0, once=True)  # one octet in each turn of the loop
    return unit


@on_unit("merge")
def _merge(context: FaultContext, unit: Unit, skip: int) -> None:
    """Keep the unit, to be written with the next octets, or alone after `lasting` documented seconds (by default 1).

    Healing the fault writes it at once.
    """
    context.lane.merge_with_next(unit, skip)
    lasting = _MERGED_FOR if context.fault.lasting is None else context.fault.lasting
    context.call_later(lasting, context.lane.flush_merged)
    context.armed.undo.append(context.lane.flush_merged)
