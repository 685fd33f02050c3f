"""The transport high-availability boundary: the whole DAG, or the site (SR-BND-01, SR-BND-02)."""

import pytest

from conformance.reference.boundary import can_be_shadow_server, in_boundary
from tests.reference.hosts import configured


def members(topology: str, server: str, rule=in_boundary) -> set[str]:
    config = configured(topology, server)
    return {peer.name for peer in config.peers if rule(config, peer) and peer.role != "submission"}


@pytest.mark.parametrize(
    ("topology", "server", "expected"),
    [
        ("cross-site-dag", "mbx1", {"mbx2", "mbx3", "mbx4", "mbx5", "mbx6", "mbx7", "mbx8"}),
        ("two-dags", "mbx1", {"mbx2"}),
        ("two-dags", "mbx3", {"mbx4"}),
    ],
)
def test_a_dag_member_s_boundary_is_the_whole_dag(topology: str, server: str, expected: set[str]):
    config = configured(topology, server)
    assert config.dag is not None
    assert {peer.name for peer in config.peers if peer.dag == config.dag and peer.role != "submission"} == expected
    assert members(topology, server) == expected
    (near, *_) = [peer for peer in config.peers if peer.dag == config.dag and peer.site == config.site]
    assert not in_boundary(config, near.model_copy(update={"dag": None})), "in the site alone"


def test_outside_a_dag_the_boundary_of_the_only_server_of_its_site_has_no_other_server():
    config = configured("bifurcation", "mbx1")
    assert config.dag is None
    assert len([peer for peer in config.peers if peer.site != config.site]) == 6
    assert [peer.role for peer in config.peers if peer.site == config.site] == ["submission"]
    assert members("bifurcation", "mbx1") == set()


def test_outside_a_dag_the_boundary_is_the_site_without_its_dag_members():
    config = configured("two-sites-no-dag")
    near = [peer for peer in config.peers if peer.site == config.site and peer.role == "mailbox"]
    assert near
    assert any(peer.site != config.site and peer.dag is None for peer in config.peers)
    assert members("two-sites-no-dag", config.name) == {peer.name for peer in near}
    assert not in_boundary(config, near[0].model_copy(update={"dag": "DAG1"}))


def test_a_2010_hub_of_the_site_is_not_asked_for_a_shadow():
    config = configured("dag-and-2010-hub")
    assert [(peer.name, peer.site == config.site) for peer in config.peers if peer.generation == "ex2010"] == [
        ("hub1", True)
    ]
    assert members("dag-and-2010-hub", config.name, can_be_shadow_server) == {"mbx2"}
    hub = next(peer for peer in config.peers if peer.generation == "ex2010")
    without_dag = config.model_copy(update={"dag": None})  # then the site is the boundary
    for peer in (hub, hub.model_copy(update={"role": "mailbox"})):  # else its role excludes it already
        assert in_boundary(without_dag, peer)
        assert not can_be_shadow_server(without_dag, peer)
