"""Sessions with a mailbox store."""

import asyncio
from pathlib import Path

from conformance.nodes.places import PortLeases
from conformance.reference.host import Host
from conformance.reference.message import Envelope, Recipient
from tests.reference.hosts import CONTENT, HandClock, run_with_host


def test_a_store_that_refuses_the_connection_is_451_and_no_failure_of_the_node(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        leases = PortLeases()
        closed = ("127.0.0.1", leases.lease())
        recipient = Recipient("bob@corp.test")
        envelope = Envelope("alice@outside.test", (recipient,))
        reply = await host.store.transmit_to_store(closed, envelope, recipient, CONTENT)
        assert reply.code == 451
        await asyncio.sleep(0)  # the task that ends the session runs; an exception of it would fail the test
        leases.release()

    run_with_host(tmp_path, steps)
