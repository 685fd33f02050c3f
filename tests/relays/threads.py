"""Relays that misbehave as threads of `conformance/requirements/threads.yaml` tell; each differs from `Relay` in that alone."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.relays.relay import Hop, Lost, Relay


class ForgetsWhatItWasSending(Relay):
    """The sender crashes when a session is lost, and does not come back to the message."""

    async def deliver(self, file: Path) -> None:
        message = self.load(file)
        for (address, protocol), group in self.hops(message["recipients"]).items():
            await self.attempt(message, group, address, protocol)


class _LeavesItOpen(Hop):
    async def close(self) -> None:
        if self.usable:
            await super().close()


class LeavesTheSessionOpen(Relay):
    """After 421 the connection stays open."""

    hop = _LeavesItOpen


class RefusesAsItStops(Relay):
    """Open sessions end in 550 when the server stops."""

    def last_words(self) -> bytes:
        return b"550 going down\r\n"


class ForgetsTheDeferred(Relay):
    """One accepted recipient stands for all of the transaction."""

    def is_done(self, codes: dict[str, int], to: str) -> bool:
        return 250 in codes.values() or super().is_done(codes, to)


class TakesUnlistedForPermanent(Relay):
    """A 4yz code that is not in the server's list is a permanent failure."""

    def is_done(self, codes: dict[str, int], to: str) -> bool:
        return codes.get(to, 451) not in (421, 450, 451, 452)


class TakesDeferralsForFailures(Relay):
    """Every refusal is a hard failure, also one for now."""

    def is_done(self, codes: dict[str, int], to: str) -> bool:
        return to in codes


class _NeedsAllReplies(Hop):
    async def finals(self, taken: Sequence[str]) -> dict[str, int]:
        return {to: await self.reply() for to in taken}


class RetriesAllWithoutAllReplies(Relay):
    """When replies to some recipients are missing, all get the message again."""

    hop = _NeedsAllReplies


class _HalfAMinuteAtDot(Hop):
    patience_at_dot = 30.0


class WaitsHalfAMinuteAtTheDot(Relay):
    """The reply to the final dot is waited for as briefly as any other."""

    hop = _HalfAMinuteAtDot


class _MinuteAtDot(Hop):
    patience_at_dot = 60.0


class WaitsAMinuteAtTheDot(Relay):
    """The attempt fails after sixty seconds, and the message was delivered each time."""

    hop = _MinuteAtDot


class _TenSeconds(Hop):
    patience = 10.0


class WaitsTenSeconds(Relay):
    """Ten seconds are given to a next hop that begins slowly."""

    hop = _TenSeconds


class _GoesOn(Hop):
    patience_at_dot = 30.0

    async def finals(self, taken: Sequence[str]) -> dict[str, int]:
        try:
            return await super().finals(taken)
        except Lost:
            await self.say("RSET")  # in the same session: the late reply is taken for that to RSET
            raise


class GoesOnInTheSession(Relay):
    """After thirty seconds the client goes on in the same session."""

    hop = _GoesOn


class TakesWithoutAReply(Relay):
    """The message is delivered, and the final dot gets no reply."""

    async def take(self, sender: str, recipients: Sequence[str], content: bytes) -> int:
        await super().take(sender, recipients, content)
        raise EOFError


class CountsNoHops(Relay):
    """Nothing ends a loop."""

    most_hops = 10**6


class TakesThirtyHopsForALoop(Relay):
    """Ordinary mail is taken for mail in a loop."""

    most_hops = 30


class RefusesNullReversePath(Relay):
    """MAIL FROM:<> is a syntax error."""

    def answer(self, line: str, recipients: Sequence[str]) -> int:
        return 501 if line.upper().startswith("MAIL FROM:<>") else super().answer(line, recipients)


class KeepsInMemory(Relay):
    """250 comes before the message is anywhere but in memory."""

    def keep(self, file: Path, message: dict[str, Any]) -> None:
        super().keep(file, message)
        self.in_memory: set[Path] = {*getattr(self, "in_memory", ()), file}

    async def kill(self) -> None:
        await super().kill()
        for file in getattr(self, "in_memory", ()):
            file.unlink(missing_ok=True)


class AnswersTwice(Relay):
    """552 comes for the same content before its 250, and the message is handled."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.client = writer
        await super()._serve(reader, writer)

    async def take(self, sender: str, recipients: Sequence[str], content: bytes) -> int:
        self.client.write(b"552 line too long\r\n")
        return await super().take(sender, recipients, content)


class EndsContentAtBareLineFeeds(Relay):
    """A bare LF ends a line, also around the final dot."""

    async def read_content(self, reader: asyncio.StreamReader) -> bytes:
        text = b"\n"
        while not text.replace(b"\r\n", b"\n").endswith(b"\n.\n"):
            text += await reader.readuntil(b"\n")
        return text.replace(b"\r\n", b"\n").replace(b"\n.", b"\n").replace(b"\n", b"\r\n")[2:-2]

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read commands up to a bare LF too."""
        await super().converse(_LooseReader(reader), writer)  # type: ignore[arg-type]


class _LooseReader:
    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.reader = reader

    async def readuntil(self, end: bytes) -> bytes:
        return await self.reader.readuntil(b"\n" if end == b"\r\n" else end)


class FallsSilentForADay(Relay):
    """After a deferral nothing is tried for a day."""

    async def deliver(self, file: Path) -> None:
        self.config["transport"]["MessageRetryInterval"] = 86400.0
        await super().deliver(file)


class DeliversWithTwoWorkers(Relay):
    """Two workers take the same message from the queue."""

    def keep(self, file: Path, message: dict[str, Any]) -> None:
        if message["recipients"] or file.exists():
            super().keep(file, message)

    async def take(self, sender: str, recipients: Sequence[str], content: bytes) -> int:
        code = await super().take(sender, recipients, content)
        self.later(self.deliver(self.queue / f"{self.count}.json"))
        return code


class TakesEightyRecipients(Relay):
    """The eighty-first recipient is one too many."""

    def answer(self, line: str, recipients: Sequence[str]) -> int:
        too_many = line.upper().startswith("RCPT") and len(recipients) >= 80
        return 452 if too_many else super().answer(line, recipients)


class GreetsWithTwoCodes(Relay):
    """The lines of the greeting have different codes."""

    greeting = b"521-mini is not ready\r\n220 mini ready\r\n"


class TakesTheNextTryForADuplicate(Relay):
    """A message is in the table of known ones before it is stored; it is given up with its session, and the next try is dropped."""

    def __init__(self, path: Path, clock: Any, defect: str | None) -> None:
        super().__init__(path, clock, defect)
        self.known: set[bytes] = set()
        self.readers: dict[Any, asyncio.StreamReader] = {}

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.readers[asyncio.current_task()] = reader
        await super().converse(reader, writer)

    async def take(self, sender: str, recipients: Sequence[str], content: bytes) -> int:
        if content in self.known:
            return 250
        self.known.add(content)
        await asyncio.sleep(1)  # as long as it takes to store it
        if self.readers[asyncio.current_task()].at_eof():
            raise EOFError
        return await super().take(sender, recipients, content)
