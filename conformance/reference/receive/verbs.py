"""The shadow verbs of Exchange 2013 and later in one session, the server's side (wire-profile.md)."""

import re
from typing import Literal

from conformance.reference.config import Peer
from conformance.reference.host import Host
from conformance.reference.message import Envelope
from conformance.reference.receive.acceptance import Origin
from conformance.reference.replies import Reply
from conformance.reference.storage.discards import DiscardEvent

Door = Literal["frontend", "transport", "delivery"]

NOT_OFFERED = "502 5.5.1 command not offered"
NO_SUCH_PARAMETER = "555 5.5.4 XSHADOW is not offered"
MALFORMED = "501 5.5.4 malformed arguments"
OUT_OF_ORDER = "503 5.5.1 out of order"
FORBIDDEN = "550 5.7.1 not allowed"

SHADOW_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
MOST = re.compile(r"[1-9][0-9]{0,5}")
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?")


class Conversation:
    """What the verbs need to know of the session that they are said in; the session keeps it up to date."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.greeted = False
        self.peer: Peer | None = None
        self.in_transaction = False


class ShadowVerbs:
    """XSHADOWREQUEST and XQDISCARD; one object for each session."""

    def __init__(self, host: Host, conversation: Conversation) -> None:
        self.host = host
        self.conversation = conversation
        self.named: tuple[str, str] | None = None
        self.telling: list[DiscardEvent] = []

    def offered(self) -> list[str]:
        """Return the keywords for the reply to EHLO."""
        return ["XSHADOWREQUEST"] if self.may_shadow else []

    @property
    def may_shadow(self) -> bool:
        """Whether the client may use the verbs here."""
        conversation = self.conversation
        return conversation.door == "transport" and self.host.rights.may_shadow(conversation.peer)

    async def said(self, verb: str, words: list[str]) -> list[str]:
        """Return the lines of the reply to a shadow verb."""
        match verb:
            case "XSHADOWREQUEST":
                return await self.request(words)
            case "XQDISCARD":
                return await self.query(words)
            case _:
                return [NOT_OFFERED]

    async def request(self, words: list[str]) -> list[str]:
        """The primary names itself and its queue database; we answer with ours."""
        if refused := self.refusal(words, SHADOW_ID):
            return [refused]
        if self.named is not None:
            return [OUT_OF_ORDER]
        self.named = (words[0], words[1])
        self.host.manager.saw_database(*self.named)
        return [f"250 2.0.0 {self.host.name} {self.host.identity.database}"]

    async def query(self, words: list[str]) -> list[str]:
        """A shadow server asks which shadows it may let go of (SR-MNT-04, SR-WIR-04)."""
        if refused := self.refusal(words, MOST):
            return [refused]
        self.host.manager.asked_by(words[0])
        lines, self.telling = await self.host.discard_status.answer(words[0], int(words[1]))
        return lines

    def refusal(self, words: list[str], second: re.Pattern[str]) -> str | None:
        """Return why a verb with the arguments `<server> <second>` is refused, or None; the server's name is then
        spelled as we know it."""
        conversation = self.conversation
        if conversation.door == "transport" and not conversation.greeted:
            return OUT_OF_ORDER
        peer = conversation.peer
        if not self.may_shadow or peer is None:
            lacking = conversation.door == "transport" and self.host.rights.lacks_the_right(peer)
            return FORBIDDEN if lacking else NOT_OFFERED
        if len(words) != 2 or not NAME.fullmatch(words[0]) or not second.fullmatch(words[1]):
            return MALFORMED
        if conversation.in_transaction:
            return OUT_OF_ORDER
        if words[0].casefold() != peer.name.casefold():
            return FORBIDDEN
        words[0] = peer.name
        return None

    def mail(self, shadow_id: str) -> str | None:
        """Return why MAIL with XSHADOW=<shadow_id> is refused, or None."""
        if not self.may_shadow:
            return NO_SUCH_PARAMETER
        if self.named is None:
            return OUT_OF_ORDER
        return None if SHADOW_ID.fullmatch(shadow_id) else MALFORMED

    async def take(self, shadow_id: str, envelope: Envelope, content: bytes, origin: Origin) -> Reply:
        """Decide about a message that came with XSHADOW=: here it is a shadow to be kept."""
        assert self.named is not None
        return await self.host.keeping.keep(envelope, content, *self.named, shadow_id)

    def heard(self) -> None:
        """The client said something more: it has read the last reply, so what that told has been told (SR-WIR-05)."""
        if self.telling:
            self.host.discard_status.told(self.telling)
            self.telling = []

    def lost(self) -> None:
        """The session has ended: what was not heard is told again."""
        self.host.discard_status.untold(self.telling)
        self.telling = []
