"""Delivery: each message to its next hops until every recipient is delivered or reported, and to mailboxes only once."""

import asyncio
import contextlib
import logging
import sqlite3
import time
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from client import Client, Lost, Reply
from report import make_report
from routing import Hop, forks, next_hop
from store import Message


class Delivery:
    """Tries next hops, detects duplicates, and has reports written."""

    def __init__(self, node: Any) -> None:
        self._node, self._store = node, node.store
        self._turns = WeakValueDictionary[str | None, asyncio.Lock]()

    async def deliver(self, message: Message) -> None:
        """Try until every recipient is delivered or reported."""
        while message.recipients and not self._node.leaving.is_set():
            config, failed = self._node.config, dict[str, Reply]()
            expires = message.arrived + config["MessageExpirationTimeout"]
            if time.time() >= expires - 0.001:
                failed = dict.fromkeys(message.recipients, Reply(550, ("5.4.7 it could not be delivered in time",)))
            else:
                hops = forks(config, message.recipients).items()
                tries = [self._node.start(self._send(message, hop, to), in_hand=True) for hop, to in hops]
                for one in await asyncio.gather(*tries):
                    failed |= one
            await self.settle(message, failed)
            if message.recipients:
                await asyncio.sleep(max(0, min(self._node.config["MessageRetryInterval"], expires - time.time())))

    async def settle(self, message: Message, settled: dict[str, Reply]) -> None:
        """Record recipients as delivered or failed, with the report on them if one is due; while the disk is full, wait."""
        while settled:
            try:
                report = make_report(message, settled, self._node.config.name, self._store.new_id)
                self._store.done(message, settled, report)
            except sqlite3.Error as error:
                logging.info(f"{message.shadow_id}: {error}")
                if self._node.leaving.is_set():
                    return
                await asyncio.sleep(5)
            else:
                settled = {}
                if report is not None:
                    self._node.primary.adopt(report)

    async def _send(self, message: Message, hop: Hop, addresses: list[str]) -> dict[str, Reply]:
        """Try one next hop: record the delivered recipients, and return those that failed for good."""
        hand_over = self.into_mailboxes if hop.kind == "mailbox" else partial(self._transmit, hop)
        try:
            replies = await hand_over(message, addresses)
        except sqlite3.Error as error:
            replies = dict.fromkeys(addresses, Reply(452, (f"4.3.1 {error}",)))
        await self.settle(message, {address: reply for address, reply in replies.items() if reply.code // 100 == 2})
        return {address: reply for address, reply in replies.items() if reply.code // 100 == 5}

    async def _transmit(self, hop: Hop, message: Message, addresses: list[str]) -> dict[str, Reply]:
        """Transmit a message to the first server of a next hop that accepts it; return the reply for each recipient."""
        config, left = self._node.config, addresses
        replies = dict.fromkeys(addresses, Reply(550, (f"5.4.4 there is no way to {hop.name}",)))
        for protocol, host, port, server in hop.tries:
            client = Client(config, protocol)
            try:
                await client.open(
                    host, port, config.peers[server.lower()]["secret"] if hop.kind == "transport" else None
                )
                await client.transmit(message, left)
            except Lost as lost:
                replies |= dict.fromkeys(left, Reply(451, (f"4.4.1 {lost}",)))
                client.close()
            else:
                self._node.start(client.quit())
            done = "" if "DSN" in client.keywords else "delivered" if hop.kind == "mailbox" else "relayed"
            replies |= {address: reply._replace(success=done) for address, reply in client.replies.items()}
            left = [address for address in left if replies[address].code // 100 == 4]
            # in doubt: it may have the message, so no other server gets it
            if not left or client.in_doubt or (hop.kind == "transport" and client.replies):
                break
        return replies

    async def into_mailboxes(self, message: Message, addresses: list[str]) -> dict[str, Reply]:
        """Deliver a message to mailboxes hosted here, unless it was delivered before (duplicate detection)."""
        boxes = {address.lower(): address for address in addresses}  # once, in whatever letter cases it is addressed
        key, found, before = _key(message), dict[str, Reply](), set[str]()
        async with self._turns.setdefault(message.internet_id, asyncio.Lock()):  # two of the same message take turns
            if key is not None:
                query = "SELECT mailbox FROM delivered WHERE internet_id = ? AND submitted = ? AND at > ?"
                oldest = time.time() - self._node.config.tracking_window
                before = {box for (box,) in self._store.run(query, *key, oldest)}
            if new := [address for box, address in boxes.items() if box not in before]:
                found = await self._transmit(next_hop(self._node.config, new[0]), message, new)
            for box, address in boxes.items():
                found[box] = found.get(address, Reply(250, ("2.1.5 delivered before",)))
                if key is not None and box not in before and found[box].code // 100 == 2:
                    self._store.run("INSERT INTO delivered VALUES (?, ?, ?, ?)", box, *key, time.time())
        return {address: found[address.lower()] for address in addresses}

    async def clean_up(self) -> None:
        """Delete the rows of duplicate detection whose window has passed, again and again; never returns."""
        while True:
            config, now = self._node.config, time.time()
            ((oldest,),) = self._store.run("SELECT coalesce(min(at), ?) FROM delivered", now)
            await self._node.pause(max(now + config["DuplicateCleanupInterval"], oldest + config.tracking_window))
            with contextlib.suppress(sqlite3.Error):  # the disk may be full
                self._store.run("DELETE FROM delivered WHERE at <= ?", time.time() - self._node.config.tracking_window)


def _key(message: Message) -> tuple[str, float] | None:
    """Return the key of duplicate detection (Internet message ID, client submit time); None if the message is never a duplicate."""
    try:
        submitted = parsedate_to_datetime(message.header("Date") or "").timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return None if message.internet_id is None else (message.internet_id, submitted)
