"""The address and the parameters of MAIL and RCPT, as a sink takes them."""

import re

MAX_MESSAGE = 64 * 1024 * 1024
"""Octets of the largest message that a sink accepts: above any MaxMessageSize of a node."""

_PATH = re.compile(
    r'\s*(?:<(?:@[^:<>]*:)?(?P<path>(?:"(?:[^"\\]|\\.)*"|[^\s"<>])*)>|(?P<bare>[^\s<>]+))(?:\s+(?P<parameters>.*))?',
    re.DOTALL,
)

_PARAMETERS = {
    "SIZE": ("MAIL", "SIZE"),
    "BODY": ("MAIL", "8BITMIME"),
    "RET": ("MAIL", "DSN"),
    "ENVID": ("MAIL", "DSN"),
    "SMTPUTF8": ("MAIL", "SMTPUTF8"),
    "NOTIFY": ("RCPT", "DSN"),
    "ORCPT": ("RCPT", "DSN"),
}
"""The command of each parameter, and the extension that it belongs to."""


def parse_address(verb: str, keyword: str, rest: str, offered: frozenset[str]) -> tuple[str, str | None]:
    """Return the address after `keyword` (`FROM:`, `TO:`) in the rest of a command and None, or "" and the reply that refuses it.

    The address of `<>` is ''. A malformed address is refused, and each parameter that is malformed or belongs to no
    extension in `offered`.
    """
    if rest[: len(keyword)].upper() != keyword:
        return "", f"501 5.5.4 {verb} {keyword}<address>"
    match = _PATH.fullmatch(rest[len(keyword) :])
    if match is None:
        return "", "553 5.1.3 the address is malformed"
    for parameter in (match["parameters"] or "").upper().split():
        name, _, value = parameter.partition("=")
        command, extension = _PARAMETERS.get(name, ("", ""))
        if command != verb or extension not in offered:
            return "", f"555 5.5.4 {name} was not offered"
        if name == "BODY" and value not in ("7BIT", "8BITMIME"):
            return "", "501 5.5.4 BODY is 7BIT or 8BITMIME"
        if name == "SIZE" and not value.isdecimal():
            return "", "501 5.5.4 SIZE is a number of octets"
        if name == "SIZE" and (len(value) > 15 or int(value) > MAX_MESSAGE):
            return "", "552 5.3.4 the message is too large"
    return match["bare"] or match["path"] or "", None
