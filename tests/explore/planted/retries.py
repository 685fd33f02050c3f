"""Planted mistakes in retries and in what a restart takes up again."""

from collections import Counter

from conformance.reference.host import Host
from conformance.reference.message import Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop
from tests.explore.planted.mistake import Notes, plant


@plant(
    "third-attempt-is-forgotten",
    about="retries",
    scenario="alone-in-its-boundary",
    pair=("mbx1>mbx1-store DATA 1 before cut", "mbx1>mbx1-store MAIL 2 replaced by 421"),
    slot="delivery",
)
class ThirdAttemptIsForgotten(Delivery):
    """Schedules no retry after the second attempt at a message that comes to nothing."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._failed: Counter[int] = Counter()

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        self._failed[message.id] += 1
        if self._failed[message.id] != 2:
            super()._defer(message, recipients, hop)


@plant(
    "deferred-mail-is-not-resumed",
    about="retries",
    scenario="alone-in-its-boundary",
    pair=("mbx1>mbx1-store LHLO 1 replaced by 550", "mbx1>mbx1-store RCPT 1 mbx1 away"),
    slot="delivery",
)
class DeferredMailIsNotResumed(Delivery):
    """After a restart does not take up the messages that had been deferred before."""

    def start(self) -> None:
        deferred = Notes(self.host)
        for message in self.host.messages.held_as("primary"):
            if message.message_id not in deferred:
                self.start_processing(message)

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        Notes(self.host).add(message.message_id)
        super()._defer(message, recipients, hop)


@plant(
    "second-restart-resumes-nothing",
    about="retries",
    scenario="alone-in-its-boundary",
    pair=("mbx1>mbx1-store MAIL 1 mbx1 away", "mbx1>mbx1-store DATA 1 mbx1 away"),
    slot="delivery",
)
class SecondRestartResumesNothing(Delivery):
    """Takes up a message after one restart only: what it has not delivered by the next one stays in the queue."""

    def start(self) -> None:
        resumed = Notes(self.host)
        for message in self.host.messages.held_as("primary"):
            if resumed.add(f"resumed {message.message_id}") < 2:
                self.start_processing(message)


@plant(
    "transient-refusal-after-a-lost-session-is-final",
    about="retries",
    scenario="whatever-breaks-on-the-way-out",
    pair=("mta1>outside MAIL 1 heard drop", "mta1>outside DATA 1 replaced by 421"),
    slot="delivery",
)
class TransientRefusalAfterALostSessionIsFinal(Delivery):
    """Takes a transient refusal for a permanent one if an earlier attempt at the message came to nothing without a reply."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._unanswered: set[int] = set()

    async def record_outcome(
        self, attempt: DeliveryAttempt, replies: dict[Recipient, Reply], *, takes_over_reports: bool
    ) -> None:
        if attempt.message.id in self._unanswered:
            replies = {one: final(reply) for one, reply in replies.items()}
        if not replies:
            self._unanswered.add(attempt.message.id)
        await super().record_outcome(attempt, replies, takes_over_reports=takes_over_reports)


def final(reply: Reply) -> Reply:
    """Return a 5yz reply in place of a 4yz one, and any other as it is."""
    if reply.positive or reply.permanent:
        return reply
    return Reply(reply.code + 100, f"5{reply.status[1:]}", reply.text)
