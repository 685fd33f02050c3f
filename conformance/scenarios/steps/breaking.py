"""What goes wrong, and what makes it right: faults and partitions of links, answers of sinks, troubles of disks."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from conformance.faults import FaultName, When, field_meaning
from conformance.scenarios.name_types import DefinesName, FaultInForce, Parties, PartyOrAny, Place, Server, Sink, Text
from conformance.scenarios.steps.action import Action, step
from conformance.scenarios.values import Duration, Label


@step("fault")
class Fault(Action):
    """Arm a fault on the link `from` -> `to` (a server's listener, or a sink); it stays until it fired `times` or
    is healed."""

    name: Annotated[Label, DefinesName("fault")] = Field(alias="as")
    sender: PartyOrAny = Field(alias="from", description="who dials; `*` is anyone")
    to: PartyOrAny = Field(description="who is dialled")
    listener: Literal["frontend", "transport", "delivery", "smtp", "lmtp"] | None = None
    does: FaultName
    at: Place = Field("connect", description="connect, greeting, a verb, MAIL..., dot, body")
    when: When = Field(
        "before",
        description="before the command passes / once it has passed / after its reply arrived, before it passes / "
        "once the reply has passed",
    )
    offset: int | None = Field(None, ge=0, description=f"octet of the body; {field_meaning('offset')}")
    nth: int = Field(1, ge=1, description="the n-th occurrence")
    times: int | None = Field(1, ge=1, description="how often it fires; null: as long as it is armed")
    lasting: Duration | None = Field(None, description=field_meaning("lasting"))
    rate: int | None = Field(None, ge=1, description=field_meaning("rate"))
    reply: Text | None = Field(None, description=field_meaning("reply"))
    may_not_fire: bool = Field(
        False, alias="may-not-fire", description="a cell in which it never fired is judged all the same"
    )


@step("partition")
class Partition(Action):
    """Cut every link between two groups of parties; `one-way` cuts only what the first dials."""

    name: Annotated[Label, DefinesName("fault")] = Field("partition", alias="as")
    between: tuple[Parties, Parties]
    one_way: bool = Field(False, alias="one-way")
    how: Literal["refuse", "blackhole"] = "refuse"


@step("heal")
class Heal(Action):
    """Take faults and partitions away: one by name, or `all`."""

    short = "what"
    what: FaultInForce = "all"


@step("answer")
class Answer(Action):
    """Tell a sink how to answer: a reply at a verb, for one recipient or all, so many times or for good."""

    sink: Sink
    at: Literal["connect", "MAIL", "RCPT", "DATA", "dot"] = "dot"
    reply: Text | Literal["accept"] = Field(description="e.g. `451 4.3.0 try later`; `accept` ends an earlier one")
    recipient: Text | None = None
    times: int | None = Field(None, ge=1)


@step("disk")
class Disk(Action):
    """Have the disk under a server's data full, read-only, slow or failing, until it is healed by its name, or with
    `all`."""

    name: Annotated[Label, DefinesName("fault")] = Field("disk", alias="as")
    node: Server
    trouble: Literal["full", "read-only", "slow", "failing-syncs"] = Field(
        alias="is", description="what is wrong with it; failing-syncs: each sync fails with an I/O error"
    )
    lasting: Duration | None = Field(None, description="slow: how much longer each sync takes")
    at_write: int | None = Field(
        None,
        ge=1,
        alias="at-write",
        description="full: only from the n-th write on; without it, the disk is full at once",
    )
    may_not_fire: bool = Field(
        False, alias="may-not-fire", description="a cell in which it was never met is judged all the same"
    )

    @model_validator(mode="after")
    def _qualified(self) -> "Disk":
        if (self.trouble == "slow") != (self.lasting is not None):
            raise ValueError("`lasting` says by how much a slow disk is slow, and nothing else")
        if self.at_write is not None and self.trouble != "full":
            raise ValueError("`at-write` says from which write on a disk is full, and nothing else")
        return self
