"""Defects of a session as a server: its timeouts, lost connections, size limits, line ends and shadow verbs.

A node has up to three listeners: `frontend` (clients and the Internet), `transport` (other servers, which may use the shadow verbs)
and `delivery` (LMTP). `push` sends a reply; `data_received` and `connection_lost` are called by asyncio; methods named `smtp_VERB` and
`handle_message`, after the final dot, by aiosmtpd.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
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
        """Restart the idle timer with a year, whatever `duration` (seconds) is; called whenever octets are received."""
        super()._reset_timeout(365 * 86400.0)


@defect("ends-an-idle-session-early", breaks="SR-TMO-06", slot="receiver")
class EndsAnIdleSessionEarly(Receiver):
    """Closes a session that is idle for half of ConnectionInactivityTimeout."""

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Restart the idle timer with half of `duration` (seconds), or for None of the configured time; called when octets come."""
        super()._reset_timeout((self._timeout_duration if duration is None else duration) / 2)


@defect("ends-an-idle-session-late", breaks="SR-TMO-06", slot="receiver")
class EndsAnIdleSessionLate(Receiver):
    """Closes a session that is idle only after twice ConnectionInactivityTimeout."""

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Restart the idle timer with twice `duration` (seconds), or for None the configured time; called when octets come."""
        super()._reset_timeout((self._timeout_duration if duration is None else duration) * 2)


@defect("never-ends-an-old-session", breaks="SR-TMO-07", slot="receiver")
class NeverEndsAnOldSession(Receiver):
    """Lets a session in which data flows go on for ever."""

    @property
    def _expires_at(self) -> float:
        """The event loop's time at which the session ends: a year after it began."""
        return float(self._started_at + 365 * 86400.0)


@defect("ends-an-old-session-early", breaks="SR-TMO-07", slot="receiver")
class EndsAnOldSessionEarly(Receiver):
    """Closes a session after half of ConnectionTimeout."""

    @property
    def _expires_at(self) -> float:
        """The event loop's time at which the session ends: half of ConnectionTimeout after it began."""
        return float(self._started_at + self.limits.connection_timeout / 2)


@defect("drops-the-session-for-an-answer", breaks="SR-CRE-05", slot="receiver")
class DropsTheSession(Receiver):
    """Closes the sender's session when the shadow is made, in place of acknowledging the message in it."""

    async def handle_message(self, content: bytes) -> str:
        """Accept or refuse a message, and on the frontend listener drop the connection before the reply, which is returned, is sent."""
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
        """Do nothing: the time limits that a reload has changed do not apply to this session, which was open before."""


@defect(
    "forgets-when-the-sender-is-lost",
    breaks="SR-TMO-03",
    slot="receiver",
    needs_expectation="the sender is lost before the copy is stored: until then a server may give an unacknowledged message up",
)
class ForgetsWhenTheSenderIsLost(Receiver):
    """Gives a message up when its sender's session is lost before it is acknowledged."""

    def connection_lost(self, error: Exception | None) -> None:
        """When the session is lost, cancel the task that accepts or refuses the message in hand, if any; it should go on."""
        if self.acceptance_task is not None:
            self.acceptance_task.cancel()
        super().connection_lost(error)


class SwallowsTheSecondTry(Acceptance):
    """Takes a message that began before for delivered: it was given up with its session."""

    def start(self) -> None:
        """Begin with no message known; `begun` has sender and content of each whose acceptance has begun, finished or not."""
        self.begun: set[str] = set()

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Accept a message; return 250 without storing it if its acceptance has begun before, even if it was not finished."""
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
        """Acknowledge a stored message correctly; or, if its session was lost, delete it and return 451, which the sender will not see.

        Waits for the disk in both cases.
        """
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
        """When the session is lost, have the message in hand dropped (`abandon`); correct is to go on with its acceptance."""
        self.abandon()
        super().connection_lost(error)

    def abandon(self) -> None:
        """Have `DropsWhatLostItsSender` drop the message whose acceptance is under way, if there is one.

        A server of 2010 has an acceptance of its own, which drops nothing.
        """
        acceptance = self.host.acceptance
        if isinstance(acceptance, DropsWhatLostItsSender):
            acceptance.abandoned.add(self.acceptance_task)


@defect("keeps-half-a-message", breaks="RL-ACK-02", slot="receiver")
class KeepsHalfAMessage(Receiver):
    """Delivers what it has of a message when the session is lost before the final dot."""

    collected: bytearray | None = None

    async def push(self, status: str | bytes) -> None:
        """Send a reply; if it is 354, begin to collect the octets that follow, which are the content."""
        await super().push(status)
        if str(status)[:3] == "354":
            self.collected = bytearray()

    def data_received(self, data: bytes) -> None:
        """Collect the received octets if they follow 354 and the content has not ended; then handle them as is correct."""
        if self.collected is not None:
            self.collected += data
        super().data_received(data)

    async def handle_message(self, content: bytes) -> str:
        """Forget what was collected, since the message is complete, and accept or refuse it; return the reply."""
        self.collected = None
        return await super().handle_message(content)

    def _set_post_data_state(self) -> None:
        """Forget what was collected, since the mail transaction has ended, also with a refusal of the content; end it correctly."""
        self.collected = None
        super()._set_post_data_state()

    def connection_lost(self, error: Exception | None) -> None:
        """When the session is lost amid a message's content, accept the complete lines collected so far as a message, in the background."""
        if self.collected is not None:
            envelope = envelope_of(str(self.envelope.mail_from), list(self._recipients), self._mail_parameters)
            # not from the organisation, and to be answered within a minute
            origin = MessageOrigin(
                hello=self.session.host_name or "",
                address="local",
                from_organisation=False,
                deadline=self.loop.time() + 60,
            )
            complete, line_end, _ = self.collected.rpartition(b"\r\n")
            content = bytes(complete + line_end)
            self.host.tasks.start(
                self.host.acceptance.accept(envelope, content, origin), f"{self.host.name}: half a message"
            )
        super().connection_lost(error)


@defect("adds-recipients-of-the-message-before", breaks="RL-CNT-01", slot="receiver")
class AddsFormerRecipients(Receiver):
    """Passes the second message of a session on to the recipients of the first too."""

    former: tuple[Recipient, ...] = ()

    async def handle_message(self, content: bytes) -> str:
        """Add, on the frontend listener, the recipients of earlier messages of this session; then accept or refuse the message.

        Return the reply.
        """
        if self.session_state.listener == "frontend":
            known = {recipient.address for recipient in self._recipients}
            self._recipients += [one for one in self.former if one.address not in known]
            self.former = tuple(self._recipients)
        return await super().handle_message(content)


@defect("truncates-what-is-too-big", breaks="RL-CNT-02", slot="receiver")
class TruncatesWhatIsTooBig(Receiver):
    """Takes a message above the announced SIZE and cuts it."""

    async def smtp_EHLO(self, arg: str) -> None:
        """Handle EHLO, whose reply announces MaxMessageSize, and then accept content of any size."""
        self.data_size_limit = self.host.transport.MaxMessageSize
        await super().smtp_EHLO(arg)
        self.data_size_limit = 2**40

    async def handle_message(self, content: bytes) -> str:
        """Accept or refuse a message, cut to MaxMessageSize octets; return the reply. Correct is to refuse a larger one."""
        return await super().handle_message(content[: self.host.transport.MaxMessageSize])


@defect("trace-fields-count", breaks="RL-ACK-04", slot="receiver")
class TraceFieldsCount(Receiver):
    """Holds what other servers hand over to the same limit as what comes in, trace fields included."""

    async def smtp_MAIL(self, arg: str | None) -> None:
        """Handle MAIL, and limit the content to MaxMessageSize also on the transport listener.

        Messages of other servers have grown by trace fields, which correctly do not count (TRACE_ROOM in receive/session.py).
        """
        self.data_size_limit = self.host.transport.MaxMessageSize
        await super().smtp_MAIL(arg)


@defect("refuses-at-the-size-limit", breaks="RL-CNT-02", slot="receiver")
class RefusesAtTheSizeLimit(Receiver):
    """Refuses a message that is exactly as large as it announced that it may be."""

    async def smtp_MAIL(self, arg: str | None) -> None:
        """Handle MAIL, and limit the content to one octet less than the announced MaxMessageSize."""
        self.data_size_limit = self.host.transport.MaxMessageSize - 1
        await super().smtp_MAIL(arg)


@defect("takes-an-octet-too-many", breaks="RL-CNT-02", slot="receiver")
class TakesAnOctetTooMany(Receiver):
    """Takes a message that is an octet larger than it announced."""

    async def smtp_MAIL(self, arg: str | None) -> None:
        """Handle MAIL, and limit the content to one octet more than the announced MaxMessageSize."""
        self.data_size_limit = self.host.transport.MaxMessageSize + 1
        await super().smtp_MAIL(arg)


@defect("takes-any-line-end", breaks="RL-SMG-01", slot="receiver")
class TakesAnyLineEnd(Receiver):
    """Takes a bare LF or CR for a line end, also around the final dot."""

    def data_received(self, data: bytes) -> None:
        """Handle received octets with each bare CR and LF replaced by CR LF, so that they end lines; correct is to leave them."""
        super().data_received(re.sub(rb"\r\n|\r|\n", b"\r\n", data))


class OffersOnEveryListener(ShadowVerbs):
    """Shadow verbs that are offered on every listener."""

    def ehlo_keywords(self) -> list[str]:
        """Return the keyword XSHADOWREQUEST for the EHLO reply, whatever listener and rights the session has."""
        return ["XSHADOWREQUEST"]


@defect("offers-shadowing-at-the-front-door", breaks="SR-WIR-01", slot="verbs")
class OffersAtTheFrontDoor(OffersOnEveryListener):
    """Advertises XSHADOWREQUEST on the frontend too."""


@defect("takes-what-it-did-not-offer", breaks="SR-WIR-02", slot="verbs")
class TakesWhatItDidNotOffer(ShadowVerbs):
    """Does what a shadow verb says for a client that it did not offer it to."""

    def refusal(self, words: list[str], second_pattern: re.Pattern[str]) -> str | None:
        """Return the refusal of malformed arguments, None (permitted) for all others, whatever rights and order of commands are.

        `words` are the arguments of a shadow verb, `second_pattern` is the pattern of the second one.
        """
        return None if len(words) == 2 and second_pattern.fullmatch(words[1]) else MALFORMED


class AltersRefusal(ShadowVerbs):
    """Base class of defects that answer malformed arguments with another reply."""

    reply = MALFORMED

    def refusal(self, words: list[str], second_pattern: re.Pattern[str]) -> str | None:
        """Return `reply` for a shadow verb with malformed arguments `words`, otherwise the correct refusal, or None: permitted.

        `second_pattern` is the pattern of the second argument.
        """
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
        """Return 503 5.5.4 for a shadow verb out of order (correct is 503 5.5.1), otherwise the correct refusal, or None: permitted.

        `words` are the arguments, `second_pattern` is the pattern of the second one.
        """
        refused = super().refusal(words, second_pattern)
        return "503 5.5.4 out of order" if refused == OUT_OF_ORDER else refused


@defect("malformed-ends-the-session", breaks="SR-WIR-03", slot="receiver")
class MalformedEndsTheSession(Receiver):
    """Closes the session after malformed arguments of a shadow verb."""

    async def push(self, status: str | bytes) -> None:
        """Send a reply, and close the connection after the one that refuses malformed arguments of a shadow verb."""
        await super().push(status)
        if status == MALFORMED and self.transport is not None:
            self.transport.close()


@defect("offers-xshadow-to-hubs", breaks="SR-IOP-01", slot="verbs")
class OffersXshadowToHubs(ShadowVerbs):
    """Advertises XSHADOW to a server of Exchange 2010, and never tells it what became of a message."""

    def ehlo_keywords(self) -> list[str]:
        """Return, for the EHLO reply, XSHADOW if the client is an Exchange 2010 server, else the correct keywords."""
        peer: Peer | None = self.session_state.peer
        return ["XSHADOW"] if peer is not None and peer.generation == "ex2010" else super().ehlo_keywords()


@defect("takes-its-time-to-acknowledge", breaks="SR-ENA-02", slot="acceptance")
class DelaysAcknowledgement(Acceptance):
    """Delays the acknowledgement for redundancy's sake though ShadowRedundancyEnabled is false."""

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Accept a message, 30 seconds after it was received if shadow redundancy is disabled; return the reply."""
        if not self.host.transport.ShadowRedundancyEnabled:
            await asyncio.sleep(30)
        return await super().accept(envelope, content, origin)
