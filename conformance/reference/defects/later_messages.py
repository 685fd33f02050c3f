"""Defects that show from a certain message on, or with a certain number of recipients, next hops or messages.

A shadow is the copy of a message that another server keeps until a discard notification says that the message has been processed.
`make_redundant_or_refuse` tries to have one made; it returns None if the message may be acknowledged, else the reply that refuses
it.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from conformance.reference.defects.defect import defect
from conformance.reference.headers import internet_message_id
from conformance.reference.message import Envelope, Message, Recipient
from conformance.reference.queue.delivery import Completion, Delivery
from conformance.reference.receive.acceptance import Acceptance, MessageOrigin
from conformance.reference.receive.session import Receiver
from conformance.reference.replies import Reply
from conformance.reference.reports import Reports
from conformance.reference.routing.bifurcation import Routing
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.shadow.creation import Redundancy, ShadowCreation
from conformance.reference.shadow.discard import DiscardStatus
from conformance.reference.storage.discards import DiscardNotification


@defect("shadows-first-message-of-a-session", breaks="SR-CRE-01", slot="receiver")
class ShadowsFirstMessageOfASession(Receiver):
    """Makes a shadow of the first message of a session, and none of those that follow in it."""

    async def _accept(self, content: bytes) -> list[Reply]:
        """Accept a message and return the replies to it; from the second one of a session on without a shadow.

        Shadow copies (`_shadow_id`) and messages on the delivery listener are handled correctly. A message without a shadow also
        loses its parameters of MAIL, and is not checked for loops and bare line ends.
        """
        first, self._accepted_one = not getattr(self, "_accepted_one", False), True
        state = self.session_state
        if first or state.listener == "delivery" or self._shadow_id is not None:
            return await super()._accept(content)
        acceptance = self.host.acceptance
        assert self.session is not None
        assert self.envelope is not None
        origin = MessageOrigin(
            hello=self.session.host_name or "",
            address="127.0.0.1",
            from_organisation=state.peer is not None,
            deadline=self._reply_deadline,
        )
        envelope = Envelope(
            reverse_path=str(self.envelope.mail_from).removeprefix("<>"), recipients=tuple(self._recipients)
        )
        message_id, traced = acceptance.add_trace_field(content, origin, "ESMTP")
        return [await acceptance.acknowledge(acceptance.store(envelope, traced, message_id, origin))]


@defect("rejects-the-first-only", breaks="SR-ENA-04", slot="redundancy")
class RejectsTheFirstOnly(Redundancy):
    """Rejects one message for want of a shadow, and accepts the next one without."""

    rejected = False

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Try to make a shadow; return the correct refusal or None, but None in place of every second of several refusals in a row."""
        refusal = await super().make_redundant_or_refuse(message, content, deadline)
        if refusal is not None and self.rejected:
            self.rejected = False
            return None
        self.rejected = refusal is not None
        return refusal


@defect("second-try-has-no-shadow", breaks="SR-ENA-05", slot="redundancy")
class SecondTryHasNoShadow(Redundancy):
    """Accepts a message that it rejected before without making a shadow of it."""

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Make no shadow of a message whose Message-ID was rejected before, and return None: it may be acknowledged.

        Otherwise return what is correct: None, or the refusal of a message without a shadow.
        """
        rejected: set[str | None] = self.__dict__.setdefault("_rejected", set())
        if message.internet_id in rejected:
            return None
        refusal = await super().make_redundant_or_refuse(message, content, deadline)
        if refusal is not None:
            rejected.add(message.internet_id)
        return refusal


@defect("shadow-has-twenty-recipients", breaks="SR-CRE-06", slot="creation")
class ShadowHasTwentyRecipients(ShadowCreation):
    """Sends the first twenty recipients of a message with its shadow."""

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Make a shadow with the first twenty recipients only; return whether a server has stored it."""
        envelope = message.envelope.for_recipients(message.envelope.recipients[:20])
        return await super().make_shadow(replace(message, envelope=envelope), content, deadline)


@defect("no-shadow-for-null-sender", breaks="SR-CRE-01", slot="creation")
class NoShadowForNullSender(ShadowCreation):
    """Makes no shadow of a message with a null reverse-path."""

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Make a shadow of a message, but none if its reverse-path is null; return whether a server has stored it."""
        return bool(message.envelope.reverse_path) and await super().make_shadow(message, content, deadline)


@defect("names-twenty-notifications", breaks="SR-WIR-04", slot="discard_status")
class NamesTwentyNotifications(DiscardStatus):
    """Names twenty notifications in a reply, and says that none is left."""

    async def answer_query(self, server: str, limit: int) -> tuple[list[str], list[DiscardNotification]]:
        """Return the lines of the reply to XQDISCARD and the notifications in them: twenty at most, and "end 0": none is left."""
        lines, events = await super().answer_query(server, min(limit, 20))
        return [*lines[:-1], "250 2.0.0 end 0"], events


@defect("releases-after-the-second-fork", breaks="SR-MNT-07", slot="completion")
class ReleasesAfterTheSecondFork(Completion):
    """Offers the discard notification when two of several next hops have the message."""

    def release_if_processed(self, row_id: int) -> None:
        """Queue the discard notifications at the second call for a message, also while recipients are pending.

        It is called after each attempt at one next hop; correct is to queue them when no recipient is pending.
        """
        calls: Counter[int] = self.__dict__.setdefault("_calls", Counter())
        calls[row_id] += 1
        message = self.host.messages.get(row_id)
        if calls[row_id] == 2 and message is not None and message.place == "primary":
            self.host.discard_status.queue_notifications(message)
        super().release_if_processed(row_id)


@defect("reports-one-of-several-failures", breaks="SR-MNT-07", slot="reports")
class ReportsOneOfSeveralFailures(Reports):
    """Reports the first of the recipients that a next hop has refused."""

    def report_failed(self, message: Message, failures: Sequence[tuple[Recipient, Reply]], hop: NextHop) -> None:
        """Report only the first of the recipients that a next hop refused.

        Correct is all. `failures` has the final reply for each.
        """
        super().report_failed(message, failures[:1], hop)


@defect("tries-all-again", breaks="RL-RCP-01", slot="delivery")
class TriesAllAgain(Delivery):
    """When a next hop defers some recipients, tries those again that it has accepted, too."""

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        """Defer all recipients of the message that have this next hop, also those that it has accepted.

        `recipients` are those that it has not; they are to be tried again after MessageRetryInterval.
        """
        groups = self.host.routing.group_by_next_hop(message.envelope.recipients)
        super()._defer(message, tuple(groups.get(hop, recipients)), hop)


@defect("fans-out-the-third-recipient", breaks="SR-BIF-03", slot="routing")
class FansOutTheThirdRecipient(Routing):
    """Lets two recipients share a transmission, and sends every further one directly."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> dict[NextHop, list[Recipient]]:
        """Return the recipients by next hop: the first two routed together, each of the others alone.

        Those routed alone share no transmission to a common site of their routes (delayed fan-out).
        """
        listed = list(recipients)
        groups = {hop: list(group) for hop, group in super().group_by_next_hop(listed[:2]).items()}
        for recipient in listed[2:]:
            for hop, group in super().group_by_next_hop([recipient]).items():
                groups.setdefault(hop, []).extend(group)
        return groups


@defect("second-transmission-is-not-stored", breaks="SR-CRE-01", slot="acceptance")
class SecondTransmissionIsNotStored(Acceptance):
    """Answers 250 to a Message-ID that it has in its queue already, and stores nothing, also for other recipients."""

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Accept or refuse a message; if one with its Message-ID is still to be delivered, return 250 without storing it."""
        name = internet_message_id(content)
        if name and any(message.internet_id == name for message in self.host.messages.held_as("primary")):
            return Reply(250, "2.6.0", f"<{name}> Queued mail for delivery")
        return await super().accept(envelope, content, origin)
