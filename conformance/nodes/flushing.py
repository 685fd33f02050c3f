"""Asks a server for another attempt as often as it is to make one: `flush-to-retry`, where its own interval cannot be set."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from conformance.nodes.contract import NodeError

_LONGEST = 3650 * 86400
"""Seconds: no scenario has a longer duration."""


def interval(transport: Mapping[str, Any]) -> float | None:
    """Return MessageRetryInterval of a node's file, real seconds; None where that is no time.

    A scenario may offer anything, a word or a negative number too: it is for the server to refuse that.
    """
    value = transport.get("MessageRetryInterval")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LONGEST:
        return None
    return float(value)


async def flush_every(
    seconds: float, flush: Callable[[], Awaitable[object]], gone: Callable[[], bool], note: Callable[[str], None]
) -> None:
    """Call `flush` every so many seconds until it is cancelled, or fails and the node is `gone`; a failure is noted."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        due = max(due + seconds, loop.time())
        await asyncio.sleep(due - loop.time())
        try:
            await flush()
        except NodeError as error:
            if gone():
                return
            note(f"flush: {error.reason}")
