"""Readings of how a server proves to another one who it is, and what follows when that fails."""

from conformance.reference.config import Address
from conformance.reference.queue.outbound import Outbound
from conformance.reference.readings.reading import reading
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.send.smtp import SmtpDialogue

WAYS_OUT = ("outbound", "ex2010.outbound")


@reading("defers-mail-after-535", allowed_by="ruling 27", parts=WAYS_OUT)
class DefersMailAfter535(Outbound):
    """Hands no mail to a next hop that refused its AUTH, and tries again later."""

    async def begin_session(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Leave a server that does not take our secret. Raises SessionLost."""
        if isinstance(dialogue, SmtpDialogue) and dialogue.login_refused:
            await dialogue.quit()
            raise SessionLost("it refused AUTH")
        await super().begin_session(hop, server, dialogue)


@reading("authenticates-without-tls", allowed_by="ruling 27", parts=WAYS_OUT)
class AuthenticatesWithoutTls(Outbound):
    """Says AUTH to a next hop before STARTTLS where it is offered there."""

    def new_dialogue(self, hop: NextHop, server: str, dial: Address) -> Dialogue:
        """Return a session that does not wait for TLS."""
        dialogue = super().new_dialogue(hop, server, dial)
        if isinstance(dialogue, SmtpDialogue):
            dialogue.requires_tls = False
        return dialogue
