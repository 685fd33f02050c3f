"""Build the messages that scenarios send from the templates of fixtures/messages; equal arguments give equal octets.

A *template* says what is special about a message: its body, and header fields. The *token* is a hash in the first line of the
body. It differs between the messages of a cell, and between scenarios; the cells of one scenario have the same tokens. The sender
of the harness calls `build_message` for each message of a step.
"""

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
"""The domain of every Message-ID that is built here."""

_LINE_LENGTH = 76
_NOT_IN_MESSAGE_ID = re.compile(r"[^A-Za-z0-9-]+")


class Template(BaseModel):
    """A message of fixtures/messages: its body, and header fields in addition to the usual ones.

    The body is either `body`, a text whose lines will end with CRLF, or `octets`, which are sent as they are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = Field(description="what is special about the message")
    headers: dict[str, str | None] = Field({}, description="header fields to set, or (null) to leave out")
    charset: Literal["us-ascii", "utf-8", "latin-1"] = "us-ascii"
    body: str | None = Field(None, description="the body's text")
    octets: str | None = Field(None, description="the body's octets, line ends as written")
    repeat: int = Field(1, ge=1, le=100_000, description="how many times `body` or `octets` are in the body")
    token: bool = Field(True, description="begin the body with a line that has a unique token")
    hops: int = Field(0, ge=0, le=1000, description="how many Received fields it begins with")
    references: int = Field(0, ge=0, le=5000, description="how many Message-IDs of 70 octets a References field has")
    raw: bool = Field(False, description="send without dot-stuffing (RFC 5321 4.5.2), for attacks by lines with dots")

    @model_validator(mode="after")
    def _check_body(self) -> "Template":
        """Raise ValueError without exactly one of `body` and `octets`, and for raw content that cannot be sent.

        That is content that would end the message early, or does not end with CRLF.
        """
        if (self.body is None) == (self.octets is None):
            raise ValueError("a message has either `body` or `octets`")
        if self.raw and (b"\r\n.\r\n" in self.content() or not self.content().endswith(b"\r\n")):
            raise ValueError("`raw` octets end with CRLF, and hold no CRLF . CRLF: that would end the message")
        return self

    def content(self) -> bytes:
        """Return the octets of the body, without the token's line. Raises UnicodeEncodeError for what `charset` cannot encode."""
        text = self.octets if self.body is None else self.body.replace("\n", "\r\n")
        return ((text or "") * self.repeat).encode(self.charset)


@lru_cache(maxsize=64)
def load_template(name: str, fixtures: Path | None = None) -> Template:
    """Return a template by name, cached; `fixtures` is the directory of the fixtures (default: the harness's).

    Raises InvalidFile, also where there is no such file.
    """
    path = (fixtures or paths.fixtures()) / "messages" / f"{name}.yaml"
    report = ProblemReport(str(path))
    node = load_node(path, report)
    form = validate(Template, node, report) if node else None
    if form is None or report.problems:
        raise InvalidFile(report.problems)
    return form


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
    """Return the content of a message, header and body, with CRLF line ends; the `octets` of a template keep their own.

    `message` is the template's name. `name` is the step's name for the messages that it sends and `sequence` the number of
    this one, from 1; its Message-ID and token are made of these, `seed` and `scenario`. `sender` ('': none) and `recipients` are
    the addresses in From and To. `date` must be aware. `headers` override fields of the template; None leaves a field out. The body is
    padded to `size` octets, or so that the whole content has `whole` octets, which takes precedence; None: no padding.

    Raises ValueError for an invalid header field, a body that the template's charset cannot encode, or a size that padding cannot
    reach; what `load_template` raises.
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
    if form.references:
        fields["References"] = "\r\n ".join(f"<{n:0>56}@{DOMAIN}>" for n in range(form.references))
    trace = b"".join(
        _format_field("Received", f"from hop{n}.test by hop{n + 1}.test; {fields['Date']}")
        for n in range(form.hops, 0, -1)
    )
    header = trace + b"".join(
        _format_field(key, value) for key, value in _merge_headers(fields, form.headers, headers or {}).items()
    )
    body = (f"token {token}\r\n".encode() if form.token else b"") + form.content()
    if whole is not None:  # less the header and the empty line
        size = whole - len(header) - 2
    return header + b"\r\n" + _pad(body, size, token)


def _slug(text: str) -> str:
    """Return at most 80 characters of a text for a Message-ID: each run of characters that are not allowed becomes one `-`.

    Allowed are letters, digits and hyphens. Hyphens at the ends are removed before the text is cut.
    """
    return _NOT_IN_MESSAGE_ID.sub("-", text).strip("-")[:80]


def _merge_headers(*layers: Mapping[str, str | None]) -> dict[str, str]:
    """Return header fields in which later layers override earlier ones, regardless of case; without those that are None.

    A field stands where the first layer has it, and its name is spelled as in the last one.
    """
    merged: dict[str, tuple[str, str | None]] = {}
    for layer in layers:
        for key, value in layer.items():
            merged[key.lower()] = (key, value)
    return {key: value for key, value in merged.values() if value is not None}


def _format_field(name: str, value: str) -> bytes:
    """Return a header field as a line, which may be folded by CRLF and white space (RFC 5322 2.2.3).

    Raises ValueError for other line ends, NUL and surrogates, and for a malformed name.
    What is not ASCII is written in UTF-8 (RFC 6532).
    """
    if re.search(r"\r\n(?![ \t])|\r(?!\n)|(?<!\r)\n|[\x00\ud800-\udfff]", value) or not re.fullmatch(
        r"[!-9;-~]+", name
    ):
        raise ValueError(f"the header field {name!r} cannot be written as {value!r}")
    return f"{name}: {value}\r\n".encode()


def _pad(body: bytes, size: int | None, token: str) -> bytes:
    """Return a body padded to a size by lines made of a token; unchanged for None. Raises ValueError for a size out of reach."""
    missing = 0 if size is None else size - len(body)
    if missing < 0 or missing == 1:  # the shortest line is CRLF
        raise ValueError(f"a body of {len(body)} octets cannot be padded to {size}")
    line = (token * 3)[:_LINE_LENGTH].encode() + b"\r\n"
    count, remainder = divmod(missing, len(line))
    if remainder == 1:  # no room for CRLF: the last two lines become one
        count, remainder = count - 1, remainder + len(line)
    last = (token * 3)[: remainder - 2].encode() + b"\r\n" if remainder else b""
    return body + line * count + last
