"""How a fault strikes: what it is given, and the register of what each kind does then."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from conformance.counterparts import Register
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


class Effect:
    """What one kind of fault does. It has the methods for the points at which its declaration lets it strike, and no
    others (`conformance.faults`)."""

    def on_unit(self, blow: Blow, unit: Unit, skip: int) -> Unit | None:
        """Strike a unit that is about to pass. Return what shall pass now; None when nothing does."""
        raise NotImplementedError

    def behind(self, blow: Blow) -> None:
        """Strike behind a unit that has passed."""
        raise NotImplementedError

    def on_connection(self, blow: Blow, link: Link, let_go: Callable[[str], None]) -> None:
        """Strike a new connection before the server is dialled, and say so with `blow.fired`."""
        raise NotImplementedError


E = TypeVar("E", bound=type[Effect])

EFFECTS: Register[Effect] = Register("effect of a fault")
"""Kind -> what it does; `conformance.wire.faults` fills it."""


def effect(kind: str) -> Callable[[E], E]:
    """Declare a class as what a kind of fault does."""

    def declare(does: E) -> E:
        EFFECTS.add(kind, does())
        return does

    return declare


def strike(blow: Blow, unit: Unit, skip: int) -> Unit | None:
    """Strike a unit that is about to pass. Return what shall pass now; None when nothing does."""
    blow.fired(f"{_place(blow.fault)}: {told(unit)}")
    return EFFECTS[blow.fault.does].on_unit(blow, unit, skip)


def strike_behind(blow: Blow, unit: Unit) -> None:
    """Strike behind a unit that has passed: it is on the wire whatever lane it had to take."""
    blow.fired(f"{_place(blow.fault)}: {told(unit)}")
    blow.lane.quicken()
    EFFECTS[blow.fault.does].behind(blow)


def strike_connection(blow: Blow, link: Link, let_go: Callable[[str], None]) -> None:
    """Strike a new connection before the server is dialled."""
    EFFECTS[blow.fault.does].on_connection(blow, link, let_go)


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
