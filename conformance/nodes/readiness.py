"""When a node is ready: every listener answers its greeting (node contract)."""

import asyncio
import contextlib
from collections.abc import Iterable

from conformance.nodes.contract import NodeError

_PAUSE = 0.02
"""Seconds between two knocks on a door that is not open yet: there is no event to wait for from outside a process."""


async def greeted(host: str, port: int) -> str | None:
    """Return the first line that the listener says, or None while nobody listens.

    Raises ValueError when the line is no SMTP greeting.
    """
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError:
        return None
    try:
        line = (await reader.readline()).decode("latin-1").strip()
        writer.write(b"QUIT\r\n")
        await writer.drain()
        await reader.read(512)
    except OSError:
        return None
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    if not line:
        return None
    if not line.startswith("220"):
        raise ValueError(f"said {line[:80]!r} in place of a 220 greeting")
    return line


async def wait_ready(node: str, listeners: Iterable[tuple[str, str, int]], bound: float, ended: asyncio.Event) -> None:
    """Wait until every (listener, host, port) has greeted; `ended` is set when the node's process is gone.

    Raises NodeError when one has not within `bound` seconds, says something else, or the process ends.
    """
    waiting = ""
    try:
        async with asyncio.timeout(bound):
            for listener, host, port in listeners:
                waiting = f"{listener} on {host}:{port}"
                while (await greeted(host, port)) is None:
                    if ended.is_set():
                        raise NodeError(node, "start", "the process ended before it was ready", "see its log")
                    await asyncio.sleep(_PAUSE)
    except TimeoutError:
        hint = "it must open every listener of its configuration, and greet with 220"
        raise NodeError(node, "start", f"{waiting} gave no greeting within {bound:g} s", hint) from None
    except ValueError as error:
        raise NodeError(node, "start", f"{waiting} {error}") from error
