"""Defects in checking the configuration: what is wrong is accepted or half reported, what is right is refused.

The models are pydantic's. A method with `model_validator` that has the name of one in the base class takes its place; it raises
ValueError to refuse the configuration, and otherwise returns it.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from conformance.reference.config import Listener, Listeners, NodeConfiguration, Transport
from conformance.reference.defects.defect import defect


class ListenerWithAnyLimits(Listener):
    """A listener whose timeouts may contradict each other."""

    @model_validator(mode="after")
    def _age_exceeds_idleness(self) -> "ListenerWithAnyLimits":
        """Accept any timeouts; correct is ValueError if connection_timeout is not above connection_inactivity_timeout (SR-CFG-01)."""
        return self


class ListenersWithAnyLimits(Listeners):
    """Listeners whose timeouts may contradict each other."""

    frontend: ListenerWithAnyLimits | None = None
    transport: ListenerWithAnyLimits | None = None
    delivery: ListenerWithAnyLimits | None = None


@defect("takes-limits-that-contradict", breaks="SR-CFG-01", slot="configuration")
class TakesLimitsThatContradict(NodeConfiguration):
    """Takes a ConnectionTimeout that is not greater than the ConnectionInactivityTimeout."""

    listeners: ListenersWithAnyLimits


class ListenersCheckedAtTheFrontend(Listeners):
    """Listeners of which the frontend alone is checked."""

    transport: ListenerWithAnyLimits | None = None
    delivery: ListenerWithAnyLimits | None = None


@defect("checks-limits-of-the-frontend-only", breaks="SR-CFG-01", slot="configuration")
class ChecksLimitsOfTheFrontendOnly(NodeConfiguration):
    """Takes limits that contradict each other at the transport and delivery listeners."""

    listeners: ListenersCheckedAtTheFrontend


class ListenerThatNamesOneLimit(Listener):
    """A listener whose error message names one of two contradicting timeouts."""

    @model_validator(mode="after")
    def _age_exceeds_idleness(self) -> "ListenerThatNamesOneLimit":
        """Raise ValueError for contradicting timeouts, and name only the first of them; correct is a text that names both.

        They contradict each other if the limit of a session's age is not above its limit of idle time.
        """
        if self.connection_timeout <= self.connection_inactivity_timeout:
            raise ValueError("connection_timeout is too small")
        return self


class ListenersThatNameOneLimit(Listeners):
    """Listeners whose error messages name one of two contradicting timeouts."""

    frontend: ListenerThatNamesOneLimit | None = None
    transport: ListenerThatNamesOneLimit | None = None
    delivery: ListenerThatNamesOneLimit | None = None


@defect("names-one-limit-of-two", breaks="SR-CFG-01", slot="configuration")
class NamesOneOfTwo(NodeConfiguration):
    """Names only the ConnectionTimeout when it refuses one that is not greater than the ConnectionInactivityTimeout."""

    listeners: ListenersThatNameOneLimit


class TransportWithAnyPreference(Transport):
    """Parameters in which LocalOnly may be combined with any number of remote attempts."""

    @model_validator(mode="after")
    def _local_only_tries_no_remote_site(self) -> "TransportWithAnyPreference":
        """Accept LocalOnly with any number of remote attempts; correct is ValueError for more than 0 (SR-CFG-02)."""
        return self


@defect("takes-local-only-with-remote-attempts", breaks="SR-CFG-02", slot="configuration")
class TakesLocalOnlyWithRemoteAttempts(NodeConfiguration):
    """Takes LocalOnly with MaxRetriesForRemoteSiteShadow above 0."""

    transport: TransportWithAnyPreference = TransportWithAnyPreference()


class TransportWithoutLocalOnly(Transport):
    """Parameters in which LocalOnly is always an error."""

    @model_validator(mode="after")
    def _local_only_tries_no_remote_site(self) -> "TransportWithoutLocalOnly":
        """Raise ValueError for LocalOnly, even if no remote attempt is configured; correct is only if some are (SR-CFG-02)."""
        if self.ShadowMessagePreferenceSetting == "LocalOnly":
            raise ValueError("ShadowMessagePreferenceSetting LocalOnly contradicts MaxRetriesForRemoteSiteShadow")
        return self


@defect("refuses-local-only", breaks="SR-CFG-02", slot="configuration")
class RefusesLocalOnly(NodeConfiguration):
    """Refuses LocalOnly also together with a MaxRetriesForRemoteSiteShadow of 0."""

    transport: TransportWithoutLocalOnly = TransportWithoutLocalOnly()


class TransportWithUnknownFields(Transport):
    """Parameters among which unknown names are ignored."""

    model_config = ConfigDict(extra="ignore")


@defect("ignores-unknown-parameters", breaks="SR-CFG-03", slot="configuration")
class IgnoresUnknownParameters(NodeConfiguration):
    """Passes over a parameter whose name is unknown."""

    transport: TransportWithUnknownFields = TransportWithUnknownFields()
    model_config = ConfigDict(extra="ignore")


class TransportWithAnyNumbers(Transport):
    """Parameters some of which may be negative."""

    MaxRetriesForLocalSiteShadow: int = 2
    ShadowHeartbeatRetryCount: int = 3
    SendConnectionInactivityTimeout: Annotated[float, Field(allow_inf_nan=False)] = 600


@defect("takes-negative-numbers", breaks="SR-CFG-03", slot="configuration")
class TakesNegativeNumbers(NodeConfiguration):
    """Takes a number of attempts, and a time to wait, below nothing."""

    transport: TransportWithAnyNumbers = TransportWithAnyNumbers()


_UpToAHundredDays = Annotated[float, Field(gt=0, le=100 * 86400)]


class TransportWithShortTimes(Transport):
    """Parameters some of which may be no longer than a hundred days."""

    SafetyNetHoldTime: _UpToAHundredDays = 172800
    MessageExpirationTimeout: _UpToAHundredDays = 172800


@defect("refuses-times-above-a-hundred-days", breaks="SR-CFG-03", slot="configuration")
class RefusesTimesAboveAHundredDays(NodeConfiguration):
    """Refuses a SafetyNetHoldTime or MessageExpirationTimeout of more than a hundred days, which no document does."""

    transport: TransportWithShortTimes = TransportWithShortTimes()


class TransportWithManyAttempts(Transport):
    """Parameters that allow one attempt more at shadow servers than is documented."""

    MaxRetriesForLocalSiteShadow: int = Field(2, ge=0, le=256)


@defect("takes-256-attempts", breaks="SR-CFG-03", slot="configuration")
class Takes256Attempts(NodeConfiguration):
    """Takes a MaxRetriesForLocalSiteShadow of 256, one more than its range has."""

    transport: TransportWithManyAttempts = TransportWithManyAttempts()


@defect("drops-what-is-wrong-in-a-change", breaks="SR-CFG-03", slot="configuration")
class DropsWhatIsWrong(NodeConfiguration):
    """Leaves out of a change what is wrong in it, and takes the rest."""

    @model_validator(mode="wrap")
    @classmethod
    def _drop_invalid_fields(
        cls, document: Any, handler: ModelWrapValidatorHandler["DropsWhatIsWrong"]
    ) -> "DropsWhatIsWrong":
        """Return the configuration in a JSON document; if pydantic's `handler` finds keys invalid, the one in the document without them.

        Valid keys of the same names are left out too (`_without`). Correct is to refuse the whole document (SR-CFG-03). Raises
        ValidationError only if the rest is invalid too.
        """
        try:
            return handler(document)
        except ValidationError as error:
            # the last part of a location is the name of the key
            wrong = {str(one["loc"][-1]) for one in error.errors() if one["loc"]}
            return handler(_without(document, wrong))


def _without(value: Any, wrong: set[str]) -> Any:
    """Return a JSON value without the keys of these names, at any depth of nested objects; lists are returned as they are."""
    if isinstance(value, dict):
        return {key: _without(inner, wrong) for key, inner in value.items() if key not in wrong}
    return value


class TransportOfNoRetry(Transport):
    """Parameters with a retry count of 0."""

    ShadowHeartbeatRetryCount: Annotated[int, Field(ge=0, le=255)] = 3


@defect("takes-no-failure-for-a-failed-primary", breaks="SR-CFG-03", slot="configuration")
class TakesNoRetry(NodeConfiguration):
    """Takes a ShadowHeartbeatRetryCount of 0."""

    transport: TransportOfNoRetry = TransportOfNoRetry()


@defect("takes-nothing-for-parameters", breaks="SR-CFG-03", slot="configuration")
class TakesNothingForParameters(NodeConfiguration):
    """Takes a file whose parameters are null, or an empty list or text, and goes on with the defaults."""

    @model_validator(mode="before")
    @classmethod
    def _with_parameters(cls, document: Any) -> Any:
        """Return the JSON document with an empty mapping in place of another empty value of `transport`."""
        if isinstance(document, dict) and not document.get("transport"):
            return {**document, "transport": {}}
        return document
