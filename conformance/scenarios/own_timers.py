"""A server's own timers for undeliverable mail, and the placeholders `${own-...}` that stand for them.

A candidate's description states them from the documentation of the server. A scenario with `timers: own` sets none
of them, and judges the server by what its description states.

A node is a value of a YAML file with its place.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from conformance.scenarios.errors import Mark
from conformance.scenarios.expectations import Copies
from conformance.scenarios.values import Duration
from conformance.scenarios.yaml_nodes import Entry, Node

PREFIX = "own-"

NEVER_WARNED = 12 * 3600.0
"""Seconds without a delay report that show that a server sends none, where its description says so."""


class OwnTimers(BaseModel):
    """The retry schedule, delay report and queue lifetime of a server with default settings.

    Times are seconds since the message was accepted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    source: str = Field(
        min_length=10, description="where the server's documentation says so: the page, and the names of the settings"
    )
    tries_in_first_hour: Copies = Field(alias="tries-in-first-hour", description="attempts, the first one included")
    tries_in_half_a_day: Copies = Field(alias="tries-in-half-a-day", description="attempts, the first one included")
    warned_after: Duration | None = Field(
        None, alias="warned-after", description="earliest time of the delay report; left out: there is none"
    )
    warned_by: Duration | None = Field(None, alias="warned-by", description="latest time of the delay report")
    given_up_after: Duration = Field(alias="given-up-after", description="earliest time of the failure report")
    given_up_by: Duration = Field(
        alias="given-up-by",
        description="latest time of the failure report: the first attempt that finds the message too old",
    )

    @model_validator(mode="after")
    def _check_order(self) -> "OwnTimers":
        """Raise ValueError for a time of the delay report without the other, a latest time before the earliest, and impossible tries."""
        if (self.warned_after is None) != (self.warned_by is None):
            raise ValueError("warned-after and warned-by go together")
        if (self.warned_by or 0) < (self.warned_after or 0) or self.given_up_by < self.given_up_after:
            raise ValueError("warned-by and given-up-by cannot be earlier than warned-after and given-up-after")
        most = self.tries_in_half_a_day.max
        if most is not None and most < self.tries_in_first_hour.min:
            raise ValueError("tries-in-half-a-day cannot be less than tries-in-first-hour: they include these")
        return self

    @property
    def placeholder_values(self) -> Mapping[str, Any]:
        """The value of each placeholder: times in seconds, numbers of tries as `{min, max}`.

        Where there is no delay report, `own-warnings` and `own-warned-after` are 0, and `own-warned-by` is `NEVER_WARNED`.
        """
        return {
            PREFIX + "tries-in-first-hour": self.tries_in_first_hour.model_dump(),
            PREFIX + "tries-in-half-a-day": self.tries_in_half_a_day.model_dump(),
            PREFIX + "warnings": 0 if self.warned_by is None else 1,
            PREFIX + "warned-after": self.warned_after or 0,
            PREFIX + "warned-by": self.warned_by or NEVER_WARNED,
            PREFIX + "given-up-after": self.given_up_after,
            PREFIX + "given-up-by": self.given_up_by,
        }


_EXAMPLE = OwnTimers.model_validate(
    {
        "source": "none: an example, for checking a scenario without a candidate",
        "tries-in-first-hour": 1,
        "tries-in-half-a-day": 1,
        "given-up-after": "1d",
        "given-up-by": "1d",
    }
)

PLACEHOLDERS = tuple(_EXAMPLE.placeholder_values)
"""The names that `${...}` may have besides axes in a scenario with `timers: own`."""


def placeholder_nodes(timers: OwnTimers | None) -> dict[str, Node]:
    """Return the value of each placeholder as a node; example values where `timers` is None."""
    return {name: _node(value) for name, value in (timers or _EXAMPLE).placeholder_values.items()}


def _node(value: Any) -> Node:
    """Return a value, with any mappings in it, as a node; its place in a file means nothing."""
    mark = Mark(1, 1)
    if isinstance(value, dict):
        return Node(mark, {key: Entry(mark, _node(inner)) for key, inner in value.items()})
    return Node(mark, value)
