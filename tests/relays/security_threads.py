"""Relays that misbehave in TLS, AUTH or limits as threads of `threads.yaml` tell; each differs from `SecuredRelay` in that alone."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.wire.certificate import sink_context
from tests.relays.relay import Lost
from tests.relays.secured import SecuredHop, SecuredRelay


class RunsWhatIsBehindStarttls(SecuredRelay):
    """What came in plaintext behind STARTTLS is still in the buffer within TLS."""

    async def secure(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept = bytes(reader._buffer)  # type: ignore[attr-defined]
        await super().secure(reader, writer)
        reader._buffer[:0] = kept  # type: ignore[attr-defined]  # what has come within TLS is behind it


class KeepsItsStateOverTls(SecuredRelay):
    """The transaction goes on within TLS, without a new greeting."""

    async def secure(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await writer.start_tls(sink_context())
        self.secured = True


class _InsistsOnTls(SecuredHop):
    async def refused(self, code: int) -> None:
        raise Lost

    async def broken(self, error: OSError) -> None:
        raise Lost from error


class InsistsOnTls(SecuredRelay):
    """Mail stays in the queue where TLS fails, though TLS is optional."""

    hop = _InsistsOnTls


class _TakesRefusalForAFailure(SecuredHop):
    failed = False

    async def refused(self, code: int) -> None:
        self.failed = True

    async def send(self, message: dict[str, Any], recipients: Any) -> dict[str, int]:
        return dict.fromkeys(recipients, 554) if self.failed else await super().send(message, recipients)


class ReturnsMailWithoutTls(SecuredRelay):
    """A refusal of STARTTLS is a permanent failure of the message."""

    hop = _TakesRefusalForAFailure


class _KeepsTheList(SecuredHop):
    async def greet_again(self) -> None:
        before = self.offered
        await super().greet_again()
        self.offered = before


class KeepsTheListOverTls(SecuredRelay):
    """The extensions of before TLS are used within it."""

    hop = _KeepsTheList


class _KeepsPlaintext(SecuredHop):
    async def secure(self) -> None:
        assert self.writer is not None
        kept = bytes(self.reader._buffer)  # type: ignore[attr-defined]
        await super().secure()
        self.reader.feed_data(kept)


class TakesPlaintextForTls(SecuredRelay):
    """What came in plaintext behind the 220 is read within TLS."""

    hop = _KeepsPlaintext


class AuthenticatesTwice(SecuredRelay):
    """AUTH is taken again, and amid a transaction."""

    def out_of_order(self) -> bool:
        return False


class FailsWhereAuthIsCancelled(SecuredRelay):
    """A cancelled exchange has failed credentials."""

    cancelled = 535


class AsksForNoResponse(SecuredRelay):
    """AUTH PLAIN without an initial response has wrong credentials."""

    async def ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        return b"wrong==="


class TakesEmptyForMissing(SecuredRelay):
    """`=` is taken for a response that is still to come."""

    async def authenticate(self, line: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await super().authenticate(line.removesuffix(" ="), reader, writer)


class _TakesItAsItIs(SecuredHop):
    def recipient_code(self, code: int, before: Sequence[int]) -> int:
        return code


class Takes552ForAFailure(SecuredRelay):
    """552 to one of several recipients is a permanent failure."""

    hop = _TakesItAsItIs


class RunsTwice(SecuredRelay):
    """A second process takes what it finds in the queue, whether or not the first has it in hand."""

    def lock(self) -> None:
        pass

    def unlock(self) -> None:
        pass


class LeavesLocks(SecuredRelay):
    """A message that was locked when its process was killed stays locked."""

    async def deliver(self, file: Path) -> None:
        lock = self.queue.with_name(f"lock-{file.stem}")
        if lock.exists():
            return
        lock.touch()
        await super().deliver(file)  # a kill ends it here
        lock.unlink()
