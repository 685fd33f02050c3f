"""Every invariant: the requirements that it judges, and its check."""

from collections.abc import Callable, Mapping

from conformance.judge.finding import Finding
from conformance.judge.invariants import mail, shadows
from conformance.judge.trace import Trace
from conformance.scenarios.document import Cell

INVARIANTS: Mapping[str, tuple[tuple[str, ...], Callable[[Cell, Trace], Finding]]] = {
    "nothing-acknowledged-is-lost": (("RL-ACK-01", "SR-BND-03"), mail.nothing_acknowledged_is_lost),
    "two-copies-at-acknowledgement": (("SR-CRE-01", "SR-BND-03"), shadows.two_copies_at_acknowledgement),
    "shadow-inside-boundary": (("SR-BND-01", "SR-BND-02", "SR-BND-05"), shadows.shadow_inside_boundary),
    "no-discard-before-delivery": (("SR-MNT-01",), shadows.no_discard_before_delivery),
    "shadow-not-delivered-while-primary-lives": (("SR-CRE-11",), shadows.shadow_not_delivered_while_primary_lives),
    "one-final-reply": (("SR-CRE-05",), mail.one_final_reply),
    "no-duplicate-in-mailbox": (("SR-DUP-01",), mail.no_duplicate_in_mailbox),
    "content-unchanged": (("SR-CRE-06", "RL-CNT-01"), mail.content_unchanged),
    "replies-well-formed": (("SR-WIR-03",), mail.replies_are_whole),
}
"""Name (as scenarios waive it) -> requirements and check."""
