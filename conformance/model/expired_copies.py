"""Which shadow copies may have expired at their holder before it had to promote them (SR-SFN-03); `loss` asks this.

Theory of operation
-------------------
A *holder* (2013 and later) drops a copy that was never acknowledged after SafetyNetHoldTime and MessageExpirationTimeout, as it
should. Where ShadowResubmitTimeSpan is longer than these, that may come before the promotion: if the *primary* is away meanwhile,
and comes back without its queue, the message is gone without a fault of any server. It is not so

- where the holder had to promote itself before, since the primary was away for long enough, or had another queue database;
- where the holder was notified of the copy, or began to transmit the message;
- where the primary worked at the end of the message's lifetime and after, with its queue: it had to report the failure then.

Times are documented seconds, `n` is an event's number. Records: a `HeldInterval` is a stored copy (`copy`) with the event and time
until which it is surely held (`until_n`, `until_t`; None: to the end).
"""

from conformance.model.expiry import latest_expiry
from conformance.model.facts import Facts
from conformance.model.promotion_deadlines import promotion_deadlines
from conformance.model.shadow_pairs import expiry_of_copy, shadow_pairs
from conformance.trace.shadows import ShadowCopy


def may_expire_unpromoted(facts: Facts, copy: ShadowCopy) -> bool:
    """Return whether a copy may have expired at its holder, within the history, before the holder had to promote it.

    False for a copy of 2010, for one that ended in another way, and where the primary had to expire the message itself.
    """
    found = ((pair, held) for pair in facts.compute_once(shadow_pairs) for held in pair.copies if held.copy is copy)
    pair, held = next(found, (None, None))
    if pair is None or held is None:
        return False
    # where a link may have kept the reply, the copy is as old as its final dot
    stored_n = facts.trace.accepted_since(copy.transaction)
    since_t = held.since_t if stored_n is None else facts.trace.events[stored_n].t
    expires_t = since_t + expiry_of_copy(facts, held)
    if expires_t > facts.end_t or held.until_n is not None:
        return False
    lifetime = facts.possible_parameter_range(
        pair.primary, "MessageExpirationTimeout", held.since_n, facts.end_n
    ).greatest
    if latest_expiry(facts, pair.primary, held.since_n, held.since_t, lifetime) is not None:
        return False
    return all(deadline >= expires_t for deadline in promotion_deadlines(facts, pair, held))
