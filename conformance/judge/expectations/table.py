"""Every expectation verb that is judged, and its check."""

from collections.abc import Callable, Mapping
from typing import Any

from conformance.judge.expectations import mail, shadows
from conformance.judge.finding import Finding, View

CHECKS: Mapping[str, Callable[[Any, View], Finding]] = {
    "reply": mail.reply,
    "shadow": shadows.shadow,
    "no-shadow": shadows.no_shadow,
    "shadow-attempts": shadows.shadow_attempts,
    "same-content": shadows.same_content,
    "discarded": shadows.discarded,
    "not-discarded": shadows.not_discarded,
    "queried": shadows.queried,
    "promoted": shadows.promoted,
    "not-promoted": shadows.not_promoted,
    "mailbox": mail.mailbox,
    "delivered": mail.delivered,
    "transmitted": mail.transmitted,
    "report": mail.report,
    "conversation": mail.conversation,
    "advertised": mail.advertised,
    "issued": mail.issued,
    "refused": mail.refused,
    "queue": mail.queue,
    "withheld": mail.withheld,
    "left": mail.left,
}
"""Verb -> check. A verb that is not here is an error of the harness, never a pass."""
