"""The small relay with DSN, CHUNKING, 8BITMIME and SMTPUTF8: parameters are passed on, and reports are made as NOTIFY asks for."""

import asyncio
import re
from pathlib import Path
from typing import Any

from tests.relays.relay import PATH, Hop, Lost, Relay

BDAT = re.compile(r"BDAT (\d+)( LAST)?", re.IGNORECASE)


def parameters(line: str) -> dict[str, str]:
    """Return the parameters of MAIL or RCPT by name."""
    words = (word.partition("=") for word in line.partition(">")[2].split())
    return {name.upper(): value for name, _, value in words}


def typed(address: str) -> str:
    """Return an address, as octets of UTF-8, with its type in a report (RFC 6533 3)."""
    text = address.encode("latin-1").decode("utf-8")
    if text.isascii():
        return f"rfc822; {text}"
    return "utf-8; " + "".join(c if c.isascii() else f"\\x{{{ord(c):X}}}" for c in text)


class ExtendedHop(Hop):
    """Passes the parameters of DSN on to a next hop that offers it, and content in chunks to one that offers CHUNKING."""

    offered: frozenset[str] = frozenset()
    message: dict[str, Any] | None = None

    async def reply(self, patience: float | None = None) -> int:
        """Read a reply, and keep its lines."""
        self.lines: list[str] = []
        try:
            while not self.lines or self.lines[-1][3:4] == "-":
                raw = await asyncio.wait_for(self.reader.readuntil(b"\r\n"), patience or self.patience)
                self.lines.append(raw.decode("latin-1").rstrip())
        except (OSError, EOFError, TimeoutError) as error:
            self.usable = False
            raise Lost from error
        return int(self.lines[-1][:3])

    async def say(self, line: str) -> int:
        """Say a line with the parameters that belong to it, if they are offered."""
        verb = line[:4]
        if verb == "MAIL" and self.message is not None:
            line += self.words(self.message["mail"])
        elif verb == "RCPT" and self.message is not None:
            line += self.words(self.message["rcpt"][PATH.search(line)[1]])  # type: ignore[index]
        code = await super().say(line)
        if verb in ("EHLO", "LHLO"):
            self.offered = frozenset(text[4:].split(" ")[0] for text in self.lines)
        return code

    def words(self, given: dict[str, str]) -> str:
        """Return parameters as they are written behind a command."""
        dsn = {name: value for name, value in given.items() if name in ("RET", "ENVID", "NOTIFY", "ORCPT")}
        utf8 = " SMTPUTF8" if "SMTPUTF8" in given and self.declares_utf8() else ""
        return utf8 + ("".join(f" {name}={value}" for name, value in dsn.items()) if "DSN" in self.offered else "")

    async def send(self, message: dict[str, Any], recipients: Any) -> dict[str, int]:
        self.message = message
        if not message["content"].isascii() and not self.takes_eight_bits():
            return dict.fromkeys(recipients, 554)
        if not self.takes_utf8(message, recipients):
            return dict.fromkeys(recipients, 553)
        if "CHUNKING" not in self.offered:
            return await super().send(message, recipients)
        if (code := await self.say(f"MAIL FROM:<{message['sender']}>")) != 250:
            return dict.fromkeys(recipients, code)
        codes: dict[str, int] = {}
        for to in recipients:
            codes[to] = self.recipient_code(await self.say(f"RCPT TO:<{to}>"), list(codes.values()))
        content = self.chunk(message["content"].encode("latin-1"))
        assert self.writer is not None
        self.writer.write(b"BDAT %d LAST\r\n" % len(content) + content)
        return {**codes, **await self.finals([to for to in recipients if codes[to] == 250])}

    def takes_eight_bits(self) -> bool:
        """Return whether the next hop may be sent 8-bit content."""
        return "8BITMIME" in self.offered

    def declares_utf8(self) -> bool:
        """Return whether SMTPUTF8 is said to the next hop for a message that came with it."""
        return "SMTPUTF8" in self.offered

    def takes_utf8(self, message: dict[str, Any], recipients: Any) -> bool:
        """Return whether the next hop may be sent a message with its addresses, which are octets of UTF-8 here."""
        return "SMTPUTF8" in self.offered or all(map(str.isascii, (message["sender"], *recipients)))

    def chunk(self, content: bytes) -> bytes:
        """Return the content as it is put into a chunk: as it is."""
        return content


class ExtendedRelay(Relay):
    """One node."""

    hop = ExtendedHop

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client until it leaves."""
        writer.write(self.greeting)
        self.forget()
        while True:
            line = (await reader.readuntil(b"\r\n")).decode("latin-1").rstrip()
            verb, code = line[:4].upper(), self.answer(line, self.recipients)
            if verb == "EHLO":
                writer.write(
                    b"250-mini\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-DSN\r\n250-SMTPUTF8\r\n250 CHUNKING\r\n"
                )
                continue
            if verb == "BDAT":
                await self.take_chunk(line, reader, writer)
                continue
            if verb == "MAIL":
                code = 250 if self.sender is None else 503
                self.sender, self.mail = PATH.search(line)[1], parameters(line)  # type: ignore[index]
            elif verb == "RCPT" and (to := PATH.search(line)[1]):  # type: ignore[index]
                self.recipients.append(to)
                self.rcpt[to] = parameters(line)
            elif verb == "RCPT":
                code = 501
            elif verb == "DATA" and self.recipients and (self.chunks is None or self.mixes_data):
                writer.write(b"354 go on\r\n")
                code = await self.take(self.sender or "", self.recipients, await self.read_content(reader))
                self.forget()
            elif verb == "RSET":
                self.reset()
            writer.write(f"{code} said the miniature\r\n".encode())
            if verb == "QUIT":
                return

    mixes_data = False

    def reset(self) -> None:
        """Forget the transaction at RSET."""
        self.forget()

    def forget(self) -> None:
        """Forget the transaction."""
        self.sender: str | None = None
        self.recipients: list[str] = []
        self.mail: dict[str, str] = {}
        self.rcpt: dict[str, dict[str, str]] = {}
        self.chunks: bytes | None = None

    async def take_chunk(self, line: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a chunk and answer it; a refused one is read too."""
        size, last = BDAT.fullmatch(line).groups()  # type: ignore[union-attr]
        octets = await reader.readexactly(int(size))
        if not self.recipients:
            writer.write(b"503 no recipient\r\n")
            return
        self.chunks = (self.chunks or b"") + octets
        if last:
            writer.write(b"%d done\r\n" % await self.take(self.sender or "", self.recipients, self.chunks))
            self.forget()
        else:
            writer.write(b"250 go on\r\n")

    def keep(self, file: Path, message: dict[str, Any]) -> None:
        """Write a message with what its sender asked for."""
        if "mail" not in message:
            message |= {"mail": self.mail, "rcpt": self.rcpt}
        super().keep(file, message)

    async def attempt(self, message: dict[str, Any], group: Any, address: Any, protocol: str) -> dict[str, int]:
        hop = self.hop(self, address, protocol)
        try:
            await hop.open()
            codes = await hop.send(message, group)
        except Lost:
            return {}
        finally:
            await hop.close()
        for to, code in codes.items():
            action = {2: "relayed", 5: "failed"}.get(code // 100)
            who = self.reported_to(message)
            if action and who and self.wants(message["rcpt"].get(to, {}), action, "DSN" in hop.offered):
                self.report(message, who, to, action)
        return codes

    def reported_to(self, message: dict[str, Any]) -> str:
        """Return who gets a report about a message; empty: a message with a null reverse-path causes none."""
        return str(message["sender"])

    def wants(self, given: dict[str, str], action: str, conforming: bool) -> bool:
        """Return whether a report is made; `conforming`: the next hop offers DSN."""
        asked = given.get("NOTIFY", "FAILURE").upper().split(",")
        return "FAILURE" in asked if action == "failed" else "SUCCESS" in asked and not conforming

    def names(self, message: dict[str, Any], to: str) -> tuple[list[str], list[str]]:
        """Return the fields of a report that name the message and the recipient as the sender did."""
        given = message["mail"].get("ENVID"), message["rcpt"].get(to, {}).get("ORCPT")
        # they come in xtext, and stand decoded in a report (RFC 3461 6.3)
        envid, orcpt = (one and re.sub(r"\+([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), one) for one in given)
        return [f"Original-Envelope-Id: {envid}"] if envid else [], [f"Original-Recipient: {orcpt}"] if orcpt else []

    def returns_the_whole(self, given: dict[str, str], action: str) -> bool:
        """Return whether a report has the whole message and not its header; `given` are the parameters of MAIL."""
        return action == "failed" and given.get("RET", "HDRS").upper() == "FULL"

    def report(self, message: dict[str, Any], who: str, to: str, action: str) -> None:
        """Send `who` a report about the recipient `to`."""
        of_message, of_recipient = self.names(message, to)
        whole = self.returns_the_whole(message["mail"], action)
        returned = message["content"] if whole else message["content"].partition("\r\n\r\n")[0] + "\r\n"
        encoding = [] if returned.isascii() else ["Content-Transfer-Encoding: 8bit"]
        status = "5.0.0" if action == "failed" else "2.0.0"
        lines = [
            "From: <postmaster@mini>", f"To: <{who}>", f"Message-ID: <report-{self.count}@mini>",
            "Date: Thu, 1 Jan 2026 00:00:00 +0000", "MIME-Version: 1.0", *encoding,
            "Content-Type: multipart/report; report-type=delivery-status; boundary=b", "",
            "--b", "", action, "--b", "Content-Type: message/delivery-status", "", "Reporting-MTA: dns; mini", *of_message, "",
            *of_recipient, f"Final-Recipient: {typed(to)}", f"Action: {action}", f"Status: {status}", "",
            "--b", f"Content-Type: {'message/rfc822' if whole else 'text/rfc822-headers'}", *encoding, "", returned, "--b--", "",
        ]  # fmt: skip
        self.count += 1
        file = self.queue / f"{self.count}.json"
        self.keep(file, {"sender": "", "recipients": [who], "content": "\r\n".join(lines),
                         "mail": {} if who.isascii() else {"SMTPUTF8": ""}, "rcpt": {who: {}}})  # fmt: skip
        self.later(self.deliver(file))
