"""Configuration is checked, not guessed (SR-CFG-01 to SR-CFG-03)."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from conformance.nodes.configuration import Contract2, Wiring, render
from conformance.parameters import DEFAULTS, LISTENER_LIMITS, TIME_PARAMETERS
from conformance.reference.config import DEFAULT_TIMES, ConfigurationError, parse_configuration
from conformance.reference.routing.next_hop import find_next_hop
from conformance.scenarios.fixtures import load_topology
from conformance.topology import Server, Topology

TOPOLOGIES = Path(__file__).parents[2] / "fixtures" / "topologies"


def document(
    topology: Topology | None = None,
    server: Server | None = None,
    contract_2: Contract2 | None = None,
    *,
    defaults: bool = True,
) -> dict:
    """Return the configuration of a server, by default of the first one of a DAG of two sites, and of contract 1."""
    topology = topology or load_topology(TOPOLOGIES / "cross-site-dag.yaml")
    wiring = Wiring(listen=lambda server, door: ("127.0.0.1", 2525), dial=lambda *pair: ("127.0.0.1", 2526))
    return render(
        topology, server or topology.servers[0], wiring, data_dir=Path("/nowhere"), seed=1, contract_2=contract_2,
        defaults=defaults,
    )  # fmt: skip


@pytest.mark.parametrize("path", sorted(TOPOLOGIES.glob("*.yaml")), ids=lambda path: path.stem)
@pytest.mark.parametrize("contract_2", [None, Contract2(60.0, 3, Path("/nowhere/status.json"))], ids=["1", "2"])
@pytest.mark.parametrize("defaults", [True, False], ids=["with-defaults", "without-defaults"])
def test_a_configuration_that_the_harness_renders_is_accepted(path: Path, contract_2: Contract2 | None, defaults: bool):
    topology = load_topology(path)
    for server in topology.servers:
        given = document(topology, server, contract_2, defaults=defaults)
        config = parse_configuration(json.dumps(given))
        assert (config.name, config.role) == (server.name, server.role)
        assert (config.contract, config.scale) == ((1, 1.0) if contract_2 is None else (2, 60.0))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"transport": {"ShadowHeartbeatFrequency": -1}}, ["ShadowHeartbeatFrequency"]),
        ({"transport": {"RejectMessageOnShadowFailure": "maybe"}}, ["RejectMessageOnShadowFailure"]),
        ({"transport": {"Bogus": 1}}, ["Bogus"]),
        (
            {"transport": {"Bogus": 1, "MaxMessageSize": 1, "ShadowHeartbeatFrequency": -1}},
            ["Bogus", "MaxMessageSize", "ShadowHeartbeatFrequency"],
        ),
        (
            {"transport": {"ShadowMessagePreferenceSetting": "LocalOnly"}},
            ["ShadowMessagePreferenceSetting", "MaxRetriesForRemoteSiteShadow"],
        ),
        (
            {"listeners": {"frontend": {"port": 25, "connection_timeout": 60, "connection_inactivity_timeout": 60}}},
            ["connection_timeout", "connection_inactivity_timeout"],
        ),
        (
            {"transport": {"Bogus": 1}, "listeners": {"frontend": {"port": 70000}}, "seed": "1"},
            ["transport.Bogus", "listeners.frontend.port", "seed"],
        ),
    ],
)
def test_a_refusal_names_every_parameter(change: dict, named: list[str]):
    with pytest.raises(ConfigurationError) as refused:
        parse_configuration(json.dumps({**document(), **change}))
    assert all(name in str(refused.value) for name in named)
    assert "\n" not in str(refused.value)


CONTRACT_2 = {"contract": 2, "scale": 60, "revision": 1, "status_file": "/nowhere/status.json"}


def test_an_omitted_time_is_the_documented_default_divided_by_the_scale():
    given = document() | CONTRACT_2
    given["transport"] = {"MessageRetryInterval": 1}
    given["listeners"] = {"frontend": {"port": 25}, "transport": {"port": 26, "connection_timeout": 7}}
    config = parse_configuration(json.dumps(given))
    assert config.transport.MessageRetryInterval == 1
    assert config.transport.ShadowHeartbeatFrequency == 2
    assert config.transport.ShadowHeartbeatTimeoutInterval == 5
    assert DEFAULT_TIMES.keys() == TIME_PARAMETERS - set(LISTENER_LIMITS[""])
    omitted = DEFAULT_TIMES.keys() - {"MessageRetryInterval"}
    assert {name: getattr(config.transport, name) for name in omitted} == {
        name: DEFAULTS[name] / 60 for name in omitted
    }
    assert config.transport.MaxRetriesForRemoteSiteShadow == 4
    on_edge = parse_configuration(json.dumps(given | {"role": "edge"}))
    for listeners, age, idleness in ((config.listeners, 10, 5), (on_edge.listeners, 5, 1)):
        assert listeners.frontend is not None
        assert listeners.transport is not None
        limits = [
            (one.connection_timeout, one.connection_inactivity_timeout)
            for one in (listeners.frontend, listeners.transport)
        ]
        assert limits == [(age, idleness), (7, idleness)]


@pytest.mark.parametrize("key", sorted(set(CONTRACT_2) - {"contract"}))
def test_a_file_of_contract_1_has_no_key_of_contract_2(key: str):
    assert CONTRACT_2.keys() == {"contract", *(field.name for field in fields(Contract2))}, "these are all keys"
    parse_configuration(json.dumps(document() | CONTRACT_2))
    with pytest.raises(ConfigurationError, match=f"{key}: unknown in contract 1"):
        parse_configuration(json.dumps(document() | {key: CONTRACT_2[key]}))


@pytest.mark.parametrize("hub", [True, False])
def test_a_site_of_contract_1_has_no_key_hub(hub: bool):
    given = document()
    names = {site["name"] for site in given["sites"]}
    given["sites"] = [{**site, "hub": hub} for site in given["sites"]]
    with pytest.raises(ConfigurationError, match=r"sites\.hub: unknown in contract 1"):
        parse_configuration(json.dumps(given))
    assert parse_configuration(json.dumps(given | CONTRACT_2)).hub_sites == (names if hub else set())


def test_a_configuration_with_the_names_of_peers_in_another_letter_case_is_the_same():
    """Holders, notifications and contacts are in the database under the name of an earlier configuration."""
    given = document()
    respelled = {**given, "peers": [{**peer, "name": peer["name"].upper()} for peer in given["peers"]]}
    config, again = parse_configuration(json.dumps(given)), parse_configuration(json.dumps(respelled))
    assert given["peers"] != respelled["peers"]
    assert (again.peers, again.mailboxes, again.routes) == (config.peers, config.mailboxes, config.routes)


@pytest.mark.parametrize("peers", [{}, "", None, 5, {"name": "mbx2"}, ["mbx2"]])
def test_peers_of_another_type_are_refused(peers: object):
    with pytest.raises(ConfigurationError, match=r"peers(\.0)?: Input should be"):
        parse_configuration(json.dumps({**document(), "peers": peers}))


@pytest.mark.parametrize("in_file", [str, str.upper, str.capitalize], ids=["lower", "upper", "capitalized"])
@pytest.mark.parametrize("spelled", [str, str.upper, str.capitalize], ids=["lower", "upper", "capitalized"])
def test_servers_of_mailboxes_and_routes_are_found_in_any_letter_case(
    in_file: Callable[[str], str], spelled: Callable[[str], str]
):
    given = document()
    given["peers"] = [{**peer, "name": in_file(peer["name"])} for peer in given["peers"]]
    given["mailboxes"] = [{**mailbox, "server": spelled(mailbox["server"])} for mailbox in given["mailboxes"]]
    hop = {"name": spelled("mbx2"), "protocol": "smtp", "dial": ["127.0.0.1", 25]}
    given["routes"] = [{"domain": "legacy.test", "next_hops": [hop]}]
    config = parse_configuration(json.dumps(given))
    assert {mailbox.server for mailbox in config.mailboxes} >= {"mbx1", "mbx2"}
    hops = [find_next_hop(config, mailbox.address) for mailbox in config.mailboxes]
    assert [(hop.kind, hop.name) for hop in hops] == [
        ("mailbox" if mailbox.server == "mbx1" else "delivery", mailbox.server) for mailbox in config.mailboxes
    ]
    assert find_next_hop(config, "victor@legacy.test").name == "mbx2"


def test_a_route_for_exactly_the_domain_comes_before_mailboxes_and_the_route_for_all_domains_does_not():
    given = document()
    hop = {"protocol": "smtp", "dial": ["127.0.0.1", 25]}
    given["routes"] = [{"domain": "*", "next_hops": [{"name": "all", **hop}]}]
    addresses = (
        "bob@corp.test", "dave@corp.test", "unknown@corp.test", "victor@outside.test", "erin@sub.corp.test",
        "frank@mycorp.test", "grace@corp.test.example",
    )  # fmt: skip
    config = parse_configuration(json.dumps(given))
    found = [find_next_hop(config, address) for address in addresses]
    assert [(one.kind, one.name) for one in found] == [
        ("mailbox", "mbx1"), ("delivery", "mbx2"), ("nowhere", "no such mailbox"), *[("outside", "all")] * 4,
    ]  # fmt: skip
    given["routes"].append({"domain": "Corp.test", "next_hops": [{"name": "own", **hop}]})
    config = parse_configuration(json.dumps(given))
    assert [find_next_hop(config, address).name for address in addresses] == ["own"] * 3 + ["all"] * 4
