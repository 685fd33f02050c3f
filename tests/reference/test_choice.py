"""Which servers are asked to keep a shadow, and how often (SR-PRF)."""

import json
import random
from pathlib import Path

import pytest

from conformance.nodes.configuration import Wiring, render
from conformance.reference.config import NodeConfiguration, parse
from conformance.reference.shadow.choice import attempts
from conformance.scenarios.fixtures import load_topology

TOPOLOGIES = Path(__file__).parents[2] / "fixtures" / "topologies"


def configured(topology: str, **changes: object) -> NodeConfiguration:
    read = load_topology(TOPOLOGIES / f"{topology}.yaml")
    wiring = Wiring(listen=lambda server, door: ("127.0.0.1", 2525), dial=lambda *pair: ("127.0.0.1", 2526))
    first = read.servers[0]
    return parse(json.dumps(render(read, first, wiring, data_dir=Path("/nowhere"), seed=1, changes=changes)))


def sites(config: NodeConfiguration, down: frozenset[str] = frozenset()) -> list[str]:
    return ["local" if peer.site == config.site else "remote" for peer in attempts(config, down, random.Random(7))]


def test_prefer_remote_tries_four_remote_and_two_local_servers_all_different():
    config = configured("cross-site-dag")
    chosen = attempts(config, frozenset(), random.Random(7))
    assert sites(config) == ["remote"] * 4 + ["local"] * 2
    assert len({peer.name for peer in chosen}) == 6


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ShadowMessagePreferenceSetting": "LocalOnly", "MaxRetriesForRemoteSiteShadow": 0}, ["local"] * 2),
        ({"ShadowMessagePreferenceSetting": "RemoteOnly"}, ["remote"] * 4),
        ({"MaxRetriesForRemoteSiteShadow": 1, "MaxRetriesForLocalSiteShadow": 0}, ["remote"]),
    ],
)
def test_preference_and_limits_are_kept(changes: dict, expected: list[str]):
    assert sites(configured("cross-site-dag", **changes)) == expected


@pytest.mark.parametrize("preference", ["PreferRemote", "RemoteOnly"])
def test_within_one_site_the_preference_is_ignored(preference: str):
    config = configured("three-servers-one-dag", ShadowMessagePreferenceSetting=preference)
    assert sites(config) == ["local", "local"]


def test_a_server_known_to_be_down_is_tried_last():
    config = configured("three-servers-one-dag")
    for seed in range(20):
        assert [peer.name for peer in attempts(config, frozenset({"mbx2"}), random.Random(seed))] == ["mbx3", "mbx2"]


def test_alone_there_is_nobody_to_ask():
    assert attempts(configured("single-server"), frozenset(), random.Random(7)) == []
