"""The end of every scenario: heal everything, let the transport do its work, then stop. Bounded, and recorded."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress

from conformance.history.events import AnyEvent, Attempt, Delivered, Drained, MessageMade
from conformance.history.values import Digest
from conformance.nodes.contract import CannotRestart
from conformance.run.steps.breaking import heal_disks
from conformance.run.world import World

_GRACE = 2.5
"""Heartbeats to wait after the last message arrived: whoever wants to deliver twice or to discard has the time to do
it."""


async def drain(world: World) -> None:
    """Heal all, thaw and start what is down, and wait until every accepted message is accounted for.

    Then wait a few heartbeats more. Records `Drained`; what is missing is for the judge to say.
    """
    world.heal_all()
    await heal_disks(world)
    for supervisor in world.supervisors.values():
        async with supervisor.busy:  # what a step does to it at a moment of the protocol may be under way
            if supervisor.frozen:
                await supervisor.resume()
            if not supervisor.up and supervisor.node.failure is None and not supervisor.lost:
                with suppress(CannotRestart):  # it is in the history, for the judge
                    await supervisor.start()
    began = world.clock.elapsed()
    until = began + world.cell.drain
    account = Account(world.recorder.events, (mailbox.address for mailbox in world.cell.topology.mailboxes))
    forget = world.recorder.subscribe(account.take)
    try:
        quiet = await _wait(world, account, until)
        if quiet:
            await world.clock.sleep(_GRACE * world.heartbeat)
            quiet = not account.owing
    finally:
        forget()
    for supervisor in world.supervisors.values():
        supervisor.note_failure()
    kills = any(supervisor.may_be_short_of_memory for supervisor in world.supervisors.values())
    world.note_shortage(world.machine.shortage(kills=kills))
    missing = ", ".join(account.missing)
    waited = round(world.clock.elapsed() - began, 6)
    world.recorder.record(
        Drained, quiet=quiet, waited=waited, detail=f"not accounted for: {missing}" if missing else ""
    )
    world.note_lag(always=True)


class Account:
    """What was acknowledged and has neither arrived nor been reported; each event is taken once.

    `mailboxes` are the addresses of the topology's mailboxes: these are found in any letter case, and of any other
    address the domain only (RFC 5321 2.4). Only to know how long to wait: the judge has its own rule.
    """

    def __init__(self, events: Iterable[AnyEvent] = (), mailboxes: Iterable[str] = ()) -> None:
        self._mailboxes = {address.lower() for address in mailboxes}
        self._made: dict[str, MessageMade] = {}
        self._bodies: set[str] = set()
        self._bodies_of: dict[str | None, str] = {}
        self._arrived: set[tuple[str, str]] = set()
        self._reported: set[tuple[str | None, str]] = set()
        self._owed: dict[tuple[str, str], str] = {}
        self._owed_of: dict[str | None, set[tuple[str, str]]] = defaultdict(set)
        for event in events:
            self.take(event)

    def take(self, event: AnyEvent) -> None:
        """Take the next event of the history."""
        match event:
            case MessageMade():
                self._made[event.message] = event
                self._bodies.add(event.digest.body_sha256)
                self._bodies_of.setdefault(event.message_id, event.digest.body_sha256)
            case Attempt(code=int(code), dot_sent=True) if code // 100 == 2:
                for recipient in event.accepted:
                    self._owe(self._made[event.message], recipient)
            case Delivered(digest=Digest(report="delivery-status", action="delayed")):
                pass  # the server still tries
            case Delivered(digest=Digest(report="delivery-status", about=about, failed=failed)):
                self._reported.update((about, self._who(address)) for address in failed or ("",))
                owed = self._owed_of[about]
                for key in [key for key in owed if self._is_reported(about, key[1])]:
                    owed.discard(key)
                    self._owed.pop(key, None)
            case Delivered():
                key = (self._body_of(event.digest), self._who(event.recipient))
                self._arrived.add(key)
                self._owed.pop(key, None)
            case _:
                pass

    @property
    def owing(self) -> bool:
        """Whether anything is owed."""
        return bool(self._owed)

    @property
    def missing(self) -> list[str]:
        """`message to recipient` for everything that is owed, in order."""
        return sorted(self._owed.values())

    def _who(self, address: str) -> str:
        """Return whom an address means, the same for two spellings of one."""
        folded = address.lower()
        local, at_sign, domain = address.rpartition("@")
        return folded if folded in self._mailboxes else f"{local}{at_sign}{domain.lower()}"

    def _is_reported(self, message_id: str | None, who: str) -> bool:
        """Whether a report said that a message failed for somebody; one that names nobody speaks of all."""
        return not self._reported.isdisjoint({(message_id, who), (message_id, "")})

    def _body_of(self, digest: Digest) -> str:
        """Return the body that a content stands for: its own, or, where it was altered on the way, that of its name."""
        if digest.body_sha256 not in self._bodies:
            return self._bodies_of.get(digest.message_id, digest.body_sha256)
        return digest.body_sha256

    def _owe(self, made: MessageMade, recipient: str) -> None:
        key = (made.digest.body_sha256, self._who(recipient))
        if key not in self._arrived and not self._is_reported(made.message_id, key[1]):
            self._owed[key] = f"{made.message} to {recipient}"
            self._owed_of[made.message_id].add(key)


async def _wait(world: World, account: Account, until: float) -> bool:
    """Wait until nothing is sent any more and all is accounted for; return whether that came before `until`."""
    news = asyncio.Event()
    forget = world.recorder.subscribe(lambda event: news.set())
    try:
        while world.outbox.sending or (
            account.owing and any(supervisor.up for supervisor in world.supervisors.values())
        ):
            left = until - world.clock.elapsed()
            if left <= 0:
                return False
            news.clear()
            try:
                async with asyncio.timeout(world.clock.duration(left)):
                    await news.wait()
            except TimeoutError:
                return False
        return not account.owing
    finally:
        forget()
