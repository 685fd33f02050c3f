"""Extensions that the reply to EHLO announces: their parameters are accepted, wrong values of them are not; AUTH.

A check's docstring says what must hold. It returns `passed`, `failed` (a MUST is violated) or `warned` (a SHOULD is not
followed). `conformance.probe.run` makes findings of what it raises: NotApplicable is *not applicable*; ServerSilent,
ServerClosed and OSError are *inconclusive*; Unanswered (a command without a reply) is a *failure*. `server.session()` is a
session up to the reply to EHLO, and ends with the block; it raises NotApplicable if the greeting or EHLO is refused,
`begin_transaction` if MAIL is, `server.require_extension` if the keyword is not offered.
"""

from conformance.probe.checks import Judgement, check, failed, passed, warned
from conformance.probe.server import NotApplicable, Server, begin_transaction

_SYNTAX = (500, 501, 502, 504, 555)


async def _judge_parameter(server: Server, keyword: str, good: str, bad: str | None = None) -> Judgement:
    """Judge the command MAIL with a parameter of an extension (`good`), and with an undefined value of it (`bad`; None: not sent).

    A syntax error (500, 501, 502, 504, 555) for the first is a failure, another refusal is none; acceptance of the second is a
    warning. Raises NotApplicable without the extension's EHLO keyword (`keyword`).
    """
    server.require_extension(keyword)
    async with server.session() as session:
        await begin_transaction(session)
        await session.command("RSET")
        accepted = await session.command(good)
        await session.command("RSET")
        refused = await session.command(bad) if bad is not None else None
    if accepted.code in _SYNTAX:
        return failed(f"{keyword} is offered, and {good!r} answered {accepted}")
    if refused is not None and refused.positive:
        return warned(f"{keyword} is offered, and {bad!r}, which it does not define, answered {refused}")
    return passed(f"{good!r} is answered {accepted}" + (f", {bad!r} {refused}" if refused is not None else ""))


@check("8bitmime", "RFC 6152 3")
async def eight_bit_mime(server: Server) -> Judgement:
    """A server that offers 8BITMIME does not take BODY=8BITMIME for a syntax error, and refuses an undefined value."""
    return await _judge_parameter(server, "8BITMIME", "MAIL FROM:<> BODY=8BITMIME", "MAIL FROM:<> BODY=9BITPROBE")


@check("smtputf8", "RFC 6531 3.4")
async def smtputf8(server: Server) -> Judgement:
    """A server that offers SMTPUTF8 does not take this parameter, with an address that is not US-ASCII, for a syntax error."""
    return await _judge_parameter(server, "SMTPUTF8", "MAIL FROM:<pröbe@probe.test> SMTPUTF8")


@check("smtputf8-needs-8bitmime", "RFC 6531 3.1")
async def smtputf8_needs_8bitmime(server: Server) -> Judgement:
    """A server that offers SMTPUTF8 offers 8BITMIME."""
    server.require_extension("SMTPUTF8")
    if "8BITMIME" in server.keywords:
        return passed("SMTPUTF8 and 8BITMIME are offered")
    return failed("SMTPUTF8 is offered without 8BITMIME")


@check("dsn", "RFC 3461 5.1")
async def dsn(server: Server) -> Judgement:
    """A server that offers DSN accepts RET and ENVID, and answers RET twice with 501."""
    server.require_extension("DSN")
    async with server.session() as session:
        await begin_transaction(session)
        await session.command("RSET")
        once = await session.command("MAIL FROM:<> RET=HDRS ENVID=probe")
        await session.command("RSET")
        twice = await session.command("MAIL FROM:<> RET=HDRS RET=HDRS")
    if not once.positive:
        return failed(f"DSN is offered, 'MAIL FROM:<>' accepted, and with RET=HDRS ENVID=probe answered {once}")
    if twice.code != 501:
        return failed(f"'MAIL FROM:<> RET=HDRS RET=HDRS' is answered {twice}, not 501")
    return passed(f"RET and ENVID are accepted, and RET twice is answered {twice}")


@check("binarymime-needs-chunking", "RFC 3030 3")
async def binarymime_needs_chunking(server: Server) -> Judgement:
    """A server that offers BINARYMIME offers CHUNKING."""
    server.require_extension("BINARYMIME")
    if "CHUNKING" in server.keywords:
        return passed("BINARYMIME and CHUNKING are offered")
    return failed("BINARYMIME is offered without CHUNKING")


@check("auth-unknown-mechanism", "RFC 4954 4")
async def auth_unknown_mechanism(server: Server) -> Judgement:
    """AUTH with a mechanism that the server does not know is answered 504; another refusal is a warning."""
    server.require_extension("AUTH")
    async with server.session() as session:
        reply = await session.command("AUTH XPROBE")
    if reply.positive or reply.code == 334:
        return failed(f"'AUTH XPROBE' is answered {reply}")
    if reply.code == 504:
        return passed(f"'AUTH XPROBE' is answered {reply}")
    return warned(f"'AUTH XPROBE' is answered {reply}; the code for a mechanism that is not supported is 504")


@check("auth-cancelled", "RFC 4954 4")
async def auth_cancelled(server: Server) -> Judgement:
    """An exchange of AUTH that the client cancels with `*` is answered 501; tried with PLAIN, else LOGIN."""
    mechanism = next(
        (name for name in ("PLAIN", "LOGIN") if name in server.require_extension("AUTH").upper().split()), None
    )
    if mechanism is None:
        raise NotApplicable("AUTH offers neither PLAIN nor LOGIN")
    async with server.session() as session:
        challenge = await session.command(f"AUTH {mechanism}")
        if challenge.code != 334:
            raise NotApplicable(f"'AUTH {mechanism}' is answered {challenge}")
        reply = await session.command("*")
    if reply.code == 501:
        return passed(f"'*' behind 'AUTH {mechanism}' is answered {reply}")
    return failed(f"'*', which cancels 'AUTH {mechanism}', is answered {reply}, not 501")
