"""The step `talk`: an SMTP session, line by line, with the expected replies.

A class has the fields of one verb (`action`). `conformance.run.steps` has the function that does the step; the classes'
docstrings are published in docs/writing-scenarios.md.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from conformance.scenarios.name_types import DefinesName, MessageFixture, Sender, Server, Text
from conformance.scenarios.steps.action import Action, step
from conformance.scenarios.values import Duration, Label


class Line(BaseModel):
    """One exchange of a `talk`: a line, and the expected reply."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    say: Text | None = Field(None, description="a command line (CRLF is added)")
    octets: Text | None = Field(None, description="exactly these octets, with \\r \\n \\0 \\xhh escapes")
    message: MessageFixture | None = Field(
        None, description="content of a message of fixtures/messages, dot-stuffed, and the final dot"
    )
    wait: Duration | None = Field(None, description="wait for this time before the line")
    code: int | Literal["closed"] | tuple[int | Literal["closed"], ...] | None = Field(
        None,
        description="expected reply code, `closed` for the end of the session, or several alternatives; without it no reply is read",
    )
    within: Duration | None = Field(None, description="longest time from the line, or from its `wait`, to the reply")
    enhanced: Text | tuple[Text, ...] | None = Field(
        None,
        description="expected enhanced status code, or several alternatives; not checked if the last positive reply to "
        "EHLO or LHLO did not offer ENHANCEDSTATUSCODES (before EHLO, and after HELO only, it is checked)",
    )
    has: Text | None = Field(None, description="the reply contains this text")
    lacks: Text | None = Field(None, description="the reply does not contain this text")
    where: Text | None = Field(
        None,
        description="EHLO keyword: the line is sent only where the last reply to EHLO offers it; for an EHLO line, `has` and "
        "`lacks` are checked only where its reply offers it",
    )
    secure: bool = Field(False, description="start TLS after the reply 220 (RFC 3207); the certificate is not verified")


@step("talk")
class Talk(Action):
    """Hold one SMTP session, line by line."""

    name: Annotated[Label, DefinesName("conversation")] = Field(alias="as")
    to: Server
    listener: Literal["frontend", "transport", "delivery"] = "frontend"
    party: Sender = "outside"
    lines: tuple[Line, ...] = Field(min_length=1)
    background: bool = False
