"""The transport parameters, each declared once for the harness: name, unit, range and documented default.

From here come the file that a node reads and its schema, what editors offer in scenarios and topologies, the table of
docs/node-contract.md, and what a cell's header says was in force. Judging goes by the documents alone, and so
states the defaults that it needs by itself (`conformance.judge.parameters`); a test compares them with these.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

_TIME, _OCTETS, _OWN = "s", "octets", "left to the server's own timers"
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), _TIME]
SecondsOrNone = Annotated[float, Field(ge=0, allow_inf_nan=False), _TIME]
Attempts = Annotated[int, Field(ge=0, le=255)]
OwnTimer = Annotated[Seconds, _OWN]
"""A time that a node is not told where a scenario has `timers: own`."""


class TransportParameters(BaseModel):
    """The transport parameters, under their documented names. The default of a time is divided by `scale`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    ShadowRedundancyEnabled: bool = True
    RejectMessageOnShadowFailure: bool = False
    ShadowMessagePreferenceSetting: Literal["PreferRemote", "LocalOnly", "RemoteOnly"] = "PreferRemote"
    MaxRetriesForRemoteSiteShadow: Attempts = 4
    MaxRetriesForLocalSiteShadow: Attempts = 2
    ShadowHeartbeatFrequency: Seconds = 120
    ShadowResubmitTimeSpan: Seconds = 10800
    ShadowMessageAutoDiscardInterval: Seconds = 172800
    SafetyNetHoldTime: Seconds = 172800
    MessageExpirationTimeout: OwnTimer = 172800
    ShadowHeartbeatTimeoutInterval: Seconds = 300
    ShadowHeartbeatRetryCount: int = Field(3, ge=1, le=255)
    MaxAcknowledgementDelay: SecondsOrNone = 30
    SendConnectionInactivityTimeout: OwnTimer = 600
    DuplicateTrackingWindow: Seconds = 3600
    DuplicateCleanupInterval: Seconds = 600
    MessageRetryInterval: OwnTimer = 60
    MaxMessageSize: Annotated[int, _OCTETS] = Field(36700160, ge=1024)


LISTENER_LIMITS: dict[str, dict[str, float]] = {
    "edge": {"connection_timeout": 300, "connection_inactivity_timeout": 60},
    "": {"connection_timeout": 600, "connection_inactivity_timeout": 300},
}
"""Default limits of a receive connector by role, seconds (SR-TMO-06, SR-TMO-07)."""

DEFAULTS: Mapping[str, Any] = TransportParameters().model_dump()
"""Every transport parameter with its documented default (seconds, octets)."""


def _marked(mark: str) -> tuple[str, ...]:
    return tuple(name for name, field in TransportParameters.model_fields.items() if mark in field.metadata)


TIME_PARAMETERS = frozenset([*_marked(_TIME), *LISTENER_LIMITS[""]])
"""The parameters, and limits of listeners, that are times: a scaled clock divides them."""

OWN_TIMER_PARAMETERS = _marked(_OWN)
"""The parameters that a node is not told under `timers: own`; each then goes by its own default."""


def effective_parameters(of_all: Mapping[str, Any], of_server: Mapping[str, Any]) -> dict[str, Any]:
    """Return every parameter of a server, of what a topology says of all servers and of this one: documented seconds."""
    return {**DEFAULTS, **of_all, **of_server}


def parameter_table() -> str:
    """Return the parameters as a table of the documentation."""
    lines = ["| parameter | unit | range | documented default |", "|---|---|---|---|"]
    for name, field in TransportParameters.model_fields.items():
        default = str(field.default).lower() if isinstance(field.default, bool) else field.default
        lines.append(f"| `{name}` | {_unit(field)} | {_range(field)} | {default} |")
    return "\n".join(lines) + "\n"


def editor_schema() -> dict[str, Any]:
    """Return the names as a part of a JSON Schema of what may be set: any value may be offered to a node."""
    described = {
        name: {"description": f"{_unit(field)}; {_range(field)}; documented default: {field.default}"}
        for name, field in TransportParameters.model_fields.items()
    }
    return {"properties": described}


def _unit(field: FieldInfo) -> str:
    known = {_TIME: "seconds", _OCTETS: "octets"}
    plain = "number" if field.annotation is int else "yes or no" if field.annotation is bool else "word"
    return next((known[mark] for mark in field.metadata if isinstance(mark, str) and mark in known), plain)


def _range(field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{word}`" for word in get_args(field.annotation))
    if field.annotation is bool:
        return "`true`, `false`"
    words = {"gt": "above", "ge": "at least", "le": "at most"}
    bounds = [(word, getattr(bound, name, None)) for bound in field.metadata for name, word in words.items()]
    return ", ".join(f"{word} {number}" for word, number in bounds if number is not None)
