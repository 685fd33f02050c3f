"""How a fault strikes: what it is given, and the registers of what each kind does at the points of an exchange."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from conformance.registry import Registry
from conformance.scenarios.steps.breaking import Fault
from conformance.wire.fault_plan import Armed
from conformance.wire.lane import Lane
from conformance.wire.link import Link
from conformance.wire.relay import Relay
from conformance.wire.units import CommandLine, ContentEnd, ContentPart, Unit, WholeReply


@dataclass(frozen=True, slots=True)
class FaultContext:
    """A fault that fires now: where, how to say so, and how long its documented seconds take."""

    armed: Armed
    relay: Relay
    lane: Lane
    fired: Callable[[str], None]
    duration: Callable[[float], float]

    @property
    def fault(self) -> Fault:
        """What the scenario asked for."""
        return self.armed.fault

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        """Do something in so many documented seconds, unless it is healed before."""
        self.armed.timers.append(asyncio.get_running_loop().call_later(self.duration(seconds), do))


ON_UNIT: Registry[Callable[[FaultContext, Unit, int], Unit | None]] = Registry("strike at a unit by the fault")
"""Strikes a unit that is about to pass, of which so many octets have passed. Returns what shall pass now; None when nothing
does."""

AFTER_UNIT: Registry[Callable[[FaultContext], None]] = Registry("strike behind a unit by the fault")
"""Strikes behind a unit that has passed."""

ON_CONNECTION: Registry[Callable[[FaultContext, Link, Callable[[str], None]], None]] = Registry(
    "strike at connect by the fault"
)
"""Strikes a new connection before the server is dialled, and says so with `FaultContext.fired`."""

on_unit, after_unit, on_connection = ON_UNIT.declare, AFTER_UNIT.declare, ON_CONNECTION.declare


def apply(context: FaultContext, unit: Unit, skip: int) -> Unit | None:
    """Strike a unit that is about to pass. Return what shall pass now; None when nothing does."""
    context.fired(f"{_place(context.fault)}: {describe_unit(unit)}")
    return ON_UNIT[context.fault.does](context, unit, skip)


def apply_after(context: FaultContext, unit: Unit) -> None:
    """Strike behind a unit that has passed: it is on the wire whatever lane it had to take."""
    context.fired(f"{_place(context.fault)}: {describe_unit(unit)}")
    context.lane.quicken()
    AFTER_UNIT[context.fault.does](context)


def apply_to_connection(context: FaultContext, link: Link, let_go: Callable[[str], None]) -> None:
    """Strike a new connection before the server is dialled."""
    ON_CONNECTION[context.fault.does](context, link, let_go)


def describe_unit(unit: Unit) -> str:
    """Describe a unit for a reader of the history, in bounded words."""
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


def _place(fault: Fault) -> str:
    if fault.at == "body":
        return f"at octet {fault.offset or 0} of the body"
    if fault.when in ("heard", "answered"):
        return f"with {fault.at} {fault.when}"
    return f"at {fault.at}" if fault.at == "greeting" else f"{fault.when} {fault.at}"
