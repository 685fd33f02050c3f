"""Judges that a promoted message is made redundant again (SR-BND-03).

A server that takes a shadow copy over, *promotes* it, tries to have a copy of its own stored when it begins to deliver the
message (ruling 24 of docs/rulings.md). It may spare that for a message that the next hop accepts at once. So an attempt is due
MessageRetryInterval after the first transmission, where no next hop accepted the message until then. `n` is an event's number,
`t` a time in documented seconds.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes. A `Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `acceptance` the first
positive final reply or None, and `message` the scenario's name of the message or None. Its `kind` is `shadow` (a copy that the
server is to hold, 2013 and later), `tracked` (2010: mail of which the client keeps the shadow) or `plain`. `facts.slack` is by
how many seconds a time may miss a bound.

Records: a `PromotedTransmission` is a transmission by a holder of what it held as a copy.
"""

from conformance.model.contacts import is_lost_before_request, is_turned_away
from conformance.model.facts import Facts
from conformance.model.preference import permitted_attempts, possible_holders
from conformance.model.rules import rule
from conformance.trace.finding import Finding
from conformance.trace.promotions import PromotedTransmission


@rule("SR-BND-03")
def redundant_again_after_promotion(facts: Facts) -> Finding:
    """Check that an attempt at a new shadow copy follows a holder's first promotion of a message that is not delivered at once.

    Any attempt since the promoted copy was stored counts, and one that ended before its content may have been for this message.
    So may a session with a possible holder that came to no request (`_was_kept_from_asking`). The rule does not judge 2010 servers,
    servers without a possible holder, those that may make no attempt or whose redundancy may be off between the transmission and the
    time at which the attempt is due, servers that stopped before that time, and histories that end before it.
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
            due_n = facts.first_event_at(due_t)
            if (
                interval is None
                or facts.end_t <= due_t
                or not possible_holders(facts, holder, sent.n)
                or facts.may_be_off(holder, sent.n, due_n)
                or any(_permits_no_attempt(facts, holder, n) for n in (sent.n, due_n))
                or facts.was_interrupted_until(holder, sent.n, due_t)
                or any(
                    other.client == holder and other.acceptance is not None and other.acceptance.t <= due_t
                    for other in facts.trace.transactions_of(name)
                    if other.kind != "shadow" and other.n >= sent.n
                )
            ):
                continue
            finding.occasions += 1
            since = min(copy.stored_reply.n for copy in promotion.held_copies)
            is_tried = any(
                attempt.n > since and attempt.t <= due_t and attempt.message in (None, name)
                for attempt in facts.shadow_attempts_by_primary.get(holder, ())
            )
            if not is_tried and not _was_kept_from_asking(facts, holder, since, due_t):
                finding.add_message_violation(
                    facts.trace.messages[name],
                    f"{holder} took it over, could not deliver it to {sent.server}, and had no new shadow copy made",
                    sent.n,
                )
    return finding


def _permits_no_attempt(facts: Facts, holder: str, n: int) -> bool:
    """Return whether the preference and the limits in force at event `n` permit no attempt at all (SR-PRF-02, SR-PRF-03)."""
    permitted = permitted_attempts(facts, holder, n)
    return permitted.remote == permitted.local == 0


def _was_kept_from_asking(facts: Facts, server: str, after_n: int, until_t: float) -> bool:
    """Return whether after an event and up to a time a server could not ask a possible holder in a session with it.

    The holder offered no shadow copies, or the session was lost, or disturbed by a fault, before a request was seen.
    """
    return any(
        session.n > after_n
        and session.t <= until_t
        and (is_turned_away(session) or is_lost_before_request(session, is_disturbed=facts.is_disturbed(session.name)))
        for other in possible_holders(facts, server, after_n)
        for session in facts.sessions_by_client_and_server.get((server, other), ())
    )
