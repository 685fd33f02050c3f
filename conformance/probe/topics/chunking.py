"""BDAT (RFC 3030): a chunk is consumed also where it is refused, and all chunks of a message belong to one transaction.

`_CHUNK` is a chunk that would be two commands if the server did not consume it.

A check's docstring says what must hold. It returns `passed`, `failed` (a MUST is violated) or `warned` (a SHOULD is not
followed). `conformance.probe.run` makes findings of what it raises: NotApplicable is *not applicable*; ServerSilent,
ServerClosed and OSError are *inconclusive*; Unanswered (a command without a reply) is a *failure*. `server.session()` is a
session up to the reply to EHLO, and ends with the block; it raises NotApplicable if the greeting or EHLO is refused,
`begin_transaction` if MAIL is, `add_recipient` if RCPT is. `quit_and_read_replies` sends QUIT and returns all replies up to
the end, that to QUIT included: more than one means that the server took octets for another command. With `session.ended` set,
no QUIT is sent at the end.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from conformance.probe.checks import Judgement, check, failed, passed
from conformance.probe.server import NotApplicable, Server, add_recipient, begin_transaction
from conformance.probe.session import ProbeSession, Reply, ServerClosed

_CHUNK = b"VRFY probe\r\nXPROBE\r\n"
"""A chunk that would be two commands if the server did not consume it."""


async def _send_chunk(session: ProbeSession, octets: bytes, last: str = "") -> Reply:
    """Send one chunk by BDAT and return the reply to it; `last` is ` LAST` for the last chunk, else ''."""
    await session.send(b"BDAT %d%s\r\n%s" % (len(octets), last.encode(), octets))
    return await session.reply()


@asynccontextmanager
async def _session_with_recipient(server: Server) -> AsyncIterator[ProbeSession]:
    """Open a session with a transaction that has a recipient. Raises NotApplicable without CHUNKING, or where it is refused."""
    server.require_extension("CHUNKING")
    async with server.session() as session:
        await begin_transaction(session)
        await add_recipient(session, server)
        yield session


async def _judge_consumed(session: ProbeSession, reply: Reply, where: str) -> Judgement:
    """Judge that a BDAT was refused (`reply`) and its chunk not run as commands; ends the session. `where` completes the sentence."""
    behind = await session.quit_and_read_replies()
    session.ended = True
    if reply.positive:
        return failed(f"BDAT {where} is accepted: {reply}")
    if len(behind) > 1:
        return failed(f"BDAT {where} is refused ({reply}), and its chunk is taken for commands: {behind[0]}")
    return passed(f"BDAT {where} is refused ({reply}), and its chunk is discarded")


@check("bdat-without-transaction", "RFC 3030 2")
async def bdat_without_transaction(server: Server) -> Judgement:
    """A BDAT without MAIL is refused, and its chunk discarded."""
    server.require_extension("CHUNKING")
    async with server.session() as session:
        return await _judge_consumed(session, await _send_chunk(session, _CHUNK), "without MAIL")


@check("bdat-last-without-recipient", "RFC 3030 2")
async def bdat_last_without_recipient(server: Server) -> Judgement:
    """The chunk of a BDAT LAST in a transaction without a recipient is discarded, and the message refused."""
    server.require_extension("CHUNKING")
    async with server.session() as session:
        await begin_transaction(session)
        return await _judge_consumed(session, await _send_chunk(session, _CHUNK, " LAST"), "LAST without a recipient")


@check("bdat-malformed", "RFC 3030 2")
async def bdat_malformed(server: Server) -> Judgement:
    """BDAT without a size is refused."""
    server.require_extension("CHUNKING")
    async with server.session() as session:
        reply = await session.command("BDAT")
    if reply.refused:
        return passed(f"'BDAT' without a size is answered {reply}")
    return failed(f"'BDAT' without a size is answered {reply}")


@check("bdat-of-no-octets", "RFC 5321 4.2", "RL-RPL-01")
async def bdat_of_no_octets(server: Server) -> Judgement:
    """A chunk of no octets that is not the last has one reply (it may be refused), and RSET after it is accepted."""
    async with _session_with_recipient(server) as session:
        chunk = await _send_chunk(session, b"")
        try:
            rset = await session.command("RSET")
        except ServerClosed:
            return failed(f"'BDAT 0' is answered {chunk}, and at RSET behind it the server closes the connection")
    if not rset.positive:
        return failed(f"'BDAT 0' is answered {chunk}, and RSET behind it {rset}")
    return passed(f"'BDAT 0' is answered {chunk}, and RSET behind it {rset}")


@check("bdat-then-data", "RFC 3030 2")
async def bdat_then_data(server: Server) -> Judgement:
    """DATA after BDAT in the same transaction is answered 503."""
    async with _session_with_recipient(server) as session:
        chunk = await _send_chunk(session, b"Subject: probe\r\n\r\n")
        if not chunk.positive:
            raise NotApplicable(f"a chunk is refused: {chunk}")
        data = await session.command("DATA")
        session.ended = data.code == 354  # what is sent now would be content
        if not session.ended:
            await session.command("RSET")  # the state is indeterminate until then
    if data.code == 503:
        return passed(f"DATA after BDAT is answered {data}")
    return failed(f"DATA after BDAT in a transaction is answered {data}, not 503")


@check("bdat-and-rset", "RFC 3030 2")
async def bdat_and_rset(server: Server) -> Judgement:
    """RSET after a chunk ends the transaction: the next chunk is refused, and discarded."""
    async with _session_with_recipient(server) as session:
        chunk = await _send_chunk(session, b"Subject: probe\r\n\r\n")
        if not chunk.positive:
            raise NotApplicable(f"a chunk is refused: {chunk}")
        rset = await session.command("RSET")
        if not rset.positive:
            return failed(f"RSET after a chunk is answered {rset}")
        return await _judge_consumed(session, await _send_chunk(session, _CHUNK, " LAST"), "after RSET")
