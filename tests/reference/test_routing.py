"""Routing between sites: the least-cost route, and where a message for several of them is split (SR-BIF)."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.nodes.configuration import Contract2, Wiring, render
from conformance.reference.config import NodeConfiguration, SiteLink, parse_configuration
from conformance.reference.message import Recipient
from conformance.reference.routing.bifurcation import group_by_next_hop
from conformance.reference.routing.site_routes import common_beginning, least_cost_path, shared_transmissions
from conformance.scenarios.fixtures import load_topology
from conformance.topology import Topology

TOPOLOGIES = Path(__file__).parents[2] / "fixtures" / "topologies"
WIRING = Wiring(listen=lambda server, door: ("127.0.0.1", 2525), dial=lambda *pair: ("127.0.0.1", 2526))


def links(*between: tuple[str, str, int]) -> tuple[SiteLink, ...]:
    return tuple(SiteLink(between=(one, other), cost=cost) for one, other, cost in between)


def configured(topology: Topology, server: str, contract_2: Contract2 | None = None) -> NodeConfiguration:
    document = render(
        topology, topology.by_name[server], WIRING, data_dir=Path("/nowhere"), seed=1, contract_2=contract_2
    )
    return parse_configuration(json.dumps(document))


def hops(config: NodeConfiguration, *addresses: str) -> dict[str, list[str]]:
    found = group_by_next_hop(config, [Recipient(address) for address in addresses])
    return {hop.name: [recipient.address for recipient in members] for hop, members in found.items()}


def test_the_cheaper_route_wins_though_it_has_more_hops():
    known = links(("A", "Z", 30), ("A", "B", 10), ("B", "C", 10), ("C", "Z", 9))
    assert least_cost_path(known, "A", "Z") == ("A", "B", "C", "Z")


def test_at_equal_cost_the_route_with_fewer_hops_wins():
    known = links(("A", "B", 10), ("B", "C", 10), ("C", "Z", 10), ("B", "Z", 20))
    assert least_cost_path(known, "A", "Z") == ("A", "B", "Z")
    late = links(("A", "B", 10), ("B", "C", 10), ("C", "Z", 10), ("A", "D", 25), ("D", "Z", 5))
    assert least_cost_path(late, "A", "Z") == ("A", "D", "Z"), "though the longer one is lower, and found first"


@pytest.mark.parametrize("order", [1, -1])
def test_at_equal_hops_the_alphanumerically_lower_route_wins(order: int):
    known = links(("A", "London", 10), ("London", "Z", 10), ("A", "Dublin", 10), ("Dublin", "Z", 10))[::order]
    assert least_cost_path(known, "A", "Z") == ("A", "Dublin", "Z")


def test_no_route_to_a_site_without_links():
    known = links(("A", "B", 1), ("Y", "X", 1))
    assert least_cost_path(known, "A", "Z") is least_cost_path(known, "A", "X") is None
    assert least_cost_path(known, "A", "B") == ("A", "B")


NETWORKS = st.lists(
    st.tuples(st.sampled_from("ABCDEF"), st.sampled_from("ABCDEF"), st.integers(1, 4)).filter(
        lambda link: link[0] != link[1]
    ),
    max_size=12,
)


def every_route(known: tuple[SiteLink, ...], path: tuple[str, ...], end: str, cost: int = 0):
    if path[-1] == end:
        yield cost, len(path), path
        return
    for link in known:
        for here, there in (link.between, link.between[::-1]):
            if here == path[-1] and there not in path:
                yield from every_route(known, (*path, there), end, cost + link.cost)


@given(NETWORKS)
def test_the_chosen_route_is_the_best_of_all_routes(network: list[tuple[str, str, int]]):
    known = links(*network)
    best = min(every_route(known, ("A",), "F"), default=(0, 0, None))
    assert least_cost_path(known, "A", "F") == best[2]


@pytest.mark.parametrize(
    ("routes", "common"),
    [
        (["ABC", "ABDE"], "AB"),
        (["ABC", "ADC"], "A"),
        (["ABC"], "ABC"),
        (["AB", "ABC"], "AB"),
        (["ABC", "ABD", "AEC"], "A"),
    ],
)
def test_routes_have_in_common_what_comes_before_they_part(routes: list[str], common: str):
    assert common_beginning([tuple(route) for route in routes]) == tuple(common)


def test_without_a_server_at_the_fork_the_message_is_split_before_it():
    paths = [("A", "B", "C", "D"), ("A", "B", "C", "E")]
    assert shared_transmissions(paths, {"C", "D", "E"}) == [(("A", "B", "C"), paths)]
    assert shared_transmissions(paths, {"B", "D", "E"}) == [(("A", "B"), paths)]
    assert shared_transmissions(paths, {"D", "E"}) == [(paths[0], [paths[0]]), (paths[1], [paths[1]])]


def test_routes_that_part_at_a_site_without_a_server_may_go_on_together_behind_it():
    left, right, other = ("A", "B", "C", "D"), ("A", "B", "C", "E"), ("A", "B", "F")
    assert shared_transmissions([left, other, right], {"C", "D", "E", "F"}) == [
        (("A", "B", "C"), [left, right]),
        (other, [other]),
    ]


BIFURCATION = load_topology(TOPOLOGIES / "bifurcation.yaml")


@pytest.mark.parametrize(
    ("sender", "to", "expected"),
    [
        ("mbx1", "heidi", {"mbx5": ["heidi"]}),
        ("mbx1", "grace heidi", {"mbx3": ["grace", "heidi"]}),
        ("mbx3", "grace heidi", {"mbx4": ["grace"], "mbx5": ["heidi"]}),
        ("mbx1", "erin heidi", {"mbx3": ["erin", "heidi"]}),
        ("mbx1", "grace heidi ivan", {"mbx2": ["grace", "heidi", "ivan"]}),
        ("mbx1", "heidi judy", {"mbx5": ["heidi", "judy"]}),
        ("mbx1", "bob heidi", {"mbx1": ["bob"], "mbx5": ["heidi"]}),
    ],
)
def test_recipients_share_a_transmission_up_to_the_last_common_server(sender: str, to: str, expected: dict):
    config = configured(BIFURCATION, sender)
    found = hops(config, *(f"{name}@corp.test" for name in to.split()))
    assert found == {hop: [f"{name}@corp.test" for name in names] for hop, names in expected.items()}


def test_recipients_outside_share_nothing_with_recipients_in_sites():
    found = hops(configured(BIFURCATION, "mbx1"), "heidi@corp.test", "victor@outside.test", "grace@corp.test")
    assert found == {"outside": ["victor@outside.test"], "mbx3": ["heidi@corp.test", "grace@corp.test"]}


def test_the_servers_to_try_for_a_route_go_from_the_mailbox_back_to_the_sender():
    (hop,) = group_by_next_hop(configured(BIFURCATION, "mbx1"), [Recipient("judy@corp.test")])
    assert hop.servers == ("mbx7", "mbx5", "mbx3", "mbx2")


def test_no_delayed_fan_out_where_the_delivery_group_is_a_dag():
    shared = hops(configured(BIFURCATION, "mbx1"), "grace@corp.test", "heidi@corp.test")
    assert shared == {"mbx3": ["grace@corp.test", "heidi@corp.test"]}
    with_dags = BIFURCATION.model_copy(
        update={
            "servers": tuple(
                server.model_copy(update={"dag": f"DAG-{server.name}"}) if server.name in ("mbx4", "mbx5") else server
                for server in BIFURCATION.servers
            )
        }
    )
    found = hops(configured(with_dags, "mbx1"), "grace@corp.test", "heidi@corp.test")
    assert found == {"mbx4": ["grace@corp.test"], "mbx5": ["heidi@corp.test"]}


def test_before_2013_the_closest_transport_server_is_a_hub_of_the_mailbox_servers_site():
    topology = Topology.model_validate(
        {
            "name": "hubs-and-a-mailbox-server",
            "servers": [
                {"name": "hub1", "generation": "ex2010", "role": "hub", "site": "A"},
                {"name": "hub2", "generation": "ex2010", "role": "hub", "site": "B"},
                {"name": "box2", "generation": "ex2010", "role": "mailbox", "site": "B"},
            ],
            "mailboxes": [{"address": "bob@corp.test", "database": "DB1", "server": "box2"}],
            "site-links": [{"between": ["A", "B"], "cost": 1}],
        }
    )
    (hop,) = group_by_next_hop(configured(topology, "hub1"), [Recipient("bob@corp.test")])
    assert hop.servers == ("hub2", "box2")
    (last,) = group_by_next_hop(configured(topology, "hub2"), [Recipient("bob@corp.test")])
    assert (last.kind, last.name) == ("delivery", "box2")


def test_a_route_for_the_mailboxes_own_domain_stands_above_their_site():
    config = configured(load_topology(TOPOLOGIES / "hubs-one-site.yaml"), "hub1")
    assert hops(config, "bob@corp.test") == {"hub2,hub3": ["bob@corp.test"]}
    without_it = config.model_copy(update={"routes": tuple(one for one in config.routes if one.domain != "corp.test")})
    assert hops(without_it, "bob@corp.test") == {"mbx1": ["bob@corp.test"]}


def test_mail_between_sites_passes_through_a_hub_site_on_its_route():
    topology = load_topology(TOPOLOGIES / "bifurcation.yaml").model_copy(update={"hub_sites": ("NewYork", "Madrid")})
    contract_2 = Contract2(1.0, 1, Path("/nowhere/status.json"))
    config = configured(topology, "mbx1", contract_2)
    assert hops(config, "heidi@corp.test") == {"mbx3": ["heidi@corp.test"]}, "New York lies on the route to Dublin"
    at_the_hub = configured(topology, "mbx3", contract_2)
    assert hops(at_the_hub, "heidi@corp.test") == {"mbx5": ["heidi@corp.test"]}, "it goes on from there"
    two_hubs = topology.model_copy(update={"hub_sites": ("NewYork", "Atlanta")})
    for sender, hub in (("mbx1", "mbx2"), ("mbx2", "mbx3")):
        found = hops(configured(two_hubs, sender, contract_2), "heidi@corp.test")
        assert found == {hub: ["heidi@corp.test"]}, "of two hub sites the next one"
    assert hops(config, "erin@corp.test") == {"mbx3": ["erin@corp.test"]}
    assert hops(config, "ivan@corp.test") == {"mbx6": ["ivan@corp.test"]}, "a hub site may be the last one"


@pytest.mark.parametrize(("hosting", "kind"), [("box10", "delivery"), ("mbx13", "transport"), ("mbx16", "transport")])
def test_a_2010_hub_gives_mail_for_a_later_server_of_its_site_to_the_transport_there(hosting: str, kind: str):
    topology = Topology.model_validate(
        {
            "name": "two-generations-in-one-site",
            "servers": [
                {"name": "hub1", "generation": "ex2010", "role": "hub", "site": "A"},
                {"name": "box10", "generation": "ex2010", "role": "mailbox", "site": "A"},
                {"name": "mbx13", "generation": "ex2013", "role": "mailbox", "site": "A"},
                {"name": "mbx16", "generation": "ex2016", "role": "mailbox", "site": "A"},
            ],
            "mailboxes": [{"address": "bob@corp.test", "database": "DB1", "server": hosting}],
        }
    )
    (hop,) = group_by_next_hop(configured(topology, "hub1"), [Recipient("bob@corp.test")])
    assert (hop.kind, hop.name) == (kind, hosting)
