"""Defects of a shadow server: how it keeps copies, asks the primary about them, discards them, and takes over.

A shadow is a copy of a message for which another server, its *primary*, is responsible; `database` is the id of the primary's queue
database, `shadow_id` the id that it gave the copy. A discard notification of the primary says that a shadow is not needed any more. To
promote shadows, or take them over, is to make them messages of this server, which then delivers them.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from conformance.reference.defects.defect import defect
from conformance.reference.headers import internet_message_id
from conformance.reference.host import Host
from conformance.reference.message import Envelope, Message, new_message
from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.shadow.manager import ShadowRedundancyManager
from conformance.reference.shadow.shadow_queues import Promotion, ShadowKeeping
from conformance.reference.storage.database import Database
from conformance.reference.storage.identity import Identity


@defect("shadow-in-memory", breaks="SR-CRE-04", slot="keeping")
class ShadowInMemory(ShadowKeeping):
    """Acknowledges a shadow copy that it writes to disk only a minute later."""

    async def keep(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> Reply:
        """Return the acknowledgement of a shadow copy at once, and store the copy 60 seconds later. Correct is 250 once it is on disk."""
        keep = super().keep
        asyncio.get_running_loop().call_later(
            60,
            lambda: self.host.tasks.start(
                keep(envelope, content, primary, database, shadow_id), f"{self.host.name}: write {shadow_id}"
            ),
        )
        return Reply(250, "2.6.0", f"<{shadow_id}> Queued mail for redundancy")


@defect("forgets-shadows-on-restart", breaks="SR-CRE-04", slot="manager")
class ForgetsShadowsOnRestart(ShadowRedundancyManager):
    """Clears its shadow queue when it starts."""

    def start(self) -> None:
        """Delete, at the start of the node, the shadows that are held for all primaries; correct is to delete none."""
        for message in list(self.host.messages.held_as("shadow")):
            self.host.messages.drop(message.id)
        super().start()


@defect("delivers-its-shadows", breaks="SR-CRE-11", slot="keeping")
class DeliversItsShadows(ShadowKeeping):
    """Delivers a shadow copy as soon as it has it, while the primary lives."""

    async def keep(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> Reply:
        """Store a shadow copy, and start to deliver a message with its content under a new id; return the reply."""
        reply = await super().keep(envelope, content, primary, database, shadow_id)
        host = self.host
        copy = new_message(content, envelope, message_id=host.identity.new_id(), since=host.now())
        host.delivery.start_processing(host.messages.add(copy, content))
        return reply


@defect("keeps-a-shadow-for-some", breaks="SR-OUT-01", slot="keeping")
class KeepsAShadowForSome(ShadowKeeping):
    """Keeps the shadow for the first of several recipients only."""

    def store(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> None:
        """Store the shadow with its first recipient only; `database` is the id of the primary's queue database."""
        super().store(envelope.for_recipients(envelope.recipients[:1]), content, primary, database, shadow_id)


@defect("one-shadow-for-equal-messages", breaks="SR-TMO-05", slot="keeping")
class OneShadowForEqualMessages(ShadowKeeping):
    """Keeps one copy of messages with the same Message-ID, and lets it go with the first notification."""

    def store(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> None:
        """Store a shadow copy unless one with the same Message-ID is held, even if that is of another message."""
        name = internet_message_id(content)
        if all(message.internet_id != name for message in self.host.messages.held_as("shadow")):
            super().store(envelope, content, primary, database, shadow_id)


@defect("asks-in-no-other-session", breaks="SR-MNT-02", slot="manager")
class AsksInNoOtherSession(ShadowRedundancyManager):
    """Asks for discard status by heartbeat only, and in no session that is open anyway."""

    async def query_in_session(self, primary: str, dialogue: Dialogue) -> None:
        """Send no query for discard status (XQDISCARD) in a session with a primary that is open for mail."""


@defect("heartbeat-too-slow", breaks="SR-MNT-03", slot="manager")
class HeartbeatTooSlow(ShadowRedundancyManager):
    """Sends its heartbeat at one and a half times ShadowHeartbeatFrequency."""

    def next_heartbeat_at(self, primary: str) -> float:
        """Return when the next heartbeat to a primary is due (POSIX seconds): the correct time plus half of ShadowHeartbeatFrequency."""
        correct = super().next_heartbeat_at(primary)
        return correct + self.host.transport.ShadowHeartbeatFrequency / 2


@defect("stops-asking-after-a-failed-heartbeat", breaks="SR-MNT-03", slot="manager")
class StopsAsking(ShadowRedundancyManager):
    """Sends no heartbeat any more to a primary that did not answer one."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.silent: set[str] = set()  # names of primaries

    def heartbeat_failed(self, primary: str) -> None:
        """After a failed heartbeat, remember that the primary did not answer, and promote its shadows if that is due."""
        self.silent.add(primary)
        super().heartbeat_failed(primary)

    def next_heartbeat_at(self, primary: str) -> float:
        """Return when the next heartbeat to a primary is due (POSIX seconds): ten years late if it has ever failed to answer one."""
        return super().next_heartbeat_at(primary) + (10 * 365 * 86400 if primary in self.silent else 0)


@defect("keeps-what-is-discarded", breaks="SR-MNT-06", slot="manager")
class KeepsWhatIsDiscarded(ShadowRedundancyManager):
    """Leaves a message in the shadow queue when its discard notification comes."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Ignore a discard notification: the shadow stays in its queue. Correct is to move it to the shadow Safety Net."""


@defect("drops-what-is-discarded", breaks="SR-MNT-06", slot="manager")
class DropsWhatIsDiscarded(ShadowRedundancyManager):
    """Deletes a discarded shadow in place of moving it to its Safety Net."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Delete the shadow that a discard notification names; correct is to move it to the shadow Safety Net. Ignore an unknown id."""
        if (stored := self.host.shadows.find_by_shadow_id(primary, database, shadow_id)) is not None:
            self.host.messages.drop(stored.row_id)


@defect("unknown-discard-ends-the-heartbeat", breaks="SR-WIR-06", slot="manager")
class UnknownDiscardEndsTheHeartbeat(ShadowRedundancyManager):
    """Breaks a session off when a discard notification names a message that it does not know."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Discard the shadow that a notification names. Raises SessionLost, which ends the session, for one that is not held."""
        if self.host.shadows.find_by_shadow_id(primary, database, shadow_id) is None:
            raise SessionLost(f"unknown shadow {shadow_id}")
        super().discard_shadow(primary, database, shadow_id)


@defect("unknown-discard-discards-all", breaks="SR-WIR-06", slot="manager")
class UnknownDiscardDiscardsAll(ShadowRedundancyManager):
    """Discards all shadows of a primary when a discard notification names one that it does not know."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Discard the shadow that a notification names, or all shadows of the primary if that one is not held."""
        if self.host.shadows.find_by_shadow_id(primary, database, shadow_id) is not None:
            super().discard_shadow(primary, database, shadow_id)
            return
        for row in self.host.shadows.rows_held_for(primary):
            self.host.safety_net.hold(row, "shadow-safety-net")


@defect("promotes-at-double-the-time", breaks="SR-MNT-09", slot="manager")
class PromotesAtDouble(ShadowRedundancyManager):
    """Promotes itself after twice ShadowResubmitTimeSpan."""

    def promotion_at(self, primary: str) -> float:
        """Return when the shadows of a primary are promoted (POSIX seconds): the correct time plus one more ShadowResubmitTimeSpan."""
        return super().promotion_at(primary) + self.host.transport.ShadowResubmitTimeSpan


@defect("never-promotes", breaks="SR-OUT-05", slot="manager")
class NeverPromotes(ShadowRedundancyManager):
    """Never promotes itself because of time."""

    def promotion_at(self, primary: str) -> float:
        """Return when the shadows of a primary are promoted (POSIX seconds): ten years after the correct time."""
        return super().promotion_at(primary) + 10 * 365 * 86400


@defect("promotes-at-half-the-time", breaks="SR-MNT-10", slot="manager")
class PromotesAtHalf(ShadowRedundancyManager):
    """Promotes itself after half of ShadowResubmitTimeSpan."""

    def promotion_at(self, primary: str) -> float:
        """Return when the shadows of a primary are promoted (POSIX seconds): the correct time minus half of ShadowResubmitTimeSpan."""
        return super().promotion_at(primary) - self.host.transport.ShadowResubmitTimeSpan / 2


@defect("interval-never-starts-again", breaks="SR-MNT-10", slot="manager")
class IntervalNeverStartsAgain(ShadowRedundancyManager):
    """Counts ShadowResubmitTimeSpan from the first session with a primary, not from the last."""

    def record_contact(self, primary: str) -> None:
        """Record the first successful session with a primary (`last_contact` is None before it), and do nothing at later ones."""
        if self.host.shadows.last_contact(primary) is None:
            super().record_contact(primary)

    def next_session_at(self, primary: str) -> float:
        """Return when the next heartbeat is due (POSIX seconds), even if promotion is due sooner.

        The correct class returns the earlier of the two. Here promotion stays overdue, so that heartbeats would follow without a pause.
        """
        return self.next_heartbeat_at(primary)


@defect("ignores-a-new-database", breaks="SR-MNT-11", slot="manager")
class IgnoresANewDatabase(ShadowRedundancyManager):
    """Does not notice that a primary's queue database is another one."""

    def promote_if_new_database(self, primary: str, database: str) -> None:
        """Ignore the id of the primary's queue database; correct is to promote the shadows that came from another one (SR-MNT-11)."""


@defect("takes-its-time-over-a-new-database", breaks="SR-OUT-02", slot="manager")
class DelaysTakeover(ShadowRedundancyManager):
    """Takes over for a new database only half an hour after it has seen it."""

    def promote_if_new_database(self, primary: str, database: str) -> None:
        """Promote the shadows that came from another database of the primary 30 minutes after the new one was seen.

        `database` is "" if the primary named none: then nothing is done.
        """
        compare = super().promote_if_new_database
        if database and self.host.shadows.rows_of_other_databases(primary, database):
            self.host.alarms.new(lambda: compare(primary, database)).set(self.host.now() + 1800)


@defect("new-database-under-the-old-name", breaks="SR-OUT-07", slot="identity")
class NewDatabaseUnderTheOldName(Identity):
    """Gives a new queue database the id that the server's old one had."""

    def __init__(self, db: Database, *, directory: Path, seed: int, name: str, now: float) -> None:
        """Begin as is correct, but with an id of the database that is made of the server's name only, and so never changes."""
        super().__init__(db, directory=directory, seed=seed, name=name, now=now)
        self.database = f"database-of-{name}"


@defect("any-failed-heartbeat-promotes", breaks="SR-OUT-06", slot="manager")
class AnyFailedHeartbeatPromotes(ShadowRedundancyManager):
    """Takes over at the first heartbeat that a primary does not answer."""

    def heartbeat_failed(self, primary: str) -> None:
        """Promote all shadows of a primary at the first failed heartbeat; correct is after ShadowResubmitTimeSpan without contact."""
        self.host.promotion.take_over(self.host.shadows.rows_held_for(primary))


@defect("one-loss-counts-for-all", breaks="SR-MNT-13", slot="promotion")
class OneLossCountsForAll(Promotion):
    """Takes all shadows over when one primary is lost."""

    def take_over(self, rows: Sequence[int]) -> None:
        """Promote the shadows of all primaries, not only those with the row ids `rows`."""
        super().take_over([message.id for message in self.host.messages.held_as("shadow")])


@defect("takes-over-the-first-only", breaks="SR-OUT-08", slot="promotion")
class TakesOverTheFirstOnly(Promotion):
    """Takes one message of a lost primary over, and drops the others."""

    def take_over(self, rows: Sequence[int]) -> None:
        """Promote the first of the shadows with these row ids, and delete the others; correct is to promote all of them."""
        super().take_over(rows[:1])
        for row in rows[1:]:
            self.host.messages.drop(row)


@defect("forgets-what-it-took-over", breaks="SR-OUT-01", slot="promotion")
class ForgetsWhatItTookOver(Promotion):
    """When it restarts, drops messages that it took over and has not passed on yet."""

    def start(self) -> None:
        """Delete, at the start of the node, the messages that were taken over before and are not processed.

        `start_processing` has marked them as `resubmitted`; messages that Safety Net sent again have that mark too.
        """
        for message in list(self.host.messages.held_as("primary")):
            if message.resubmitted:
                self.host.messages.drop(message.id)

    def start_processing(self, message: Message) -> None:
        """Start to deliver a promoted message, marked in the database as `resubmitted`, by which `start` knows it after a restart."""
        self.host.db.write("UPDATE message SET resubmitted = 1 WHERE id = ?", (message.id,))
        super().start_processing(message)


@defect("takes-over-twice", breaks="SR-OUT-08", slot="promotion")
class TakesOverTwice(Promotion):
    """Sends every message that it takes over a second time."""

    def start_processing(self, message: Message) -> None:
        """Start to deliver a promoted message, and a copy of it under a new id."""
        host = self.host
        copy = replace(message, id=0, message_id=host.identity.new_id(), shadow_id=host.identity.new_id())
        queued_copy = host.messages.add(copy, host.messages.content(message.id))
        super().start_processing(message)
        host.delivery.start_processing(queued_copy)


@defect("resubmits-what-was-discarded", breaks="SR-MNT-15", slot="manager")
class ResubmitsWhatWasDiscarded(ShadowRedundancyManager):
    """After a restart takes discarded shadows for shadows of a lost primary."""

    def start(self) -> None:
        """Start, and promote all messages that are in the shadow Safety Net, though their primaries have processed them."""
        super().start()
        self.host.promotion.take_over([message.id for message in self.host.messages.held_as("shadow-safety-net")])
