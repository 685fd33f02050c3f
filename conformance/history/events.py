"""The events of a history: what was seen on the wire, and what the harness did.

Every event has a number `n` (its place in the one order of the cell) and a time `t` (seconds since the cell
began, in documented time: a scaled clock's seconds are multiplied back). Times of different events may be
equal; their numbers never are, so "before" is always a question about `n`.

A *party* is named as in the topology: a server, a sink, or one of the harness's senders. A *session* is one
recorded connection over a link, named `s1`, `s2`, ... in the order in which they were opened.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar, dataclass_transform

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter

Listener = Literal["frontend", "transport", "delivery", "smtp", "lmtp"]
"""Which door was dialled: a node's listener, or the protocol of a sink."""

OperationName = Literal[
    "request-shadow",
    "track-shadow",
    "shadow-message",
    "shadow-stored",
    "query-discard",
    "discard-list",
]


_ENDLESS = 1e12
"""Seconds: no cell is as long, and what is beyond is no time."""

R = TypeVar("R")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def recorded(kind: type[R]) -> type[R]:
    """Make a class one of recorded values. It is the type checker alone that keeps them from being changed: a dataclass
    that is frozen takes four times as long to make, and weeks of heartbeats have 300,000 of them."""
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(kind)


@recorded
class RecordedValue:
    """The base of all recorded values: closed and immutable, and checked when they are read, not when they are made.

    A cell has thousands of them, and a dataclass with slots takes a tenth of the memory of a model.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", allow_inf_nan=False)


@recorded
class Operation(RecordedValue):
    """What a line means in the terms of shadow redundancy, whatever a dialect spells it (wire-profile.md).

    - `request-shadow`: XSHADOWREQUEST and its 250 (`server` and `database` name the party that spoke)
    - `track-shadow`: XSHADOW and its 250, likewise
    - `shadow-message`: MAIL with XSHADOW= (`shadow_id`)
    - `shadow-stored`: the 250 after the final dot of a shadow message
    - `query-discard`: XQDISCARD (`server` asks, for at most `limit` notifications)
    - `discard-list`: its 250 (`database` of the primary, `shadow_ids` delivered, `left` to ask for)
    """

    name: OperationName
    server: str | None = None
    database: str | None = None
    shadow_id: str | None = None
    shadow_ids: tuple[str, ...] = ()
    limit: int | None = None
    left: int | None = None


@recorded
class Digest(RecordedValue):
    """A message's content as it passed: sizes in octets, SHA-256 in hex, and what identifies it.

    `stable` covers everything but trace fields (Received, Return-Path, Delivered-To, X-Original-To), so that it
    is the same at every hop of a transport that passes content on unchanged (RFC 5321 4.4, 6.4).
    """

    size: int
    sha256: str
    body_sha256: str
    stable_sha256: str
    message_id: str | None = None
    date: str | None = None
    report: Literal["delivery-status", "journal"] | None = None
    about: Annotated[str | None, Field(description="Message-ID of the message that a report is about")] = None
    action: Annotated[str | None, Field(description="the Action field of a delivery-status report (RFC 3464)")] = None
    failed: Annotated[
        tuple[str, ...], Field(description="the recipients of whom such a report says that it failed for them")
    ] = ()


@recorded
class Event(RecordedValue):
    """What all events share."""

    n: Annotated[int, Field(ge=0, description="place in the one order of the cell")]
    t: Annotated[
        float, Field(ge=-_ENDLESS, le=_ENDLESS, description="seconds since the cell began, in documented time")
    ]


@recorded
class Connected(Event):
    """A link connected `client` to `server`; everything of the session follows under its name."""

    kind: Literal["connected"] = "connected"
    session: str
    client: str
    server: str
    listener: Listener


@recorded
class ConnectFailed(Event):
    """`client` dialled `server` in vain: refused, down, or by a fault."""

    kind: Literal["connect-failed"] = "connect-failed"
    client: str
    server: str
    listener: Listener
    reason: str


@recorded
class Command(Event):
    """One command line from the client (AUTH secrets redacted); `verb` in upper case, '' when unreadable."""

    kind: Literal["command"] = "command"
    session: str
    verb: str
    line: str
    operation: Operation | None = None


@recorded
class Reply(Event):
    """One whole reply; `to` is the verb it answers: GREETING, EHLO, ..., DATA (354), CONTENT (after the dot)."""

    kind: Literal["reply"] = "reply"
    session: str
    to: str
    code: int
    enhanced: str | None = None
    lines: Annotated[tuple[str, ...], Field(description="the text of each line, after the code and its separator")]
    recipient: Annotated[str | None, Field(description="LMTP: whose final reply this is (RFC 2033)")] = None
    operation: Operation | None = None
    malformed: Annotated[
        str, Field(description="in which way its octets are not a reply of RFC 5321 4.2, in words")
    ] = ""


@recorded
class Content(Event):
    """The final dot passed: the whole message had been sent."""

    kind: Literal["content"] = "content"
    session: str
    digest: Digest


@recorded
class Closed(Event):
    """The session ended; `by` says who ended it, `how` with what (FIN, RST, or a link's fault)."""

    kind: Literal["closed"] = "closed"
    session: str
    by: Literal["client", "server", "link"]
    how: Literal["fin", "reset", "secured"]


@recorded
class FaultFired(Event):
    """A fault did what it was armed for, once; without such an event it never happened."""

    kind: Literal["fault-fired"] = "fault-fired"
    fault: str
    action: str
    session: str | None = None
    client: str
    server: str
    detail: str = ""


@recorded
class FaultArmed(Event):
    """A fault was armed on the links named (`client -> server`), or (`healed`) taken away."""

    kind: Literal["fault-armed"] = "fault-armed"
    fault: str
    action: str
    links: tuple[str, ...]
    healed: bool = False


@recorded
class StepEvent(Event):
    """A scenario's step began, ended, or was reached (an expectation); `path` is its place, `2` or `3.1`."""

    kind: Literal["step"] = "step"
    phase: Literal["began", "ended", "reached", "failed"]
    path: str
    verb: str
    line: int
    label: str | None = None
    detail: str = ""


@recorded
class MessageMade(Event):
    """The harness made a message: `message` is its name in the scenario (`m#1`)."""

    kind: Literal["message"] = "message"
    message: str
    message_id: str | None = None
    sender: str
    recipients: tuple[str, ...]
    digest: Digest
    protocol: Literal["outside", "submission"] = "outside"


@recorded
class Attempt(Event):
    """One transmission of a message by the harness ended.

    `outcome` is `answered` (a final reply was read), `lost` (the session ended first, or no session could be had) or
    `abandoned` (the scenario gave up on purpose). `code` is that of the final reply, or of the refusing one.
    """

    kind: Literal["attempt"] = "attempt"
    message: str
    attempt: int
    client: str
    server: str
    listener: Listener
    session: str | None = None
    outcome: Literal["answered", "lost", "abandoned"]
    code: int | None = None
    enhanced: str | None = None
    text: str = ""
    accepted: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    dot_sent: bool = False


@recorded
class Delivered(Event):
    """A sink took a message for one recipient; recorded when the sink decides, before its reply is written."""

    kind: Literal["delivered"] = "delivered"
    sink: str
    giver: str
    recipient: str
    sender: str
    digest: Digest
    session: str | None = None


@recorded
class TalkExchange(RecordedValue):
    """One exchange of a `talk`: what was said, and the reply that was read (none: `code` is None, `text` says why)."""

    said: str
    code: int | None = None
    enhanced: str | None = None
    text: str = ""
    closed: bool = False
    waited: Annotated[
        float | None, Field(description="seconds, documented time, from the line (after its own wait) to the reply")
    ] = None


@recorded
class Talked(Event):
    """A `talk` ended: its exchanges up to the last line, or to the first whose reply was not as written."""

    kind: Literal["talked"] = "talked"
    conversation: str
    client: str
    server: str
    listener: Listener
    session: str | None = None
    exchanges: tuple[TalkExchange, ...]
    problem: Annotated[str, Field(description="in which way a reply was not as written, in words")] = ""


@recorded
class NodeEvent(Event):
    """A node was started, became ready, was stopped, killed, ... or ended on its own (`exited`).

    `starved`: the machine ran out of something that the node needed; what follows from that is not the node's fault.
    """

    kind: Literal["node"] = "node"
    node: str
    action: Literal[
        "started", "ready", "stopped", "killed", "wiped", "paused", "resumed", "reloaded", "refused",
        "exited", "failed", "starved",
    ]  # fmt: skip
    detail: str = ""


@recorded
class Configured(Event):
    """New configuration was offered to a node; `refused` holds its words when it would not take it."""

    kind: Literal["configured"] = "configured"
    node: str
    changes: dict[str, JsonValue]
    refused: str | None = None


@recorded
class Inspected(Event):
    """What a node's `inspect` command printed (docs/node-contract.md)."""

    kind: Literal["inspected"] = "inspected"
    node: str
    state: dict[str, Any]


@recorded
class CommandRun(Event):
    """An administrative command was given to a node: redirect-messages, resubmit, ..."""

    kind: Literal["node-command"] = "node-command"
    node: str
    command: str
    arguments: tuple[str, ...] = ()
    failed: str | None = None


@recorded
class Drained(Event):
    """Everything was healed and the transport left to itself until it was quiet or the bound was reached."""

    kind: Literal["drained"] = "drained"
    quiet: bool
    waited: float
    detail: str = ""


@recorded
class Lag(Event):
    """The harness and the machine under the nodes' programs ran late by `seconds` (documented time) in all since the last
    such event; `detail` says who kept the harness from being in time, or which node waited for a processor, where that is
    known."""

    kind: Literal["lag"] = "lag"
    seconds: float
    detail: str = ""


AnyEvent = Annotated[
    Connected | ConnectFailed | Command | Reply | Content | Closed | FaultFired | FaultArmed | StepEvent
    | MessageMade | Attempt | Delivered | Talked | NodeEvent | Configured | Inspected | CommandRun | Drained | Lag,
    Field(discriminator="kind"),
]  # fmt: skip

EVENT_ADAPTER: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)
"""Reads one event from its JSON object: `EVENT.validate_json(line)`."""
