"""Judges servers of 2013 or later beside hubs of 2010 (SR-IOP-01, SR-IOP-03).

With the verb XSHADOW a server of 2010 announces that it *tracks* mail: it keeps a shadow copy of what it sends. A server of 2013
or later offers no XSHADOW to a server of 2010, so that the latter keeps no such copy. What Safety Net holds is never sent again
to a server of 2010. The shadow copy of what goes to a 2010 hub (SR-IOP-02) is judged with every other acknowledgement
(`redundancy`). `n` is an event's number.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times).

A `Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `replies` the final replies, `acceptance` the first
positive final reply or None, `message` the scenario's name of the message or None, and `recipients` those that were not refused.
Its `kind` is `shadow` (a copy that the server is to hold, 2013 and later), `tracked` (2010: mail of which the client keeps the
shadow) or `plain`. A session is *altered* where a fault changed, added or removed octets in it, and *disturbed* where any fault
acted in it or may have delayed it.

Records: a `StepEvent` is the begin or end of a step of the scenario; a `CommandRun` is an administrator's command to a server.
"""

from conformance.history.events import CommandRun, StepEvent
from conformance.model.facts import Facts
from conformance.model.rules import rule
from conformance.trace.finding import Finding
from conformance.trace.sessions import Transaction


@rule("SR-IOP-01", timed=False)
def no_xshadow_for_2010(facts: Facts) -> Finding:
    """Check each session that a 2010 server has as client of a later one: no XSHADOW is offered, and the client tracks no mail.

    That mail is tracked is judged only in sessions that the 2010 server opened itself. Altered sessions, and those in which no
    EHLO got a positive reply, are left out.
    """
    finding = Finding("no XSHADOW between a server of 2010 and a later one")
    for (client, server), sessions in facts.sessions_by_client_and_server.items():
        if not (facts.is_tested_server(client) and facts.is_tested_server(server)):
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
            if tracked and facts.is_opened_by_tested_server(client, session.name):
                finding.add_violation(
                    f"{client} keeps a shadow copy {tracked[0].shadow_id} of what it sent to {server}", tracked[0].n
                )
    return finding


@rule("SR-IOP-03", timed=False)
def nothing_resubmitted_to_2010(facts: Facts) -> Finding:
    """Check that no server of 2013 or later sends a 2010 server again what it was done with when a resubmission was asked for.

    It was done with a recipient once a next hop had accepted the message, or once it was notified that it may discard its shadow
    copy. The occasions are the accepted transmissions to 2010 servers before the first request: such a message could be sent again
    in error.
    """
    finding = Finding("nothing from Safety Net for a server of 2010")
    requests = [e.n for e in facts.trace.events_of(CommandRun) if e.command == "resubmit" and e.failed is None]
    requests += [
        e.n for e in facts.trace.events_of(StepEvent) if e.verb in ("activate", "resubmit") and e.phase == "began"
    ]
    for name, message in facts.trace.messages.items() if requests else ():
        for sent in facts.trace.transactions_of(name):
            if (
                sent.kind == "shadow"
                or not facts.is_opened_by_tested_server(sent.client, sent.session)
                or not facts.is_tested_server(sent.server)
            ):
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
    """Return whether the client of transmission `sent` was done with all its recipients before event `request`.

    A next hop accepted the message for them in a session in which no fault acted, or the client was notified that it may discard
    its copy. False if the client was given message `name`, or a shadow copy of it, again after it was done with the first of them
    and before `sent`; and for a transmission without recipients.
    """
    client, normalize = sent.client, facts.context.normalize_addresses
    since: dict[str, int] = {}
    for passed in facts.trace.transactions_of(name):
        if passed.client == client and passed.kind != "shadow" and passed.replies and passed.replies[-1].n < request:
            if facts.is_disturbed(passed.session):
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
    again = [g.n for g in facts.given_by_server_and_message.get((client, name), ())]
    again += [g.n for g in facts.copy_transactions_by_holder.get(client, ()) if g.message == name]
    return not any(n > done and n < sent.n for n in again)
