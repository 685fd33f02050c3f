"""STARTTLS (RFC 3207): what the server knew before TLS is forgotten, and nothing is injected into the secured session.

A check's docstring says what must hold. It returns `passed`, `failed` (a MUST is violated) or `warned` (a SHOULD is not
followed). `conformance.probe.run` makes findings of what it raises: NotApplicable is *not applicable*; ServerSilent,
ServerClosed and OSError are *inconclusive*; Unanswered (a command without a reply) is a *failure*. `server.session()` is a
session up to the reply to EHLO, and ends with the block; it raises NotApplicable if the greeting or EHLO is refused,
`begin_transaction` if MAIL is. `quit_and_read_replies` sends QUIT and returns all replies up to the end, that to QUIT
included: more than one means that the server took octets for another command.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from conformance.probe.checks import Judgement, check, failed, passed
from conformance.probe.server import NotApplicable, Server, begin_transaction, unverified_context
from conformance.probe.session import ProbeSession, ServerClosed


@asynccontextmanager
async def _secured_session(server: Server, before: tuple[str, ...] = ()) -> AsyncIterator[ProbeSession]:
    """Open a session, send the commands `before`, then STARTTLS, and begin TLS; EHLO is not sent again.

    Raises NotApplicable where STARTTLS is not offered or answered 4yz, `_Refused` (a NotApplicable) for any other reply than 220,
    ServerClosed where TLS does not begin.
    """
    server.require_extension("STARTTLS")
    async with server.session() as session:
        for line in before:
            await session.command(line)
        reply = await session.command("STARTTLS")
        if reply.code // 100 == 4:
            raise NotApplicable(f"STARTTLS is not available for now: {reply}")
        if reply.code != 220:
            raise _Refused(f"STARTTLS is offered, and answered {reply}")
        await session.start_tls(unverified_context())
        yield session


class _Refused(NotApplicable):
    """The server offers STARTTLS and refuses it; the check `starttls` says so as a failure."""


@check("starttls", "RFC 3207 4")
async def starttls(server: Server) -> Judgement:
    """STARTTLS that is offered is answered 220, TLS begins, and EHLO is answered again."""
    try:
        async with _secured_session(server) as session:
            reply = await session.ehlo()
    except _Refused as refused:
        return failed(str(refused))
    except ServerClosed as closed:
        return failed(f"STARTTLS is offered and answered 220: {closed}")
    return (
        passed(f"EHLO in the secured session is answered {reply}")
        if reply.positive
        else failed(f"EHLO in the secured session is answered {reply}")
    )


@check("starttls-not-offered-twice", "RFC 3207 4.2")
async def starttls_not_offered_twice(server: Server) -> Judgement:
    """STARTTLS is not offered within TLS."""
    async with _secured_session(server) as session:
        await session.ehlo()
        offered = "STARTTLS" in session.keywords
    return (
        failed("EHLO in the secured session offers STARTTLS")
        if offered
        else passed("EHLO in the secured session does not offer STARTTLS")
    )


@check("starttls-forgets", "RFC 3207 4.2")
async def starttls_forgets(server: Server) -> Judgement:
    """A transaction that began before TLS is gone afterwards."""
    async with server.session() as session:
        await begin_transaction(session)
    async with _secured_session(server, ("MAIL FROM:<>",)) as session:
        reply = await session.command("RCPT TO:<postmaster>")
    if reply.positive:
        return failed(f"MAIL is sent before STARTTLS, and RCPT in the secured session is accepted: {reply}")
    return passed(f"MAIL is sent before STARTTLS, and RCPT in the secured session is answered {reply}")


@check("starttls-injection", "RFC 3207 4.2")
async def starttls_injection(server: Server) -> Judgement:
    """A command that arrives in plaintext after STARTTLS is not executed in the secured session (CVE-2011-0411)."""
    server.require_extension("STARTTLS")
    async with server.session() as session:
        await session.send(b"STARTTLS\r\nRSET\r\n")
        reply = await session.reply()
        if reply.code != 220:
            return passed(f"STARTTLS with a command behind it in the same segment is answered {reply}")
        try:
            await session.start_tls(unverified_context())
            first = await session.ehlo()
            behind = await session.quit_and_read_replies()
        except ServerClosed as closed:
            session.ended = True
            return passed(f"STARTTLS with a command behind it in the same segment: {closed}")
        session.ended = True
    if len(behind) > 1:
        return failed(f"RSET was sent in plaintext behind STARTTLS, and answered in the secured session: {first}")
    return passed(f"RSET in plaintext behind STARTTLS has no reply in the secured session; EHLO there: {first}")


@check("starttls-has-no-argument", "RFC 3207 4")
async def starttls_has_no_argument(server: Server) -> Judgement:
    """STARTTLS with an argument is answered 501."""
    server.require_extension("STARTTLS")
    async with server.session() as session:
        reply = await session.command("STARTTLS now")
        session.ended = reply.code == 220  # the server awaits TLS
    if reply.code == 501:
        return passed(f"'STARTTLS now' is answered {reply}")
    return failed(f"'STARTTLS now' is answered {reply}, not 501")
