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
from conformance.wire.units import Body, CommandLine, ContentEnd, Unit, WholeReply


@dataclass(frozen=True, slots=True)
class Blow:
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


ON_UNIT: Registry[Callable[[Blow, Unit, int], Unit | None]] = Registry("strike at a unit by the fault")
"""Strikes a unit that is about to pass, of which so many octets have passed. Returns what shall pass now; None when nothing
does."""

BEHIND: Registry[Callable[[Blow], None]] = Registry("strike behind a unit by the fault")
"""Strikes behind a unit that has passed."""

ON_CONNECTION: Registry[Callable[[Blow, Link, Callable[[str], None]], None]] = Registry(
    "strike at connect by the fault"
)
"""Strikes a new connection before the server is dialled, and says so with `Blow.fired`."""

on_unit, behind, on_connection = ON_UNIT.declare, BEHIND.declare, ON_CONNECTION.declare


def strike(blow: Blow, unit: Unit, skip: int) -> Unit | None:
    """Strike a unit that is about to pass. Return what shall pass now; None when nothing does."""
    blow.fired(f"{_place(blow.fault)}: {told(unit)}")
    return ON_UNIT[blow.fault.does](blow, unit, skip)


def strike_behind(blow: Blow, unit: Unit) -> None:
    """Strike behind a unit that has passed: it is on the wire whatever lane it had to take."""
    blow.fired(f"{_place(blow.fault)}: {told(unit)}")
    blow.lane.quicken()
    BEHIND[blow.fault.does](blow)


def strike_connection(blow: Blow, link: Link, let_go: Callable[[str], None]) -> None:
    """Strike a new connection before the server is dialled."""
    ON_CONNECTION[blow.fault.does](blow, link, let_go)


def told(unit: Unit) -> str:
    """Describe a unit for a reader of the history, in bounded words."""
    match unit:
        case CommandLine():
            return unit.line[:200]
        case WholeReply():
            return f"{unit.code} {unit.lines[0] if unit.lines else ''}"[:200]
        case ContentEnd():
            return "the end of the content"
        case Body():
            return f"{len(unit.raw)} octets of the content"
        case _:
            return f"{len(unit.raw)} octets"


def _place(fault: Fault) -> str:
    if fault.at == "body":
        return f"at octet {fault.offset or 0} of the body"
    if fault.when in ("heard", "answered"):
        return f"with {fault.at} {fault.when}"
    return f"at {fault.at}" if fault.at == "greeting" else f"{fault.when} {fault.at}"
