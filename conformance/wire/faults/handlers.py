"""How a fault is applied: the context that its handlers get, and the registries of handlers by kind of fault.

The injector calls the three `apply` functions when a fault fires; they call the handler of the fault's kind (`drop`, `stall`
and others, see `conformance.faults`), and record the event `fault-fired` before (of a connection the handler records it). A
*unit* is what is forwarded as a whole: a command line, a reply, a part of a content or its end.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from conformance.registry import Registry
from conformance.scenarios.steps.breaking import Fault
from conformance.wire.fault_plan import ArmedFault
from conformance.wire.lane import Lane
from conformance.wire.link import Link
from conformance.wire.relay import Relay
from conformance.wire.units import CommandLine, ContentEnd, ContentPart, Unit, WholeReply


@dataclass(frozen=True, slots=True)
class FaultContext:
    """A fault that fires now, in a session.

    `armed` is the fault with its counts, its timers and what heals it. `lane` is the direction of the unit (of a new
    connection: to the server). `record_fired` records the event `fault-fired`, with a detail. `duration` converts documented
    seconds (the scenario's) to seconds of the event loop.
    """

    armed: ArmedFault
    relay: Relay
    lane: Lane
    record_fired: Callable[[str], None]
    duration: Callable[[float], float]

    @property
    def fault(self) -> Fault:
        """The step of the scenario that armed the fault; its `does` is the kind."""
        return self.armed.fault

    def call_later(self, seconds: float, do: Callable[[], None]) -> None:
        """Call a function after this many documented seconds, unless the fault is healed before; return at once."""
        self.armed.timers.append(asyncio.get_running_loop().call_later(self.duration(seconds), do))


ON_UNIT: Registry[Callable[[FaultContext, Unit, int], Unit | None]] = Registry("handler of a unit for the fault")
"""Handlers of a unit that is about to be forwarded: (context, unit, octets of it that were written before) -> the unit to
forward now, None for nothing."""

AFTER_UNIT: Registry[Callable[[FaultContext], None]] = Registry("handler after a unit for the fault")
"""Handlers that are called after a unit was forwarded."""

ON_CONNECTION: Registry[Callable[[FaultContext, Link], None]] = Registry("handler of a connection for the fault")
"""Handlers of a new connection, before the server is dialled; they record the event themselves."""

on_unit, after_unit, on_connection = ON_UNIT.register, AFTER_UNIT.register, ON_CONNECTION.register


def apply(context: FaultContext, unit: Unit, skip: int) -> Unit | None:
    """Record that the fault fires, and call the kind's handler for a unit of which `skip` octets were written before.

    Return the unit to forward now, None for nothing.
    """
    context.record_fired(f"{_describe_point(context.fault)}: {describe_unit(unit)}")
    return ON_UNIT[context.fault.does](context, unit, skip)


def apply_after(context: FaultContext, unit: Unit) -> None:
    """Record that the fault fired, write what throttling keeps back of the forwarded unit, and call the kind's handler."""
    context.record_fired(f"{_describe_point(context.fault)}: {describe_unit(unit)}")
    context.lane.flush_throttled()
    AFTER_UNIT[context.fault.does](context)


def apply_to_connection(context: FaultContext, link: Link) -> None:
    """Call the kind's handler for a new connection before the server is dialled; the handler records the event."""
    ON_CONNECTION[context.fault.does](context, link)


def describe_unit(unit: Unit) -> str:
    """Return a description of a unit for the history, of at most 200 characters: `RCPT TO:<b@corp.test>`, `250 2.1.5 ok`."""
    match unit:
        case CommandLine():
            return unit.line[:200]
        case WholeReply():
            return f"{unit.code} {unit.lines[0] if unit.lines else ''}"[:200]
        case ContentEnd():
            return "the end of the content"
        case ContentPart():
            return f"{len(unit.raw)} octets of the content"
        case _:
            return f"{len(unit.raw)} octets"


def _describe_point(fault: Fault) -> str:
    """Return where a fault acts, in words: `before DATA`, `with MAIL answered`, `at octet 10 of the body`, `at greeting`."""
    if fault.at == "body":
        return f"at octet {fault.offset or 0} of the body"
    if fault.when in ("heard", "answered"):
        return f"with {fault.at} {fault.when}"
    return f"at {fault.at}" if fault.at == "greeting" else f"{fault.when} {fault.at}"
