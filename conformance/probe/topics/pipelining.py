"""Commands sent in groups (RFC 2920): all replies, in order, and none kept back.

The *group*, `_GROUP`, is eight commands that may be sent at once, with different replies.

A check's docstring says what must hold. It returns `passed`, `failed` (a MUST is violated) or `warned` (a SHOULD is not
followed). `conformance.probe.run` makes findings of what it raises: NotApplicable is *not applicable*; ServerSilent,
ServerClosed and OSError are *inconclusive*; Unanswered (a command without a reply) is a *failure*. `server.session()` is a
session up to the reply to EHLO, and ends with the block; it raises NotApplicable if the greeting or EHLO is refused,
`begin_transaction` if MAIL is. With `session.ended` set, no QUIT is sent at the end.
"""

from itertools import pairwise

from conformance.probe.checks import Judgement, check, failed, passed
from conformance.probe.server import NotApplicable, Server, begin_transaction
from conformance.probe.session import ProbeSession, Reply, ServerClosed, ServerSilent

_GROUP = ("RSET", "MAIL FROM:<>", "RCPT TO:<>", "RSET", "RCPT TO:<postmaster>", "MAIL FROM:<>", "RSET", "NOOP")
"""Commands that may be sent at once, with different replies; NOOP may only be the last (RFC 2920 3.1)."""


async def _codes_one_by_one(server: Server) -> list[int]:
    """Return the codes of the replies to the group's commands, each sent after the reply to the one before."""
    async with server.session() as session:
        return [(await session.command(line)).code for line in _GROUP]


async def _read_replies(session: ProbeSession, number: int) -> list[Reply]:
    """Return up to this number of replies: fewer if the server falls silent or closes the connection."""
    replies: list[Reply] = []
    try:
        while len(replies) < number:
            replies.append(await session.reply())
    except (ServerSilent, ServerClosed):
        pass
    return replies


async def _judge_pipelined(server: Server, pieces: list[bytes], how: str) -> Judgement:
    """Send the group in these pieces, and compare its replies with those to single commands.

    `how` says in the sentence how it was sent. Raises NotApplicable without PIPELINING.
    """
    server.require_extension("PIPELINING")
    expected = await _codes_one_by_one(server)
    async with server.session() as session:
        for number, piece in enumerate(pieces):
            if number:
                await session.pause()
            await session.send(piece, 0 if number else len(_GROUP))
        replies = await _read_replies(session, len(expected))
        if len(replies) < len(expected):
            session.ended = True
    seen = [reply.code for reply in replies]
    sentence = f"{len(_GROUP)} commands {how}: {' '.join(map(str, seen))}; one by one: {' '.join(map(str, expected))}"
    return passed(sentence) if seen == expected else failed(sentence)


@check("pipelined-group", "RFC 2920 3.2")
async def pipelined_group(server: Server) -> Judgement:
    """A group of commands in one segment has the same replies as the commands one by one."""
    return await _judge_pipelined(server, [_group_octets()], "at once")


@check("commands-in-pieces", "RFC 2920 3.2")
async def commands_in_pieces(server: Server) -> Judgement:
    """A group that arrives in pieces, cut within lines and between CR and LF, has the same replies."""
    octets = _group_octets()
    cuts = [0, 3, octets.index(b"\r\n") + 1, octets.index(b"MAIL") + 7, octets.rindex(b"\r\n") + 1, len(octets)]
    return await _judge_pipelined(server, [octets[a:b] for a, b in pairwise(cuts)], "in five pieces")


def _group_octets() -> bytes:
    """Return the lines of the group."""
    return b"".join(line.encode() + b"\r\n" for line in _GROUP)


@check("replies-not-kept-back", "RFC 2920 3.2")
async def replies_not_kept_back(server: Server) -> Judgement:
    """All replies to a group that ends with RSET are sent before another command comes.

    Raises ServerSilent (inconclusive) where replies are missing and another command brings none either.
    """
    server.require_extension("PIPELINING")
    async with server.session() as session:
        await begin_transaction(session)
        await session.command("RSET")
        await session.send(b"MAIL FROM:<>\r\nRCPT TO:<postmaster>\r\nRSET\r\n", replies=3)
        replies = await _read_replies(session, 3)
        if len(replies) < 3:
            await session.send(b"NOOP\r\n")
            late = await _read_replies(session, 4 - len(replies))  # the missing ones, and that to NOOP
            session.ended = True
            if late:
                return failed(
                    f"{len(replies)} of 3 replies came, and the next not before another command was sent: {late[0]}"
                )
            raise ServerSilent(f"{len(replies)} of 3 replies came, and none after another command")
    return passed("the replies to MAIL, RCPT, RSET come without another command behind them")


@check("refused-group-sends-nothing", "RFC 2920 3.2")
async def refused_group_sends_nothing(server: Server) -> Judgement:
    """DATA in a group in which all recipients are refused does not lead to a message."""
    server.require_extension("PIPELINING")
    async with server.session() as session:
        await session.send(b"MAIL FROM:<>\r\nRCPT TO:<>\r\nDATA\r\n", replies=3)
        mail, recipient, data = [await session.reply() for _ in range(3)]
        end = await session.command(".") if data.code == 354 else None
    if not mail.positive or recipient.positive:
        raise NotApplicable(f"MAIL is answered {mail}, RCPT TO:<> {recipient}")
    if data.positive or (end is not None and end.positive):
        return failed(f"RCPT is refused ({recipient}), and the message behind it accepted: {end or data}")
    return passed(f"RCPT is refused ({recipient}), and DATA behind it answered {end or data}")
