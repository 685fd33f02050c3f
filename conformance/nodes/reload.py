"""What a node says of a reload: the contract has no reply to it from outside but a line in the log."""

import asyncio
from pathlib import Path

_PAUSE = 0.01
"""Seconds between two looks at a log that another process writes."""


async def reload_words(log: Path, before: int, within: float) -> str:
    """Return the first line that speaks of configuration among those that came after `before` octets of the log.

    Raises TimeoutError when none came within so many seconds.
    """
    async with asyncio.timeout(within):
        while True:
            with log.open("rb") as file:
                file.seek(before)
                new = file.read().decode(errors="replace")
            if found := next((line for line in new.splitlines() if "configuration" in line.lower()), None):
                return found
            await asyncio.sleep(_PAUSE)
