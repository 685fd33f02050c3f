"""The server's side of SMTP and LMTP: one session on one listener (the wire profile)."""

import asyncio
import base64
import logging
import re
import sqlite3
import time
from email.utils import formatdate
from typing import Any

from store import Message

_ID, _MAX = re.compile(r"[A-Za-z0-9-]{1,64}"), re.compile(r"[1-9][0-9]{0,8}")
_PATH = re.compile(r"(FROM|TO):\s*<([^<>\s]*)>((?: +\S+)*) *", re.IGNORECASE)
_OFFERED = {"FROM": {"SIZE", "BODY", "RET", "ENVID", "XSHADOW"}, "TO": {"NOTIFY", "ORCPT"}}
_ROOM = 65536  # octets beyond MaxMessageSize for the trace fields of the organisation's other servers


class Refusal(Exception):
    """A command is refused; the text is the reply."""


def refuse_if(condition: object, reply: str) -> None:
    """Raise Refusal with this reply if a condition holds."""
    if condition:
        raise Refusal(reply)


class Session:
    """The session of one client; it ends at the listener's limits, or when the node stops."""

    def __init__(self, node: Any, listener: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._node, self._listener, self._reader, self._writer = node, listener, reader, writer
        self._limits = node.config.listeners[listener]
        self._ends = asyncio.get_running_loop().time() + self._limits["connection_timeout"]
        self.busy = False  # it has a message whose final dot is not answered
        self._hello = self._user = ""
        self._named: str | None = None  # the queue database that the client has named
        self._mail: Message | None = None
        self._accepted: list[str] = []  # the recipient of each RCPT, for the replies of LMTP
        self._in_flight: list[int] = []  # the notifications in the last reply

    async def run(self) -> None:
        """Serve the client until the session ends."""
        try:
            self._node.sessions.add(self)
            async with asyncio.timeout_at(self._ends):
                self._say(f"220 {self._node.config.name} ESMTP")
                while not self._writer.is_closing():
                    line = (await self._line()).decode("utf-8", "replace")
                    self._node.primary.forget(self._in_flight)  # any further command: the client has read the reply
                    self._in_flight = []
                    try:
                        self._say(*await self._command(line))
                    except Refusal as refusal:
                        self._say(str(refusal))
        except TimeoutError:
            self.end("421 4.4.2 this session is over")
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # the client has left, and what it did not finish is gone with it
        finally:
            self._node.sessions.discard(self)
            self._node.primary.in_flight.difference_update(self._in_flight)
            self._writer.close()

    async def _line(self) -> bytes:
        async with asyncio.timeout(self._limits["connection_inactivity_timeout"]):
            await self._writer.drain()
            return (await self._reader.readuntil(b"\r\n"))[:-2]

    def _say(self, *lines: str) -> None:
        if not self._writer.is_closing():
            self._writer.write("".join(f"{line}\r\n" for line in lines).encode())

    def end(self, line: str) -> None:
        """Send a last reply and close the connection."""
        self._say(line)
        self._writer.close()

    async def _command(self, line: str) -> list[str]:
        verb, _, words = line.partition(" ")
        match verb.upper(), self._listener:
            case ("EHLO" | "HELO" as hello, "frontend" | "transport") | ("LHLO" as hello, "delivery"):
                return self._greeted(hello, words.strip())
            case "MAIL", _:
                return [self._begin(*self._path(words, "FROM"))]
            case "RCPT", _:
                return [self._add(*self._path(words, "TO"))]
            case "DATA", _:
                return await self._data()
            case ("XSHADOWREQUEST" | "XQDISCARD") as shadow_verb, _:
                return self._shadow_verb(shadow_verb, words.split())
            case "AUTH", "transport":
                return [self._authenticated(words)]
            case ("RSET" | "NOOP") as other, _:
                self._mail = None if other == "RSET" else self._mail
                return ["250 2.0.0 ok"]
            case "VRFY", _:
                return ["252 2.5.0 send it and see"]
            case "QUIT", _:
                self.end("221 2.0.0 bye")
                return []
        raise Refusal("502 5.5.1 not offered here")

    def _greeted(self, hello: str, name: str) -> list[str]:
        self._hello, self._mail, config = name or "unknown", None, self._node.config
        lines = [config.name]
        if hello != "HELO":
            lines += ["PIPELINING", "8BITMIME", f"SIZE {self._most}", "ENHANCEDSTATUSCODES", "DSN"]
            lines += ["XSHADOWREQUEST"] if self._may_shadow else []
            secrets = self._listener == "transport" and any(peer["secret"] for peer in config.peers.values())
            lines += ["AUTH PLAIN"] if secrets else []
        return [*(f"250-{line}" for line in lines[:-1]), f"250 {lines[-1]}"]

    @property
    def _most(self) -> int:
        return self._node.config["MaxMessageSize"] + (0 if self._listener == "frontend" else _ROOM)

    def _authenticated(self, words: str) -> str:
        mechanism, _, response = words.partition(" ")
        try:
            _, user, password = base64.b64decode(response, validate=True).decode().split("\0")
        except ValueError:
            raise Refusal("501 5.5.4 AUTH PLAIN with its initial response") from None
        secret = self._node.config.peers.get(user.lower(), {}).get("secret")
        refuse_if(mechanism.upper() != "PLAIN" or not secret or secret != password, "535 5.7.8 no")
        self._user = user
        return "235 2.7.0 welcome"

    @property
    def _peer(self) -> dict[str, Any]:
        """Return the name of the peer that the client is, on the transport listener; "" for any other client."""
        config = self._node.config
        known = self._user or (self._hello if config.listeners[self._listener]["externally_secured"] else "")
        return config.peers.get(known.lower(), {}) if self._listener == "transport" else {}

    @property
    def _may_shadow(self) -> bool:
        config = self._node.config
        return config["ShadowRedundancyEnabled"] and config.shadows(self._peer) and self._peer["accept_xshadow"]

    def _shadow_verb(self, verb: str, words: list[str]) -> list[str]:
        node = self._node
        refuse_if(self._listener == "transport" and not self._hello, "503 5.5.1 EHLO first")
        refuse_if(not self._may_shadow, "502 5.5.1 not offered here")
        form = _ID if verb == "XSHADOWREQUEST" else _MAX
        refuse_if(len(words) != 2 or not form.fullmatch(words[1]), "501 5.5.4 two arguments are needed")
        refuse_if(self._mail is not None or (verb == "XSHADOWREQUEST" and self._named is not None), "503 5.5.1 not now")
        refuse_if(words[0].lower() != self._peer["name"].lower(), "550 5.7.1 this is not your name")
        if verb == "XQDISCARD":
            lines, self._in_flight = node.primary.notifications(words[0], int(words[1]))
            return lines
        self._named = words[1]
        node.shadow.saw_database(self._peer["name"], words[1])
        return [f"250 2.0.0 {node.config.name} {node.store.database}"]

    def _path(self, words: str, keyword: str) -> tuple[str, dict[str, str]]:
        """Return the address and the parameters of MAIL FROM or RCPT TO."""
        path = _PATH.fullmatch(words)
        refuse_if(not self._hello, "503 5.5.1 EHLO first")
        refuse_if(path is None or path[1].upper() != keyword, f"501 5.5.4 {keyword}:<address>")
        refuse_if(not words.isascii(), "553 5.6.7 SMTPUTF8 is not offered")
        refuse_if(path[2] and ".." in f".{path[2].rpartition('@')[2]}.", "501 5.1.3 a malformed domain")
        found = {key.upper(): value for key, _, value in (word.partition("=") for word in path[3].split())}
        refuse_if(found.keys() - _OFFERED[keyword], "555 5.5.4 this parameter is not offered")
        return path[2], found

    def _begin(self, sender: str, found: dict[str, str]) -> str:
        size, shadow_id, _ = (found.pop(key, None) for key in ("SIZE", "XSHADOW", "BODY"))
        refuse_if(self._mail is not None, "503 5.5.1 one transaction at a time")
        refuse_if(not re.fullmatch(r"[0-9]{1,18}", size or "0"), "501 5.5.4 SIZE=number")
        refuse_if(int(size or 0) > self._most, "552 5.3.4 too large")
        mail = Message(sender, found, {})
        if shadow_id is not None:
            refuse_if(not self._may_shadow, "555 5.5.4 XSHADOW is not offered")
            refuse_if(self._named is None, "503 5.5.1 XSHADOWREQUEST first")
            refuse_if(not _ID.fullmatch(shadow_id), "501 5.5.4 XSHADOW=id")
            mail.shadow_id, mail.primary_name, mail.primary_db = shadow_id, self._peer["name"], self._named
        self._mail, self._accepted = mail, []
        return "250 2.1.0 ok"

    def _add(self, address: str, found: dict[str, str]) -> str:
        refuse_if(self._mail is None, "503 5.5.1 MAIL first")
        config, domain = self._node.config, address.rpartition("@")[2].lower()
        box = config.mailboxes.get(address.lower())
        ours = self._listener == "delivery" or (domain in config.domains and domain not in config.routes)
        keep = self._mail.primary_name  # a copy is kept for unknown recipients too
        refuse_if(not address or (ours and box is None and not keep), "550 5.1.1 no such mailbox")
        refuse_if(self._listener == "delivery" and not (box and box["sink"]), "451 4.2.1 the mailbox is elsewhere")
        self._mail.recipients[address] = found
        self._accepted.append(address)
        return "250 2.1.5 ok"

    async def _data(self) -> list[str]:
        mail, content = self._mail, bytearray()
        refuse_if(mail is None or not mail.recipients, "503 5.5.1 MAIL and RCPT first")
        self._say("354 go on")
        while (line := await self._line()) != b".":  # only CRLF dot CRLF ends a message
            if len(content) <= self._most:
                content += line.removeprefix(b".") + b"\r\n"
        self._mail, self.busy, mail.content = None, True, bytes(content)
        try:
            return await asyncio.shield(self._node.start(self._decide(mail), in_hand=True))
        except (Refusal, sqlite3.Error) as error:
            logging.info(f"{mail.shadow_id}: {error}")
            reply = str(error) if isinstance(error, Refusal) else "452 4.3.1 this cannot be kept now"
            return [reply] * (len(self._accepted) if self._listener == "delivery" else 1)
        finally:
            self.busy = False

    async def _decide(self, mail: Message) -> list[str]:
        """Return the reply to a final dot; on the delivery listener one for each RCPT."""
        node, name, head = self._node, mail.header("Message-ID"), b"\r\n" + mail.content.partition(b"\r\n\r\n")[0]
        refuse_if(len(mail.content) > self._most, "552 5.3.4 too large")
        refuse_if(head.lower().count(b"\r\nreceived:") > 100 and not mail.primary_name, "554 5.4.6 too many hops")
        mail.internet_id, mail.arrived = (name or "").removeprefix("<").removesuffix(">") or None, time.time()
        if self._listener == "delivery":
            replies = await node.delivery.into_mailboxes(mail, list(mail.recipients))
            await node.delivery.settle(mail, {address: one for address, one in replies.items() if one.code // 100 == 2})
            return [str(replies[address]) for address in self._accepted]
        if mail.primary_name:
            node.shadow.keep(mail)
            return [f"250 2.6.0 {mail.shadow_id} Queued mail for redundancy"]
        by = f"Received: from {self._hello} by {node.config.name} with ESMTP;\r\n\t{formatdate()}\r\n"
        mail.content = by.encode() + mail.content
        left = self._ends - asyncio.get_running_loop().time()
        deadline = self._ends - min(0.5 * left, 0.05 * self._limits["connection_timeout"])
        refuse_if(not await node.primary.accept(mail, deadline), "451 4.4.0 Message failed to be made redundant")
        return [f"250 2.6.0 <{mail.internet_id or mail.shadow_id}> Queued mail for delivery"]
