"""Making a message redundant: its shadow is stored on another server before anybody is told that we have it."""

import asyncio

from conformance.reference.config import Peer
from conformance.reference.host import Host
from conformance.reference.message import Envelope
from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.shadow.choice import attempts
from conformance.reference.shadow.manager import ShadowRedundancyManager

MARGIN = 5.0
"""Seconds before the receiving session's ConnectionTimeout at which the effort to make a shadow ends."""


class ShadowCreation:
    """Tries one server after another until one has stored the copy (SR-CRE-01, SR-PRF-07)."""

    def __init__(self, host: Host, manager: ShadowRedundancyManager) -> None:
        self._host = host
        self._manager = manager
        self._down: set[str] = set()

    async def make(
        self, shadow_id: str, envelope: Envelope, content: bytes, deadline: float | None
    ) -> list[tuple[str, bool]]:
        """Return who holds the shadow, as (server, acknowledged); servers whose reply was lost may hold one.

        `deadline` is the loop's time at which the effort ends at the latest.
        """
        holders: dict[str, bool] = {}
        if not self._host.transport.ShadowRedundancyEnabled:
            return []
        try:
            async with asyncio.timeout_at(deadline):
                for peer in attempts(self._host.config, frozenset(self._down), self._host.random):
                    holders.setdefault(peer.name, False)
                    if await self._attempt(peer, shadow_id, envelope, content, holders):
                        break
        except TimeoutError:
            self._host.log.warning("%s shadow: the time for making one is over", shadow_id)
        return list(holders.items())

    async def _attempt(
        self, peer: Peer, shadow_id: str, envelope: Envelope, content: bytes, holders: dict[str, bool]
    ) -> bool:
        host = self._host
        assert peer.dial.transport is not None
        try:
            async with Dialogue(peer.dial.transport, host.config.name, _idle(host)) as dialogue:
                if "XSHADOWREQUEST" not in dialogue.keywords:
                    del holders[peer.name]
                    raise SessionLost("it offers no XSHADOWREQUEST")
                answer = await dialogue.command(f"XSHADOWREQUEST {host.config.name} {host.identity.database}")
                if not answer.positive:
                    del holders[peer.name]
                    raise SessionLost(f"it answered XSHADOWREQUEST with {answer}")
                self._manager.saw_database(peer.name, _named_database(answer))
                replies = set((await dialogue.transmit(envelope, content, f" XSHADOW={shadow_id}")).values())
                stored = all(reply.positive for reply in replies)
                if not stored:
                    del holders[peer.name]
                    raise SessionLost(f"it would not keep the shadow: {next(iter(replies))}")
                holders[peer.name] = True
                await self._manager.query_in(peer.name, dialogue)
        except SessionLost as lost:
            if not holders.get(peer.name, False):
                self._down.add(peer.name)
                host.log.warning("%s shadow: attempt at %s failed: %s", shadow_id, peer.name, lost)
                return False
        self._down.discard(peer.name)
        host.log.info("%s shadow: stored by %s", shadow_id, peer.name)
        return True


def _idle(host: Host) -> float:
    return host.transport.SendConnectionInactivityTimeout


def _named_database(answer: Reply) -> str:
    """Return the database that a peer names in its 250 to XSHADOWREQUEST: `<server> <database>`."""
    words = answer.text.split()
    return words[1] if len(words) > 1 else ""
