"""Messages to the recipient that the user permits: DATA, BDAT, the end of content, sizes; what of them reaches the sink.

A check's docstring says what must hold. It returns `passed`, `failed` (a MUST is violated) or `warned` (a SHOULD is not
followed). `conformance.probe.run` makes findings of what it raises: NotApplicable is *not applicable*; ServerSilent,
ServerClosed and OSError are *inconclusive*; Unanswered (a command without a reply) is a *failure*. `_send_message` and
`_begin_message` raise NotApplicable if a step before the content is refused, `server.require_recipient()` if the user permits
no mail. `server.accepted` has the names of acknowledged messages, which other checks look for in the sink.
`quit_and_read_replies` sends QUIT and returns all replies up to the end, that to QUIT included: more than one means that the
server took octets for another command. With `session.ended` set, no QUIT is sent at the end.
"""

from conformance.probe.checks import Judgement, check, failed, passed
from conformance.probe.server import NotApplicable, Server, add_recipient, begin_transaction
from conformance.probe.session import ProbeSession, Reply, ServerSilent
from conformance.probe.topics.limits import announced_size

_TEXT_LINE = 998
"""Octets of a line of content without its CRLF (RFC 5321 4.5.3.1.6)."""
_MIN_CONTENT = 64 * 1024
"""Octets of content that every server takes (RFC 5321 4.5.3.1.7)."""
_MAX_SENT = 16 * 1024 * 1024
"""Octets of the largest message that the probe sends."""
_ABOVE = 1.125
"""By how much a message is larger than the announced size: some servers count a line's CRLF as one octet."""


def _make_header(server: Server, subject: str) -> bytes:
    """Return the header of a message, with the empty line after it; `subject` is its name, and in its Message-ID too.

    Raises NotApplicable without a permitted recipient.
    """
    return (
        f"From: <probe@probe.test>\r\nTo: <{server.require_recipient()}>\r\nSubject: {subject}\r\n"
        f"Message-ID: <{server.mark(subject)}@probe.test>\r\n\r\n"
    ).encode()


async def _begin_message(session: ProbeSession, server: Server) -> None:
    """Send MAIL, and RCPT for the permitted recipient. Raises NotApplicable without one, or where either is refused."""
    server.require_recipient()
    await begin_transaction(session)
    await add_recipient(session, server)


async def _send_message(session: ProbeSession, server: Server, content: bytes) -> Reply:
    """Send a message by DATA and return the reply to its end; `content` is dot-stuffed and ends with CRLF.

    Raises NotApplicable if MAIL, RCPT or DATA is refused, or no recipient is permitted.
    """
    await _begin_message(session, server)
    reply = await session.command("DATA")
    if reply.code != 354:
        raise NotApplicable(f"DATA is refused: {reply}")
    await session.send(content + b".\r\n")
    return await session.reply()


@check("message-accepted", "RFC 5321 4.1.1.4")
async def message_accepted(server: Server) -> Judgement:
    """A plain message is answered 250 at its end, and a second one in the same session too.

    Adds the names of both to `server.accepted`. Not applicable where one is refused with 4yz.
    """
    server.require_recipient()
    async with server.session() as session:
        for subject in ("plain-one", "plain-two"):
            reply = await _send_message(session, server, _make_header(server, subject) + b"text\r\n")
            if reply.code // 100 == 4:
                raise NotApplicable(f"a plain message is refused for now: {reply}")
            if reply.code != 250:
                return failed(f"the end of the message {subject} is answered {reply}, not 250")
            server.accepted.add(subject)
    return passed(f"the ends of two messages in one session are answered {reply}")


@check("end-in-pieces", "RFC 5321 4.1.1.4")
async def end_in_pieces(server: Server) -> Judgement:
    """CRLF . CRLF ends the content also if each of its octets comes alone; any reply shows that it did."""
    server.require_recipient()
    async with server.session() as session:
        await _begin_message(session, server)
        if (reply := await session.command("DATA")).code != 354:
            raise NotApplicable(f"DATA is refused: {reply}")
        await session.send(_make_header(server, "end-in-pieces") + b"text", replies=0)
        for octet in (b"\r", b"\n", b".", b"\r"):
            await session.send(octet, replies=0)
            await session.pause()
        await session.send(b"\n")
        try:
            end = await session.reply()
        except ServerSilent as silent:
            session.ended = True
            return failed(f"CRLF . CRLF in single octets: {silent}")
    return passed(f"CRLF . CRLF in single octets is answered {end}")


@check("transaction-behind-the-end", "RFC 2920 3.2")
async def transaction_behind_the_end(server: Server) -> Judgement:
    """Commands in the same segment as the end of the content are all answered; their codes are not judged."""
    server.require_recipient()
    server.require_extension("PIPELINING")
    async with server.session() as session:
        await _begin_message(session, server)
        if (reply := await session.command("DATA")).code != 354:
            raise NotApplicable(f"DATA is refused: {reply}")
        await session.send(
            _make_header(server, "pipelined") + b"text\r\n.\r\nRSET\r\nMAIL FROM:<>\r\nNOOP\r\n", replies=4
        )
        try:
            replies = [await session.reply() for _ in range(4)]
        except ServerSilent as silent:
            session.ended = True
            return failed(f"RSET, MAIL and NOOP in the same segment as the final dot: {silent}")
    seen = " ".join(str(reply.code) for reply in replies)
    return passed(f"the final dot with RSET, MAIL and NOOP in the same segment is answered {seen}")


@check("text-line-of-1000-octets", "RFC 5321 4.5.3.1.6")
async def text_line_of_1000_octets(server: Server) -> Judgement:
    """A line of content of 1000 octets, its CRLF included, is accepted."""
    server.require_recipient()
    async with server.session() as session:
        reply = await _send_message(session, server, _make_header(server, "long-line") + b"x" * _TEXT_LINE + b"\r\n")
    return _judge_accepted_size(reply, "a message with a line of 1000 octets")


@check("content-of-64-k", "RFC 5321 4.5.3.1.7")
async def content_of_64_k(server: Server) -> Judgement:
    """A message of 64 KiB, less what does not fill a line, is accepted."""
    head = _make_header(server, "64k")
    lines = b"x" * 70 + b"\r\n"
    async with server.session() as session:
        reply = await _send_message(session, server, head + lines * ((_MIN_CONTENT - len(head)) // len(lines)))
    return _judge_accepted_size(reply, "a message of 64 KiB")


def _judge_accepted_size(reply: Reply, what: str) -> Judgement:
    """Return the judgement on the reply to a message that every server takes, `what` in words. Raises NotApplicable for 4yz."""
    if reply.code // 100 == 4:
        raise NotApplicable(f"{what} is refused for now: {reply}")
    return passed(f"{what} is answered {reply}") if reply.positive else failed(f"{what} is answered {reply}")


@check("size-enforced", "RFC 1870 6.3", "RL-CNT-02")
async def size_enforced(server: Server) -> Judgement:
    """A message an eighth above the announced size is refused at its end. Not applicable where that is more than 16 MiB."""
    server.require_recipient()
    limit = announced_size(server)
    size = int(limit * _ABOVE)
    if size > _MAX_SENT:
        raise NotApplicable(f"SIZE {limit} is announced, and the probe sends at most {_MAX_SENT} octets")
    line = b"x" * 70 + b"\r\n"
    async with server.session() as session:
        reply = await _send_message(session, server, _make_header(server, "too-large") + line * (size // len(line) + 1))
    if reply.refused:
        return passed(f"SIZE {limit} is announced, and a message of {size} octets answered {reply}")
    return failed(f"SIZE {limit} is announced, and a message of {size} octets answered {reply}")


@check("bdat-last", "RFC 3030 2")
async def bdat_last(server: Server) -> Judgement:
    """BDAT LAST without octets ends a message (a reply of 4yz is allowed), and a chunk after it is answered 503."""
    server.require_recipient()
    server.require_extension("CHUNKING")
    content = _make_header(server, "chunks") + b"text\r\n"
    async with server.session() as session:
        await _begin_message(session, server)
        await session.send(b"BDAT %d\r\n%s" % (len(content), content))
        chunk = await session.reply()
        end = await session.command("BDAT 0 LAST")
        await session.send(b"BDAT 6\r\nRSET\r\n")
        behind = await session.reply()
        await session.command("RSET")
    if chunk.code != 250:
        raise NotApplicable(f"a chunk is refused: {chunk}")
    if end.code // 100 == 5:
        return failed(f"a chunk is answered {chunk}, and 'BDAT 0 LAST' {end}")
    if behind.code != 503:
        return failed(f"a chunk behind BDAT LAST is answered {behind}, not 503")
    return passed(f"'BDAT 0 LAST' is answered {end}, and a chunk behind it {behind}")


BODY = b"..\r\n.\r\n.a\r\na.\r\n\r\n \r\nFrom here\r\n" + b"x" * _TEXT_LINE + b"\r\n.." + b"y" * 996 + b"\r\n.\r\n\r\n"
"""Lines that only a server which stuffs and unstuffs dots passes on as they are."""


@check("content-accepted", "RFC 5321 4.5.2")
async def content_accepted(server: Server) -> Judgement:
    """A message with dots at the beginning of lines is accepted as one: by DATA, stuffed, and by BDAT, not stuffed.

    Adds the names of the accepted ones to `server.accepted`.
    """
    server.require_recipient()
    content = _make_header(server, "dots") + BODY
    replies: dict[str, Reply] = {}
    async with server.session() as session:
        replies["dots"] = await _send_message(session, server, content.replace(b"\r\n.", b"\r\n.."))
        if "CHUNKING" in server.keywords:
            await _begin_message(session, server)
            chunk = _make_header(server, "dots-in-a-chunk") + BODY
            await session.send(b"BDAT %d LAST\r\n%s" % (len(chunk), chunk))
            replies["dots-in-a-chunk"] = await session.reply()
        behind = await session.quit_and_read_replies()
        session.ended = True
    server.accepted |= {name for name, reply in replies.items() if reply.positive}
    if len(behind) > 1:
        return failed(
            f"behind the reply to a message with dots at the beginning of lines another one comes: {behind[0]}"
        )
    for reply in replies.values():
        if not reply.positive:
            return _judge_accepted_size(reply, "a message with dots at the beginning of lines")
    return passed(f"{len(replies)} messages with dots at the beginning of lines are accepted")
