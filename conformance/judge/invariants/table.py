"""Every invariant: the requirements that it judges, and its check."""

from collections.abc import Callable, Mapping

from conformance.judge.finding import Case, Finding
from conformance.judge.invariants import boundary, content, custody, discards, duplicates, loss, redundancy, replies

INVARIANTS: Mapping[str, tuple[tuple[str, ...], Callable[[Case], Finding]]] = {
    "nothing-acknowledged-is-lost": (("RL-ACK-01", "SR-BND-03"), loss.nothing_acknowledged_is_lost),
    "two-copies-at-acknowledgement": (("SR-CRE-01", "SR-BND-03"), redundancy.two_copies_at_acknowledgement),
    "shadow-inside-boundary": (("SR-BND-01", "SR-BND-02", "SR-BND-05"), boundary.shadow_inside_boundary),
    "no-discard-before-delivery": (("SR-MNT-01", "SR-MNT-07"), discards.no_discard_before_delivery),
    "shadow-not-delivered-while-primary-lives": (
        ("SR-CRE-11", "SR-MNT-10"), custody.shadow_not_delivered_while_primary_lives
    ),
    "one-final-reply": (("RL-RPL-01",), replies.one_final_reply),
    "no-duplicate-in-mailbox": (("SR-DUP-01",), duplicates.no_duplicate_in_mailbox),
    "content-unchanged": ((content.SHADOWED, content.PASSED_ON), content.content_unchanged),
    "no-duplicate-without-cause": (("RL-ACK-04",), duplicates.no_duplicate_without_cause),
    "shadow-verbs-only-where-offered": (("SR-WIR-02", "SR-WIR-01"), boundary.shadow_verbs_only_where_offered),
    "replies-well-formed": (("RL-RPL-02", "SR-WIR-03"), replies.replies_well_formed),
}  # fmt: skip
"""Name (as scenarios waive it) -> requirements and check. A name that scenarios know and that is missing here is an error
of the harness, never a pass."""
