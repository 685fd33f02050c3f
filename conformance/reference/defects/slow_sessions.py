"""Defects that show only where a session between servers is slow.

A *primary* is a server for which this one keeps copies (shadows) of messages, and which it queries in heartbeat sessions.
*Contact* is a successful session with a primary; after ShadowResubmitTimeSpan without one its shadows are promoted: this server
delivers them itself.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from conformance.reference.defects.defect import defect
from conformance.reference.hub2010.manager import HubManager
from conformance.reference.message import Envelope
from conformance.reference.replies import Reply
from conformance.reference.shadow.shadow_queues import ShadowKeeping


@defect("counts-absence-from-the-request-for-a-copy", breaks="SR-MNT-10", slot="keeping")
class CountsAbsenceFromTheRequest(ShadowKeeping):
    """Counts the absence of a primary from its request for a copy, however long after that the copy comes."""

    async def keep(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> Reply:
        """Store a copy, and set the time of the last contact with its primary back to what it was before; return the reply.

        The alarm for the next heartbeat is set by that time. Correct is that a copy counts as contact. If there was no contact
        before, all is correct. Waits for the disk.
        """
        contact = self.host.shadows.last_contact(primary)
        reply = await super().keep(envelope, content, primary, database, shadow_id)
        if contact is not None:
            self.host.shadows.set_contact(primary, contact)
            self.host.manager.watched[primary].alarm.set(self.host.manager.next_session_at(primary))
        return reply


@defect(
    "hub-takes-a-slow-answer-for-none",
    breaks="SR-E10-08",
    slot="ex2010.manager",
    needs_expectation="no document says how long a sender waits for the answer before it counts as none (ruling 29)",
)
class HubTakesASlowAnswerForNone(HubManager):
    """Counts an interval as failed if the answer to its query takes more than a second."""

    @property
    def reply_timeout(self) -> float:
        """How long to wait for each reply in a heartbeat session: a second; correct is half a minute by default."""
        return 1.0
