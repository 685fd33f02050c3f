"""Defects that show only after a restart: what counts from the start, what is kept in memory only, what is not taken up again.

A *primary* is a server for which this one holds copies (shadows) of messages; it sends heartbeats to each, and watches how long
ago the last successful session was. A *holder* is a server that has the shadow of a message of this one. `start` is called at
each start of the node.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from conformance.reference.defects.defect import defect
from conformance.reference.message import Place
from conformance.reference.queue.delivery import Delivery
from conformance.reference.safety_net import SafetyNet
from conformance.reference.shadow.manager import ShadowRedundancyManager
from conformance.reference.storage.shadows import Shadows


class HoldsAnewFromTheStart(SafetyNet):
    """Base class of defects that count the hold time of messages in one place (`counted_anew`) from the start of the server."""

    counted_anew: Place

    def start(self) -> None:
        """Record that the messages in the place `counted_anew` have come there now, at the start of the node; then start as is correct."""
        self.host.db.write("UPDATE message SET since = ? WHERE place = ?", (self.host.now(), self.counted_anew))
        super().start()


@defect(
    "restart-renews-shadows",
    breaks="SR-SFN-03",
    slot="safety_net",
    needs_expectation="the rule adds half an hour for a clean-up whose interval no document gives",
)
class RestartRenewsShadows(HoldsAnewFromTheStart):
    """Counts the hold time of shadows that are never acknowledged from its last start."""

    counted_anew = "shadow"


@defect("restart-watches-one-primary", breaks="SR-MNT-03", slot="manager")
class RestartWatchesOnePrimary(ShadowRedundancyManager):
    """After a restart sends heartbeats to one of the primaries for which it holds shadows."""

    def start(self) -> None:
        """Watch, from the start of the node, only the first by name of the primaries for which shadows are held; correct is all of them."""
        for primary in self.host.shadows.primaries()[:1]:
            self.watch(primary, since=self.host.shadows.last_contact(primary))


@defect("restart-watches-at-the-next-copy", breaks="SR-MNT-03", slot="manager")
class RestartWatchesAtTheNextCopy(ShadowRedundancyManager):
    """After a restart sends no heartbeat to a primary before a new copy comes from it."""

    def start(self) -> None:
        """Do nothing at the start of the node: no primary is watched; correct is to watch each for which shadows are held."""


@defect("restart-forgets-heartbeats", breaks="SR-MNT-10", slot="shadows")
class RestartForgetsHeartbeats(Shadows):
    """Keeps in memory only when a heartbeat succeeded: restarted, it counts a primary's absence from an earlier session."""

    def set_contact(self, primary: str, at: float, *, alone: bool = False) -> None:
        """Record a successful session with a primary at `at` (POSIX seconds); during a heartbeat (`alone`) in memory only, not on disk."""
        if alone:
            self._contacts[primary] = at
        else:
            super().set_contact(primary, at)


@defect("restart-forgets-who-holds-shadows", breaks="SR-MNT-01", slot="delivery")
class RestartForgetsWhoHoldsShadows(Delivery):
    """Keeps in memory only which server has the shadow of a queued message: delivered after a restart, it is not reported."""

    def start(self) -> None:
        """Delete, at the start of the node, all records of which server holds the shadow of which message; then resume all messages."""
        self.host.db.write("DELETE FROM holder")
        super().start()


@defect("restart-resumes-twenty-messages", breaks="RL-ACK-01", slot="delivery")
class RestartResumesTwentyMessages(Delivery):
    """After a restart takes up the first twenty queued messages, and leaves the others in the database."""

    def start(self) -> None:
        """Start processing the first twenty primary messages, those that this server must deliver; correct is all of them."""
        for message in [*self.host.messages.held_as("primary")][:20]:
            self.start_processing(message)


@defect("restart-sends-to-all-again", breaks="RL-ACK-04", slot="delivery")
class RestartSendsToAllAgain(Delivery):
    """After a restart tries all recipients of a queued message, also those that were reached before."""

    def start(self) -> None:
        """Mark, at the start of the node, all recipients of queued messages as pending, also those reached; then resume the messages."""
        self.host.db.write(
            "UPDATE recipient SET fate = 'pending', crossed = 0"
            " WHERE message IN (SELECT id FROM message WHERE place = 'primary')"
        )
        super().start()


@defect(
    "restart-drops-old-mail",
    breaks="SR-OUT-03",
    slot="delivery",
)
class RestartDropsOldMail(Delivery):
    """At a start drops queued messages that are older than ShadowResubmitTimeSpan, as their shadow servers will have sent them."""

    def start(self) -> None:
        """Delete, at the start of the node, messages that were queued longer ago than ShadowResubmitTimeSpan; then resume the others."""
        latest = self.host.now() - self.host.transport.ShadowResubmitTimeSpan
        for message in [*self.host.messages.held_as("primary")]:
            if message.since < latest:
                self.host.messages.drop(message.id)
        super().start()


@defect(
    "new-database-known-by-queries-only",
    breaks="SR-MNT-11",
    slot="manager",
    needs_expectation="whether a holder has read the name in a request of its primary does not show before its next heartbeat",
)
class NewDatabaseKnownByQueriesOnly(ShadowRedundancyManager):
    """Compares a primary's queue database in replies to XQDISCARD only, not in the primary's own requests."""

    def record_contact_and_database(self, primary: str, database: str) -> None:
        """Record contact with a primary; promote the shadows from another database of it only if a heartbeat to it is under way.

        Otherwise the database is passed on as "", as if the primary had named none.
        """
        watch = self.watched.get(primary)
        super().record_contact_and_database(primary, database if watch is not None and watch.heartbeat_running else "")
