"""Faults that end a session, or a direction of it, or all that can be heard of it."""

from collections.abc import Callable

from conformance.wire.faults.handlers import AFTER_UNIT, FaultContext, after_unit, on_connection, on_unit
from conformance.wire.link import Link
from conformance.wire.units import Unit


@on_unit("drop", "reset", "half-close", "mute")
def _at_once(context: FaultContext, unit: Unit, skip: int) -> None:
    """Do what they do behind a unit: it does not pass."""
    AFTER_UNIT[context.fault.does](context)


@after_unit("drop")
def _drop(context: FaultContext) -> None:
    context.relay.drop()


@on_connection("drop")
def _dropped(context: FaultContext, link: Link, let_go: Callable[[str], None]) -> None:
    context.fired("at connect")
    link.refuse(context.relay, context.armed.reason, fin=True)


@after_unit("reset")
def _reset(context: FaultContext) -> None:
    context.relay.reset("link")


@on_connection("refuse", "reset")
def _refused(context: FaultContext, link: Link, let_go: Callable[[str], None]) -> None:
    context.fired("at connect")
    link.refuse(context.relay, context.armed.reason)


@after_unit("half-close")
def _half_close(context: FaultContext) -> None:
    context.relay.half_close(context.lane)


@on_unit("cut")
def _cut(context: FaultContext, unit: Unit, skip: int) -> None:
    fault = context.fault
    if fault.at != "body":
        context.lane.target.write(unit.raw[skip : len(unit.raw) // 2 if fault.offset is None else fault.offset])
    context.relay.drop()


@after_unit("mute")
def _mute(context: FaultContext) -> None:
    context.relay.mute()
    context.armed.on_heal.append(lambda: context.relay.reset("link"))


@on_connection("mute")
def _mute_from_the_start(context: FaultContext, link: Link, let_go: Callable[[str], None]) -> None:
    link.record(context.relay)
    context.fired("at connect")
    context.relay.up.release("connecting")
    _mute(context)
    context.relay.down.finished = True
