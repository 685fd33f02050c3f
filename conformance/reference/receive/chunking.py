"""CHUNKING (RFC 3030): a message that comes in counted chunks, with the command BDAT, in place of DATA.

`Chunking` is a base class of the session of a listener (session.py). `envelope` is aiosmtpd's object for the mail transaction.
"""

import asyncio
import re

from conformance.reference.receive.fast_smtp import FastSMTP

_ARGUMENTS = re.compile(r"([0-9]{1,12})( LAST)?", re.IGNORECASE)
_PART = 64 * 1024
"""Octets of a refused chunk that are read at a time."""


class Chunking(FastSMTP):
    """The part of a session that takes BDAT. `_chunks` has the octets of the transaction so far, None before the first chunk.

    `_chunk_was_too_much`: a chunk of the transaction was refused for its size; what the client had sent behind it is dropped
    (RFC 3030 2).
    """

    _chunks: bytes | None = None
    _chunk_was_too_much = False

    async def smtp_BDAT(self, arg: str | None) -> None:
        """Read a chunk to its end and answer it; after the last one accept or refuse the message.

        Waits for the octets. A chunk that is refused is read all the same (RFC 3030 2), and the chunks before it are dropped; a mail
        transaction stays open. Malformed arguments get 501, and nothing is read. If the client leaves before the end of a chunk,
        the connection is closed without a reply.
        """
        arguments = _ARGUMENTS.fullmatch(arg or "")
        if arguments is None:
            await self.push("501 5.5.4 Syntax: BDAT octets [LAST]")
            return
        size, last = int(arguments[1]), arguments[2] is not None
        try:
            refusal = await self.take_chunk(size)
        except asyncio.IncompleteReadError:
            self._close()
            return
        if refusal is not None:
            self._chunks = None
            await self.push(refusal)
        elif not last:
            await self.push(f"250 2.0.0 {size} octets")
        else:
            await self.end_chunks()

    async def take_chunk(self, size: int) -> str | None:
        """Read a chunk of `size` octets and keep it; return None, or the reply that refuses it, in which case its octets are dropped.

        It is refused if no recipient has been accepted (503), the message gets too large (552), or was too large before (503). Raises IncompleteReadError if
        the client leaves before the end of the chunk.
        """
        assert self.envelope is not None
        kept = len(self._chunks or b"")
        refusal = None
        if not self.envelope.rcpt_tos:
            refusal = "503 5.5.1 need RCPT command"
        elif self._chunk_was_too_much:
            refusal = "503 5.5.1 a chunk was refused"
        elif self.data_size_limit and kept + size > self.data_size_limit:
            refusal = "552 5.3.4 Error: Too much mail data"
            self._chunk_was_too_much = True
        if refusal is not None:
            await self.skip_chunk(size)
            return refusal
        self._chunks = (self._chunks or b"") + await self._reader.readexactly(size)
        return None

    async def skip_chunk(self, size: int) -> None:
        """Read the octets of a refused chunk and drop them. Raises IncompleteReadError if the client leaves before the end."""
        while size:
            size -= len(await self._reader.readexactly(min(size, _PART)))

    async def end_chunks(self) -> None:
        """Accept or refuse the message whose last chunk has come, as after DATA, send the reply, and end the mail transaction.

        Waits for the decision, which the handler hook makes (`Hooks.handle_DATA`).
        """
        assert self.envelope is not None
        self.envelope.content = self.envelope.original_content = self._chunks or b""
        status = await self._call_handler_hook("DATA")
        self._set_post_data_state()
        await self.push(status)

    def forget_chunks(self) -> None:
        """Drop the chunks of the mail transaction so far: it has ended, or was reset."""
        self._chunks = None
        self._chunk_was_too_much = False

    async def smtp_DATA(self, arg: str) -> None:
        """Refuse DATA amid or behind chunks with 503 (RFC 3030 2), and keep the chunks; else handle it as aiosmtpd does."""
        if self._chunks is not None or self._chunk_was_too_much:
            await self.push("503 5.5.1 the content comes in chunks")
            return
        await super().smtp_DATA(arg)
