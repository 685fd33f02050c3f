"""Defects in the contents of reports of delivery status, in what is reported, and in what is journaled.

A report of delivery status (RFC 3461, RFC 3464) is a message to the sender; NOTIFY of a recipient says which reports are wanted,
RET of the message how much of it a report returns. A journal report goes to a journal mailbox, once for each message of the
organisation.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from collections.abc import Sequence
from dataclasses import replace

from conformance.reference.defects.defect import defect
from conformance.reference.dsn import RecipientStatus, ReportAction
from conformance.reference.headers import format_date
from conformance.reference.journal import Journaling
from conformance.reference.message import Envelope, Fate, Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.receive.acceptance import Acceptance, MessageOrigin
from conformance.reference.reports import Reports
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.storage.messages import Messages


@defect("reports-without-a-final-recipient", breaks="RL-DSN-08", slot="reports")
class ReportsWithoutAFinalRecipient(Reports):
    """Leaves the final recipient out of its reports, and names the original one only."""

    def compose(
        self, action: ReportAction, message: Message, statuses: Sequence[RecipientStatus], report_id: str
    ) -> bytes:
        """Return the content of a report with each Final-Recipient field (RFC 3464 2.3.2) renamed to Original-Recipient."""
        content = super().compose(action, message, statuses, report_id)
        return content.replace(b"\r\nFinal-Recipient:", b"\r\nOriginal-Recipient:")


@defect("reports-eight-bits-as-seven", breaks="RL-DSN-08", slot="reports")
class ReportsEightBitsAsSeven(Reports):
    """Does not declare that what it returns has octets above 127."""

    def compose(
        self, action: ReportAction, message: Message, statuses: Sequence[RecipientStatus], report_id: str
    ) -> bytes:
        """Return the content of a report without `Content-Transfer-Encoding: 8bit`, also where it has octets above 127 (RFC 2045 6.2)."""
        content = super().compose(action, message, statuses, report_id)
        return content.replace(b"\r\nContent-Transfer-Encoding: 8bit", b"")


@defect("reports-failures-as-successes", breaks="RL-DSN-08", slot="reports")
class ReportsFailuresAsSuccesses(Reports):
    """Gives every recipient in a report the status code 2.0.0, whatever the action is."""

    def send_report(self, action: ReportAction, message: Message, statuses: Sequence[RecipientStatus]) -> None:
        """Send a report with the status code 2.0.0 for each recipient.

        Correct for a failure is that of the reply (RFC 3464 2.3.4).
        """
        super().send_report(action, message, [replace(one, status="2.0.0") for one in statuses])


@defect("returns-the-header-whatever-is-asked", breaks="RL-DSN-09", slot="reports")
class ReturnsTheHeaderWhateverIsAsked(Reports):
    """Returns the header in a report of a failure where RET=FULL asks for the message."""

    def send_report(self, action: ReportAction, message: Message, statuses: Sequence[RecipientStatus]) -> None:
        """Send a report as if the message had come with RET=HDRS: with its header only, also where RET=FULL asks for all of it."""
        super().send_report(action, replace(message, envelope=replace(message.envelope, ret="HDRS")), statuses)


@defect("reports-delays-in-spite-of-notify", breaks="RL-DSN-04", slot="reports")
class ReportsDelaysInSpiteOfNotify(Reports):
    """Reports a delay of hours for every recipient, also where NOTIFY asks for reports of failures only."""

    def report_delayed(self, message: Message, recipients: Sequence[Recipient]) -> None:
        """Report the delay of all recipients, as if each had come with NOTIFY=DELAY; correct is only those that have.

        As is correct, that is once, and only after the message has been pending for four hours.
        """
        super().report_delayed(message, [replace(one, notify="DELAY") for one in recipients])


@defect("reports-no-delivery", breaks="RL-DSN-05", slot="reports")
class ReportsNoDelivery(Reports):
    """Reports what it passes to a next hop without DSN, and not what it delivers into a mailbox."""

    def report_succeeded(self, message: Message, recipients: Sequence[Recipient], fate: Fate, hop: NextHop) -> None:
        """Report recipients with any other fate than `delivered` as is correct.

        Correct is to report delivered ones too (RFC 3461 5.2.3).
        """
        if fate != "delivered":
            super().report_succeeded(message, recipients, fate, hop)


@defect(
    "journals-at-every-server",
    breaks="SR-MNT-08",
    slot="acceptance",
    needs_expectation="no rule says which server journals a message: a scenario appoints it",
)
class JournalsAtEveryServer(Acceptance):
    """Journals a message that another server of the organisation has accepted, and journaled, before."""

    def store(self, envelope: Envelope, content: bytes, message_id: str, origin: MessageOrigin) -> Message:
        """Store a message as if it came from outside of the organisation, so that it is journaled here too; return it."""
        return super().store(envelope, content, message_id, replace(origin, from_organisation=False))


@defect(
    "journals-again-after-a-restart",
    breaks="SR-MNT-08",
    slot="delivery",
    needs_expectation="no rule counts journal reports: a server that forgot one may send it again",
)
class JournalsAgainAfterARestart(Delivery):
    """Journals every message that waits in its queue again when it starts."""

    def start(self) -> None:
        """Journal each message that is still to be delivered, except reports, also if it is journaled already; then resume all."""
        for message in list(self.host.messages.held_as("primary")):
            self.host.journaling.send_report_if_due(replace(message, journal_due=message.cause is None))
        super().start()


@defect("waits-for-the-last-report-only", breaks="SR-MNT-08", slot="messages")
class WaitsForTheLastReportOnly(Messages):
    """Of several reports about a message, waits for the one that was made last before it lets the shadow be discarded."""

    def has_unprocessed_reports(self, row_id: int) -> bool:
        """Return whether the report that was made last about a message has still to be processed; correct is any of them."""
        return super().has_unprocessed_reports(row_id) and bool(
            self._db.read(
                "SELECT 1 FROM message WHERE cause = ? AND place = 'primary' "
                "AND id = (SELECT MAX(id) FROM message WHERE cause = ?)",
                (row_id, row_id),
            )
        )


@defect(
    "dates-journal-reports-by-its-own-clock",
    breaks="SR-OUT-03",
    slot="journaling",
    needs_expectation="the rules do not know that journal reports of two servers are about one message",
)
class DatesJournalReportsByItsOwnClock(Journaling):
    """Writes into a journal report when it got the message itself, so that the reports of two servers differ in their dates."""

    def compose(self, message: Message, content: bytes, recipient: str) -> bytes:
        """Return the correct journal report about a message, with the time at which this server got it in `Date`."""
        report = super().compose(message, content, recipient)
        head, date, rest = report.partition(b"\r\nDate: ")
        return head + date + format_date(message.since).encode() + b"\r\n" + rest.partition(b"\r\n")[2]
