"""The sites at which a message for several of them is split, as the model derives them (SR-BIF-03)."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.model.routes import SiteMap
from conformance.scenarios.fixtures import load_topology

BIFURCATION = load_topology(Path(__file__).parents[2] / "fixtures" / "topologies" / "bifurcation.yaml")
TOGETHER = ["grace@corp.test", "heidi@corp.test", "ivan@corp.test"]


def site_map_without(*servers: str) -> SiteMap:
    left = tuple(server for server in BIFURCATION.servers if server.name not in servers)
    facts: Any = SimpleNamespace(topology=BIFURCATION.model_copy(update={"servers": left}))
    facts.topology.__dict__.pop("by_name", None)
    return SiteMap.of(facts)


@pytest.mark.parametrize(
    ("missing", "together", "targets"),
    [
        ((), TOGETHER, ["Atlanta", "Atlanta", "Atlanta"]),
        ((), TOGETHER[:2], ["NewYork", "NewYork"]),
        (("mbx3",), TOGETHER[:2], ["Atlanta", "Atlanta"]),
        (("mbx2",), TOGETHER, ["NewYork", "NewYork", "Madrid"]),
        (("mbx2", "mbx3"), TOGETHER, ["London", "Dublin", "Madrid"]),
        ((), TOGETHER[:1], ["London"]),
    ],
    ids=[
        "at-the-fork",
        "at-the-last-of-two",
        "before-a-site-without-a-server",
        "behind-a-site-without-a-server",
        "nowhere",
        "alone",
    ],
)
def test_a_message_is_split_at_the_last_common_site_with_a_server(
    missing: tuple[str, ...], together: list[str], targets: list[str]
):
    sites = site_map_without(*missing)
    found = [sites.target("mbx1", sites.path("mbx1", recipient), together) for recipient in together]
    assert found == targets
