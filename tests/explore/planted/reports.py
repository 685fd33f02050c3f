"""Planted mistakes in delivery status notifications."""

from collections.abc import Sequence

from conformance.reference.message import Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.replies import Reply
from conformance.reference.reports import Reports
from conformance.reference.routing.next_hop import NextHop
from tests.explore.planted.deferrals import NotesDeferrals
from tests.explore.planted.mistake import Notes, plant


@plant(
    "report-that-is-deferred-twice-is-dropped",
    about="DSN",
    scenario="permanent-failure-is-reported-once",
    pair=("mta1>outside greeting 1 answered drop", "mta1>outside EHLO 1 after cut"),
    slot="delivery",
)
class ReportThatIsDeferredTwiceIsDropped(Delivery):
    """Deletes a report that has been deferred in two lives of the server, or twice in one."""

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        if message.cause is not None and Notes(self.host).add(f"deferred {message.message_id}") > 1:
            self.host.messages.set_fate(message.id, recipients, "expired")
            return
        super()._defer(message, recipients, hop)


@plant(
    "no-report-of-a-refusal-after-a-deferral",
    about="relay retry and DSN",
    scenario="whatever-breaks-on-the-way-out",
    pair=("mta1>outside MAIL 1 heard drop", "mta1>outside RCPT 1 replaced by 550"),
    slot="reports",
    also={"delivery": NotesDeferrals},
)
class NoReportOfARefusalAfterADeferral(Reports):
    """Reports no failure of a message that had been deferred before."""

    def report_failed(self, message: Message, failures: Sequence[tuple[Recipient, Reply]], hop: NextHop) -> None:
        delivery = self.host.delivery
        assert isinstance(delivery, NotesDeferrals)
        if not delivery.deferrals[message.id]:
            super().report_failed(message, failures, hop)
