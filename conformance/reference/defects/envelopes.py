"""Defects in the parameters of MAIL and RCPT: what a server forgets of an envelope, or makes up.

NOTIFY, ORCPT (original recipient), RET and ENVID are the parameters of delivery status notifications (RFC 3461). A shadow copy is
a message that another server keeps for its primary server; promoted, it is delivered by the server that kept it.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from collections.abc import Sequence
from dataclasses import replace

from conformance.reference.config import Peer
from conformance.reference.defects.defect import defect
from conformance.reference.hub2010.outbound import HubOutbound
from conformance.reference.message import Envelope, Message, Recipient
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.queue.outbound import Outbound
from conformance.reference.replies import Reply
from conformance.reference.safety_net import SafetyNet
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.shadow.creation import ShadowCreation
from conformance.reference.shadow.shadow_queues import ShadowKeeping

Replies = dict[Recipient, Reply]


@defect("shadows-without-notify", breaks="SR-CRE-06", slot="creation")
class ShadowsWithoutNotify(ShadowCreation):
    """Sends shadow copies without the NOTIFY of their recipients."""

    async def transmit_shadow(self, peer: Peer, message: Message, content: bytes, dialogue: Dialogue) -> None:
        """Send the shadow copy to a server without the NOTIFY of its recipients. Raises SessionLost if it is not stored."""
        recipients = tuple(replace(one, notify="") for one in message.envelope.recipients)
        stripped = replace(message, envelope=message.envelope.for_recipients(recipients))
        await super().transmit_shadow(peer, stripped, content, dialogue)


@defect("shadows-without-ret", breaks="SR-CRE-06", slot="creation")
class ShadowsWithoutRet(ShadowCreation):
    """Sends shadow copies without RET."""

    async def transmit_shadow(self, peer: Peer, message: Message, content: bytes, dialogue: Dialogue) -> None:
        """Send the shadow copy to a server without RET. Raises SessionLost if it is not stored."""
        stripped = replace(message, envelope=replace(message.envelope, ret=""))
        await super().transmit_shadow(peer, stripped, content, dialogue)


@defect("keeps-shadows-without-their-envelope-id", breaks="SR-CRE-06", slot="keeping")
class KeepsShadowsWithoutEnvelopeId(ShadowKeeping):
    """Stores shadow copies without ENVID, so that a promoted one has none."""

    def store(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> None:
        """Store a shadow copy without ENVID; `database` is the queue database of its `primary`, `shadow_id` its id there."""
        super().store(replace(envelope, envid=""), content, primary, database, shadow_id)


@defect("keeps-shadows-for-other-original-recipients", breaks="SR-CRE-06", slot="keeping")
class KeepsShadowsForOtherOriginalRecipients(ShadowKeeping):
    """Stores the present address of each recipient of a copy as its ORCPT."""

    def store(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> None:
        """Store a shadow copy in which the ORCPT of each recipient is its present address, whatever it came with.

        `database` is the queue database of its `primary`, `shadow_id` its id there.
        """
        recipients = tuple(replace(one, orcpt=f"rfc822;{one.address}") for one in envelope.recipients)
        super().store(envelope.for_recipients(recipients), content, primary, database, shadow_id)


@defect("shadows-without-smtputf8", breaks="SR-CRE-06", slot="creation")
class ShadowsWithoutSmtpUtf8(ShadowCreation):
    """Sends shadow copies without SMTPUTF8 if their addresses are ASCII."""

    async def transmit_shadow(self, peer: Peer, message: Message, content: bytes, dialogue: Dialogue) -> None:
        """Send the shadow copy to a server without SMTPUTF8 if all its addresses are ASCII: others could not be sent without it.

        Raises SessionLost if the copy is not stored.
        """
        envelope = message.envelope
        addresses = (envelope.reverse_path, *(one.address for one in envelope.recipients))
        stripped = replace(envelope, smtputf8=envelope.smtputf8 and not all(map(str.isascii, addresses)))
        await super().transmit_shadow(peer, replace(message, envelope=stripped), content, dialogue)


@defect("keeps-shadows-without-smtputf8", breaks="SR-CRE-06", slot="keeping")
class KeepsShadowsWithoutSmtpUtf8(ShadowKeeping):
    """Stores shadow copies without SMTPUTF8, so that a promoted one has none."""

    def store(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> None:
        """Store a shadow copy without SMTPUTF8; `database` is the queue database of its `primary`, `shadow_id` its id there."""
        super().store(replace(envelope, smtputf8=False), content, primary, database, shadow_id)


class AltersEnvelopes(Outbound):
    """Base class of defects that pass mail on under another envelope than they received."""

    def altered_envelope(self, envelope: Envelope) -> Envelope:
        """Return the envelope that is sent in place of a received one, with as many recipients in the same order.

        Subclasses implement it; here it raises NotImplementedError.
        """
        raise NotImplementedError

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> Replies:
        """Send a message to a next hop under an altered envelope; return its replies by the recipients of the attempt.

        `altered_envelope` returns as many recipients in the same order. Raises SessionLost, whose `refused` has recipients of the
        attempt too.
        """
        envelope = self.altered_envelope(attempt.message.envelope.for_recipients(attempt.remaining))
        pairs = tuple(zip(attempt.remaining, envelope.recipients, strict=True))
        content = self.host.messages.content(attempt.message.id)
        try:
            replies = await dialogue.transmit(envelope, content, self.extra_mail_parameters(attempt, server, dialogue))
        except SessionLost as lost:
            lost.refused = {right: lost.refused[sent] for right, sent in pairs if sent in lost.refused}
            raise
        return {right: replies[sent] for right, sent in pairs}


@defect("forwards-without-the-original-recipient", breaks="RL-DSN-03", slot="outbound")
class ForwardsWithoutOriginalRecipient(AltersEnvelopes):
    """Passes mail on without ORCPT."""

    def altered_envelope(self, envelope: Envelope) -> Envelope:
        """Return the envelope that is sent to the next hop: the received one without the ORCPT of its recipients."""
        return envelope.for_recipients(tuple(replace(one, orcpt="") for one in envelope.recipients))


@defect("forwards-eight-bits-as-seven", breaks="RL-CNT-01", slot="outbound")
class ForwardsEightBitsAsSeven(AltersEnvelopes):
    """Passes mail with 8-bit content on without BODY=8BITMIME."""

    def altered_envelope(self, envelope: Envelope) -> Envelope:
        """Return the envelope that is sent to the next hop: the received one without BODY=8BITMIME."""
        return replace(envelope, body="")


@defect("hub-asks-for-whole-reports", breaks="RL-DSN-03", slot="ex2010.outbound")
class HubAsksForWholeReports(HubOutbound):
    """Passes mail on with RET=FULL, whatever the sender asked for."""

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> Replies:
        """Send the message to a next hop with RET=FULL, which asks for the whole message in reports; return the replies by recipient."""
        envelope = replace(attempt.message.envelope, ret="FULL")
        return await super().transmit(
            replace(attempt, message=replace(attempt.message, envelope=envelope)), server, dialogue
        )


@defect("resubmits-without-notify", breaks="SR-SFN-05", slot="safety_net")
class ResubmitsWithoutNotify(SafetyNet):
    """Sends messages from Safety Net again without the NOTIFY of their recipients."""

    def recipients_to_resubmit(self, message: Message, addresses: Sequence[str]) -> tuple[Recipient, ...]:
        """Return the correct recipients of a held message, among `addresses` and in the boundary, but without NOTIFY."""
        return tuple(replace(one, notify="") for one in super().recipients_to_resubmit(message, addresses))
