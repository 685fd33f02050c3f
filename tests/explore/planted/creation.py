"""Planted mistakes in making shadows, as a primary and as the server that keeps them."""

from collections import Counter

from conformance.reference.config import Peer
from conformance.reference.host import Host
from conformance.reference.message import Message
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.shadow.creation import ShadowCreation
from tests.explore.planted.mistake import plant


@plant(
    "second-refusal-counts-as-stored",
    about="shadow creation",
    scenario="whatever-breaks-on-the-way-to-the-shadow-server[fault=none,reject=yes]",
    pair=("mbx1>mbx2 DATA 1 answered 421", "mbx1>mbx2 DATA 2 answered 421"),
    slot="creation",
)
class SecondRefusalCountsAsStored(ShadowCreation):
    """Takes a message for redundant once two sessions have been lost, or refused the shadow, after their EHLO."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._failed: Counter[str] = Counter()
        self._latest: Dialogue | None = None

    def new_dialogue(self, peer: Peer) -> Dialogue:
        self._latest = super().new_dialogue(peer)
        return self._latest

    async def try_server(self, peer: Peer, message: Message, content: bytes) -> bool:
        stored = await super().try_server(peer, message, content)
        if not stored and self._latest is not None and self._latest.keywords:
            self._failed[message.message_id] += 1
        return stored or self._failed[message.message_id] == 2
