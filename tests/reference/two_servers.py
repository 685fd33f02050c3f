"""Two servers of one DAG as programs of their own; clients, sinks and a proxy between the servers run in this process.

It is small on purpose and shares nothing with the harness's own links, sinks and judge, so that it checks them independently.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiosmtplib

from conformance.candidates.description import REFERENCE
from conformance.nodes.exec_node import ExecNode
from conformance.nodes.places import PortLeases

RECIPIENTS = ("bob@corp.test", "dave@corp.test", "victor@outside.test")
_MESSAGE_ID = re.compile(rb"(?im)^message-id: <([^>\r\n]+)>")
_LIMIT = 1 << 24


class Receivers:
    """The mailbox stores (LMTP) and the server outside (SMTP): accept every message, and count copies."""

    def __init__(self) -> None:
        self.copies: Counter[tuple[str, str]] = Counter()
        self._wanted: set[tuple[str, str]] = set()
        self._complete = asyncio.Event()

    async def wait_for(self, wanted: set[tuple[str, str]], within: float) -> set[tuple[str, str]]:
        """Wait until every (message id, recipient) has arrived; return those that have not after `within` seconds."""
        self._wanted = {one for one in wanted if one not in self.copies}
        self._complete.clear()
        if self._wanted:
            try:
                async with asyncio.timeout(within):
                    await self._complete.wait()
            except TimeoutError:
                return self._wanted
        return set()

    async def session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        recipients: list[str] = []
        lmtp = False
        writer.write(b"220 ready\r\n")
        try:
            while line := await reader.readline():
                verb = line[:4].upper()
                if verb in (b"EHLO", b"LHLO"):
                    lmtp = verb == b"LHLO"
                    writer.write(b"250-here\r\n250 8BITMIME\r\n")
                elif verb == b"RCPT":
                    recipients.append(line.split(b"<")[1].split(b">")[0].decode())
                    writer.write(b"250 2.1.5 ok\r\n")
                elif verb == b"DATA":
                    writer.write(b"354 go on\r\n")
                    self._arrived(await reader.readuntil(b"\r\n.\r\n"), recipients)
                    writer.write(b"250 2.0.0 taken\r\n" * (len(recipients) if lmtp else 1))
                    recipients = []
                elif verb == b"QUIT":
                    writer.write(b"221 2.0.0 bye\r\n")
                    break
                else:
                    writer.write(b"250 2.0.0 ok\r\n")
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client was killed
        finally:
            writer.close()

    def _arrived(self, content: bytes, recipients: list[str]) -> None:
        found = _MESSAGE_ID.search(content)
        assert found is not None
        for recipient in recipients:
            one = (found[1].decode(), recipient)
            self.copies[one] += 1
            self._wanted.discard(one)
        if not self._wanted:
            self._complete.set()


@dataclass
class SessionTap:
    """A proxy between two servers that notes the message of each shadow, and discards that come before delivery."""

    receivers: Receivers
    to: tuple[str, int]
    shadows: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    discards: int = 0
    too_early: list[str] = field(default_factory=list)

    async def session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one session in both directions, and parse it."""
        try:
            there, back = await asyncio.open_connection(*self.to, limit=_LIMIT)
        except OSError:
            writer.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._commands(reader, back))
                both.create_task(self._replies(there, writer))
        finally:
            back.transport.abort()
            writer.transport.abort()

    async def _commands(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shadow, recipients = "", []
        try:
            while line := await reader.readline():
                if line.startswith(b"MAIL"):
                    named = re.search(rb"XSHADOW=([A-Za-z0-9-]+)", line)
                    shadow, recipients = named[1].decode() if named else "", []
                elif line.startswith(b"RCPT"):
                    recipients.append(line.split(b"<")[1].split(b">")[0].decode())
                writer.write(line)
                if line.startswith(b"DATA"):
                    content = await reader.readuntil(b"\r\n.\r\n")
                    if shadow and (found := _MESSAGE_ID.search(content)):
                        self.shadows[shadow] = {(found[1].decode(), recipient) for recipient in recipients}
                    writer.write(content)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # one of them was killed
        writer.close()

    async def _replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                if discard := re.search(rb"discard ([A-Za-z0-9-]+)", line):
                    self._discard(discard[1].decode())
                writer.write(line)
        except ConnectionError:
            pass
        writer.close()

    def _discard(self, shadow: str) -> None:
        self.discards += 1
        if any(one not in self.receivers.copies for one in self.all_shadows[shadow]):
            self.too_early.append(shadow)

    all_shadows: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """The shadows of both directions: a discard is sent in a session of the opposite direction."""


class TwoServers:
    """The two servers with their clients, sinks and proxies."""

    def __init__(self, directory: Path, transport: dict[str, Any]) -> None:
        self._directory = directory
        self._transport = transport
        self._leases = PortLeases()
        self.receivers = Receivers()
        self.nodes: dict[str, ExecNode] = {}
        self.configurations: dict[str, dict[str, Any]] = {}
        self.taps: dict[str, SessionTap] = {}
        self.acknowledged: set[tuple[str, str]] = set()
        self.sent = 0

    async def send(self, server: str, recipients: tuple[str, ...], size: int = 1000, within: float = 20.0) -> bool:
        """Send one message of about `size` octets; return whether it was acknowledged."""
        self.sent += 1
        name = f"m{self.sent}@outside.test"
        content = (
            f"From: <alice@outside.test>\r\nTo: <{recipients[0]}>\r\nDate: Sat, 21 Nov 2026 10:00:00 +0000\r\n"
            f"Message-ID: <{name}>\r\nSubject: load\r\n\r\n"
            + "x" * 70
            + "\r\n" * 2
            + ("y" * 70 + "\r\n") * (size // 72)
        )
        frontend = self.configurations[server]["listeners"]["frontend"]["port"]
        client = aiosmtplib.SMTP(
            hostname="127.0.0.1", port=frontend, local_hostname="outside.test", timeout=within, start_tls=False
        )
        try:
            await client.connect()
            await client.sendmail("alice@outside.test", list(recipients), content.encode())
        except (aiosmtplib.SMTPException, OSError):
            return False
        else:
            self.acknowledged |= {(name, recipient) for recipient in recipients}
            return True
        finally:
            client.close()

    async def start(self, server: str) -> None:
        """Start a server with its existing data."""
        await self.nodes[server].start(self.configurations[server])

    @asynccontextmanager
    async def running(self) -> AsyncIterator["TwoServers"]:
        """Start sinks, proxies and servers; stop them at the end."""
        servers = []
        try:
            sink = await asyncio.start_server(self.receivers.session, "127.0.0.1", 0, limit=_LIMIT)
            servers.append(sink)
            port = sink.sockets[0].getsockname()[1]
            listen = {(name, door): self._leases.lease() for name in ("mbx1", "mbx2") for door in _LISTENERS}
            shadows: dict[str, set[tuple[str, str]]] = {}
            dials = {}
            for name in ("mbx1", "mbx2"):
                tap = SessionTap(self.receivers, ("127.0.0.1", listen[name, "transport"]), shadows, all_shadows=shadows)
                self.taps[name] = tap
                servers.append(await asyncio.start_server(tap.session, "127.0.0.1", 0, limit=_LIMIT))
                dials[name] = servers[-1].sockets[0].getsockname()[1]
            for name, other in (("mbx1", "mbx2"), ("mbx2", "mbx1")):
                self.nodes[name] = ExecNode(name, _PROGRAM, self._directory / name)
                self.configurations[name] = self._configuration(name, other, listen, dials[other], port)
                await self.start(name)
            yield self
        finally:
            for node in self.nodes.values():
                await node.close()
            for server in servers:
                server.close()
            self._leases.release()

    def _configuration(
        self, name: str, other: str, listen: dict[tuple[str, str], int], dial: int, sink: int
    ) -> dict[str, Any]:
        member = {"generation": "ex2016", "role": "mailbox", "site": "NewYork", "dag": "DAG1"}
        boxes = [("bob@corp.test", "DB1", "mbx1"), ("dave@corp.test", "DB2", "mbx2")]
        return {
            "contract": 1,
            "name": name,
            **member,
            "data_dir": str(self._directory / name / "data"),
            "listeners": {
                "frontend": {"host": "127.0.0.1", "port": listen[name, "frontend"]},
                "transport": {"host": "127.0.0.1", "port": listen[name, "transport"], "externally_secured": True},
                "delivery": {"host": "127.0.0.1", "port": listen[name, "delivery"]},
            },
            "peers": [
                {
                    "name": other,
                    **member,
                    "dial": {
                        "transport": ["127.0.0.1", dial],
                        "delivery": ["127.0.0.1", listen[other, "delivery"]],
                    },
                }
            ],
            "routes": [{"domain": "*", "next_hops": [{"name": "outside", "dial": ["127.0.0.1", sink]}]}],
            "mailboxes": [
                {"address": box, "database": database, "server": host}
                | ({"sink": {"dial": ["127.0.0.1", sink]}} if host == name else {})
                for box, database, host in boxes
            ],
            "transport": self._transport,
        }


_LISTENERS = ("frontend", "transport", "delivery")
_PROGRAM = REFERENCE.model_copy(update={"kind": "exec", "ready_within": 60.0})
