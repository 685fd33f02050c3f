"""What a scenario may expect: one closed model for each expectation verb.

An expectation is reached after the step before it has ended. With `within` the run goes on until it holds or the
bound has passed;
without, it must hold of what has happened by then. Bounds are counted from the beginning of the step labelled
`since`; without
`since`, from the moment the expectation is reached. `after` says that it must not have come true earlier than that.

`of` names messages as `send` called them: `m` is all messages of that step, `m#3` the third.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from conformance.registry import Registry
from conformance.scenarios.name_types import (
    Conversation,
    Hop,
    Mailboxes,
    Message,
    Parties,
    Party,
    Requirement,
    Server,
    Servers,
    Sink,
    Site,
    Sites,
    StepLabel,
    Text,
    Texts,
    require_name_types,
)
from conformance.scenarios.values import Duration


class Expectation(BaseModel):
    """What all expectations share."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    within: Duration | None = Field(None, description="it must have come true by then, counted from `since`")
    after: Duration | None = Field(None, description="it must not have come true before then, counted from `since`")
    since: StepLabel | None = Field(
        None,
        description="label of the step from whose beginning the bounds are counted; of a `start`, from when the node is ready",
    )
    room: Duration | None = Field(
        None,
        description="so far is the moment of the expectation from the time that it is about: a harness that ran late by no "
        "more excuses nothing",
    )
    where: Text | None = Field(
        None,
        description="a keyword of EHLO: not applicable where no server offered it in the sessions of the messages `of`",
    )
    requirements: tuple[Requirement, ...] = Field(
        (), description="which requirements it judges; default: the scenario's"
    )


EXPECTATIONS: Registry[type[Expectation]] = Registry("expectation", require_name_types)
"""Every expectation verb and the model of what stands under it. Its check is in `conformance.judge.expectations`."""

expectation = EXPECTATIONS.register


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


@expectation("reply")
class ReplyExpected(Expectation):
    """The final reply to each message, or to one attempt of it; `code: lost` when no reply was to be had."""

    of: Message
    code: int | Literal["lost", "none"] | None = None
    classes: tuple[Literal[2, 4, 5], ...] | None = Field(None, description="the code's first digit is one of these")
    enhanced: Text | None = None
    text: Text | None = Field(None, description="the reply's text must contain this")
    attempt: int | Literal["last", "each"] = "last"


@expectation("shadow")
class ShadowExpected(Expectation):
    """A shadow copy of each message was stored `on` one of these servers (any, when not given)."""

    of: Message
    on: Servers | None = None
    by: Server | None = Field(None, description="the primary that asked for it")
    stored: Literal["before-acknowledgement", "at-all"] = "at-all"
    mail: Literal["in-transaction", "at-all"] = Field(
        "at-all",
        description="in-transaction: a session that is used for the copy while the sender waits has the copy's MAIL after "
        "the sender's MAIL and before its reply",
    )
    count: int | None = Field(None, ge=0, description="shadow copies acknowledged in all, for each message")
    sites: Sites | None = Field(None, description="the shadow servers' sites are among these")
    spread: int | None = Field(None, ge=1, description="over all messages at least so many different servers hold one")


@expectation("no-shadow")
class NoShadowExpected(Expectation):
    """No shadow copy of any of the messages was stored (`on` these servers, where given)."""

    of: Message
    on: Servers | None = None


@expectation("shadow-attempts")
class ShadowAttemptsExpected(Expectation):
    """The attempts to make a shadow, in order: which servers were dialled, or how many and in which sites."""

    of: Message | None = None
    by: Server
    count: Copies | None = None
    sites: tuple[Site, ...] | None = Field(
        None, description="the site of each attempt, in order: `London` or `remote`, `local`"
    )
    on: Servers | None = Field(None, description="every attempt goes to one of these")
    distinct: bool | None = Field(None, description="no server is dialled twice while another was not tried")


@expectation("same-content")
class SameContentExpected(Expectation):
    """The shadow's envelope and content equal the primary's, trace fields aside."""

    of: Message


@expectation("discarded")
class DiscardedExpected(Expectation):
    """The shadow server `on` was told to discard the shadow of each message."""

    of: Message
    on: Party | None = None
    times: int | None = Field(None, ge=0, description="told so often, for each message")


@expectation("not-discarded")
class NotDiscardedExpected(Expectation):
    """No discard notification for any of the messages was given (to `on`) up to now."""

    of: Message
    on: Party | None = None


@expectation("queried")
class QueriedExpected(Expectation):
    """`by` asked `at` for its discard status: at least/at most so often, at least once each `every`."""

    by: Party
    at: Party
    times: Copies | None = None
    every: Duration | None = Field(None, description="no gap between queries (or from `since`) is longer")
    answered: bool | None = None
    before: Literal["quit"] | None = Field(None, description="in each ended session with mail, before its QUIT")


@expectation("promoted")
class PromotedExpected(Expectation):
    """`by` took the shadows of each message over: it transmitted them to their next hops as its own."""

    of: Message
    by: Servers


@expectation("not-promoted")
class NotPromotedExpected(Expectation):
    """No holder of a shadow transmitted it, or transmitted it to one of `to`."""

    of: Message
    by: Servers | None = None
    to: Parties | None = Field(
        None, description="not to one of these; whoever takes shadows over may transmit them to others"
    )


@expectation("mailbox")
class MailboxExpected(Expectation):
    """So many copies of each message are in the mailbox `who`."""

    of: Message
    who: Mailboxes
    copies: Copies = ONE


@expectation("delivered")
class DeliveredExpected(Expectation):
    """So many copies of each message reached recipients outside, at the sink `at` (any)."""

    of: Message
    to: Texts | None = None
    at: Sink | None = None
    copies: Copies = ONE
    repeats: Literal["in-flight"] | None = Field(
        None,
        description="no more copies beyond the first, of all messages together, than servers had under way when killed",
    )
    by: Server | None = Field(None, description="the server that handed it over")


@expectation("transmitted")
class TransmittedExpected(Expectation):
    """How often each message's content went from one server to another (or to a sink)."""

    of: Message
    sender: Party = Field(alias="from")
    to: Party
    copies: Copies = ONE
    recipients: int | None = Field(None, description="recipients of each such transaction")
    listener: Literal["transport", "delivery", "frontend", "smtp", "lmtp"] | None = None


@expectation("route")
class RouteExpected(Expectation):
    """The servers that each message went through, in order, to its sink."""

    of: Message
    to: Text
    through: tuple[Server, ...]


@expectation("advertised")
class AdvertisedExpected(Expectation):
    """Whether `by` offered a keyword in its EHLO reply to `to` (a party), on a listener."""

    by: Server
    to: Party
    keyword: Text
    offered: bool
    listener: Literal["frontend", "transport"] = "transport"


@expectation("issued")
class IssuedExpected(Expectation):
    """Whether `by` used a verb towards `to`: so many times."""

    by: Party
    to: Party
    verb: Text
    times: Copies


@expectation("closed")
class ClosedExpected(Expectation):
    """`by` closed the labelled conversation (or the sessions `of` a message) with this reply first."""

    conversation: Conversation | None = None
    of: Message | None = None
    sender: Party | None = Field(None, alias="from")
    to: Party | None = None
    by: Literal["client", "server"] = "server"
    code: int | None = None
    enhanced: Text | None = None


@expectation("conversation")
class ConversationExpected(Expectation):
    """A labelled `talk` went as it says: every reply as written beside its line."""

    conversation: Conversation


@expectation("report")
class ReportExpected(Expectation):
    """So many delivery status notifications about each message reached `to`, with a null reverse-path."""

    of: Message
    to: Text
    copies: Copies = ONE
    action: Literal["failed", "delayed", "delivered", "relayed", "expanded"] = "failed"


@expectation("journaled")
class JournaledExpected(Expectation):
    """So many journal reports about each message reached `to`."""

    of: Message
    to: Text
    copies: Copies = ONE


@expectation("queue")
class QueueExpected(Expectation):
    """What the last `inspect` of a node showed: items in queues of a kind, for a next hop or primary."""

    on: Server
    kind: Literal["submission", "delivery", "shadow", "safety-net", "shadow-safety-net", "discard", "delivered-to"]
    of: Message | None = None
    items: Copies
    next_hop: Hop | None = Field(None, alias="next-hop")
    queues: int | None = Field(None, description="in so many separate queues")


@expectation("refused")
class RefusedExpected(Expectation):
    """The last configuration offered to `node` was refused, naming all of `names` (or taken: `refused: no`)."""

    node: Server
    refused: bool = True
    names: Texts = ()


@expectation("withheld")
class WithheldExpected(Expectation):
    """The time from each message's final dot to its final reply (delayed acknowledgement)."""

    of: Message
    least: Duration | None = None
    most: Duration | None = None


@expectation("left")
class LeftExpected(Expectation):
    """`node` ended by itself, or left on its orderly stop, with this exit code."""

    node: Server
    code: int
