"""Sends every variant of the end of content through every pair of servers, and finds out which arrive as two messages.

A *variant* is a piece of content, such as LF . LF, that a server could take for the end of the message. Each server
runs twice, as a relay and as a receiver, so that it can be its own next hop. In one round every relay is connected to
another receiver, and all pairs of the round work at the same time; there are as many rounds as servers. Behind every
receiver is a sink of the harness, which ends content at CRLF . CRLF only.
"""

import asyncio
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from conformance.probe.end_of_data import SENDER, SMUGGLED_SENDER, Variant, applicable_variants, send_variant
from conformance.probe.server import NotApplicable, Server
from conformance.probe.session import ServerClosed, ServerSilent, Unanswered
from conformance.shortage import shortage_of
from conformance.testing import MailNode, MailNodes, ReceivedMessage
from conformance.wire.sockets import describe_error

RECIPIENT = "victor@outside.test"
_REPLY_LIMIT = 20.0
"""Seconds that a relay has for one reply: many servers work at the same time."""
_SESSIONS = 4
"""Messages that one relay is sent at the same time."""
_IDLE = 15.0
"""Seconds in which a relay ends its sessions with the former receiver; OpenSMTPD keeps an idle one for ten."""
ARRIVAL = 6.0
"""Seconds in which what a relay has accepted reaches the sink; most takes less than one."""
_SETTLE = 2.0
"""Seconds to wait for a second message after all first ones have arrived: it was accepted in the same session."""

_NO_REPLY = (NotApplicable, ServerClosed, ServerSilent, Unanswered, OSError)
"""Exceptions for a session that the relay does not open or does not hold to its end."""

_MARK = re.compile(rb"^Message-ID: <([^@>]+)@probe\.test>", re.MULTILINE | re.IGNORECASE)


class Passage(StrEnum):
    """What happened to one message with a variant in it.

    - `one`: one message has reached the sink
    - `refused`: the relay has not accepted it
    - `returned`: the relay has accepted it, and then reported to its sender that it cannot be delivered
    - `not-arrived`: the relay has accepted it, and neither it nor a report has reached the sink in time
    - `split-by-relay`: the relay has ended the message early, and has replied to what is behind the variant
    - `smuggled`: the relay has made one message of it, and the receiver two
    """

    ONE = "one"
    REFUSED = "refused"
    RETURNED = "returned"
    NOT_ARRIVED = "not-arrived"
    SPLIT = "split-by-relay"
    SMUGGLED = "smuggled"


@dataclass(frozen=True, slots=True)
class Passed:
    """What happened to one variant between a relay and a receiver; `replies` are the relay's, as texts."""

    relay: str
    receiver: str
    variant: str
    passage: Passage
    replies: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Return it as an object of `smuggling.json`."""
        return {
            "relay": self.relay,
            "receiver": self.receiver,
            "variant": self.variant,
            "passage": str(self.passage),
            "replies": list(self.replies),
        }


def try_all_pairs(
    candidates: Mapping[str, str], directory: Path, report: Callable[[str], None], hosts: Collection[str] = ()
) -> list[Passed]:
    """Start each candidate twice, send all variants through every pair, stop all servers, and return the results.

    Blocks until then; `report` is called with what is being done. The candidates are given as for `--candidate`, by the names
    that the results have for them. `hosts` are those other than this machine that they may name.

    Raises CandidateError, NodeError, and OSError if this machine ran out of something.
    """
    nodes = MailNodes(directory)
    try:
        running: dict[str, tuple[MailNode, MailNode]] = {}
        for name, candidate in candidates.items():
            report(f"starting {name}")
            running[name] = (
                nodes.start(candidate, name="relay1", allow_hosts=hosts),
                nodes.start(candidate, name="receiver1", allow_hosts=hosts),
            )
        return asyncio.run(_run_rounds(running, report))
    finally:
        nodes.close()


async def _run_rounds(running: dict[str, tuple[MailNode, MailNode]], report: Callable[[str], None]) -> list[Passed]:
    """Try every pair, each relay with another receiver in each round, and return all results.

    `running` has each server's two nodes by its name: the one that relays, and the one that receives.
    """
    names = list(running)
    results: list[Passed] = []
    for number, pairs in enumerate(_rounds(names), 1):
        report(f"round {number} of {len(names)}: " + ", ".join(f"{relay} to {receiver}" for relay, receiver in pairs))
        tried = await asyncio.gather(
            *(_try_pair(relay, running[relay][0], receiver, running[receiver][1]) for relay, receiver in pairs)
        )
        results += [passed for pair in tried for passed in pair]
    return results


def _rounds(names: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
    """Yield rounds of pairs of a relay and a receiver: every pair once, and no server twice in one role in a round."""
    for shift in range(len(names)):
        yield [(relay, names[(place + shift) % len(names)]) for place, relay in enumerate(names)]


async def _try_pair(relay_name: str, relay: MailNode, receiver_name: str, receiver: MailNode) -> list[Passed]:
    """Send all variants through a relay to a receiver, wait for them at the receiver's sink, and return the passage of each.

    The relay's link to its next hop is connected to the receiver before, and sessions with the former receiver are ended, since some
    servers keep them for the next message. `server` is the relay, as the probe sees it. An accepted
    variant that has not come within `ARRIVAL` and `_SETTLE` seconds counts as not arrived. One for which no session with the relay can
    be held counts as refused, with the reason as its reply, so that the other pairs keep their results. Raises OSError only if
    this machine ran out of something.
    """
    await asyncio.to_thread(relay.next_hop.connect_to, receiver.host, receiver.port)
    await asyncio.to_thread(relay.next_hop.end_sessions, _IDLE)
    server = Server(address=(relay.host, relay.port), limit=_REPLY_LIMIT, recipient=RECIPIENT)
    try:
        async with server.session() as session:
            server.keywords = session.keywords
    except _NO_REPLY as error:  # each variant will say so; without keywords those in chunks are left out
        _raise_for_shortage(error)
    semaphore = asyncio.Semaphore(_SESSIONS)

    async def send(variant: Variant) -> tuple[bool, tuple[str, ...]]:
        """Send a variant; return whether the relay has accepted it, and its replies."""
        async with semaphore:
            try:
                replies = await send_variant(server, variant)
            except _NO_REPLY as refused:
                _raise_for_shortage(refused)
                return False, (describe_error(refused) if isinstance(refused, OSError) else str(refused),)
        return bool(replies) and replies[0].positive, tuple(map(str, replies))

    variants = applicable_variants(server)
    sent = dict(zip((v.name for v in variants), await asyncio.gather(*map(send, variants)), strict=True))
    arrivals = Arrivals(server)
    firsts = {name for name, (accepted, _) in sent.items() if accepted}
    sink = receiver.next_hop
    await asyncio.to_thread(sink.wait_until, lambda messages: firsts <= arrivals.read(messages).settled, ARRIVAL)
    await asyncio.to_thread(sink.wait_until, lambda messages: firsts <= arrivals.read(messages).second, _SETTLE)
    return [
        Passed(
            relay=relay_name,
            receiver=receiver_name,
            variant=name,
            passage=_decide_passage(name, accepted, replies, arrivals),
            replies=replies,
        )
        for name, (accepted, replies) in sent.items()
    ]


def _raise_for_shortage(error: Exception) -> None:
    """Raise an exception again if it says that this machine, not the relay, ran out of something; else do nothing."""
    if shortage_of(error):
        raise error


class Arrivals:
    """What has reached the sink behind a receiver of the variants that were sent through one pair.

    A variant has a first message; a second one, with `SMUGGLED_SENDER`, comes of what is behind the variant where a server
    takes it for the end. `first`, `second` and `returned` (a report that the first cannot be delivered) have the names of
    variants. `_suffix` ends the Message-IDs of this pair; `_read` is how many of the sink's messages were looked at.
    """

    def __init__(self, server: Server) -> None:
        self.first: set[str] = set()
        self.second: set[str] = set()
        self.returned: set[str] = set()
        self._suffix = server.mark("")
        self._read = 0

    @property
    def settled(self) -> set[str]:
        """The names of the variants whose first message, or a report that it cannot be delivered, has reached the sink."""
        return self.first | self.returned

    def read(self, messages: Sequence[ReceivedMessage]) -> "Arrivals":
        """Take note of the sink's messages that have come since the last call, and return this object."""
        for message in messages[self._read :]:
            header, _, body = message.content.partition(b"\r\n\r\n")
            if message.sender == SENDER:
                self.first |= self._names(header)
            elif message.sender == SMUGGLED_SENDER:
                self.second |= {name.removeprefix("smuggled-") for name in self._names(header)}
            elif message.sender == "":
                self.returned |= self._names(body)  # a report has the header of what it is about
        self._read = len(messages)
        return self

    def _names(self, octets: bytes) -> set[str]:
        """Return the names of this pair's messages whose Message-ID field is in these octets (a header, or a report's body)."""
        marks = (mark.decode("ascii", "replace") for mark in _MARK.findall(octets))
        return {mark.removesuffix(self._suffix) for mark in marks if mark.endswith(self._suffix)}


def _decide_passage(name: str, accepted: bool, replies: Sequence[str], arrivals: Arrivals) -> Passage:
    """Return what happened to the variant of this name; `accepted` says whether the relay has accepted it, with these replies.

    More than one reply means that the relay has ended the message at the variant.
    """
    if len(replies) > 1:
        return Passage.SPLIT
    if name in arrivals.second:
        return Passage.SMUGGLED
    if name in arrivals.first:
        return Passage.ONE
    if name in arrivals.returned:
        return Passage.RETURNED
    return Passage.NOT_ARRIVED if accepted else Passage.REFUSED
