"""Journaling: one report about each message to the journal recipient, as a message of its own (SR-MNT-08).

The server that accepts a message from outside or from a mailbox journals it; servers that it passes on its way do not. A promoted
shadow is journaled again, since its primary may have failed before or after journaling. The Message-ID and Date of the report
are derived from the message, so that a journal mailbox with duplicate detection keeps one copy.
"""

import hashlib

from conformance.reference.dsn import printable
from conformance.reference.headers import format_date, header_field
from conformance.reference.host import Component
from conformance.reference.message import Envelope, Message, Recipient, new_message


class Journaling(Component):
    """Sends journal reports."""

    def send_report_if_due(self, message: Message) -> None:
        """Start the delivery of the journal report about a message, if one is due.

        The message is released only after it. If no journal recipient is configured any more, none is made, now or
        later.
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
            Envelope("", (Recipient(journal.recipient),), "" if content.isascii() else "8BITMIME"),
            message_id=host.identity.new_id(),
            since=host.now(),
            cause=message.id,
            redundancy_pending=True,
        )
        host.log.info("%s journal report %s to <%s>", message.message_id, draft.message_id, journal.recipient)
        host.delivery.start_processing(host.messages.add(draft, content))

    def compose(self, message: Message, content: bytes, recipient: str) -> bytes:
        """Return the content of the journal report: the envelope as text, and the message attached.

        `content` is that of the message, `recipient` the journal recipient. Without a Message-ID (`internet_id` is
        None) this server's id of the message identifies the report.
        """
        server = self.host.name
        origin = f"{message.internet_id}\n{message.submitted}\n{recipient}" if message.internet_id else ""
        key = hashlib.sha256((origin or message.message_id).encode()).hexdigest()[:32]
        boundary = f"journal-{key}"
        subject = printable((header_field(content, b"Subject") or b"").decode("latin-1"))
        eight_bit = [] if content.isascii() else ["Content-Transfer-Encoding: 8bit"]
        lines = [
            f"From: <postmaster@{server}>",
            f"To: <{recipient}>",
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
