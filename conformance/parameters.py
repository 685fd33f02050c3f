"""The transport parameters: name, unit, range and documented default of each, declared once for the harness.

From these declarations come the configuration file of a node and its schema, the names that editors complete in scenarios and
topologies, the table in docs/node-contract.md, and the parameters in a cell's header. The judge states the defaults that it
needs a second time (`conformance.trace.parameters`), and a test compares them: a mistake here must not hide a violation.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

_TIME, _OCTETS, _OWN = "s", "octets", "own timer"
"""Marks in the metadata of a field: a time in seconds, a size in octets, a time that `timers: own` leaves to the server."""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), _TIME]
SecondsOrNone = Annotated[float, Field(ge=0, allow_inf_nan=False), _TIME]
Attempts = Annotated[int, Field(ge=0, le=255)]
OwnTimer = Annotated[Seconds, _OWN]
"""A time that is left out of a node's configuration in scenarios with `timers: own`."""


class TransportParameters(BaseModel):
    """The transport parameters under their documented names; times in seconds, which a scaled clock divides."""

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
"""Default limits of a receive connector in seconds, by the server's role; '' for the other roles (SR-TMO-06, SR-TMO-07)."""

DEFAULTS: Mapping[str, Any] = TransportParameters().model_dump()
"""The documented default of every transport parameter, in seconds or octets."""


def _names_marked(mark: str) -> tuple[str, ...]:
    """Return the names of the parameters whose metadata has a mark."""
    return tuple(name for name, field in TransportParameters.model_fields.items() if mark in field.metadata)


TIME_PARAMETERS = frozenset([*_names_marked(_TIME), *LISTENER_LIMITS[""]])
"""The parameters, and the limits of listeners, that are times: a scaled clock divides them."""

OWN_TIMER_PARAMETERS = _names_marked(_OWN)
"""The parameters left out of a node's configuration with `timers: own`: the server uses its own defaults."""


def effective_parameters(all_servers: Mapping[str, Any], one_server: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of every parameter of a server: its own setting, else that of all servers, else the default."""
    return {**DEFAULTS, **all_servers, **one_server}


def parameter_table() -> str:
    """Return the parameters as the Markdown table of docs/node-contract.md."""
    lines = ["| parameter | unit | range | documented default |", "|---|---|---|---|"]
    for name, field in TransportParameters.model_fields.items():
        default = str(field.default).lower() if isinstance(field.default, bool) else field.default
        lines.append(f"| `{name}` | {_unit(field)} | {_range(field)} | {default} |")
    return "\n".join(lines) + "\n"


def editor_schema() -> dict[str, Any]:
    """Return a part of a JSON Schema that lets editors complete the names.

    It restricts no value: a scenario may offer a node a wrong one, to see it refused.
    """
    described = {
        name: {"description": f"{_unit(field)}; {_range(field)}; documented default: {field.default}"}
        for name, field in TransportParameters.model_fields.items()
    }
    return {"properties": described}


def _unit(field: FieldInfo) -> str:
    """Return `seconds`, `octets`, or the kind of value that a parameter without a unit has."""
    units = {_TIME: "seconds", _OCTETS: "octets"}
    kind = "number" if field.annotation is int else "yes or no" if field.annotation is bool else "word"
    return next((units[mark] for mark in field.metadata if isinstance(mark, str) and mark in units), kind)


def _range(field: FieldInfo) -> str:
    """Return the allowed values in words: a list of words, or bounds (`at least 1, at most 255`)."""
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{word}`" for word in get_args(field.annotation))
    if field.annotation is bool:
        return "`true`, `false`"
    words = {"gt": "above", "ge": "at least", "le": "at most"}
    bounds = [(word, getattr(bound, name, None)) for bound in field.metadata for name, word in words.items()]
    return ", ".join(f"{word} {number}" for word, number in bounds if number is not None)
