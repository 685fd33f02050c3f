"""All replies of all sessions: their form, their number, their codes, enhanced status codes, and how the server leaves.

A check returns `passed` or `failed` (a MUST is violated), each with a sentence; its docstring says what must hold. It looks at
the log of all sessions (`server.log`), holds none itself, and raises NotApplicable where they gave it no occasion, which
`conformance.probe.run` makes the finding *not applicable* of.
"""

from conformance.probe.checks import Judgement, check, failed, passed
from conformance.probe.server import NotApplicable, Server
from conformance.probe.session import Reply


@check("replies-well-formed", "RFC 5321 4.2", "RL-RPL-02", last=True)
async def replies_well_formed(server: Server) -> Judgement:
    """Each line of a reply begins with its code and a space or a hyphen, ends with CRLF, and has at most 512 octets."""
    replies = _all_replies(server)
    if wrong := [reply for reply in replies if reply.malformed]:
        return failed(
            f"the reply {wrong[0]} {_describe_occasion(wrong[0])}: {wrong[0].malformed}; {len(wrong)} of {len(replies)} replies"
        )
    return passed(f"all {len(replies)} replies have the form of RFC 5321")


@check("reply-codes-in-range", "RFC 5321 4.2", last=True)
async def reply_codes_in_range(server: Server) -> Judgement:
    """The first digit of a code is 2, 3, 4 or 5."""
    replies = [reply for reply in _all_replies(server) if reply.code]
    if wrong := [reply for reply in replies if reply.code // 100 not in (2, 3, 4, 5)]:
        return failed(f"the first digit of {wrong[0]} {_describe_occasion(wrong[0])} is not 2, 3, 4 or 5")
    return passed(f"the codes of all {len(replies)} replies begin with 2, 3, 4 or 5")


@check("one-reply-for-each-command", "RFC 5321 4.2", "RL-RPL-01", last=True)
async def one_reply_for_each_command(server: Server) -> Judgement:
    """No reply comes that no command has asked for."""
    replies = _all_replies(server)
    if server.log.surplus:
        before, reply = server.log.surplus[0]
        return failed(f"behind the reply to {before!r} another one came: {reply}")
    return passed(f"{len(replies)} replies, each to one command")


@check("closes-after-221-or-421-only", "RFC 5321 4.1.1.10", last=True)
async def closes_after_221_or_421_only(server: Server) -> Judgement:
    """The server does not close the connection before QUIT, unless it says 421 or 554."""
    replies = _all_replies(server)
    if closes := server.log.unasked_closes:
        return failed(f"the server closes the connection {closes[0]} without 421; in {len(closes)} sessions")
    return passed(f"no session of {len(replies)} replies was closed by the server before QUIT or 421")


@check("closes-after-421", "RFC 5321 3.8", last=True)
async def closes_after_421(server: Server) -> Judgement:
    """After 421 the server closes the connection."""
    if not server.log.after_421:
        raise NotApplicable("no reply was 421")
    if not all(server.log.after_421):
        return failed("after 421, which announces the close, the connection stays open")
    return passed(f"the connection was closed after each of {len(server.log.after_421)} replies 421")


@check("enhanced-codes-everywhere", "RFC 2034 3", last=True)
async def enhanced_codes_everywhere(server: Server) -> Judgement:
    """Each line of each 2yz, 4yz and 5yz reply begins with an enhanced status code, but for the greeting, EHLO and HELO."""
    replies = _replies_that_need_codes(server)
    if wrong := [reply for reply in replies if None in reply.enhanced_classes]:
        return failed(
            f"ENHANCEDSTATUSCODES is offered, and {wrong[0]} {_describe_occasion(wrong[0])} has none; {len(wrong)} of {len(replies)} replies"
        )
    return passed(f"all {len(replies)} replies have an enhanced status code in each line")


@check("enhanced-codes-agree", "RFC 2034 4", last=True)
async def enhanced_codes_agree(server: Server) -> Judgement:
    """The class of an enhanced status code is the first digit of the reply's code."""
    replies = [reply for reply in _replies_that_need_codes(server) if any(reply.enhanced_classes)]
    if not replies:
        raise NotApplicable("no reply had an enhanced status code")
    if wrong := [r for r in replies if {*r.enhanced_classes} - {None} != {str(r.code)[0]}]:
        return failed(
            f"the enhanced status code of {wrong[0]} {_describe_occasion(wrong[0])} has another class than the reply"
        )
    return passed(f"the enhanced status codes of all {len(replies)} replies agree with their codes")


def _all_replies(server: Server) -> list[Reply]:
    """Return the replies of all sessions. Raises NotApplicable if there were none."""
    if not server.log.replies:
        raise NotApplicable("the server has not replied")
    return server.log.replies


def _replies_that_need_codes(server: Server) -> list[Reply]:
    """Return the replies that must have an enhanced status code: 2yz, 4yz and 5yz, after EHLO has offered ENHANCEDSTATUSCODES.

    The replies to EHLO and HELO have none (RFC 2034 4). Raises NotApplicable if there are no such replies, or it was never offered.
    """
    server.require_extension("ENHANCEDSTATUSCODES")
    replies = [
        reply
        for reply in server.log.replies
        if reply.enhanced_offered
        and reply.code // 100 in (2, 4, 5)
        and not reply.answers.upper().startswith(("EHLO", "HELO"))
    ]
    if not replies:
        raise NotApplicable("no reply was of a kind that has an enhanced status code")
    return replies


def _describe_occasion(reply: Reply) -> str:
    """Return what a reply answers, in words: `to 'NOOP'`, or `in greeting`."""
    return f"to {reply.answers!r}" if reply.answers else "in greeting"
