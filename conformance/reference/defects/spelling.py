"""Defects in how names are compared: letter case, names of which one begins with the other, dates, and long lists.

The duplicate key of a message is its mailbox, Message-ID and client submit time (Date); messages with equal keys are duplicates.
A message without Message-ID or Date has no key, and is never a duplicate.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from conformance.reference.defects.defect import defect
from conformance.reference.duplicates import DuplicateDetection, DuplicateKey
from conformance.reference.headers import client_submit_time, header_field, internet_message_id
from conformance.reference.shadow.discard import DiscardStatus
from conformance.reference.shadow.manager import ShadowRedundancyManager
from conformance.reference.storage.discards import DiscardNotification


@defect("duplicate-by-spelling-of-the-mailbox", breaks="SR-DUP-01", slot="duplicates")
class DuplicateBySpelling(DuplicateDetection):
    """Takes a mailbox that is written in another letter case for another mailbox."""

    def key_of(self, mailbox: str, content: bytes) -> DuplicateKey | None:
        """Return the duplicate key of a message with the mailbox as it is written, not in lower case; None if it has no key."""
        key = super().key_of(mailbox, content)
        return None if key is None else key._replace(mailbox=mailbox)


@defect("duplicate-by-id-in-any-case", breaks="SR-DUP-02", slot="duplicates")
class DuplicateByIdInAnyCase(DuplicateDetection):
    """Takes messages whose Message-IDs differ in letter case for duplicates."""

    def key_of(self, mailbox: str, content: bytes) -> DuplicateKey | None:
        """Return the duplicate key of a message with the Message-ID in lower case; None if it has no key."""
        key = super().key_of(mailbox, content)
        return None if key is None else key._replace(internet_id=key.internet_id.lower())


@defect("duplicate-by-beginning-of-the-id", breaks="SR-DUP-02", slot="duplicates")
class DuplicateByBeginningOfTheId(DuplicateDetection):
    """Takes messages whose Message-IDs differ in their last character only for duplicates."""

    def key_of(self, mailbox: str, content: bytes) -> DuplicateKey | None:
        """Return the duplicate key of a message with its Message-ID but for the last character; None if it has no key."""
        key = super().key_of(mailbox, content)
        return None if key is None else key._replace(internet_id=key.internet_id[:-1])


@defect("duplicate-by-the-written-id", breaks="SR-DUP-01", slot="duplicates")
class DuplicateByTheWrittenId(DuplicateDetection):
    """Takes a message whose Message-ID is written without brackets for another message."""

    def key_of(self, mailbox: str, content: bytes) -> DuplicateKey | None:
        """Return the duplicate key of a message with its Message-ID as it is written; None if it has no key."""
        key = super().key_of(mailbox, content)
        written = header_field(content, b"Message-ID") or b""
        return None if key is None else key._replace(internet_id=written.decode("latin-1"))


@defect(
    "duplicate-without-a-message-id",
    breaks="SR-DUP-02",
    slot="duplicates",
    needs_expectation="messages without a Message-ID that have one content look like one message that was sent twice",
)
class DuplicateWithoutAMessageId(DuplicateDetection):
    """Takes messages without a Message-ID for duplicates when they have the same Date."""

    def key_of(self, mailbox: str, content: bytes) -> DuplicateKey | None:
        """Return the duplicate key of a message, with an empty Message-ID if it has none; None if it has no Date."""
        submitted = client_submit_time(content)
        if submitted is None:
            return None
        return DuplicateKey(mailbox.casefold(), internet_message_id(content) or "", submitted)


@defect("duplicate-within-a-minute", breaks="SR-DUP-02", slot="duplicates")
class DuplicateWithinAMinute(DuplicateDetection):
    """Compares client submit times by the minute."""

    def key_of(self, mailbox: str, content: bytes) -> DuplicateKey | None:
        """Return the duplicate key of a message with the submit time in whole minutes; None if it has no key."""
        key = super().key_of(mailbox, content)
        return None if key is None else key._replace(submitted=key.submitted // 60)


@defect("duplicate-by-text-of-the-date", breaks="SR-DUP-01", slot="duplicates")
class DuplicateByTextOfTheDate(DuplicateDetection):
    """Compares the text of the Date field: the same instant in another time zone is another time."""

    def key_of(self, mailbox: str, content: bytes) -> DuplicateKey | None:
        """Return the duplicate key of a message, with a number made of the text of Date for its submit time; None if it has no key.

        Of the first 40 octets of Date only the last 52 bits, six or seven octets, count.
        """
        key = super().key_of(mailbox, content)
        text = header_field(content, b"Date") or b""
        return None if key is None else key._replace(submitted=float(int.from_bytes(text[:40]) % 2**52))


@defect("discards-ids-that-begin-alike", breaks="RL-ACK-01", slot="manager")
class DiscardsIdsThatBeginAlike(ShadowRedundancyManager):
    """Discards every shadow whose id begins with the one that a notification names: with 1 also 10 and 11."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Discard all shadows of the primary whose ids begin with `shadow_id`, the one that its notification names; ignore `database`."""
        for row in self.host.shadows.rows_held_for(primary):
            held = self.host.messages.get(row)
            if held is not None and held.shadow_id.startswith(shadow_id):
                super().discard_shadow(primary, held.database, held.shadow_id)


@defect("forgets-what-is-beyond-a-page", breaks="SR-WIR-04", slot="discard_status")
class ForgetsBeyondAPage(DiscardStatus):
    """Forgets the notifications that a reply has no room for, and says that none is left."""

    async def answer_query(self, server: str, limit: int) -> tuple[list[str], list[DiscardNotification]]:
        """Return the lines of the reply to XQDISCARD, with "end 0" (none is left), and the notifications in them.

        Delete all other notifications for the asking `server`. Correct is to keep them, and to say how many they are.
        """
        lines, events = await super().answer_query(server, limit)
        named = {event.id for event in events}
        if not lines[-1].endswith("end 0"):
            for event in [*self.host.discards.all_notifications()]:
                if event.server == server and event.id not in named:
                    self.host.discards.remove_notification(event.id)
        return [*lines[:-1], "250 2.0.0 end 0"], events
