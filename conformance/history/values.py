"""The values within events: what a line means for shadow redundancy, the digest of a content, an exchange of a conversation.

All recorded values are dataclasses, and Pydantic checks them when a stored history is read, not when they are made: a cell
has thousands of them, and a dataclass with slots takes a tenth of the memory of a model.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeVar, dataclass_transform

from pydantic import ConfigDict, Field

Listener = Literal["frontend", "transport", "delivery", "smtp", "lmtp"]
"""What a client connected to: one of a node's listeners (the first three), or the protocol of a sink."""

OperationName = Literal[
    "request-shadow", "track-shadow", "shadow-message", "shadow-stored", "query-discard", "discard-list"
]

R = TypeVar("R")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def recorded(value_type: type[R]) -> type[R]:
    """Make a class a dataclass of recorded values, which type checkers take for frozen, and return it.

    The class is not frozen at run time: a frozen dataclass takes four times as long to make, and a run of weeks has 300,000
    values of heartbeats.
    """
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(value_type)


@recorded
class RecordedValue:
    """The base class of all recorded values. Reading one refuses unknown fields, infinities and NaN."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", allow_inf_nan=False)


@recorded
class Operation(RecordedValue):
    """What a command or reply means for shadow redundancy, however a server's dialect spells it (wire-profile.md).

    The fields that an operation does not have are None or empty.

    - `request-shadow`: XSHADOWREQUEST and its 250; `server` and `database` name the party that spoke
    - `track-shadow`: XSHADOW and its 250, likewise
    - `shadow-message`: MAIL with XSHADOW=; `shadow_id`
    - `shadow-stored`: the 250 after the final dot of a shadow message; `shadow_id`
    - `query-discard`: XQDISCARD; `server` queries, for at most `limit` notifications
    - `discard-list`: the 250 to `query-discard`; `database` is the primary's, `shadow_ids` may be discarded, as many as `left`
      are not listed yet
    """

    name: OperationName
    server: str | None = None
    database: str | None = None
    shadow_id: str | None = None
    shadow_ids: tuple[str, ...] = ()
    limit: int | None = None
    left: int | None = None


@recorded
class Digest(RecordedValue):
    """What is recorded of a message's content: size in octets, hashes (SHA-256 in hex), and what identifies the message.

    `sha256` is of the whole content, `body_sha256` of the body. `stable_sha256` leaves out the trace fields (Received,
    Return-Path, Delivered-To, X-Original-To), so it is the same at every hop that passes content on unchanged (RFC 5321
    4.4, 6.4).
    """

    size: int
    sha256: str
    body_sha256: str
    stable_sha256: str
    message_id: str | None = None
    date: str | None = None
    report: Literal["delivery-status", "journal"] | None = None
    about: Annotated[str | None, Field(description="Message-ID of the message that a report is about")] = None
    action: Annotated[str | None, Field(description="the Action field of a delivery-status report (RFC 3464)")] = None
    failed: Annotated[
        tuple[str, ...], Field(description="recipients for whom a delivery-status report says that delivery failed")
    ] = ()
    received: Annotated[
        int, Field(description="how many Received fields the header has; 0 in histories before 0.2")
    ] = 0
    reported: Annotated[
        tuple[str, ...], Field(description="each recipient of a delivery-status report as `ACTION ADDRESS`")
    ] = ()
    envelope_id: Annotated[str | None, Field(description="the Original-Envelope-Id of a delivery-status report")] = None
    originals: Annotated[
        tuple[str, ...], Field(description="the Original-Recipient fields of a delivery-status report")
    ] = ()
    form_problem: Annotated[
        str, Field(description="what a multipart/report lacks of the form of RFC 3464; empty in histories before 0.3")
    ] = ""
    returned: Annotated[
        Literal["message", "header"] | None, Field(description="what a delivery-status report returns of the message")
    ] = None
    eight_bit: Annotated[bool, Field(description="an octet of it is above 127")] = False


@recorded
class TalkExchange(RecordedValue):
    """One exchange of a `talk`: the line that was said, and the reply.

    Without a reply `code` is None and `text` the reason; `closed`: the server ended the session instead of replying.
    """

    said: str
    code: int | None = None
    enhanced: str | None = None
    text: str = ""
    closed: bool = False
    waited: Annotated[
        float | None, Field(description="seconds, documented time, from the line (after its own wait) to the reply")
    ] = None
