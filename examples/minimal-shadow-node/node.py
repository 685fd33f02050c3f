"""A small server with shadow redundancy as Exchange 2013 and later have it: the program."""

import argparse
import asyncio
import contextlib
import json
import random
import re
import signal
import sys
import time
from collections.abc import Coroutine, Iterable, Iterator
from email.utils import formatdate, parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any

from client import Client, Lost, Reply
from config import Config, Refused, read
from defects import broken, switch_on
from routing import Hop, forks, next_hop
from session import Session, header
from store import Message, Store, open_to_read

EXPIRED = Reply(550, ("5.4.7 it could not be delivered in time",))


def _times(peers: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    return [peers[turn % len(peers)] for turn in range(number)] if peers else []


class Node:
    """One server: what it holds, and what it does without being asked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.config = read(path)
        self.store = Store(self.config.data_dir)
        self.telling: set[int] = set()
        self._sessions: set[Session] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._working = 0
        self._idle = asyncio.Event()
        self._leaving = asyncio.Event()
        self._changed = asyncio.Event()
        self._asked: dict[str, float] = {}
        self._watched: set[str] = set()
        self._turns: dict[tuple[str, str, float], asyncio.Lock] = {}
        self._random = random.Random(f"{self.config.seed} {self.config.name}")  # noqa: S311  # spreads load

    @staticmethod
    def log(text: str) -> None:
        """Write a line to the log."""
        sys.stderr.write(f"{time.time():.3f} {text}\n")

    async def run(self) -> None:
        """Serve until SIGTERM."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._leaving.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        servers = [await asyncio.start_server(partial(self._serve, door), one.host, one.port, backlog=1024)
                   for door, one in self.config.listeners.items()]  # fmt: skip
        self._answer(self.config, {"revision": self.config.revision, "applied": True})
        if broken("notifications-in-memory"):
            self.store.db.execute("DELETE FROM discard")
        for message in self.store.messages("primary_name = ''"):
            self._adopt(message)
        for primary in self.store.primaries():
            self._watch(primary)
        self._start(self._clean_up())
        await self._leaving.wait()
        for server in servers:
            server.close()
        for session in tuple(self._sessions):
            if not session.busy:
                session.end("421 4.3.2 this server leaves")
        if not self._working:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self._idle.wait()

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Hold an orderly stop up while a message is in hand."""
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1
            if self._leaving.is_set() and not self._working:
                self._idle.set()

    async def _serve(self, door: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = Session(self, door, reader, writer)
        self._sessions.add(session)
        try:
            await session.run()
        finally:
            self._sessions.discard(session)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.log(f"unexpected: {task.exception()!r}")

    def _reload(self) -> None:
        try:
            config = read(self._path)
            if config.fixed != self.config.fixed:
                raise Refused("name, generation, role, site, dag, data_dir: cannot change while the node runs")
        except Refused as error:
            revision = json.loads(self._path.read_text("utf-8"))["revision"]
            self._answer(self.config, {"revision": revision, "applied": False, "error": str(error)})
            return
        self.config = config
        for session in self._sessions:
            session.limit()
        self._changed.set()
        self._changed = asyncio.Event()
        self._answer(config, {"revision": config.revision, "applied": True})

    @staticmethod
    def _answer(config: Config, status: dict[str, Any]) -> None:
        new = config.status_file.with_suffix(".new")
        new.write_text(json.dumps(status), "utf-8")
        new.replace(config.status_file)

    async def _pause(self, until: float) -> None:
        """Wait until a time by the wall clock, or until the configuration has changed."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), max(0.0, until - time.time()))

    # ------------------------------------------------------------ messages of this node's own

    async def accept(self, mail: Message, deadline: float, *, submitted: bool) -> bool:
        """Make a message redundant, and take it. Return False when it must be rejected."""
        config, mail.shadow_id = self.config, self.store.new_id()
        stored, holders = True, []
        enabled = (config["ShadowRedundancyEnabled"] or broken("off-is-on")) and not broken("makes-no-copies")
        mail.copied = not broken("acknowledges-first")
        if enabled and mail.copied and not (submitted and broken("no-copy-of-submissions")):
            stored, holders = await self._make_copy(mail, deadline)
        mandatory = config["RejectMessageOnShadowFailure"] or broken("rejects-though-optional")
        mandatory = mandatory and config["ShadowRedundancyEnabled"] and not broken("accepts-though-mandatory")
        if not stored and mandatory:
            self.store.notify(holders, mail.shadow_id)
            return False
        self.store.add(mail, holders)
        if broken("notifies-at-acceptance"):
            self.store.notify(holders, mail.shadow_id)
        self._adopt(mail)
        return True

    def _adopt(self, message: Message) -> None:
        """Deliver a message; make it redundant beside that, where it is not."""
        self._start(self._deliver(message))
        if not message.copied:
            self._start(self._copy_later(message))

    async def _copy_later(self, message: Message) -> None:
        if self.config["ShadowRedundancyEnabled"] and not broken("makes-no-copies"):
            _, holders = await self._make_copy(message, None)
            self.store.copied(message, holders)

    def _attempts(self) -> list[dict[str, Any]]:
        """Return the servers to try for one copy, in turn."""
        config = self.config
        peers = [peer for peer in config.peers.values() if config.shadows(peer)]
        if broken("copies-anywhere"):
            peers = [
                peer for peer in config.peers.values() if peer["role"] == "mailbox" and not config.inside(peer)
            ] or peers
        self._random.shuffle(peers)
        far = [peer for peer in peers if peer["site"] != config.site]
        near = [peer for peer in peers if peer not in far]
        if config.dag is None or not far:  # the preference is for DAGs across sites only
            near, far = peers, []
        preference = config["ShadowMessagePreferenceSetting"] if far else "LocalOnly"
        near = _times(near, 0 if preference == "RemoteOnly" else config["MaxRetriesForLocalSiteShadow"])
        far = _times(far, 0 if preference == "LocalOnly" else config["MaxRetriesForRemoteSiteShadow"])
        tries = near + far if broken("prefers-local") else far + near
        return tries[:1] if broken("one-attempt") else tries

    async def _make_copy(self, message: Message, deadline: float | None) -> tuple[bool, list[str]]:
        """Have a copy made, until `deadline` on the loop's clock. Return whether there is one, and who may hold it."""
        holders: list[str] = []
        wanted = 2 if broken("two-copies") else 1
        try:
            async with asyncio.timeout_at(deadline):
                for peer in self._attempts():
                    if await self._copy_to(peer, message, holders):
                        wanted -= 1
                        if not wanted:
                            return True, holders
        except TimeoutError:
            self.log(f"{message.shadow_id}: no time is left for a copy")
        return broken("two-copies") and wanted == 1, holders

    async def _copy_to(self, peer: dict[str, Any], message: Message, holders: list[str]) -> bool:
        client = Client("smtp", self.config.name, self.config["SendConnectionInactivityTimeout"])
        stored = False
        try:
            await client.open(*peer["dial"]["transport"], peer.get("secret"))
            if "XSHADOWREQUEST" not in client.keywords:
                raise Lost("XSHADOWREQUEST is not offered")
            reply = await client.command(f"XSHADOWREQUEST {self.config.name} {self.store.database}", expect=250)
            self.saw_database(peer["name"], reply.lines[0].split()[-1])
            recipients, copy = list(message.recipients), message
            if broken("copy-lacks-a-recipient"):
                recipients = recipients[:-1] or recipients
            if broken("copy-changes-content"):
                content = b"\r\n".join(message.content.split(b"\r\n")[:-2]) + b"\r\n"
                copy = Message(message.sender, message.parameters, message.recipients, content)
            replies = await client.transmit(copy, recipients, f" XSHADOW={message.shadow_id}")
            stored = all(reply.code == 250 for reply in replies.values())
        except Lost as lost:
            self.log(f"{message.shadow_id}: no copy at {peer['name']}: {lost}")
        finally:
            if stored or client.in_doubt:
                holders.append(peer["name"])
            if not stored:
                client.close()
        if stored:
            self._start(self._leave(client, peer["name"]))
        return stored

    async def _leave(self, client: Client, server: str) -> None:
        """End a session with a server, and ask in it for notifications where its copies are held."""
        try:
            if self.store.messages("primary_name = ?", server) and not broken("asks-alone-only"):
                await self._ask(client, server)
            await client.quit()
            self._met(server)
        except Lost as lost:
            self.log(f"{server}: {lost}")
            client.close()

    async def _deliver(self, message: Message) -> None:
        """Try until every recipient is delivered or reported."""
        while message.recipients and not self._leaving.is_set():
            failed: dict[str, Reply] = {}
            expires = message.arrived + self.config["MessageExpirationTimeout"]
            if time.time() >= expires - 0.001:
                failed = dict.fromkeys(message.recipients, EXPIRED)
            else:
                found = forks(self.config, message.recipients)
                await asyncio.gather(*(self._send(message, hop, who, failed) for hop, who in found.items()))
            if failed:
                report = self._report(message, failed)
                self._settled(message, failed, report)
                if report is not None:
                    self._adopt(report)
            if message.recipients:
                await asyncio.sleep(max(0, min(self.config["MessageRetryInterval"], expires - time.time())))

    def _settled(self, message: Message, addresses: Iterable[str], report: Message | None = None) -> None:
        addresses = list(addresses)
        self.store.done(message, addresses, report, early=broken("first-fork-releases") and bool(addresses))
        for address in addresses:
            del message.recipients[address]

    async def _send(self, message: Message, hop: Hop, addresses: list[str], failed: dict[str, Reply]) -> None:
        """Try one next hop; note who was delivered, and add who has failed for good to `failed`."""
        with self.at_work():
            if hop.kind == "none":
                replies = dict.fromkeys(addresses, Reply(550, (f"5.4.4 there is no way to {hop.name}",)))
            elif hop.kind == "mailbox":
                replies = await self.into_mailboxes(message, addresses)
            else:
                replies = await self._transmit(message, hop, addresses)
        failed.update({address: reply for address, reply in replies.items() if reply.code // 100 == 5})
        if delivered := [address for address, reply in replies.items() if reply.code // 100 == 2]:
            self._settled(message, delivered)

    async def _transmit(self, message: Message, hop: Hop, addresses: list[str]) -> dict[str, Reply]:
        """Hand a message to the first server of a next hop that takes it; return the reply for each recipient."""
        replies: dict[str, Reply] = {}
        left = addresses
        for protocol, host, port, server in hop.tries:
            client = Client(protocol, self.config.name, self.config["SendConnectionInactivityTimeout"])
            secret = self.config.peers.get(server.lower(), {}).get("secret") if hop.kind == "transport" else None
            try:
                await client.open(host, port, secret)
                replies |= await client.transmit(message, left)
            except Lost as lost:
                replies |= dict.fromkeys(left, Reply(451, (f"4.4.1 {lost}",)))
                client.close()
                if client.in_doubt:  # it may have the message: no other server gets it
                    return replies
                continue
            self._start(client.quit())
            left = [address for address in left if replies[address].code // 100 == 4]
            if not left or hop.kind == "transport":
                break
        return replies

    async def into_mailboxes(self, message: Message, addresses: list[str]) -> dict[str, Reply]:
        """Deliver to mailboxes hosted here, unless it was delivered before (duplicate detection)."""
        keys = {address: key for address in addresses if (key := self._key(address, message)) is not None}
        turns = [self._turns.setdefault(key, asyncio.Lock()) for key in sorted(set(keys.values()))]
        replies: dict[str, Reply] = {}
        async with contextlib.AsyncExitStack() as stack:
            for turn in turns:
                await stack.enter_async_context(turn)
            new = []
            for address in addresses:
                if address in keys and self._delivered(keys[address]):
                    replies[address] = Reply(250, ("2.1.5 delivered before",))
                else:
                    new.append(address)
            if new:
                replies |= await self._transmit(message, next_hop(self.config, new[0]), new)
                for address in new:
                    if replies[address].code // 100 == 2 and address in keys:
                        row = (*keys[address], time.time())
                        self.store.db.execute("INSERT INTO delivered VALUES (?, ?, ?, ?)", row)
        for key in keys.values():
            if key in self._turns and not self._turns[key].locked():
                del self._turns[key]
        return {address: replies[address] for address in addresses}

    @staticmethod
    def _key(address: str, message: Message) -> tuple[str, str, float] | None:
        date = header(message.content, "Date")
        try:
            submitted = parsedate_to_datetime(date or "").timestamp()
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
        submitted = 0.0 if broken("remembers-message-ids-only") else submitted
        return None if message.internet_id is None else (address.lower(), message.internet_id, submitted)

    def _delivered(self, key: tuple[str, str, float]) -> bool:
        since = time.time() - self.config.tracking_window
        query = "SELECT 1 FROM delivered WHERE mailbox = ? AND internet_id = ? AND submitted = ? AND at > ?"
        return self.store.db.execute(query, (*key, since)).fetchone() is not None

    def _report(self, message: Message, failed: dict[str, Reply]) -> Message | None:
        """Return the delivery status notification on failed recipients, or None where none is due (RFC 3464)."""
        due = {
            a: r
            for a, r in failed.items()
            if message.recipients[a].get("NOTIFY", "FAILURE").upper().find("FAILURE") >= 0
        }
        if not message.sender or not due:
            return None
        name, number = self.config.name, self.store.new_id()
        envid = f"Original-Envelope-Id: {message.parameters['ENVID']}\n" if "ENVID" in message.parameters else ""
        status = f"{envid}Reporting-MTA: dns; {name}\n"
        for address, reply in due.items():
            code = re.match(r"5\.\d{1,3}\.\d{1,3}", reply.lines[0])
            original = message.recipients[address].get("ORCPT")
            status += f"\nOriginal-Recipient: {original}\n" if original else "\n"
            status += f"Final-Recipient: rfc822; {address}\nAction: failed\nStatus: {code[0] if code else '5.0.0'}\n"
            status += f"Diagnostic-Code: smtp; {reply.text}\n"
        lines = f"From: <MAILER-DAEMON@{name}>\nTo: <{message.sender}>\nSubject: Undeliverable\nDate: {formatdate()}\n"
        lines += f"Message-ID: <{number}@{name}>\nAuto-Submitted: auto-replied\nMIME-Version: 1.0\n"
        lines += f'Content-Type: multipart/report; report-type=delivery-status; boundary="{number}"\n\n'
        lines += f"--{number}\n\nNot delivered to: {', '.join(due)}\n"
        lines += f"\n--{number}\nContent-Type: message/delivery-status\n\n{status}"
        full = message.parameters.get("RET", "").upper() == "FULL"
        lines += f"\n--{number}\nContent-Type: {'message/rfc822' if full else 'text/rfc822-headers'}\n\n"
        original_text = message.content if full else message.content.partition(b"\r\n\r\n")[0] + b"\r\n"
        content = lines.replace("\n", "\r\n").encode() + original_text + f"\r\n--{number}--\r\n".encode()
        return Message("", {}, {message.sender: {"NOTIFY": "NEVER"}}, content, f"{number}@{name}", number,
                       parent=message.id, copied=False)  # fmt: skip

    # ------------------------------------------------------------ notifications for servers that hold copies

    def notifications(self, server: str, most: int) -> tuple[list[str], list[int]]:
        """Return the reply to XQDISCARD, and the notifications in it."""
        if not broken("keeps-notifications"):
            since = time.time() - self.config["ShadowMessageAutoDiscardInterval"]
            self.store.db.execute("DELETE FROM discard WHERE since <= ?", (since,))
        query = "SELECT id, shadow_id FROM discard WHERE server = ? COLLATE NOCASE ORDER BY id"
        rows = [row for row in self.store.db.execute(query, (server,)) if row[0] not in self.telling]
        told = rows if broken("ignores-max") else rows[:most]
        numbers = [number for number, _ in told]
        self.telling.update(numbers)
        if broken("forgets-at-once"):
            self.heard(numbers)
        lines = [f"250-2.0.0 database {self.store.database}", *(f"250-2.0.0 discard {word}" for _, word in told)]
        return [*lines, f"250 2.0.0 end {len(rows) - len(told)}"], numbers

    def heard(self, numbers: list[int]) -> None:
        """Forget notifications: the server that asked has read them."""
        if numbers:
            self.store.db.executemany("DELETE FROM discard WHERE id = ?", [(number,) for number in numbers])
            self.telling.difference_update(numbers)

    # ------------------------------------------------------------ copies kept for other servers

    def keep(self, copy: Message) -> None:
        """Store a copy; the same one again changes nothing."""
        key = (copy.primary_name, copy.primary_db, copy.shadow_id)
        if not self.store.messages("primary_name = ? AND primary_db = ? AND shadow_id = ?", *key):
            if broken("copies-are-in-memory"):
                asyncio.get_running_loop().call_later(3, self.store.add, copy)
                return
            self.store.add(copy)
        self.store.db.execute("INSERT OR REPLACE INTO contact VALUES (?, ?)", (copy.primary_name, time.time()))
        self._watch(copy.primary_name)
        if broken("delivers-copies"):
            self._take_over([copy])

    def saw_database(self, primary: str, database: str) -> None:
        """Compare the queue database that a server names with that of its copies: a new one means that they are ours."""
        self._take_over([] if broken("blind-to-new-database") else
                        self.store.messages("primary_name = ? AND primary_db != ?", primary, database))  # fmt: skip

    def _take_over(self, copies: list[Message]) -> None:
        for copy in copies:
            self.log(f"{copy.shadow_id} of {copy.primary_name}: taken over")
            self.store.take_over(copy, copied=not self.config["ShadowRedundancyEnabled"])
            self._adopt(copy)

    def _watch(self, primary: str) -> None:
        if primary not in self._watched:
            self._watched.add(primary)
            self._start(self._watching(primary))

    async def _watching(self, primary: str) -> None:
        """Ask a primary in time, and take its copies over when it was silent for too long."""
        try:
            self._asked[primary] = self._contact(primary)
            while copies := self.store.messages("primary_name = ?", primary):
                now, config = time.time(), self.config
                ask = self._asked[primary] + config["ShadowHeartbeatFrequency"]
                silent = self._contact(primary) + config["ShadowResubmitTimeSpan"]
                gone = copies[0].arrived + config["SafetyNetHoldTime"] + config["MessageExpirationTimeout"]
                if now < (due := min(ask, silent, gone)) or not config["ShadowRedundancyEnabled"]:
                    await self._pause(due if config["ShadowRedundancyEnabled"] else now + 86400)
                    continue
                if now >= gone:
                    self.store.delete(copies[0].id)
                elif not await self._heartbeat(primary) and (time.time() >= silent or broken("takes-over-early")):
                    if not broken("never-takes-over"):
                        self._take_over(self.store.messages("primary_name = ?", primary))
                    else:
                        self._met(primary)
        finally:
            self._watched.discard(primary)
        self.store.db.execute("DELETE FROM contact WHERE primary_name = ?", (primary,))

    def _contact(self, primary: str) -> float:
        row = self.store.db.execute("SELECT at FROM contact WHERE primary_name = ?", (primary,)).fetchone()
        return float(row[0]) if row else time.time()

    def _met(self, primary: str) -> None:
        now = time.time()
        self.store.db.execute("UPDATE contact SET at = ? WHERE primary_name = ?", (now, primary))

    async def _heartbeat(self, primary: str) -> bool:
        """Open a session to ask; return whether there was an answer."""
        self._asked[primary] = time.time()
        peer = self.config.peers.get(primary.lower())
        if peer is None or broken("never-asks"):
            return broken("never-asks")
        idle = min(self.config["SendConnectionInactivityTimeout"], self.config["ShadowHeartbeatFrequency"])
        client = Client("smtp", self.config.name, idle)
        try:
            await client.open(*peer["dial"]["transport"], peer.get("secret"))
            await self._ask(client, primary)
        except Lost as lost:
            self.log(f"{primary}: {lost}")
            client.close()
            return False
        await client.quit()
        self._met(primary)
        return True

    async def _ask(self, client: Client, primary: str) -> None:
        """Ask for notifications until none is left. Raises Lost."""
        left = 1
        while left:
            self._asked[primary] = time.time()
            reply = await client.command(f"XQDISCARD {self.config.name} 100", expect=250)
            words = [line.split()[1:] for line in reply.lines]
            database = next((word[1] for word in words if word[:1] == ["database"]), "")
            for word in words:
                if word[:1] == ["discard"]:
                    one = "1" if broken("one-discard-for-all") else "shadow_id = ?"
                    values = (primary, database) if broken("one-discard-for-all") else (primary, database, word[1])
                    for copy in self.store.messages(f"primary_name = ? AND primary_db = ? AND {one}", *values):
                        self.store.delete(copy.id)
            self._met(primary)
            self.saw_database(primary, database)
            left = int(words[-1][1]) if words[-1][:1] == ["end"] else 0

    async def _clean_up(self) -> None:
        """Delete rows of duplicate detection whose window has passed."""
        while True:
            due = time.time() + self.config["DuplicateCleanupInterval"]
            await self._pause(due)
            if time.time() >= due - 0.001:
                since = time.time() - self.config.tracking_window
                self.store.db.execute("DELETE FROM delivered WHERE at <= ?", (since,))


def main() -> int:
    """Run the node, or inspect one; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--defect", default="")
    parser.add_argument("command", nargs="?", choices=["inspect"])
    arguments = parser.parse_args()
    switch_on(arguments.defect)
    try:
        if arguments.command == "inspect":
            config = read(arguments.config)
            sys.stdout.write(
                json.dumps(open_to_read(config.data_dir).inspect(lambda to: next_hop(config, to).name)) + "\n"
            )
            return 0
        asyncio.run(Node(arguments.config).run())
    except Refused as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
