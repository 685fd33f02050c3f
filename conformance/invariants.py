"""The names of the invariants, which are judged in every cell that does not waive them, in the order of their verdicts.

`conformance.model` has a rule for each. Spark's queries, a second and independent oracle, judge most of them
again; a test compares the names.
"""

from collections.abc import Container

INVARIANTS = (
    "nothing-acknowledged-is-lost", "two-copies-at-acknowledgement", "shadow-inside-boundary",
    "no-discard-before-delivery", "shadow-not-delivered-while-primary-lives", "one-final-reply",
    "no-duplicate-in-mailbox", "content-unchanged", "no-duplicate-without-cause",
    "shadow-verbs-only-where-offered", "replies-well-formed",
)  # fmt: skip


def is_waived(check: str, waive: Container[str]) -> bool:
    """Return whether a scenario waives the rule that gives a check: `waive` has its name, also without `invariant.` or `model.`."""
    return any(name in waive for name in (check, check.removeprefix("invariant."), check.removeprefix("model.")))
