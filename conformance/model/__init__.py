"""The model: what the documents permit, demand and forbid, as rules that judge any history without a scenario's expectations.

Theory of operation
-------------------
Each rule is a function of a recorded history (`facts.Facts`), for one requirement of the catalogue or for several that are
seen in the same events. The rules are pure functions, in a module for each topic. A rule looks for every *occasion* on which
a server could break its requirement:

- A *permission* is judged at the act: one that no possible state of the server permits is a violation.
- A *duty* (try again, ask for discard status, notify, promote, remove) has a deadline. It is violated when the deadline passes
  without the act; while the history ends before the deadline there is no occasion, or the finding is undecided.
- What a server knows is not always seen: a reply may be lost, or a server killed between two events. A rule then goes by the
  set of states that are possible, and finds a violation only where all of them forbid what was done.

The rules know the requirement catalogue and the pages of the documents alone: nothing of the reference, of Spark's queries
(the second oracle), or of what a scenario expects. Importing this package registers all rules.
"""

import sys

from conformance import registry
from conformance.invariants import INVARIANTS
from conformance.model.rules import RULES

__all__ = ["RULES"]

registry.import_submodules(sys.modules[__name__])
registry.check_counterparts(
    "invariant",
    INVARIANTS,
    "conformance/invariants.py",
    [name.removeprefix("invariant.") for name in RULES if name.startswith("invariant.")],
    "conformance/model/",
)
