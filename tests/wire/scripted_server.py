"""A server that replies from a list, for the tests of `sender` and `talk`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from conformance.wire.link import Address


@asynccontextmanager
async def scripted_server(
    *turns: bytes | None, over: asyncio.Event | None = None
) -> AsyncIterator[tuple[Address, list[bytes]]]:
    """Serve each connection alike: write the first turn at once, and each other turn after one more line was read.

    A turn of b"" writes nothing; None closes the connection. After the last turn lines are read until QUIT or the end of
    the stream. Yields the address and the lines that were read; `over` is set when the connection has ended.
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
            if over is not None:
                over.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname(), heard
    finally:
        server.close()
        await asyncio.sleep(0)
