"""Journaling: one report about each message to the journal recipient, as a message of its own (SR-MNT-08).

The server that accepts a message from outside or from a mailbox journals it; servers that it passes on its way do not. A promoted
shadow (the copy of a message of a lost server, its primary, which this server now delivers) is journaled again, since its primary
may have failed before or after journaling. The Message-ID and Date of the report are derived from the message, so that a journal
mailbox with duplicate detection keeps one copy. The delivery of messages (queue/delivery.py) calls `host.journaling`.
"""

import hashlib

from conformance.reference.dsn import printable
from conformance.reference.headers import format_date, header_field
from conformance.reference.host import Component
from conformance.reference.message import Envelope, Message, Recipient, new_message


class Journaling(Component):
    """Sends journal reports."""

    def send_report_if_due(self, message: Message) -> None:
        """Store the journal report about a message and start its delivery, if one is due (`journal_due`); else do nothing.

        Afterwards no report about the message is due any more, even if none was made because no journal recipient is configured.
        The message is the `cause` of the report: it counts as processed only after the report (SR-MNT-08). Does not wait for the
        disk.
        """
        host = self.host
        if not message.journal_due:
            return
        host.messages.clear_journal_due(message.id)
        journal = host.config.journal
        if journal is None:
            return
        content = self.compose(message, host.messages.content(message.id), journal.recipient)
        draft = new_message(
            content,
            Envelope(
                reverse_path="",
                recipients=(Recipient(journal.recipient),),
                body="" if content.isascii() else "8BITMIME",
                smtputf8=not journal.recipient.isascii(),
            ),
            message_id=host.identity.new_id(),
            since=host.now(),
            cause=message.id,
            redundancy_pending=True,
        )
        host.log.info("%s journal report %s to <%s>", message.message_id, draft.message_id, journal.recipient)
        host.delivery.start_processing(host.messages.add(draft, content))

    def compose(self, message: Message, content: bytes, recipient: str) -> bytes:
        """Return the content of the journal report about a message: its envelope as text, and the message attached.

        `content` is that of the message, `recipient` the journal recipient. The Message-ID of the report is derived from
        Message-ID and Date of the message, so that it is the same when a promoted shadow is journaled again; without a Message-ID
        (`internet_id` is None) it is derived from this server's id of the message.
        """
        server = self.host.name
        origin = f"{message.internet_id}\n{message.submitted}\n{recipient}" if message.internet_id else ""
        key = hashlib.sha256((origin or message.message_id).encode()).hexdigest()[:32]
        boundary = f"journal-{key}"
        subject = printable((header_field(content, b"Subject") or b"").decode("latin-1"))
        eight_bit = [] if content.isascii() else ["Content-Transfer-Encoding: 8bit"]
        lines = [
            f"From: <postmaster@{server}>",
            f"To: <{printable(recipient)}>",
            f"Subject: {subject}",
            f"Date: {format_date(message.since if message.submitted is None else message.submitted)}",
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
            f"Sender: {printable(message.envelope.reverse_path)}",
            f"Subject: {subject}",
            f"Message-Id: <{printable(message.internet_id or '')}>",
            *(f"Recipient: {printable(to.address)}" for to in message.envelope.recipients),
            "",
            f"--{boundary}",
            "Content-Type: message/rfc822",
            *eight_bit,
            "",
            "",
        ]
        return "\r\n".join(lines).encode("ascii") + content + f"\r\n--{boundary}--\r\n".encode("ascii")
