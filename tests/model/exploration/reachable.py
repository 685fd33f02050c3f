"""All reachable states of small scopes, for tests."""

from conformance.model.exploration.scope import Scope
from conformance.model.exploration.search import Model


def mailbox_scope(*messages: str, servers: int = 2, **faults: int) -> Scope:
    """Return a scope of mailbox servers without mandatory redundancy."""
    return Scope("test", "test", "ex2013", servers, messages, **faults)  # type: ignore[arg-type]


def reachable(model: Model) -> dict[int, list[int]]:
    """Return every reachable state with the states that follow it."""
    after: dict[int, list[int]] = {}
    waiting = [model.start]
    while waiting:
        state = waiting.pop()
        if state not in after:
            after[state] = [move.state for move in model.moves(state)]
            waiting += after[state]
    return after


def can_reach(after: dict[int, list[int]], goals: set[int]) -> set[int]:
    """Return the states from which one of the goals can be reached, the goals included."""
    before: dict[int, list[int]] = {}
    for state, followers in after.items():
        for follower in followers:
            before.setdefault(follower, []).append(state)
    found, waiting = set(goals), list(goals)
    while waiting:
        for state in before.get(waiting.pop(), ()):
            if state not in found:
                found.add(state)
                waiting.append(state)
    return found
