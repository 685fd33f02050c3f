"""Requests to transmit messages again: an administrator's command, or a step that moves a mailbox database or drains queues.

After one a server may transmit what it had finished, make further copies of it, and for fewer recipients: Safety Net sends again
for the mailboxes of one database (SR-SFN-05). A `CommandRun` is a command to a node, a `StepEvent` the begin or end of a step.
`n` is an event's number.
"""

from conformance.history.events import CommandRun, StepEvent
from conformance.model.facts import Facts

_RESUBMITTING_STEPS = frozenset({"activate", "resubmit", "redirect"})
"""Steps after which servers may transmit again what they had finished, or pass it to another server."""


def resending_requests(facts: Facts) -> list[CommandRun | StepEvent]:
    """Return the requests after which finished messages may be transmitted again, in order.

    These are all commands to nodes, refused ones included, and each event (begin, end, failure) of a step of `_RESUBMITTING_STEPS`.
    """
    return facts.compute_once(_find_requests)


def is_resending_requested(facts: Facts, after_n: int = -1, before_n: int | None = None) -> bool:
    """Return whether there is a request between two events, these excluded; by default, in the whole history.

    After a request, finished messages may be transmitted again.
    """
    end = facts.end_n if before_n is None else before_n
    return any(after_n < request.n < end for request in resending_requests(facts))


def _find_requests(facts: Facts) -> list[CommandRun | StepEvent]:
    """Return the requests of a history in order; called once, by `resending_requests`."""
    steps = [step for step in facts.trace.events_of(StepEvent) if step.verb in _RESUBMITTING_STEPS]
    return sorted([*facts.trace.events_of(CommandRun), *steps], key=lambda event: event.n)
