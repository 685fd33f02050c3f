"""The receiving end: XSHADOW, and the discard status of what was sent with it (wire.md, 2010)."""

from aiosmtpd.smtp import syntax

from conformance.reference.hub2010.delayed_acknowledgement import DelayedAcknowledgement
from conformance.reference.hub2010.rights import accepts_xshadow
from conformance.reference.receive.acceptance import envelope_of
from conformance.reference.receive.session import NOT_OFFERED, SHADOW_ID, Receiver
from conformance.reference.replies import Reply


class HubReceiver(Receiver):
    """A session of a 2010 hub or edge."""

    shadow_keyword = "XSHADOW"

    @property
    def _may_shadow(self) -> bool:
        return accepts_xshadow(self._host.config, self._peer)

    @syntax("XSHADOW server database")
    async def smtp_XSHADOW(self, arg: str | None) -> None:
        """The sender names itself and its queue database, and will keep what it sends as shadows (SR-E10-02)."""
        self.heard()
        refusal = self._refusal(arg, SHADOW_ID, once=True)
        if refusal is not None:
            await self.push(refusal)
            return
        assert self._peer is not None
        self._named = (self._peer.name, (arg or "").split()[1])
        self._manager.noticed(*self._named)
        await self._host.db.durable()
        await self.push(f"250 2.0.0 {self._host.config.name} {self._host.identity.database}")

    async def smtp_XSHADOWREQUEST(self, arg: str | None) -> None:
        """A verb of later servers."""
        self.heard()
        await self.push(NOT_OFFERED)

    async def smtp_XQUERYDISCARD(self, arg: str | None) -> None:
        """XQDISCARD under its other name."""
        await self.smtp_XQDISCARD(arg)

    async def _accept(self, content: bytes) -> list[Reply]:
        acceptance = self._acceptance
        if self._shadow_id is None or self._named is None or not isinstance(acceptance, DelayedAcknowledgement):
            return await super()._accept(content)
        envelope = envelope_of(str(self.envelope.mail_from), list(self._recipients), self._mail)
        return [await acceptance.take_tracked(envelope, content, *self._origin, self._named[0], self._shadow_id)]
