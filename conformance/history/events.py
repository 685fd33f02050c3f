"""The events of a history: what was seen on the links between parties, and what the harness did.

Every event has a number `n`, its place in the one order of the cell, and a time `t`: seconds since the cell began, in
documented time (the times of the documents; a scaled clock divides them, and they are multiplied back). Several events may
have the same time, but never the same number: whether an event came *before* another is decided by `n`.

A *party* is named as in the topology: a server, a sink, or one of the harness's senders. A *session* is one recorded
connection over a link, named `s1`, `s2`, ... in the order in which they were opened. A *node* is a running server under test.
`operation` is what a line means for shadow redundancy, None for ordinary SMTP.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, TypeAdapter

from conformance.history.values import Digest, Listener, Operation, RecordedValue, TalkExchange, recorded

NO_VERB = "?"
"""What a reply to a line without a verb, such as an empty one, is recorded as answering: no verb can be spelled so."""

_MAX_TIME_S = 1e12
"""No cell is as long; a stored time beyond this is refused."""


@recorded
class Event(RecordedValue):
    """The base class of all events."""

    n: Annotated[int, Field(strict=True, ge=0, description="place in the one order of the cell")]
    t: Annotated[
        float,
        Field(
            strict=True, ge=-_MAX_TIME_S, le=_MAX_TIME_S, description="seconds since the cell began, in documented time"
        ),
    ]


@recorded
class Connected(Event):
    """A link connected `client` to `server`; later events of the session have its name."""

    kind: Literal["connected"] = "connected"
    session: str
    client: str
    server: str
    listener: Listener


@recorded
class ConnectFailed(Event):
    """`client` could not connect to `server`: `reason` says why, in words."""

    kind: Literal["connect-failed"] = "connect-failed"
    client: str
    server: str
    listener: Listener
    reason: str


@recorded
class Command(Event):
    """One command line of the client, secrets redacted; `verb` in upper case, '' when it is unreadable."""

    kind: Literal["command"] = "command"
    session: str
    verb: str
    line: str
    operation: Operation | None = None


@recorded
class Reply(Event):
    """One whole reply of the server.

    `to` is the verb that it answers: GREETING, EHLO, ..., DATA (354), CONTENT (after the final dot), `NO_VERB` for a line that
    has none, '' if it answers nothing.
    """

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
    """The final dot of a message, or its last chunk, passed the link; `digest` is of the content as the client sent it."""

    kind: Literal["content"] = "content"
    session: str
    digest: Digest


@recorded
class Closed(Event):
    """The session ended; `by` says who ended it.

    `how`: by FIN, by a reset (RST), or `secured`: by FIN after STARTTLS, since which the link recorded nothing.
    """

    kind: Literal["closed"] = "closed"
    session: str
    by: Literal["client", "server", "link"]
    how: Literal["fin", "reset", "secured"]


@recorded
class FaultFired(Event):
    """A fault acted once on a session, or a moment came for which a step on nodes waited.

    `fault` is the fault's name, or names the step and its moment; `action` says what was done. `session` is None where it acted
    as the client dialled, and for a trouble of a disk, whose node is both `client` and `server`.
    """

    kind: Literal["fault-fired"] = "fault-fired"
    fault: str
    action: str
    session: str | None = None
    client: str
    server: str
    detail: str = ""


@recorded
class FaultArmed(Event):
    """A fault was armed on `links` (`client -> server`, or `NODE disk`), or ended (`healed`)."""

    kind: Literal["fault-armed"] = "fault-armed"
    fault: str
    action: str
    links: tuple[str, ...]
    healed: bool = False


@recorded
class StepEvent(Event):
    """A step of the scenario began, ended or failed, or an expectation was `reached`; `path` is its place, `2` or `3.1`."""

    kind: Literal["step"] = "step"
    phase: Literal["began", "ended", "reached", "failed"]
    path: str
    verb: str
    line: int
    label: str | None = None
    detail: str = ""


@recorded
class MessageMade(Event):
    """The harness made a message; `message` is the scenario's name of it (`m#1`)."""

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
    `attempt` counts from 1. `accepted` and `refused` are recipients by the replies to RCPT; `dot_sent`: the content was
    sent.
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
    """A sink accepted a message from `giver` for one recipient; recorded before the sink writes its reply."""

    kind: Literal["delivered"] = "delivered"
    sink: str
    giver: str
    recipient: str
    sender: str
    digest: Digest
    session: str | None = None


@recorded
class Talked(Event):
    """A `talk` ended: its exchanges up to the last line, or to the first whose reply was not the expected one."""

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
    """The state of a node changed, by a step or by itself.

    `exited`: it ended by itself; `failed`: it could not be started; `refused`: it refused its configuration at the start;
    `wiped`: its queue was deleted; `starved`: the machine ran out of something that it needed, which is not its fault.
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
    """A new configuration was offered to a node; `refused` is its error message, None when it took the configuration.

    One that was made while the node was down is offered at its next start, immediately before `started`, with all that was
    changed meanwhile; if the node refuses it, the `NodeEvent` `refused` says so, and the next start offers it again.
    """

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
    """An administrative command was given to a node (redirect-messages, resubmit, ...); `failed` is its error message."""

    kind: Literal["node-command"] = "node-command"
    node: str
    command: str
    arguments: tuple[str, ...] = ()
    failed: str | None = None


@recorded
class Drained(Event):
    """The wait at the end of a scenario ended: faults were healed, and the servers had time to deliver what they had accepted.

    `quiet`: every accepted message had arrived or been reported; if not, `detail` names those that are missing, if any are.
    `waited` is in documented seconds.
    """

    kind: Literal["drained"] = "drained"
    quiet: bool
    waited: float
    detail: str = ""


@recorded
class Lag(Event):
    """The harness, or its machine under the nodes' programs, ran late by `seconds` (documented time) since the last such event.

    `detail` names the cause where it is known: who kept the harness busy, or which node waited for a processor.
    """

    kind: Literal["lag"] = "lag"
    seconds: float
    detail: str = ""


AnyEvent = Annotated[
    Connected | ConnectFailed | Command | Reply | Content | Closed | FaultFired | FaultArmed | StepEvent
    | MessageMade | Attempt | Delivered | Talked | NodeEvent | Configured | Inspected | CommandRun | Drained | Lag,
    Field(discriminator="kind"),
]  # fmt: skip

EVENT_ADAPTER: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)
"""Reads one event from its JSON object: `EVENT_ADAPTER.validate_json(line)`."""
