"""Judges servers of 2013 or later beside hubs of 2010 (SR-IOP-01, SR-IOP-03).

A server of 2013 or later offers no XSHADOW to a server of 2010, so that this keeps no shadow copy of what it sends there. What
Safety Net holds is never sent again to a server of 2010. `n` is an event's number. The shadow copy of what goes to a 2010 hub
(SR-IOP-02) is judged with every other acknowledgement (`redundancy`).
"""

from conformance.history.events import CommandRun, StepEvent
from conformance.model.facts import Facts
from conformance.model.rules import rule
from conformance.trace.finding import Finding
from conformance.trace.sessions import Transaction


@rule("SR-IOP-01", timed=False)
def no_xshadow_for_2010(facts: Facts) -> Finding:
    """Check each session of a server of 2010 with a later one: no XSHADOW is offered, and no mail is tracked."""
    finding = Finding("no XSHADOW between a server of 2010 and a later one")
    for (client, server), sessions in facts.sessions_between.items():
        if not (facts.is_tested(client) and facts.is_tested(server)):
            continue
        if not facts.is_2010(client) or facts.is_2010(server):
            continue
        for session in sessions:
            if session.keywords is None or session.name in facts.trace.altered_sessions:
                continue
            finding.occasions += 1
            if "XSHADOW" in session.keywords:
                finding.add_violation(f"{server} offered XSHADOW to {client} (session {session.name})", session.n)
            tracked = [sent for sent in session.transactions if sent.kind == "tracked"]
            if tracked and facts.is_own(client, session.name):
                finding.add_violation(
                    f"{client} keeps a shadow copy {tracked[0].shadow_id} of what it sent to {server}", tracked[0].n
                )
    return finding


@rule("SR-IOP-03", timed=False)
def nothing_resubmitted_to_2010(facts: Facts) -> Finding:
    """Check that no server sends a server of 2010 what it was done with when a resubmission was asked for.

    It was done with a recipient once a next hop had accepted the message, or once it was notified that it may discard its shadow copy.
    """
    finding = Finding("nothing from Safety Net for a server of 2010")
    requests = [e.n for e in facts.trace.events_of(CommandRun) if e.command == "resubmit" and e.failed is None]
    requests += [
        e.n for e in facts.trace.events_of(StepEvent) if e.verb in ("activate", "resubmit") and e.phase == "began"
    ]
    for name, message in facts.trace.messages.items() if requests else ():
        for sent in facts.trace.transactions_of(name):
            if sent.kind == "shadow" or not facts.is_own(sent.client, sent.session) or not facts.is_tested(sent.server):
                continue
            if facts.is_2010(sent.client) or not facts.is_2010(sent.server):
                continue
            if min(requests) > sent.n:  # it may be sent again
                finding.occasions += sent.acceptance is not None
                continue
            request = max(n for n in requests if n < sent.n)
            if _was_done(facts, name, sent, request):
                finding.add_message_violation(
                    message,
                    f"{sent.client} was done with it before a resubmission was asked for, and sent it to {sent.server}",
                    sent.n,
                    request,
                )
    return finding


def _was_done(facts: Facts, name: str, sent: Transaction, request: int) -> bool:
    """Return whether the client of a transmission was done with all of its recipients before a request to resubmit."""
    client, normalize = sent.client, facts.context.normalize_addresses
    since: dict[str, int] = {}
    for passed in facts.trace.transactions_of(name):
        if passed.client == client and passed.kind != "shadow" and passed.replies and passed.replies[-1].n < request:
            if passed.session in facts.faults_in:
                continue  # it may not have got the reply
            since.update(dict.fromkeys(normalize(passed.accepted_recipients), passed.n))
    for copy in facts.trace.copies_of(name):
        discards = facts.discards_by_copy.get((copy.primary, copy.shadow_id, copy.holder), [])
        if copy.holder == client and discards and discards[0].n < request:
            for recipient in normalize(copy.transaction.recipients):
                since.setdefault(recipient, discards[0].n)
    recipients = normalize([*sent.recipients, *sent.refused])
    if not recipients or not recipients <= set(since):
        return False
    done = min(since[recipient] for recipient in recipients)
    again = [g.n for g in facts.receipts.get((client, name), ())]
    again += [g.n for g in facts.copies_held_by.get(client, ()) if g.message == name]
    return not any(n > done and n < sent.n for n in again)
