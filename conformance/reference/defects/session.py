"""Defects of a session as a server: its timeouts, lost connections, size limits, line ends and shadow verbs.

Each class makes one mistake on purpose; "correct" is what the class that it inherits from does.
"""

import asyncio
import re

from conformance.reference.config import Listener, Peer
from conformance.reference.defects.defect import defect
from conformance.reference.message import Envelope, Message, Recipient
from conformance.reference.receive.acceptance import Acceptance, MessageOrigin, envelope_of
from conformance.reference.receive.session import Receiver
from conformance.reference.receive.verbs import MALFORMED, OUT_OF_ORDER, ShadowVerbs
from conformance.reference.replies import Reply


@defect("never-ends-an-idle-session", breaks="SR-TMO-06", slot="receiver")
class NeverEndsAnIdleSession(Receiver):
    """Lets a client be silent for as long as it likes."""

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Set the idle timer to a year."""
        super()._reset_timeout(365 * 86400.0)


@defect("ends-an-idle-session-early", breaks="SR-TMO-06", slot="receiver")
class EndsAnIdleSessionEarly(Receiver):
    """Closes a session that is idle for half of ConnectionInactivityTimeout."""

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Set the idle timer to half of `duration` (seconds), or for None of the configured time."""
        super()._reset_timeout((self._timeout_duration if duration is None else duration) / 2)


@defect("ends-an-idle-session-late", breaks="SR-TMO-06", slot="receiver")
class EndsAnIdleSessionLate(Receiver):
    """Closes a session that is idle only after twice ConnectionInactivityTimeout."""

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Set the idle timer to twice `duration` (seconds), or for None twice the configured time."""
        super()._reset_timeout((self._timeout_duration if duration is None else duration) * 2)


@defect("never-ends-an-old-session", breaks="SR-TMO-07", slot="receiver")
class NeverEndsAnOldSession(Receiver):
    """Lets a session in which data flows go on for ever."""

    @property
    def _expires_at(self) -> float:
        """The loop time at which the session ends: a year after it began."""
        return float(self._started_at + 365 * 86400.0)


@defect("ends-an-old-session-early", breaks="SR-TMO-07", slot="receiver")
class EndsAnOldSessionEarly(Receiver):
    """Closes a session after half of ConnectionTimeout."""

    @property
    def _expires_at(self) -> float:
        """The loop time at which the session ends: half of ConnectionTimeout after it began."""
        return float(self._started_at + self.limits.connection_timeout / 2)


@defect("drops-the-session-for-an-answer", breaks="SR-CRE-05", slot="receiver")
class DropsTheSession(Receiver):
    """Closes the sender's session when the shadow is made, in place of acknowledging the message in it."""

    async def handle_message(self, content: bytes) -> str:
        """Handle a message, and on the frontend close the connection instead of sending the reply."""
        reply = await super().handle_message(content)
        if self.session_state.listener == "frontend":
            self.abort()
        return reply


@defect(
    "keeps-old-limits-in-open-sessions",
    breaks="SR-TMO-06",
    slot="receiver",
    retired="ruling 22: a session that is open may keep the limits that it began with",
)
class KeepsOldLimits(Receiver):
    """Holds a session to the limits that were in force when it began."""

    def apply_limits(self, limits: Listener) -> None:
        """Ignore changed limits."""


@defect(
    "forgets-when-the-sender-is-lost",
    breaks="SR-TMO-03",
    slot="receiver",
    needs_expectation="the sender is lost before the copy is stored: until then a server may give an unacknowledged message up",
)
class ForgetsWhenTheSenderIsLost(Receiver):
    """Gives a message up when its sender's session is lost before it is acknowledged."""

    def connection_lost(self, error: Exception | None) -> None:
        """Cancel the task that decides about the message in hand, if any, which should survive the session."""
        if self.acceptance_task is not None:
            self.acceptance_task.cancel()
        super().connection_lost(error)


class SwallowsTheSecondTry(Acceptance):
    """Takes a message that began before for delivered: it was given up with its session."""

    def start(self) -> None:
        """Begin with no message begun; `begun` has sender and content of each."""
        self.begun: set[str] = set()

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Return 250 for a message that was begun before, without keeping it."""
        key = f"{envelope.reverse_path} {content!r}"
        if key in self.begun:
            return Reply(250, "2.6.0", "the message is here already")
        self.begun.add(key)
        return await super().accept(envelope, content, origin)


@defect("loses-what-lost-its-reply", breaks="RL-ACK-03", slot="receiver", also={"acceptance": SwallowsTheSecondTry})
class LosesWhatLostItsReply(ForgetsWhenTheSenderIsLost):
    """Gives a message up with its session, and takes the sender's next try for a duplicate of it."""


class DropsWhatLostItsSender(Acceptance):
    """Drops a message at the end of its acceptance if its sender's session was lost in the meantime."""

    def start(self) -> None:
        """Begin with no session lost; `abandoned` has the tasks that accept messages whose sessions were lost."""
        self.abandoned: set[asyncio.Task[list[Reply]] | None] = set()

    async def acknowledge(self, message: Message) -> Reply:
        """Return 250, or drop the message and return 451, which the sender will not see."""
        if asyncio.current_task() not in self.abandoned:
            return await super().acknowledge(message)
        self.host.messages.drop(message.id)
        await self.host.db.commit()
        return Reply(451, "4.3.0", "the sender has gone")


@defect(
    "forgets-what-it-did-not-acknowledge",
    breaks="SR-TMO-03",
    slot="receiver",
    also={"acceptance": DropsWhatLostItsSender},
)
class ForgetsWhatItDidNotAcknowledge(Receiver):
    """Drops a message of which a shadow copy is stored, because its sender's session was lost before the acknowledgement."""

    def connection_lost(self, error: Exception | None) -> None:
        """Note the task that decides about the message in hand, if any."""
        acceptance = self.host.acceptance
        assert isinstance(acceptance, DropsWhatLostItsSender)
        acceptance.abandoned.add(self.acceptance_task)
        super().connection_lost(error)


@defect("keeps-half-a-message", breaks="RL-ACK-02", slot="receiver")
class KeepsHalfAMessage(Receiver):
    """Delivers what it has of a message when the session is lost before the final dot."""

    collected: bytearray | None = None

    async def push(self, status: str | bytes) -> None:
        """Send a reply, and begin to collect content after a 354."""
        await super().push(status)
        if str(status)[:3] == "354":
            self.collected = bytearray()

    def data_received(self, data: bytes) -> None:
        """Collect what is received, and handle it."""
        if self.collected is not None:
            self.collected += data
        super().data_received(data)

    async def handle_message(self, content: bytes) -> str:
        """Forget what was collected, since the message is complete, and handle it."""
        self.collected = None
        return await super().handle_message(content)

    def connection_lost(self, error: Exception | None) -> None:
        """Accept the complete lines that were collected as a message."""
        if self.collected is not None:
            envelope = envelope_of(str(self.envelope.mail_from), list(self._recipients), self._mail_parameters)
            # not from the organisation, and to be answered within a minute
            origin = MessageOrigin(
                self.session.host_name or "", "local", from_organisation=False, deadline=self.loop.time() + 60
            )
            content = bytes(self.collected[: self.collected.rfind(b"\r\n") + 2])
            self.host.tasks.start(
                self.host.acceptance.accept(envelope, content, origin), f"{self.host.name}: half a message"
            )
        super().connection_lost(error)


@defect("adds-recipients-of-the-message-before", breaks="RL-CNT-01", slot="receiver")
class AddsFormerRecipients(Receiver):
    """Passes the second message of a session on to the recipients of the first too."""

    former: tuple[Recipient, ...] = ()

    async def handle_message(self, content: bytes) -> str:
        """Add the recipients of earlier messages, and handle the message."""
        if self.session_state.listener == "frontend":
            known = {recipient.address for recipient in self._recipients}
            self._recipients += [one for one in self.former if one.address not in known]
            self.former = tuple(self._recipients)
        return await super().handle_message(content)


@defect("truncates-what-is-too-big", breaks="RL-CNT-02", slot="receiver")
class TruncatesWhatIsTooBig(Receiver):
    """Takes a message above the announced SIZE and cuts it."""

    async def smtp_EHLO(self, arg: str) -> None:
        """Announce the size limit, and then accept any size."""
        self.data_size_limit = self.host.transport.MaxMessageSize
        await super().smtp_EHLO(arg)
        self.data_size_limit = 2**40

    async def handle_message(self, content: bytes) -> str:
        """Handle a message, cut to MaxMessageSize."""
        return await super().handle_message(content[: self.host.transport.MaxMessageSize])


@defect("trace-fields-count", breaks="RL-ACK-04", slot="receiver")
class TraceFieldsCount(Receiver):
    """Holds what other servers hand over to the same limit as what comes in, trace fields included."""

    async def smtp_MAIL(self, arg: str | None) -> None:
        """Apply MaxMessageSize also to messages of other servers, which have grown by trace fields."""
        self.data_size_limit = self.host.transport.MaxMessageSize
        await super().smtp_MAIL(arg)


@defect("refuses-at-the-size-limit", breaks="RL-CNT-02", slot="receiver")
class RefusesAtTheSizeLimit(Receiver):
    """Refuses a message that is exactly as large as it announced that it may be."""

    async def smtp_MAIL(self, arg: str | None) -> None:
        """Limit the message to one octet less than announced."""
        self.data_size_limit = self.host.transport.MaxMessageSize - 1
        await super().smtp_MAIL(arg)


@defect("takes-an-octet-too-many", breaks="RL-CNT-02", slot="receiver")
class TakesAnOctetTooMany(Receiver):
    """Takes a message that is an octet larger than it announced."""

    async def smtp_MAIL(self, arg: str | None) -> None:
        """Limit the message to one octet more than announced."""
        self.data_size_limit = self.host.transport.MaxMessageSize + 1
        await super().smtp_MAIL(arg)


@defect("takes-any-line-end", breaks="RL-SMG-01", slot="receiver")
class TakesAnyLineEnd(Receiver):
    """Takes a bare LF or CR for a line end, also around the final dot."""

    def data_received(self, data: bytes) -> None:
        """Handle received octets with each bare CR and LF replaced by CR LF."""
        super().data_received(re.sub(rb"\r\n|\r|\n", b"\r\n", data))


class OffersOnEveryListener(ShadowVerbs):
    """Shadow verbs that are offered on every listener."""

    def ehlo_keywords(self) -> list[str]:
        """Return XSHADOWREQUEST for every session."""
        return ["XSHADOWREQUEST"]


@defect("offers-shadowing-at-the-front-door", breaks="SR-WIR-01", slot="verbs")
class OffersAtTheFrontDoor(OffersOnEveryListener):
    """Advertises XSHADOWREQUEST on the frontend too."""


@defect("takes-what-it-did-not-offer", breaks="SR-WIR-02", slot="verbs")
class TakesWhatItDidNotOffer(ShadowVerbs):
    """Does what a shadow verb says for a client that it did not offer it to."""

    def refusal(self, words: list[str], second_pattern: re.Pattern[str]) -> str | None:
        """Return the reply to malformed arguments, None (permitted) for all others, without regard to right and order.

        `words` are the arguments, `second_pattern` is the pattern of the second one.
        """
        return None if len(words) == 2 and second_pattern.fullmatch(words[1]) else MALFORMED


class AltersRefusal(ShadowVerbs):
    """Base class of defects that answer malformed arguments with another reply."""

    reply = MALFORMED

    def refusal(self, words: list[str], second_pattern: re.Pattern[str]) -> str | None:
        """Return `reply` for malformed arguments, and the correct refusal, or None for a permitted verb, otherwise."""
        refused = super().refusal(words, second_pattern)
        return self.reply if refused == MALFORMED else refused


@defect("malformed-is-500", breaks="SR-WIR-03", slot="verbs")
class MalformedIs500(AltersRefusal):
    """Answers malformed arguments of a shadow verb with 500."""

    reply = "500 5.5.2 what?"


@defect("out-of-order-is-5.5.4", breaks="SR-WIR-03", slot="verbs")
class OutOfOrderIsMalformed(ShadowVerbs):
    """Answers a shadow verb out of order with 503 and the enhanced status code of malformed arguments."""

    def refusal(self, words: list[str], second_pattern: re.Pattern[str]) -> str | None:
        """Return 503 with the status code 5.5.4 for a command out of order, and the correct refusal or None otherwise."""
        refused = super().refusal(words, second_pattern)
        return "503 5.5.4 out of order" if refused == OUT_OF_ORDER else refused


@defect("malformed-ends-the-session", breaks="SR-WIR-03", slot="receiver")
class MalformedEndsTheSession(Receiver):
    """Closes the session after malformed arguments of a shadow verb."""

    async def push(self, status: str | bytes) -> None:
        """Send a reply, and close the connection after the one to malformed arguments."""
        await super().push(status)
        if status == MALFORMED and self.transport is not None:
            self.transport.close()


@defect("offers-xshadow-to-hubs", breaks="SR-IOP-01", slot="verbs")
class OffersXshadowToHubs(ShadowVerbs):
    """Advertises XSHADOW to a server of Exchange 2010, and never tells it what became of a message."""

    def ehlo_keywords(self) -> list[str]:
        """Return XSHADOW for an Exchange 2010 server, the correct keywords for others."""
        peer: Peer | None = self.session_state.peer
        return ["XSHADOW"] if peer is not None and peer.generation == "ex2010" else super().ehlo_keywords()


@defect("takes-its-time-to-acknowledge", breaks="SR-ENA-02", slot="acceptance")
class DelaysAcknowledgement(Acceptance):
    """Delays the acknowledgement for redundancy's sake though ShadowRedundancyEnabled is false."""

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Wait for 30 seconds before accepting a message when shadow redundancy is disabled."""
        if not self.host.transport.ShadowRedundancyEnabled:
            await asyncio.sleep(30)
        return await super().accept(envelope, content, origin)
