"""Judges the answers to offered configurations: what contradicts itself, is out of range or unknown is refused by name
(SR-CFG-01 to SR-CFG-03), and everything else is taken.

The ranges are those of the table in docs/node-contract.md, stated here a second time on purpose: judging goes by the
documents alone. That a refused change changes nothing, and that one that was taken is in force afterwards, is judged by
the rules about those parameters: they go by the values in force (`Facts.parameter`, `Facts.listener_limits`).

A candidate that claims only a relay's capabilities is given its configuration by templates, and has none of these parameters.

An *offer* is a `Configured` event: `changes` maps parameters to values (or `listeners.NAME` to limits of that listener), `refused`
is the server's error text, None when it took the configuration or is down, so that it reads it at its next start. Each rule judges
one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model` describes
(`timed=False`: it compares no times). `n` is an event's number; `row` is a requirement's id.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from conformance.history.events import Configured, NodeEvent
from conformance.model.facts import Facts
from conformance.model.rules import rule
from conformance.model.server_facts import STOPPING_ACTIONS
from conformance.trace.context import is_relay_only
from conformance.trace.finding import Finding


@dataclass(frozen=True, slots=True)
class _Number:
    """The range of a number: from `minimum`, which is itself excluded if `above`, to `maximum`; integers only if `whole`."""

    minimum: float
    maximum: float = math.inf
    whole: bool = False
    above: bool = False

    def allows(self, value: JsonValue) -> bool:
        """Return whether a value is a number in the range; JSON's `true` and `false` are not numbers."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            return False
        assert isinstance(value, int | float)
        return (value > self.minimum if self.above else value >= self.minimum) and value <= self.maximum


_TIME = _Number(0, above=True)
_ATTEMPTS = _Number(0, 255, whole=True)

_NUMBERS: Mapping[str, _Number] = {
    "MaxRetriesForRemoteSiteShadow": _ATTEMPTS,
    "MaxRetriesForLocalSiteShadow": _ATTEMPTS,
    "ShadowHeartbeatFrequency": _TIME,
    "ShadowResubmitTimeSpan": _TIME,
    "ShadowMessageAutoDiscardInterval": _TIME,
    "SafetyNetHoldTime": _TIME,
    "MessageExpirationTimeout": _TIME,
    "ShadowHeartbeatTimeoutInterval": _TIME,
    "ShadowHeartbeatRetryCount": _Number(1, 255, whole=True),
    "MaxAcknowledgementDelay": _Number(0),
    "SendConnectionInactivityTimeout": _TIME,
    "DuplicateTrackingWindow": _TIME,
    "DuplicateCleanupInterval": _TIME,
    "MessageRetryInterval": _TIME,
    "MaxMessageSize": _Number(1024, whole=True),
    "connection_timeout": _TIME,
    "connection_inactivity_timeout": _TIME,
}
_SWITCHES = frozenset({"ShadowRedundancyEnabled", "RejectMessageOnShadowFailure"})
_PREFERENCES = frozenset({"PreferRemote", "LocalOnly", "RemoteOnly"})

_DESCRIPTIONS = frozenset({"site_links", "hub_sites", "seed"})
"""Keys without wrong values in a scenario: what describes other servers, and the seed, which no document lets a running server
change or keeps from it. Rights of a peer have the prefix `peers.`."""


@dataclass(frozen=True, slots=True)
class _Problem:
    """Why a configuration must be refused: the requirement, and the names of which the refusal must give all."""

    row: str
    names: tuple[str, ...]


@rule("SR-CFG-03", "SR-CFG-01", timed=False)
def configurations_are_checked(facts: Facts) -> Finding:
    """Check that servers refuse each configuration with a value out of range or contradicting listener limits, and no other.

    A parameter that does not exist, or a value of another type, is out of range. A refusal has to name what is wrong.
    `preference_fits_attempts` judges LocalOnly beside remote attempts.
    """
    return _check_answers(
        facts, "a wrong configuration is refused by name, and no other is refused", is_preference=False
    )


@rule("SR-CFG-02", timed=False)
def preference_fits_attempts(facts: Facts) -> Finding:
    """Check that servers refuse ShadowMessagePreferenceSetting LocalOnly while MaxRetriesForRemoteSiteShadow is above 0 (ruling 8).

    The refusal has to name both parameters. Other changes of the two must be taken. Servers of 2010 may do either. The rule is
    apart from `configurations_are_checked` since its requirement, SR-CFG-02, is a *should*.
    """
    return _check_answers(
        facts, "LocalOnly is refused beside remote attempts only, and both are named", is_preference=True
    )


def _check_answers(facts: Facts, expected: str, *, is_preference: bool) -> Finding:
    """Return the finding about the answer to each configuration that was offered to a server.

    `expected` is the finding's sentence. With `is_preference` only SR-CFG-02 is judged, else only SR-CFG-01 and SR-CFG-03; a
    refusal that a problem of the other kind explains is left out. A wrong configuration that is offered while the server is down,
    and not refused, is judged when the server becomes ready: it must not start with it. Another offer to a server that is down is
    not judged. A relay without shadow redundancy has no occasions.
    """
    finding = Finding(expected)
    if is_relay_only(facts.context.claims):
        return finding
    waiting: dict[str, tuple[Configured, list[_Problem]]] = {}  # offered while the server was down
    events: list[Configured | NodeEvent] = [*facts.trace.events_of(Configured), *facts.trace.events_of(NodeEvent)]
    for event in sorted(events, key=lambda event: event.n):
        if isinstance(event, NodeEvent):
            if event.action == "ready" and (offer := waiting.pop(event.node, None)):
                finding.occasions += 1
                _add_violation_if_wrong(finding, *offer, event.n)
            continue
        all_problems = list(_find_problems(facts, event))
        problems = [p for p in all_problems if (p.row == "SR-CFG-02") is is_preference]
        # leave to the other rule: what changes neither parameter of SR-CFG-02, and a refusal that its problems explain
        if (is_preference and not {"ShadowMessagePreferenceSetting", "MaxRetriesForRemoteSiteShadow"} & event.changes.keys()) or (
            event.refused is not None and len(problems) < len(all_problems)
            and (not problems or _is_any_problem_named(all_problems, event.refused))
        ):  # fmt: skip
            continue
        if not _was_running(facts, event):
            if problems and event.refused is None:
                waiting[event.node] = event, problems
            continue
        if event.refused is not None and not problems:
            if "seed" in event.changes:
                continue  # may be refused
            if (_row_of_unjust_refusal(event.changes) == "SR-CFG-02") is not is_preference:
                continue
            if is_preference and facts.is_2010(event.node):
                continue  # the row does not bind this generation, and nothing says that it may not refuse
        finding.occasions += 1
        if event.refused is None:
            _add_violation_if_wrong(finding, event, problems, event.n)
        elif not problems:
            finding.add_violation(
                f"{event.node} refused {_format_changes(event.changes)}, in which nothing is wrong: {event.refused}",
                event.n,
                row=_row_of_unjust_refusal(event.changes),
            )
        elif not _is_any_problem_named(problems, event.refused):
            names = " and ".join(problems[0].names)
            finding.add_violation(
                f"{event.node} refused {_format_changes(event.changes)} without naming {names}: {event.refused}",
                event.n,
                row=problems[0].row,
            )
    return finding


def _add_violation_if_wrong(finding: Finding, offer: Configured, problems: list[_Problem], n: int) -> None:
    """Add a violation if a configuration that was taken, `offer`, has a problem; event `n` shows that it was taken.

    Only the first problem is named. Without a problem nothing is added.
    """
    if problems:
        finding.add_violation(
            f"{offer.node} took {_format_changes(offer.changes)}, in which {' and '.join(problems[0].names)} must be refused",
            n,
            row=problems[0].row,
        )


def _was_running(facts: Facts, offer: Configured) -> bool:
    """Return whether the server ran when the configuration was offered, so that the server itself answered.

    It did not after an action of STOPPING_ACTIONS. A server without an earlier state change counts as running.
    """
    before = [event for event in facts.node_events.get(offer.node, ()) if event.n < offer.n]
    return not before or before[-1].action not in STOPPING_ACTIONS


def _find_problems(facts: Facts, offer: Configured) -> list[_Problem]:
    """Return why a configuration must be refused, given the parameters in force before it; an empty list if it must be taken.

    Wrong values come first, then contradictions. SR-CFG-02 is not looked for at a server of 2010.
    """
    wrong: list[str] = []
    contradictions: list[_Problem] = []
    for name, value in offer.changes.items():
        if name in _DESCRIPTIONS or name.startswith("peers."):
            continue
        head, _, listener = name.partition("listeners.")
        if not head and isinstance(value, dict):
            wrong += [limit for limit, number in value.items() if not _is_valid_value(limit, number)]
            limits = {**facts.listener_limits(offer.node, listener, offer.n), **value}
            if all(_is_valid_value(limit, number) for limit, number in value.items()) and _are_contradictory(limits):
                contradictions.append(_Problem("SR-CFG-01", ("connection_timeout", "connection_inactivity_timeout")))
        elif not _is_valid_value(name, value):
            wrong.append(name)
    if (
        not facts.is_2010(offer.node)
        and {"ShadowMessagePreferenceSetting", "MaxRetriesForRemoteSiteShadow"} & offer.changes.keys()
    ):
        preference = offer.changes.get(
            "ShadowMessagePreferenceSetting", facts.parameter(offer.node, "ShadowMessagePreferenceSetting", offer.n)
        )
        attempts = offer.changes.get(
            "MaxRetriesForRemoteSiteShadow", facts.parameter(offer.node, "MaxRetriesForRemoteSiteShadow", offer.n)
        )
        if preference == "LocalOnly" and _is_valid_value("MaxRetriesForRemoteSiteShadow", attempts) and attempts:
            contradictions.append(
                _Problem("SR-CFG-02", ("ShadowMessagePreferenceSetting", "MaxRetriesForRemoteSiteShadow"))
            )
    return [*(_Problem("SR-CFG-03", (name,)) for name in wrong), *contradictions]


def _are_contradictory(limits: Mapping[str, Any]) -> bool:
    """Return whether the limits of a listener contradict each other (SR-CFG-01).

    They do where ConnectionTimeout is not above ConnectionInactivityTimeout. `limits` must have both.
    """
    return bool(limits["connection_timeout"] <= limits["connection_inactivity_timeout"])


def _is_valid_value(name: str, value: JsonValue) -> bool:
    """Return whether a parameter or limit of a listener exists, and the value is of its type and in its range."""
    if name in _SWITCHES:
        return isinstance(value, bool)
    if name == "ShadowMessagePreferenceSetting":
        return value in _PREFERENCES
    return name in _NUMBERS and _NUMBERS[name].allows(value)


def _row_of_unjust_refusal(changes: Mapping[str, JsonValue]) -> str:
    """Return the requirement to blame for the refusal of a change in which nothing is wrong, by the parameters in it.

    It is SR-CFG-02 for the preference and the attempts at other sites, SR-CFG-01 for limits of a listener, else SR-CFG-03.
    """
    if {"ShadowMessagePreferenceSetting", "MaxRetriesForRemoteSiteShadow"} & changes.keys():
        return "SR-CFG-02"
    return "SR-CFG-01" if any(name.startswith("listeners.") for name in changes) else "SR-CFG-03"


def _is_any_problem_named(problems: list[_Problem], refusal: str) -> bool:
    """Return whether the text of a refusal has all names of at least one of the problems, as `_is_named` compares them."""
    return any(all(_is_named(name, refusal) for name in problem.names) for problem in problems)


def _is_named(name: str, text: str) -> bool:
    """Return whether a text has a parameter's name, in any letter case, with or without separators."""
    return _letters_and_digits(name) in _letters_and_digits(text)


def _letters_and_digits(text: str) -> str:
    """Return the letters and digits of a text in lower case."""
    return "".join(filter(str.isalnum, text.casefold()))


def _format_changes(changes: Mapping[str, JsonValue]) -> str:
    """Return the changes of a configuration as `name=value, name=value`."""
    return ", ".join(f"{name}={value}" for name, value in changes.items())
