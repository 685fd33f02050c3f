"""The topologies: each is the world that scenarios take it for."""

import pytest

from conformance import paths
from conformance.scenarios.fixtures import fixture_names, load_topology
from conformance.topology import Topology

FOLDER = paths.fixtures() / "topologies"


def world(name: str) -> Topology:
    return load_topology(FOLDER / f"{name}.yaml")


@pytest.mark.parametrize(
    ("name", "boundaries"),
    [
        ("single-server", [{"mbx1"}]),
        ("relay", [{"mta1"}]),
        ("two-servers-one-dag", [{"mbx1", "mbx2"}]),
        ("three-servers-one-dag", [{"mbx1", "mbx2", "mbx3"}]),
        ("one-site-no-dag", [{"mbx1", "mbx2", "mbx3"}]),
        ("two-sites-no-dag", [{"mbx1", "mbx2"}, {"mbx3", "mbx4"}]),
        ("cross-site-dag", [{f"mbx{n}" for n in range(1, 9)}]),
        ("two-dags", [{"mbx1", "mbx2"}, {"mbx3", "mbx4"}]),
        ("dag-and-2010-hub", [{"mbx1", "mbx2"}, {"hub1"}]),
        ("hubs-one-site", [{"hub1", "hub2", "hub3", "mbx1"}]),
        ("hub-and-edge", [{"hub1"}, {"edge1", "edge2"}]),
        ("five-site-chain", [{"chi1"}, {"atl1"}, {"nyc1"}, {"lon1"}, {"dub1"}]),
        ("bifurcation", [{f"mbx{n}"} for n in range(1, 8)]),
    ],
)
def test_servers_of_one_boundary_are_in_the_same_boundary(name: str, boundaries: list[set[str]]) -> None:
    topology = world(name)
    for boundary in boundaries:
        for server in boundary:
            assert topology.boundary(server) == boundary
    assert set().union(*boundaries) == set(topology.by_name)


def test_every_topology_is_in_the_table_of_boundaries() -> None:
    marks = getattr(test_servers_of_one_boundary_are_in_the_same_boundary, "pytestmark", [])
    assert {row[0] for row in marks[0].args[1]} == set(fixture_names(FOLDER))


def test_the_cross_site_dag_has_more_remote_members_than_attempts() -> None:
    topology = world("cross-site-dag")
    sites = [server.site for server in topology.servers if server.name != "mbx1"]
    assert (sites.count("London"), sites.count("NewYork")) == (5, 2)


def test_two_dags_share_a_site_and_no_boundary() -> None:
    topology = world("two-dags")
    assert topology.by_name["mbx2"].site == topology.by_name["mbx3"].site
    assert topology.boundary("mbx2").isdisjoint(topology.boundary("mbx3"))


def test_the_usual_recipients_have_a_mailbox_or_a_route() -> None:
    for name in fixture_names(FOLDER):
        topology = world(name)
        addresses = {mailbox.address for mailbox in topology.mailboxes}
        domains = {route.domain for route in topology.routes}
        assert "bob@corp.test" in addresses or {"corp.test", "*"} & domains, name
        assert {"outside.test", "*"} & domains, name
