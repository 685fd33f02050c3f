"""Sizes that every server must take, and those that it announces: lines, paths, recipients, messages.

A check returns `passed`, `failed` (a MUST is violated) or `warned` (a SHOULD is not followed), each with a sentence; its
docstring says what must hold. `conformance.probe.run` makes findings of what it raises: *not applicable* of NotApplicable (the
server gives it no occasion), *inconclusive* of ServerSilent, ServerClosed and OSError (a session cannot be opened or go on), and
a *failure* of Unanswered, which `session.command` raises for a command that has no reply. `server.session()` opens a session up
to the reply to EHLO (not with `hello=None`) and ends it with the block; it raises NotApplicable where the greeting or EHLO is
refused, as `begin_transaction` does where MAIL is, and `add_recipient` where RCPT is.
"""

from conformance.probe.checks import Judgement, check, failed, passed, warned
from conformance.probe.server import NotApplicable, Server, add_recipient, begin_transaction

MAX_LINE, MAX_LOCAL_PART, MAX_PATH, MIN_RECIPIENTS = 512, 64, 256, 100
"""RFC 5321 4.5.3.1.4, 4.5.3.1.1, 4.5.3.1.3 and 4.5.3.1.8; a line has its CRLF, a path its brackets."""


@check("line-of-512-octets", "RFC 5321 4.5.3.1.4")
async def line_of_512_octets(server: Server) -> Judgement:
    """A command line of 512 octets is not too long."""
    async with server.session() as session:
        short = await session.command("NOOP x")
        long = await session.command("NOOP " + "x" * (MAX_LINE - len("NOOP \r\n")))
    if short.code != 250:
        raise NotApplicable(f"NOOP with an argument is refused: {short}")
    if long.code == 250:
        return passed(f"a line of {MAX_LINE} octets is answered {long}")
    return failed(f"NOOP with one letter is accepted, and as a line of {MAX_LINE} octets answered {long}")


@check("local-part-of-64-octets", "RFC 5321 4.5.3.1.1")
async def local_part_of_64_octets(server: Server) -> Judgement:
    """A local part of 64 octets is not too long."""
    return await _judge_long_sender(server, "p" * MAX_LOCAL_PART + "@probe.test", "a local part of 64 octets")


@check("path-of-256-octets", "RFC 5321 4.5.3.1.3")
async def path_of_256_octets(server: Server) -> Judgement:
    """A path of 256 octets is not too long."""
    room = MAX_PATH - len("<@>") - MAX_LOCAL_PART - len(".test")
    domain = ".".join(["d" * 60] * 3 + ["d" * (room - 3 * 61)]) + ".test"
    return await _judge_long_sender(server, "p" * MAX_LOCAL_PART + "@" + domain, "a path of 256 octets")


async def _judge_long_sender(server: Server, address: str, what: str) -> Judgement:
    """Judge that MAIL with a long reverse-path is accepted as MAIL with a short one is. Raises NotApplicable for 4yz."""
    async with server.session() as session:
        await begin_transaction(session, "probe@probe.test")
        await session.command("RSET")
        reply = await session.command(f"MAIL FROM:<{address}>")
    if reply.positive:
        return passed(f"MAIL with {what} is answered {reply}")
    if reply.code // 100 == 4:
        raise NotApplicable(f"MAIL with {what} is refused for now: {reply}")
    return failed(f"MAIL with a short address is accepted, and with {what} answered {reply}")


@check("a-hundred-recipients", "RFC 5321 4.5.3.1.8")
async def a_hundred_recipients(server: Server) -> Judgement:
    """A transaction may have 100 recipients; they have one address here."""
    recipient = server.recipient or "postmaster"
    async with server.session() as session:
        reply = await session.command("MAIL FROM:<probe@probe.test>")
        if not reply.positive:
            await begin_transaction(
                session
            )  # tries the null reverse-path, and raises NotApplicable if that is refused too
        await add_recipient(session, server)
        for number in range(2, MIN_RECIPIENTS + 1):
            reply = await session.command(f"RCPT TO:<{recipient}>")
            if not reply.positive:
                return failed(f"RCPT {number} of {MIN_RECIPIENTS} in one transaction is answered {reply}")
    return passed(f"{MIN_RECIPIENTS} times RCPT in one transaction are accepted")


@check("size-parameter", "RFC 1870 6.1")
async def size_parameter(server: Server) -> Judgement:
    """MAIL that declares a size of 1 octet is accepted, and one above the announced size refused (else a warning)."""
    limit = announced_size(server)
    async with server.session() as session:
        await begin_transaction(session)
        await session.command("RSET")
        small = await session.command("MAIL FROM:<> SIZE=1")
        await session.command("RSET")
        large = await session.command(f"MAIL FROM:<> SIZE={limit + 1}")
        await session.command("RSET")
        huge = await session.command(f"MAIL FROM:<> SIZE={'9' * 20}")
    if not small.positive:
        return failed(f"SIZE {limit} is announced, and 'MAIL FROM:<> SIZE=1' answered {small}")
    if large.positive or huge.positive:
        declared, reply = (limit + 1, large) if large.positive else ("9" * 20, huge)
        return warned(f"SIZE {limit} is announced, and 'MAIL FROM:<> SIZE={declared}' answered {reply}")
    return passed(f"SIZE {limit} is announced, and 'MAIL FROM:<> SIZE={limit + 1}' answered {large}")


def announced_size(server: Server) -> int:
    """Return the announced limit of a message's size, in octets. Raises NotApplicable if there is none."""
    words = server.require_extension("SIZE").split()
    if not words or not words[0].isdecimal() or int(words[0]) == 0:
        raise NotApplicable("SIZE is announced without a limit")
    return int(words[0])
