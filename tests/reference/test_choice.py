"""Which servers are asked to keep a shadow, in which order, and how often (SR-PRF)."""

import asyncio
import itertools
import random
from collections import Counter
from pathlib import Path

import pytest

from conformance.reference.config import NodeConfiguration
from conformance.reference.shadow.choice import servers_to_try
from tests.reference.hosts import configured, open_host


def sites(config: NodeConfiguration, down: frozenset[str] = frozenset()) -> list[str]:
    return [
        "local" if peer.site == config.site else "remote" for peer in servers_to_try(config, down, random.Random(7))
    ]


def test_prefer_remote_tries_four_remote_and_two_local_servers_all_different():
    config = configured("cross-site-dag")
    chosen = servers_to_try(config, frozenset(), random.Random(7))
    assert sites(config) == ["remote"] * 4 + ["local"] * 2
    assert len({peer.name for peer in chosen}) == 6


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ShadowMessagePreferenceSetting": "LocalOnly", "MaxRetriesForRemoteSiteShadow": 0}, ["local"] * 2),
        (
            {
                "ShadowMessagePreferenceSetting": "LocalOnly", "MaxRetriesForRemoteSiteShadow": 0,
                "MaxRetriesForLocalSiteShadow": 1,
            },
            ["local"],
        ),
        ({"ShadowMessagePreferenceSetting": "RemoteOnly"}, ["remote"] * 4),
        ({"ShadowMessagePreferenceSetting": "RemoteOnly", "MaxRetriesForRemoteSiteShadow": 3}, ["remote"] * 3),
        ({"MaxRetriesForRemoteSiteShadow": 1, "MaxRetriesForLocalSiteShadow": 0}, ["remote"]),
        ({"MaxRetriesForRemoteSiteShadow": 3, "MaxRetriesForLocalSiteShadow": 1}, ["remote"] * 3 + ["local"]),
    ],
)  # fmt: skip
def test_preference_and_limits_are_applied(changes: dict, expected: list[str]):
    assert sites(configured("cross-site-dag", **changes)) == expected


@pytest.mark.parametrize(
    ("preference", "across_sites"),
    [("PreferRemote", ["remote", "local", "local"]), ("RemoteOnly", ["remote"]), ("LocalOnly", ["local", "local"])],
)
def test_within_one_site_the_preference_is_ignored(preference: str, across_sites: list[str]):
    changes = {
        "ShadowMessagePreferenceSetting": preference,
        "MaxRetriesForRemoteSiteShadow": across_sites.count("remote"),  # LocalOnly permits none
    }
    assert sites(configured("three-servers-one-dag", **changes)) == ["local", "local"]
    assert sites(configured("cross-site-dag", **changes)) == across_sites


def test_a_server_known_to_be_down_is_tried_last_of_its_group():
    """One group are the servers of this site, the other those of all other sites."""

    def orders(config: NodeConfiguration, *down: str) -> set[tuple[str, ...]]:
        tried = [servers_to_try(config, frozenset(down), random.Random(seed)) for seed in range(20)]
        return {tuple(peer.name for peer in peers) for peers in tried}

    here = configured("three-servers-one-dag")
    assert orders(here, "mbx2") == {("mbx3", "mbx2")}
    assert orders(here, "mbx3") == {("mbx2", "mbx3")}
    assert orders(here) == {("mbx2", "mbx3"), ("mbx3", "mbx2")}
    remote = ("mbx4", "mbx5", "mbx6", "mbx7", "mbx8")
    across_sites = orders(configured("cross-site-dag", MaxRetriesForRemoteSiteShadow=5), "mbx2", "mbx5", "mbx8")
    assert {order[:3] for order in across_sites} <= set(itertools.permutations(("mbx4", "mbx6", "mbx7")))
    assert {frozenset(order[:5]) for order in across_sites} == {frozenset(remote)}
    assert {order[5:] for order in across_sites} == {("mbx3", "mbx2")}


def test_a_single_server_has_no_candidates():
    assert servers_to_try(configured("single-server"), frozenset(), random.Random(7)) == []


def test_the_load_is_spread_over_the_members_of_the_other_site():
    chance, config = random.Random(1), configured("cross-site-dag")
    first = Counter(servers_to_try(config, frozenset(), chance)[0].name for _ in range(400))
    assert first.keys() == {peer.name for peer in config.peers if peer.site != config.site and peer.role == "mailbox"}
    assert min(first.values()) > 50


def test_a_limit_above_the_number_of_servers_asks_them_in_turn():
    limits = {"MaxRetriesForRemoteSiteShadow": 12, "MaxRetriesForLocalSiteShadow": 5}
    chosen = servers_to_try(configured("cross-site-dag", **limits), frozenset(), random.Random(1))
    names = [peer.name for peer in chosen]
    remote, local = names[:12], names[12:]
    assert set(remote[:5]) == {"mbx4", "mbx5", "mbx6", "mbx7", "mbx8"}
    assert remote == [*remote[:5], *remote[:5], *remote[:2]]
    assert set(local[:2]) == {"mbx2", "mbx3"}
    assert local == [*local[:2], *local[:2], local[0]]


@pytest.mark.parametrize("heartbeat", [120.0, 30.0])
def test_a_server_that_failed_is_tried_last_until_it_answers_or_a_heartbeat_has_passed(
    tmp_path: Path, heartbeat: float
):
    async def steps() -> None:
        config = configured("three-servers-one-dag", ShadowHeartbeatFrequency=heartbeat)
        async with open_host(tmp_path, config) as (host, clock):
            host.choice.record_failure("mbx2")
            assert [host.choice.servers_to_try()[0].name for _ in range(10)] == ["mbx3"] * 10
            clock.advance(heartbeat - 1)
            assert host.choice.unresponsive_servers() == frozenset({"mbx2"})
            clock.advance(1)
            assert {host.choice.servers_to_try()[0].name for _ in range(30)} == {"mbx2", "mbx3"}
            host.choice.record_failure("mbx2")
            assert host.choice.unresponsive_servers() == frozenset({"mbx2"})
            host.manager.record_contact("mbx2")
            assert {host.choice.servers_to_try()[0].name for _ in range(30)} == {"mbx2", "mbx3"}

    asyncio.run(steps())
