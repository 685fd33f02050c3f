"""Faults by which a party hears what the other has not said."""

from collections.abc import Callable
from dataclasses import replace

from conformance.wire.faults.handlers import FaultContext, on_connection, on_unit
from conformance.wire.lines import TEXT
from conformance.wire.link import Link
from conformance.wire.units import CommandLine, ContentEnd, ContentPart, Unit, WholeReply

_GO_ON = (354, 220)
"""After these replies to DATA and STARTTLS client and server speak otherwise: both must have heard the same."""


@on_unit("garble")
def _garble(context: FaultContext, unit: Unit, skip: int) -> Unit:
    """Spoil a unit beyond recognition, its line ends excepted; of a content, one octet."""
    match unit:
        case ContentPart():
            first = next((n for n, octet in enumerate(unit.raw) if octet not in b"\r\n."), None)
            if first is None:
                return unit
            spoilt = unit.raw[first] ^ 0x80
            return ContentPart(unit.raw[:first] + bytes([spoilt]) + unit.raw[first + 1 :])
        case CommandLine():
            raw = _spoilt(unit.raw)
            return replace(unit, raw=raw, verb="", line=unit.line if unit.verb == "AUTH" else _text(raw))
        case WholeReply():
            raw = _spoilt(unit.raw)
            return replace(unit, raw=raw, code=0, enhanced=None, lines=(_text(raw),))
        case _:
            return unit


@on_unit("replace", "answer")
def _other_reply(context: FaultContext, unit: Unit, skip: int) -> Unit | None:
    """Give the fault's reply: in the place of the server's, or so that the server never hears the command."""
    relay, reply = context.relay, _octets(context.fault.reply)
    match unit:
        case WholeReply():
            instead = relay.conversation.replace(unit, reply)
            if unit.to in ("DATA", "STARTTLS") and (unit.code in _GO_ON) != (instead.code in _GO_ON):
                relay.down.pass_on(instead)
                relay.orphan()
                return None
            return instead
        case CommandLine():
            relay.passing(context.lane, unit)
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


@on_connection("answer")
def _answer_at_once(context: FaultContext, link: Link, let_go: Callable[[str], None]) -> None:
    link.record(context.relay)
    context.fired(f"at connect: {context.fault.reply}")
    context.relay.up.release("connecting")
    context.relay.orphan(_octets(context.fault.reply))


def _octets(reply: str | None) -> bytes:
    return "\r\n".join((reply or "").splitlines()).encode("ascii", "backslashreplace")


def _spoilt(raw: bytes) -> bytes:
    return bytes(octet if octet in b"\r\n" else octet ^ 0x80 for octet in raw)


def _text(raw: bytes) -> str:
    return raw[:TEXT].rstrip(b"\r\n").decode("utf-8", "backslashreplace")
