"""The models of expectations, one for each verb of `expect`.

An expectation is reached when the step before it has ended. Without `within` it must hold for what has happened by then; with
`within` the run continues until it holds or the limit has passed. With `after` it must not have come true earlier than that.
These limits count from the beginning of the step labelled `since`; without `since`, from the moment the expectation is reached.

`of` names messages as `send` does: `m` is all messages of that step, `m#3` the third.
"""

from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

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
from conformance.scenarios.values import Duration, as_tuple


class Expectation(BaseModel):
    """The fields of every expectation."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    within: Duration | None = Field(None, description="latest time at which it comes true, counted from `since`")
    after: Duration | None = Field(None, description="earliest time at which it comes true, counted from `since`")
    since: StepLabel | None = Field(
        None,
        description="label of the step from whose beginning the times count; for a `start`, from when the node is ready",
    )
    room: Duration | None = Field(
        None,
        description="distance of the expectation from the time that it is about: a harness that is late by no more than this "
        "excuses no failure",
    )
    where: Text | None = Field(
        None,
        description="EHLO keyword: not applicable where no server offered it in the sessions of the messages `of`, or of the "
        "conversation",
    )
    requirements: tuple[Requirement, ...] = Field(
        (), description="which requirements it judges; default: the scenario's"
    )


EXPECTATIONS: Registry[type[Expectation]] = Registry("expectation", require_name_types)
"""Verb -> model. The check of each is in `conformance.judge.expectations`."""

expectation = EXPECTATIONS.register


_MAX_COPIES = 1_000_000


class Copies(BaseModel):
    """A range of numbers: `copies: 1`, or `copies: {min: 1, max: 2}`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min: int = Field(0, ge=0, le=_MAX_COPIES)
    max: int | None = Field(None, ge=0, le=_MAX_COPIES)

    @model_validator(mode="before")
    @classmethod
    def _one_number(cls, value: object) -> object:
        """Return the range from a single number to itself; any other value unchanged."""
        return {"min": value, "max": value} if isinstance(value, int) else value

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        """Raise ValueError for a range without a number in it."""
        if self.max is not None and self.min > self.max:
            raise ValueError("`min` is more than `max`: this can never hold")
        return self


ONE = Copies(min=1, max=1)


@expectation("reply")
class ReplyExpected(Expectation):
    """The final reply to each message, or to one attempt of it; `code: lost` when the session ended without a reply."""

    of: Message
    code: int | Literal["lost", "none"] | None = None
    classes: tuple[Literal[2, 4, 5], ...] | None = Field(None, description="the code's first digit is one of these")
    enhanced: Text | None = None
    text: Text | None = Field(None, description="the reply's text must contain this")
    attempt: int | Literal["last", "each"] = "last"


@expectation("shadow")
class ShadowExpected(Expectation):
    """A shadow copy of each message was stored `on` one of these servers (default: any)."""

    of: Message
    on: Servers | None = None
    by: Server | None = Field(None, description="the primary that asked for it")
    stored: Literal["before-acknowledgement", "at-all"] = "at-all"
    mail: Literal["in-transaction", "at-all"] = Field(
        "at-all",
        description="in-transaction: a session that is used for the copy while the sender waits has the copy's MAIL after "
        "the sender's MAIL and before its reply",
    )
    count: int | None = Field(None, ge=0, description="number of acknowledged shadow copies, for each message")
    sites: Sites | None = Field(None, description="the shadow servers' sites are among these")
    spread: int | None = Field(
        None, ge=1, description="minimum number of different servers that hold a copy, over all messages"
    )


@expectation("no-shadow")
class NoShadowExpected(Expectation):
    """No shadow copy of any of the messages was stored (`on` these servers; default: on any)."""

    of: Message
    on: Servers | None = None


@expectation("shadow-attempts")
class ShadowAttemptsExpected(Expectation):
    """The attempts to store a shadow copy: how many, with which servers, and in which sites."""

    of: Message | None = None
    by: Server
    count: Copies | None = None
    sites: tuple[Site, ...] | None = Field(
        None, description="the site of each attempt, in order: `London` or `remote`, `local`"
    )
    on: Servers | None = Field(None, description="every attempt goes to one of these")
    distinct: bool | None = Field(None, description="no server is tried twice before all others were tried")


@expectation("same-content")
class SameContentExpected(Expectation):
    """The shadow copy has the envelope and content of the primary's message, trace fields aside.

    Parameters of MAIL and RCPT (RET, ENVID, NOTIFY, ORCPT, BODY, SMTPUTF8) belong to the envelope.
    """

    of: Message
    to: Party | None = Field(None, description="compare what servers transmit to this party, and not shadow copies")


@expectation("discarded")
class DiscardedExpected(Expectation):
    """The shadow server `on` got a discard notification for each message."""

    of: Message
    on: Party | None = None
    times: int | None = Field(None, ge=0, description="number of notifications for each message")


@expectation("not-discarded")
class NotDiscardedExpected(Expectation):
    """No discard notification for any of the messages was sent (to `on`) so far."""

    of: Message
    on: Party | None = None


@expectation("queried")
class QueriedExpected(Expectation):
    """`by` queried the discard status at `at`: how often, and at what intervals."""

    by: Party
    at: Party
    times: Copies | None = None
    every: Duration | None = Field(None, description="longest time between two queries, and from `since` to the first")
    answered: bool | None = None
    before: Literal["quit"] | None = Field(None, description="in each ended session with mail, before its QUIT")


@expectation("promoted")
class PromotedExpected(Expectation):
    """`by` was promoted for each message: it transmitted its shadow copies to their next hops as its own."""

    of: Message
    by: Servers


@expectation("not-promoted")
class NotPromotedExpected(Expectation):
    """No server that holds a shadow copy transmitted it (to one of `to`, where given)."""

    of: Message
    by: Servers | None = None
    to: Parties | None = Field(None, description="next hops to which it must not be transmitted; others are allowed")


@expectation("mailbox")
class MailboxExpected(Expectation):
    """The number of copies of each message in the mailbox `who`."""

    of: Message
    who: Mailboxes
    copies: Copies = ONE


@expectation("delivered")
class DeliveredExpected(Expectation):
    """The number of copies of each message that reached recipients outside, at the sink `at` (default: any)."""

    of: Message
    to: Texts | None = None
    at: Sink | None = None
    copies: Copies = ONE
    repeats: Literal["in-flight"] | None = Field(
        None,
        description="in-flight: of all messages together at most as many copies beyond the first as servers had in flight when killed",
    )
    by: Server | None = Field(None, description="the server that handed it over")


@expectation("transmitted")
class TransmittedExpected(Expectation):
    """The number of times that each message's content was transmitted from one party to another."""

    of: Message
    sender: Party = Field(alias="from")
    to: Party
    copies: Copies = ONE
    recipients: int | None = Field(None, description="number of recipients of each such transaction")
    listener: Literal["transport", "delivery", "frontend", "smtp", "lmtp"] | None = None


@expectation("route")
class RouteExpected(Expectation):
    """The servers through which each message went to its sink, in order."""

    of: Message
    to: Text
    through: tuple[Server, ...]


@expectation("advertised")
class AdvertisedExpected(Expectation):
    """Whether `by` offered a keyword in its EHLO reply to the party `to`, on a listener."""

    by: Server
    to: Party
    keyword: Text
    offered: bool
    listener: Literal["frontend", "transport"] = "transport"


@expectation("issued")
class IssuedExpected(Expectation):
    """The number of times that `by` sent a verb to `to`."""

    by: Party
    to: Party
    verb: Text
    times: Copies


@expectation("closed")
class ClosedExpected(Expectation):
    """`by` closed the labelled conversation, or the sessions `of` messages, after this reply."""

    conversation: Conversation | None = None
    of: Message | None = None
    sender: Party | None = Field(None, alias="from")
    to: Party | None = None
    by: Literal["client", "server"] = "server"
    code: int | None = None
    enhanced: Text | None = None


@expectation("conversation")
class ConversationExpected(Expectation):
    """In a labelled `talk` every reply was as its line expects."""

    conversation: Conversation


_ReportAction = Literal["failed", "delayed", "delivered", "relayed", "expanded"]
ReportActions = Annotated[
    tuple[_ReportAction, ...],
    BeforeValidator(as_tuple),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": [*get_args(_ReportAction)]},
                {"type": "array", "items": {"enum": [*get_args(_ReportAction)]}, "minItems": 1},
            ]
        }
    ),
    Field(min_length=1),
]
"""Actions of a delivery status notification (RFC 3464 2.3.3), one or more."""


@expectation("report")
class ReportExpected(Expectation):
    """The number of delivery status notifications about each message that reached `to`, with a null reverse-path.

    With several actions, notifications of any of them count.
    """

    of: Message
    to: Text
    copies: Copies = ONE
    action: ReportActions = ("failed",)


@expectation("journaled")
class JournaledExpected(Expectation):
    """The number of journal reports about each message that reached `to`."""

    of: Message
    to: Text
    copies: Copies = ONE


@expectation("queue")
class QueueExpected(Expectation):
    """The number of items in queues of a kind at the last `inspect` of a node, for one next hop or primary."""

    on: Server
    kind: Literal["submission", "delivery", "shadow", "safety-net", "shadow-safety-net", "discard", "delivered-to"]
    of: Message | None = None
    items: Copies
    next_hop: Hop | None = Field(None, alias="next-hop")
    queues: int | None = Field(None, description="number of queues that hold them")


@expectation("refused")
class RefusedExpected(Expectation):
    """The last configuration of `node` was refused with an error that names all of `names` (`refused: no`: accepted)."""

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
    """`node` ended by itself, or by an orderly stop, with this exit code."""

    node: Server
    code: int
