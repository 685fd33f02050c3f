"""The server's side of SMTP and LMTP: one session on one listener (the wire profile)."""

import asyncio
import base64
import re
import sqlite3
import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from defects import broken
from store import Message

if TYPE_CHECKING:
    from node import Node

_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_PATH = re.compile(r"(FROM|TO):\s*<([^<>\s]*)>((?: +\S+)*) *", re.IGNORECASE)
_PARAMETERS = {"MAIL": {"SIZE", "BODY", "RET", "ENVID", "XSHADOW"}, "RCPT": {"NOTIFY", "ORCPT"}}
_KEPT = {"RET", "ENVID", "NOTIFY", "ORCPT"}


def header(content: bytes, name: str) -> str | None:
    """Return the value of a header field, unfolded, or None."""
    head = b"\r\n" + content.partition(b"\r\n\r\n")[0] + b"\r\n"
    found = re.search(rb"\r\n" + name.encode() + rb"[ \t]*:([^\r\n]*(?:\r\n[ \t][^\r\n]*)*)", head, re.IGNORECASE)
    return found[1].replace(b"\r\n", b"").decode("latin-1").strip() if found else None


class Session:
    """One client; it has until the listener's limits, or until the node leaves."""

    def __init__(self, node: "Node", door: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.node, self.door, self._reader, self._writer = node, door, reader, writer
        self.began = self._active = asyncio.get_running_loop().time()
        self.busy = False
        self._buffer = bytearray()
        self._hello = ""
        self._user = ""
        self._named: str | None = None
        self._telling: list[int] = []
        self._reset()
        self._timer: asyncio.TimerHandle | None = None
        self.limit()

    def _reset(self) -> None:
        self._mail: Message | None = None

    @property
    def _limits(self) -> Any:
        return self.node.config.listeners[self.door]

    def limit(self) -> None:
        """Set the timer to what ends first: the session's age, or its idleness."""
        if self._timer is not None:
            self._timer.cancel()
        age = self.began + self._limits.connection_timeout
        idle = self._active + self._limits.connection_inactivity_timeout
        due = age if self.busy else min(age, idle)
        self._timer = asyncio.get_running_loop().call_at(due, self.end, "421 4.4.2 this session is over")

    def end(self, line: str) -> None:
        """Say a last line and close."""
        self._say(line)
        self._writer.close()
        self._reader.feed_eof()

    async def run(self) -> None:
        """Serve the client until it leaves."""
        try:
            self._say(f"220 {self.node.config.name} ESMTP")
            while not self._writer.is_closing():
                line = await self._line()
                self.node.heard(self._telling)
                self._telling = []
                await self._command(line)
                await self._writer.drain()
        except (OSError, EOFError):
            pass  # the client has left, and what it did not finish is gone with it
        finally:
            self.node.telling.difference_update(self._telling)
            if self._timer is not None:
                self._timer.cancel()
            self._writer.close()

    def _say(self, *lines: str) -> None:
        if not self._writer.is_closing():
            self._writer.write("".join(f"{line}\r\n" for line in lines).encode())

    async def _fill(self) -> None:
        octets = await self._reader.read(65536)
        if not octets or self._writer.is_closing():
            raise EOFError
        self._active = asyncio.get_running_loop().time()
        self.limit()
        self._buffer += octets

    async def _line(self) -> str:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > 16384:
                del self._buffer[:8192]
            await self._fill()
        line = self._buffer[:end].decode("utf-8", "replace")
        del self._buffer[: end + 2]
        return line

    async def _content(self) -> bytes | None:
        """Read to the final dot; None when there was more than MaxMessageSize."""
        self._buffer[:0] = b"\r\n"
        start, large = 0, False
        while (end := self._buffer.find(b"\r\n.\r\n", start)) < 0:
            if len(self._buffer) > self.node.config["MaxMessageSize"] + 2:
                large = True
                del self._buffer[:-4]
            start = max(0, len(self._buffer) - 4)
            await self._fill()
        octets = bytes(self._buffer[: end + 2])
        del self._buffer[: end + 5]
        content = octets.replace(b"\r\n.", b"\r\n")[2:]
        return None if large or len(content) > self.node.config["MaxMessageSize"] else content

    async def _command(self, line: str) -> None:
        verb, _, words = line.partition(" ")
        verb = verb.upper()
        match verb:
            case "EHLO" | "HELO" | "LHLO" if (verb == "LHLO") == (self.door == "delivery"):
                self._greeted(verb, words.strip())
            case "MAIL" | "RCPT" if not self._hello:
                self._say("503 5.5.1 EHLO first")
            case "MAIL":
                self._say(self._from(words))
            case "RCPT":
                self._say(self._to(words))
            case "DATA":
                await self._data()
            case "XSHADOWREQUEST" | "XQDISCARD":
                self._say(*self._shadow_verb(verb, words.split()))
            case "AUTH" if self.door == "transport":
                self._say(self._authenticated(words))
            case "RSET" | "NOOP" | "VRFY":
                if verb == "RSET":
                    self._reset()
                self._say("252 2.5.0 send it and see" if verb == "VRFY" else "250 2.0.0 ok")
            case "QUIT":
                self.end("221 2.0.0 bye")
            case _:
                self._say("502 5.5.1 not offered here")

    def _greeted(self, verb: str, name: str) -> None:
        self._hello = name or "unknown"
        self._reset()
        lines = [self.node.config.name]
        if verb != "HELO":
            lines += [
                "PIPELINING",
                "8BITMIME",
                f"SIZE {self.node.config['MaxMessageSize']}",
                "ENHANCEDSTATUSCODES",
                "DSN",
            ]
            lines += (
                ["XSHADOWREQUEST"]
                if self._may_shadow or (self.door, broken("offers-on-frontend")) == ("frontend", True)
                else []
            )
            secrets = any(peer.get("secret") for peer in self.node.config.peers.values())
            lines += ["AUTH PLAIN"] if self.door == "transport" and secrets else []
        self._say(*(f"250-{line}" for line in lines[:-1]), f"250 {lines[-1]}")

    def _authenticated(self, words: str) -> str:
        mechanism, _, response = words.partition(" ")
        try:
            _, user, password = base64.b64decode(response, validate=True).decode().split("\0")
        except ValueError:
            return "501 5.5.4 AUTH PLAIN with its initial response"
        peer = self.node.config.peers.get(user.lower())
        if mechanism.upper() != "PLAIN" or peer is None or not peer.get("secret") or peer["secret"] != password:
            return "535 5.7.8 no"
        self._user = user
        return "235 2.7.0 welcome"

    @property
    def peer(self) -> dict[str, Any] | None:
        """The server that the client is, on the transport listener."""
        known = self._user or (self._hello if self._limits.externally_secured else "")
        return self.node.config.peers.get(known.lower()) if self.door == "transport" else None

    @property
    def _may_shadow(self) -> bool:
        config, peer = self.node.config, self.peer
        return bool(config["ShadowRedundancyEnabled"] and config.shadows(peer) and peer and peer["accept_xshadow"])

    def _shadow_verb(self, verb: str, words: list[str]) -> list[str]:
        node, peer = self.node, self.peer
        second = _ID if verb == "XSHADOWREQUEST" else re.compile(r"[1-9][0-9]{0,8}")
        if self.door == "transport" and not self._hello:
            return ["503 5.5.1 EHLO first"]
        if not self._may_shadow or peer is None:
            lacks = peer is not None and node.config.shadows(peer) and not peer["accept_xshadow"]
            return ["550 5.7.1 you may not"] if lacks else ["502 5.5.1 not offered here"]
        if len(words) != 2 or not second.fullmatch(words[1]):
            if broken("malformed-is-503"):
                self.end("503 5.5.1 what?")
            return ["501 5.5.4 two arguments: your name, and the other one"]
        if self._mail is not None or (verb == "XSHADOWREQUEST" and self._named is not None):
            return ["503 5.5.1 not now"]
        if words[0].lower() != peer["name"].lower() and not broken("answers-anybody"):
            return ["550 5.7.1 this is not your name"]
        if verb == "XSHADOWREQUEST":
            self._named = words[1]
            node.saw_database(peer["name"], words[1])
            return [f"250 2.0.0 {node.config.name} {node.store.database}"]
        lines, self._telling = node.notifications(words[0], int(words[1]))
        return lines

    def _from(self, words: str) -> str:
        path = _PATH.fullmatch(words)
        if path is None or path[1].upper() != "FROM":
            return "501 5.5.4 MAIL FROM:<address>"
        if self._mail is not None:
            return "503 5.5.1 one transaction at a time"
        parameters = dict(word.upper().partition("=")[::2] for word in path[3].split())
        if unknown := set(parameters) - _PARAMETERS["MAIL"] - ({"AUTH"} if self.door == "transport" else set()):
            return f"555 5.5.4 {min(unknown)} is not offered"
        if not re.fullmatch(r"[0-9]{0,18}", parameters.get("SIZE", "")):
            return "501 5.5.4 SIZE=number"
        if int(parameters.get("SIZE") or 0) > self.node.config["MaxMessageSize"]:
            return "552 5.3.4 too large"
        mail = Message(path[2], self._kept(path[3]), {}, b"")
        if "XSHADOW" in parameters:
            if not self._may_shadow:
                return "555 5.5.4 XSHADOW is not offered"
            found = re.search(r"(?i) XSHADOW=(\S*)", path[3])
            if self._named is None:
                return "503 5.5.1 XSHADOWREQUEST first"
            if found is None or not _ID.fullmatch(found[1]):
                return "501 5.5.4 XSHADOW=id"
            assert self.peer is not None
            mail.shadow_id, mail.primary_name, mail.primary_db = found[1], self.peer["name"], self._named
        self._mail = mail
        return "250 2.1.0 ok"

    @staticmethod
    def _kept(words: str) -> dict[str, str]:
        pairs = (word.partition("=") for word in words.split())
        return {key.upper(): value for key, _, value in pairs if key.upper() in _KEPT}

    def _to(self, words: str) -> str:
        path = _PATH.fullmatch(words)
        if path is None or path[1].upper() != "TO" or not path[2]:
            return "501 5.5.4 RCPT TO:<address>"
        if self._mail is None:
            return "503 5.5.1 MAIL first"
        if unknown := {word.partition("=")[0].upper() for word in path[3].split()} - _PARAMETERS["RCPT"]:
            return f"555 5.5.4 {min(unknown)} is not offered"
        address, config = path[2], self.node.config
        box, domain = config.mailboxes.get(address.lower()), address.rpartition("@")[2].lower()
        if self.door == "delivery" and (box is None or not box.get("sink")):
            return "550 5.1.1 no such mailbox" if box is None else "451 4.2.1 the mailbox is elsewhere"
        if not self._mail.primary_name and box is None and domain in config.domains and domain not in config.routes:
            return "550 5.1.1 no such mailbox"
        self._mail.recipients[address] = self._kept(path[3])
        return "250 2.1.5 ok"

    async def _data(self) -> None:
        mail = self._mail
        if mail is None or not mail.recipients:
            self._say("503 5.5.1 MAIL and RCPT first")
            return
        self._say("354 go on")
        content = await self._content()
        self._reset()
        if content is None:
            self._say(*["552 5.3.4 too large"] * (len(mail.recipients) if self.door == "delivery" else 1))
            return
        mail.content, mail.arrived = content, time.time()
        internet_id = header(content, "Message-ID")
        mail.internet_id = internet_id.removeprefix("<").removesuffix(">") if internet_id else None
        self.busy = True
        self.limit()
        try:
            with self.node.at_work():
                lines = await self._decide(mail)
        except sqlite3.Error as error:
            self.node.log(f"the database: {error}")
            lines = ["452 4.3.1 this cannot be kept now"] * (len(mail.recipients) if self.door == "delivery" else 1)
        finally:
            self.busy = False
            self._active = asyncio.get_running_loop().time()
            self.limit()
        self._say(*lines)

    async def _decide(self, mail: Message) -> list[str]:
        """Return the reply to a final dot; on the delivery listener one for each recipient."""
        if self.door == "delivery":
            found = await self.node.into_mailboxes(mail, list(mail.recipients))
            return [reply.text.replace("\r", "") for reply in found.values()]
        if mail.primary_name:
            self.node.keep(mail)
            return [f"250 2.6.0 <{mail.internet_id or mail.shadow_id}> Queued mail for redundancy"]
        if mail.content.lower().count(b"\r\nreceived:") > 50:
            return ["554 5.4.6 too many hops"]
        by = f"Received: from {self._hello} by {self.node.config.name} with ESMTP;\r\n\t{formatdate()}\r\n"
        mail.content = by.encode() + mail.content
        peer = self.peer
        deadline = self.began + 0.95 * self._limits.connection_timeout
        submitted = peer is not None and peer["role"] == "submission"
        if not await self.node.accept(mail, deadline, submitted=submitted):
            return ["451 4.4.0 Message failed to be made redundant"]
        return [f"250 2.6.0 <{mail.internet_id or mail.shadow_id}> Queued mail for delivery"]
