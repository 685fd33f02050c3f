"""What a broken `should` comes to: a pass with a remark, or a failure where that was asked for."""

from collections.abc import Iterable, Iterator
from typing import Literal

from conformance.requirements.catalogue import catalogue
from conformance.verdicts import Outcome, Verdict

Should = Literal["warn", "fail"]
"""`warn`: a verdict that blames a `should` row is a pass with a remark; `fail`: it is a failure, as of a `must` row."""


def remarked(verdicts: Iterable[Verdict], should: Should) -> Iterator[Verdict]:
    """Yield the verdicts; with `warn`, failures whose first row is a `should` become passes with a remark."""
    for verdict in verdicts:
        row = catalogue().get(verdict.requirements[0]) if verdict.requirements else None
        if should == "warn" and verdict.outcome is Outcome.FAIL and row is not None and row.level == "should":
            yield verdict.model_copy(update={"outcome": Outcome.PASS, "remark": True})
        else:
            yield verdict
