"""Delivery: every primary message goes to its next hops, a fork for each, and is tried again until all are
processed."""

import asyncio
from collections.abc import Callable, Sequence

from conformance.reference.dsn import failure_report
from conformance.reference.headers import client_submit_time, internet_message_id
from conformance.reference.host import Host
from conformance.reference.message import Envelope, Fate, Message, Recipient
from conformance.reference.queue.mailbox_store import MailboxStore
from conformance.reference.queue.routing import NextHop
from conformance.reference.replies import Reply
from conformance.reference.routing.forks import forks
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.shadow.creation import ShadowCreation
from conformance.reference.shadow.discard import DiscardStatus
from conformance.reference.shadow.manager import ShadowRedundancyManager

_NOWHERE = {"no such mailbox": Reply(550, "5.1.1", "no such mailbox"), "no route": Reply(550, "5.4.4", "no route")}


class Delivery:
    """The delivery queues of one node."""

    def __init__(
        self,
        host: Host,
        store: MailboxStore,
        creation: ShadowCreation,
        discards: DiscardStatus,
        manager: Callable[[], ShadowRedundancyManager],
    ) -> None:
        self._host = host
        self._store = store
        self._creation = creation
        self._discards = discards
        self._manager = manager

    def start(self) -> None:
        """Go on with what is in the database."""
        for message in self._host.messages.in_place("primary"):
            self.take(message)

    def take(self, message: Message) -> None:
        """Begin to process a primary message."""
        self._host.tasks.start(self._process(message), f"{self._host.config.name}: deliver {message.message_id}")

    async def promote(self, message: Message) -> None:
        """Process a message that was a shadow: make it redundant afresh, then deliver it (SR-MNT-09, SR-MNT-11)."""
        await self._host.db.durable()
        await self._process(message)

    async def _process(self, message: Message) -> None:
        host = self._host
        content = host.messages.content(message.id)
        if message.redundancy_pending:
            await self.make_redundant(message, content, None)
        while pending := host.messages.pending(message.id):
            hops = self._forks(pending)
            async with asyncio.TaskGroup() as group:
                for hop, recipients in hops.items():
                    group.create_task(self._fork(message, content, hop, recipients), name=f"fork to {hop.name}")
            await host.db.durable()
            if not host.messages.pending(message.id):
                break
            expires = message.since + host.transport.MessageExpirationTimeout
            if host.now() >= expires:
                self._expire(message, content)
                await host.db.durable()
                break
            await asyncio.sleep(min(host.transport.MessageRetryInterval, max(expires - host.now(), 0.001)))
        await self._complete(message)

    def _forks(self, recipients: Sequence[Recipient]) -> dict[NextHop, list[Recipient]]:
        """Return the next hops of a message, each with its recipients."""
        return forks(self._host.config, recipients)

    async def make_redundant(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Make the message's shadow; return whether somebody has acknowledged one."""
        made = await self._creation.make(message.shadow_id, message.envelope, content, deadline)
        for server, acknowledged in made:
            self._host.discards.add_holder(message.id, server, acknowledged=acknowledged)
        self._host.messages.made_redundant(message.id)
        return any(acknowledged for _, acknowledged in made)

    async def _fork(self, message: Message, content: bytes, hop: NextHop, recipients: list[Recipient]) -> None:
        """Try one next hop once, its servers in turn until one answers."""
        if hop.way == "nowhere":
            self._note(message, content, hop, dict.fromkeys(recipients, _NOWHERE[hop.name]))
            return
        if hop.way == "mailbox":
            for recipient in recipients:
                reply = await self._store.deliver(hop.dials[0], message.envelope, recipient, content)
                self._note(message, content, hop, {recipient: reply})
            return
        envelope = message.envelope
        part = Envelope(envelope.reverse_path, tuple(recipients), envelope.body, envelope.ret, envelope.envid)
        idle = self._host.transport.SendConnectionInactivityTimeout
        for server, dial in zip(hop.servers, hop.dials, strict=True):
            answered = False
            try:
                async with Dialogue(dial, self._host.config.name, idle, hop.protocol) as dialogue:
                    replies = await self._hand_over(dialogue, hop, server, part, message, content)
                    answered = bool(replies)
                    await self._before_quit(dialogue, hop, server)
            except SessionLost as lost:
                self._host.log.info("next hop %s: %s", server, lost)
            if answered:
                return

    async def _hand_over(
        self, dialogue: Dialogue, hop: NextHop, server: str, part: Envelope, message: Message, content: bytes
    ) -> dict[Recipient, Reply]:
        """Transmit a message in an open session, and note at once what became of each recipient."""
        replies = await dialogue.transmit(part, content)
        self._note(message, content, hop, replies)
        return replies

    async def _before_quit(self, dialogue: Dialogue, hop: NextHop, server: str) -> None:
        """Ask for discard status in a session that is open anyhow (SR-MNT-02)."""
        if hop.way == "transport" and "XSHADOWREQUEST" in dialogue.keywords:
            await self._manager().query_in(server, dialogue)

    def _note(self, message: Message, content: bytes, hop: NextHop, replies: dict[Recipient, Reply]) -> None:
        """Note what became of recipients; those with neither yes nor no stay pending."""
        for recipient, reply in replies.items():
            if not (reply.positive or reply.permanent):
                self._host.log.info("%s to <%s> deferred: %s", message.message_id, recipient.address, reply)
                continue
            fate: Fate = "delivered" if reply.positive else "failed"
            self._host.messages.set_fate(message.id, [recipient], fate, crossed=hop.crosses)
            self._host.log.info("%s to <%s> %s: %s", message.message_id, recipient.address, fate, reply)
            if reply.permanent:
                self._report(message, content, recipient, reply)

    def _expire(self, message: Message, content: bytes) -> None:
        expired = Reply(550, "5.4.7", "the message expired in the queue")
        for recipient in self._host.messages.pending(message.id):
            self._host.messages.set_fate(message.id, [recipient], "expired")
            self._report(message, content, recipient, expired)

    def _report(self, message: Message, content: bytes, recipient: Recipient, reply: Reply) -> None:
        """Report a failure to the sender (RFC 5321 6.1): a message of its own, which its cause waits for (SR-
        MNT-08)."""
        if not message.envelope.reverse_path or "NEVER" in recipient.notify:
            return
        host = self._host
        key = host.identity.next()
        report = failure_report(
            key, host.config.name, host.now(), message.envelope, content, recipient, reply.status, str(reply)
        )
        host.log.info("%s non-delivery report %s to <%s>", message.message_id, key, message.envelope.reverse_path)
        self.take(
            host.messages.add(
                message_id=key,
                place="primary",
                envelope=Envelope("", (Recipient(message.envelope.reverse_path),)),
                content=report,
                internet_id=internet_message_id(report),
                submitted=client_submit_time(report),
                since=host.now(),
                shadow_id=key,
                cause=message.id,
                redundancy_pending=True,
            )
        )

    async def _complete(self, message: Message) -> None:
        """All forks and all reports are processed: offer the discard notification, and move on to Safety Net."""
        host = self._host
        if host.messages.pending(message.id) or host.messages.caused_by(message.id):
            return
        self._discards.queue(message.id, message.shadow_id)
        self._retire(message)
        await host.db.durable()
        host.log.info("%s processed", message.message_id)
        if message.cause is not None and (cause := host.messages.get(message.cause)) and cause.place == "primary":
            await self._complete(cause)

    def _retire(self, message: Message) -> None:
        """Put a processed message where processed messages go: Safety Net (SR-SFN-01)."""
        self._host.messages.move(message.id, "safety-net", self._host.now())
