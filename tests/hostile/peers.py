"""Hostile peers: what a relay says in place of a reply, when, and what it does then. A table; one line is one peer.

A node of the `python` kind, whose defect is the name of its line.
"""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from conformance.nodes.python_node import WallClock
from tests.nodes.hostile import Hostile

Then = Literal["goes on", "closes", "resets", "hangs", "half-closes"]


@dataclass(frozen=True)
class Deed:
    """At `phase` the peer says `octets`, `times` over, in place of its reply; then it goes on, or not."""

    phase: str
    octets: bytes
    then: Then = "goes on"
    times: int = 1


MEGABYTE = b"x" * 2**20

PEERS: dict[str, Deed] = {
    "says nothing at the greeting": Deed("greeting", b"", "hangs"),
    "resets at the greeting": Deed("greeting", b"", "resets"),
    "greets with HTTP": Deed("greeting", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    "greets with a TLS alert": Deed("greeting", b"\x15\x03\x03\x00\x02\x02\x28", "closes"),
    "greets with SSH": Deed("greeting", b"SSH-2.0-OpenSSH_9.6\r\n"),
    "greets twice": Deed("greeting", b"220 here\r\n220 again\r\n"),
    "greets with 421": Deed("greeting", b"421 not today\r\n", "closes"),
    "greets with a line of ten megabytes": Deed("greeting", MEGABYTE, "hangs", 10),
    "offers ten thousand extensions": Deed("EHLO", b"250-X" + b"E" * 40 + b"\r\n", "hangs", 10_000),
    "offers in a multi-line reply that never ends": Deed("EHLO", b"250-X\r\n", "hangs"),
    "changes the code within a reply": Deed("EHLO", b"250-one\r\n550 two\r\n"),
    "offers extensions with control characters": Deed("EHLO", b"250-\x1b[2J\x07SIZE\r\n250 X\x00Y\r\n"),
    "offers SIZE with 400 digits": Deed("EHLO", b"250-SIZE " + b"9" * 400 + b"\r\n250 ok\r\n"),
    "refuses EHLO for ever": Deed("EHLO", b"500 what\r\n"),
    "answers with bare LF": Deed("MAIL", b"250 yes\n"),
    "answers with bare CR": Deed("MAIL", b"250 yes\r", "hangs"),
    "answers with NULs": Deed("MAIL", b"\0" * 512 + b"\r\n"),
    "answers with NULs within a reply": Deed("MAIL", b"250 y\0e\0s\r\n"),
    "answers with two digits": Deed("MAIL", b"25 yes\r\n"),
    "answers with four digits": Deed("MAIL", b"2500 yes\r\n"),
    "answers with code 000": Deed("MAIL", b"000 yes\r\n"),
    "answers with code 999": Deed("MAIL", b"999 yes\r\n"),
    "answers with digits of another script": Deed("MAIL", "\u0662\u0665\u0660 yes\r\n".encode()),
    "answers with octets that are no UTF-8": Deed("MAIL", b"250 \xff\xfe\xc0\x80\r\n"),
    "answers in UTF-16": Deed("MAIL", "250 yes\r\n".encode("utf-16")),
    "answers an octet at a time": Deed("MAIL", b"2", "hangs"),
    "answers with half a reply and leaves": Deed("MAIL", b"25", "closes"),
    "answers with half a reply and resets": Deed("MAIL", b"250 y", "resets"),
    "answers everything three times": Deed("RCPT", b"250 yes\r\n", times=3),
    "answers a recipient with 250 and 550": Deed("RCPT", b"250 yes\r\n550 no\r\n"),
    "answers a recipient with 354": Deed("RCPT", b"354 go on\r\n"),
    "takes the end of the message before there is one": Deed("DATA", b"354 go on\r\n250 taken\r\n"),
    "takes the message in place of asking for it": Deed("DATA", b"250 taken\r\n"),
    "asks for the message with a reply that never ends": Deed("DATA", b"354-go on\r\n", "hangs"),
    "closes when it has asked for the message": Deed("DATA", b"354 go on\r\n", "closes"),
    "half-closes when it has asked for the message": Deed("DATA", b"354 go on\r\n", "half-closes"),
    "resets at the dot": Deed("dot", b"", "resets"),
    "says nothing at the dot": Deed("dot", b"", "hangs"),
    "says 250 and 550 at the dot": Deed("dot", b"250 taken\r\n550 not taken\r\n"),
    "says 250 as one line of a reply that never ends": Deed("dot", b"250-taken\r\n", "hangs"),
    "floods at the dot": Deed("dot", b"250-" + b"y" * 1000 + b"\r\n", "hangs", 5000),
    "says a megabyte in one reply at the dot": Deed("dot", b"250 " + MEGABYTE + b"\r\n"),
    "answers QUIT with a flood": Deed("QUIT", b"221-bye\r\n", "hangs", 20_000),
    "answers QUIT with commands of its own": Deed("QUIT", b"MAIL FROM:<>\r\nRCPT TO:<victor@outside.test>\r\nDATA\r\n"),
}


class Peer(Hostile):
    """A relay that does one deed."""

    def __init__(self, configuration: dict[str, Any], misdeed: str) -> None:
        super().__init__(configuration, "")
        self._deed = PEERS[misdeed.replace("_", " ")]

    async def _say(self, writer: asyncio.StreamWriter, phase: str, reply: bytes) -> None:
        deed = self._deed
        if phase != deed.phase:
            await super()._say(writer, phase, reply)
            return
        for _ in range(deed.times):
            writer.write(deed.octets)
            await writer.drain()
        match deed.then:
            case "closes":
                writer.close()
                await writer.wait_closed()
                raise ConnectionAbortedError
            case "resets":
                writer.transport.abort()
                raise ConnectionAbortedError
            case "half-closes":
                writer.write_eof()
                await asyncio.Event().wait()
            case "hangs":
                await asyncio.Event().wait()


def create(path: Path, clock: WallClock, defect: str | None) -> Peer:
    """Make a node (the factory of a description)."""
    return Peer(json.loads(path.read_text("utf-8")), defect or "")
