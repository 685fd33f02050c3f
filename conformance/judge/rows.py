"""Which rows of the catalogue a verdict may blame on a candidate."""

from conformance.judge.trace import Trace
from conformance.judge.verdicts import Outcome, Verdict
from conformance.requirements.catalogue import catalogue

OF_ANY_RELAY = frozenset({"relay", "dsn", "lmtp-delivery", "inspect"})
"""Capabilities of a relay without shadow redundancy: a candidate that claims no other is bound by the relay rows alone."""


def binding(requirements: tuple[str, ...], claims: frozenset[str]) -> tuple[str, ...]:
    """Return the rows, in their order, that bind a candidate with these claims.

    A row of shadow redundancy does not bind an ordinary relay. Where no row is left, all are returned: the scenario
    needs too little (a test of the corpus finds it), and a verdict without a row would say nothing.
    """
    if not claims <= OF_ANY_RELAY:
        return requirements
    rows = (catalogue().get(requirement) for requirement in requirements)
    return tuple(row.id for row in rows if row is not None and row.profile == "relay") or requirements


PROMISE = "RL-ACK-01"
"""The row about what was acknowledged: a message that was not acknowledged cannot break it."""


def unless_nothing_was_acknowledged(verdict: Verdict, trace: Trace) -> Verdict:
    """Return a verdict, made inconclusive where it blames RL-ACK-01 for a message that no server acknowledged."""
    if verdict.outcome is not Outcome.FAIL or verdict.requirements[:1] != (PROMISE,) or verdict.message is None:
        return verdict
    if any(a.code is not None and a.code // 100 == 2 for a in trace.attempts_of(verdict.message)):
        return verdict
    sentence = f"{verdict.message} was never acknowledged, so {PROMISE} cannot be judged by it: {verdict.sentence}"
    return verdict.model_copy(update={"outcome": Outcome.INCONCLUSIVE, "sentence": sentence})
