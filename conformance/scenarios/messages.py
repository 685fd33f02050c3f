"""Makes the messages that scenarios send: from the templates of fixtures/messages, the same octets every time."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from email.utils import format_datetime
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from conformance import paths
from conformance.scenarios.errors import InvalidFile, ProblemReport
from conformance.scenarios.fixtures import load_node
from conformance.scenarios.validation import validate

DOMAIN = "harness.test"
"""The right side of every Message-ID that is made here."""

_LINE = 76
_UNFIT = re.compile(r"[^A-Za-z0-9-]+")


class Template(BaseModel):
    """A message of fixtures/messages: what stands in its header beside the usual fields, and its body.

    The body is either `body`, a text whose lines end with CRLF on the wire, or `octets`, which goes out as it is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = Field(description="what is particular about it")
    headers: dict[str, str | None] = Field({}, description="header fields to set, or (null) to leave out")
    charset: Literal["us-ascii", "utf-8", "latin-1"] = "us-ascii"
    body: str | None = Field(None, description="the body's text")
    octets: str | None = Field(None, description="the body's octets, line ends as written")
    token: bool = Field(True, description="put a line with a unique token before the body")
    raw: bool = Field(False, description="send it without dot-stuffing (RFC 5321 4.5.2): the attack is in its dots")

    @model_validator(mode="after")
    def _one_body(self) -> "Template":
        if (self.body is None) == (self.octets is None):
            raise ValueError("a message has either `body` or `octets`")
        if self.raw and (b"\r\n.\r\n" in self.content() or not self.content().endswith(b"\r\n")):
            raise ValueError("`raw` octets end with CRLF, and hold no CRLF . CRLF: that would end the message")
        return self

    def content(self) -> bytes:
        """Return the body's octets."""
        text = self.octets if self.body is None else self.body.replace("\n", "\r\n")
        return (text or "").encode(self.charset)


@lru_cache(maxsize=64)
def load_template(name: str, fixtures: Path | None = None) -> Template:
    """Return a template by name; `fixtures` is the directory of the fixtures (default: the harness's).

    Raises Problems when its file is wrong, FileNotFoundError when there is none.
    """
    path = (fixtures or paths.fixtures()) / "messages" / f"{name}.yaml"
    report = ProblemReport(str(path))
    node = load_node(path, report)
    found = validate(Template, node, report) if node else None
    if found is None or report.problems:
        raise InvalidFile(report.problems)
    return found


def build_message(
    name: str,
    *,
    message: str,
    sequence: int,
    seed: int,
    sender: str,
    recipients: Sequence[str],
    date: datetime,
    headers: Mapping[str, str | None] | None = None,
    size: int | None = None,
    whole: int | None = None,
    scenario: str = "",
    fixtures: Path | None = None,
) -> bytes:
    """Return the content of a message, with CRLF line ends: the same arguments always give the same octets.

    `name` is what the step called it and `sequence` its number there, from 1; `message` is the template's name.
    `date` (aware) becomes the `Date:` field. `headers` are set over the template's; null leaves a field out. The body
    is padded to `size` octets, or so that the message has `whole` octets. Its first line holds a token that no other message of the run has, unless the template
    says otherwise.

    Raises ValueError for a header field that cannot be written or a size below the body's, and what `template` raises.
    """
    form = load_template(message, fixtures)
    identity = ".".join(_slug(part) for part in (f"{name}-{sequence}", scenario, str(seed)) if part)
    token = hashlib.sha256(f"{name} {sequence} {scenario} {seed}".encode()).hexdigest()[:32]
    fields: dict[str, str | None] = {
        "From": f"<{sender or 'mailer-daemon@' + DOMAIN}>",
        "To": ",\r\n ".join(f"<{recipient}>" for recipient in recipients),
        "Subject": f"{name} {sequence}" + (f" of {scenario}" if scenario else ""),
        "Date": format_datetime(date),
        "Message-ID": f"<{identity}@{DOMAIN}>",
        "MIME-Version": "1.0",
    }
    header = b"".join(_field(key, value) for key, value in _merged(fields, form.headers, headers or {}).items())
    body = (f"token {token}\r\n".encode() if form.token else b"") + form.content()
    if whole is not None:
        size = whole - len(header) - 2
    return header + b"\r\n" + _padded(body, size, token)


def _slug(text: str) -> str:
    return _UNFIT.sub("-", text).strip("-")[:80]


def _merged(*layers: Mapping[str, str | None]) -> dict[str, str]:
    """Return header fields, later layers over earlier ones, whatever their case; those that are null fall out."""
    merged: dict[str, tuple[str, str | None]] = {}
    for layer in layers:
        for key, value in layer.items():
            merged[key.lower()] = (key, value)
    return {key: value for key, value in merged.values() if value is not None}


def _field(name: str, value: str) -> bytes:
    if re.search(r"[\r\n](?!\n? )|[^\x01-\x7f]", value) or not re.fullmatch(r"[!-9;-~]+", name):
        raise ValueError(f"the header field {name!r} cannot be written as {value!r}")
    return f"{name}: {value}\r\n".encode("ascii")


def _padded(body: bytes, size: int | None, token: str) -> bytes:
    missing = 0 if size is None else size - len(body)
    if missing < 0 or missing == 1:
        raise ValueError(f"a body of {len(body)} octets cannot be padded to {size}")
    line = (token * 3)[:_LINE].encode() + b"\r\n"
    count, rest = divmod(missing, len(line))
    if rest == 1:
        count, rest = count - 1, rest + len(line)
    last = (token * 3)[: rest - 2].encode() + b"\r\n" if rest else b""
    return body + line * count + last
