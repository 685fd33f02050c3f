"""Talking line by line: what a scenario writes down is said, and what comes back is compared with what must come."""

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from conformance.scenarios.steps.talking import Line
from conformance.shortage import shortage_of
from conformance.wire.client import ServerReply, SessionLost, read_reply
from conformance.wire.lines import redacted
from conformance.wire.link import Address, RecordedSession
from conformance.wire.sockets import describe_error, has_unread_octets, port_of

PATIENCE = 3600.0
"""Seconds to wait for a reply, or for the end: above every limit that a server has for a session."""

_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|([rn0\\]))")
_PLAIN = {b"r": b"\r", b"n": b"\n", b"0": b"\0", b"\\": b"\\"}


@dataclass(frozen=True, slots=True)
class Exchange:
    """What was said and what came back; `problem` says in which way that is not what the scenario wants, or ''.

    `closed`: instead of a reply the session ended. `waited`: seconds of `elapsed` from the line, after its own wait, to
    the reply or the end; None where nothing was read.
    """

    sent: str
    code: int | None = None
    enhanced: str | None = None
    text: str = ""
    problem: str = ""
    closed: bool = False
    waited: float | None = None


@dataclass(frozen=True, slots=True)
class TalkResult:
    """A whole conversation: the session's name, and its exchanges up to the first that went wrong.

    `late` is by how much the conversation lasted longer than its lines say, as far as no line alone was slow: loop seconds.
    """

    session: str | None
    exchanges: tuple[Exchange, ...]
    late: float = 0.0

    @property
    def problem(self) -> str:
        """What went wrong, or ''."""
        return next((exchange.problem for exchange in self.exchanges if exchange.problem), "")


async def talk(
    address: Address,
    lines: Sequence[Line],
    *,
    message: Callable[[str], bytes],
    duration: Callable[[float], float] = lambda seconds: seconds,
    elapsed: Callable[[], float] = time.monotonic,
    session_behind: Callable[[int, int], RecordedSession | None] = lambda port, dialled: None,
    offers: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda lines: lines,
    tolerance: float = 0.0,
) -> TalkResult:
    """Hold one session. `elapsed` counts documented seconds. `message` makes the content that a line names; a server that is not there is a problem told.

    `offers` gives the lines of a reply to EHLO in the words of the wire profile, in which scenarios ask for keywords.

    `tolerance`, in documented seconds, is how long a line may take that is not slow: what such lines take adds up, and is
    lateness, not the server's doing.

    Raises what `message` raises, and OSError when the machine has run out of something.
    """
    try:
        reader, writer = await asyncio.open_connection(*address)
    except OSError as error:
        if shortage_of(error):
            raise
        return TalkResult(None, (Exchange("", problem=f"no connection: {describe_error(error)}"),))
    port = port_of(writer.get_extra_info("sockname"))
    exchanges: list[Exchange] = []
    offered: frozenset[str] | None = None
    loop, late = asyncio.get_running_loop(), 0.0
    try:
        for line in lines:
            greets = (line.say or "").split(" ")[0].upper() in ("EHLO", "LHLO")
            if line.where is not None and not greets and line.where not in (offered or ()):
                continue
            began = loop.time()
            if line.wait is not None:
                await asyncio.sleep(duration(line.wait))
                late += loop.time() - began - duration(line.wait)
            said_at = loop.time()
            octets, begun = _octets(line, message), elapsed()
            exchange, reply = await _exchange(line, octets, reader, writer, duration(PATIENCE))
            if greets and reply is not None and reply.positive:
                reply = replace(reply, lines=offers(reply.lines))
                offered = frozenset(text.split(" ")[0].upper() for text in reply.lines[1:])
            if reply is not None:
                exchange = replace(exchange, problem=_problem(line, reply, offered))
            exchanges.append(exchange if line.code is None else replace(exchange, waited=elapsed() - begun))
            took = loop.time() - said_at
            late += took if took <= duration(tolerance) else 0.0
            if exchanges[-1].problem:
                break
            if line.secure and (problem := await _secure(reader, writer, duration(PATIENCE))):
                exchanges.append(Exchange("(TLS)", problem=problem))
                break
    finally:
        writer.transport.abort()
    known = session_behind(port, address[1])
    return TalkResult(known.session if known is not None else None, tuple(exchanges), late)


async def _secure(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: float) -> str:
    """Begin TLS; return in which way it did not come about, or ''. The link sees nothing of what follows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if await has_unread_octets(reader):
        return "expected TLS, but the server sent octets behind its 220"
    try:
        async with asyncio.timeout(limit):
            await writer.start_tls(context)
    except (OSError, TimeoutError) as error:
        return f"expected TLS, but {describe_error(error) if isinstance(error, OSError) else 'nothing came'}"
    return ""


def unescaped(text: str) -> bytes:
    r"""Return the octets that a text with `\r \n \0 \\ \xhh` stands for."""
    return _ESCAPE.sub(lambda m: bytes([int(m[1], 16)]) if m[1] else _PLAIN[m[2]], text.encode())


def _octets(line: Line, message: Callable[[str], bytes]) -> bytes:
    if line.octets is not None:
        return unescaped(line.octets)
    if line.message is not None:
        return message(line.message) + b".\r\n"
    return b"" if line.say is None else line.say.encode() + b"\r\n"


async def _exchange(
    line: Line, octets: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: float
) -> tuple[Exchange, ServerReply | None]:
    sent = redacted(line.say or "") or line.octets or (f"({line.message})" if line.message else "")
    try:
        if octets:
            await _write(writer, octets, limit)
        if line.code is None:
            return Exchange(sent), None
        reply = await read_reply(reader, limit)
    except SessionLost as lost:
        met = line.code == "closed" and lost.ended
        problem = "" if met else f"expected {_wanted(line)}, but {lost}"
        return Exchange(sent, text=str(lost), problem=problem, closed=lost.ended), None
    return Exchange(sent, reply.code, reply.enhanced, reply.text[:2000]), reply


async def _write(writer: asyncio.StreamWriter, octets: bytes, limit: float) -> None:
    try:
        async with asyncio.timeout(limit):
            writer.write(octets)
            await writer.drain()
    except TimeoutError:
        raise SessionLost("the server takes no more octets") from None
    except OSError as error:
        raise SessionLost(f"the session broke: {describe_error(error)}", ended=True) from None


def _wanted(line: Line) -> str:
    if isinstance(line.code, tuple):
        return " or ".join(map(str, line.code))
    return str(line.code or "nothing")


def _problem(line: Line, reply: ServerReply, offered: frozenset[str] | None) -> str:
    """Return in which way a reply is not what its line wants, or ''; `offered` are the keywords of EHLO, None before."""
    seen = f"{reply.code} {reply.text[:200]}"
    if reply.code not in (line.code if isinstance(line.code, tuple) else (line.code,)):
        return f"expected {_wanted(line)}, but {seen}"
    promised = offered is None or "ENHANCEDSTATUSCODES" in offered
    enhanced = (line.enhanced,) if isinstance(line.enhanced, str) else line.enhanced
    if enhanced is not None and promised and reply.enhanced not in enhanced:
        return f"expected enhanced status code {' or '.join(enhanced)}, but {seen}"
    if line.where is not None and line.where not in (offered or ()):
        return ""
    if line.has is not None and line.has not in reply.text:
        return f"expected a reply with {line.has!r}, but {seen}"
    if line.lacks is not None and line.lacks in reply.text:
        return f"expected a reply without {line.lacks!r}, but {seen}"
    return ""
