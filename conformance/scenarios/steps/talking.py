"""One SMTP session, line by line, with the replies that must come."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from conformance.scenarios.name_types import DefinesName, MessageFixture, Sender, Server, Text
from conformance.scenarios.steps.action import Action, step
from conformance.scenarios.values import Duration, Label


class Line(BaseModel):
    """One exchange of a `talk`: what is said, and the reply that must come."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    say: Text | None = Field(None, description="a command line (CRLF is added)")
    octets: Text | None = Field(None, description="exactly these octets, with \\r \\n \\0 \\xhh escapes")
    message: MessageFixture | None = Field(
        None, description="content of a message of fixtures/messages, dot-stuffed, and the final dot"
    )
    wait: Duration | None = Field(None, description="say nothing for so long before")
    code: int | Literal["closed"] | tuple[int, ...] | None = Field(
        None, description="the reply that must come, or several of which any is right; nothing is read without"
    )
    within: Duration | None = Field(
        None, description="the reply comes at most so long after the line was said, or after its `wait`"
    )
    enhanced: Text | tuple[Text, ...] | None = Field(
        None,
        description="the reply's enhanced status code, or several of which any is right; held only against a server that "
        "offers ENHANCEDSTATUSCODES, once it said so",
    )
    has: Text | None = Field(None, description="the reply contains this text")
    lacks: Text | None = Field(None, description="the reply does not contain this text")
    where: Text | None = Field(
        None,
        description="a keyword of EHLO: the line is said only where the last reply to EHLO offers it; of an EHLO line, what "
        "its reply has or lacks counts only then",
    )
    secure: bool = Field(False, description="begin TLS when the reply has come (RFC 3207); no certificate is asked for")


@step("talk")
class Talk(Action):
    """Hold one SMTP session, line by line."""

    name: Annotated[Label, DefinesName("conversation")] = Field(alias="as")
    to: Server
    listener: Literal["frontend", "transport", "delivery"] = "frontend"
    party: Sender = "outside"
    lines: tuple[Line, ...] = Field(min_length=1)
    background: bool = False
