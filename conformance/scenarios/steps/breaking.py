"""Steps that cause and end disturbances: faults and partitions of links, answers of sinks, failing disks.

A class has the fields of one verb (`action`). `conformance.run.steps` has the function that does the step; the classes'
docstrings are published in docs/writing-scenarios.md.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from conformance.faults import FaultName, When, field_meaning
from conformance.scenarios.name_types import DefinesName, FaultInForce, Parties, PartyOrAny, Place, Server, Sink, Text
from conformance.scenarios.steps.action import Action, step
from conformance.scenarios.values import Duration, Label


@step("fault")
class Fault(Action):
    """Arm a fault on the link `from` -> `to` (a server's listener, or a sink), until it has fired `times` or is healed."""

    name: Annotated[Label, DefinesName("fault")] = Field(alias="as")
    sender: PartyOrAny = Field(alias="from", description="the party that connects; `*`: any")
    to: PartyOrAny = Field(description="the party that is connected to")
    listener: Literal["frontend", "transport", "delivery", "smtp", "lmtp"] | None = None
    does: FaultName
    at: Place = Field("connect", description="place in the session: connect, greeting, a verb such as MAIL, body, dot")
    when: When = Field(
        "before",
        description="before the command passes / once it has passed / after its reply arrived, before it passes / "
        "once the reply has passed",
    )
    offset: int | None = Field(None, ge=0, description=f"octet of the body; {field_meaning('offset')}")
    nth: int = Field(1, ge=1, description="the n-th occurrence")
    times: int | None = Field(1, ge=1, description="how often it fires; null: until it is healed")
    lasting: Duration | None = Field(None, description=field_meaning("lasting"))
    rate: int | None = Field(None, ge=1, description=field_meaning("rate"))
    reply: Text | None = Field(None, description=field_meaning("reply"))
    may_not_fire: bool = Field(
        False, alias="may-not-fire", description="judge a cell in which it never fired (default: inconclusive)"
    )


@step("partition")
class Partition(Action):
    """Cut every link between two groups of parties; with `one-way` only connections from the first to the second."""

    name: Annotated[Label, DefinesName("fault")] = Field("partition", alias="as")
    between: tuple[Parties, Parties]
    one_way: bool = Field(False, alias="one-way")
    how: Literal["refuse", "blackhole"] = "refuse"


@step("heal")
class Heal(Action):
    """Remove a fault or partition by name, or `all`."""

    short = "what"
    what: FaultInForce = "all"


@step("answer")
class Answer(Action):
    """Set a sink's reply to a verb, for one recipient or all, for a number of times or until it is replaced."""

    sink: Sink
    at: Literal["connect", "STARTTLS", "MAIL", "RCPT", "DATA", "dot"] = "dot"
    reply: Text | Literal["accept"] = Field(description="e.g. `451 4.3.0 try later`; `accept` removes an earlier one")
    recipient: Text | None = None
    times: int | None = Field(None, ge=1)


SinkKeyword = Literal["8BITMIME", "CHUNKING", "DSN", "ENHANCEDSTATUSCODES", "PIPELINING", "SMTPUTF8", "STARTTLS"]


@step("offer")
class Offer(Action):
    """Set the extensions that a sink offers in its next replies to EHLO, beside SIZE.

    Without this step: 8BITMIME, PIPELINING and ENHANCEDSTATUSCODES, and within TLS the same.
    """

    sink: Sink
    keywords: tuple[SinkKeyword, ...]
    within_tls: tuple[SinkKeyword, ...] | None = Field(
        None, alias="within-tls", description="those within TLS; else the same without STARTTLS"
    )


@step("disk")
class Disk(Action):
    """Make the disk with a server's data full, read-only, slow or failing, until it is healed by name or with `all`."""

    name: Annotated[Label, DefinesName("fault")] = Field("disk", alias="as")
    node: Server
    trouble: Literal["full", "read-only", "slow", "failing-syncs"] = Field(
        alias="is", description="what is wrong with it; failing-syncs: each sync fails with an I/O error"
    )
    lasting: Duration | None = Field(None, description="slow: seconds by which each sync is delayed")
    at_write: int | None = Field(
        None,
        ge=1,
        alias="at-write",
        description="full: number of the write from which on the disk is full; default: at once",
    )
    may_not_fire: bool = Field(
        False, alias="may-not-fire", description="judge a cell in which no write met it (default: inconclusive)"
    )

    @model_validator(mode="after")
    def _check_options(self) -> "Disk":
        """Raise ValueError for a slow disk without `lasting`, and for an option of another kind of trouble."""
        if (self.trouble == "slow") != (self.lasting is not None):
            raise ValueError("`lasting` is required for a slow disk, and allowed for no other")
        if self.at_write is not None and self.trouble != "full":
            raise ValueError("`at-write` is allowed for a full disk only")
        return self
