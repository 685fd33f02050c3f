"""Shadow creation on the primary: which servers are recorded as holders of a copy (SR-MNT-01)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from conformance.reference.host import Host
from conformance.reference.message import Envelope, Recipient
from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import SessionLost
from tests.reference.hosts import CONTENT, HandClock, add_primary, run_with_host

TAKEN, REFUSED = Reply(250, "2.6.0", "Queued mail for redundancy"), Reply(452, "4.5.3", "too many recipients")


class OtherServer:
    """Stands for a session with a shadow server, which gives these replies to the recipients, or none since the session is lost."""

    def __init__(self, *replies: Reply, outcome_unknown: bool = False) -> None:
        self.replies = replies
        self.outcome_unknown = outcome_unknown

    async def transmit(self, envelope: Envelope, content: bytes, extra: str) -> dict[Recipient, Reply]:
        if not self.replies:
            raise SessionLost("the connection has ended")
        return dict(zip(envelope.recipients, self.replies, strict=True))


@pytest.mark.parametrize(
    ("server", "holders"),
    [
        (OtherServer(TAKEN, REFUSED), ["mbx2"]),
        (OtherServer(REFUSED, REFUSED), []),
        (OtherServer(outcome_unknown=True), ["mbx2"]),
        (OtherServer(), []),
    ],
    ids=["stored-for-some", "refused", "lost-after-the-dot", "lost-before-the-dot"],
)
def test_a_server_that_has_or_may_have_a_copy_is_a_holder_though_the_attempt_failed(
    tmp_path: Path, server: Any, holders: list[str]
):
    async def steps(host: Host, clock: HandClock) -> None:
        message = add_primary(host, "victor@outside.test", "bob@corp.test")
        peer = host.config.peers_by_name["mbx2"]
        with pytest.raises(SessionLost):
            await host.creation.transmit_shadow(peer, message, CONTENT, server)
        assert [holder.server for holder in host.discards.holders_of_shadow(message.id)] == holders
        await asyncio.sleep(0)

    run_with_host(tmp_path, steps)
