"""Delivery status notifications to senders: about failures, delays, and, on request, deliveries (RFC 5321 6.1, RFC 3461).

Each report is a message of its own, which this server stores and delivers like any other; to *send* it here means that. The
message that it is about is released only after it (SR-MNT-08). The delivery of messages (queue/delivery.py) calls `host.reports`.
NOTIFY is the parameter of RCPT by which the sender says what is to be reported about a recipient (RFC 3461).
"""

from collections.abc import Sequence

from conformance.reference.dsn import RecipientStatus, ReportAction, format_report
from conformance.reference.host import Component
from conformance.reference.message import Envelope, Fate, Message, Recipient, new_message
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop

DELAY_NOTIFICATION_TIMEOUT = 4 * 3600.0
"""Real seconds in the queue, whatever `scale` is, after which a delay is reported to a sender who asked for that (NOTIFY=DELAY)."""


class Reports(Component):
    """Sends delivery status notifications; never about a message with a null reverse-path, and never without a recipient to report.

    Its methods do not wait for the disk.
    """

    def report_failed(self, message: Message, failures: Sequence[tuple[Recipient, Reply]], hop: NextHop) -> None:
        """Send a report about recipients that have failed for good, except those whose NOTIFY excludes FAILURE (RFC 3461 5.2.1).

        `failures` has the final reply for each: that of the next hop, or one of this server, such as for expiry. `hop` is the
        next hop, which the report names unless the recipients had no route.
        """
        remote = hop.name if hop.addresses else ""  # without a route there is no server to name
        self.send_report(
            "failed",
            message,
            [
                RecipientStatus(recipient, status=reply.status, diagnostic=str(reply), remote=remote)
                for recipient, reply in failures
                if not recipient.notify or "FAILURE" in recipient.notify
            ],
        )

    def report_succeeded(self, message: Message, recipients: Sequence[Recipient], fate: Fate, hop: NextHop) -> None:
        """Send a report about recipients with NOTIFY=SUCCESS whose fate is `delivered` or `relayed` (RFC 3461 5.2.2, 5.2.3).

        `relayed`: handed to a next hop without DSN, which will send no report. Does nothing for any other fate (`passed-on`,
        `redirected`): the next hop or the target of the redirection sends the report.
        """
        action: ReportAction | None = "delivered" if fate == "delivered" else "relayed" if fate == "relayed" else None
        if action is not None:
            requested = [
                RecipientStatus(r, status="2.1.5", remote=hop.name) for r in recipients if "SUCCESS" in r.notify
            ]
            self.send_report(action, message, requested)

    def report_delayed(self, message: Message, recipients: Sequence[Recipient]) -> None:
        """Send a report about the delay of recipients with NOTIFY=DELAY, if the message has been queued for long enough.

        That is DELAY_NOTIFICATION_TIMEOUT, four real hours; before, do nothing. A recipient is reported once: the queue database
        records whose delay has been reported.
        """
        host = self.host
        requested = [recipient for recipient in recipients if "DELAY" in recipient.notify]
        if not requested or not host.is_due(message.since + DELAY_NOTIFICATION_TIMEOUT):
            return
        unreported = host.messages.without_delay_report(message.id, requested)
        host.messages.set_delay_reported(message.id, unreported)
        self.send_report("delayed", message, [RecipientStatus(recipient, status="4.4.7") for recipient in unreported])

    def send_report(self, action: ReportAction, message: Message, statuses: Sequence[RecipientStatus]) -> None:
        """Store a report about these recipients of a message as a message to its sender, and start its delivery.

        The message is the `cause` of the report: it counts as processed only after the report (SR-MNT-08). Does nothing if
        `statuses` is empty, or the reverse-path of the message is null: it has no sender to report to then (RFC 5321 6.1).
        """
        host = self.host
        if not statuses or not message.envelope.reverse_path:
            return
        report_id = host.identity.new_id()
        content = self.compose(action, message, statuses, report_id)
        body = "" if content.isascii() else "8BITMIME"
        draft = new_message(
            content,
            Envelope(
                reverse_path="",
                recipients=(Recipient(message.envelope.reverse_path),),
                body=body,
                smtputf8=not message.envelope.reverse_path.isascii(),
            ),
            message_id=report_id,
            since=host.now(),
            cause=message.id,
            redundancy_pending=True,
        )
        host.log.info("%s %s: report %s to <%s>", message.message_id, action, report_id, message.envelope.reverse_path)
        host.delivery.start_processing(host.messages.add(draft, content))

    def compose(
        self, action: ReportAction, message: Message, statuses: Sequence[RecipientStatus], report_id: str
    ) -> bytes:
        """Return the content of a report with this id about some recipients of a message, whose own content must still be stored."""
        return format_report(
            action,
            statuses,
            message_id=report_id,
            server=self.host.name,
            at=self.host.now(),
            envelope=message.envelope,
            content=self.host.messages.content(message.id),
        )
