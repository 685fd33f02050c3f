"""The shadow server's side: keeps copies for primaries, asks about them, and takes them over."""

import asyncio
import logging
import sqlite3
import time
from typing import Any

from client import Client, Lost
from store import Message


class Shadow:
    """Handles the copies that this node keeps of other servers' messages."""

    def __init__(self, node: Any) -> None:
        self._node, self._store = node, node.store
        self._asked: dict[str, float] = {}  # when each primary was last asked
        self._watches: dict[str, asyncio.Task[None]] = {}

    def copies_for(self, primary: str) -> list[Message]:
        """Return the copies held for a server, oldest first."""
        return self._store.messages("primary_name = ?", primary)

    def keep(self, copy: Message) -> None:
        """Store a copy before it is acknowledged; storing the same copy again changes nothing."""
        held = {(one.primary_db, one.shadow_id) for one in self.copies_for(copy.primary_name)}
        if (copy.primary_db, copy.shadow_id) not in held:
            self._store.add(copy)
        self._store.note_contact(copy.primary_name)
        self.watch(copy.primary_name)

    def saw_database(self, primary: str, database: str) -> None:
        """Compare the queue database that a server names with that of its copies; if it is a new one, take the copies over."""
        self._take_over([copy for copy in self.copies_for(primary) if copy.primary_db != database])

    def _take_over(self, copies: list[Message]) -> None:
        for copy in copies:
            logging.info(f"{copy.shadow_id} of {copy.primary_name}: taken over")
            copy.shadow_id, copy.primary_name, copy.arrived = self._store.new_id(), "", time.time()
            copy.copied = not self._node.config["ShadowRedundancyEnabled"]
            self._store.save(copy)
            self._node.primary.adopt(copy)

    def watch(self, primary: str) -> None:
        """Begin to ask a primary regularly, as long as copies are held for it."""
        if primary not in self._watches or self._watches[primary].done():
            self._watches[primary] = self._node.start(self._watching(primary))

    async def _watching(self, primary: str) -> None:
        """Ask at the required interval, and take the copies over when the primary was silent for too long."""
        self._asked[primary] = self._store.last_contact(primary)
        while copies := self.copies_for(primary):
            now, config = time.time(), self._node.config
            ask = self._asked[primary] + config["ShadowHeartbeatFrequency"]
            silent = self._store.last_contact(primary) + config["ShadowResubmitTimeSpan"]
            gone = copies[0].arrived + config["SafetyNetHoldTime"] + config["MessageExpirationTimeout"]
            try:
                if not config["ShadowRedundancyEnabled"]:
                    await self._node.pause(now + 86400)
                elif now < (due := min(ask, silent, gone)):
                    await self._node.pause(due)
                elif now >= gone:
                    self._store.delete(copies[0])
                elif not await self._heartbeat(primary) and time.time() >= silent:
                    self._take_over(self.copies_for(primary))
            except sqlite3.Error as error:  # the disk may have room later
                logging.info(f"copies of {primary}: {error}")
                await self._node.pause(time.time() + config["ShadowHeartbeatFrequency"])

    async def _heartbeat(self, primary: str) -> bool:
        """Open a session and ask for notifications; return whether the primary answered."""
        self._asked[primary] = time.time()
        peer, config = self._node.config.peers.get(primary.lower()), self._node.config
        if peer is None:
            return False
        client = Client(config, most=config["ShadowHeartbeatFrequency"])
        try:
            await client.open(*peer["dial"]["transport"], peer["secret"])
        except Lost as lost:
            logging.info(f"{primary}: {lost}")
            client.close()
            return False
        return await self.leave(client, primary)

    async def leave(self, client: Client, server: str) -> bool:
        """End a session, and return whether it succeeded; if copies are held for the server, first ask about them."""
        try:
            if self.copies_for(server):
                await self._ask(client, server)
            await client.quit()
            self._store.note_contact(server)
        except (Lost, sqlite3.Error) as error:
            logging.info(f"{server}: {error}")
            client.close()
            return False
        return True

    async def _ask(self, client: Client, primary: str) -> None:
        """Ask for notifications until none is left. Raises Lost."""
        left = 1
        while left:
            self._asked[primary] = time.time()
            reply = await client.command(f"XQDISCARD {self._node.config.name} 100", expect=250)
            try:
                (_, _, database), *discards, (_, _, number) = [line.split() for line in reply.lines]
            except ValueError as error:
                raise Lost(f"not a reply to XQDISCARD: {reply}") from error
            self._let_go(primary, database, {shadow_id for _, _, shadow_id in discards})
            self.saw_database(primary, database)
            left = int(number)

    def _let_go(self, primary: str, database: str, gone: set[str]) -> None:
        for copy in self.copies_for(primary):
            if copy.primary_db == database and copy.shadow_id in gone:
                self._store.delete(copy)
