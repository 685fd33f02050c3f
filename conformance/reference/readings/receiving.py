"""Readings of what is said in a session by the server."""

import re

from conformance.reference.config import Listener
from conformance.reference.host import Host
from conformance.reference.readings.reading import reading
from conformance.reference.receive.session import Receiver
from conformance.reference.receive.verbs import (
    FORBIDDEN,
    MALFORMED,
    NOT_OFFERED,
    OUT_OF_ORDER,
    ListenerName,
    ShadowVerbs,
)

EVERYWHERE = ("verbs", "ex2010.verbs")


@reading("refuses-strangers-with-550", allowed_by="ruling 33", parts=EVERYWHERE)
class RefusesStrangersWith550(ShadowVerbs):
    """Answers a shadow verb of a client without the right on the transport listener with 550 5.7.1, offered or not."""

    def refusal(self, words: list[str], second: re.Pattern[str]) -> str | None:
        """Say that it is not allowed, instead of not offered."""
        refused = super().refusal(words, second)
        return FORBIDDEN if refused == NOT_OFFERED and self.session_state.listener == "transport" else refused


@reading("checks-arguments-first", allowed_by="ruling 33", parts=EVERYWHERE)
class ChecksArgumentsFirst(ShadowVerbs):
    """Answers malformed arguments with 501 also where the command is out of order."""

    def refusal(self, words: list[str], second: re.Pattern[str]) -> str | None:
        """Look at the arguments before the order."""
        refused = super().refusal(words, second)
        malformed = len(words) != 2 or not second.fullmatch(words[1])
        return MALFORMED if refused == OUT_OF_ORDER and malformed else refused


@reading("checks-the-order-first", allowed_by="ruling 33", parts=EVERYWHERE)
class ChecksTheOrderFirst(ShadowVerbs):
    """Answers a second request in one session, and one inside a transaction, with 503 whatever its arguments are."""

    def refusal(self, words: list[str], second: re.Pattern[str]) -> str | None:
        """Look at the order before the arguments."""
        refused = super().refusal(words, second)
        late = self.session_state.in_transaction
        return OUT_OF_ORDER if refused == MALFORMED and late else refused


@reading("knows-no-xshadow-parameter", allowed_by="ruling 33", parts=EVERYWHERE)
class KnowsNoXshadowParameter(ShadowVerbs):
    """Answers XSHADOW= on MAIL, where it is not offered, with 501 5.5.4 as any parameter that it cannot read."""

    def mail_refusal(self, shadow_id: str) -> str | None:
        """Refuse the arguments."""
        return super().mail_refusal(shadow_id) if self.may_shadow else MALFORMED


@reading("holds-open-sessions-to-old-limits", allowed_by="ruling 22", parts=("receiver",))
class KeepsOldLimits(Receiver):
    """Holds a session to the limits that were in force when it began."""

    def apply_limits(self, limits: Listener) -> None:
        """Change nothing."""


@reading("offers-auth-without-tls", allowed_by="ruling 27", parts=("receiver",))
class OffersAuthWithoutTls(Receiver):
    """Offers AUTH in every session of the transport listener, with TLS before it or without."""

    def __init__(self, host: Host, door: ListenerName, limits: Listener, sessions: set[Receiver]) -> None:
        super().__init__(host, door, limits, sessions)
        self._auth_require_tls = False

    def auth_keywords(self) -> list[str]:
        """Return the line of EHLO about AUTH, without regard to TLS."""
        return ["AUTH PLAIN"] if self.may_authenticate else []


@reading("leaves-without-an-enhanced-code", allowed_by="wire-profile.md: 221 may carry one or not", parts=("receiver",))
class LeavesWithoutAnEnhancedCode(Receiver):
    """Answers QUIT with 221 and no enhanced status code."""

    def _say_plainly(self, text: str) -> str:
        return re.sub(r"^221 \d\.\d\.\d+ ", "221 ", text)

    async def push(self, status: str | bytes) -> None:
        """Send a reply line; what ends the session has no enhanced status code."""
        text = status.decode("ascii") if isinstance(status, bytes) else status
        if text.startswith("221"):
            self._in_ehlo = True
            try:
                await super().push(self._say_plainly(text))
            finally:
                self._in_ehlo = False
        else:
            await super().push(text)


@reading(
    "offers-in-another-order", allowed_by="RFC 5321 4.1.1.1: the order of keywords says nothing", parts=("receiver",)
)
class OffersInAnotherOrder(Receiver):
    """Lists the keywords of its EHLO reply in the reverse order."""

    def ehlo_reply(self, name: str, responses: list[str]) -> list[str]:
        """Turn the keywords round; the first line names the server."""
        (text,) = super().ehlo_reply(name, responses)
        first, *keywords = [line[4:] for line in text.split("\r\n")]
        lines = [first, *reversed(keywords)]
        return ["\r\n".join([*(f"250-{line}" for line in lines[:-1]), f"250 {lines[-1]}"])]
