"""The invariants: what is judged in every cell that does not waive it, by the names that scenarios know, in order.

The check of one is the function that `conformance.judge.invariants` knows by the same name. Spark's second oracle, which
shares nothing with the first, has queries for most of them; a test holds its names against these.
"""

INVARIANTS = (
    "nothing-acknowledged-is-lost", "two-copies-at-acknowledgement", "shadow-inside-boundary",
    "no-discard-before-delivery", "shadow-not-delivered-while-primary-lives", "one-final-reply",
    "no-duplicate-in-mailbox", "content-unchanged", "no-duplicate-without-cause",
    "shadow-verbs-only-where-offered", "replies-well-formed",
)  # fmt: skip
