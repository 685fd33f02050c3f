"""The commands that every server has: their order, RSET, NOOP, VRFY, HELP, QUIT, the null reverse-path, postmaster.

`_OUT_OF_ORDER` is the code 503.

A check's docstring says what must hold. It returns `passed`, `failed` (a MUST is violated) or `warned` (a SHOULD is not
followed). `conformance.probe.run` makes findings of what it raises: NotApplicable is *not applicable*; ServerSilent,
ServerClosed and OSError are *inconclusive*; Unanswered (a command without a reply) is a *failure*. `server.session()` is a
session up to the reply to EHLO (not with `hello=None`), and ends with the block; it raises NotApplicable if the greeting or
EHLO is refused, `begin_transaction` if MAIL is.
"""

from conformance.probe.checks import Judgement, check, failed, passed, warned
from conformance.probe.server import NotApplicable, Server, begin_transaction
from conformance.probe.session import CLOSE_LIMIT

_OUT_OF_ORDER = 503


@check("rcpt-needs-mail", "RFC 5321 3.3")
async def rcpt_needs_mail(server: Server) -> Judgement:
    """RCPT without MAIL is answered 503, and a transaction can still begin.

    Not applicable where the server refuses RCPT by policy (530, 550, 554) and MAIL as well.
    """
    async with server.session() as session:
        reply = await session.command("RCPT TO:<postmaster>")
        mail = await session.command("MAIL FROM:<>")
    if reply.positive:
        return failed(f"RCPT without MAIL is accepted: {reply}")
    if mail.code == _OUT_OF_ORDER:
        return failed(f"after RCPT without MAIL ({reply}) the server answers MAIL with {mail}")
    if reply.code == _OUT_OF_ORDER:
        return passed(f"RCPT without MAIL is answered {reply}")
    if reply.code in (530, 550, 554) and not mail.positive:
        raise NotApplicable(f"the server takes no mail from here: {reply}")
    return failed(f"RCPT without MAIL is answered {reply}, not 503")


@check("data-needs-rcpt", "RFC 5321 3.3")
async def data_needs_rcpt(server: Server) -> Judgement:
    """No message is accepted in a transaction without a recipient."""
    async with server.session() as session:
        await begin_transaction(session)
        reply = await session.command("DATA")
        if reply.code != 354:
            end = None
        else:
            end = await session.command(".")
    if reply.positive or (end is not None and end.positive):
        return failed(f"DATA without a recipient is answered {reply}{f', and its final dot {end}' if end else ''}")
    return passed(f"DATA without a recipient is answered {end or reply}")


@check("second-mail", "RFC 5321 4.1.4")
async def second_mail(server: Server) -> Judgement:
    """A second MAIL that is refused leaves the transaction open; not applicable where it is accepted."""
    async with server.session() as session:
        await begin_transaction(session)
        second = await session.command("MAIL FROM:<>")
        recipient = await session.command("RCPT TO:<postmaster>")
    if second.positive:
        raise NotApplicable(f"a second MAIL in a transaction is accepted: {second}")
    if recipient.code == _OUT_OF_ORDER:
        return failed(f"a second MAIL is answered {second}, and RCPT behind it {recipient}: the transaction is gone")
    return passed(f"a second MAIL is answered {second}, and RCPT behind it {recipient}")


@check("rset-resets", "RFC 5321 4.1.1.5")
async def rset_resets(server: Server) -> Judgement:
    """RSET is answered 250 and ends the transaction."""
    async with server.session() as session:
        await begin_transaction(session)
        rset = await session.command("RSET")
        recipient = await session.command("RCPT TO:<postmaster>")
    if rset.code != 250:
        return failed(f"RSET is answered {rset}, not 250")
    if recipient.positive:
        return failed(f"RCPT behind MAIL, RSET is accepted: {recipient}")
    return passed(f"RSET is answered {rset}, and RCPT behind it {recipient}")


@check("noop-changes-nothing", "RFC 5321 4.1.1.9")
async def noop_changes_nothing(server: Server) -> Judgement:
    """NOOP is answered 250 and leaves the transaction as it was."""
    async with server.session() as session:
        await begin_transaction(session)
        noop = await session.command("NOOP")
        recipient = await session.command("RCPT TO:<postmaster>")
    if noop.code != 250:
        return failed(f"NOOP is answered {noop}, not 250")
    if recipient.code == _OUT_OF_ORDER:
        return failed(f"RCPT behind MAIL, NOOP is answered {recipient}: NOOP has ended the transaction")
    return passed(f"NOOP is answered {noop}, and RCPT behind it {recipient}")


@check("noop-ignores-its-argument", "RFC 5321 4.1.1.9")
async def noop_ignores_its_argument(server: Server) -> Judgement:
    """NOOP with an argument is answered 250."""
    async with server.session() as session:
        reply = await session.command("NOOP probe")
    sentence = f"'NOOP probe' is answered {reply}"
    return passed(sentence) if reply.code == 250 else warned(f"{sentence}; the argument should be ignored")


@check("vrfy", "RFC 5321 3.5.3")
async def vrfy(server: Server) -> Judgement:
    """VRFY is supported, if only with 252: any reply but 500 and 502 passes."""
    async with server.session() as session:
        reply = await session.command("VRFY postmaster")
    if reply.code in (500, 502):
        return failed(
            f"'VRFY postmaster' is answered {reply}: VRFY is in the minimum, and 252 is the reply of a site without it"
        )
    return passed(f"'VRFY postmaster' is answered {reply}")


@check("vrfy-verifies", "RFC 5321 3.5.3")
async def vrfy_verifies(server: Server) -> Judgement:
    """VRFY is not answered 250 for a mailbox of a reserved domain, which cannot have been verified."""
    async with server.session() as session:
        reply = await session.command("VRFY no-such-user@no-such-host.invalid")
    if reply.code in (500, 502):
        raise NotApplicable(f"VRFY is not supported: {reply}")
    if reply.code == 250:
        return failed(f"VRFY of a mailbox that cannot exist is answered {reply}")
    return passed(f"VRFY of a mailbox that cannot exist is answered {reply}")


@check("help", "RFC 5321 4.1.1.8")
async def help_command(server: Server) -> Judgement:
    """HELP without an argument is supported."""
    async with server.session() as session:
        reply = await session.command("HELP")
    if reply.positive:
        return passed(f"HELP is answered {reply}")
    return warned(f"HELP is answered {reply}; servers should support it without an argument")


@check("commands-before-ehlo", "RFC 5321 4.1.4")
async def commands_before_ehlo(server: Server) -> Judgement:
    """NOOP, RSET and VRFY are not answered 503 (out of order) before EHLO."""
    async with server.session(hello=None) as session:
        for line in ("NOOP", "RSET", "VRFY postmaster"):
            reply = await session.command(line)
            if reply.code == _OUT_OF_ORDER:
                return warned(f"{line!r} before EHLO is answered {reply}")
    return passed("NOOP, RSET and VRFY before EHLO are not answered 503")


@check("quit", "RFC 5321 4.1.1.10")
async def quit_command(server: Server) -> Judgement:
    """QUIT is answered 221, and the server closes the connection within a second: before EHLO, and within a transaction."""
    for hello in (None, "EHLO"):
        async with server.session(hello) as session:
            if hello is not None:
                await begin_transaction(session)
            place = "within a transaction" if hello else "before EHLO"
            reply = await session.command("QUIT")
            if reply.code != 221:
                return failed(f"QUIT {place} is answered {reply}, not 221")
            if not await session.server_closes_within(CLOSE_LIMIT):
                session.ended = True
                return failed(f"{CLOSE_LIMIT:g} s after {reply} to QUIT {place} the connection is still open")
    return passed(f"QUIT is answered {reply}, and the connection closed")


@check("null-reverse-path", "RFC 1123 5.2.9")
async def null_reverse_path(server: Server) -> Judgement:
    """MAIL FROM:<> is accepted; not applicable where MAIL with an address is refused too."""
    async with server.session() as session:
        null = await session.command("MAIL FROM:<>")
        if null.positive:
            return passed(f"'MAIL FROM:<>' is answered {null}")
        other = await session.command("MAIL FROM:<probe@probe.test>")
    if other.positive:
        return failed(f"'MAIL FROM:<>' is refused ({null}), and a sender with an address is not ({other})")
    raise NotApplicable(f"the server takes mail from no sender here: {null}")


@check("postmaster", "RFC 5321 4.5.1")
async def postmaster(server: Server) -> Judgement:
    """RCPT TO:<Postmaster>, without a domain, is accepted in any letter case."""
    async with server.session() as session:
        await begin_transaction(session)
        for word in ("Postmaster", "postMASTER"):
            reply = await session.command(f"RCPT TO:<{word}>")
            if reply.code // 100 == 4:
                raise NotApplicable(f"'RCPT TO:<{word}>' is refused for now: {reply}")
            if not reply.positive:
                return failed(f"'RCPT TO:<{word}>' is refused: {reply}")
    return passed(f"'RCPT TO:<Postmaster>' and 'RCPT TO:<postMASTER>' are answered {reply}")
