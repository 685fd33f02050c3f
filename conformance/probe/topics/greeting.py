"""The greeting, and the replies to EHLO and HELO.

A check returns `passed`, `failed` (a MUST is violated) or `warned` (a SHOULD is not followed), each with a sentence; its
docstring says what must hold. `conformance.probe.run` makes findings of what it raises: *not applicable* of NotApplicable (the
server gives it no occasion), *inconclusive* of ServerSilent, ServerClosed and OSError (a session cannot be opened or go on), and
a *failure* of Unanswered, which `session.command` raises for a command that has no reply. `server.session()` opens a session up
to the reply to EHLO (not with `hello=None`) and ends it with the block; it raises NotApplicable where the greeting or EHLO is
refused. `server.connection()` opens one whose greeting has not been read, and judges nothing.
"""

import re

from conformance.probe.checks import Judgement, check, failed, passed
from conformance.probe.server import NotApplicable, Server
from conformance.probe.session import EHLO_NAME

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[!-Z^-~]+\])(?= |$)")
"""Domain or address-literal of RFC 5321 4.1.2, at the beginning of a text."""
_KEYWORD_LINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*(?: [!-~]+)*")
"""ehlo-line of RFC 5321 4.1.1.1."""

_READY, _REFUSES = 220, (421, 554)


@check("greeting-code", "RFC 5321 3.1")
async def greeting_code(server: Server) -> Judgement:
    """The greeting is 220; not applicable where it is 554 or 421, from a server that takes no mail now."""
    async with server.connection() as session:
        greeting = await session.greeting()
    if greeting.code == _READY:
        return passed(f"the server greets with {greeting}")
    if greeting.code in _REFUSES:
        raise NotApplicable(f"the server takes no mail from here: {greeting}")
    return failed(f"the server greets with {greeting}, which is neither 220 nor 554 nor 421")


@check("greeting-names-the-host", "RFC 5321 4.3.1")
async def greeting_names_the_host(server: Server) -> Judgement:
    """The first word of the greeting is a domain or an address literal."""
    async with server.connection() as session:
        greeting = await session.greeting()
    if greeting.code != _READY:
        raise NotApplicable(f"the server greets with {greeting}")
    if _HOST.match(greeting.lines[0]):
        return passed(f"the first word behind the code is a host: {greeting}")
    return failed(f"the first word behind the code is not a domain or an address literal: {greeting}")


@check("ehlo-names-the-host", "RFC 5321 4.1.1.1")
async def ehlo_names_the_host(server: Server) -> Judgement:
    """The reply to EHLO is 250, and its first line begins with a domain or an address literal."""
    async with server.session(hello=None) as session:
        reply = await session.ehlo()
    if not reply.positive:
        return failed(f"EHLO {EHLO_NAME} is refused: {reply}")
    if reply.code == 250 and _HOST.match(reply.lines[0]):
        return passed(f"EHLO is answered with 250 and a host: {reply.lines[0]}")
    return failed(f"the reply to EHLO does not begin with 250 and a domain: {reply}")


@check("ehlo-keywords-well-formed", "RFC 5321 4.1.1.1")
async def ehlo_keywords_well_formed(server: Server) -> Judgement:
    """Each further line of the reply to EHLO is a keyword and its parameters, with single spaces between them."""
    async with server.session(hello=None) as session:
        reply = await session.ehlo()
    if not reply.positive or len(reply.lines) == 1:
        raise NotApplicable(f"EHLO announces no keyword: {reply}")
    if wrong := [line for line in reply.lines[1:] if not _KEYWORD_LINE.fullmatch(line)]:
        return failed(f"in the reply to EHLO {wrong[0]!r} is not a keyword with parameters")
    return passed(f"all {len(reply.lines) - 1} lines are keywords with parameters")


@check("ehlo-address-literal", "RFC 5321 4.1.3")
async def ehlo_address_literal(server: Server) -> Judgement:
    """EHLO with an address literal is not taken for a syntax error; not applicable where it is refused otherwise."""
    async with server.session(hello=None) as session:
        reply = await session.command("EHLO [127.0.0.1]")
    if reply.code in (500, 501, 502, 504):
        return failed(f"EHLO [127.0.0.1] is taken for an error of syntax: {reply}")
    if not reply.positive:
        raise NotApplicable(f"EHLO [127.0.0.1] is refused by policy: {reply}")
    return passed(f"EHLO [127.0.0.1] is answered {reply.code}")


@check("helo", "RFC 5321 3.2")
async def helo(server: Server) -> Judgement:
    """HELO is supported, and its reply has none of the keywords that EHLO announced."""
    async with server.session(hello=None) as session:
        reply = await session.ehlo("HELO")
    if not reply.positive:
        return failed(f"HELO {EHLO_NAME} is refused: {reply}")
    if len(reply.lines) > 1 and {line.partition(" ")[0].upper() for line in reply.lines[1:]} & set(server.keywords):
        return failed(f"HELO is answered in the extended style of EHLO: {reply}")
    return passed(f"HELO is answered {reply}")


@check("ehlo-again-resets", "RFC 5321 4.1.4")
async def ehlo_again_resets(server: Server) -> Judgement:
    """A second EHLO ends the transaction, as RSET does."""
    async with server.session() as session:
        if not (mail := await session.command("MAIL FROM:<>")).positive:
            raise NotApplicable(f"MAIL FROM:<> is refused: {mail}")
        if not (again := await session.ehlo()).positive:
            return failed(f"a second EHLO in the session is refused: {again}")
        recipient = await session.command("RCPT TO:<postmaster>")
    if recipient.positive:
        return failed(f"RCPT behind MAIL, EHLO is accepted: {recipient}")
    if recipient.code == 503:
        return passed(f"RCPT behind MAIL, EHLO is answered {recipient}")
    raise NotApplicable(f"RCPT behind MAIL, EHLO is refused for another reason: {recipient}")


@check("refused-ehlo-changes-nothing", "RFC 5321 4.1.4")
async def refused_ehlo_changes_nothing(server: Server) -> Judgement:
    """An EHLO that is refused leaves the transaction as it was."""
    async with server.session() as session:
        if not (mail := await session.command("MAIL FROM:<>")).positive:
            raise NotApplicable(f"MAIL FROM:<> is refused: {mail}")
        refused = await session.command("EHLO")
        if refused.positive:
            raise NotApplicable(f"EHLO without a name is accepted: {refused}")
        recipient = await session.command("RCPT TO:<postmaster>")
    if recipient.code == 503:
        return failed(f"EHLO without a name is refused ({refused}), and RCPT in the transaction then: {recipient}")
    return passed(f"EHLO without a name is refused ({refused}), and RCPT answered {recipient}")
