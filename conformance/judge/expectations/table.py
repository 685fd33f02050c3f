"""Every expectation verb, and its check."""

from collections.abc import Callable, Mapping
from typing import Any

from conformance.judge.expectations import mail, maintenance, servers, shadows, talk
from conformance.judge.finding import Finding, View

CHECKS: Mapping[str, Callable[[Any, View], Finding]] = {
    "reply": talk.reply,
    "shadow": shadows.shadow,
    "no-shadow": shadows.no_shadow,
    "shadow-attempts": shadows.shadow_attempts,
    "same-content": shadows.same_content,
    "discarded": maintenance.discarded,
    "not-discarded": maintenance.not_discarded,
    "queried": maintenance.queried,
    "promoted": maintenance.promoted,
    "not-promoted": maintenance.not_promoted,
    "mailbox": mail.mailbox,
    "delivered": mail.delivered,
    "transmitted": mail.transmitted,
    "route": mail.route,
    "advertised": servers.advertised,
    "issued": servers.issued,
    "closed": talk.closed,
    "conversation": talk.conversation,
    "report": mail.report,
    "journaled": mail.journaled,
    "queue": servers.queue,
    "refused": servers.refused,
    "withheld": talk.withheld,
    "left": servers.left,
}
"""Verb -> check. A verb that is not here is an error of the harness, never a pass."""
