"""What is done to servers: killed, started, configured, told to hand over or to say what they have."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from conformance.parameters import editor_schema
from conformance.scenarios.name_types import Database, PartyOrAny, PlaceOrContent, Server, ServersOrAll
from conformance.scenarios.steps.action import Action, step
from conformance.scenarios.values import Parameter


class Moment(BaseModel):
    """A point of the protocol: the n-th time that this passes on a link."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    sender: PartyOrAny = Field("*", alias="from")
    to: PartyOrAny = "*"
    after: PlaceOrContent = Field(
        description="a verb whose reply passed; `dot`: the reply to the content; `content`: the final dot itself"
    )
    nth: int = Field(1, ge=1)
    arrived: bool = Field(False, description="act when it has arrived, and let it pass only when that is done")
    may_not_come: bool = Field(False, alias="may-not-come")


class NodeAction(Action):
    """What is done to nodes. With `at` it happens there, while later steps go on."""

    short = "node"
    node: ServersOrAll
    at: Moment | None = None

    @property
    def occasion(self) -> str:
        """What the history calls the moment at which it is to happen."""
        at = self.at or Moment(after="")
        return f"{type(self).__name__.lower()} {'+'.join(self.node)} at {at.sender}>{at.to} {at.after} {at.nth}"


@step("kill")
class Kill(NodeAction):
    """Kill the whole process tree (SIGKILL); the database stays."""


SurvivingNames = Literal["what-file-systems-keep", "what-posix-promises"]
"""Which names a power cut leaves: those that ext4, XFS and btrfs all keep (also that of a file which was synced itself), or
those alone whose directory was synced."""


@step("power-cut")
class PowerCut(NodeAction):
    """Cut the power: it dies as if killed, and what it had written and not synced to its disk is gone."""

    keeps: SurvivingNames = "what-file-systems-keep"


@step("stop")
class Stop(NodeAction):
    """Stop in an orderly way (SIGTERM) and wait for the end."""


@step("start")
class Start(NodeAction):
    """Start again on the data that is there, and wait until every listener answers."""


@step("wipe")
class Wipe(NodeAction):
    """Destroy the queue database of a node that is down: it comes back with a new one."""


@step("pause")
class Pause(NodeAction):
    """Freeze (SIGSTOP)."""


@step("resume")
class Resume(NodeAction):
    """Thaw (SIGCONT)."""


@step("configure")
class Configure(Action):
    """Offer changed parameters to nodes and have them read their files again."""

    node: ServersOrAll
    transport: dict[str, Parameter] = Field({}, json_schema_extra=editor_schema())
    listeners: dict[Literal["frontend", "transport", "delivery"], dict[str, Parameter]] = Field({})
    unknown: dict[str, Parameter] = Field({}, description="top-level keys, for what must be refused")


@step("activate")
class Activate(Action):
    """Make a mailbox database active on another server; all nodes are told."""

    database: Database
    on: Server


@step("redirect")
class Redirect(Action):
    """Redirect-Message: drain the queues of one server to another."""

    sender: Server = Field(alias="from")
    to: Server


@step("resubmit")
class Resubmit(Action):
    """Ask a node's Safety Net to send again what it holds for a mailbox database."""

    database: Database
    on: Server


@step("inspect")
class Inspect(Action):
    """Have nodes say what is in their queues."""

    short = "node"
    node: ServersOrAll
