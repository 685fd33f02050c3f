"""What a machine that ran out of something excuses: every failure, since nobody can tell whose it is."""

from collections.abc import Iterable, Iterator, Sequence

from conformance.history.events import AnyEvent, NodeEvent
from conformance.verdicts import Outcome, Reason, Verdict


def excuse_shortage(verdicts: Iterable[Verdict], events: Sequence[AnyEvent]) -> Iterator[Verdict]:
    """Yield the verdicts, with failures made inconclusive where the machine ran out of something under a node."""
    starved = next((event for event in events if isinstance(event, NodeEvent) and event.action == "starved"), None)
    for verdict in verdicts:
        if starved is None or verdict.outcome is not Outcome.FAIL:
            yield verdict
        else:
            sentence = f"the machine ran out of something under {starved.node} ({starved.detail}): {verdict.sentence}"
            yield verdict.model_copy(
                update={"outcome": Outcome.INCONCLUSIVE, "reason": Reason.SHORTAGE, "sentence": sentence}
            )
