"""The generations of Exchange servers and the roles of a server, by name; the capabilities that a generation documents.

Requirements that apply to some generations only name them in the catalogue. The reference server and Spark's queries state
for themselves which rules apply to which generation: they must not share them with the harness.
"""

from typing import TYPE_CHECKING, Literal

GENERATIONS: dict[str, frozenset[str]] = {
    "ex2010": frozenset({"shadow-2010", "delayed-acknowledgement"}),
    "ex2013": frozenset({"shadow-2013", "safety-net"}),
    "ex2016": frozenset({"shadow-2013", "safety-net"}),
}
"""The capabilities (docs/node-contract.md) that only some generations document, by generation, oldest first."""

DEFAULT_GENERATION = "ex2016"
"""The generation of a server whose topology names none."""

ROLES: dict[str, tuple[str, ...]] = {
    "mailbox": ("frontend", "transport", "delivery"),
    "hub": ("frontend", "transport"),
    "edge": ("frontend", "transport"),
    "submission": ("frontend", "transport"),
}
"""The listeners that a server must open, by its role."""

GENERATION_SPECIFIC = frozenset().union(*GENERATIONS.values())
"""The capabilities that not all generations document."""

SHADOW_CAPABILITIES = frozenset(claim for claim in GENERATION_SPECIFIC if claim.startswith("shadow-"))
"""The capabilities that are shadow redundancy in one of its forms."""

if TYPE_CHECKING:
    Generation = str
    Role = str
else:
    Generation = Literal[tuple(GENERATIONS)]
    Role = Literal[tuple(ROLES)]


def generations_of(claim: str) -> tuple[Generation, ...]:
    """Return the generations that document a capability, oldest first; all of them unless it is specific to some."""
    return tuple(name for name, claims in GENERATIONS.items() if claim in claims or claim not in GENERATION_SPECIFIC)
