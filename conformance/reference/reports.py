"""Reports to senders: what failed, is delayed, or (where asked for) was delivered; each a message of its own that its
cause waits for (SR-MNT-08, RFC 5321 6.1, RFC 3461)."""

from collections.abc import Sequence

from conformance.reference.dsn import RecipientStatus, ReportAction, report
from conformance.reference.host import Component
from conformance.reference.message import Envelope, Fate, Message, Recipient, new_message
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop

DELAY_NOTIFICATION_TIMEOUT = 4 * 3600.0
"""After so many seconds in the queue a delay is reported to a sender who asked for that (NOTIFY=DELAY)."""


class Reports(Component):
    """Writes delivery status notifications. Nothing is ever reported about a message with a null reverse-path."""

    def report_failed(self, message: Message, failures: Sequence[tuple[Recipient, Reply]], hop: NextHop) -> None:
        """Report recipients that will never be reached, unless NOTIFY says otherwise (RFC 3461 5.2.1)."""
        remote = hop.name if hop.addresses else ""
        self.send_report(
            "failed",
            message,
            [
                RecipientStatus(recipient, reply.status, str(reply), remote)
                for recipient, reply in failures
                if not recipient.notify or "FAILURE" in recipient.notify
            ],
        )

    def report_succeeded(self, message: Message, recipients: Sequence[Recipient], fate: Fate, hop: NextHop) -> None:
        """Report recipients that were reached, where NOTIFY=SUCCESS asks for it (RFC 3461 5.2.2, 5.2.3).

        A next hop that reports by itself, and the target of a redirection, will do so.
        """
        action: ReportAction | None = "delivered" if fate == "delivered" else "relayed" if fate == "relayed" else None
        if action is not None:
            wanted = [RecipientStatus(r, "2.1.5", remote=hop.name) for r in recipients if "SUCCESS" in r.notify]
            self.send_report(action, message, wanted)

    def report_delayed(self, message: Message, recipients: Sequence[Recipient]) -> None:
        """Report, once, recipients that could not be reached for a long time, where NOTIFY=DELAY asks for it."""
        host = self.host
        wanted = [recipient for recipient in recipients if "DELAY" in recipient.notify]
        if not wanted or not host.is_due(message.since + DELAY_NOTIFICATION_TIMEOUT):
            return
        untold = host.messages.without_delay_report(message.id, wanted)
        host.messages.set_delay_reported(message.id, untold)
        self.send_report("delayed", message, [RecipientStatus(recipient, "4.4.7") for recipient in untold])

    def send_report(self, action: ReportAction, message: Message, statuses: Sequence[RecipientStatus]) -> None:
        """Write a report and begin to process it."""
        host = self.host
        if not statuses or not message.envelope.reverse_path:
            return
        key = host.identity.new_id()
        content = report(
            action,
            statuses,
            message_id=key,
            server=host.name,
            at=host.now(),
            envelope=message.envelope,
            content=host.messages.content(message.id),
        )
        body = "" if content.isascii() else "8BITMIME"
        draft = new_message(
            content,
            Envelope("", (Recipient(message.envelope.reverse_path),), body),
            message_id=key,
            since=host.now(),
            cause=message.id,
            redundancy_pending=True,
        )
        host.log.info("%s %s: report %s to <%s>", message.message_id, action, key, message.envelope.reverse_path)
        host.delivery.start_processing(host.messages.add(draft, content))
