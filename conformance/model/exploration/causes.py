"""Find every way in which an acknowledged message is lost or duplicated although every server obeys.

A *way* is a minimal cut set of fault tree analysis: a set of things that go wrong, or long intervals that pass, none of which can
be left out. Each is shown by one of its shortest sequences of steps. `page.py` calls `find_ways` for each scope. States are
integers that `search.Model` numbers; a set of causes is an integer too, with one bit for each cause. A `Custody` (in
`message.custodies`) is one server's responsibility for the message: `copy` is what it has, `held` what each other server holds as
its shadow server.
"""

import heapq
from dataclasses import dataclass
from itertools import count
from typing import Literal

from conformance.model.exploration.search import Model
from conformance.model.exploration.state import SHADOWS, WAITING_COPIES, Copy, Held, Message, Sender

Outcome = Literal["lost", "duplicated"]

AGAIN = ", again"
"""What the second loss of a disk is marked with. Other causes count once, however often they occur."""


@dataclass(frozen=True, slots=True)
class Way:
    """One minimal set of causes that leads to an outcome."""

    outcome: Outcome
    causes: frozenset[str]
    steps: tuple[str, ...]
    """A shortest sequence with these causes."""


def outcome_of(message: Message) -> Outcome | None:
    """Return what happened for good to an acknowledged message; None: nothing bad, not decided yet, or not acknowledged.

    It is duplicated when two copies arrived. It is lost when none has, and no copy is left that a rule can still deliver: one
    that waits, a shadow, or after a request to resubmit one in Safety Net.
    """
    if message.sender != Sender.ANSWERED:
        return None
    if message.arrived == 2:
        return "duplicated"
    if message.arrived:
        return None
    queued = any(c.copy in WAITING_COPIES or SHADOWS & set(c.held) for c in message.custodies)
    kept = any(c.copy == Copy.NET or Held.RELEASED in c.held for c in message.custodies)
    return None if queued or (message.requested and kept) else "lost"


def find_ways(model: Model) -> tuple[Way, ...]:
    """Return all ways of the scope's first message, those with the fewest causes first.

    This takes up to a minute. Sets of causes are visited by size and then by length of the path. A pair of state and causes is left
    out if the same causes, or a part of them, have reached the state already. A state with an outcome is not followed further.
    """
    names: dict[str, int] = {}
    order = count()
    reached: dict[int, list[int]] = {}
    parents: dict[tuple[int, int], tuple[tuple[int, int] | None, str]] = {}
    ways: dict[tuple[Outcome, int], tuple[int, int]] = {}
    queue: list[tuple[int, int, int, int, int, tuple[int, int] | None, str]] = [
        (0, 0, next(order), 0, model.start, None, "")
    ]
    while queue:
        size, length, _, causes, state, parent, text = heapq.heappop(queue)
        kept = reached.setdefault(state, [])
        if any(smaller & causes == smaller for smaller in kept):
            continue
        kept.append(causes)
        node = state, causes
        parents[node] = parent, text
        outcome = outcome_of(model.messages(state)[0])
        if outcome is not None:
            if not any(found == outcome and causes & smaller == smaller for found, smaller in ways):
                ways[outcome, causes] = node
            continue
        for move in model.moves(state):
            after = causes | _bit_of_cause(names, move.cause, causes)
            if not any(smaller & after == smaller for smaller in reached.get(move.state, ())):
                heapq.heappush(
                    queue,
                    (size + (after != causes), length + 1, next(order), after, move.state, node, move.text),
                )
    return tuple(
        Way(
            outcome=outcome,
            causes=frozenset(name for name, bit in names.items() if bit & causes),
            steps=_texts_of_steps(parents, node),
        )
        for (outcome, causes), node in ways.items()
    )


def _bit_of_cause(names: dict[str, int], cause: str, before: int) -> int:
    """Return the bit of a cause, 0 for ''; `names` has the bit of each cause, and gets the ones that are new.

    The loss of a disk that is in the set `before` already gets the bit of its second occurrence, and so does a third.
    """
    if not cause:
        return 0
    bit = names.setdefault(cause, 1 << len(names))
    if before & bit and cause.startswith("new database"):
        return names.setdefault(cause + AGAIN, 1 << len(names))
    return bit


def _texts_of_steps(
    parents: dict[tuple[int, int], tuple[tuple[int, int] | None, str]], node: tuple[int, int]
) -> tuple[str, ...]:
    """Return the texts of the steps from the start to a node, which is a pair of state and causes.

    `parents` has for each node its predecessor, None for the start, and the text of the step between them.
    """
    texts: list[str] = []
    at: tuple[int, int] | None = node
    while at is not None:
        at, text = parents[at]
        texts.append(text)
    return tuple(reversed(texts[:-1]))
