"""Defects in checking the configuration."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from conformance.reference.config import Listener, Listeners, NodeConfiguration, Transport
from conformance.reference.defects.defect import defect


class Unlimited(Listener):
    """A listener whose limits need not fit each other."""

    @model_validator(mode="after")
    def _age_exceeds_idleness(self) -> "Unlimited":
        return self


class UnlimitedListeners(Listeners):
    """Listeners that are such."""

    frontend: Unlimited | None = None
    transport: Unlimited | None = None
    delivery: Unlimited | None = None


@defect("takes-limits-that-contradict", breaks="SR-CFG-01", part="configuration")
class TakesLimitsThatContradict(NodeConfiguration):
    """Takes a ConnectionTimeout that is not greater than the ConnectionInactivityTimeout."""

    listeners: UnlimitedListeners


class NamesOneLimit(Listener):
    """A listener that tells of one limit when two contradict each other."""

    @model_validator(mode="after")
    def _age_exceeds_idleness(self) -> "NamesOneLimit":
        if self.connection_timeout <= self.connection_inactivity_timeout:
            raise ValueError("connection_timeout is too small")
        return self


class ListenersThatNameOne(Listeners):
    """Listeners that are such."""

    frontend: NamesOneLimit | None = None
    transport: NamesOneLimit | None = None
    delivery: NamesOneLimit | None = None


@defect("names-one-limit-of-two", breaks="SR-CFG-01", part="configuration")
class NamesOneOfTwo(NodeConfiguration):
    """Names only the ConnectionTimeout when it refuses one that is not greater than the ConnectionInactivityTimeout."""

    listeners: ListenersThatNameOne


class AnyPreference(Transport):
    """Parameters in which LocalOnly goes with any number of remote attempts."""

    @model_validator(mode="after")
    def _local_only_tries_no_remote_site(self) -> "AnyPreference":
        return self


@defect("takes-local-only-with-remote-attempts", breaks="SR-CFG-02", part="configuration")
class TakesLocalOnlyWithRemoteAttempts(NodeConfiguration):
    """Takes LocalOnly with MaxRetriesForRemoteSiteShadow above 0."""

    transport: AnyPreference = AnyPreference()


class NoLocalOnly(Transport):
    """Parameters that cannot be LocalOnly."""

    @model_validator(mode="after")
    def _local_only_tries_no_remote_site(self) -> "NoLocalOnly":
        if self.ShadowMessagePreferenceSetting == "LocalOnly":
            raise ValueError("ShadowMessagePreferenceSetting LocalOnly contradicts MaxRetriesForRemoteSiteShadow")
        return self


@defect("refuses-local-only", breaks="SR-CFG-02", part="configuration")
class RefusesLocalOnly(NodeConfiguration):
    """Refuses LocalOnly also together with a MaxRetriesForRemoteSiteShadow of 0."""

    transport: NoLocalOnly = NoLocalOnly()


class OpenTransport(Transport):
    """Parameters among which there may be others."""

    model_config = ConfigDict(extra="ignore")


@defect("ignores-unknown-parameters", breaks="SR-CFG-03", part="configuration")
class IgnoresUnknownParameters(NodeConfiguration):
    """Passes over a parameter that there is not."""

    transport: OpenTransport = OpenTransport()
    model_config = ConfigDict(extra="ignore")


class AnyNumber(Transport):
    """Parameters some of which may be any number."""

    MaxRetriesForLocalSiteShadow: int = 2
    ShadowHeartbeatRetryCount: int = 3
    SendConnectionInactivityTimeout: Annotated[float, Field(allow_inf_nan=False)] = 600


@defect("takes-negative-numbers", breaks="SR-CFG-03", part="configuration")
class TakesNegativeNumbers(NodeConfiguration):
    """Takes a number of attempts, and a time to wait, below nothing."""

    transport: AnyNumber = AnyNumber()


@defect("drops-what-is-wrong-in-a-change", breaks="SR-CFG-03", part="configuration")
class DropsWhatIsWrong(NodeConfiguration):
    """Leaves out of a change what is wrong in it, and takes the rest."""

    @model_validator(mode="wrap")
    @classmethod
    def _right_part(cls, document: Any, handler: ModelWrapValidatorHandler["DropsWhatIsWrong"]) -> "DropsWhatIsWrong":
        try:
            return handler(document)
        except ValidationError as error:
            wrong = {str(one["loc"][-1]) for one in error.errors() if one["loc"]}
            return handler(_without(document, wrong))


def _without(value: Any, wrong: set[str]) -> Any:
    """Return a document without the keys of those names, at any depth."""
    if isinstance(value, dict):
        return {key: _without(inner, wrong) for key, inner in value.items() if key not in wrong}
    return value
