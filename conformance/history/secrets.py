"""Replaces secrets in what is recorded: passwords of the configuration, and what clients sent in AUTH (RFC 4954).

Theory of operation
-------------------
Secrets are found by their value wherever they occur. Parsing AUTH alone is not enough: a server may echo what it was sent, or
refuse a command that was sent together with the secret. Each secret is searched for in several encodings: plain, hexadecimal,
percent-encoded, escaped as in JSON and in HTML, and in Base64 at each of the three offsets that it can have in a group of
three octets (AUTH PLAIN encodes it behind the user's name, RFC 4616). One regular expression has all of them.

In Base64 the characters at the edges of a secret depend on the octets beside it, so only the inner characters are searched
for; when they are found, the whole Base64 word around them is replaced.

The recorder (`conformance.history.recorder`) has the `Secrets` of a cell and applies them to each event. A *response* is
what a client sends in AUTH, Base64 as a rule: with the command, or as a line of its own.
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

_MIN_OCTETS = 4
"""Length of a secret; a shorter one would match ordinary words."""
_MIN_OCTETS_SEEN = 8
"""Length of what is only taken for a secret because a client sent it in AUTH."""

_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
_AUTH = re.compile(rb"\s*AUTH\s+(\S+)(?:\s+(\S+))?\s*", re.IGNORECASE)
_HARNESS_FIELDS = frozenset(
    ("node", "session", "client", "server", "listener", "sink", "giver", "verb", "to", "action", "path", "label", "message",
     "conversation", "command", "fault", "by", "how", "phase", "links", "sender")
)  # fmt: skip
"""Fields of events that hold only words of the harness itself; a secret that equals one of them is not replaced."""


class Secrets:
    """The secrets known so far; false when there are none.

    `_values` are the secrets and their encodings other than Base64, `_encoded` their inner Base64 characters,
    `_pattern` matches any of these. `_responses` counts the responses since the last AUTH command of each session.
    """

    def __init__(self) -> None:
        self._values: set[bytes] = set()
        self._encoded: set[bytes] = set()
        self._pattern: re.Pattern[bytes] | None = None
        self._responses: dict[str, int] = {}

    def __bool__(self) -> bool:
        """Whether any secret is known."""
        return self._pattern is not None

    def add(self, secret: str | bytes, min_octets: int = _MIN_OCTETS) -> None:
        """Add a secret that `redact` replaces from now on, in all its encodings; one of fewer than `min_octets` octets is ignored."""
        value = secret.encode() if isinstance(secret, str) else secret
        if len(value) < min_octets or value in self._values:
            return
        text = value.decode("utf-8", "replace")
        quoted = quote(value, safe="")
        in_lower_case = re.sub("%[0-9A-F]{2}", lambda octet: octet[0].lower(), quoted)
        self._values |= {value, value.hex().encode(), value.hex().upper().encode()}
        self._values |= {quoted.encode(), in_lower_case.encode(), html.escape(text).encode()}
        self._values |= {json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode() for ascii_only in (True, False)}
        self._encoded |= {part for offset in range(3) if len(part := _inner_base64(value, offset)) >= _MIN_OCTETS}
        patterns = (*self._values, *self._encoded)
        self._pattern = re.compile(b"|".join(map(re.escape, sorted(patterns, key=len, reverse=True))))

    def add_from_auth_line(self, line: bytes, session: str) -> None:
        """Add the secrets of one line that a client sent in AUTH: the command with its initial response, or a later response.

        The response is a secret as it was sent. If it is Base64, what it decodes to gives another: the part after its last NUL (the
        password of PLAIN), or without a NUL all of it, unless it is the first response of its AUTH command (the user's name of
        LOGIN). Responses of fewer than _MIN_OCTETS octets are ignored, and `add` ignores short secrets. `session` is the name of the
        session, in which responses are counted. The caller passes only lines of AUTH.
        """
        command = _AUTH.fullmatch(line)
        if command is not None:
            self._responses[session] = 0
        response = (command[2] or b"") if command is not None else line.strip()
        if len(response) < _MIN_OCTETS:
            return
        number = self._responses[session] = self._responses.get(session, 0) + 1
        self.add(response, _MIN_OCTETS_SEEN)
        try:
            decoded = base64.b64decode(response, validate=True)
        except (binascii.Error, ValueError):
            return
        if b"\0" in decoded:
            self.add(decoded.rpartition(b"\0")[2])
        elif number > 1:  # the first response of LOGIN is the user's name
            self.add(decoded, _MIN_OCTETS_SEEN)

    def redact(self, value: Any) -> Any:
        """Return a value with the secrets in its text replaced; looks into dicts (also their keys), lists, tuples and dataclasses.

        A value of another type is returned as it is, bytes too. The given value is not changed.
        """
        if isinstance(value, str):
            octets = value.encode("utf-8", "surrogatepass")
            cleaned = self.redact_octets(octets)
            return value if cleaned is octets else cleaned.decode("utf-8", "replace")
        if isinstance(value, dict):
            return {self.redact(key): self.redact(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(self.redact, value))
        if is_dataclass(value) and not isinstance(value, type):
            before = {field.name: getattr(value, field.name) for field in fields(value)}
            return replace(value, **after) if (after := self.redact_fields(before)) != before else value
        return value

    def redact_fields(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of an event, by their names, with the secrets replaced, except in _HARNESS_FIELDS."""
        return {name: value if name in _HARNESS_FIELDS else self.redact(value) for name, value in values.items()}

    def redact_octets(self, octets: bytes) -> bytes:
        """Return octets with each secret replaced by `(redacted)`; the same object where they contain none."""
        if self._pattern is None or self._pattern.search(octets) is None:
            return octets
        pieces: list[bytes] = []
        done = 0
        for match in self._pattern.finditer(octets):
            start, end = match.span()
            if match[0] in self._encoded:  # replace the whole Base64 word
                while start > done and octets[start - 1] in _BASE64:
                    start -= 1
                while end < len(octets) and octets[end] in _BASE64:
                    end += 1
            if end > done:
                pieces += [octets[done : max(start, done)], REDACTED.encode()]
                done = end
        return b"".join([*pieces, octets[done:]])


def _inner_base64(value: bytes, offset: int) -> bytes:
    """Return the Base64 characters that depend on `value` alone, where it begins `offset` octets into a group of three."""
    # a Base64 character has 6 bits: the first counted begins in `value` (-(-x // 6) rounds up), the last ends in it
    encoded = base64.b64encode(b"\0" * offset + value)
    return encoded[-(-offset * 8 // 6) : (offset + len(value)) * 8 // 6]
