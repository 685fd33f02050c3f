"""Judges what a relay does with 8-bit content (RFC 6152): a next hop that does not offer 8BITMIME gets none.

The row binds a server that offers 8BITMIME in the session in which it took the message. `keywords` of a session are what the
server offered in its last reply to EHLO, None before that. `n` is an event's number.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). A `Transaction` is one mail transaction: `n` and `t` are
those of its MAIL, `dot_n` and `dot_t` those of its final dot (None before it), and `acceptance` the first positive final reply or
None. A session is *altered* where a fault changed, added or removed octets in it.
"""

from conformance.model.facts import Facts
from conformance.model.relaying import sessions_from
from conformance.model.rules import rule
from conformance.trace.finding import Finding


@rule("RL-8BM-01", timed=False)
def eight_bits_go_where_they_are_taken(facts: Facts) -> Finding:
    """Check that a message with eight-bit octets is sent converted, or not at all, where 8BITMIME is not offered.

    An occasion is such a message at a server that later had a session with such a next hop. What is sent in altered sessions is
    not judged.
    """
    finding = Finding("8-bit content goes only to next hops that offer 8BITMIME")
    names = [name for name, message in facts.trace.messages.items() if message.digest.eight_bit]
    for name in names:
        for given in facts.trace.transactions_of(name):
            offered = facts.trace.sessions[given.session].keywords or ()
            if not facts.is_tested_server(given.server) or given.acceptance is None or "8BITMIME" not in offered:
                continue
            finding.occasions += any(
                "8BITMIME" not in (session.keywords or ()) and session.n > given.n
                for session in sessions_from(facts, given.server)
            )
            for sent in facts.trace.transactions_of(name):
                session = facts.trace.sessions[sent.session]
                if (
                    sent.client == given.server
                    and sent.n > given.n
                    and session.keywords is not None
                    and "8BITMIME" not in session.keywords
                    and sent.digest is not None
                    and sent.digest.eight_bit
                    and facts.is_opened_by_tested_server(sent.client, session.name)
                    and session.name not in facts.trace.altered_sessions
                ):
                    finding.add_message_violation(
                        facts.trace.messages[name],
                        f"{sent.client} sent it with eight-bit octets to {sent.server}, which does not offer 8BITMIME",
                        sent.dot_n or sent.n,
                    )
    return finding
