"""What a broken `should` comes to: a pass with a remark, or a failure where that was asked for."""

from collections.abc import Iterable, Iterator

from conformance.requirements.catalogue import catalogue
from conformance.verdicts import Outcome, Verdict
from conformance.verdicts.changes import Should


def apply_should_level(verdicts: Iterable[Verdict], should: Should) -> Iterator[Verdict]:
    """Yield the verdicts; with `warn`, failures whose first row is a `should` become passes with a remark."""
    for verdict in verdicts:
        row = catalogue().get(verdict.requirements[0]) if verdict.requirements else None
        if should == "warn" and verdict.outcome is Outcome.FAIL and row is not None and row.level == "should":
            yield verdict.model_copy(update={"outcome": Outcome.PASS, "remark": True})
        else:
            yield verdict
