"""Which rows of the catalogue a verdict may blame on a candidate."""

from conformance.history.events import FaultFired
from conformance.judge.trace import Trace
from conformance.requirements.catalogue import catalogue
from conformance.verdicts import Outcome, Reason, Verdict

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


_BROKEN_REPLIES = {
    "silent for too long": "RL-RPL-01",
    "no reply: ": "RL-RPL-02",
    "a line of a reply has no end": "RL-RPL-02",
    "a reply of more than ": "RL-RPL-02",
    "the server ended the session amid a line": "RL-RPL-02",
}
"""How the sender lost a session by what the server did with its replies, and the row that this breaks."""


def unless_nothing_was_acknowledged(verdict: Verdict, trace: Trace) -> Verdict:
    """Return a verdict, changed where it blames RL-ACK-01 for a message that no server acknowledged.

    A server that did not answer, or not with a reply, breaks a row about replies. Any other verdict becomes inconclusive.
    """
    if verdict.outcome is not Outcome.FAIL or verdict.requirements[:1] != (PROMISE,) or verdict.message is None:
        return verdict
    attempts = trace.attempts_of(verdict.message)
    if any(a.code is not None and a.code // 100 == 2 for a in attempts):
        return verdict
    struck = {event.session for event in trace.of(FaultFired)}
    lost = [a.text for a in attempts if a.outcome == "lost" and a.session is not None and a.session not in struck]
    broken = [row for text in lost for words, row in _BROKEN_REPLIES.items() if text.startswith(words)]
    if broken:
        return verdict.model_copy(update={"requirements": (broken[0], *verdict.requirements)})
    sentence = f"{verdict.message} was never acknowledged, so {PROMISE} cannot be judged by it: {verdict.sentence}"
    return verdict.model_copy(
        update={"outcome": Outcome.INCONCLUSIVE, "reason": Reason.UNDECIDED, "sentence": sentence}
    )
