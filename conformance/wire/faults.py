"""What each kind of fault does on the wire."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from conformance.scenarios.steps.breaking import Fault
from conformance.wire.fault_plan import Armed
from conformance.wire.lane import Lane, Pace
from conformance.wire.lines import TEXT
from conformance.wire.link import Link
from conformance.wire.relay import Relay
from conformance.wire.units import Body, CommandLine, ContentEnd, Unit, WholeReply

_MERGED_FOR = 1.0
"""Seconds for which octets wait to be merged with the next, when the fault does not say."""

_GO_ON = (354, 220)
"""After these replies to DATA and STARTTLS client and server speak otherwise: both must have heard the same."""


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


def strike(blow: Blow, unit: Unit, skip: int) -> Unit | None:
    """Strike a unit that is about to pass. Return what shall pass now; None when nothing does."""
    relay, lane, fault = blow.relay, blow.lane, blow.fault
    blow.fired(f"{_place(fault)}: {told(unit)}")
    match fault.does:
        case "drop":
            relay.drop()
        case "reset":
            relay.reset("link")
        case "half-close":
            relay.half_close(lane)
        case "mute":
            relay.mute()
            blow.armed.on_heal.append(lambda: relay.reset("link"))
        case "cut":
            if fault.at != "body":
                lane.target.write(unit.raw[skip : len(unit.raw) // 2 if fault.offset is None else fault.offset])
            relay.drop()
        case "stall" | "delay":
            lane.put_back(unit, skip)
            lane.hold(blow.armed.reason)
            if fault.lasting is not None:
                blow.later(fault.lasting, lambda: lane.release(blow.armed.reason))
        case "throttle":
            _throttle(blow)
            return unit
        case "split":
            lane.pace = Pace(1, 0, once=True)
            return unit
        case "merge":
            relay.passing(lane, unit)
            lane.keep(unit.raw[skip:])
            blow.later(_MERGED_FOR if fault.lasting is None else fault.lasting, lane.flush)
        case "garble":
            return _garbled(unit)
        case "replace" | "answer":
            return _other_reply(blow, unit)
        case _:
            raise ValueError(f"{fault.does} strikes no unit")
    return None


def strike_behind(blow: Blow, unit: Unit) -> None:
    """Strike behind a unit that has passed: it is on the wire whatever lane it had to take."""
    relay, lane, fault = blow.relay, blow.lane, blow.fault
    blow.fired(f"{_place(fault)}: {told(unit)}")
    lane.quicken()
    match fault.does:
        case "drop":
            relay.drop()
        case "reset":
            relay.reset("link")
        case "half-close":
            relay.half_close(lane)
        case "mute":
            relay.mute()
            blow.armed.on_heal.append(lambda: relay.reset("link"))
        case "stall":
            lane.hold(blow.armed.reason)
            if fault.lasting is not None:
                blow.later(fault.lasting, lambda: lane.release(blow.armed.reason))
        case _:
            raise ValueError(f"{fault.does} strikes nothing that has passed")


def strike_connection(link: Link, blow: Blow, let_go: Callable[[str], None]) -> None:
    """Strike a new connection before the server is dialled."""
    relay, fault, reason = blow.relay, blow.fault, blow.armed.reason
    match fault.does:
        case "refuse" | "reset":
            blow.fired("at connect")
            link.refuse(relay, f"fault {fault.name}")
        case "drop":
            blow.fired("at connect")
            link.refuse(relay, f"fault {fault.name}", fin=True)
        case "mute":
            link.record(relay)
            blow.fired("at connect")
            relay.up.release("connecting")
            relay.mute()
            relay.down.finished = True
            blow.armed.on_heal.append(lambda: relay.reset("link"))
        case "answer":
            link.record(relay)
            blow.fired(f"at connect: {fault.reply}")
            relay.up.release("connecting")
            relay.orphan(_octets(fault.reply))
        case "stall" | "delay":
            blow.fired("at connect")
            relay.barred.add(reason)
            if fault.lasting is not None:
                blow.later(fault.lasting, lambda: let_go(reason))
        case "throttle":
            blow.fired("at connect")
            _throttle(blow)
            _throttle(replace(blow, lane=relay.down))
        case _:
            raise ValueError(f"{fault.does} strikes no connection")


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


def _octets(reply: str | None) -> bytes:
    return "\r\n".join((reply or "").splitlines()).encode("ascii", "backslashreplace")


def _throttle(blow: Blow) -> None:
    lane, rate = blow.lane, blow.fault.rate or 1
    lane.pace = Pace(max(1, rate // 10), blow.duration(1 / rate))

    def undo() -> None:
        lane.pace = None
        lane.quicken()

    blow.armed.on_heal.append(undo)


def _garbled(unit: Unit) -> Unit:
    """Spoil a unit beyond recognition, its line ends excepted; of a content, one octet."""
    match unit:
        case Body():
            first = next((n for n, octet in enumerate(unit.raw) if octet not in b"\r\n."), None)
            if first is None:
                return unit
            spoilt = unit.raw[first] ^ 0x80
            return Body(unit.raw[:first] + bytes([spoilt]) + unit.raw[first + 1 :])
        case CommandLine():
            raw = _spoilt(unit.raw)
            return replace(unit, raw=raw, verb="", line=unit.line if unit.verb == "AUTH" else _text(raw))
        case WholeReply():
            raw = _spoilt(unit.raw)
            return replace(unit, raw=raw, code=0, enhanced=None, lines=(_text(raw),))
        case _:
            return unit


def _spoilt(raw: bytes) -> bytes:
    return bytes(octet if octet in b"\r\n" else octet ^ 0x80 for octet in raw)


def _text(raw: bytes) -> str:
    return raw[:TEXT].rstrip(b"\r\n").decode("utf-8", "backslashreplace")


def _other_reply(blow: Blow, unit: Unit) -> Unit | None:
    """Give the fault's reply: in the place of the server's, or so that the server never hears the command."""
    relay, reply = blow.relay, _octets(blow.fault.reply)
    match unit:
        case WholeReply():
            instead = relay.conversation.replace(unit, reply)
            if unit.to in ("DATA", "STARTTLS") and (unit.code in _GO_ON) != (instead.code in _GO_ON):
                relay.down.pass_on(instead)
                relay.orphan()
                return None
            return instead
        case CommandLine():
            relay.passing(blow.lane, unit)
            relay.answer(unit.awaited, reply)
            if unit.verb in ("DATA", "STARTTLS") and reply[:1] in b"23":
                relay.orphan()
            return None
        case ContentEnd():
            relay.answer(unit.awaited, reply)
            relay.orphan()
            return None
        case _:
            raise ValueError("only a command or a reply can be answered for")
