"""Other conforming readings of what servers say in a session: replies, keywords, limits and authentication.

A reading is a way to understand the documents that differs from the reference's own and conforms as well. A node that runs as
`reference+NAME` follows it: the methods of the class come before those of the component in its `slots`. No check of the harness may fail
it. `self.host` has the other components of the node (host.py).

The shadow verbs are XSHADOWREQUEST (2010: XSHADOW) and XQDISCARD. `refusal` returns the reply that refuses one, or None to permit it.
A *dialogue* is this server's end of a session that it opens; SessionLost means that the session has ended or failed.
"""

import re

from conformance.reference.config import Address, Listener
from conformance.reference.host import Host
from conformance.reference.queue.outbound import Outbound
from conformance.reference.readings.reading import reading
from conformance.reference.receive.session import Receiver
from conformance.reference.receive.verbs import (
    FORBIDDEN,
    MALFORMED,
    NOT_OFFERED,
    OUT_OF_ORDER,
    SHADOW_ID,
    ListenerName,
    ShadowVerbs,
)
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.send.smtp import SmtpDialogue

VERBS_SLOTS = ("verbs", "ex2010.verbs")


@reading("refuses-strangers-with-550", allowed_by="ruling 33", slots=VERBS_SLOTS)
class RefusesStrangersWith550(ShadowVerbs):
    """Answers a shadow verb of a client without the right on the transport listener with 550 5.7.1, offered or not."""

    def refusal(self, words: list[str], second_pattern: re.Pattern[str]) -> str | None:
        """Return 550 in place of "not offered" on the transport listener, and the usual refusal or None otherwise.

        `words` are the arguments of the verb, `second_pattern` is the pattern of the second one; None permits the verb.
        """
        refused = super().refusal(words, second_pattern)
        return FORBIDDEN if refused == NOT_OFFERED and self.session_state.listener == "transport" else refused


@reading("checks-arguments-first", allowed_by="ruling 33", slots=VERBS_SLOTS)
class ChecksArgumentsFirst(ShadowVerbs):
    """Answers malformed arguments with 501 also where the command is out of order."""

    def refusal(self, words: list[str], second_pattern: re.Pattern[str]) -> str | None:
        """Return 501 for a command out of order whose second argument is malformed or that has not two; else the usual refusal or None.

        `words` are the arguments of the verb, `second_pattern` is the pattern of the second one; None permits the verb.
        """
        refused = super().refusal(words, second_pattern)
        malformed = len(words) != 2 or not second_pattern.fullmatch(words[1])
        return MALFORMED if refused == OUT_OF_ORDER and malformed else refused


@reading("checks-the-order-first", allowed_by="ruling 33", slots=VERBS_SLOTS)
class ChecksTheOrderFirst(ShadowVerbs):
    """Answers a second request in one session, and one inside a transaction, with 503 whatever its arguments are."""

    def refusal(self, words: list[str], second_pattern: re.Pattern[str]) -> str | None:
        """Return 503 in place of 501 for malformed arguments of a repeated request, or of a command in a transaction.

        Otherwise the usual refusal, or None; the caller refuses a well-formed repeated request with 503. `second_pattern` is the
        pattern of the second of the arguments `words`.
        """
        refused = super().refusal(words, second_pattern)
        # a second argument of the form of an id: the request, not XQDISCARD
        repeated = second_pattern is SHADOW_ID and self.client_identity is not None
        out_of_order = repeated or self.session_state.in_transaction
        return OUT_OF_ORDER if refused == MALFORMED and out_of_order else refused


@reading("knows-no-xshadow-parameter", allowed_by="ruling 33", slots=VERBS_SLOTS)
class KnowsNoXshadowParameter(ShadowVerbs):
    """Answers XSHADOW= on MAIL, where it is not offered, with 501 5.5.4 as any parameter that it cannot read."""

    def mail_refusal(self, shadow_id: str) -> str | None:
        """Return the reply that refuses MAIL with XSHADOW=<shadow_id>, or None if it is permitted.

        Where XSHADOW= is not offered to the client that is 501 5.5.4, in place of the reference's 555.
        """
        return super().mail_refusal(shadow_id) if self.may_use_shadow_verbs else MALFORMED


@reading("holds-open-sessions-to-old-limits", allowed_by="ruling 22", slots=("receiver",))
class HoldsSessionsToOldLimits(Receiver):
    """Holds a session to the limits that were in force when it began."""

    def apply_limits(self, limits: Listener) -> None:
        """Do nothing: the time limits that a reload has changed do not apply to this session, which was open before."""


@reading("offers-auth-without-tls", allowed_by="ruling 27", slots=("receiver",))
class OffersAuthWithoutTls(Receiver):
    """Offers AUTH in every session of the transport listener, with TLS before it or without."""

    def __init__(self, host: Host, listener: ListenerName, limits: Listener, sessions: set[Receiver]) -> None:
        super().__init__(host, listener, limits, sessions)
        if listener == "transport":
            self._auth_require_tls = (
                not self.may_authenticate
            )  # of aiosmtpd: AUTH is offered and accepted before STARTTLS


@reading("leaves-without-an-enhanced-code", allowed_by="wire-profile.md: 221 may carry one or not", slots=("receiver",))
class LeavesWithoutAnEnhancedCode(Receiver):
    """Answers QUIT with 221 and no enhanced status code."""

    def _without_enhanced_code(self, text: str) -> str:
        """Return a 221 reply without its enhanced status code, any other text unchanged."""
        return re.sub(r"^221 \d\.\d\.\d+ ", "221 ", text)

    async def push(self, status: str | bytes) -> None:
        """Send a reply; send one with 221, the reply to QUIT, without an enhanced status code."""
        text = status.decode("ascii") if isinstance(status, bytes) else status
        if text.startswith("221"):
            self._in_ehlo = True  # then no enhanced code is added
            try:
                await super().push(self._without_enhanced_code(text))
            finally:
                self._in_ehlo = False
        else:
            await super().push(text)


@reading(
    "offers-in-another-order", allowed_by="RFC 5321 4.1.1.1: the order of keywords says nothing", slots=("receiver",)
)
class OffersInAnotherOrder(Receiver):
    """Lists the keywords of its EHLO reply in the reverse order."""

    def ehlo_reply(self, name: str, responses: list[str]) -> list[str]:
        """Return the reply to EHLO, a list of one text with all lines, with its keywords reversed; the first line still names the server.

        `name` is that of the client, `responses` are the lines that aiosmtpd would send.
        """
        (text,) = super().ehlo_reply(name, responses)
        # without the code and the hyphen or blank after it
        first, *keywords = [line[4:] for line in text.split("\r\n")]
        lines = [first, *reversed(keywords)]
        return ["\r\n".join([*(f"250-{line}" for line in lines[:-1]), f"250 {lines[-1]}"])]


OUTBOUND_SLOTS = ("outbound", "ex2010.outbound")


@reading("defers-mail-after-535", allowed_by="ruling 27", slots=OUTBOUND_SLOTS)
class DefersMailAfter535(Outbound):
    """Hands no mail to a next hop that refused its AUTH, and tries again later."""

    async def begin_session(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Send what precedes the first message of a session with `server`, one of the servers of a next hop. Raises SessionLost.

        If the server refused AUTH when the session was opened, send QUIT, wait for its reply, and raise SessionLost, so that the mail
        is deferred.
        """
        if isinstance(dialogue, SmtpDialogue) and dialogue.login_refused:
            await dialogue.quit()
            raise SessionLost("it refused AUTH")
        await super().begin_session(hop, server, dialogue)


@reading("authenticates-without-tls", allowed_by="ruling 27", slots=OUTBOUND_SLOTS)
class AuthenticatesWithoutTls(Outbound):
    """Says AUTH to a next hop before STARTTLS where it is offered there."""

    def new_dialogue(self, hop: NextHop, server: str, dial: Address) -> Dialogue:
        """Return a session with a server of a next hop, not connected yet, that sends AUTH without TLS where that is offered.

        A session with an LMTP server is the usual one. `dial` is the server's address.
        """
        dialogue = super().new_dialogue(hop, server, dial)
        if isinstance(dialogue, SmtpDialogue):
            dialogue.requires_tls = False
        return dialogue
