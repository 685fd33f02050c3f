"""The world of one cell: a node for each server of the topology, the sinks, and a link between all parties that may talk.

Entering the world makes these in an order in which each finds the addresses that it needs: a place (addresses) for each
server, the sinks, the links between them, then the nodes, whose configuration has the addresses of the links. Leaving the
world ends everything in the reverse order.

A *node* is one running server under test, a *sink* a server of the harness at the end of a route. The *kind* of a candidate
(in this process, a program, a container, ...) has a class of nodes, which finds places and makes nodes.
`conformance.run.cell` enters a world for each cell; the handlers of steps (`conformance.run.steps`) act on it.

`supervisors` (which start and stop the nodes), `disks` and `_places` are keyed by the name of the server, and filled on entering.
`_exit` has what leaving must end, in the order in which it was started.
"""

import asyncio
import shutil
from collections.abc import Iterable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from conformance.candidates.assignment import Assignment
from conformance.candidates.kind import DISK
from conformance.clocks import IN_PROCESS
from conformance.history.dialects import Dialect
from conformance.history.events import NodeEvent
from conformance.history.recorder import Recorder
from conformance.nodes.configuration import Address, Contract2, Wiring, render
from conformance.nodes.contract import Node
from conformance.nodes.disks.node_disk import NodeDisk, disk_troubles_of
from conformance.nodes.kinds import NodeContext, node_class
from conformance.nodes.node_directory import DATA, status_file_path
from conformance.nodes.places import Place, PortLeases, leased_place, wait_for_exclusive_use
from conformance.parameters import OWN_TIMER_PARAMETERS, effective_parameters
from conformance.run.clocks.interface import Clock
from conformance.run.configuration_changes import ConfigurationChanges
from conformance.run.lag import LagRecorder
from conformance.run.memory_directory import make_directory
from conformance.run.node_supervisor import NodeSupervisor, Render
from conformance.run.outbox import Outbox
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.breaking import Disk
from conformance.shortage import ResourceMonitor
from conformance.topology import Server
from conformance.wire.link import LOOPBACK
from conformance.wire.links import Links
from conformance.wire.sinks import Sink, open_sink

_SENDERS = ("outside", "submission")
"""The parties of the harness that only send."""


class World:
    """All parties of a cell, as an async context manager that starts and ends them. Steps act on its attributes.

    `supervisors` control the nodes, by the name of the server; `sinks` are by name too. `_places` has the addresses of each
    server: where its listeners are (`listen_addresses`), where links dial them (`dial_addresses`; None for not yet known).
    `_assignment` says which candidate plays each server. `_leases` keeps fixed ports from other runs. `_exit` ends all that
    was started, in reverse order. `_memory` is the directory in memory with the data of nodes in this process, None before
    it is needed. A *store* is the LMTP sink for the mailboxes of a server.
    """

    def __init__(
        self, cell: Cell, assignment: Assignment, settings: Settings, clock: Clock, recorder: Recorder, directory: Path
    ) -> None:
        """Start nothing yet. `directory` gets a directory for each server.

        The topology's passwords become secrets of the recorder, which replaces them in all events.
        """
        self.cell = cell
        self.topology = cell.topology
        self.settings = settings
        self.clock = clock
        self.recorder = recorder
        self.links = Links(recorder, duration=clock.duration)
        self.sinks: dict[str, Sink] = {}
        self.supervisors: dict[str, NodeSupervisor] = {}
        """By the name of the server."""
        self.disks: dict[str, NodeDisk] = {}
        """The disks that can be made to fail, by the name of the server."""
        self.disk_troubles: dict[str, Disk] = {}
        """The disk troubles in force, by the name of the step."""
        self.outbox = Outbox()
        self.active_databases: dict[str, str] = {}
        """The server on which a mailbox database is active, where a step has moved it."""
        self.resources = ResourceMonitor(directory)
        self.lag = LagRecorder(clock, recorder, self._guards)
        for right in cell.topology.rights:
            if right.secret is not None:
                recorder.secrets.add(right.secret)
        self._assignment = assignment
        self._directory = directory
        self._leases = PortLeases()
        self._places: dict[str, Place] = {}
        self._other_places: dict[str, Place] = {}
        """Those of second processes, by server."""
        self._memory: Path | None = None
        self._exit = AsyncExitStack()

    @property
    def heartbeat_interval(self) -> float:
        """The longest ShadowHeartbeatFrequency of a server, documented seconds: what the topology sets, else the default.

        Configurations that steps offered later do not count.
        """
        parameters = (
            effective_parameters(self.topology.transport, server.transport) for server in self.topology.servers
        )
        return max(float(p["ShadowHeartbeatFrequency"]) for p in parameters)

    @property
    def now(self) -> datetime:
        """The date and time of the cell's clock in UTC, for Date fields."""
        return datetime.fromtimestamp(self.clock.now(), UTC)

    async def __aenter__(self) -> "World":
        """Start all nodes and wait until they are ready; end everything again when that fails.

        First wait, without a deadline of its own, until no other cell or run uses the fixed addresses of servers of the kind
        `remote` and of their next hops. Raises NodeError when a node does not start, OSError when no port is free.
        """
        try:
            self._exit.callback(self._leases.release)
            await wait_for_exclusive_use(self.topology.servers, self._assignment, self._leases)
            for server in self.topology.servers:
                candidate, directory = self._assignment.candidate_for(server.name), self._directory / server.name
                find_place = node_class(candidate.kind).find_place
                self._places[server.name] = await find_place(server, candidate, directory, self._leases, self._exit)
            self._exit.push_async_callback(self.links.close)
            await self._open_sinks()
            await self._open_links()
            for server in self.topology.servers:
                self.supervisors[server.name] = self._make_supervisor(server)
            lag_task = asyncio.create_task(self.lag.record_regularly(), name="lag")
            self._exit.push_async_callback(_cancel, lag_task)
            for supervisor in self.supervisors.values():
                await supervisor.start()
            self.lag.record()
        except BaseException:
            await self._exit.aclose()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        """End everything, in the reverse order of starting; an exception of the body is not suppressed.

        Raises what an action at a moment of the protocol has raised, or a sink in a delivery: such errors are kept until now.
        """
        await self._exit.aclose()

    def server_names(self, names: Iterable[str]) -> list[str]:
        """Return the names of the servers that a step names, in its order; `all` stands for every server of the topology."""
        return [name for word in names for name in (list(self.supervisors) if word == "all" else [word])]

    def sink(self, name: str) -> Sink:
        """Return a sink by its name. Raises KeyError, with the names that exist, when there is none."""
        try:
            return self.sinks[name]
        except KeyError:
            raise KeyError(f"no sink {name!r}; there are {', '.join(self.sinks)}") from None

    def heal_all(self) -> None:
        """End all faults and partitions of links, and all scripted answers of sinks; disk troubles are not healed here."""
        self.links.heal("all")
        for sink in self.sinks.values():
            sink.clear_answers()

    def can_inspect(self, server: str) -> bool:
        """Return whether the candidate of a server claims `inspect`."""
        return "inspect" in self._assignment.candidate_for(server).claims

    def is_in_process(self, server: str) -> bool:
        """Return whether a server runs in the harness's own process, so that its commands start no program."""
        return IN_PROCESS in self._assignment.candidate_for(server).features

    def record_shortage(self, description: str) -> None:
        """Record for all servers that the machine ran out of a resource; nothing when the description is empty."""
        for server in self.topology.servers if description else ():
            self.recorder.record(NodeEvent, node=server.name, action="starved", detail=description)

    def _guards(self) -> dict[str, int]:
        """Return the process id of the guard (the process above its programs) of each running node, by the name of the server.

        Nodes without a guard on this machine are left out, such as those in this process.
        """
        guards = {name: supervisor.node.guard_pid for name, supervisor in self.supervisors.items()}
        return {name: guard for name, guard in guards.items() if guard is not None}

    # sinks and links

    async def _open_sinks(self) -> None:
        """Open all sinks and add them to `sinks`; they are closed with the world."""
        for name, protocol in self._sink_protocols().items():
            sink = await open_sink(name, protocol, self.recorder, self.links)
            self._exit.push_async_callback(sink.close)
            self.sinks[name] = sink

    def _sink_protocols(self) -> dict[str, str]:
        """Return the protocol (`smtp` or `lmtp`) of each sink by its name: those of the topology, and an LMTP store for each server.

        A *store* is the sink for the mailboxes of a server. Every server has one if the topology has any mailbox, since a mailbox
        may move to it later. Without mailboxes there are no stores.
        """
        hosts = sorted(server.name for server in self.topology.servers) if self.topology.mailboxes else []
        stores = {self.topology.store_name(server): "lmtp" for server in hosts}
        return {**{sink.name: sink.protocol for sink in self.topology.sinks}, **stores}

    async def _open_links(self) -> None:
        """Open a link from each client to each listener of a server, and to each sink, that the client may dial.

        Listeners are dialled by the senders of the harness and by every other server. The store of a server (its LMTP sink) is
        dialled by that server alone, other sinks by every server.
        """
        names = [server.name for server in self.topology.servers]
        for server in self.topology.servers:
            for listener, target in self._places[server.name].dial_addresses.items():
                for client in (*_SENDERS, *(name for name in names if name != server.name)):
                    dialect = self._assignment.dialect_between(client, server.name)
                    await self._open_link(client, server.name, listener, target, dialect)
        protocols = self._sink_protocols()
        for sink in self.sinks.values():
            owners = [name for name in names if self.topology.store_name(name) == sink.name] or names
            for client in owners:
                dialect = self._assignment.candidate_for(client).resolved_dialect
                await self._open_link(client, sink.name, protocols[sink.name], sink.address, dialect)

    async def _open_link(
        self, client: str, party: str, listener: str, target: Address | None, dialect: Dialect
    ) -> None:
        """Open a link from `client` to a listener of `party`, at the address at which the client expects it.

        `target` is where the link connects to; None while that is not known: the link refuses connections then. `dialect` is how
        the two spell the commands of shadow redundancy.
        """
        at = self._places[client].link_address(party, listener) if client in self._places else LOOPBACK
        await self.links.open(client, party, listener, target, dialect=dialect, at=at)

    def _set_host(self, server: str, host: str | None) -> None:
        """Have the links to a server dial it at this host from now on, with the ports as they are; None: nowhere.

        A node whose host is known only when it has started, such as a container, calls this.
        """
        addresses = self._places[server].listen_addresses
        for link in self.links:
            if link.pair.server == server:
                link.target = None if host is None else (host, addresses[link.pair.listener][1])

    # nodes

    def _make_supervisor(self, server: Server) -> NodeSupervisor:
        """Make the node of a server, not started, and return its supervisor."""
        render_node = self._renderer(server, self._places[server.name])
        return NodeSupervisor(self._make_node(server), render_node, self.recorder, self.resources)

    def _renderer(self, server: Server, place: Place) -> Render:
        """Return the function that makes the configuration of a process of a server, whose listeners are at `place`.

        A configuration is the JSON document that a node reads. The function goes by the state of the world when it is called.
        """
        candidate = self._assignment.candidate_for(server.name)
        revisions = count(1)

        def contract_2_parts() -> Contract2 | None:
            """Return what the second version of the node contract adds to a configuration; None for a candidate of the first.

            Each call counts the revision of the configuration up.
            """
            if candidate.contract == 1:
                return None
            status_file = status_file_path(self._directory_seen_by(server.name))
            return Contract2(scale=self.clock.scale, revision=next(revisions), status_file=status_file)

        def make_configuration(changes: ConfigurationChanges) -> dict[str, Any]:
            """Return the configuration as of now: the topology's with these changes (see `Render`)."""
            places = {**self._places, server.name: place}
            return render(
                changes.applied_to(self.topology, server.name),
                server,
                Wiring(
                    listen=lambda name, listener: places[name].listen_addresses[listener],
                    dial=self.links.address,
                ),
                data_dir=self._data_directory(server.name),
                seed=self.settings.seed,
                duration=self.clock.duration,
                changes=changes.transport,
                listener_changes=changes.listeners,
                mailbox_servers=self.active_databases,
                unknown=changes.unknown,
                # with `timers: own` the node keeps its own defaults of these
                left_out=OWN_TIMER_PARAMETERS if self.cell.timers == "own" else (),
                defaults=self.cell.parameters == "explicit" or not candidate.takes_defaults_from_document,
                opened=candidate.listener_names,
                contract_2=contract_2_parts(),
            )

        return make_configuration

    def make_another(self, name: str) -> tuple[Node, Render]:
        """Make another process of a server, not started, on its data; return it with what makes its configuration.

        The process has listeners of its own, which the links dial once the first process is gone (`dial_process`).
        """
        server = self.topology.by_name[name]
        candidate = self._assignment.candidate_for(name)
        place = leased_place(server.role, candidate, self._leases)
        directory = self._directory / f"{name}-another"
        self._other_places[name] = place
        return self._make_node(server, directory, place), self._renderer(server, place)

    def dial_process(self, name: str) -> None:
        """Have the links to a server dial its second process, since the first is gone; do nothing if none was made.

        The second process is the one of the latest `make_another`, whether it runs or not.
        """
        place = self._other_places.pop(name, None)
        for link in self.links if place is not None else ():
            if link.pair.server == name and place is not None:
                link.target = place.dial_addresses[link.pair.listener]

    def _make_node(self, server: Server, directory: Path | None = None, place: Place | None = None) -> Node:
        """Make and return the node of a server, not started, and its disk if steps make that fail.

        The node is closed with the world. `directory` and `place` are those of another process of the server, None for the
        first.
        """
        candidate = self._assignment.candidate_for(server.name)
        is_another = directory is not None
        directory = directory or self._directory / server.name
        if not is_another and DISK in candidate.features and (troubles := disk_troubles_of(self.cell, server.name)):
            disk = NodeDisk(server.name, directory, troubles, candidate.name, self.settings.disk)
            self.disks[server.name] = disk
        node = node_class(candidate.kind).create(
            NodeContext(
                server.name,
                candidate,
                directory,
                data=self._data_directory(server.name),
                place=place or self._places[server.name],
                clock=self.clock,
                disk=None if is_another else self.disks.get(server.name),
                shares=self._directory / server.name / DATA if is_another else None,
                freeze=lambda frozen: self.links.freeze(server.name, frozen),
                set_host=partial(self._set_host, server.name),
            )
        )
        self._exit.push_async_callback(node.close)
        return node

    def _data_directory(self, server: str) -> Path:
        """Return the directory of a server's data, as the server sees it; if it runs in this process, one in memory.

        The directory in memory (on the disk where memory cannot be used), which all such servers share, is made at the first call
        and removed with the world.
        """
        if IN_PROCESS not in self._assignment.candidate_for(server).features:
            return self._directory_seen_by(server) / "data"
        if self._memory is None:
            self._memory = make_directory(f"{self.cell.scenario[:40]}-", self._directory)
            self._exit.callback(self._remove_memory, self._memory)
        return self._memory / server

    def _remove_memory(self, memory: Path) -> None:
        """Delete the directory in memory; with `settings.keep`, copy the data of each server to the server's directory before."""
        if self.settings.keep is not None:
            for data in memory.iterdir():
                shutil.copytree(data, self._directory / data.name / "data", dirs_exist_ok=True)
        shutil.rmtree(memory)

    def _directory_seen_by(self, server: str) -> Path:
        """Return the path of a server's directory as the server sees it, which may have another root."""
        return node_class(self._assignment.candidate_for(server).kind).seen_at or self._directory / server


async def _cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait until it has ended; an exception of the task is not raised."""
    task.cancel()
    await asyncio.wait([task])
