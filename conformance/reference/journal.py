"""Journaling: one report of each message to the journal recipient, itself a message (SR-MNT-08).

The server that takes a message from outside, or from a mailbox, journals it; servers that it passes on the way do not.
A shadow that is promoted is journaled again, for nobody knows how far its primary came: the report's Message-ID and
Date are those of the message it is about, so that a journal mailbox with duplicate detection holds one copy.
"""

import hashlib

from conformance.reference.dsn import shown
from conformance.reference.headers import date, field
from conformance.reference.message import Envelope, Message, Recipient, drafted
from conformance.reference.part import Part


class Journaling(Part):
    """Makes journal reports."""

    def report(self, message: Message) -> None:
        """Make the journal report that is due, if one is, and begin to process it; its cause waits for it."""
        host = self.host
        if not message.journal_due:
            return
        host.messages.journaled(message.id)
        journal = host.config.journal
        if journal is None:
            return
        content = self.compose(message, host.messages.content(message.id), journal.recipient)
        draft = drafted(
            content,
            Envelope("", (Recipient(journal.recipient),), "" if content.isascii() else "8BITMIME"),
            message_id=host.identity.next(),
            since=host.now(),
            cause=message.id,
            redundancy_pending=True,
        )
        host.log.info("%s journal report %s to <%s>", message.message_id, draft.message_id, journal.recipient)
        host.delivery.take(host.messages.add(draft, content))

    def compose(self, message: Message, content: bytes, recipient: str) -> bytes:
        """Return the report: the envelope as text, and the message as an attachment."""
        server = self.host.name
        told_by = f"{message.internet_id}\n{message.submitted}\n{recipient}" if message.internet_id else ""
        key = hashlib.sha256((told_by or message.message_id).encode()).hexdigest()[:32]
        boundary = f"journal-{key}"
        subject = shown((field(content, b"Subject") or b"").decode("latin-1"))
        eight_bit = [] if content.isascii() else ["Content-Transfer-Encoding: 8bit"]
        lines = [
            f"From: <postmaster@{server}>",
            f"To: <{recipient}>",
            f"Subject: {subject}",
            f"Date: {date(message.since if message.submitted is None else message.submitted)}",
            f"Message-ID: <{key}@journal.report>",
            "Auto-Submitted: auto-generated",
            "X-MS-Journal-Report:",
            "MIME-Version: 1.0",
            f'Content-Type: multipart/mixed; boundary="{boundary}"',
            *eight_bit,
            "",
            f"--{boundary}",
            "Content-Type: text/plain; charset=us-ascii",
            "",
            f"Sender: {shown(message.envelope.reverse_path)}",
            f"Subject: {subject}",
            f"Message-Id: <{shown(message.internet_id or '')}>",
            *(f"Recipient: {shown(each.address)}" for each in message.envelope.recipients),
            "",
            f"--{boundary}",
            "Content-Type: message/rfc822",
            *eight_bit,
            "",
            "",
        ]
        return "\r\n".join(lines).encode("ascii") + content + f"\r\n--{boundary}--\r\n".encode("ascii")
