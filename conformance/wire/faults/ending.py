"""Faults that end a session or one of its directions, or discard all of its octets.

A *relay* is one session over a link, a *lane* one of its two directions, a *unit* what is forwarded as a whole
(`wire.units`). `FaultInjector` calls the handlers when a fault fires, through the functions `apply` of `handlers`. A handler
of a unit returns the unit to forward now, None for nothing; `skip` octets of the unit were written before. A handler of a
connection gets its link. `AFTER_UNIT` has, by kind, the handlers that act after a unit was forwarded.
"""

from conformance.wire.faults.handlers import AFTER_UNIT, FaultContext, after_unit, on_connection, on_unit
from conformance.wire.link import Link
from conformance.wire.units import Unit


@on_unit("drop", "reset", "half-close", "mute")
def _end_before_unit(context: FaultContext, unit: Unit, skip: int) -> None:
    """Call the kind's handler of `AFTER_UNIT`, which ends or mutes the session or a direction; the unit is not forwarded.

    What `merge_with_next` kept of the units before it is written first.
    """
    context.lane.flush_kept()
    AFTER_UNIT[context.fault.does](context)


@after_unit("drop")
def _drop(context: FaultContext) -> None:
    """End the session with FIN to both parties."""
    context.relay.close_with_fin()


@on_connection("drop")
def _drop_connection(context: FaultContext, link: Link) -> None:
    """Record that the client could not connect, and close its connection with FIN, without dialling the server."""
    context.record_fired("at connect")
    link.refuse(context.relay, context.armed.hold_reason, fin=True)


@after_unit("reset")
def _reset(context: FaultContext) -> None:
    """End the session with RST to both parties."""
    context.relay.close_with_rst(by="link")


@on_connection("refuse", "reset")
def _refuse_connection(context: FaultContext, link: Link) -> None:
    """Record that the client could not connect, and close its connection with RST, without dialling the server."""
    context.record_fired("at connect")
    link.refuse(context.relay, context.armed.hold_reason)


@after_unit("half-close")
def _half_close(context: FaultContext) -> None:
    """Send FIN in the fault's direction, and discard what still comes in it; the other direction goes on."""
    context.relay.half_close(context.lane)


@on_unit("cut")
def _cut(context: FaultContext, unit: Unit, skip: int) -> None:
    """Write the unit's first `offset` octets (by default half of it), unrecorded, and end the session with FIN.

    In a content (`body`) the unit is what follows `offset`, where the injector has split it: nothing of it is written. What
    `merge_with_next` kept of the units before it is written first.
    """
    fault = context.fault
    context.lane.flush_kept()
    if fault.at != "body":
        context.lane.target.write(unit.raw[skip : len(unit.raw) // 2 if fault.offset is None else fault.offset])
    context.relay.close_with_fin()


@after_unit("mute")
def _mute(context: FaultContext) -> None:
    """Discard all octets of both directions until healed, then reset the session."""
    context.relay.mute()
    context.armed.undo.append(lambda: context.relay.close_with_rst(by="link"))


@on_connection("mute")
def _mute_connection(context: FaultContext, link: Link) -> None:
    """Record the session as connected, and mute it without dialling the server.

    What the client sends from then on is neither forwarded nor recorded; the lane is released for its FIN alone. Healing the
    fault resets the session.
    """
    link.record_session(context.relay)
    context.record_fired("at connect")
    context.relay.to_server.release("connecting")
    _mute(context)
    context.relay.to_client.ended = True  # so that the client's FIN ends the session
