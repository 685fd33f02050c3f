"""The topologies of fixtures/: their boundaries, sites, mailboxes and routes are those that scenarios rely on."""

import pytest

from conformance import paths
from conformance.parameters import DEFAULTS
from conformance.scenarios.fixtures import fixture_names, load_topology
from conformance.topology import Topology

FOLDER = paths.fixtures() / "topologies"


BOUNDARIES: dict[str, list[set[str]]] = {
    "single-server": [{"mbx1"}],
    "relay": [{"mta1"}],
    "two-servers-one-dag": [{"mbx1", "mbx2"}],
    "three-servers-one-dag": [{"mbx1", "mbx2", "mbx3"}],
    "names-that-begin-alike": [{"mbx1", "mbx10", "mbx2"}],
    "mixed-organisation": [{"mbx1", "mbx10", "mbx2"}, {"old1", "old10"}, {"far1"}, {"hub1"}, {"edge1", "edge10"}],
    "one-site-no-dag": [{"mbx1", "mbx2", "mbx3"}],
    "two-sites-no-dag": [{"mbx1", "mbx2"}, {"mbx3", "mbx4"}],
    "cross-site-dag": [{f"mbx{n}" for n in range(1, 9)}],
    "two-dags": [{"mbx1", "mbx2"}, {"mbx3", "mbx4"}],
    "dag-and-2010-hub": [{"mbx1", "mbx2"}, {"hub1"}],
    "hubs-one-site": [{"hub1", "hub2", "hub3", "mbx1"}],
    "hub-and-edge": [{"hub1"}, {"edge1", "edge2"}],
    "five-site-chain": [{"chi1"}, {"atl1"}, {"nyc1"}, {"lon1"}, {"dub1"}],
    "bifurcation": [{f"mbx{n}"} for n in range(1, 8)],
}
"""Topology -> the servers of each boundary."""


def topology_of(name: str) -> Topology:
    return load_topology(FOLDER / f"{name}.yaml")


@pytest.mark.parametrize("name", BOUNDARIES)
def test_servers_of_one_boundary_are_in_the_same_boundary(name: str) -> None:
    topology = topology_of(name)
    for boundary in BOUNDARIES[name]:
        for server in boundary:
            assert topology.boundary(server) == boundary
    assert set().union(*BOUNDARIES[name]) == set(topology.by_name)


def test_every_topology_is_in_the_table_of_boundaries() -> None:
    assert set(BOUNDARIES) == set(fixture_names(FOLDER))


def test_the_cross_site_dag_has_more_remote_members_than_attempts() -> None:
    topology = topology_of("cross-site-dag")
    mine = topology.by_name["mbx1"]
    assert mine.dag
    remote = [server for server in topology.servers if server.dag == mine.dag and server.site != mine.site]
    assert len(remote) > DEFAULTS["MaxRetriesForRemoteSiteShadow"]


def test_two_dags_share_a_site_and_no_boundary() -> None:
    topology = topology_of("two-dags")
    assert {server.name: server.dag for server in topology.servers if server.name in ("mbx2", "mbx3")} == {
        "mbx2": "DAG1",
        "mbx3": "DAG2",
    }
    assert topology.by_name["mbx2"].site == topology.by_name["mbx3"].site
    assert topology.boundary("mbx2") == {"mbx1", "mbx2"}
    assert topology.boundary("mbx3") == {"mbx3", "mbx4"}


def test_the_usual_recipients_have_a_mailbox_or_a_route() -> None:
    names = fixture_names(FOLDER)
    assert names
    for name in names:
        topology = topology_of(name)
        for server in topology.by_name:  # a route may be one of some servers only
            for recipient in ("bob@corp.test", "victor@outside.test"):
                assert list(topology.next_hops(server, recipient)), f"{name}: {recipient} from {server}"
