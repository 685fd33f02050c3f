"""Relays that misbehave in an extension as threads of `threads.yaml` tell; each differs from `ExtendedRelay` in that alone."""

import asyncio
from typing import Any

from tests.relays.extended import BDAT, ExtendedHop, ExtendedRelay


class LeavesRefusedChunks(ExtendedRelay):
    """A chunk without a recipient is refused, and its octets are taken for commands."""

    async def take_chunk(self, line: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.recipients:
            await super().take_chunk(line, reader, writer)
        else:
            writer.write(b"502 5.5.1 missing RCPT\r\n")


class AnswersTheLastChunkAtOnce(ExtendedRelay):
    """The last chunk is answered when it is there, and once more when the message was looked at."""

    async def take_chunk(self, line: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.recipients and BDAT.fullmatch(line)[2]:  # type: ignore[index]
            writer.write(b"250 last chunk\r\n")
        await super().take_chunk(line, reader, writer)


class TakesChunksAfterTheLast(ExtendedRelay):
    """A chunk after the last one is taken too."""

    async def take_chunk(self, line: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept = list(self.recipients)
        await super().take_chunk(line, reader, writer)
        self.recipients = self.recipients or kept


class _StuffsChunks(ExtendedHop):
    def chunk(self, content: bytes) -> bytes:
        return (b"\r\n" + content).replace(b"\r\n.", b"\r\n..")[2:]


class StuffsChunks(ExtendedRelay):
    """Dots are added to lines in chunks."""

    hop = _StuffsChunks


class _DropsParameters(ExtendedHop):
    def words(self, given: dict[str, str]) -> str:
        return ""


class DropsParameters(ExtendedRelay):
    """Remote delivery does not carry the parameters of DSN over."""

    hop = _DropsParameters


class _NamesThePresentRecipient(ExtendedHop):
    def words(self, given: dict[str, str]) -> str:
        recipient = "rfc822;victor@outside.test"
        return super().words({name: recipient if name == "ORCPT" else value for name, value in given.items()})


class NamesThePresentRecipient(ExtendedRelay):
    """ORCPT is the present address, and not what the sender gave."""

    hop = _NamesThePresentRecipient


class ReportsInSpiteOfNever(ExtendedRelay):
    """Every failure bounces."""

    def wants(self, given: dict[str, str], action: str, conforming: bool) -> bool:
        return action == "failed" or super().wants(given, action, conforming)


class ReportsFailuresOnly(ExtendedRelay):
    """NOTIFY=SUCCESS is taken, and nobody reports a success."""

    def wants(self, given: dict[str, str], action: str, conforming: bool) -> bool:
        return action == "failed" and super().wants(given, action, conforming)


class ReportsBesideTheNextHop(ExtendedRelay):
    """A success is reported though the next hop offers DSN, and so reports it too."""

    def wants(self, given: dict[str, str], action: str, conforming: bool) -> bool:
        return super().wants(given, action, False)


class ReportsWithoutNames(ExtendedRelay):
    """ENVID and ORCPT are not returned in the bounce."""

    def names(self, message: dict[str, Any], to: str) -> tuple[list[str], list[str]]:
        return [], []


class _TakesAnyForEightBit(ExtendedHop):
    def takes_eight_bits(self) -> bool:
        return True


class SendsEightBitsToAny(ExtendedRelay):
    """Nothing looks whether the next hop offers 8BITMIME."""

    hop = _TakesAnyForEightBit


class _SendsLate:
    """A stream writer that holds replies back while commands wait to be read, and sends them only with the next 250 after that."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.held = reader, writer, b""

    def write(self, reply: bytes) -> None:
        if self.reader._buffer:  # type: ignore[attr-defined]
            self.held += reply
            return
        if reply.startswith(b"250"):
            reply, self.held = self.held + reply, b""
        self.writer.write(reply)


class HoldsRepliesBack(ExtendedRelay):
    """Replies to a group are held back, and forgotten where its last command is DATA."""

    async def converse(self, reader: asyncio.StreamReader, writer: Any) -> None:
        await super().converse(reader, _SendsLate(reader, writer))  # type: ignore[arg-type]


class _SendsInAGroup(ExtendedHop):
    """MAIL, RCPT and DATA are sent together where PIPELINING is offered."""

    async def send(self, message: dict[str, Any], recipients: Any) -> dict[str, int]:
        assert self.writer is not None
        lines = [f"MAIL FROM:<{message['sender']}>", *(f"RCPT TO:<{to}>" for to in recipients), "DATA"]
        self.writer.write("".join(f"{line}\r\n" for line in lines).encode())
        await self.reply()
        codes: dict[str, int] = {}
        for to in recipients:
            codes[to] = await self.reply()
            if codes[to] != 250 and self.leaves():
                return dict.fromkeys(recipients, codes[to])
        content = message["content"].encode("latin-1") if set(codes.values()) == {250} else b""
        if await self.reply() == 354:
            self.writer.write((b"\r\n" + content).replace(b"\r\n.", b"\r\n..")[2:] + b".\r\n")
            await self.reply()
        return codes

    def leaves(self) -> bool:
        """Return whether the first refusal ends the session."""
        return False


class _LeavesAtARefusal(_SendsInAGroup):
    def leaves(self) -> bool:
        self.usable = False
        return True


class LeavesAtTheFirstRefusal(ExtendedRelay):
    """The first refused RCPT ends the transaction of all, and the other replies are left unread."""

    hop = _LeavesAtARefusal


class EndsWithALoneDot(ExtendedRelay):
    """After a refused RCPT a lone dot is sent, though other recipients were accepted."""

    hop = _SendsInAGroup


class _DeclaresNoUtf8(ExtendedHop):
    def declares_utf8(self) -> bool:
        return False


class ForgetsUtf8(ExtendedRelay):
    """SMTPUTF8 is not said to the next hop, which is sent addresses in UTF-8 all the same."""

    hop = _DeclaresNoUtf8


class _TakesAnyForUtf8(ExtendedHop):
    def takes_utf8(self, message: dict[str, Any], recipients: Any) -> bool:
        return True


class SendsUtf8ToAny(ExtendedRelay):
    """Nothing looks whether the next hop offers SMTPUTF8."""

    hop = _TakesAnyForUtf8


class _TakesAllForUtf8(ExtendedHop):
    def takes_utf8(self, message: dict[str, Any], recipients: Any) -> bool:
        return "SMTPUTF8" in self.offered or "SMTPUTF8" not in message["mail"]


class ReturnsAllThatCameWithUtf8(ExtendedRelay):
    """What came with SMTPUTF8 is taken to need it."""

    hop = _TakesAllForUtf8


class ReportsAboutReports(ExtendedRelay):
    """A message with a null reverse-path that fails is reported to the postmaster, and so is a report."""

    def reported_to(self, message: dict[str, Any]) -> str:
        postmaster = "postmaster@outside.test"
        return message["sender"] or (postmaster if message["recipients"] != [postmaster] else "")


class ReturnsTheWholeAlways(ExtendedRelay):
    """A report has the whole message, whatever RET= says."""

    def returns_the_whole(self, given: dict[str, str], action: str) -> bool:
        return True
