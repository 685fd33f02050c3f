"""A small correct relay for tests: SMTP in, SMTP or LMTP out, a file for each message; a subclass misbehaves as a thread tells.

It runs in the harness's process (`kind: python`), so hours of retries take milliseconds. It delivers no report.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PATH = re.compile(r"<([^>]*)>")


class Lost(Exception):
    """The session with a next hop ended, or took too long."""


class Hop:
    """A session with a next hop."""

    patience = patience_at_dot = 600.0
    """Seconds for which it waits for a reply, and for that to the final dot."""

    def __init__(self, relay: "Relay", address: tuple[str, int], protocol: str) -> None:
        self.relay, self.address, self.protocol = relay, address, protocol
        self.usable = True
        self.writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        try:
            self.reader, self.writer = await asyncio.wait_for(asyncio.open_connection(*self.address), self.patience)
        except OSError as error:
            raise Lost from error
        self.relay.writers.add(self.writer)
        if await self.reply() != 220 or await self.say("LHLO mini" if self.protocol == "lmtp" else "EHLO mini") != 250:
            raise Lost

    async def reply(self, patience: float | None = None) -> int:
        """Return the code of the next reply; 421 ends the use of the session."""
        line = b"   -"
        try:
            while line[3:4] == b"-":
                line = await asyncio.wait_for(self.reader.readuntil(b"\r\n"), patience or self.patience)
        except (OSError, EOFError, TimeoutError) as error:
            self.usable = False
            raise Lost from error
        self.usable = self.usable and line[:3] != b"421"
        return int(line[:3])

    async def say(self, line: str) -> int:
        assert self.writer is not None
        self.writer.write(line.encode("latin-1") + b"\r\n")
        return await self.reply()

    async def send(self, message: dict[str, Any], recipients: Sequence[str]) -> dict[str, int]:
        """Transmit a message; return the code that decided about each recipient. Raises Lost."""
        code = await self.say(f"MAIL FROM:<{message['sender']}>")
        if code != 250:
            return dict.fromkeys(recipients, code)
        codes: dict[str, int] = {}
        for to in recipients:
            code = await self.say(f"RCPT TO:<{to}>") if self.usable else 421
            codes[to] = self.recipient_code(code, list(codes.values()))
        taken = [to for to in recipients if codes[to] == 250]
        if not taken or not self.usable:
            return {to: 421 if code == 250 else code for to, code in codes.items()}
        if (code := await self.say("DATA")) != 354:
            return {**codes, **dict.fromkeys(taken, code)}
        content = message["content"].encode("latin-1")
        assert self.writer is not None
        self.writer.write((b"\r\n" + content).replace(b"\r\n.", b"\r\n..")[2:] + b".\r\n")
        return {**codes, **await self.finals(taken)}

    def recipient_code(self, code: int, before: Sequence[int]) -> int:
        """Return what a code for RCPT means, behind others: 552 is that for one recipient too many."""
        return 452 if code == 552 and 250 in before else code

    async def finals(self, taken: Sequence[str]) -> dict[str, int]:
        """Return the code of the final reply for each recipient; of LMTP those that come before the session is lost."""
        if self.protocol != "lmtp":
            return dict.fromkeys(taken, await self.reply(self.patience_at_dot))
        found: dict[str, int] = {}
        with contextlib.suppress(Lost):
            for to in taken:
                found[to] = await self.reply()
        return {to: found.get(to, 451) for to in taken}

    async def close(self) -> None:
        if self.writer is None:
            return
        if self.usable:
            with contextlib.suppress(Lost):
                await self.say("QUIT")
        self.writer.close()


class Relay:
    """One node."""

    hop = Hop
    failure: str | None = None
    most_hops = 100
    greeting = b"220 mini ready\r\n"

    def __init__(self, path: Path, clock: Any, defect: str | None) -> None:
        self.path, self.count = path, 0
        self.writers: set[asyncio.StreamWriter] = set()
        self.tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        self.config = json.loads(self.path.read_text())
        self.queue = Path(self.config["data_dir"], "queue")
        self.queue.mkdir(parents=True, exist_ok=True)
        self.lock()
        place = self.config["listeners"]["frontend"]
        self.server = await asyncio.start_server(self._serve, place["host"], place["port"], limit=2**26)
        for file in sorted(self.queue.iterdir()):
            self.count = max(self.count, int(file.stem))
            self.later(self.deliver(file))

    def lock(self) -> None:
        """Lock the queue for this process. Raises BlockingIOError where another has it."""
        self.held = os.open(self.queue, os.O_RDONLY)
        fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(self) -> None:
        """Give the lock back, as the end of a process does."""
        os.close(self.held)

    def later(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def kill(self) -> None:
        if not hasattr(self, "server"):  # another process has the queue
            return
        self.server.close()
        self.unlock()
        for task in self.tasks:
            task.cancel()
        for writer in self.writers:
            writer.transport.abort()

    async def stop(self) -> None:
        for writer in self.writers:
            writer.write(self.last_words())
        await asyncio.sleep(0.1)
        await self.kill()

    def last_words(self) -> bytes:
        """Return what a session is told when the server stops."""
        return b"421 4.3.2 going down\r\n"

    async def reload(self) -> None:
        self.config = json.loads(self.path.read_text())

    async def command(self, name: str, arguments: Sequence[str]) -> Any:
        raise NotImplementedError

    # the server side

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        with contextlib.suppress(OSError, EOFError):
            await self.converse(reader, writer)
        self.writers.discard(writer)
        writer.close()

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client until it leaves."""
        writer.write(self.greeting)
        sender: str | None = None
        recipients: list[str] = []
        while True:
            line = (await reader.readuntil(b"\r\n")).decode("latin-1").rstrip()
            verb = line[:4].upper()
            code = 503 if verb == "MAIL" and sender is not None else self.answer(line, recipients)
            if verb == "MAIL" and code < 400:
                sender = PATH.search(line)[1]  # type: ignore[index]
            elif verb == "RCPT" and code < 400:
                recipients.append(PATH.search(line)[1])  # type: ignore[index]
            elif verb == "DATA" and sender is not None and recipients:
                writer.write(b"354 go on\r\n")
                content = await self.read_content(reader)
                code = await self.take(sender, recipients, content)
                sender, recipients = None, []
            elif verb == "RSET":
                sender, recipients = None, []
            writer.write(f"{code} said the miniature\r\n".encode())
            if verb == "QUIT":
                return

    async def read_content(self, reader: asyncio.StreamReader) -> bytes:
        """Read a content and its final dot; return it without the dots that were added."""
        text = b"\r\n"
        while not text.endswith(b"\r\n.\r\n"):
            text += await reader.readuntil(b"\r\n")
        return text.replace(b"\r\n.", b"\r\n")[2:-2]

    def answer(self, line: str, recipients: Sequence[str]) -> int:
        """Return the code with which a command is answered."""
        known = dict.fromkeys(("EHLO", "HELO", "MAIL", "RCPT", "RSET", "NOOP"), 250)
        return {**known, "QUIT": 221, "DATA": 503, "VRFY": 252}.get(line[:4].upper(), 500)

    async def take(self, sender: str, recipients: Sequence[str], content: bytes) -> int:
        """Keep a message, and return the code of the final reply."""
        if content.partition(b"\r\n\r\n")[0].lower().count(b"\r\nreceived:") > self.most_hops:
            return 554
        if len(content.replace(b"\r\n", b"").translate(None, b"\r\n")) < len(content.replace(b"\r\n", b"")):
            return 550  # a bare CR or LF
        self.count += 1
        text = "Received: by mini; Thu, 1 Jan 2026 00:00:00 +0000\r\n" + content.decode("latin-1")
        file = self.queue / f"{self.count}.json"
        self.keep(file, {"sender": sender, "recipients": list(recipients), "content": text})
        self.later(self.deliver(file))
        return 250

    def keep(self, file: Path, message: dict[str, Any]) -> None:
        """Write a message, or remove it if it has no recipient left."""
        file.write_text(json.dumps(message)) if message["recipients"] else file.unlink()

    def load(self, file: Path) -> Any:
        """Return a message of the queue, None for one that is gone."""
        return json.loads(file.read_text()) if file.exists() else None

    # the client side

    async def deliver(self, file: Path) -> None:
        """Try to pass a message on until no recipient is left."""
        while (message := self.load(file)) is not None:
            for (address, protocol), group in self.hops(message["recipients"]).items():
                codes = await self.attempt(message, group, address, protocol)
                done = [to for to in group if self.is_done(codes, to)]
                message["recipients"] = [to for to in message["recipients"] if to not in done]
                self.keep(file, message)
            if message["recipients"]:
                await asyncio.sleep(self.config["transport"]["MessageRetryInterval"])

    def is_done(self, codes: dict[str, int], to: str) -> bool:
        """Return whether nothing is left to do for a recipient; `codes` has those that decided about each."""
        return codes.get(to, 451) // 100 in (2, 5)

    async def attempt(
        self, message: dict[str, Any], group: Sequence[str], address: Any, protocol: str
    ) -> dict[str, int]:
        hop = self.hop(self, address, protocol)
        try:
            await hop.open()
            return await hop.send(message, group)
        except Lost:
            return {}
        finally:
            await hop.close()

    def hops(self, recipients: Sequence[str]) -> dict[tuple[Any, str], list[str]]:
        """Return the recipients of each next hop: address and protocol."""
        boxes = {box["address"]: tuple(box["sink"]["dial"]) for box in self.config["mailboxes"] if "sink" in box}
        routes = {route["domain"]: route["next_hops"][0] for route in self.config["routes"]}
        found: dict[tuple[Any, str], list[str]] = {}
        for to in recipients:
            route = routes.get(to.rpartition("@")[2], routes.get("*"))
            key = (boxes[to], "lmtp") if to in boxes else (tuple(route["dial"]), route["protocol"])
            found.setdefault(key, []).append(to)
        return found
