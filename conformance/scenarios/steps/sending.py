"""Steps that send messages: from outside, by submission inside, and again.

A class has the fields of one verb (`action`). `conformance.run.steps` has the function that does the step; the classes'
docstrings are published in docs/writing-scenarios.md. A step names its messages; later steps refer to them as `m`, or
`m#3` for the third.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from conformance.scenarios.name_types import DefinesName, Message, MessageFixture, Sender, Servers, Text, Texts
from conformance.scenarios.steps.action import Action, step
from conformance.scenarios.values import MAX_SIZE, Duration, Label, Size


class Retry(BaseModel):
    """Retries of a sender, at an interval and up to a number, while the reply is 4yz or the session was lost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    every: Duration
    times: int = Field(ge=1, le=10_000)


@step("send")
class Send(Action):
    """Send messages to a server as a sender outside (`submit`: as the Mailbox Transport Submission service).

    With `background` the step ends at once, and replies are recorded while later steps run.
    """

    name: Annotated[Label, DefinesName("message")] = Field(alias="as")
    count: int = Field(1, ge=1, le=10_000, description="how many messages")
    sender: Text = Field("alice@outside.test", alias="from", description="reverse-path; '' is the null reverse-path")
    to: Texts
    in_turn: bool = Field(
        False,
        alias="in-turn",
        description="each message goes to one address of `to`: the first to the first, and so on",
    )
    via: Servers = Field(description="servers, one for each attempt in turn")
    listener: Literal["frontend", "transport"] = "frontend"
    party: Sender = Field("outside", description="who connects: `outside`, or another sender of the topology")
    message: MessageFixture = Field("plain", description="name of a message of fixtures/messages")
    size: Size | None = Field(None, description="pad the body to this size")
    whole: Size | None = Field(
        None, description="pad the body so that the whole message, its header included, has this size (RFC 1870)"
    )
    headers: dict[str, str | None] = Field({}, description="header fields to set, or (null) to leave out")
    offers_xshadow: bool = Field(
        False, alias="offers-xshadow", description="behave as a server that supports shadow redundancy"
    )
    sessions: Literal["each", "one"] = Field("each", description="a session for each message, or one for all")
    concurrency: int = Field(1, ge=1, le=200, description="sessions at the same time")
    pipelining: bool = Field(False, description="send commands in groups (RFC 2920)")
    background: bool = Field(False, description="continue with the next step at once")
    retry: Retry | None = Field(None, description="retry while the reply is 4yz or the session was lost")
    abandon: Literal["before-dot", "at-dot", "after-reply"] | None = Field(
        None, description="drop the session at this point"
    )
    notify: Text | None = Field(None, description="NOTIFY= of RFC 3461 for every recipient, if the server offers DSN")
    orcpt: Text | None = Field(None, description="ORCPT= of RFC 3461 for every recipient, if the server offers DSN")
    ret: Literal["FULL", "HDRS"] | None = Field(None, description="RET= of RFC 3461, if the server offers DSN")
    envid: Text | None = Field(None, description="ENVID= of RFC 3461, if the server offers DSN")
    smtputf8: bool = Field(False, description="SMTPUTF8 of RFC 6531, if the server offers it")
    chunks: Size | None = Field(
        None, description="send the content in chunks of this size by BDAT (RFC 3030), if the server offers CHUNKING"
    )

    @model_validator(mode="after")
    def _check_total_size(self) -> "Send":
        """Raise ValueError where all messages of the step together exceed MAX_SIZE."""
        if self.count * max(self.size or 0, self.whole or 0) > MAX_SIZE:
            raise ValueError("`count` messages of this size are more than 1024 MB together")
        return self

    def recipients_of(self, number: int) -> tuple[str, ...]:
        """Return the recipients of the message with this number, from 1."""
        return (self.to[(number - 1) % len(self.to)],) if self.in_turn else self.to


@step("submit")
class Submit(Send):
    """Submit messages from a mailbox inside the boundary, over the `transport` listener (docs/node-contract.md)."""

    sender: Text = Field("carol@corp.test", alias="from")
    listener: Literal["frontend", "transport"] = "transport"
    party: Sender = "submission"


@step("resend")
class Resend(Action):
    """Transmit messages of an earlier `send` again, with the same octets."""

    of: Message
    via: Servers | None = None
    background: bool = False
