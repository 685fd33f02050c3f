"""Profiles: the capabilities that make a set of requirements bind a server, and the rows of each.

A *row* is one requirement of the catalogue, a *capability* what a candidate claims to support. The results site counts,
for each server, how many rows of a profile it passes.
"""

from types import MappingProxyType

from conformance.generations import SHADOW_CAPABILITIES, generations_of
from conformance.requirements.catalogue import Catalogue, Requirement

RELAY = "relay"
PROFILES = MappingProxyType(
    {
        RELAY: "the duties of any SMTP relay",
        **{
            claim: f"shadow redundancy of the generations {', '.join(generations_of(claim))}"
            for claim in sorted(SHADOW_CAPABILITIES)
        },
    }
)
"""Each profile, named by the capability that a server claims it with, and what it is about."""


def rows_of_profile(profile: str, catalogue: Catalogue) -> tuple[Requirement, ...]:
    """Return the rows of the levels must and should that bind each server of a profile, without the retired ones.

    Those of `relay` are the rows that bind any SMTP relay; those of another profile are the other rows that bind one of its
    generations.
    """
    generations = generations_of(profile)
    return tuple(
        row
        for row in catalogue.requirements
        if row.retired is None
        and row.level != "may"
        and (row.profile == RELAY if profile == RELAY else row.profile is None and row.binds(generations))
    )
