"""The generations of servers and their roles: names, and which capabilities are of which generation's documents.

What the documents ask of a generation is in the catalogue of requirements, by these names; the reference, which knows
nothing of the harness, and Spark, which judges a second time, say for themselves which rules are whose.
"""

from typing import TYPE_CHECKING, Literal

GENERATIONS: dict[str, frozenset[str]] = {
    "ex2010": frozenset({"shadow-2010", "delayed-acknowledgement"}),
    "ex2013": frozenset({"shadow-2013", "safety-net"}),
    "ex2016": frozenset({"shadow-2013", "safety-net"}),
}
"""Generation -> the capabilities (node contract) that its documents describe and another's do not; oldest first."""

DEFAULT_GENERATION = "ex2016"
"""What a server is of which nothing is said."""

ROLES: dict[str, tuple[str, ...]] = {
    "mailbox": ("frontend", "transport", "delivery"),
    "hub": ("frontend", "transport"),
    "edge": ("frontend", "transport"),
    "submission": ("frontend", "transport"),
}
"""Role -> the listeners that a server of it must open."""

GENERATION_SPECIFIC = frozenset().union(*GENERATIONS.values())
"""The capabilities that are of some generations only."""

SHADOW_CAPABILITIES = frozenset(claim for claim in GENERATION_SPECIFIC if claim.startswith("shadow-"))
"""The capabilities that are shadow redundancy, as one generation or another has it."""

if TYPE_CHECKING:
    Generation = str
    Role = str
else:
    Generation = Literal[tuple(GENERATIONS)]
    Role = Literal[tuple(ROLES)]


def generations_of(claim: str) -> tuple[Generation, ...]:
    """Return the generations whose documents describe a capability; all, of one that is not of some only."""
    return tuple(name for name, claims in GENERATIONS.items() if claim in claims or claim not in GENERATION_SPECIFIC)
