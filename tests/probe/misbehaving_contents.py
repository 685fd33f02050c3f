"""Miniature servers that misbehave in one way about contents: where one ends, which are accepted, and how they are passed on.

`misbehaves` enters each into the table of `misbehaviours`, under the check that must find its fault. A message is passed on to the
next hop, the probe's own sink.
"""

from conformance.live_checks import LiveOutcome
from conformance.probe.end_of_data import SMUGGLED_SENDER
from tests.probe.miniature import Miniature
from tests.probe.misbehaviours import misbehaves


@misbehaves("end-in-pieces")
class SeesAnEndInOneReadOnly(Miniature):
    async def fill(self) -> bool:
        more = await super().fill()
        if self.recipients and self.buffer in (b"\r\n", b"\r", b"\n", b".", b".\r"):
            self.buffer = b"x"
        return more

    async def content(self) -> bytes | None:
        while not (self.buffer.startswith(b".\r\n") or b"\r\n.\r\n" in self.buffer):
            self.buffer = b""
            if not await self.fill():
                return None
        return await super().content()


@misbehaves("transaction-behind-the-end")
class ForgetsWhatIsBehindTheEnd(Miniature):
    async def content(self) -> bytes | None:
        content = await super().content()
        self.buffer = b""
        return content


class Refuses(Miniature):
    """Refuses some contents, by `refuses`."""

    refuses = staticmethod(lambda content: True)

    def accept(self, content: bytes) -> str:
        return "554 5.6.0 no" if self.refuses(content) else super().accept(content)


for name, rule in {
    "message-accepted": lambda content: True,
    "text-line-of-1000-octets": lambda content: max(map(len, content.splitlines())) > 900,
    "content-of-64-k": lambda content: len(content) > 60000,
    "content-accepted": lambda content: b"\r\n.." in content,
}.items():
    misbehaves(name)(type(f"Refuses-{name}", (Refuses,), {"refuses": staticmethod(rule)}))


@misbehaves("size-enforced")
class TakesAnySize(Miniature):
    async def content(self) -> bytes | None:
        content = await super().content()
        return content[:90000] if content is not None else None


@misbehaves("bdat-last")
class TakesAChunkBehindTheLast(Miniature):
    async def on_bdat(self, argument: str) -> str | None:
        await super().on_bdat(argument)
        return "250 2.0.0 ok"


class EndsContentAt(Miniature):
    """Ends content at another sequence too."""

    end = b"\n.\n"

    async def content(self) -> bytes | None:
        content = await super().content()
        if content is None or self.end not in content:
            return content
        first, _, rest = content.partition(self.end)
        self.buffer = rest + b".\r\n" + self.buffer
        return first


for octets in (b"\n.\n", b"\r.\r", b"\r\n\0.\r\n", b"x.\r\n", b"\x85.\x85", b"\r\n \r\n"):
    misbehaves("message-ends-at-crlf-dot-crlf-only")(
        type(f"EndsContentAt{octets!r}", (EndsContentAt,), {"end": octets})
    )


@misbehaves("relays-one-message")
class PassesOnALoneDot(Miniature):
    def deliver(self, content: bytes, sender: str | None = None) -> None:
        first, end, second = content.partition(b"\n.\n")
        super().deliver(first)
        if end:
            super().deliver(second.partition(b"DATA\r\n")[2], SMUGGLED_SENDER)


@misbehaves("arrives-once")
class DeliversTwice(Miniature):
    def deliver(self, content: bytes, sender: str | None = None) -> None:
        super().deliver(content)
        super().deliver(content)


@misbehaves("arrives-once", LiveOutcome.INCONCLUSIVE)
class DeliversNothing(Miniature):
    def deliver(self, content: bytes, sender: str | None = None) -> None:
        pass


@misbehaves("content-unchanged")
class KeepsStuffedDots(Miniature):
    def deliver(self, content: bytes, sender: str | None = None) -> None:
        super().deliver(content.replace(b"\r\n.", b"\r\n.."))
