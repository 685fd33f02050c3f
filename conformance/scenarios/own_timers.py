"""What a server does about mail that cannot be delivered when nobody sets its timers: the words of `${own-...}`.

A candidate's description states it, from its maker's documentation; a scenario with `timers: own` holds it to that.
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
"""Seconds after which a server that is said to warn nobody is believed."""


class OwnTimers(BaseModel):
    """The retry schedule, warning and queue lifetime of a server at its maker's settings. Times count from the
    message's acceptance."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    source: str = Field(
        min_length=10, description="where its maker says so: the manual's page, and the settings by name"
    )
    tries_in_first_hour: Copies = Field(alias="tries-in-first-hour", description="attempts, the first one included")
    tries_in_half_a_day: Copies = Field(alias="tries-in-half-a-day", description="attempts, the first one included")
    warned_after: Duration | None = Field(
        None, alias="warned-after", description="no sooner comes the report that it is delayed; left out: never"
    )
    warned_by: Duration | None = Field(None, alias="warned-by", description="it has come by then")
    given_up_after: Duration = Field(alias="given-up-after", description="no sooner comes the report that it failed")
    given_up_by: Duration = Field(
        alias="given-up-by", description="it has come by then: the first attempt that finds the message too old"
    )

    @model_validator(mode="after")
    def _in_order(self) -> "OwnTimers":
        if (self.warned_after is None) != (self.warned_by is None):
            raise ValueError("warned-after and warned-by go together")
        if (self.warned_by or 0) < (self.warned_after or 0) or self.given_up_by < self.given_up_after:
            raise ValueError("what comes after a time cannot have come by an earlier one")
        return self

    @property
    def words(self) -> Mapping[str, Any]:
        """What each `${own-...}` stands for. Of a server that never warns there is no report after `NEVER_WARNED`."""
        return {
            PREFIX + "tries-in-first-hour": self.tries_in_first_hour.model_dump(),
            PREFIX + "tries-in-half-a-day": self.tries_in_half_a_day.model_dump(),
            PREFIX + "warnings": 0 if self.warned_by is None else 1,
            PREFIX + "warned-after": self.warned_after or 0,
            PREFIX + "warned-by": self.warned_by or NEVER_WARNED,
            PREFIX + "given-up-after": self.given_up_after,
            PREFIX + "given-up-by": self.given_up_by,
        }


_SPECIMEN = OwnTimers.model_validate(
    {
        "source": "none: it stands in where a scenario is checked and no candidate is there yet",
        "tries-in-first-hour": 1,
        "tries-in-half-a-day": 1,
        "given-up-after": "1d",
        "given-up-by": "1d",
    }
)

PLACEHOLDERS = tuple(_SPECIMEN.words)
"""What may stand in `${...}` beside the axes, where a scenario has `timers: own`."""


def placeholder_nodes(timers: OwnTimers | None) -> dict[str, Node]:
    """Return what each `${own-...}` stands for; a specimen's value where there are no timers."""
    return {name: _node(value) for name, value in (timers or _SPECIMEN).words.items()}


def _node(value: Any) -> Node:
    mark = Mark(1, 1)
    if isinstance(value, dict):
        return Node(mark, {key: Entry(mark, _node(inner)) for key, inner in value.items()})
    return Node(mark, value)
