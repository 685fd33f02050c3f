"""Steps that act on servers: kill, start, stop, pause, configure, redirect, inspect.

A class has the fields of one verb (`action`). `conformance.run.steps` has the function that does the step; the classes'
docstrings are published in docs/writing-scenarios.md. A *node* is one running server under test.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from conformance.parameters import editor_schema
from conformance.scenarios.name_types import Database, Databases, PartyOrAny, PlaceOrContent, Server, ServersOrAll, Site
from conformance.scenarios.steps.action import Action, step
from conformance.scenarios.values import Parameter


class Moment(BaseModel):
    """A point of the protocol: the n-th time that something passes on a link."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    sender: PartyOrAny = Field("*", alias="from")
    to: PartyOrAny = "*"
    after: PlaceOrContent = Field(
        description="a verb whose reply passed; `dot`: the reply to the content; `content`: the final dot itself"
    )
    nth: int = Field(1, ge=1)
    arrived: bool = Field(False, description="act when it has arrived at the link, and let it pass only afterwards")
    may_not_come: bool = Field(False, alias="may-not-come")


class NodeAction(Action):
    """The base of steps that act on nodes. With `at` the action happens at that moment, while later steps continue."""

    short = "node"
    node: ServersOrAll
    at: Moment | None = None

    @property
    def occasion(self) -> str:
        """The name, in the history, of the moment at which the action is to happen: `kill mbx1 at *>* dot 1`; only of use with `at`."""
        at = self.at or Moment(after="")
        return f"{type(self).__name__.lower()} {'+'.join(self.node)} at {at.sender}>{at.to} {at.after} {at.nth}"


@step("kill")
class Kill(NodeAction):
    """Kill the whole process tree (SIGKILL); the database is kept."""


SurvivingNames = Literal["what-file-systems-keep", "what-posix-promises"]
"""Which file names survive a power cut: those that ext4, XFS and btrfs all keep (including that of a file that was synced
itself), or only those whose directory was synced."""


@step("power-cut")
class PowerCut(NodeAction):
    """Cut the power: kill the node, and lose what it had written but not synced to its disk."""

    keeps: SurvivingNames = "what-file-systems-keep"


@step("stop")
class Stop(NodeAction):
    """Stop in an orderly way (SIGTERM) and wait for the end."""


@step("start")
class Start(NodeAction):
    """Start again with the existing data, and wait until every listener answers."""


@step("start-another")
class StartAnother(NodeAction):
    """Start another process of a server on its queue, with a listener of its own, unless the server refuses to run twice."""


@step("kill-one")
class KillOne(NodeAction):
    """Kill the process of a server that was started first (SIGKILL); the other goes on, or without one the server starts again."""


@step("wipe")
class Wipe(NodeAction):
    """Delete the queue database of a node that is down; the node creates a new one when it starts."""


@step("pause")
class Pause(NodeAction):
    """Suspend the process (SIGSTOP)."""


@step("resume")
class Resume(NodeAction):
    """Resume the process (SIGCONT)."""


class NewSiteLink(BaseModel):
    """A link between two sites, with its cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    between: tuple[Site, Site]
    cost: int = Field(ge=1)


class ChangedRights(BaseModel):
    """New rights of a peer on a connector of the node, and of the node towards the peer; what is left out stays."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    peer: Server
    accept_xshadow: bool | None = Field(None, alias="accept-xshadow")
    send_xshadow: bool | None = Field(None, alias="send-xshadow")


@step("configure")
class Configure(Action):
    """Write changed parameters into the nodes' configuration and make them reload it; one that is down reads it when it starts."""

    node: ServersOrAll
    transport: dict[str, Parameter] = Field({}, json_schema_extra=editor_schema())
    listeners: dict[Literal["frontend", "transport", "delivery"], dict[str, Parameter]] = Field({})
    rights: tuple[ChangedRights, ...] = Field(
        (), description="of peers on the connectors of the nodes: `{peer: mbx2, send-xshadow: no}`, or `accept-xshadow`"
    )
    site_links: tuple[NewSiteLink, ...] | None = Field(
        None,
        alias="site-links",
        description="all links between sites from now on, `{between: [London, Paris], cost: 10}`; default: as before",
    )
    hub_sites: tuple[Site, ...] | None = Field(
        None, alias="hub-sites", description="all hub sites from now on; default: as before"
    )
    unknown: dict[str, Parameter] = Field(
        {}, description="top-level keys that do not exist, or with wrong values: a node must refuse them"
    )


@step("activate")
class Activate(Action):
    """Make mailbox databases active on another server in one change, and notify all nodes."""

    database: Databases
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
    """Record what is in the queues of nodes."""

    short = "node"
    node: ServersOrAll
