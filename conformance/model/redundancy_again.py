"""Judges that a promoted message is made redundant again (SR-BND-03).

A server that takes a shadow copy over tries to have a copy of its own stored when it begins to deliver the message (ruling 24).
It may spare that for a message that the next hop accepts at once. So an attempt is due MessageRetryInterval after the first
transmission, where no next hop accepted the message until then. `n` is an event's number, `t` a time in documented seconds.

The judge calls each rule once for a recorded history (`timed=False`: it compares no times). A rule returns a `Finding`, whose `occasions`
count the chances to fail; a violation has the numbers of the events that show it, and is blamed on its `row`, else on the decorator's
first requirement.

A `Transaction` is one mail transaction, by MAIL's event `n` and time `t`; `dot_n` and `dot_t` are those of its final dot (None before
it), `replies` the final replies, `acceptance` the first positive one or None. Its `kind` is `shadow` (a copy that the server is to hold,
2013 and later), `tracked` (mail of which the client keeps the shadow, 2010) or `plain`. A session is *altered* where a fault changed,
added or removed octets in it. `facts.slack` is by how many seconds a time may miss a bound, `facts.end_n` and `end_t` are the end of the
history, `claims` the capabilities that the candidate claims.

Records: a `PromotedTransmission` is a transmission by a holder of what it held as a copy.
"""

from conformance.model.facts import Facts
from conformance.model.preference import possible_holders
from conformance.model.rules import rule
from conformance.trace.finding import Finding
from conformance.trace.promotions import PromotedTransmission


@rule("SR-BND-03")
def redundant_again_after_promotion(facts: Facts) -> Finding:
    """Check that an attempt at a new shadow copy follows each promotion of a message that is not delivered at once.

    Any attempt that ended before MAIL may have been one. A history that ends before the attempt is due shows nothing.
    """
    finding = Finding("a new shadow copy of each message that is taken over and waits for its next hop")
    for name, promotions in facts.promotions_by_message.items():
        first: dict[str, PromotedTransmission] = {}
        for promotion in promotions:
            if promotion.transmission.kind != "shadow" and not facts.is_2010(promotion.holder):
                first.setdefault(promotion.holder, promotion)
        for holder, promotion in first.items():
            sent = promotion.transmission
            interval = facts.numeric_parameter(holder, "MessageRetryInterval", sent.n)
            due_t = sent.t + (interval or 0.0) + facts.slack
            if (
                interval is None
                or facts.end_t <= due_t
                or not possible_holders(facts, holder)
                or not facts.parameter(holder, "ShadowRedundancyEnabled", sent.n)
                or facts.stopped_or_wiped_by_time(holder, sent.n, due_t)
                or any(
                    other.client == holder and other.acceptance is not None and other.acceptance.t <= due_t
                    for other in facts.trace.transactions_of(name)
                    if other.kind != "shadow" and other.n >= sent.n
                )
            ):
                continue
            finding.occasions += 1
            since = min(copy.stored_reply.n for copy in promotion.held_copies)
            if not any(
                attempt.n > since and attempt.t <= due_t and attempt.message in (None, name)
                for attempt in facts.shadow_attempts_by_primary.get(holder, ())
            ):
                finding.add_message_violation(
                    facts.trace.messages[name],
                    f"{holder} took it over, could not deliver it to {sent.server}, and had no new shadow copy made",
                    sent.n,
                )
    return finding
