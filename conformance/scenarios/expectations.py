"""What a scenario may expect: one closed model for each expectation verb.

An expectation is reached after the step before it has ended. With `within` the run goes on until it holds or the
bound has passed;
without, it must hold of what has happened by then. Bounds are counted from the beginning of the step labelled
`since`; without
`since`, from the moment the expectation is reached. `after` says that it must not have come true earlier than that.

`of` names messages as `send` called them: `m` is all messages of that step, `m#3` the third.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from conformance.scenarios.values import Duration, Label, Names


class Expectation(BaseModel):
    """What all expectations share."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    within: Duration | None = Field(None, description="it must have come true by then, counted from `since`")
    after: Duration | None = Field(None, description="it must not have come true before then, counted from `since`")
    since: Label | None = Field(
        None,
        description="label of the step from whose beginning the bounds are counted; of a `start`, from when the node is ready",
    )
    room: Duration | None = Field(
        None,
        description="so far is the moment of the expectation from the time that it is about: a harness that ran late by no "
        "more excuses nothing",
    )
    where: str | None = Field(
        None,
        description="a keyword of EHLO: not applicable where no server offered it in the sessions of the messages `of`",
    )
    requirements: tuple[str, ...] = Field((), description="which requirements it judges; default: the scenario's")


_MOST_COPIES = 1_000_000


class Copies(BaseModel):
    """A number of copies: `copies: 1`, or `copies: {min: 1, max: 2}`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min: int = Field(0, ge=0, le=_MOST_COPIES)
    max: int | None = Field(None, ge=0, le=_MOST_COPIES)

    @model_validator(mode="before")
    @classmethod
    def _one_number(cls, value: object) -> object:
        return {"min": value, "max": value} if isinstance(value, int) else value


ONE = Copies(min=1, max=1)


class ReplyExpected(Expectation):
    """The final reply to each message, or to one attempt of it; `code: lost` when no reply was to be had."""

    of: str
    code: int | Literal["lost", "none"] | None = None
    classes: tuple[Literal[2, 4, 5], ...] | None = Field(None, description="the code's first digit is one of these")
    enhanced: str | None = None
    text: str | None = Field(None, description="the reply's text must contain this")
    attempt: int | Literal["last", "each"] = "last"


class ShadowExpected(Expectation):
    """A shadow copy of each message was stored `on` one of these servers (any, when not given)."""

    of: str
    on: Names | None = None
    by: str | None = Field(None, description="the primary that asked for it")
    stored: Literal["before-acknowledgement", "at-all"] = "at-all"
    mail: Literal["in-transaction", "at-all"] = Field(
        "at-all",
        description="in-transaction: a session that is used for the copy while the sender waits has the copy's MAIL after "
        "the sender's MAIL and before its reply",
    )
    count: int | None = Field(None, ge=0, description="shadow copies acknowledged in all, for each message")
    sites: Names | None = Field(None, description="the shadow servers' sites are among these")
    spread: int | None = Field(None, ge=1, description="over all messages at least so many different servers hold one")


class NoShadowExpected(Expectation):
    """No shadow copy of any of the messages was stored (`on` these servers, where given)."""

    of: str
    on: Names | None = None


class ShadowAttemptsExpected(Expectation):
    """The attempts to make a shadow, in order: which servers were dialled, or how many and in which sites."""

    of: str | None = None
    by: str
    count: Copies | None = None
    sites: tuple[str, ...] | None = Field(
        None, description="the site of each attempt, in order: `London` or `remote`, `local`"
    )
    on: Names | None = Field(None, description="every attempt goes to one of these")
    distinct: bool | None = Field(None, description="no server is dialled twice while another was not tried")


class ContentSame(Expectation):
    """The shadow's envelope and content equal the primary's, trace fields aside."""

    of: str


class DiscardedExpected(Expectation):
    """The shadow server `on` was told to discard the shadow of each message."""

    of: str
    on: str | None = None
    times: int | None = Field(None, ge=0, description="told so often, for each message")


class NotDiscardedExpected(Expectation):
    """No discard notification for any of the messages was given (to `on`) up to now."""

    of: str
    on: str | None = None


class QueriedExpected(Expectation):
    """`by` asked `at` for its discard status: at least/at most so often, at least once each `every`."""

    by: str
    at: str
    times: Copies | None = None
    every: Duration | None = Field(None, description="no gap between queries (or from `since`) is longer")
    answered: bool | None = None
    before: Literal["quit"] | None = Field(None, description="in each ended session with mail, before its QUIT")


class PromotedExpected(Expectation):
    """`by` took the shadows of each message over: it transmitted them to their next hops as its own."""

    of: str
    by: Names


class NotPromotedExpected(Expectation):
    """No holder of a shadow transmitted it, or transmitted it to one of `to`."""

    of: str
    by: Names | None = None
    to: Names | None = Field(
        None, description="not to one of these; whoever takes shadows over may transmit them to others"
    )


class MailboxExpected(Expectation):
    """So many copies of each message are in the mailbox `who`."""

    of: str
    who: Names
    copies: Copies = ONE


class DeliveredExpected(Expectation):
    """So many copies of each message reached recipients outside, at the sink `at` (any)."""

    of: str
    to: Names | None = None
    at: str | None = None
    copies: Copies = ONE
    repeats: Literal["in-flight"] | None = Field(
        None,
        description="no more copies beyond the first, of all messages together, than servers had under way when killed",
    )
    by: str | None = Field(None, description="the server that handed it over")


class TransmittedExpected(Expectation):
    """How often each message's content went from one server to another (or to a sink)."""

    of: str
    sender: str = Field(alias="from")
    to: str
    copies: Copies = ONE
    recipients: int | None = Field(None, description="recipients of each such transaction")
    listener: Literal["transport", "delivery", "frontend", "smtp", "lmtp"] | None = None


class RouteExpected(Expectation):
    """The servers that each message went through, in order, to its sink."""

    of: str
    to: str
    through: tuple[str, ...]


class AdvertisedExpected(Expectation):
    """Whether `by` offered a keyword in its EHLO reply to `to` (a party), on a listener."""

    by: str
    to: str
    keyword: str
    offered: bool
    listener: Literal["frontend", "transport"] = "transport"


class IssuedExpected(Expectation):
    """Whether `by` used a verb towards `to`: so many times."""

    by: str
    to: str
    verb: str
    times: Copies


class ClosedExpected(Expectation):
    """`by` closed the labelled conversation (or the sessions `of` a message) with this reply first."""

    conversation: Label | None = None
    of: str | None = None
    sender: str | None = Field(None, alias="from")
    to: str | None = None
    by: Literal["client", "server"] = "server"
    code: int | None = None
    enhanced: str | None = None


class ConversationExpected(Expectation):
    """A labelled `talk` went as it says: every reply as written beside its line."""

    conversation: Label


class ReportExpected(Expectation):
    """So many delivery status notifications about each message reached `to`, with a null reverse-path."""

    of: str
    to: str
    copies: Copies = ONE
    action: Literal["failed", "delayed", "delivered", "relayed", "expanded"] = "failed"


class JournaledExpected(Expectation):
    """So many journal reports about each message reached `to`."""

    of: str
    to: str
    copies: Copies = ONE


class QueueExpected(Expectation):
    """What the last `inspect` of a node showed: items in queues of a kind, for a next hop or primary."""

    on: str
    kind: Literal["submission", "delivery", "shadow", "safety-net", "shadow-safety-net", "discard", "delivered-to"]
    of: str | None = None
    items: Copies
    next_hop: str | None = Field(None, alias="next-hop")
    queues: int | None = Field(None, description="in so many separate queues")


class RefusedExpected(Expectation):
    """The last configuration offered to `node` was refused, naming all of `names` (or taken: `refused: no`)."""

    node: str
    refused: bool = True
    names: Names = ()


class WithheldExpected(Expectation):
    """The time from each message's final dot to its final reply (delayed acknowledgement)."""

    of: str
    least: Duration | None = None
    most: Duration | None = None


class LeftExpected(Expectation):
    """`node` ended by itself, or left on its orderly stop, with this exit code."""

    node: str
    code: int


VERBS: dict[str, type[Expectation]] = {
    "reply": ReplyExpected,
    "shadow": ShadowExpected,
    "no-shadow": NoShadowExpected,
    "shadow-attempts": ShadowAttemptsExpected,
    "same-content": ContentSame,
    "discarded": DiscardedExpected,
    "not-discarded": NotDiscardedExpected,
    "queried": QueriedExpected,
    "promoted": PromotedExpected,
    "not-promoted": NotPromotedExpected,
    "mailbox": MailboxExpected,
    "delivered": DeliveredExpected,
    "transmitted": TransmittedExpected,
    "route": RouteExpected,
    "advertised": AdvertisedExpected,
    "issued": IssuedExpected,
    "closed": ClosedExpected,
    "conversation": ConversationExpected,
    "report": ReportExpected,
    "journaled": JournaledExpected,
    "queue": QueueExpected,
    "refused": RefusedExpected,
    "withheld": WithheldExpected,
    "left": LeftExpected,
}
"""Every expectation verb and the model of what stands under it."""

ExpectationField = Annotated[Any, Field(description="one of: " + ", ".join(VERBS))]
