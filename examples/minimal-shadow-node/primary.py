"""The primary's side: other servers store copies before a message is acknowledged, and are notified when it is processed."""

import asyncio
import logging
import random
import time
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

from client import Client, Lost
from store import Message


class Primary:
    """Handles the mail for which this node is responsible, and the queries of the servers that hold copies of it."""

    def __init__(self, node: Any) -> None:
        self._node, self._store = node, node.store
        self.in_flight: set[int] = set()  # notifications in replies that no further command has followed yet
        self._random = random.Random(f"{node.config.seed} {node.config.name}")  # noqa: S311  # spreads load

    async def accept(self, mail: Message, deadline: float) -> bool:
        """Make a message redundant, and store it. Return False when it must be rejected."""
        mail.shadow_id, config = self._store.new_id(), self._node.config
        copied = not config["ShadowRedundancyEnabled"] or await self._make_copy(mail, deadline)
        if not copied and config["RejectMessageOnShadowFailure"]:
            self._store.notify(mail)
            return False
        self._store.add(mail)
        self.adopt(mail)
        return True

    def adopt(self, message: Message) -> None:
        """Deliver a message; if it has no copy yet, make it redundant at the same time."""
        self._node.start(self._node.delivery.deliver(message))
        if not message.copied and self._node.config["ShadowRedundancyEnabled"]:
            self._node.start(self._copy_later(message))

    async def _copy_later(self, message: Message) -> None:
        copy = replace(message, recipients=dict(message.recipients), holders=[])  # the message changes meanwhile
        await self._make_copy(copy, None)
        message.copied, message.holders = True, copy.holders
        if not self._store.save(message):  # it is processed meanwhile
            self._store.notify(message)

    def _attempts(self) -> list[dict[str, Any]]:
        """Return the servers to try for one copy, in order (node contract, "Choosing the shadow server")."""
        config = self._node.config
        peers = [peer for peer in config.peers.values() if config.shadows(peer) and peer["send_xshadow"]]
        self._random.shuffle(peers)
        far = [peer for peer in peers if config.dag is not None and peer["site"] != config.site]
        near = [peer for peer in peers if peer not in far]
        preference = config["ShadowMessagePreferenceSetting"] if far else "LocalOnly"  # for DAGs across sites only
        far_tries = 0 if preference == "LocalOnly" else config["MaxRetriesForRemoteSiteShadow"]
        near_tries = 0 if preference == "RemoteOnly" else config["MaxRetriesForLocalSiteShadow"]
        return [*islice(cycle(far), far_tries), *islice(cycle(near), near_tries)]

    async def _make_copy(self, message: Message, deadline: float | None) -> bool:
        """Have a copy made until `deadline` on the loop's clock; record in the message which servers may hold one."""
        try:
            async with asyncio.timeout_at(deadline):
                for peer in self._attempts():
                    if await self._copy_to(peer, message):
                        return True
        except TimeoutError:
            logging.info(f"{message.shadow_id}: no time is left for a copy")
        return False

    async def _copy_to(self, peer: dict[str, Any], message: Message) -> bool:
        """Try one server. If the session is lost after the final dot, the server may hold a copy, and gets the notification too."""
        node, client, stored = self._node, Client(self._node.config), False
        try:
            await client.open(*peer["dial"]["transport"], peer["secret"])
            if "XSHADOWREQUEST" not in client.keywords:
                raise Lost("XSHADOWREQUEST is not offered")
            reply = await client.command(f"XSHADOWREQUEST {node.config.name} {self._store.database}", expect=250)
            node.shadow.saw_database(peer["name"], reply.lines[0].split()[-1])
            replies = await client.transmit(message, list(message.recipients), f" XSHADOW={message.shadow_id}")
            stored = all(reply.code == 250 for reply in replies.values())
        except Lost as lost:
            logging.info(f"{message.shadow_id}: no copy at {peer['name']}: {lost}")
        finally:
            if (stored or client.in_doubt) and peer["name"] not in message.holders:
                message.holders.append(peer["name"])
            if not stored:
                client.close()
        if stored:
            node.start(node.shadow.leave(client, peer["name"]))
        return stored

    def notifications(self, server: str, most: int) -> tuple[list[str], list[int]]:
        """Return the reply to XQDISCARD, and the notifications in it."""
        self._expire()
        query = "SELECT id, shadow_id FROM discard WHERE server = ? COLLATE NOCASE ORDER BY id"
        rows = [row for row in self._store.run(query, server) if row[0] not in self.in_flight]
        numbers = [number for number, _ in rows[:most]]
        self.in_flight.update(numbers)
        discards = [f"250-2.0.0 discard {shadow_id}" for _, shadow_id in rows[:most]]
        left = len(rows) - len(discards)
        return [f"250-2.0.0 database {self._store.database}", *discards, f"250 2.0.0 end {left}"], numbers

    def _expire(self) -> None:
        oldest = time.time() - self._node.config["ShadowMessageAutoDiscardInterval"]
        self._store.run("DELETE FROM discard WHERE since <= ?", oldest)

    def forget(self, numbers: list[int]) -> None:
        """Delete notifications, because the server that asked has read them."""
        for number in numbers:
            self._store.run("DELETE FROM discard WHERE id = ?", number)
        self.in_flight.difference_update(numbers)
