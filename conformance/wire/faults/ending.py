"""Faults that end a session, or a direction of it, or all that can be heard of it."""

from collections.abc import Callable

from conformance.wire.faults.effect import BEHIND, Blow, behind, on_connection, on_unit
from conformance.wire.link import Link
from conformance.wire.units import Unit


@on_unit("drop", "reset", "half-close", "mute")
def _at_once(blow: Blow, unit: Unit, skip: int) -> None:
    """Do what they do behind a unit: it does not pass."""
    BEHIND[blow.fault.does](blow)


@behind("drop")
def _drop(blow: Blow) -> None:
    blow.relay.drop()


@on_connection("drop")
def _dropped(blow: Blow, link: Link, let_go: Callable[[str], None]) -> None:
    blow.fired("at connect")
    link.refuse(blow.relay, blow.armed.reason, fin=True)


@behind("reset")
def _reset(blow: Blow) -> None:
    blow.relay.reset("link")


@on_connection("refuse", "reset")
def _refused(blow: Blow, link: Link, let_go: Callable[[str], None]) -> None:
    blow.fired("at connect")
    link.refuse(blow.relay, blow.armed.reason)


@behind("half-close")
def _half_close(blow: Blow) -> None:
    blow.relay.half_close(blow.lane)


@on_unit("cut")
def _cut(blow: Blow, unit: Unit, skip: int) -> None:
    fault = blow.fault
    if fault.at != "body":
        blow.lane.target.write(unit.raw[skip : len(unit.raw) // 2 if fault.offset is None else fault.offset])
    blow.relay.drop()


@behind("mute")
def _mute(blow: Blow) -> None:
    blow.relay.mute()
    blow.armed.on_heal.append(lambda: blow.relay.reset("link"))


@on_connection("mute")
def _mute_from_the_start(blow: Blow, link: Link, let_go: Callable[[str], None]) -> None:
    link.record(blow.relay)
    blow.fired("at connect")
    blow.relay.up.release("connecting")
    _mute(blow)
    blow.relay.down.finished = True
