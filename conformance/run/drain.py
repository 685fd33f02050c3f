"""The end of every scenario: heal all faults, wait until every accepted message is accounted for, within a time limit.

`conformance.run.cell` calls `drain` after the last step. A message is *accounted for* when it has arrived at a sink for each
recipient for whom a server accepted it, or was reported as failed; until then it is *undelivered*. One with a null
reverse-path, whose failure is not reported, is accounted for too when a next hop has refused it for good. All this decides only
how long the run waits: the judge has rules of its own about lost messages. Each node has a *supervisor*, which starts and stops
it. A *background send* is one that a step has started and that goes on.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from conformance.history.events import (
    AnyEvent,
    Attempt,
    Command,
    Configured,
    Connected,
    Delivered,
    Drained,
    MessageMade,
    Reply,
)
from conformance.history.values import Digest
from conformance.nodes.contract import CannotRestart
from conformance.run.steps.breaking import heal_disks
from conformance.run.world import World
from conformance.trace.sessions import parse_path

_QUIET_HEARTBEATS = 2.5
"""Heartbeats to wait after the last message arrived, in which a server may deliver one twice, or discard shadow copies."""


async def drain(world: World) -> None:
    """Heal all faults, resume and start all nodes, and wait until every accepted message has arrived or was reported.

    A node that ended on its own, or has failed to start on its own queue, is not started; one that fails to do so now is left
    down. The wait (`_wait_until_delivered`) takes `world.cell.drain` documented seconds at most. If all messages are accounted for
    then, wait another 2.5 heartbeat intervals, in which a message may arrive twice. If nothing is undelivered after these, the
    drain is `quiet`, and nodes are inspected (`_inspect_nodes`), since none may hold a finished message now.

    In any case record the nodes that ended on their own, a shortage of the machine, `Drained` with `quiet` and the undelivered
    messages, and the lag. Raises NodeError when a node cannot be resumed or inspected, or fails to start in another way.
    """
    world.heal_all()
    await heal_disks(world)
    for supervisor in world.supervisors.values():
        async with supervisor.lock:
            if supervisor.is_paused:
                await supervisor.resume()
            if not supervisor.is_running and supervisor.node.failure is None and not supervisor.cannot_restart:
                with suppress(CannotRestart):  # it is recorded, and judged
                    await supervisor.start()
    began = world.clock.elapsed()
    topology = world.cell.topology
    undelivered = Undelivered(
        world.recorder.events, (mailbox.address for mailbox in topology.mailboxes), topology.by_name
    )
    unsubscribe = world.recorder.subscribe(undelivered.add)
    try:
        quiet = await _wait_until_delivered(world, undelivered, began + world.cell.drain)
        if quiet:
            await world.clock.sleep(_QUIET_HEARTBEATS * world.heartbeat_interval)
            quiet = undelivered.is_empty
    finally:
        unsubscribe()
    for supervisor in world.supervisors.values():
        supervisor.record_failure()
    if quiet:
        await _inspect_nodes(world)
    # whether the kernel's kills for lack of memory, which it counts for the whole machine, may concern a node
    kills = any(supervisor.may_be_short_of_memory for supervisor in world.supervisors.values())
    world.record_shortage(world.resources.shortage(kills=kills))
    missing = ", ".join(undelivered.descriptions)
    waited = round(world.clock.elapsed() - began, 6)
    world.recorder.record(
        Drained, quiet=quiet, waited=waited, detail=f"not accounted for: {missing}" if missing else ""
    )
    world.lag.record(always=True)


async def _inspect_nodes(world: World) -> None:
    """Record what each running node in this process holds whose candidate claims `inspect`.

    The command of any other node would start a program, which takes long. A node that has refused its last configuration is left
    out: the command reads the file, which still has what was refused. Raises NodeError when the command fails.
    """
    refused = {
        event.node: event.refused is not None for event in world.recorder.events if isinstance(event, Configured)
    }
    for name, supervisor in world.supervisors.items():
        async with supervisor.lock:
            if (
                supervisor.is_running
                and world.can_inspect(name)
                and world.is_in_process(name)
                and not refused.get(name)
            ):
                await supervisor.inspect()


async def _wait_until_delivered(world: World, undelivered: "Undelivered", until: float) -> bool:
    """Wait until no background send goes on, and until all messages are accounted for or no node runs that could deliver them.

    Wait at most until `until`, a time of the clock in documented seconds. Return whether all are accounted for; False at
    `until`, also if only a background send goes on then.
    """
    recorded = asyncio.Event()
    unsubscribe = world.recorder.subscribe(lambda event: recorded.set())
    try:
        while world.outbox.sending or (
            not undelivered.is_empty and any(supervisor.is_running for supervisor in world.supervisors.values())
        ):
            remaining = until - world.clock.elapsed()
            if remaining <= 0:
                return False
            recorded.clear()
            try:
                async with asyncio.timeout(world.clock.duration(remaining)):
                    await recorded.wait()
            except TimeoutError:
                return False
        return undelivered.is_empty
    finally:
        unsubscribe()


@dataclass(slots=True)
class _NullTransaction:
    """A mail transaction with a null reverse-path: the recipients without a reply to RCPT, in order, and the accepted ones."""

    unanswered: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)

    def refused_by(self, reply: Reply) -> list[str]:
        """Take the next reply of the session into account, and return the recipients for whom it refuses the message for good.

        A 5yz to RCPT refuses it for the recipient of that RCPT, to DATA or to the content for all that RCPT accepted; any other
        reply for none. Replies to RCPT come in the order of the commands: each takes one recipient from `unanswered`.
        """
        refused = reply.code // 100 == 5
        if reply.to == "RCPT" and self.unanswered:
            recipient = self.unanswered.pop(0)
            if reply.code // 100 == 2:
                self.accepted.append(recipient)
            return [recipient] if refused else []
        return self.accepted if refused and reply.to in ("DATA", "CONTENT") else []


class Undelivered:
    """The messages that a server has accepted, and that have neither arrived nor been reported as failed.

    Of a message with a null reverse-path no failure may be reported: it has failed, and is no longer undelivered, when a
    next hop has refused it for good. `_made` has the messages by name, `_bodies` the hashes of their bodies. `_arrived` has
    (hash of the body, recipient); `_reported` has (Message-ID, recipient), "" for all of the message's recipients. `_null`
    has the transactions with a null reverse-path that servers have begun, by session.
    """

    def __init__(
        self, events: Iterable[AnyEvent] = (), mailboxes: Iterable[str] = (), servers: Collection[str] = ()
    ) -> None:
        """Begin with these events. `mailboxes` are the addresses of the topology's mailboxes, `servers` the servers under test.

        The letter case of a mailbox's address does not matter; of any other address, only that of the domain does not
        (RFC 5321 2.4).
        """
        self._mailboxes = {address.lower() for address in mailboxes}
        self._made: dict[str, MessageMade] = {}
        self._bodies: set[str] = set()
        self._body_by_message_id: dict[str | None, str] = {}
        self._arrived: set[tuple[str, str]] = set()
        self._reported: set[tuple[str | None, str]] = set()
        self._descriptions: dict[tuple[str, str], str] = {}
        """By (hash of the body, recipient): `message to recipient` for each that is undelivered."""
        self._keys_by_message_id: dict[str | None, set[tuple[str, str]]] = defaultdict(set)
        self._servers = frozenset(servers)
        self._sessions_of_servers: set[str] = set()
        self._null: dict[str, _NullTransaction] = {}
        for event in events:
            self.add(event)

    def add(self, event: AnyEvent) -> None:
        """Take the next event of the history into account.

        An `Attempt` whose content was accepted makes its message undelivered for each accepted recipient. A `Delivered` ends that
        for its recipient. If it delivers a report of a failure, it ends that for the recipients in `failed` of the message with Message-ID
        `about`, for all if `failed` is empty. In a session that a server opened, a refusal for good ends it for a
        message with a null reverse-path. Raises KeyError for an attempt with a message that was not made before.
        """
        match event:
            case MessageMade():
                self._made[event.message] = event
                self._bodies.add(event.digest.body_sha256)
                self._body_by_message_id.setdefault(event.message_id, event.digest.body_sha256)
            case Attempt(code=int(code), dot_sent=True) if code // 100 == 2:
                for recipient in event.accepted:
                    self._add_accepted(self._made[event.message], recipient)
            case Delivered(digest=Digest(report="delivery-status", failed=(), action=str(action))) if (
                action != "failed"
            ):
                pass  # of a delay, after which the server goes on trying, or of a success, which says nothing of the others
            case Delivered(digest=Digest(report="delivery-status", about=about, failed=failed)):
                self._reported.update((about, self._normalized(address)) for address in failed or ("",))
                keys = self._keys_by_message_id[about]
                for key in [key for key in keys if self._is_reported(about, key[1])]:
                    keys.discard(key)
                    self._descriptions.pop(key, None)
            case Delivered():
                key = (self._body_of(event.digest), self._normalized(event.recipient))
                self._arrived.add(key)
                self._descriptions.pop(key, None)
            case Connected(client=client, session=session) if client in self._servers:
                self._sessions_of_servers.add(session)
            case Command(verb="MAIL", session=session, line=line) if session in self._sessions_of_servers:
                self._null.pop(session, None)
                if not parse_path(line):
                    self._null[session] = _NullTransaction()
            case Command(verb="RCPT", session=session, line=line) if session in self._null:
                self._null[session].unanswered.append(self._normalized(parse_path(line)))
            case Reply(session=session) if session in self._null:
                self._give_up(self._null[session].refused_by(event))
            case _:
                pass

    def _give_up(self, recipients: Iterable[str]) -> None:
        """Take all messages with a null reverse-path as arrived at these recipients, since a next hop has refused one for good.

        The refusal may come before the content, so which of these messages was refused is not known.
        """
        for recipient in recipients:
            for made in self._made.values():
                key = (made.digest.body_sha256, recipient)
                if not made.sender:
                    self._arrived.add(key)
                    self._descriptions.pop(key, None)

    def _add_accepted(self, made: MessageMade, recipient: str) -> None:
        """Count a message as undelivered for a recipient, since a server has accepted it; not if it has arrived or was reported."""
        key = (made.digest.body_sha256, self._normalized(recipient))
        if key not in self._arrived and not self._is_reported(made.message_id, key[1]):
            self._descriptions[key] = f"{made.message} to {recipient}"
            self._keys_by_message_id[made.message_id].add(key)

    @property
    def is_empty(self) -> bool:
        """Whether no message is undelivered."""
        return not self._descriptions

    @property
    def descriptions(self) -> list[str]:
        """`message to recipient` for each undelivered message and recipient, sorted."""
        return sorted(self._descriptions.values())

    def _normalized(self, address: str) -> str:
        """Return an address as it is compared: that of a mailbox in lower case, any other with its domain in lower case."""
        folded = address.lower()
        local, at_sign, domain = address.rpartition("@")
        return folded if folded in self._mailboxes else f"{local}{at_sign}{domain.lower()}"

    def _is_reported(self, message_id: str | None, recipient: str) -> bool:
        """Whether a report said that a message failed for a recipient; one that names no recipient is about all."""
        return not self._reported.isdisjoint({(message_id, recipient), (message_id, "")})

    def _body_of(self, digest: Digest) -> str:
        """Return the hash of a delivered message's body as the harness made it, by which messages are known here.

        When the body was altered on the way, the message is found by its Message-ID. If that is unknown too, return the hash of
        the altered body.
        """
        if digest.body_sha256 not in self._bodies:
            return self._body_by_message_id.get(digest.message_id, digest.body_sha256)
        return digest.body_sha256
