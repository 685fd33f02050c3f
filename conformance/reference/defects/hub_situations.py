"""Defects of Exchange 2010 servers that show only with several messages, recipients or peers, or after a restart.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node that runs as `reference+NAME` has it in
place of the component in its `slot`, and then violates the requirement `breaks`. "Correct" is what the class that it inherits from does;
`self.host` has the other components of the node (host.py).
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
        """Wake the sessions that wait for the delivery of a message after each attempt, though recipients are still pending.

        `_passed_on_events` has an event by row id for each message that is waited for.
        """
        pending = self.host.messages.pending_recipients
        if (event := self._passed_on_events.get(row_id)) is not None and pending(row_id):
            event.set()
        super().release_if_processed(row_id)


@defect("hub-resubmits-one-to-a-new-database", breaks="SR-E10-21", slot="ex2010.manager")
class HubResubmitsOneToANewDatabase(HubManager):
    """Resubmits one shadow for each session in which it sees that a next hop has a new queue database."""

    def promote_if_new_database(self, primary: str, database: str) -> None:
        """Promote the first of the shadows that came from another database of the primary, and record for the others that they did not.

        Correct is to promote all of them.
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
        """Return for a next hop outside of the organisation whether it offers XSHADOW; correct is False."""
        is_stranger = server.casefold() not in self.host.config.peers_by_name
        return "XSHADOW" in dialogue.keywords if is_stranger else super().may_use_xshadow(dialogue, server)
