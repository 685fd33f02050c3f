"""Mistakes of the reference that no single fault shows: each is made only once two different faults have happened.

They are made as the published defects are: a class takes the slot of the component that it derives from. They are no published
defects, since no scenario has to catch them: `docs/defects.md` lists none of them. What must find them is exploration: the
pairs of faults of the scenario that each belongs to. `planted_try` tries that, and `test_planted` runs the one pair that each names.
"""

from tests.explore.planted import (
    creation,
    discards,
    duplicates,
    exchange_2010,
    heartbeat,
    reports,
    retries,
    routing,
    safety_net,
)
from tests.explore.planted.mistake import MISTAKES, Mistake

__all__ = [
    "MISTAKES",
    "Mistake",
    "creation",
    "discards",
    "duplicates",
    "exchange_2010",
    "heartbeat",
    "reports",
    "retries",
    "routing",
    "safety_net",
]
