"""Keeping shadow copies for other servers (SR-CRE-04, SR-CRE-11)."""

from conformance.reference.headers import internet_message_id
from conformance.reference.message import Envelope, drafted
from conformance.reference.part import Part
from conformance.reference.replies import Reply


class ShadowKeeping(Part):
    """Stores what a primary asks us to keep, once."""

    async def keep(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> Reply:
        """Store a shadow copy, and acknowledge it once it is on disk (SR-CRE-04)."""
        host = self.host
        host.manager.saw_database(primary, database)
        if host.shadows.find(primary, database, shadow_id) is None:
            self.store(envelope, content, primary, database, shadow_id)
        await host.db.durable()
        host.manager.watch(primary)
        host.log.info("%s shadow kept for %s", shadow_id, primary)
        return Reply(250, "2.6.0", f"<{internet_message_id(content) or shadow_id}> Queued mail for redundancy")

    def store(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> None:
        """Put the copy into the shadow queue."""
        host = self.host
        shadow = drafted(
            content,
            envelope,
            message_id=host.identity.next(),
            since=host.now(),
            place="shadow",
            shadow_id=shadow_id,
            primary=primary,
            database=database,
        )
        host.messages.add(shadow, content)
        host.safety_net.wind()
