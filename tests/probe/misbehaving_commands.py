"""Miniature servers that misbehave in one way about commands: their lines, order, limits and groups, BDAT, and STARTTLS.

`misbehaves` enters each into the table of `misbehaviours`, under the check that must find its fault.
"""

from tests.probe.miniature import Miniature
from tests.probe.misbehaviours import WARN, misbehaves


@misbehaves("ehlo-again-resets")
class EhloKeepsTheTransaction(Miniature):
    async def on_ehlo(self, name: str) -> str | None:
        sender = self.sender
        reply = await super().on_ehlo(name)
        self.sender = sender
        return reply


@misbehaves("refused-ehlo-changes-nothing")
class RefusedEhloResets(Miniature):
    async def on_ehlo(self, name: str) -> str | None:
        self.reset()
        return await super().on_ehlo(name)


@misbehaves("verbs-in-any-case")
class UpperCaseOnly(Miniature):
    async def dispatch(self, line: bytes) -> None:
        verb = line.partition(b" ")[0]
        await super().dispatch(line if verb == verb.upper() else b"X" + line)


@misbehaves("lf-ends-no-line")
class LfEndsALine(Miniature):
    async def fill(self) -> bool:
        more = await super().fill()
        self.buffer = self.buffer.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        return more


@misbehaves("cr-ends-no-line")
class CrEndsALine(Miniature):
    async def fill(self) -> bool:
        more = await super().fill()
        self.buffer = self.buffer.replace(b"\r\n", b"\r").replace(b"\r", b"\r\n")
        return more


@misbehaves("stays-after-unknown-verbs")
@misbehaves("closes-after-221-or-421-only")
class ClosesAtUnknownVerbs(Miniature):
    def unknown(self, verb: str) -> str:
        self.leaving = True
        return super().unknown(verb)


@misbehaves("closes-after-421")
class StaysAfter421(Miniature):
    def unknown(self, verb: str) -> str:
        return "421 4.7.0 mini.test too many errors"


@misbehaves("trailing-space", WARN)
class NoTrailingSpace(Miniature):
    async def dispatch(self, line: bytes) -> None:
        await super().dispatch(b"XSPACE" if line.endswith(b" ") else line)


@misbehaves("eight-bit-command", WARN)
class TakesAnyOctet(Miniature):
    async def on_mail(self, argument: str) -> str | None:
        return await super().on_mail(argument.encode("ascii", "replace").decode())


@misbehaves("unknown-parameter")
class IgnoresParameters(Miniature):
    async def on_mail(self, argument: str) -> str | None:
        return await super().on_mail(argument.partition(" ")[0])


@misbehaves("nul-in-a-command")
class NulEndsALine(Miniature):
    async def fill(self) -> bool:
        more = await super().fill()
        self.buffer = self.buffer.replace(b"\0", b"\r\n")
        return more


@misbehaves("over-long-line")
class SplitsLongLines(Miniature):
    async def line(self) -> bytes | None:
        line = await super().line()
        if line is None or len(line) <= 4096:
            return line
        self.buffer = line[4096:] + b"\r\n" + self.buffer
        return line[:4096]


@misbehaves("rcpt-needs-mail")
class RcptWithoutMail(Miniature):
    async def on_rcpt(self, argument: str) -> str | None:
        self.sender = self.sender or "<>"
        return await super().on_rcpt(argument)


@misbehaves("data-needs-rcpt")
@misbehaves("refused-group-sends-nothing")
class DataWithoutRcpt(Miniature):
    async def on_data(self, argument: str) -> str | None:
        self.recipients = self.recipients or ["<>"]
        return await super().on_data(argument)


@misbehaves("second-mail")
class SecondMailEndsTheTransaction(Miniature):
    async def on_mail(self, argument: str) -> str | None:
        if self.sender is None:
            return await super().on_mail(argument)
        self.reset()
        return "503 5.5.1 from the beginning"


@misbehaves("noop-changes-nothing")
class NoopResets(Miniature):
    async def on_noop(self, argument: str) -> str | None:
        self.reset()
        return "250 2.0.0 ok"


@misbehaves("commands-before-ehlo", WARN)
class EhloFirst(Miniature):
    async def on_rset(self, argument: str) -> str | None:
        return await super().on_rset(argument) if self.greeted else "503 5.5.1 EHLO first"


@misbehaves("local-part-of-64-octets")
class ShortLocalParts(Miniature):
    async def on_mail(self, argument: str) -> str | None:
        local = argument.partition("@")[0].partition("<")[2]
        return "501 5.1.7 too long" if len(local) > 60 else await super().on_mail(argument)


@misbehaves("path-of-256-octets")
class ShortPaths(Miniature):
    async def on_mail(self, argument: str) -> str | None:
        return "501 5.1.7 too long" if len(argument) > len("FROM:") + 255 else await super().on_mail(argument)


@misbehaves("a-hundred-recipients")
class FiftyRecipients(Miniature):
    async def on_rcpt(self, argument: str) -> str | None:
        return "452 4.5.3 too many" if len(self.recipients) == 50 else await super().on_rcpt(argument)


@misbehaves("pipelined-group")
class FlushesItsInput(Miniature):
    async def line(self) -> bytes | None:
        line = await super().line()
        self.buffer = b""
        return line


@misbehaves("commands-in-pieces")
class ReadIsALine(Miniature):
    async def fill(self) -> bool:
        more = await super().fill()
        if not self.buffer.endswith(b"\n"):
            self.buffer += b"\r\n"
        return more


@misbehaves("replies-not-kept-back")
class KeepsRepliesBack(Miniature):
    async def write(self, reply: str) -> None:
        self.kept = getattr(self, "kept", "") + reply + "\r\n"
        # What may be in the middle of a group is answered with the next command that may not.
        if not reply.startswith(("250 2.1", "501 5.5.4", "503", "250 2.0.0 reset")) or self.alone:
            kept, self.kept = self.kept[:-2], ""
            await super().write(kept)

    async def dispatch(self, line: bytes) -> None:
        self.grouped = getattr(self, "grouped", False) or bool(self.buffer)
        self.alone = not self.grouped
        await super().dispatch(line)


class RunsItsChunks(Miniature):
    async def chunk(self, size: int) -> bytes:
        return await super().chunk(size) if self.recipients else b""


for name in ("bdat-without-transaction", "bdat-last-without-recipient", "bdat-and-rset"):
    misbehaves(name)(RunsItsChunks)


@misbehaves("bdat-of-no-octets")
class ClosesAfterAnEmptyChunk(Miniature):
    async def on_bdat(self, argument: str) -> str | None:
        self.leaving = argument == "0"
        return await super().on_bdat(argument)


@misbehaves("bdat-then-data")
class DataAfterBdat(Miniature):
    async def on_data(self, argument: str) -> str | None:
        self.chunks = None
        return await super().on_data(argument)


@misbehaves("starttls-not-offered-twice")
class OffersTlsInTls(Miniature):
    async def on_ehlo(self, name: str) -> str | None:
        self.secured = False
        return await super().on_ehlo(name)


@misbehaves("starttls-forgets")
class KeepsTheTransactionInTls(Miniature):
    def before_tls(self) -> None:
        self.buffer = b""


@misbehaves("starttls-injection")
class KeepsItsInputInTls(Miniature):
    def before_tls(self) -> None:
        self.reset()


@misbehaves("help")
@misbehaves("vrfy")
class Deaf(Miniature):
    async def on_help(self, argument: str) -> str | None:
        return None

    on_vrfy = on_help
