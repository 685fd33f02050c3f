"""kill -9 at random moments under load: no acknowledged message is lost, and no discard is sent before delivery.

The harness's scenarios kill at chosen moments; here the moments are random. The seed is in the test's id and its report.
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
    random_moments = random.Random(seed)
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
                await asyncio.sleep(random_moments.uniform(0.02, 0.8))  # a kill at a random moment is tested
                victim = random_moments.choice(("mbx1", "mbx2"))
                await servers.nodes[victim].kill()
                await servers.start(victim)
            over.set()
        lost = await servers.receivers.wait_for(servers.acknowledged, within=120.0)
        assert not lost, f"seed {seed}: {len(lost)} of {len(servers.acknowledged)} lost, such as {min(lost)}"
    return servers


def record_figures(servers: TwoServers, record_property) -> None:
    record_property("acknowledged", len(servers.acknowledged))
    record_property("discards", sum(tap.discards for tap in servers.taps.values()))
    print(
        f"{servers.sent} sent, {len(servers.acknowledged)} acknowledged, "
        f"{sum(tap.discards for tap in servers.taps.values())} discards, "
        f"{sum(n - 1 for n in servers.receivers.copies.values())} surplus copies"
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", [47])
def test_a_few_kills_lose_no_acknowledged_message(tmp_path: Path, seed: int, record_property):
    servers = asyncio.run(killed_under_load(tmp_path, seed, kills=4))
    record_figures(servers, record_property)
    assert servers.acknowledged
    assert sum(tap.discards for tap in servers.taps.values()) > 0
    assert [shadow for tap in servers.taps.values() for shadow in tap.too_early] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20261121])
def test_two_hundred_kills_lose_no_acknowledged_message(tmp_path: Path, seed: int, record_property):
    servers = asyncio.run(killed_under_load(tmp_path, seed, kills=200))
    record_figures(servers, record_property)
    assert sum(tap.discards for tap in servers.taps.values()) > 100
    assert [shadow for tap in servers.taps.values() for shadow in tap.too_early] == []
