"""Defects of the Shadow Redundancy Manager: asking, letting go, and taking over."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from conformance.reference.defects.defect import defect
from conformance.reference.host import Host
from conformance.reference.message import Message
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.shadow.manager import ShadowRedundancyManager
from conformance.reference.shadow.shadow_queues import Promotion
from conformance.reference.storage.database import Database
from conformance.reference.storage.identity import Identity


@defect("asks-in-no-other-session", breaks="SR-MNT-02", part="manager")
class AsksInNoOtherSession(ShadowRedundancyManager):
    """Asks for discard status by heartbeat only, and in no session that is open anyway."""

    async def query_in_session(self, primary: str, dialogue: Dialogue) -> None:
        """Ask nothing."""


@defect("heartbeat-too-slow", breaks="SR-MNT-03", part="manager")
class HeartbeatTooSlow(ShadowRedundancyManager):
    """Sends its heartbeat at one and a half times ShadowHeartbeatFrequency."""

    def next_heartbeat_at(self, primary: str) -> float:
        """Return a later moment."""
        right = super().next_heartbeat_at(primary)
        return right + self.host.transport.ShadowHeartbeatFrequency / 2


@defect("stops-asking-after-a-failed-heartbeat", breaks="SR-MNT-03", part="manager")
class StopsAsking(ShadowRedundancyManager):
    """Sends no heartbeat any more to a primary that did not answer one."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.silent: set[str] = set()

    def heartbeat_failed(self, primary: str) -> None:
        """Note it."""
        self.silent.add(primary)
        super().heartbeat_failed(primary)

    def next_heartbeat_at(self, primary: str) -> float:
        """Return a moment that does not come."""
        return super().next_heartbeat_at(primary) + (10 * 365 * 86400 if primary in self.silent else 0)


@defect("keeps-what-is-discarded", breaks="SR-MNT-06", part="manager")
class KeepsWhatIsDiscarded(ShadowRedundancyManager):
    """Leaves a message in the shadow queue when its discard notification comes."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Do nothing."""


@defect("drops-what-is-discarded", breaks="SR-MNT-06", part="manager")
class DropsWhatIsDiscarded(ShadowRedundancyManager):
    """Deletes a discarded shadow in place of moving it to its Safety Net."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Forget the copy."""
        if (found := self.host.shadows.find(primary, database, shadow_id)) is not None:
            self.host.messages.drop(found[0])


@defect("unknown-discard-ends-the-heartbeat", breaks="SR-WIR-06", part="manager")
class UnknownDiscardEndsTheHeartbeat(ShadowRedundancyManager):
    """Breaks a session off when it is told to discard what it does not know."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Insist on knowing."""
        if self.host.shadows.find(primary, database, shadow_id) is None:
            raise SessionLost(f"unknown shadow {shadow_id}")
        super().discard_shadow(primary, database, shadow_id)


@defect("unknown-discard-discards-all", breaks="SR-WIR-06", part="manager")
class UnknownDiscardDiscardsAll(ShadowRedundancyManager):
    """Lets go of all shadows of a primary when it is told to discard one that it does not know."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Take it to mean everything."""
        if self.host.shadows.find(primary, database, shadow_id) is not None:
            super().discard_shadow(primary, database, shadow_id)
            return
        for row in self.host.shadows.rows_held_for(primary):
            self.host.safety_net.hold(row, "shadow-safety-net")


@defect("promotes-at-double-the-time", breaks="SR-MNT-09", part="manager")
class PromotesAtDouble(ShadowRedundancyManager):
    """Promotes itself after twice ShadowResubmitTimeSpan."""

    def promotion_at(self, primary: str) -> float:
        """Return a later moment."""
        return super().promotion_at(primary) + self.host.transport.ShadowResubmitTimeSpan


@defect("never-promotes", breaks="SR-OUT-05", part="manager")
class NeverPromotes(ShadowRedundancyManager):
    """Never promotes itself because of time."""

    def promotion_at(self, primary: str) -> float:
        """Return a moment that does not come."""
        return super().promotion_at(primary) + 10 * 365 * 86400


@defect("promotes-at-half-the-time", breaks="SR-MNT-10", part="manager")
class PromotesAtHalf(ShadowRedundancyManager):
    """Promotes itself after half of ShadowResubmitTimeSpan."""

    def promotion_at(self, primary: str) -> float:
        """Return an earlier moment."""
        return super().promotion_at(primary) - self.host.transport.ShadowResubmitTimeSpan / 2


@defect("interval-never-starts-again", breaks="SR-MNT-10", part="manager")
class IntervalNeverStartsAgain(ShadowRedundancyManager):
    """Counts ShadowResubmitTimeSpan from the first session with a primary, not from the last."""

    def record_contact(self, primary: str) -> None:
        """Note nothing but the first time."""
        if self.host.shadows.last_contact(primary) is None:
            super().record_contact(primary)

    def next_session_at(self, primary: str) -> float:
        """Ask as often as is right, also when the interval is long over."""
        return self.next_heartbeat_at(primary)


@defect("ignores-a-new-database", breaks="SR-MNT-11", part="manager")
class IgnoresANewDatabase(ShadowRedundancyManager):
    """Does not notice that a primary's queue database is another one."""

    def compare_database(self, primary: str, database: str) -> None:
        """Note nothing."""


@defect("takes-its-time-over-a-new-database", breaks="SR-OUT-02", part="manager")
class TakesItsTime(ShadowRedundancyManager):
    """Takes over for a new database only half an hour after it has seen it."""

    def compare_database(self, primary: str, database: str) -> None:
        """Wait with what is to be done."""
        late = super().compare_database
        if database and self.host.shadows.rows_of_other_databases(primary, database):
            self.host.alarms.new(lambda: late(primary, database)).set(self.host.now() + 1800)


@defect("new-database-under-the-old-name", breaks="SR-OUT-07", part="identity")
class NewDatabaseUnderTheOldName(Identity):
    """Gives a new queue database the id that the server's old one had."""

    def __init__(self, db: Database, *, directory: Path, seed: int, name: str, now: float) -> None:
        super().__init__(db, directory=directory, seed=seed, name=name, now=now)
        self.database = f"database-of-{name}"


@defect("any-failed-heartbeat-promotes", breaks="SR-OUT-06", part="manager")
class AnyFailedHeartbeatPromotes(ShadowRedundancyManager):
    """Takes over at the first heartbeat that a primary does not answer."""

    def heartbeat_failed(self, primary: str) -> None:
        """Wait for nothing more."""
        self.host.promotion.take_over(self.host.shadows.rows_held_for(primary))


@defect("one-loss-counts-for-all", breaks="SR-MNT-13", part="promotion")
class OneLossCountsForAll(Promotion):
    """Takes all shadows over when one primary is lost."""

    def take_over(self, rows: Sequence[int]) -> None:
        """Take the others' too."""
        super().take_over([message.id for message in self.host.messages.in_place("shadow")])


@defect("takes-over-the-first-only", breaks="SR-OUT-08", part="promotion")
class TakesOverTheFirstOnly(Promotion):
    """Takes one message of a lost primary over, and drops the others."""

    def take_over(self, rows: Sequence[int]) -> None:
        """Leave out all but one."""
        super().take_over(rows[:1])
        for row in rows[1:]:
            self.host.messages.drop(row)


@defect("forgets-what-it-took-over", breaks="SR-OUT-01", part="promotion")
class ForgetsWhatItTookOver(Promotion):
    """When it restarts, drops messages that it took over and has not passed on yet."""

    def start(self) -> None:
        """Drop them."""
        for message in list(self.host.messages.in_place("primary")):
            if message.resubmitted:
                self.host.messages.drop(message.id)

    def start_processing(self, message: Message) -> None:
        """Mark it."""
        self.host.db.write("UPDATE message SET resubmitted = 1 WHERE id = ?", (message.id,))
        super().start_processing(message)


@defect("takes-over-twice", breaks="SR-OUT-08", part="promotion")
class TakesOverTwice(Promotion):
    """Sends every message that it takes over a second time."""

    def start_processing(self, message: Message) -> None:
        """Send a twin after it."""
        host = self.host
        twin = replace(message, id=0, message_id=host.identity.new_id(), shadow_id=host.identity.new_id())
        again = host.messages.add(twin, host.messages.content(message.id))
        super().start_processing(message)
        host.delivery.start_processing(again)


@defect("resubmits-what-was-discarded", breaks="SR-MNT-15", part="manager")
class ResubmitsWhatWasDiscarded(ShadowRedundancyManager):
    """After a restart takes discarded shadows for shadows of a lost primary."""

    def start(self) -> None:
        """Take over what is in the shadow Safety Net."""
        super().start()
        self.host.promotion.take_over([message.id for message in self.host.messages.in_place("shadow-safety-net")])
