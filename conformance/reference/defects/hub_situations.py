"""Defects of Exchange 2010 servers that show only with several messages, recipients or peers, or after a restart.

In Exchange 2010 a server keeps the shadow of what it sends to a next hop, the *primary*, until that reports by a discard
notification that it has passed the message on. The reply to a message whose sender keeps no shadow is withheld until its
delivery.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from conformance.reference.defects.defect import defect
from conformance.reference.hub2010.completion import HubCompletion
from conformance.reference.hub2010.manager import HubManager
from conformance.reference.hub2010.outbound import HubOutbound
from conformance.reference.send.dialogue import Dialogue


@defect("hub-acknowledges-after-the-first-next-hop", breaks="SR-E10-15", slot="ex2010.completion")
class HubAcknowledgesAfterTheFirstNextHop(HubCompletion):
    """Withholds a reply until the first of several next hops has the message."""

    def release_if_processed(self, row_id: int) -> None:
        """After each attempt, wake the session that withholds the reply to the message, even if recipients are still pending.

        Then release the message if it is processed, as is correct. `_passed_on_events` has, by row id, the event that the session
        awaits.
        """
        pending = self.host.messages.pending_recipients
        if (event := self._passed_on_events.get(row_id)) is not None and pending(row_id):
            event.set()
        super().release_if_processed(row_id)


@defect("hub-resubmits-one-to-a-new-database", breaks="SR-E10-21", slot="ex2010.manager")
class HubResubmitsOneToANewDatabase(HubManager):
    """Resubmits one shadow for each session in which it sees that a next hop has a new queue database."""

    def promote_if_new_database(self, primary: str, database: str) -> None:
        """Promote the first of the shadows that came from another queue database of the primary than `database`, its present one.

        For the primary's other shadows the present database is recorded, so that they count as held by it. Correct is to promote
        all. Does nothing if the primary named no database ("").
        """
        if database and (orphans := self.host.shadows.rows_of_other_databases(primary, database)):
            self.host.promotion.take_over(orphans[:1])
            self.host.db.write(
                "UPDATE message SET primary_database = ? WHERE place = 'shadow' AND primary_server = ?",
                (database, primary),
            )


@defect(
    "issues-xshadow-to-strangers",
    breaks="SR-E10-19",
    slot="ex2010.outbound",
    needs_expectation="a sink offers it only where a fault alters its reply, and the rule leaves altered sessions out",
)
class IssuesXshadowToStrangers(HubOutbound):
    """Issues XSHADOW to any next hop that advertises it, also to one outside of the organisation, which grants no right."""

    def may_use_xshadow(self, dialogue: Dialogue, server: str) -> bool:
        """Return whether XSHADOW is used with `server`: outside of the organisation if it offers that; else as is correct.

        Correct outside of the organisation is False.
        """
        is_stranger = server.casefold() not in self.host.config.peers_by_name
        return "XSHADOW" in dialogue.keywords if is_stranger else super().may_use_xshadow(dialogue, server)
