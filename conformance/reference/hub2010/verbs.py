"""The receiving end: XSHADOW, and the discard status of what was sent with it (wire-profile.md, 2010)."""

from conformance.reference.hub2010.delayed_acknowledgement import DelayedAcknowledgement
from conformance.reference.hub2010.rights import accepts_xshadow
from conformance.reference.message import Envelope
from conformance.reference.receive.acceptance import Origin
from conformance.reference.receive.verbs import NOT_OFFERED, OUT_OF_ORDER, SHADOW_ID, ShadowVerbs
from conformance.reference.replies import Reply


class HubVerbs(ShadowVerbs):
    """XSHADOW and XQDISCARD, also called XQUERYDISCARD."""

    def offered(self) -> list[str]:
        """Return the keywords for the reply to EHLO."""
        return ["XSHADOW"] if self.may_shadow else []

    @property
    def may_shadow(self) -> bool:
        """Whether the client may use the verbs here."""
        conversation = self.conversation
        return conversation.door == "transport" and accepts_xshadow(self.host.config, conversation.peer)

    async def said(self, verb: str, words: list[str]) -> list[str]:
        """Return the lines of the reply to a shadow verb."""
        match verb:
            case "XSHADOW":
                return await self.track(words)
            case "XQDISCARD" | "XQUERYDISCARD":
                return await self.query(words)
            case _:
                return [NOT_OFFERED]

    async def track(self, words: list[str]) -> list[str]:
        """The sender names itself and its queue database, and will keep what it sends as shadows (SR-E10-02)."""
        if refused := self.refusal(words, SHADOW_ID):
            return [refused]
        if self.named is not None:
            return [OUT_OF_ORDER]
        self.named = (words[0], words[1])
        self.host.manager.noticed(*self.named)
        return [f"250 2.0.0 {self.host.name} {self.host.identity.database}"]

    async def take(self, shadow_id: str, envelope: Envelope, content: bytes, origin: Origin) -> Reply:
        """Accept a message whose sender keeps the shadow."""
        assert self.named is not None
        acceptance = self.host.acceptance
        assert isinstance(acceptance, DelayedAcknowledgement)
        return await acceptance.take_tracked(envelope, content, origin, self.named[0], shadow_id)
