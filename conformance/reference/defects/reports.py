"""Defects in the contents of reports of delivery status, in what is reported, and in what is journaled.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node that runs as `reference+NAME` has it in
place of the component in its `slot`, and then violates the requirement `breaks`. "Correct" is what the class that it inherits from does;
`self.host` has the other components of the node (host.py).
"""

from collections.abc import Sequence
from dataclasses import replace

from conformance.reference.defects.defect import defect
from conformance.reference.dsn import RecipientStatus, ReportAction
from conformance.reference.message import Envelope, Fate, Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.receive.acceptance import Acceptance, MessageOrigin
from conformance.reference.reports import Reports
from conformance.reference.routing.next_hop import NextHop


@defect("reports-without-a-final-recipient", breaks="RL-DSN-08", slot="reports")
class ReportsWithoutAFinalRecipient(Reports):
    """Leaves the final recipient out of its reports, and names the original one only."""

    def compose(
        self, action: ReportAction, message: Message, statuses: Sequence[RecipientStatus], report_id: str
    ) -> bytes:
        """Return a report with another field name; correct is Final-Recipient (RFC 3464 2.3.2)."""
        content = super().compose(action, message, statuses, report_id)
        return content.replace(b"\r\nFinal-Recipient:", b"\r\nOriginal-Recipient:")


@defect("reports-eight-bits-as-seven", breaks="RL-DSN-08", slot="reports")
class ReportsEightBitsAsSeven(Reports):
    """Does not declare that what it returns has octets above 127."""

    def compose(
        self, action: ReportAction, message: Message, statuses: Sequence[RecipientStatus], report_id: str
    ) -> bytes:
        """Return a report without its Content-Transfer-Encoding; correct is 8bit (RFC 2045 6.2)."""
        content = super().compose(action, message, statuses, report_id)
        return content.replace(b"\r\nContent-Transfer-Encoding: 8bit", b"")


@defect("reports-failures-as-successes", breaks="RL-DSN-08", slot="reports")
class ReportsFailuresAsSuccesses(Reports):
    """Gives every recipient in a report the status code 2.0.0, whatever the action is."""

    def send_report(self, action: ReportAction, message: Message, statuses: Sequence[RecipientStatus]) -> None:
        """Send a report with another status code; correct is that of the reply (RFC 3464 2.3.4)."""
        super().send_report(action, message, [replace(one, status="2.0.0") for one in statuses])


@defect("returns-the-header-whatever-is-asked", breaks="RL-DSN-09", slot="reports")
class ReturnsTheHeaderWhateverIsAsked(Reports):
    """Returns the header in a report of a failure where RET=FULL asks for the message."""

    def send_report(self, action: ReportAction, message: Message, statuses: Sequence[RecipientStatus]) -> None:
        """Send a report as if the message had come with RET=HDRS."""
        super().send_report(action, replace(message, envelope=replace(message.envelope, ret="HDRS")), statuses)


@defect("reports-delays-in-spite-of-notify", breaks="RL-DSN-04", slot="reports")
class ReportsDelaysInSpiteOfNotify(Reports):
    """Reports a delay of hours for every recipient, also where NOTIFY asks for reports of failures only."""

    def report_delayed(self, message: Message, recipients: Sequence[Recipient]) -> None:
        """Report a delay as if NOTIFY asked for that."""
        super().report_delayed(message, [replace(one, notify="DELAY") for one in recipients])


@defect("reports-no-delivery", breaks="RL-DSN-05", slot="reports")
class ReportsNoDelivery(Reports):
    """Reports what it passes to a next hop without DSN, and not what it delivers into a mailbox."""

    def report_succeeded(self, message: Message, recipients: Sequence[Recipient], fate: Fate, hop: NextHop) -> None:
        """Report recipients that were relayed; correct is to report delivered ones too (RFC 3461 5.2.3)."""
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
        """Store a message as if it came from outside."""
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
        """Resume the messages in the database, each as still to be journaled."""
        for message in list(self.host.messages.held_as("primary")):
            self.host.journaling.send_report_if_due(replace(message, journal_due=message.cause is None))
        super().start()
