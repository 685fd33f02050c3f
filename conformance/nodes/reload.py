"""What a node says of a reload: the contract has no reply to it from outside but a line in the log."""

import asyncio
from pathlib import Path

from conformance.nodes.contract import ConfigurationRefused

_PAUSE = 0.01
"""Seconds between two looks at a log that another process writes."""


async def reloaded(node: str, log: Path, before: int, within: float) -> None:
    """Return when a node has taken its configuration: what it says is in its log, after `before` octets.

    Raises ConfigurationRefused, and TimeoutError when it said nothing of it within so many seconds.
    """
    words = await _words(log, before, within)
    if "refused" in words:
        raise ConfigurationRefused(node, "reload", words)


async def _words(log: Path, before: int, within: float) -> str:
    """Return the first line that speaks of configuration among those that came after `before` octets of the log."""
    async with asyncio.timeout(within):
        while True:
            with log.open("rb") as file:
                file.seek(before)
                new = file.read().decode(errors="replace")
            if found := next((line for line in new.splitlines() if "configuration" in line.lower()), None):
                return found
            await asyncio.sleep(_PAUSE)
