"""Lines and words: what ends a line, letter case, spaces, octets that are not text, commands that are unknown or malformed.

A check's docstring says what must hold. It returns `passed`, `failed` (a MUST is violated) or `warned` (a SHOULD is not
followed). `conformance.probe.run` makes findings of what it raises: NotApplicable is *not applicable*; ServerSilent,
ServerClosed and OSError are *inconclusive*; Unanswered (a command without a reply) is a *failure*. `server.session()` is a
session up to the reply to EHLO (not with `hello=None`), and ends with the block; it raises NotApplicable if the greeting or
EHLO is refused, `begin_transaction` if MAIL is. `quit_and_read_replies` sends QUIT and returns all replies up to the end, that
to QUIT included: more than one means that the server took octets for another command. With `session.ended` set, no QUIT is
sent at the end.
"""

from conformance.probe.checks import Judgement, check, failed, passed, warned
from conformance.probe.server import NotApplicable, Server, begin_transaction
from conformance.probe.session import CLOSING, Reply, ServerClosed

_UNKNOWN, _NOT_IMPLEMENTED = 500, 502


@check("verbs-in-any-case", "RFC 5321 2.4")
async def verbs_in_any_case(server: Server) -> Judgement:
    """Verbs and the words FROM and TO are recognised in any letter case."""
    async with server.session(hello=None) as session:
        for line in ("eHlO probe.test", "mAiL fRoM:<>", "rSeT", "nOoP"):
            reply = await session.command(line)
            if reply.code in (500, 501, 502):
                return failed(f"{line!r} is not recognised: {reply}")
    return passed("eHlO, mAiL fRoM:, rSeT and nOoP are recognised")


@check("lf-ends-no-line", "RFC 5321 2.3.8")
async def lf_ends_no_line(server: Server) -> Judgement:
    """A bare LF does not end a command line."""
    return await _judge_bare_line_end(server, b"\n", "LF")


@check("cr-ends-no-line", "RFC 5321 2.3.8")
async def cr_ends_no_line(server: Server) -> Judgement:
    """A bare CR does not end a command line."""
    return await _judge_bare_line_end(server, b"\r", "CR")


async def _judge_bare_line_end(server: Server, octets: bytes, name: str) -> Judgement:
    """Send two RSET with these octets between them and CRLF at the end: one line, so one reply."""
    async with server.session() as session:
        await session.send(b"RSET" + octets + b"RSET\r\n")
        first = await session.reply()
        try:
            behind = await session.quit_and_read_replies()
        finally:
            session.ended = True
    if len(behind) > 1:
        return failed(f"'RSET {name} RSET CRLF' is two lines for the server: {first}, then {behind[0]}")
    return passed(f"'RSET {name} RSET CRLF' is one line for the server: {first}")


@check("unknown-verb", "RFC 5321 4.2.4")
async def unknown_verb(server: Server) -> Judgement:
    """A verb that the server does not know is answered 500; another 5yz is a warning, any other reply a failure."""
    async with server.session() as session:
        reply = await session.command("XPROBE")
    if reply.code == _UNKNOWN:
        return passed(f"'XPROBE' is answered {reply}")
    if reply.code // 100 == 5:
        return warned(f"'XPROBE' is answered {reply}; 500 is the code for a command that is not recognised")
    return failed(f"'XPROBE', which no server knows, is answered {reply}")


@check("stays-after-unknown-verbs", "RFC 5321 3.8")
async def stays_after_unknown_verbs(server: Server) -> Judgement:
    """Two commands that the server does not know do not make it close the connection, or announce that by 421."""
    async with server.session() as session:
        try:
            replies = [await session.command(line) for line in ("XPROBE", "XPROBE again", "NOOP")]
        except ServerClosed:
            return failed("the server closes the connection after two commands that it does not know")
    if replies[-1].code == CLOSING:
        return failed(f"after two commands that it does not know the server answers NOOP with {replies[-1]}")
    return passed(f"after two commands that it does not know the server answers NOOP with {replies[-1]}")


@check("trailing-space", "RFC 5321 4.1.1")
async def trailing_space(server: Server) -> Judgement:
    """White space at the end of a line is tolerated."""
    async with server.session(hello=None) as session:
        for line in ("EHLO probe.test ", "NOOP ", "RSET ", "MAIL FROM:<> "):
            reply = await session.command(line)
            if reply.code in (500, 501, 502, 504, 555):
                return warned(f"{line!r} is refused: {reply}")
    return passed("a space behind EHLO with a name, NOOP, RSET and MAIL FROM:<> is tolerated")


@check("arguments-where-none-are", "RFC 5321 4.3.2")
async def arguments_where_none_are(server: Server) -> Judgement:
    """RSET with an argument is answered 501."""
    async with server.session() as session:
        reply = await session.command("RSET now")
    if reply.code == 501:
        return passed(f"'RSET now' is answered {reply}")
    return warned(
        f"'RSET now' is answered {reply}; a command without arguments that has one should be refused with 501"
    )


@check("malformed-mail", "RFC 5321 4.1.4")
async def malformed_mail(server: Server) -> Judgement:
    """MAIL without a path is refused, and not as out of order (503); not applicable where the server demands AUTH (530)."""
    async with server.session() as session:
        for line in ("MAIL", "MAIL FROM:"):
            reply = await session.command(line)
            if reply.code == 530:
                raise NotApplicable(f"{line!r} is refused whatever its path: {reply}")
            if not reply.refused:
                return failed(f"{line!r} has no reverse-path, and is answered {reply}")
            if reply.code == 503:
                return failed(f"{line!r} is refused as out of order behind EHLO: {reply}")
    return passed(f"'MAIL' and 'MAIL FROM:' are refused, the latter with {reply}")


@check("malformed-rcpt", "RFC 5321 4.1.1.3")
async def malformed_rcpt(server: Server) -> Judgement:
    """RCPT without a path, or with the null one, is refused."""
    async with server.session() as session:
        await begin_transaction(session)
        for line in ("RCPT TO:", "RCPT TO:<>"):
            reply = await session.command(line)
            if not reply.refused:
                return warned(f"{line!r} has no forward-path, and is answered {reply}")
    return passed(f"'RCPT TO:' and 'RCPT TO:<>' are refused, the latter with {reply}")


@check("unknown-parameter", "RFC 5321 4.1.1.11")
async def unknown_parameter(server: Server) -> Judgement:
    """A parameter of MAIL that the server does not know is refused with 555; another refusal is a warning."""
    async with server.session() as session:
        plain = await begin_transaction(session)
        await session.command("RSET")
        reply = await session.command("MAIL FROM:<> XPROBE=1")
    if reply.positive:
        return failed(f"'MAIL FROM:<> XPROBE=1' is accepted as without the parameter ({plain.code}): {reply}")
    if reply.code == 555:
        return passed(f"'MAIL FROM:<> XPROBE=1' is answered {reply}")
    return warned(
        f"'MAIL FROM:<> XPROBE=1' is answered {reply}; the code for a parameter that is not recognised is 555"
    )


@check("eight-bit-command", "RFC 5321 2.4")
async def eight_bit_command(server: Server) -> Judgement:
    """An address that is not US-ASCII is refused unless SMTPUTF8 was asked for."""
    async with server.session() as session:
        await begin_transaction(session, "probe@probe.test")
        await session.command("RSET")
        reply = await session.command(b"MAIL FROM:<pr\xf6be@probe.test>")
    if reply.refused:
        return passed(f"MAIL with an octet above 127 is answered {reply}")
    return warned(f"MAIL with an octet above 127 in the address is accepted without SMTPUTF8: {reply}")


@check("nul-in-a-command", "RFC 5321 4.2", "RL-RPL-01")
async def nul_in_a_command(server: Server) -> Judgement:
    """A line with a NUL has one reply: what is after the NUL does not become another command."""
    async with server.session() as session:
        reply = await session.command(b"MAIL FROM:<probe@probe.test>\0RSET")
        behind = await session.quit_and_read_replies()
        session.ended = True
    if len(behind) > 1:
        return failed(f"a line with a NUL has two replies: {reply}, then {behind[0]}")
    return passed(f"'MAIL FROM:<probe@probe.test> NUL RSET' has one reply: {reply}")


@check("over-long-line", "RFC 5321 4.2", "RL-RPL-01")
async def over_long_line(server: Server) -> Judgement:
    """A line above every limit has one reply, and no part of it is taken for another command.

    Not applicable where the server ends the session there, by a close or by 421.
    """
    replies: list[Reply] = []
    async with server.session() as session:
        try:
            await session.send(b"NOOP " + b"x" * 20000 + b"\r\n")
            replies.append(await session.reply())
            replies += await session.quit_and_read_replies()
        except ServerClosed as closed:
            raise NotApplicable(f"the server ends the session at a line of 20007 octets: {closed}") from None
        finally:
            session.ended = True
    if replies[0].code == CLOSING:
        raise NotApplicable(f"the server ends the session at a line of 20007 octets: {replies[0]}")
    if len(replies) > 2:  # the reply to the line, and the one to QUIT
        return failed(f"a line of 20007 octets has {len(replies) - 1} replies: {replies[0]}, then {replies[1]}")
    return passed(f"a line of 20007 octets has one reply: {replies[0]}")


@check("announced-commands-work", "RFC 5321 4.2.4")
async def announced_commands_work(server: Server) -> Judgement:
    """No command that the reply to EHLO announces is answered 500 or 502."""
    lines = {"HELP": "HELP", "VRFY": "VRFY postmaster", "EXPN": "EXPN postmaster", "ETRN": "ETRN probe.test"}
    if not (announced := [verb for verb in lines if verb in server.keywords]):
        raise NotApplicable("EHLO announces none of HELP, VRFY, EXPN and ETRN")
    async with server.session() as session:
        for verb in announced:
            reply = await session.command(lines[verb])
            if reply.code in (_UNKNOWN, _NOT_IMPLEMENTED):
                return failed(f"EHLO announces {verb}, and {lines[verb]!r} is answered {reply}")
    return passed(f"announced and recognised: {', '.join(announced)}")
