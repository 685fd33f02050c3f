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
(the second oracle), or of what a scenario expects. Importing this package registers all rules in `RULES`.

How a rule is called, and what it returns
-----------------------------------------
The decorators of `rules` register a function: `rule` one that takes `Facts`, `invariant` one that takes the `CheckContext` in
`Facts.context`. After a cell has run, `conformance.judge.cell` calls every rule once for the whole history, except those that
the scenario waives. A rule changes nothing and returns one `Finding`:

- `occasions` counts the chances to fail. Without an occasion, a violation and an `undecided` entry, the cell has no
  verdict of the rule (one named `invariant.` is not applicable then).
- Each violation has a sentence and the numbers of the events that show it. The check fails on the first violation. Its
  requirement is the violation's `row`, else the first of the decorator's requirements that the scenario names (the first of
  all where it names none).
- `undecided` has what looks like a violation and need not be one.
- `timed=False` in the decorator says that the rule compares no times, so that lateness of the harness excuses nothing.

Private functions that take a `finding` add to it.

Terms of all modules
--------------------
`n` is an event's number in the history, and decides what came before what; `t` is its time in documented seconds since the
cell began. `facts.slack` is by how many seconds a time may miss a bound, `facts.end_n` and `facts.end_t` are the end of the
history, `claims` the capabilities that the candidate claims. A server is *of 2010* or *of 2013 or later* by its generation.

A `Transaction` is one mail transaction. Its `n` and `t` are those of MAIL, `dot_n` and `dot_t` those of the final dot (None
before it); `replies` are the final replies, `acceptance` is the first positive one or None. Its `kind` is `shadow` (a copy that
the server is to hold, 2013 and later), `tracked` (mail of which the client keeps the shadow, 2010) or `plain`.

A session is *altered* where a fault changed, added or removed octets in it, *held* where a fault kept octets back (`stall`), and
*delayed* where a fault held or slowed octets, or may have delayed its dial. The harness may open sessions under a server's name:
what is said in these is no act of that server, while the replies of the other side are judged.
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
