"""Splits the arguments of MAIL and RCPT, and checks the parameters of DSN in them (RFC 3461).

An argument is `FROM:<path> KEY=value ...` or `TO:<path> KEY=value ...` (RFC 5321 4.1.1.11). `Receiver` (session.py) takes the
parameters that aiosmtpd does not know out of it; aiosmtpd refuses what is left with 555.
"""

import re

MAIL_PARAMETERS = frozenset({"RET", "ENVID", "XSHADOW", "SMTPUTF8"})
"""The parameters of MAIL that the receiver handles itself."""

RCPT_PARAMETERS = frozenset({"NOTIFY", "ORCPT"})
"""The parameters of RCPT that the receiver handles itself."""

_NOTIFY_WORDS = frozenset({"SUCCESS", "FAILURE", "DELAY"})


_PATH = re.compile(r'(?:[^">]|"(?:\\.|[^"\\])*")*>')


def _path_and_rest(arg: str) -> tuple[str, str]:
    """Split an argument behind the `>` of its path; one in a quoted local part is part of that. Without a `>` all of it is the path."""
    match = _PATH.match(arg)
    return (arg, "") if match is None else (match[0], arg[match.end() :])


def split_parameters(arg: str) -> tuple[str, dict[str, str]]:
    """Split `FROM:<path> KEY=value ...` into the path with its prefix and the parameters by upper-case key.

    A parameter without `=` has the value "". Without a `>` all of `arg` is the path; of a parameter given twice the last value
    counts.
    """
    path, rest = _path_and_rest(arg)
    parameters = (word.partition("=") for word in rest.split())
    return path, {key.upper(): value for key, _, value in parameters}


def without_parameters(path: str, parameters: dict[str, str], handled: frozenset[str]) -> str:
    """Return a path and its parameters, which `split_parameters` has split, as an argument again, without the parameters in `handled`."""
    rest = [f"{key}={value}" if value else key for key, value in parameters.items() if key not in handled]
    return " ".join([path, *rest])


def has_invalid_mail_parameter(arg: str) -> bool:
    """Return whether the argument of MAIL has RET or ENVID twice, or RET with another value than FULL and HDRS (RFC 3461 5.1)."""
    words = [word.upper().partition("=") for word in _path_and_rest(arg)[1].split()]
    keys = [key for key, _, _ in words if key in ("RET", "ENVID")]
    return len(keys) > len(set(keys)) or any(key == "RET" and value not in ("FULL", "HDRS") for key, _, value in words)


def has_invalid_rcpt_parameter(arg: str) -> bool:
    """Return whether the argument of RCPT has NOTIFY or ORCPT twice, or one of them malformed (RFC 3461 4.1, 4.2).

    NOTIFY is NEVER, or SUCCESS, FAILURE and DELAY in any selection; ORCPT is a type of address, `;` and the address.
    """
    words = [word.upper().partition("=") for word in _path_and_rest(arg)[1].split()]
    keys = [key for key, _, _ in words if key in RCPT_PARAMETERS]
    values = {key: value for key, _, value in words}
    notify, (kind, _, address) = values.get("NOTIFY", "NEVER"), values.get("ORCPT", "rfc822;-").partition(";")
    is_notify = notify == "NEVER" or set(notify.split(",")) <= _NOTIFY_WORDS
    return len(keys) > len(set(keys)) or not is_notify or not kind or not address
