"""The secrets of a cell: passwords that its configuration names, and what passed in AUTH exchanges (RFC 4954).

They are taken out of what is recorded by their value, wherever they stand: as they are, in Base64 at any offset (as in PLAIN,
RFC 4616, or in LOGIN), in hexadecimal, percent-encoded, and as JSON and HTML have them. Grammar alone does not do: a server
may echo what it was sent, or refuse a command whose secret was sent ahead.
"""

import base64
import binascii
import html
import json
import re
from dataclasses import fields, is_dataclass, replace
from typing import Any
from urllib.parse import quote

REDACTED = "(redacted)"

_SHORTEST = 4
"""Octets of a secret; a shorter one would take ordinary words out."""
_SHORTEST_SEEN = 8
"""Octets of what is only taken for a secret since it passed in an AUTH exchange."""

_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
_AUTH = re.compile(rb"\s*AUTH\s+(\S+)(?:\s+(\S+))?\s*", re.IGNORECASE)
_NAMES = frozenset(
    ("node", "session", "client", "server", "listener", "sink", "giver", "verb", "to", "action", "path", "label", "message",
     "conversation", "command", "fault", "by", "how", "phase", "links", "sender")
)  # fmt: skip
"""The fields of events that hold words of the harness: names, and what it does."""


class Secrets:
    """The secrets that are known by now."""

    def __init__(self) -> None:
        self._plain: set[bytes] = set()
        self._encoded: set[bytes] = set()
        self._pattern: re.Pattern[bytes] | None = None
        self._tokens: dict[str, int] = {}

    def __bool__(self) -> bool:
        return self._pattern is not None

    def add(self, secret: str | bytes, shortest: int = _SHORTEST) -> None:
        """Take a password or the like; one that is too short is not taken."""
        value = secret.encode() if isinstance(secret, str) else secret
        if len(value) < shortest or value in self._plain:
            return
        text = value.decode("utf-8", "replace")
        self._plain |= {value, value.hex().encode(), value.hex().upper().encode(), quote(value, safe="").encode()}
        self._plain |= {json.dumps(text)[1:-1].encode(), html.escape(text).encode()}
        self._encoded |= {part for offset in range(3) if len(part := _inner(value, offset)) >= _SHORTEST}
        both = (*self._plain, *self._encoded)
        self._pattern = re.compile(b"|".join(map(re.escape, sorted(both, key=len, reverse=True))))

    def add_from_auth_line(self, line: bytes, session: str) -> None:
        """Take what a client sent in an AUTH exchange: a command with its initial response, or a line of its own."""
        command = _AUTH.fullmatch(line)
        if command is not None:
            self._tokens[session] = 0
        token = (command[2] or b"") if command is not None else line.strip()
        if len(token) < _SHORTEST:
            return
        number = self._tokens[session] = self._tokens.get(session, 0) + 1
        self.add(token, _SHORTEST_SEEN)
        try:
            decoded = base64.b64decode(token, validate=True)
        except (binascii.Error, ValueError):
            return
        if b"\0" in decoded:
            self.add(decoded.rpartition(b"\0")[2])
        elif number > 1:  # the first of LOGIN is the user's name
            self.add(decoded, _SHORTEST_SEEN)

    def redact(self, value: Any) -> Any:
        """Return a value, and all text in it, without the secrets."""
        if isinstance(value, str):
            octets = value.encode("utf-8", "surrogatepass")
            cleaned = self.redact_octets(octets)
            return value if cleaned is octets else cleaned.decode("utf-8", "replace")
        if isinstance(value, dict):
            return {self.redact(key): self.redact(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(self.redact, value))
        if is_dataclass(value) and not isinstance(value, type):
            before = {field.name: getattr(value, field.name) for field in fields(value)}
            return replace(value, **after) if (after := self.redact_fields(before)) != before else value
        return value

    def redact_fields(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of an event without the secrets; words of the harness stay as they are."""
        return {name: value if name in _NAMES else self.redact(value) for name, value in values.items()}

    def redact_octets(self, octets: bytes) -> bytes:
        """Return octets without the secrets; the same object where there are none in it."""
        if self._pattern is None or self._pattern.search(octets) is None:
            return octets
        pieces: list[bytes] = []
        done = 0
        for match in self._pattern.finditer(octets):
            start, end = match.span()
            if match[0] in self._encoded:  # the whole word of Base64
                while start > done and octets[start - 1] in _BASE64:
                    start -= 1
                while end < len(octets) and octets[end] in _BASE64:
                    end += 1
            if end > done:
                pieces += [octets[done : max(start, done)], REDACTED.encode()]
                done = end
        return b"".join([*pieces, octets[done:]])


def _inner(value: bytes, offset: int) -> bytes:
    """Return those characters of Base64 that a value alone decides, where it stands `offset` octets into a group."""
    encoded = base64.b64encode(b"\0" * offset + value)
    return encoded[-(-offset * 8 // 6) : (offset + len(value)) * 8 // 6]
