"""Faults by which a party receives what the other has not sent.

A *relay* is one session over a link, a *lane* one of its two directions, a *unit* what is forwarded as a whole
(`wire.units`). `FaultInjector` calls the handlers when a fault fires, through the functions `apply` of `handlers`. A handler
of a unit returns the unit to forward now, None for nothing; `skip` octets of the unit were written before. A handler of a
connection gets its link.
"""

from dataclasses import replace

from conformance.history.secrets import REDACTED
from conformance.wire.faults.handlers import FaultContext, on_connection, on_unit
from conformance.wire.lines import TEXT
from conformance.wire.link import Link
from conformance.wire.units import CommandLine, ContentEnd, ContentPart, Unit, WholeReply

_GO_AHEAD = (354, 220, 334)
"""Replies to DATA, STARTTLS and AUTH after which both parties leave the mode of commands: both must have received the same."""


@on_unit("garble")
def _garble(context: FaultContext, unit: Unit, skip: int) -> Unit:
    """Return a command or reply with the high bit of each octet inverted, except of line ends and what was written before.

    Of a part of a content only the first octet that is neither of a line end nor a dot is garbled, if there is one. Other units
    are returned unchanged. Who knows the mask can read garbled text: a line of AUTH stays redacted, and the text of the reply to
    it, which may repeat the secret, is left out of the history.
    """
    match unit:
        case ContentPart():
            first = next((n for n, octet in enumerate(unit.raw) if n >= skip and octet not in b"\r\n."), None)
            if first is None:
                return unit
            garbled = unit.raw[first] ^ 0x80
            return replace(unit, raw=unit.raw[:first] + bytes([garbled]) + unit.raw[first + 1 :])
        case CommandLine():
            raw = unit.raw[:skip] + _garbled(unit.raw[skip:])
            return replace(unit, raw=raw, verb="", line=unit.line if unit.verb == "AUTH" else _text(raw))
        case WholeReply():
            raw = unit.raw[:skip] + _garbled(unit.raw[skip:])
            text = REDACTED if unit.to == "AUTH" else _text(raw)
            return replace(unit, raw=raw, code=0, enhanced=None, lines=(text,))
        case _:
            return unit


@on_unit("replace", "answer")
def _substitute_reply(context: FaultContext, unit: Unit, skip: int) -> Unit | None:
    """Give the fault's reply in place of the server's, or (unit of the client) without forwarding the unit to the server.

    Return the substitute if `unit` is a reply; for a unit of the client queue the substitute and return None. The chunk of a
    BDAT is dropped with its command. Where client and server would disagree about what follows (a command, a content or TLS),
    `drop_server` resets the server's connection, and the harness answers the client's next command; the substitute of a
    reply is forwarded before that, and None returned. `unit.to` is the verb that a reply answers. Raises ValueError for a
    unit that is neither a reply, a command nor the end of a content.
    """
    relay, reply = context.relay, _octets(context.fault.reply)
    match unit:
        case WholeReply():
            instead = relay.parser.replace_reply(unit, reply)  # the parser goes on as the client will
            if unit.to in ("DATA", "STARTTLS", "AUTH") and (unit.code in _GO_AHEAD) != (instead.code in _GO_AHEAD):
                relay.to_client.forward(instead)
                relay.drop_server()
                return None
            return instead
        case CommandLine():
            context.lane.flush_merged()  # so that what came before this command is recorded before it
            relay.record_unit(context.lane, unit)
            if _is_mode_unknown_to_server(unit, reply):
                unit.pending.substitute = reply  # not queued before `drop_server`, which discards what is queued
                relay.drop_server()
            else:
                relay.answer_command(unit, reply)
            return None
        case ContentEnd():
            unit.pending.substitute = reply
            relay.drop_server()
            return None
        case _:
            raise ValueError("only a command or a reply can be answered for")


@on_connection("answer")
def _greet_in_place_of_server(context: FaultContext, link: Link) -> None:
    """Record the session as connected, and give the fault's reply as the greeting without dialling the server.

    `drop_server` answers the client's next command with 421 (QUIT: 221) and ends the session.
    """
    link.record_session(context.relay)
    context.record_fired(f"at connect: {context.fault.reply}")
    context.relay.to_server.release("connecting")  # held until the server is reached
    context.relay.drop_server(pending_reply=_octets(context.fault.reply))


def _is_mode_unknown_to_server(unit: CommandLine, reply: bytes) -> bool:
    """Return whether the client leaves the mode of commands, or stays in it, by a reply that the server does not know of.

    That is content after DATA, TLS after STARTTLS, and the response to AUTH, which is itself such a unit with a redacted line.
    """
    if unit.verb == "AUTH":
        return reply[:1] == b"3" or unit.line == REDACTED
    return unit.verb in ("DATA", "STARTTLS") and reply[:1] in b"23"


def _octets(reply: str | None) -> bytes:
    """Return a reply of a scenario with CRLF between its lines and none at its end; b"" for None."""
    return "\r\n".join((reply or "").splitlines()).encode("ascii", "backslashreplace")


def _garbled(raw: bytes) -> bytes:
    """Return octets with the high bit of each inverted, except of CR and LF."""
    return bytes(octet if octet in b"\r\n" else octet ^ 0x80 for octet in raw)


def _text(raw: bytes) -> str:
    """Return the text of garbled octets for the history, without line ends and bounded."""
    return raw[:TEXT].rstrip(b"\r\n").decode("utf-8", "backslashreplace")
