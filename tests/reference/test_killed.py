"""kill -9 at random moments under load: nothing that was acknowledged is lost, and no discard is told before its time.

The harness's scenarios kill at chosen moments; here the moment is chance. The seed is in the test's id and its report.
"""

import asyncio
import random
from pathlib import Path

import pytest

from tests.reference.two_servers import RECIPIENTS, TwoServers

pytestmark = pytest.mark.integration

QUICK = {"ShadowHeartbeatFrequency": 1.0, "MessageRetryInterval": 0.5, "DuplicateTrackingWindow": 86400.0}
SENDERS = 6


async def killed_under_load(directory: Path, seed: int, kills: int) -> TwoServers:
    chance = random.Random(seed)
    servers = TwoServers(directory, QUICK)
    async with servers.running():
        over = asyncio.Event()

        async def sender(number: int) -> None:
            own = random.Random(f"{seed}:{number}")
            while not over.is_set():
                recipients = tuple(own.sample(RECIPIENTS, own.randint(1, 3)))
                await servers.send(own.choice(("mbx1", "mbx2")), recipients, size=own.choice((500, 5_000, 50_000)))

        async with asyncio.TaskGroup() as group:
            for number in range(SENDERS):
                group.create_task(sender(number))
            for _ in range(kills):
                await asyncio.sleep(chance.uniform(0.02, 0.8))  # the moment is what is tried
                victim = chance.choice(("mbx1", "mbx2"))
                await servers.nodes[victim].kill()
                await servers.start(victim)
            over.set()
        lost = await servers.receivers.wait_for(servers.acknowledged, within=120.0)
        assert not lost, f"seed {seed}: {len(lost)} of {len(servers.acknowledged)} lost, such as {min(lost)}"
    return servers


def shown(servers: TwoServers, record_property) -> None:
    record_property("acknowledged", len(servers.acknowledged))
    record_property("discards", sum(tap.discards for tap in servers.taps.values()))
    print(
        f"{servers.sent} sent, {len(servers.acknowledged)} acknowledged, "
        f"{sum(tap.discards for tap in servers.taps.values())} discards, "
        f"{sum(n - 1 for n in servers.receivers.copies.values())} surplus copies"
    )


@pytest.mark.parametrize("seed", [47])
def test_a_few_kills_lose_no_acknowledged_message(tmp_path: Path, seed: int, record_property):
    servers = asyncio.run(killed_under_load(tmp_path, seed, kills=4))
    shown(servers, record_property)
    assert servers.acknowledged
    assert [shadow for tap in servers.taps.values() for shadow in tap.too_early] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20261121])
def test_two_hundred_kills_lose_no_acknowledged_message(tmp_path: Path, seed: int, record_property):
    servers = asyncio.run(killed_under_load(tmp_path, seed, kills=200))
    shown(servers, record_property)
    assert sum(tap.discards for tap in servers.taps.values()) > 100
    assert [shadow for tap in servers.taps.values() for shadow in tap.too_early] == []
