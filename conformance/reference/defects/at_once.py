"""Defects that show where several sessions do the same at the same time.

`make_redundant_or_refuse` tries to have a copy (shadow) of a message stored on another server before the message is acknowledged.
A 2010 server withholds the reply to a message until its delivery instead, for MaxAcknowledgementDelay at most. `deadline` is the
event loop's time by which the sender must have its reply.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

import asyncio

from conformance.reference.defects.defect import defect
from conformance.reference.duplicates import DuplicateDetection, DuplicateKey
from conformance.reference.headers import internet_message_id
from conformance.reference.host import Host
from conformance.reference.hub2010.delayed_acknowledgement import DelayedAcknowledgement
from conformance.reference.message import Envelope, Message
from conformance.reference.receive.acceptance import Acceptance, MessageOrigin
from conformance.reference.receive.session import Receiver
from conformance.reference.replies import Reply
from conformance.reference.shadow.creation import Redundancy


@defect("one-shadow-at-a-time", breaks="SR-CRE-01", slot="redundancy")
class OneShadowAtATime(Redundancy):
    """Acknowledges a message without a shadow while the shadow of another one is being made."""

    busy = False

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Return None (acknowledge) at once, without a shadow, while the shadow of another message is being made; else as is correct.

        Correct is to try to make a shadow, and to return None if the message may be acknowledged, else the refusal.
        """
        if self.busy:
            return None
        self.busy = True
        try:
            return await super().make_redundant_or_refuse(message, content, deadline)
        finally:
            self.busy = False


@defect("equal-messages-at-once-are-both-delivered", breaks="SR-DUP-01", slot="duplicates")
class EqualMessagesAtOnce(DuplicateDetection):
    """Delivers two equal messages that come at the same time: neither is in the delivered-to table yet."""

    async def claim_delivery(self, key: DuplicateKey) -> bool:
        """Return True (deliver) at once if a delivery of the same message is in progress; correct is to wait for its end first.

        Otherwise return what is correct: False for a message that was delivered within the tracking window.
        """
        if key in self._in_progress:
            return True
        return await super().claim_delivery(key)

    def end_delivery(self, key: DuplicateKey, *, delivered: bool) -> None:
        """End a delivery as is correct; of two deliveries of one message at a time record only the one that ends first.

        If that one has failed (`delivered` false), none is recorded.
        """
        if key in self._in_progress:
            super().end_delivery(key, delivered=delivered)


@defect("one-session-has-an-idle-limit", breaks="SR-TMO-06", slot="receiver")
class OneSessionHasAnIdleLimit(Receiver):
    """Has one timer for idle sessions, which the newest session takes away from the others."""

    def _on_idle_timer(self) -> None:
        """End the session if it was idle for too long, as is correct, only if it is the newest open one of the node; else do nothing.

        Another session then ends at the limit of its age: only a message or a reload sets its idle timer again.
        """
        newest = max(self._sessions, key=lambda session: session._started_at, default=self)  # of its own class
        if newest is self:
            super()._on_idle_timer()


@defect("hub-withholds-one-reply-at-a-time", breaks="SR-E10-15", slot="ex2010.acceptance")
class HubWithholdsOneReplyAtATime(DelayedAcknowledgement):
    """Acknowledges a message at once while the reply to another one is withheld."""

    busy = False

    async def wait_until_delivered(self, message: Message, deadline: float) -> None:
        """Wait, as is correct, until no recipient of the message is pending, or a limit has passed (MaxAcknowledgementDelay, `deadline`).

        Return at once while another message is waited for.
        """
        if self.busy:
            return
        self.busy = True
        try:
            await super().wait_until_delivered(message, deadline)
        finally:
            self.busy = False


@defect("answers-for-the-message-in-hand", breaks="RL-ACK-04", slot="acceptance")
class AnswersForTheMessageInHand(Acceptance):
    """Takes a message that comes while one with its Message-ID and reverse-path is being accepted for the same one."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._in_hand: dict[tuple[str, str], asyncio.Task[Reply]] = {}

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Return the reply to the message in hand with this Message-ID and reverse-path; without one, accept as is correct."""
        key = (envelope.reverse_path, internet_message_id(content) or "")
        if not key[1]:
            return await super().accept(envelope, content, origin)
        if key not in self._in_hand:
            task = self.host.tasks.start(
                super().accept(envelope, content, origin), f"{self.host.name}: accept {key[1]}"
            )
            task.add_done_callback(lambda _: self._in_hand.pop(key))
            self._in_hand[key] = task
        return await asyncio.shield(self._in_hand[key])
