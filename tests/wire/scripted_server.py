"""A server that answers from a list, for the tests of sender and talk."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from conformance.wire.link import Address


@asynccontextmanager
async def scripted(
    *turns: bytes | None, left: asyncio.Event | None = None
) -> AsyncIterator[tuple[Address, list[bytes]]]:
    """Serve one connection: each turn is said after one more line was read (the first at once).

    A turn of b"" says nothing; None closes at once. After the last turn it hears on until QUIT. Yields the address and
    the lines that were heard; `left` is set when the connection is over.
    """
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for number, turn in enumerate(turns):
                if turn is None:
                    return
                if number:
                    heard.append(await reader.readuntil(b"\n"))
                writer.write(turn)
            async for line in reader:
                heard.append(line)
                if line == b"QUIT\r\n":
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            if left is not None:
                left.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname(), heard
    finally:
        server.close()
        await asyncio.sleep(0)
