"""Holds one SMTP session line by line: sends what a scenario's `talk` says, and compares each reply with the expected one.

A `Line` of a scenario has what to send (`say`, `octets` or the `message` of that name), and the `code` of the expected
reply: one or several codes, `closed` for the end of the session, None where no reply is awaited. A *problem* is a text
that says how the server behaved otherwise, '' if it did not. Seconds are documented (the scenario's) where a comment
says so, else those of the event loop.
"""

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

REPLY_TIMEOUT = 3600.0
"""Documented seconds to wait for a reply, or for the end: above every limit that a server has for a session."""

_READY_FOR_TLS = 220
"""The reply to STARTTLS behind which TLS begins (RFC 3207 4)."""

_RESOLUTION = 1e-6
"""Seconds of the loop below which no lateness is reported: sums of floats leave that much, also on a clock that is never late."""

_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|([rn0\\]))")
_PLAIN = {b"r": b"\r", b"n": b"\n", b"0": b"\0", b"\\": b"\\"}


@dataclass(frozen=True, slots=True)
class LineExchange:
    """A line that was sent, and the reply to it; `problem` says how that differs from what the scenario expects, or ''.

    `sent` is the line with secrets redacted. `closed`: the session ended in place of a reply. `waited`: documented seconds
    from the line, after its own `wait`, to the reply or the end; None where nothing was read.
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
    """A session: its name in the history (None if it was never connected), and its exchanges up to the first problem.

    `late`: by how many seconds of the loop it lasted longer than its lines say, without lines slower than the tolerance; 0.0
    below the clock's resolution of a microsecond.
    """

    session: str | None
    exchanges: tuple[LineExchange, ...]
    late: float = 0.0

    @property
    def problem(self) -> str:
        """The first problem among the exchanges, '' if none has one."""
        return next((exchange.problem for exchange in self.exchanges if exchange.problem), "")


async def talk(
    address: Address,
    lines: Sequence[Line],
    *,
    make_content: Callable[[str], bytes],
    duration: Callable[[float], float] = lambda seconds: seconds,
    elapsed: Callable[[], float] = time.monotonic,
    session_behind: Callable[[int, int], RecordedSession | None] = lambda port, dialled: None,
    mark_keywords: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda lines: lines,
    tolerance: float = 0.0,
) -> TalkResult:
    """Hold one session up to the first problem, close the connection, and return the exchanges.

    A server that cannot be reached is a problem, not an exception. `make_content` returns the content of the message that a
    line names, as it is sent before the final dot. `duration` converts documented seconds to seconds of the loop; `elapsed`
    returns the documented time. `session_behind` finds the session's name (`Links.session_behind`). `mark_keywords` returns
    the lines of an EHLO reply with the keywords of docs/wire-profile.md, by which scenarios ask for them.

    A line that takes `tolerance` documented seconds or less is not slow: its time is added to `TalkResult.late`, since the
    harness and not the server needed it. The time by which the `wait` of a line took too long is always added.

    A line with the keyword `where` (unless it is EHLO or LHLO itself) is left out if the last positive reply to EHLO or LHLO
    did not offer that keyword, or there was no such reply. After a line without a `code` no reply is read. After 220 to a
    line with `secure`, TLS begins.

    Raises what `make_content` raises, and OSError if this machine has run out of something.
    """
    try:
        reader, writer = await asyncio.open_connection(*address)
    except OSError as error:
        if shortage_of(error):
            raise
        return TalkResult(None, (LineExchange("", problem=f"no connection: {describe_error(error)}"),))
    port = port_of(writer.get_extra_info("sockname"))
    exchanges: list[LineExchange] = []
    offered: frozenset[str] | None = None
    loop, late = asyncio.get_running_loop(), 0.0
    try:
        for line in lines:
            greets = (line.say or "").split(" ")[0].upper() in ("EHLO", "LHLO")
            if line.where is not None and not greets and line.where not in (offered or ()):
                continue
            if line.wait is not None:
                began = loop.time()
                await asyncio.sleep(duration(line.wait))
                late += loop.time() - began - duration(line.wait)
            began = loop.time()
            octets, begun = _octets_of(line, make_content), elapsed()
            exchange, reply = await _exchange(line, octets, reader, writer, duration(REPLY_TIMEOUT))
            if greets and reply is not None and reply.positive:
                reply = replace(reply, lines=mark_keywords(reply.lines))
                offered = frozenset(text.split(" ")[0].upper() for text in reply.lines[1:])
            if reply is not None:
                exchange = replace(exchange, problem=_find_problem(line, reply, offered))
            exchanges.append(exchange if line.code is None else replace(exchange, waited=elapsed() - begun))
            took = loop.time() - began
            late += took if took <= duration(tolerance) else 0.0
            if exchanges[-1].problem:
                break
            is_ready = exchange.code == _READY_FOR_TLS
            if line.secure and is_ready and (problem := await _start_tls(reader, writer, duration(REPLY_TIMEOUT))):
                exchanges.append(LineExchange("(TLS)", problem=problem))
                break
    finally:
        writer.transport.abort()
    recorded = session_behind(port, address[1])
    late = late if late >= _RESOLUTION else 0.0
    return TalkResult(recorded.session if recorded is not None else None, tuple(exchanges), late)


async def _start_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: float) -> str:
    """Begin TLS within `limit` seconds; return why that failed, or ''. The link records nothing of what follows.

    Raises OSError if this machine has run out of something.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        if has_unread_octets(reader, writer):
            return "expected TLS, but the server sent octets behind its 220"
        async with asyncio.timeout(limit):
            await writer.start_tls(context)
    except OSError as error:
        if shortage_of(error):
            raise
        return f"expected TLS, but {describe_error(error)}"
    return ""


def unescaped(text: str) -> bytes:
    r"""Return the octets (UTF-8) of a text in which `\r \n \0 \\ \xhh` stand for octets; other backslashes stay."""
    return _ESCAPE.sub(lambda m: bytes([int(m[1], 16)]) if m[1] else _PLAIN[m[2]], text.encode())


def _octets_of(line: Line, make_content: Callable[[str], bytes]) -> bytes:
    """Return what is sent for a line: its `octets`, else its message and the final dot, else its command with CRLF, else b""."""
    if line.octets is not None:
        return unescaped(line.octets)
    if line.message is not None:
        return make_content(line.message) + b".\r\n"
    return b"" if line.say is None else line.say.encode() + b"\r\n"


async def _exchange(
    line: Line, octets: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: float
) -> tuple[LineExchange, ServerReply | None]:
    """Send a line, and wait up to `limit` seconds for the reply if one is expected.

    A line whose `code` is None expects no reply, one with `closed` permits the end of the session. Return the exchange and the
    reply; None if none was expected, or if the session was lost (then `problem` is set, unless the line expects that). A reply
    is not compared here: its exchange has no problem yet.
    """
    sent = redacted(line.say or "") or line.octets or (f"({line.message})" if line.message else "")
    try:
        if octets:
            await _write(writer, octets, limit)
        if line.code is None:
            return LineExchange(sent), None
        reply = await read_reply(reader, limit)
    except SessionLost as lost:
        expected = "closed" in _alternatives(line) and lost.ended
        problem = "" if expected else f"expected {_expected_reply(line)}, but {lost}"
        return LineExchange(sent, text=str(lost), problem=problem, closed=lost.ended), None
    return LineExchange(sent, reply.code, reply.enhanced, reply.text[:2000]), reply


async def _write(writer: asyncio.StreamWriter, octets: bytes, limit: float) -> None:
    """Send octets. Raises SessionLost, also if the server does not take them within `limit` seconds.

    Raises OSError if this machine has run out of something.
    """
    try:
        async with asyncio.timeout(limit):
            writer.write(octets)
            await writer.drain()
    except TimeoutError:
        raise SessionLost("the server takes no more octets") from None
    except OSError as error:
        if shortage_of(error):
            raise
        raise SessionLost(f"the session broke: {describe_error(error)}", ended=True) from None


def _expected_reply(line: Line) -> str:
    """Return the codes that a line expects, in words: `250 or 251`, `closed`, `nothing`."""
    return " or ".join(map(str, _alternatives(line))) or "nothing"


def _alternatives(line: Line) -> tuple[int | str, ...]:
    """Return the codes that a line expects, `closed` for the end of the session; none for no reply."""
    if isinstance(line.code, tuple):
        return line.code
    return () if line.code is None else (line.code,)


def _find_problem(line: Line, reply: ServerReply, offered: frozenset[str] | None) -> str:
    """Return how a reply differs from what its line expects, or ''; `offered` are the keywords of EHLO, None before EHLO.

    `has` and `lacks` of a line with a keyword (`where`) count only if that was offered, `enhanced` only if
    ENHANCEDSTATUSCODES was, or nothing is known of offers yet.
    """
    received = f"{reply.code} {reply.text[:200]}"
    if reply.code not in _alternatives(line):
        return f"expected {_expected_reply(line)}, but {received}"
    promised = offered is None or "ENHANCEDSTATUSCODES" in offered
    enhanced = (line.enhanced,) if isinstance(line.enhanced, str) else line.enhanced
    if enhanced is not None and promised and reply.enhanced not in enhanced:
        return f"expected enhanced status code {' or '.join(enhanced)}, but {received}"
    if line.where is not None and line.where not in (offered or ()):
        return ""
    if line.has is not None and line.has not in reply.text:
        return f"expected a reply with {line.has!r}, but {received}"
    if line.lacks is not None and line.lacks in reply.text:
        return f"expected a reply without {line.lacks!r}, but {received}"
    return ""
