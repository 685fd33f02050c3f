"""Defects of the session: its limits, its verbs, and where a message begins and ends."""

import asyncio
import re

from conformance.reference.config import Listener, Peer
from conformance.reference.defects.defect import defect
from conformance.reference.message import Envelope
from conformance.reference.receive.acceptance import Acceptance, MessageOrigin, envelope_of
from conformance.reference.receive.session import Receiver
from conformance.reference.receive.verbs import MALFORMED, OUT_OF_ORDER, ShadowVerbs
from conformance.reference.replies import Reply


@defect("never-ends-an-idle-session", breaks="SR-TMO-06", part="receiver")
class NeverEndsAnIdleSession(Receiver):
    """Lets a client be silent for as long as it likes."""

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Be patient for a year."""
        super()._reset_timeout(365 * 86400.0)


@defect("ends-an-idle-session-early", breaks="SR-TMO-06", part="receiver")
class EndsAnIdleSessionEarly(Receiver):
    """Closes a session that is idle for half of ConnectionInactivityTimeout."""

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Watch too closely."""
        super()._reset_timeout((self._timeout_duration if duration is None else duration) / 2)


@defect("ends-an-idle-session-late", breaks="SR-TMO-06", part="receiver")
class EndsAnIdleSessionLate(Receiver):
    """Closes a session that is idle only after twice ConnectionInactivityTimeout."""

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Wait for too long."""
        super()._reset_timeout((self._timeout_duration if duration is None else duration) * 2)


@defect("never-ends-an-old-session", breaks="SR-TMO-07", part="receiver")
class NeverEndsAnOldSession(Receiver):
    """Lets a session in which data flows go on for ever."""

    @property
    def _expires_at(self) -> float:
        """A moment that does not come."""
        return float(self._started_at + 365 * 86400.0)


@defect("ends-an-old-session-early", breaks="SR-TMO-07", part="receiver")
class EndsAnOldSessionEarly(Receiver):
    """Closes a session after half of ConnectionTimeout."""

    @property
    def _expires_at(self) -> float:
        """A moment that comes too soon."""
        return float(self._started_at + self.limits.connection_timeout / 2)


@defect("drops-the-session-for-an-answer", breaks="SR-CRE-05", part="receiver")
class DropsTheSession(Receiver):
    """Closes the sender's session when the shadow is made, in place of acknowledging the message in it."""

    async def handle_message(self, content: bytes) -> str:
        """Decide, and go away."""
        reply = await super().handle_message(content)
        if self.session_state.listener == "frontend":
            self.abort()
        return reply


@defect(
    "keeps-old-limits-in-open-sessions",
    breaks="SR-TMO-06",
    part="receiver",
    retired="ruling 22: a session that is open may keep the limits that it began with",
)
class KeepsOldLimits(Receiver):
    """Holds a session to the limits that were in force when it began."""

    def apply_limits(self, limits: Listener) -> None:
        """Change nothing."""


@defect("forgets-when-the-sender-is-lost", breaks="SR-TMO-03", part="receiver")
class ForgetsWhenTheSenderIsLost(Receiver):
    """Gives a message up when its sender's session is lost before it is acknowledged."""

    def connection_lost(self, error: Exception | None) -> None:
        """End the work with the session."""
        if self.acceptance_task is not None:
            self.acceptance_task.cancel()
        super().connection_lost(error)


class SwallowsTheSecondTry(Acceptance):
    """Takes a message that began before for delivered: it was given up with its session."""

    def start(self) -> None:
        """Nothing has begun."""
        self.begun: set[str] = set()

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Say yes to what has begun before."""
        key = f"{envelope.reverse_path} {content!r}"
        if key in self.begun:
            return Reply(250, "2.6.0", "the message is here already")
        self.begun.add(key)
        return await super().accept(envelope, content, origin)


@defect("loses-what-lost-its-reply", breaks="RL-ACK-03", part="receiver", also={"acceptance": SwallowsTheSecondTry})
class LosesWhatLostItsReply(ForgetsWhenTheSenderIsLost):
    """Gives a message up with its session, and takes the sender's next try for a duplicate of it."""


@defect("keeps-half-a-message", breaks="RL-ACK-02", part="receiver")
class KeepsHalfAMessage(Receiver):
    """Delivers what it has of a message when the session is lost before the final dot."""

    half: bytearray | None = None

    async def push(self, status: str | bytes) -> None:
        """Begin to collect after 354."""
        await super().push(status)
        if str(status)[:3] == "354":
            self.half = bytearray()

    def data_received(self, data: bytes) -> None:
        """Collect."""
        if self.half is not None:
            self.half += data
        super().data_received(data)

    async def handle_message(self, content: bytes) -> str:
        """The message is whole."""
        self.half = None
        return await super().handle_message(content)

    def connection_lost(self, error: Exception | None) -> None:
        """Take what there is."""
        if self.half is not None:
            taken = envelope_of(str(self.envelope.mail_from), list(self._recipients), self._mail_parameters)
            origin = MessageOrigin(self.session.host_name or "", "local", False, self.loop.time() + 60)
            content = bytes(self.half[: self.half.rfind(b"\r\n") + 2])
            self.host.tasks.start(
                self.host.acceptance.accept(taken, content, origin), f"{self.host.name}: half a message"
            )
        super().connection_lost(error)


@defect("truncates-what-is-too-big", breaks="RL-CNT-02", part="receiver")
class TruncatesWhatIsTooBig(Receiver):
    """Takes a message above the announced SIZE and cuts it."""

    async def smtp_EHLO(self, arg: str) -> None:
        """Announce the limit, and forget it."""
        self.data_size_limit = self.host.transport.MaxMessageSize
        await super().smtp_EHLO(arg)
        self.data_size_limit = 2**40

    async def handle_message(self, content: bytes) -> str:
        """Cut."""
        return await super().handle_message(content[: self.host.transport.MaxMessageSize])


@defect("trace-fields-count", breaks="RL-ACK-04", part="receiver")
class TraceFieldsCount(Receiver):
    """Holds what other servers hand over to the same limit as what comes in, trace fields included."""

    async def smtp_MAIL(self, arg: str | None) -> None:
        """Forget that the message has grown."""
        self.data_size_limit = self.host.transport.MaxMessageSize
        await super().smtp_MAIL(arg)


@defect("refuses-at-the-size-limit", breaks="RL-CNT-02", part="receiver")
class RefusesAtTheSizeLimit(Receiver):
    """Refuses a message that is exactly as large as it announced that it may be."""

    async def smtp_MAIL(self, arg: str | None) -> None:
        """Allow an octet less."""
        self.data_size_limit = self.host.transport.MaxMessageSize - 1
        await super().smtp_MAIL(arg)


@defect("takes-an-octet-too-many", breaks="RL-CNT-02", part="receiver")
class TakesAnOctetTooMany(Receiver):
    """Takes a message that is an octet larger than it announced."""

    async def smtp_MAIL(self, arg: str | None) -> None:
        """Allow an octet more."""
        self.data_size_limit = self.host.transport.MaxMessageSize + 1
        await super().smtp_MAIL(arg)


@defect("takes-any-line-end", breaks="RL-SMG-01", part="receiver")
class TakesAnyLineEnd(Receiver):
    """Takes a bare LF or CR for a line end, also around the final dot."""

    def data_received(self, data: bytes) -> None:
        """Mend the line ends."""
        super().data_received(re.sub(rb"\r\n|\r|\n", b"\r\n", data))


class Everywhere(ShadowVerbs):
    """The verbs, offered at every door."""

    def ehlo_keywords(self) -> list[str]:
        """Return the keyword for everybody."""
        return ["XSHADOWREQUEST"]


@defect("offers-shadowing-at-the-front-door", breaks="SR-WIR-01", part="verbs")
class OffersAtTheFrontDoor(Everywhere):
    """Advertises XSHADOWREQUEST on the frontend too."""


@defect("takes-what-it-did-not-offer", breaks="SR-WIR-02", part="verbs")
class TakesWhatItDidNotOffer(ShadowVerbs):
    """Does what a shadow verb says for a client that it did not offer it to."""

    def refusal(self, words: list[str], second: re.Pattern[str]) -> str | None:
        """Refuse only what cannot be read."""
        return None if len(words) == 2 and second.fullmatch(words[1]) else MALFORMED


class RefusesOtherwise(ShadowVerbs):
    """What the defects below share: another reply to malformed arguments."""

    reply = MALFORMED

    def refusal(self, words: list[str], second: re.Pattern[str]) -> str | None:
        """Refuse in other words."""
        refused = super().refusal(words, second)
        return self.reply if refused == MALFORMED else refused


@defect("malformed-is-500", breaks="SR-WIR-03", part="verbs")
class MalformedIs500(RefusesOtherwise):
    """Answers malformed arguments of a shadow verb with 500."""

    reply = "500 5.5.2 what?"


@defect("out-of-order-is-5.5.4", breaks="SR-WIR-03", part="verbs")
class OutOfOrderIsMalformed(ShadowVerbs):
    """Answers a shadow verb out of order with 503 and the enhanced status code of malformed arguments."""

    def refusal(self, words: list[str], second: re.Pattern[str]) -> str | None:
        """Tell the wrong one."""
        refused = super().refusal(words, second)
        return "503 5.5.4 out of order" if refused == OUT_OF_ORDER else refused


@defect("malformed-ends-the-session", breaks="SR-WIR-03", part="receiver")
class MalformedEndsTheSession(Receiver):
    """Closes the session after malformed arguments of a shadow verb."""

    async def push(self, status: str | bytes) -> None:
        """Answer, and leave where it was malformed."""
        await super().push(status)
        if status == MALFORMED and self.transport is not None:
            self.transport.close()


@defect("offers-xshadow-to-hubs", breaks="SR-IOP-01", part="verbs")
class OffersXshadowToHubs(ShadowVerbs):
    """Advertises XSHADOW to a server of Exchange 2010, and never tells it what became of a message."""

    def ehlo_keywords(self) -> list[str]:
        """Return the old verb for old servers."""
        peer: Peer | None = self.session_state.peer
        return ["XSHADOW"] if peer is not None and peer.generation == "ex2010" else super().ehlo_keywords()


@defect("takes-its-time-to-acknowledge", breaks="SR-ENA-02", part="acceptance")
class TakesItsTime(Acceptance):
    """Delays the acknowledgement for redundancy's sake though ShadowRedundancyEnabled is false."""

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Wait half a minute where nothing is to be waited for."""
        if not self.host.transport.ShadowRedundancyEnabled:
            await asyncio.sleep(30)
        return await super().accept(envelope, content, origin)
