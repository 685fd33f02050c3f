"""The world of one cell: every party of the topology, and a link between every pair that may talk."""

import asyncio
import random
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from conformance.candidates.assignment import Assignment
from conformance.candidates.kind import DISK
from conformance.clocks import CLOCKS, IN_PROCESS
from conformance.history.events import Lag, NodeEvent
from conformance.history.recorder import Recorder
from conformance.nodes.configuration import Address, Contract2, Wiring, render
from conformance.nodes.contract import Node
from conformance.nodes.disks.node_disk import NodeDisk, disk_troubles_of
from conformance.nodes.kinds import NodeContext, node_class
from conformance.nodes.node_directory import status_file_path
from conformance.nodes.places import Place, PortLeases, wait_for_exclusive_use
from conformance.parameters import OWN_TIMER_PARAMETERS, effective_parameters
from conformance.run.clocks.interface import Clock
from conformance.run.memory_directory import make_directory
from conformance.run.node_supervisor import NodeSupervisor
from conformance.run.outbox import Outbox
from conformance.run.run_delay import RunDelay
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.breaking import Disk
from conformance.scenarios.steps.nodes import Moment
from conformance.shortage import ResourceMonitor
from conformance.topology import Server
from conformance.wire.link import LOOPBACK
from conformance.wire.links import Links
from conformance.wire.sinks import Sink, open_sink

SENDERS = ("outside", "submission")
"""Parties of the harness that only send."""

LATENESS_PERIOD = 0.5
"""Real seconds within which small delays are added to one `Lag`: each reply of a conversation may be a little late."""


class World:
    """Builds a cell's parties, holds them, and takes them down again; an async context manager."""

    def __init__(
        self, cell: Cell, assignment: Assignment, settings: Settings, clock: Clock, recorder: Recorder, directory: Path
    ) -> None:
        self.cell = cell
        self.topology = cell.topology
        self.settings = settings
        self.clock = clock
        self.recorder = recorder
        self.links = Links(recorder, duration=clock.duration)
        self.sinks: dict[str, Sink] = {}
        self.supervisors: dict[str, NodeSupervisor] = {}
        self.disks: dict[str, NodeDisk] = {}
        self.disk_troubles: dict[str, Disk] = {}
        self.outbox = Outbox()
        self.active_databases: dict[str, str] = {}
        self.random = random.Random(f"{settings.seed} {cell.id}")  # noqa: S311  # choices that repeat, no secrets
        self.machine = ResourceMonitor(directory)
        for right in cell.topology.rights:
            if right.secret is not None:
                recorder.secrets.add(right.secret)
        self._assignment = assignment
        self._directory = directory
        self._leases = PortLeases()
        self._places: dict[str, Place] = {}
        self._memory: Path | None = None
        self._run_delay: RunDelay | None = None
        self._exit = AsyncExitStack()

    @property
    def heartbeat(self) -> float:
        """The longest ShadowHeartbeatFrequency of any server, documented seconds."""
        parameters = (
            effective_parameters(self.topology.transport, server.transport) for server in self.topology.servers
        )
        return max(float(p["ShadowHeartbeatFrequency"]) for p in parameters)

    @property
    def logs(self) -> dict[str, Path]:
        """The log of each node that has written one: not of those that others kept from being started."""
        logs = {name: supervisor.node.log for name, supervisor in self.supervisors.items()}
        return {name: log for name, log in logs.items() if log.exists()}

    async def __aenter__(self) -> "World":
        try:
            self._exit.callback(self._leases.release)
            await wait_for_exclusive_use(self.topology.servers, self._assignment, self._leases)
            for server in self.topology.servers:
                self._places[server.name] = await self._find_place(server)
            self._exit.push_async_callback(self.links.close)
            await self._open_sinks()
            await self._open_links()
            for server in self.topology.servers:
                self._make_supervisor(server)
            self._watch_lateness()
            for supervisor in self.supervisors.values():
                await supervisor.start()
            self.note_lag()
        except BaseException:
            await self._exit.aclose()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._exit.aclose()

    @property
    def today(self) -> datetime:
        """The moment by the cell's clock, for Date fields."""
        return datetime.fromtimestamp(self.clock.now(), UTC)

    def named_servers(self, names: Iterable[str]) -> list[str]:
        """Return the servers that a step names; `all` is every one of the topology."""
        return [name for word in names for name in (list(self.supervisors) if word == "all" else [word])]

    def sink(self, name: str) -> Sink:
        """Return a sink by its name. Raises KeyError when there is none."""
        try:
            return self.sinks[name]
        except KeyError:
            raise KeyError(f"no sink {name!r}; there are {', '.join(self.sinks)}") from None

    def at_moment(self, moment: Moment, do: Callable[[], Awaitable[None]], name: str) -> None:
        """Have something done when a moment of the protocol comes; the history calls it by its name then."""
        self.links.run_at_moment(moment, do, name=name)

    def heal_all(self) -> None:
        """Take every fault, partition and scripted answer away."""
        self.links.heal("all")
        for sink in self.sinks.values():
            sink.clear_answers()

    def note_lag(self, *, always: bool = False) -> None:
        """Record how late the harness, and the machine under the nodes, ran since this was last asked, when they did; with
        `always` also that they did not."""
        seconds, why = self.clock.take_lag(), self.clock.take_lag_reason()
        if self._run_delay is not None:
            real, node = self._run_delay.waited()
            waited = real / self.clock.duration(1.0)
            why = f"{node} waited for a processor" if waited > seconds else why
            seconds += waited
        if seconds or always:
            self.recorder.record(Lag, seconds=seconds, detail=why)

    def _watch_lateness(self) -> None:
        """Record lateness regularly, and for nodes' programs too, where real time goes on while they wait."""
        if CLOCKS[self.clock.name].jumps:
            return
        self._run_delay = RunDelay(
            lambda: {
                name: kept.node.guard_pid for name, kept in self.supervisors.items() if kept.node.guard_pid is not None
            }
        )
        noting = asyncio.create_task(self._note_lag_regularly(), name="lateness")

        async def stop() -> None:
            noting.cancel()
            await asyncio.wait([noting])

        self._exit.push_async_callback(stop)

    async def _note_lag_regularly(self) -> None:
        while True:
            await asyncio.sleep(LATENESS_PERIOD)
            self.note_lag()

    def note_shortage(self, words: str) -> None:
        """Record that the machine ran out of something under all servers, where there are words for it."""
        for server in self.topology.servers if words else ():
            self.recorder.record(NodeEvent, node=server.name, action="starved", detail=words)

    async def _open_sinks(self) -> None:
        for name, protocol in self._sink_protocols().items():
            sink = await open_sink(name, protocol, self.recorder, self.links)
            self._exit.push_async_callback(sink.close)
            self.sinks[name] = sink

    def _sink_protocols(self) -> dict[str, str]:
        hosts = {mailbox.server for mailbox in self.topology.mailboxes} | {s.name for s in self.topology.servers}
        stores = {self.topology.store_name(server): "lmtp" for server in sorted(hosts) if self.topology.mailboxes}
        return {**{sink.name: sink.protocol for sink in self.topology.sinks}, **stores}

    async def _open_links(self) -> None:
        """Lay a link for each (client, server, listener) that may be dialled."""
        names = [server.name for server in self.topology.servers]
        for server in self.topology.servers:
            for listener, address in self._places[server.name].dial_addresses.items():
                clients = [*SENDERS, *(name for name in names if name != server.name)]
                for client in clients:
                    at = self._hears(client, server.name, listener)
                    spoken = self._assignment.dialect_between(client, server.name)
                    await self.links.open(client, server.name, listener, address, dialect=spoken, at=at)
        protocols = self._sink_protocols()
        for sink in self.sinks.values():
            owners = [name for name in names if self.topology.store_name(name) == sink.name] or names
            for client in owners:
                at = self._hears(client, sink.name, protocols[sink.name])
                spelling = self._assignment.candidate_for(client).resolved_dialect
                await self.links.open(client, sink.name, protocols[sink.name], sink.address, dialect=spelling, at=at)

    def _hears(self, client: str, party: str, listener: str) -> Address:
        """Return where the link to a party has to listen, for a client to find it."""
        return self._places[client].link_address(party, listener) if client in self._places else LOOPBACK

    async def _find_place(self, server: Server) -> Place:
        candidate, own = self._assignment.candidate_for(server.name), self._directory / server.name
        return await node_class(candidate.kind).find_place(server, candidate, own, self._leases, self._exit)

    def _moved(self, server: str, host: str | None) -> None:
        """Have the links of a server dial it where it is now; None is nowhere."""
        doors = self._places[server].listen_addresses
        for link in self.links:
            if link.pair.server == server:
                link.target = None if host is None else (host, doors[link.pair.listener][1])

    def _make_supervisor(self, server: Server) -> None:
        node = self._make_node(server)
        candidate = self._assignment.candidate_for(server.name)
        revisions = count(1)

        def contract_2() -> Contract2 | None:
            if candidate.contract == 1:
                return None
            status = status_file_path(self._seen_directory(server.name))
            return Contract2(scale=self.clock.scale, revision=next(revisions), status_file=status)

        def configuration(
            transport: Mapping[str, Any], listeners: Mapping[str, Mapping[str, Any]], unknown: Mapping[str, Any]
        ) -> dict[str, Any]:
            return render(
                self.topology,
                server,
                Wiring(listen=lambda name, door: self._places[name].listen_addresses[door], dial=self.links.address),
                data_dir=self._data(server.name),
                seed=self.settings.seed,
                duration=self.clock.duration,
                changes=transport,
                listener_changes=listeners,
                mailbox_servers=self.active_databases,
                unknown=unknown,
                left_out=OWN_TIMER_PARAMETERS if self.cell.timers == "own" else (),
                opened=candidate.listener_names,
                contract_2=contract_2(),
            )

        self.supervisors[server.name] = NodeSupervisor(node, configuration, self.recorder, self.machine)

    def _data(self, server: str) -> Path:
        """Return where a server has its data, as it sees it itself: in memory, when it lives in this process."""
        if IN_PROCESS not in self._assignment.candidate_for(server).features:
            return self._seen_directory(server) / "data"
        if self._memory is None:
            self._memory = make_directory(f"{self.cell.scenario[:40]}-", self._directory)
            self._exit.callback(self._leave_memory, self._memory)
        return self._memory / server

    def _leave_memory(self, memory: Path) -> None:
        """Delete the data that were in memory, or move them to where those of programs are."""
        if self.settings.keep is not None:
            for data in memory.iterdir():
                shutil.copytree(data, self._directory / data.name / "data", dirs_exist_ok=True)
        shutil.rmtree(memory)

    def _seen_directory(self, server: str) -> Path:
        """Return a server's own directory, as it sees it itself."""
        return node_class(self._assignment.candidate_for(server).kind).seen_at or self._directory / server

    def _make_node(self, server: Server) -> Node:
        candidate = self._assignment.candidate_for(server.name)
        directory = self._directory / server.name
        if DISK in candidate.features and (troubles := disk_troubles_of(self.cell, server.name)):
            disk = NodeDisk(server.name, directory, troubles, candidate.name, self.settings.disk)
            self.disks[server.name] = disk
        node = node_class(candidate.kind).create(
            NodeContext(
                server.name,
                candidate,
                directory,
                data=self._data(server.name),
                place=self._places[server.name],
                clock=self.clock,
                disk=self.disks.get(server.name),
                freeze=lambda frozen: self.links.freeze(server.name, frozen),
                set_host=partial(self._moved, server.name),
            )
        )
        self._exit.push_async_callback(node.close)
        return node
