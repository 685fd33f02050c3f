"""What a scenario can do: one closed model for each step verb.

A step is a mapping of one verb to its fields, with an optional `label` beside the verb. Several verbs take a short
form: `kill: mbx1`
for `kill: {node: mbx1}`, `advance: 2m` for `advance: {by: 2m}`.
"""

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from conformance.scenarios.expectations import Copies, Expectation
from conformance.scenarios.values import Duration, Label, Names, Parameter, Size


class Action(BaseModel):
    """What all step verbs share. `short` names the field that a bare value stands for."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
    short: ClassVar[str | None] = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return {cls.short: value} if cls.short and not isinstance(value, dict) else value


class Retry(BaseModel):
    """A sender's patience: again every so often, so many times at most, while the answer is 4yz or the session was
    lost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    every: Duration
    times: int = Field(ge=1, le=10_000)


class Send(Action):
    """Send messages to a server as a sender outside (`submit`: as the Mailbox Transport Submission service).

    With `background` the step ends at once and the replies come when they come.
    """

    name: Label = Field(alias="as")
    count: int = Field(1, ge=1, le=10_000, description="how many messages")
    sender: str = Field("alice@outside.test", alias="from", description="reverse-path; '' is the null one")
    to: Names
    via: Names = Field(description="servers, tried in turn by attempt")
    listener: Literal["frontend", "transport"] = "frontend"
    party: str = Field("outside", description="who connects: `outside`, or another sender of the topology")
    message: str = Field("plain", description="name of a message of fixtures/messages")
    size: Size | None = Field(None, description="pad the body to this size")
    headers: dict[str, str | None] = Field({}, description="header fields to set, or (null) to leave out")
    offers_xshadow: bool = Field(
        False, alias="offers-xshadow", description="speak as a server that knows shadow redundancy"
    )
    sessions: Literal["each", "one"] = Field("each", description="a session for each message, or one for all")
    concurrency: int = Field(1, ge=1, le=200, description="sessions at the same time")
    pipelining: bool = Field(False, description="send commands in groups (RFC 2920)")
    background: bool = Field(False, description="go on with the next step at once")
    retry: Retry | None = Field(None, description="try again while the answer is 4yz or the session was lost")
    abandon: Literal["before-dot", "at-dot", "after-reply"] | None = Field(None, description="drop the session there")
    notify: str | None = Field(None, description="NOTIFY= of RFC 3461 for every recipient")
    ret: Literal["FULL", "HDRS"] | None = Field(None, description="RET= of RFC 3461")
    envid: str | None = Field(None, description="ENVID= of RFC 3461")


class Submit(Send):
    """Submit messages from a mailbox inside the boundary, over the `transport` listener (node.md)."""

    sender: str = Field("carol@corp.test", alias="from")
    listener: Literal["frontend", "transport"] = "transport"
    party: str = "submission"


class Resend(Action):
    """Transmit messages of an earlier `send` once more, octet for octet."""

    of: str
    via: Names | None = None
    background: bool = False


class Await(Action):
    """Wait until the background sends of these messages have ended."""

    short = "of"
    of: str


class Line(BaseModel):
    """One exchange of a `talk`: what is said, and the reply that must come."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    say: str | None = Field(None, description="a command line (CRLF is added)")
    octets: str | None = Field(None, description="exactly these octets, with \\r \\n \\0 \\xhh escapes")
    message: str | None = Field(
        None, description="content of a message of fixtures/messages, dot-stuffed, and the final dot"
    )
    wait: Duration | None = Field(None, description="say nothing for so long before")
    code: int | Literal["closed"] | None = Field(None, description="the reply that must come; nothing is read without")
    enhanced: str | None = None
    has: str | None = Field(None, description="the reply contains this text")
    lacks: str | None = Field(None, description="the reply does not contain this text")
    secure: bool = Field(False, description="begin TLS when the reply has come (RFC 3207); no certificate is asked for")


class Talk(Action):
    """Hold one SMTP session, line by line."""

    name: Label = Field(alias="as")
    to: str
    listener: Literal["frontend", "transport", "delivery"] = "frontend"
    party: str = "outside"
    lines: tuple[Line, ...] = Field(min_length=1)
    background: bool = False


class Advance(Action):
    """Let time pass."""

    short = "by"
    by: Duration


class Fault(Action):
    """Arm a fault on the link `from` -> `to` (a server's listener, or a sink); it stays until it fired `times` or
    is healed."""

    name: Label = Field(alias="as")
    sender: str = Field(alias="from", description="who dials; `*` is anyone")
    to: str = Field(description="who is dialled")
    listener: Literal["frontend", "transport", "delivery", "smtp", "lmtp"] | None = None
    does: Literal[
        "drop", "reset", "half-close", "stall", "delay", "throttle", "garble", "cut", "replace", "answer", "refuse",
        "mute", "split", "merge",
    ]  # fmt: skip
    at: str = Field("connect", description="connect, greeting, a verb, MAIL..., dot, body")
    when: Literal["before", "heard", "after", "answered"] = Field(
        "before",
        description="before the command passes / once it has passed / after its reply arrived, before it passes / "
        "once the reply has passed",
    )
    offset: int | None = Field(None, ge=0, description="octet of the body")
    nth: int = Field(1, ge=1, description="the n-th occurrence")
    times: int | None = Field(1, ge=1, description="how often it fires; null: as long as it is armed")
    lasting: Duration | None = Field(None, description="delay and stall: how long")
    rate: int | None = Field(None, ge=1, description="throttle: octets a second")
    reply: str | None = Field(None, description="replace, answer: the reply, without CRLF")
    may_not_fire: bool = Field(
        False, alias="may-not-fire", description="a cell in which it never fired is judged all the same"
    )


class Partition(Action):
    """Cut every link between two groups of parties; `one-way` cuts only what the first dials."""

    name: Label = Field("partition", alias="as")
    between: tuple[Names, Names]
    one_way: bool = Field(False, alias="one-way")
    how: Literal["refuse", "blackhole"] = "refuse"


class Heal(Action):
    """Take faults and partitions away: one by name, or `all`."""

    short = "what"
    what: str = "all"


class Answer(Action):
    """Tell a sink how to answer: a reply at a verb, for one recipient or all, so many times or for good."""

    sink: str
    at: Literal["connect", "MAIL", "RCPT", "DATA", "dot"] = "dot"
    reply: str | Literal["accept"] = Field(description="e.g. `451 4.3.0 try later`; `accept` ends an earlier one")
    recipient: str | None = None
    times: int | None = Field(None, ge=1)


class Moment(BaseModel):
    """A point of the protocol: the n-th time that this passes on a link."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    sender: str = Field("*", alias="from")
    to: str = "*"
    after: str = Field(
        description="a verb whose reply passed; `dot`: the reply to the content; `content`: the final dot itself"
    )
    nth: int = Field(1, ge=1)
    arrived: bool = Field(False, description="act when it has arrived, and let it pass only when that is done")
    may_not_come: bool = Field(False, alias="may-not-come")


class NodeAction(Action):
    """What is done to nodes. With `at` it happens there, while later steps go on."""

    short = "node"
    node: Names
    at: Moment | None = None

    @property
    def occasion(self) -> str:
        """What the history calls the moment at which it is to happen."""
        at = self.at or Moment(after="")
        return f"{type(self).__name__.lower()} {'+'.join(self.node)} at {at.sender}>{at.to} {at.after} {at.nth}"


class Kill(NodeAction):
    """Kill the whole process tree (SIGKILL); the database stays."""


class PowerCut(NodeAction):
    """Cut the power: it dies as if killed, and what it had written and not synced to its disk is gone."""


class Disk(Action):
    """Have the disk under a server's data full, read-only or slow, until it is healed by its name, or with `all`."""

    name: Label = Field("disk", alias="as")
    node: str
    trouble: Literal["full", "read-only", "slow"] = Field(alias="is", description="what is wrong with it")
    lasting: Duration | None = Field(None, description="slow: how much longer each sync takes")
    may_not_fire: bool = Field(
        False, alias="may-not-fire", description="a cell in which it was never met is judged all the same"
    )

    @model_validator(mode="after")
    def _slow_by_how_much(self) -> "Disk":
        if (self.trouble == "slow") != (self.lasting is not None):
            raise ValueError("`lasting` says by how much a slow disk is slow, and nothing else")
        return self


class Stop(NodeAction):
    """Stop in an orderly way (SIGTERM) and wait for the end."""


class Start(NodeAction):
    """Start again on the data that is there, and wait until every listener answers."""


class Wipe(NodeAction):
    """Destroy the queue database of a node that is down: it comes back with a new one."""


class Pause(NodeAction):
    """Freeze (SIGSTOP)."""


class Resume(NodeAction):
    """Thaw (SIGCONT)."""


class Configure(Action):
    """Offer changed parameters to nodes and have them read their files again."""

    node: Names
    transport: dict[str, Parameter] = {}
    listeners: dict[Literal["frontend", "transport", "delivery"], dict[str, Parameter]] = {}
    unknown: dict[str, Parameter] = Field({}, description="top-level keys, for what must be refused")


class Activate(Action):
    """Make a mailbox database active on another server; all nodes are told."""

    database: str
    on: str


class Redirect(Action):
    """Redirect-Message: drain the queues of one server to another."""

    sender: str = Field(alias="from")
    to: str


class Resubmit(Action):
    """Ask a node's Safety Net to send again what it holds for a mailbox database."""

    database: str
    on: str


class Inspect(Action):
    """Have nodes say what is in their queues."""

    short = "node"
    node: Names


class Expect(Action):
    """Reach an expectation; its verb is the key."""

    verb: str
    expectation: Expectation


class Step(BaseModel):
    """One step with its place in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    path: str = Field(description="`2`, or `3.1` inside a block")
    line: int = Field(description="line in the file, 1-based")
    verb: str
    label: str | None = None
    action: Any = Field(description="the model of the verb: an Action")


class Parallel(Action):
    """Do steps at the same time; the block ends when all have."""

    short = "steps"
    steps: tuple[Step, ...]


class Repeat(Action):
    """Do steps one after another, so many times."""

    times: int = Field(ge=1, le=100_000)
    steps: tuple[Step, ...]


ACTIONS: dict[str, type[Action]] = {
    "send": Send,
    "submit": Submit,
    "resend": Resend,
    "await": Await,
    "talk": Talk,
    "advance": Advance,
    "fault": Fault,
    "partition": Partition,
    "heal": Heal,
    "answer": Answer,
    "kill": Kill,
    "power-cut": PowerCut,
    "disk": Disk,
    "stop": Stop,
    "start": Start,
    "wipe": Wipe,
    "pause": Pause,
    "resume": Resume,
    "configure": Configure,
    "activate": Activate,
    "redirect": Redirect,
    "resubmit": Resubmit,
    "inspect": Inspect,
}
"""The plain verbs and their models; `expect`, `parallel` and `repeat` are read by the loader, since they hold other
verbs."""

__all__ = ["ACTIONS", "Copies", "Expect", "Parallel", "Repeat", "Step"]
