"""Reading replies as a client does: bounded, with a limit of time, and a lost session as an answer of its own."""

import asyncio
import re
from dataclasses import dataclass

from conformance.wire.sockets import why

REPLY_LINES = 1000
"""Lines of one reply that are read; a server that says more is taken as lost."""

_ENHANCED = re.compile(r"([245]\.[0-9]{1,3}\.[0-9]{1,3})(?: |$)")


class Lost(Exception):
    """The session is no more: ended, reset, silent for too long, or not understood. The words say which.

    `ended` tells whether the server (or the way to it) closed the connection.
    """

    def __init__(self, words: str, *, ended: bool = False) -> None:
        super().__init__(words)
        self.ended = ended


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply; `lines` are the texts after the codes."""

    code: int
    lines: tuple[str, ...]

    @property
    def enhanced(self) -> str | None:
        """The enhanced status code at its beginning (RFC 2034), if any."""
        match = _ENHANCED.match(self.lines[0])
        return match[1] if match else None

    @property
    def text(self) -> str:
        """All of it in one line."""
        return " ".join(self.lines)

    @property
    def positive(self) -> bool:
        """Whether it is a 2yz."""
        return self.code // 100 == 2


async def read_reply(reader: asyncio.StreamReader, limit: float) -> Reply:
    """Read one reply within `limit` (loop) seconds. Raises Lost."""
    lines: list[str] = []
    try:
        async with asyncio.timeout(limit):
            while len(lines) < REPLY_LINES:
                raw = await reader.readuntil(b"\n")
                text = raw.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
                if not re.match(r"\d{3}(?:[ -]|$)", text, re.ASCII):
                    raise Lost(f"no reply: {text[:200]!r}")
                lines.append(text[4:])
                if text[3:4] != "-":
                    return Reply(int(text[:3]), tuple(lines))
    except TimeoutError:
        raise Lost("silent for too long") from None
    except asyncio.IncompleteReadError as error:
        raise Lost("the server ended the session" + (" amid a line" if error.partial else ""), ended=True) from None
    except (asyncio.LimitOverrunError, ValueError):
        raise Lost("a line of a reply has no end") from None
    except OSError as error:
        raise Lost(f"the session broke: {why(error)}", ended=True) from None
    raise Lost(f"a reply of more than {REPLY_LINES} lines")
