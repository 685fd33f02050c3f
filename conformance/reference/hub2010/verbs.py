"""The receiving end in Exchange 2010: XSHADOW, and queries for the discard status of messages sent with it (wire-profile.md, 2010).

The client keeps copies (*shadows*) of what it sends here; this server is the *primary* of those messages: it must deliver them.
With XQDISCARD the client asks which of its shadows it may give up. Methods return reply lines as text.
"""

from conformance.reference.boundary import advertises_xshadow_to
from conformance.reference.hub2010.delayed_acknowledgement import DelayedAcknowledgement
from conformance.reference.message import Envelope
from conformance.reference.receive.acceptance import MessageOrigin
from conformance.reference.receive.verbs import NOT_OFFERED, OUT_OF_ORDER, SHADOW_ID, ShadowVerbs
from conformance.reference.replies import Reply


class HubVerbs(ShadowVerbs):
    """XSHADOW and XQDISCARD, also called XQUERYDISCARD, in one session.

    `client_identity` is the pair (server, id of its queue database) that the client named with XSHADOW, None before it.
    """

    keeps_copies = False

    def ehlo_keywords(self) -> list[str]:
        """Return the keywords of the verbs that this client is offered, for the EHLO reply; XQDISCARD has none of its own."""
        return ["XSHADOW"] if self.may_use_shadow_verbs else []

    @property
    def may_use_shadow_verbs(self) -> bool:
        """Whether the client may use XSHADOW and XQDISCARD in this session: on the transport listener, with the right to (SR-E10-18)."""
        session_state = self.session_state
        return session_state.listener == "transport" and advertises_xshadow_to(self.host.config, session_state.peer)

    async def dispatch(self, verb: str, arguments: list[str]) -> list[str]:
        """Handle a shadow verb with these arguments; return the lines of the reply, 502 for a verb that 2010 does not have."""
        match verb:
            case "XSHADOW":
                return await self.handle_xshadow(arguments)
            case "XQDISCARD" | "XQUERYDISCARD":
                return await self.handle_xqdiscard(arguments)
            case _:
                return [NOT_OFFERED]

    async def handle_xshadow(self, words: list[str]) -> list[str]:
        """Handle `XSHADOW server database`: a sender names itself and its queue database, and will keep shadows (SR-E10-02).

        If this server holds shadows for the sender that came from another queue database of it, they are promoted: the sender has
        lost those messages (SR-E10-21). Return the lines of the reply, which names this server and its queue database. A second
        XSHADOW in one session is out of order (503).
        """
        if refused := self.refusal(words, SHADOW_ID):
            return [refused]
        if self.client_identity is not None:
            return [OUT_OF_ORDER]
        self.client_identity = (words[0], words[1])
        # no contact is recorded: only sessions that this server opens count (SR-E10-06)
        self.host.manager.promote_if_new_database(*self.client_identity)
        return [f"250 2.0.0 {self.host.name} {self.host.identity.database}"]

    async def accept_message(self, shadow_id: str, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Accept a message that was sent with XSHADOW=: its sender keeps the shadow, so the reply is not withheld; return the reply.

        `mail_refusal` has permitted it, so the client has said XSHADOW.
        """
        assert self.client_identity is not None
        acceptance = self.host.acceptance
        assert isinstance(acceptance, DelayedAcknowledgement)
        sender, _ = self.client_identity
        return await acceptance.accept_with_shadow(envelope, content, origin, sender, shadow_id)
