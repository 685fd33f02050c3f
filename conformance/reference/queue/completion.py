"""What follows when a message has been processed: its shadow may go, and Safety Net has it."""

from conformance.reference.message import Message
from conformance.reference.part import Part


class Completion(Part):
    """Releases a message when all its forks, and all reports that it caused, are processed (SR-MNT-07, SR-MNT-08)."""

    def check(self, key: int) -> None:
        """Release a message, and then the one that it is a report about, where nothing is left to be done."""
        message = self.host.messages.get(key)
        if message is None or message.place != "primary" or not self.is_processed(message):
            return
        self.release(message)
        self.host.delivery.forget(key)
        self.host.log.info("%s processed", message.message_id)
        if message.cause is not None:
            self.check(message.cause)

    def is_processed(self, message: Message) -> bool:
        """Whether every recipient has been reached or reported, and every report processed."""
        return not self.host.messages.pending(message.id) and not self.host.messages.waits_for_reports(message.id)

    def release(self, message: Message) -> None:
        """Offer the discard notification, and move the message to Safety Net (SR-MNT-01, SR-SFN-01)."""
        self.host.discard_status.queue(message)
        self.host.safety_net.hold(message.id, "safety-net")
