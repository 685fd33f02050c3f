"""A link: the address that one party dials to reach another, and every session over it.

A *session* is one connection of a client through the link; its `Relay` connects it to the server and forwards octets. To
*dial* the server is to connect to it. A *hold* on dialling is the reason of a fault, a partition or a frozen party for which the
server is not dialled yet. A session has a *name* (`s1`, `s2`, ...) from the moment at which it is recorded as connected.
`Links` opens the links of a cell; relays call `client_connected` and the other methods of `RelayOwner`.
"""

import asyncio
from dataclasses import dataclass

from conformance.history.dialects import Dialect
from conformance.history.events import ConnectFailed, NodeEvent
from conformance.history.recorder import Recorder
from conformance.shortage import shortage_of
from conformance.wire.interfaces import Interceptor, Pair
from conformance.wire.relay import Relay
from conformance.wire.sockets import BACKLOG, describe_error, port_of

Address = tuple[str, int]

LOOPBACK: Address = ("127.0.0.1", 0)
"""A free port of this machine that only this machine can reach."""


@dataclass(frozen=True, slots=True)
class RecordedSession:
    """A session as the history knows it: its name (`s1`, `s2`, ...) and the party that dialled."""

    session: str
    client: str


class SessionNames:
    """Assigns session names, and finds the session of a connection from either end outside of the relay.

    A connection is identified by the port that it comes from and the port that it dialled. The first alone is not enough:
    the kernel gives one port to connections to different listeners at the same time.
    """

    def __init__(self) -> None:
        self._count = 0
        self._by_ports: dict[tuple[int, int], RecordedSession] = {}

    def assign(self, relay: Relay) -> str:
        """Return the next name (`s1`, `s2`, ...) for a session that begins now, and note the ports of its connections."""
        self._count += 1
        session = RecordedSession(f"s{self._count}", relay.pair.client)
        client, server = relay.client, relay.server
        self._by_ports[port_of(client.address("peername")), port_of(client.address("sockname"))] = session
        self._by_ports[port_of(server.address("sockname")), port_of(server.address("peername"))] = session
        return session.session

    def forget_ports(self, relay: Relay) -> None:
        """Forget an earlier session that had the ports of this relay's new connection to its client, which has no name yet."""
        ports = port_of(relay.client.address("peername")), port_of(relay.client.address("sockname"))
        self._by_ports.pop(ports, None)

    def session_behind(self, port: int, dialled: int) -> RecordedSession | None:
        """Return the latest session with a connection from `port` to the port `dialled`; None if there was none."""
        return self._by_ports.get((port, dialled))


class Link:
    """Listens for one client and dials one server; `target` may be changed while open, None refuses every connection.

    `relays` are the sessions that have not ended, in the order in which their clients connected; `_closing` those that
    have ended, with a connection still open. `_refused` are the sessions for which the link records no
    `connect-failed` when they end: it was recorded, or the link itself closes. `interceptor` is the injector of
    faults. `names` is common to all links.
    """

    def __init__(
        self,
        pair: Pair,
        target: Address | None,
        recorder: Recorder,
        dialect: Dialect,
        interceptor: Interceptor,
        names: SessionNames,
    ) -> None:
        self.pair = pair
        self.target = target
        self.recorder = recorder
        self.dialect = dialect
        self.interceptor = interceptor
        self.relays: list[Relay] = []
        self._names = names
        self._listening: asyncio.Server | None = None
        self._address: Address | None = None
        self._dialling: set[asyncio.Task[None]] = set()
        self._closing: dict[Relay, None] = {}
        self._refused: set[Relay] = set()

    @property
    def address(self) -> Address:
        """Where the client has to dial. Raises RuntimeError if the link was never opened."""
        if self._address is None:
            raise RuntimeError(f"the link {self.pair} is not open")
        return self._address

    async def open(self, at: Address = LOOPBACK) -> None:
        """Listen at an address; port 0 is any free one. Raises OSError if the port is taken or none is free."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(lambda: self.make_relay().client, *at, backlog=BACKLOG)
        host, port = self._listening.sockets[0].getsockname()[:2]
        self._address = (host, port)

    def make_relay(self) -> Relay:
        """Return the relay of a new connection; a subclass can return one that observes more."""
        return Relay(self)

    async def close(self) -> None:
        """Stop listening, reset every session, cancel the attempts to dial the server, and wait until these have ended.

        Sessions that were not connected yet are not recorded as failed.
        """
        if self._listening is not None:
            self._listening.close()
        self._refused.update(self.relays)
        for relay in tuple(self.relays):
            relay.close_with_rst(by="link")
        for relay in tuple(self._closing):
            relay.client.close_with_rst()
            relay.server.close_with_rst()
        for task in tuple(self._dialling):
            task.cancel()
        await asyncio.gather(*self._dialling, return_exceptions=True)

    async def end_sessions(self, within: float) -> None:
        """Wait up to this many seconds of the event loop until no session is open, then reset those that are left."""
        ended = asyncio.Event()
        unsubscribe = self.recorder.subscribe(lambda event: ended.set())
        try:
            async with asyncio.timeout(within):
                while self.relays:
                    ended.clear()
                    await ended.wait()
        except TimeoutError:
            for relay in tuple(self.relays):
                relay.close_with_rst(by="link")
        finally:
            unsubscribe()

    def client_connected(self, relay: Relay) -> None:
        """Add the session to `relays`, let the interceptor act on it, and dial the server.

        The server is not dialled if the interceptor has held or refused the connection, or plays the server (it answers in
        its place, or is mute): the session has its name already then.
        """
        self.relays.append(relay)
        self._names.forget_ports(relay)
        relay.to_server.hold("connecting")  # until `server_connected`
        self.interceptor.admit(self, relay)
        if not relay.dial_holds and not relay.ended and not relay.name:  # a name: a fault plays the server
            self._dial(relay)

    def server_connected(self, relay: Relay) -> None:
        """Record the session, and forward what the client has sent so far."""
        self.record_session(relay)
        relay.to_server.release("connecting")

    def session_ended(self, relay: Relay) -> None:
        """Remove a session from `relays`; record `connect-failed` if the client left before the server was reached."""
        self.relays.remove(relay)
        self._closing[relay] = None
        if not relay.name and relay not in self._refused:
            self._record_failure(f"the client gave up ({', '.join(sorted(relay.dial_holds)) or 'while dialling'})")
        self._refused.discard(relay)

    def session_closed(self, relay: Relay) -> None:
        """Drop the last reference to a session, whose connections are closed."""
        self._closing.pop(relay, None)

    def record_session(self, relay: Relay) -> None:
        """Give a session its name, and record that it is connected."""
        relay.record_connected(self._names.assign(relay))

    def allow_dialling(self, relay: Relay, hold: str) -> None:
        """Remove one of a relay's holds on dialling, and dial the server if it was the last and the session has not ended.

        The server is not dialled where a fault plays it: the session has its name already then. Nothing happens if the relay has
        no such hold.
        """
        if hold in relay.dial_holds:
            relay.dial_holds.discard(hold)
            if not relay.dial_holds and not relay.ended and not relay.name:
                self._dial(relay)

    def refuse(self, relay: Relay, reason: str, *, fin: bool = False) -> None:
        """Record that the client could not connect, and end the session by RST to the client (with `fin`: by FIN).

        `reason` is the text of the event: an error of the connection, or the fault or partition that refuses it.
        """
        self._refused.add(relay)
        self._record_failure(reason)
        if fin:
            relay.close_with_fin()
        else:
            relay.close_with_rst(by="link")

    def _record_failure(self, reason: str) -> None:
        """Record that the client could not connect to the server."""
        pair = self.pair
        self.recorder.record(
            ConnectFailed, client=pair.client, server=pair.server, listener=pair.listener, reason=reason
        )

    def _dial(self, relay: Relay) -> None:
        """Begin to connect to the server, in a task."""
        task = asyncio.get_running_loop().create_task(self._connect(relay), name=f"dial {self.pair}")
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    async def _connect(self, relay: Relay) -> None:
        """Connect to the server; refuse the client if that fails or `target` is None. Do nothing for a session that has ended.

        If this machine ran out of something (open files, memory), the server's node is recorded as starved before.
        """
        if relay.ended:
            return
        if self.target is None:
            self.refuse(relay, "no address")
            return
        try:
            await asyncio.get_running_loop().create_connection(lambda: relay.server, *self.target)
        except OSError as error:
            if shortage := shortage_of(error):
                self.recorder.record(NodeEvent, node=self.pair.server, action="starved", detail=shortage)
            if not relay.ended:
                self.refuse(relay, describe_error(error))
