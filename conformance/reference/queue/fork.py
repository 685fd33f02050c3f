"""A fork: one of the ways that a bifurcated message goes."""

import asyncio
from dataclasses import dataclass

from conformance.reference.message import Message, Recipient
from conformance.reference.queue.routing import NextHop


@dataclass(slots=True, eq=False)
class Fork:
    """A message on its way to one next hop, for some of its recipients; `settled` is done when the try is over."""

    message: Message
    recipients: tuple[Recipient, ...]
    hop: NextHop
    settled: asyncio.Future[None]
