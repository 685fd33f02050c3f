r"""What may be taken for the end of a message's content: variants of CRLF . CRLF (RFC 5321 4.1.1.4), and of a dot in a chunk.

Each is a piece of content that ends no message. A server that ends one there takes what follows for commands: one message
becomes two (SMTP smuggling), with an envelope that the author of the content has chosen.
"""

import asyncio
from dataclasses import dataclass

from conformance.probe.server import NotApplicable, Server, add_recipient, begin_transaction
from conformance.probe.session import CLOSING, Reply, ServerClosed

_LINE_ENDS = {"crlf": b"\r\n", "lf": b"\n", "cr": b"\r"}
_CUTS = (512, 990, 998, 1000, 1024, 2046, 2047, 2048, 4096, 8192, 16384)
"""Lengths at which servers are known to cut lines, or to read."""

_SESSIONS = 4
"""Messages with variants that are sent at the same time."""

SENDER = "probe@probe.test"
"""The reverse-path of the messages that are sent."""

SMUGGLED_SENDER = "smuggled@probe.test"
"""The reverse-path of the message that would be smuggled."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Octets within the content of a message; `chunked`: the message is sent by BDAT.

    It is cut into two chunks after the first `cut` of these octets; 0: it is one chunk.
    """

    name: str
    octets: bytes
    chunked: bool = False
    cut: int = 0


def _variants() -> dict[str, Variant]:
    """Return all variants by name."""
    octets: dict[str, bytes] = {}
    for before, first in _LINE_ENDS.items():
        for after, last in _LINE_ENDS.items():
            if (before, after) != ("crlf", "crlf"):
                octets[f"{before}-dot-{after}"] = first + b"." + last
    octets |= {
        "crlf-dot-cr-crlf": b"\r\n.\r\r\n",
        "cr-crlf-dot-cr-crlf": b"\r\r\n.\r\r\n",
        "lf-cr-dot-lf-cr": b"\n\r.\n\r",
        "lf-cr-dot-cr-lf": b"\n\r.\r\n",
        "nul-dot": b"\r\n\0.\r\n",
        "dot-nul": b"\r\n.\0\r\n",
        "cr-nul-lf-dot": b"\r\0\n.\r\n",
        "dot-cr-nul-lf": b"\r\n.\r\0\n",
        "lf-nul-dot-lf": b"\n\0.\n",
        "dot-space": b"\r\n. \r\n",
        "dot-tab": b"\r\n.\t\r\n",
        "space-dot": b"\r\n .\r\n",
        "two-dots": b"\r\n..\r\n",
        "vertical-tabs": b"\v.\v",
        "form-feeds": b"\f.\f",
        "next-lines": b"\x85.\x85",
        "line-separators": "\u2028.\u2028".encode(),
        "crlf-with-high-bits": b"\x8d\x8a.\x8d\x8a",
    }
    octets |= {f"dot-after-{length}": b"\r\n" + b"x" * length + b".\r\n" for length in _CUTS}
    variants = {name: Variant(name, piece) for name, piece in octets.items()}
    for name, piece, cut in (
        ("chunk-crlf-dot-crlf", b"\r\n.\r\n", 0),
        ("chunk-cut-before-the-dot", b"\r\n.\r\n", 2),
        ("chunk-cut-behind-the-dot", b"\r\n.\r\n", 3),
        ("chunk-lf-dot-lf", b"\n.\n", 0),
    ):
        variants[name] = Variant(name, piece, chunked=True, cut=cut)
    return variants


VARIANTS = _variants()


def content_of(variant: Variant, recipient: str, mark: str) -> tuple[bytes, ...]:
    """Return the content of a message with a variant in it, without its end, in the chunks in which it is sent.

    Behind the variant are the commands of a second message to `recipient`. `mark` is in the header of both.
    """
    head = f"From: <probe@probe.test>\r\nTo: <{recipient}>\r\nSubject: {variant.name}\r\nMessage-ID: <{mark}@probe.test>\r\n\r\n"
    first = head.encode() + b"first part" + variant.octets
    smuggled = (
        f"MAIL FROM:<{SMUGGLED_SENDER}>\r\nRCPT TO:<{recipient}>\r\nDATA\r\n"
        f"Subject: smuggled by {variant.name}\r\nMessage-ID: <smuggled-{mark}@probe.test>\r\n\r\nsecond part\r\n"
    ).encode()
    if variant.cut:
        at = len(first) - len(variant.octets) + variant.cut
        return first[:at], first[at:] + smuggled
    return (first + smuggled,)


def applicable_variants(server: Server) -> list[Variant]:
    """Return all variants, without those in chunks if the server does not offer CHUNKING."""
    return [variant for variant in VARIANTS.values() if not variant.chunked or "CHUNKING" in server.keywords]


async def send_variants(server: Server) -> dict[str, list[Reply]]:
    """Send a message with each variant, several at a time, and return the replies as `send_variant` does, by name.

    Without CHUNKING the variants in chunks are left out. Raises what `send_variant` raises for any of them.
    """
    variants = applicable_variants(server)
    semaphore = asyncio.Semaphore(_SESSIONS)

    async def send(variant: Variant) -> list[Reply]:
        """Send one message when fewer than `_SESSIONS` are under way, and return its replies."""
        async with semaphore:
            return await send_variant(server, variant)

    return dict(zip((v.name for v in variants), await asyncio.gather(*map(send, variants)), strict=True))


async def send_variant(server: Server, variant: Variant) -> list[Reply]:
    """Send one message with a variant in it, then QUIT; return the reply to the message and all that follow but 221 and 421.

    More than one reply means that the message ended early. The list is empty if the server closes the connection after DATA or
    BDAT. Raises NotApplicable without a permitted recipient, and if the server refuses the session or the transaction;
    ServerSilent, Unanswered, OSError; ServerClosed if the server closes the connection before DATA or BDAT.
    """
    recipient = server.require_recipient()
    parts = content_of(variant, recipient, server.mark(variant.name))
    async with server.session() as session:
        await begin_transaction(session, SENDER)
        await add_recipient(session, server)
        try:
            if variant.chunked:
                for number, part in enumerate(parts, 1):
                    last = b" LAST" if number == len(parts) else b""
                    await session.send(b"BDAT %d%s\r\n%s" % (len(part), last, part))
                    reply = await session.reply()
            else:
                if (reply := await session.command("DATA")).code != 354:
                    raise NotApplicable(f"DATA is refused: {reply}")
                await session.send(parts[0] + b"\r\n.\r\n")
                reply = await session.reply()
            behind = await session.quit_and_read_replies()
        except ServerClosed:
            return []
        finally:
            session.ended = True
    return [reply, *(other for other in behind if other.code not in (221, CLOSING))]
