"""Defects that show on a disk that fails: what is said of a message that is not on it."""

from conformance.reference.defects.defect import defect
from conformance.reference.message import Message
from conformance.reference.receive.acceptance import Acceptance
from conformance.reference.replies import Reply
from conformance.reference.storage.database import DatabaseError


@defect("acknowledges-what-a-sync-failed-for", breaks="RL-ACK-01", part="acceptance", on_disks=True)
class AcknowledgesWhatASyncFailedFor(Acceptance):
    """Acknowledges a message although the commit that should have brought it to the disk has failed."""

    async def acknowledge(self, message: Message) -> Reply:
        """Say that it is queued, whatever the disk says."""
        try:
            return await super().acknowledge(message)
        except DatabaseError:
            return self.acknowledgement_reply(message)


@defect("refuses-for-good-without-room", breaks="RL-ACK-06", part="acceptance", on_disks=True)
class RefusesForGoodWithoutRoom(Acceptance):
    """Refuses a message for good when there is no room on its disk: the sender gives it up."""

    def no_room_reply(self) -> Reply:
        """Say 552 in place of 452."""
        return Reply(552, "5.3.4", "insufficient system storage")
