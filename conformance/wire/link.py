"""A link: the address that one party dials to reach another, and every session over it."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from conformance.history.dialects import Dialect
from conformance.history.events import ConnectFailed, NodeEvent
from conformance.history.recorder import Recorder
from conformance.shortage import shortage_of
from conformance.wire.relay import Relay
from conformance.wire.roles import Breaker, Pair
from conformance.wire.sockets import BACKLOG, describe_error, port_of

Address = tuple[str, int]

LOOPBACK: Address = ("127.0.0.1", 0)
"""A free port of this machine, for itself alone."""


@dataclass(frozen=True, slots=True)
class RecordedSession:
    """Who is behind a connection: the session's name and its client."""

    session: str
    client: str


class SessionNames:
    """Hands out session names, and remembers which connection is which session, as either outer end sees it.

    A connection is known by its dialling end's port and the port that it dialled. The first alone is not enough: the
    kernel gives one port to connections to different listeners at the same time.
    """

    def __init__(self) -> None:
        self._count = 0
        self._by_ports: dict[tuple[int, int], RecordedSession] = {}

    def give(self, relay: Relay) -> str:
        """Return the name of a session that begins now."""
        self._count += 1
        origin = RecordedSession(f"s{self._count}", relay.pair.client)
        client, server = relay.client, relay.server
        self._by_ports[port_of(client.address("peername")), port_of(client.address("sockname"))] = origin
        self._by_ports[port_of(server.address("sockname")), port_of(server.address("peername"))] = origin
        return origin.session

    def forget(self, relay: Relay) -> None:
        """Note that the client's connection is a new one, which has no name yet."""
        ports = port_of(relay.client.address("peername")), port_of(relay.client.address("sockname"))
        self._by_ports.pop(ports, None)

    def session_behind(self, port: int, dialled: int) -> RecordedSession | None:
        """Return the latest session with an outer end (the client's, or ours to the server) of these ports."""
        return self._by_ports.get((port, dialled))


class Gatekeeper(Breaker, Protocol):
    """A breaker that also decides which connections are let through to the server."""

    def admit(self, link: "Link", relay: Relay) -> None:
        """Bar, refuse or break a new connection, or leave it alone."""
        ...


class Link:
    """Listens for one client and dials on to one server; `target` may change while it runs, None is nowhere."""

    def __init__(
        self,
        pair: Pair,
        target: Address | None,
        recorder: Recorder,
        dialect: Dialect,
        breaker: Gatekeeper,
        names: SessionNames,
    ) -> None:
        self.pair = pair
        self.target = target
        self.recorder = recorder
        self.dialect = dialect
        self.breaker: Breaker = breaker
        self.relays: list[Relay] = []
        self._gatekeeper = breaker
        self._names = names
        self._listening: asyncio.Server | None = None
        self._address: Address | None = None
        self._dialling: set[asyncio.Task[None]] = set()
        self._leaving: dict[Relay, None] = {}
        self._refused: set[Relay] = set()

    @property
    def address(self) -> Address:
        """Where the client has to dial. Raises RuntimeError when the link was never open."""
        if self._address is None:
            raise RuntimeError(f"the link {self.pair} is not open")
        return self._address

    async def open(self, at: Address = LOOPBACK) -> None:
        """Listen; at port 0, on a free one. Raises OSError when there is none, or it is another's."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(lambda: Relay(self).client, *at, backlog=BACKLOG)
        host, port = self._listening.sockets[0].getsockname()[:2]
        self._address = (host, port)

    async def close(self) -> None:
        """Stop listening and reset every session."""
        if self._listening is not None:
            self._listening.close()
        self._refused.update(self.relays)
        for relay in tuple(self.relays):
            relay.reset("link")
        for relay in tuple(self._leaving):
            relay.client.reset()
            relay.server.reset()
        for task in tuple(self._dialling):
            task.cancel()
        await asyncio.gather(*self._dialling, return_exceptions=True)

    def begun(self, relay: Relay) -> None:
        """Dial on for a client that has connected, unless somebody bars it."""
        self.relays.append(relay)
        self._names.forget(relay)
        relay.up.hold("connecting")
        self._gatekeeper.admit(self, relay)
        if not relay.barred and not relay.over and not relay.name:
            self._dial(relay)

    def established(self, relay: Relay) -> None:
        """Record the session, and let go what the client has said already."""
        self.record(relay)
        relay.up.release("connecting")

    def ended(self, relay: Relay) -> None:
        """Take a session out of the active ones; one that never reached the server was dialled in vain."""
        self.relays.remove(relay)
        self._leaving[relay] = None
        if not relay.name and relay not in self._refused:
            self._record_failure(f"the client gave up ({', '.join(sorted(relay.barred)) or 'while dialling'})")
        self._refused.discard(relay)

    def forgotten(self, relay: Relay) -> None:
        """Forget a session."""
        self._leaving.pop(relay, None)

    def record(self, relay: Relay) -> None:
        """Give a session its name and record it as connected."""
        relay.connected(self._names.give(relay))

    def unbar(self, relay: Relay, reason: str) -> None:
        """Take a reason not to dial away, and dial when it was the last."""
        if reason in relay.barred:
            relay.barred.discard(reason)
            if not relay.barred and not relay.over:
                self._dial(relay)

    def refuse(self, relay: Relay, reason: str, *, fin: bool = False) -> None:
        """Record that the client dialled in vain, and reset its connection (or, with `fin`, just end it)."""
        self._refused.add(relay)
        self._record_failure(reason)
        if fin:
            relay.drop()
        else:
            relay.reset("link")

    def _record_failure(self, reason: str) -> None:
        pair = self.pair
        self.recorder.record(
            ConnectFailed, client=pair.client, server=pair.server, listener=pair.listener, reason=reason
        )

    def _dial(self, relay: Relay) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(relay), name=f"dial {self.pair}")
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    async def _connect(self, relay: Relay) -> None:
        if relay.over:
            return
        if self.target is None:
            self.refuse(relay, "no address")
            return
        try:
            await asyncio.get_running_loop().create_connection(lambda: relay.server, *self.target)
        except OSError as error:
            if words := shortage_of(error):
                self.recorder.record(NodeEvent, node=self.pair.server, action="starved", detail=words)
            if not relay.over:
                self.refuse(relay, describe_error(error))
