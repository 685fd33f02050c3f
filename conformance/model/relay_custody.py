"""Judges what a server passes on: only what it was handed, and nothing twice (RL-ACK-02, RL-ACK-04, RL-SMG-01, RL-RCP-01).

A server is *handed* a message when its final dot reaches the server; before that it has nothing (RFC 5321 4.1.1.4). Each handing
permits one *end* of the message for each of its recipients: a next hop accepts it, or refuses it for good. After that end the
server does not try that recipient again, whatever happens to the others (RFC 5321 3.3). What may bring a message back:

- a kill within `_FORGETFUL_S` of the end, which the server may not have kept (RFC 1047), or the loss of its queue;
- Safety Net and commands that send messages again;
- the takeover of a message that the server (of 2010) had transmitted and kept a shadow copy of.

A full disk is judged too (RL-ACK-06). `n` is an event's number, `t` its time in documented seconds.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). Functions that take a `finding` add to it. A violation blames
its `row`, else the rule's first requirement. A `Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `dot_n`
and `dot_t` those of its final dot (None before it), and `message` the scenario's name of the message or None. Its `kind` is
`shadow` (a copy that the server is to hold, 2013 and later), `tracked` (2010: mail of which the client keeps the shadow) or
`plain`. A session is *altered* where a fault changed, added or removed octets in it.

Records: `Relaying` has, by server, message and recipient, each `Handing` (the server was handed the message) and each `Try` (it
tried to pass it on; `outcome` is the first digit of the reply that decided, `end_n` and `end_t` the end of the try); a
`NodeEvent` says what happened to a server, such as `ready`, `killed`, `wiped` (it lost its queue); a `FaultArmed` event puts a
fault in force on links (`A -> B transport`, `A disk`), or ends it (`healed`).
"""

import math

from conformance.history.events import Content, FaultArmed, NodeEvent
from conformance.model.facts import Facts
from conformance.model.relaying import Relaying, Try, hidden_since
from conformance.model.resending import resending_requests
from conformance.model.rules import rule
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import Transaction

_FORGETFUL_S = 60.0
"""How long before a kill an end may be that the server forgets: twice the delay of a file system that is not asked to sync."""

_NOT_OF_THE_DISK = {
    "MAIL": frozenset({500, 501, 502, 503, 504, 530, 550, 552, 553, 555}), "CONTENT": frozenset({501, 503, 550, 552})
}  # fmt: skip
"""What was answered -> codes that refuse it for another reason than a full disk: its form, its order, its sender, its size."""

_KILLED = frozenset({"killed", "exited", "failed", "starved"})


@rule("RL-ACK-02", "RL-SMG-01", timed=False)
def nothing_comes_from_nowhere(facts: Facts) -> Finding:
    """Check that a server passes on only messages and contents that it was handed before, to the final dot.

    A content of no message of the scenario is judged if its reverse-path is not null, since what servers write themselves has a
    null one: it is a part of a message. Not judged are such a content in an altered session, and an empty one for no recipient: the
    lone dot after a 354 that comes though every recipient was refused (RFC 2920 3.1). Reports are left out, and servers from when a
    fault or STARTTLS hid what
    they were handed.
    """
    finding = Finding("a server passes on only what it was handed whole")
    hidden = hidden_since(facts)
    transactions = {sent.dot_n: sent for sent in facts.trace.transactions if sent.dot_n is not None}
    handed: set[tuple[str, str]] = set()
    for content in facts.trace.events_of(Content):
        session, sent = facts.trace.sessions[content.session], transactions.get(content.n)
        name = facts.trace.identify_message(content.digest)
        keys = [content.digest.stable_sha256, *([name] if name is not None else [])]
        if (
            sent is not None
            and facts.is_opened_by_tested_server(session.client, session.name)
            and content.digest.report is None
            and (name is not None or (sent.sender and session.name not in facts.trace.altered_sessions))
            and (content.digest.size or sent.recipients)
            and hidden.get(session.client, math.inf) > content.n
        ):
            finding.occasions += 1
            if not any((session.client, key) in handed for key in keys):
                _add_from_nowhere(facts, finding, sent)
        handed |= {(session.server, key) for key in keys}
    return finding


def _add_from_nowhere(facts: Facts, finding: Finding, sent: Transaction) -> None:
    """Add a violation for a transaction whose content its client was never handed.

    A known message is blamed on RL-ACK-02; a content of no known message too if it may be half of a message (`_is_broken_off`),
    else on RL-SMG-01.
    """
    assert sent.dot_n is not None
    if sent.message is not None:
        finding.add_message_violation(
            facts.trace.messages[sent.message],
            f"{sent.client} sent it to {sent.server}, though no session had brought it the final dot of it",
            sent.dot_n,
        )
    else:
        finding.add_violation(
            f"{sent.client} sent {sent.server} a content from <{sent.sender}> that was handed to it as no message "
            f"(session {sent.session})",
            sent.dot_n,
            row="RL-ACK-02" if _is_broken_off(facts, sent) else "RL-SMG-01",
        )


def _is_broken_off(facts: Facts, sent: Transaction) -> bool:
    """Return whether what the client sent may be half of a message that it was given.

    A transaction to it with the same reverse-path and some recipient was lost before its final dot.
    """
    return any(
        other.server == sent.client and other.dot_n is None and other.sender == sent.sender and other.recipients
        and other.n < sent.n
        for other in facts.trace.transactions
    )  # fmt: skip


@rule("RL-RCP-01", "RL-ACK-04")
def ended_recipients_are_not_tried_again(facts: Facts) -> Finding:
    """Check that no server tries a recipient again for whom a next hop has accepted the message, or refused it for good.

    It may try again once for each further time that it was handed the message. An occasion is such an end after which the server
    tried any recipient of the message once more. Tries after messages were resubmitted on request are not judged.
    """
    finding = Finding("no recipient is tried again after a next hop has accepted or refused the message for it")
    relaying = facts.compute_once(Relaying)
    first_again = next((request.n for request in resending_requests(facts)), math.inf)
    last_try: dict[tuple[str, str], int] = {}
    for (server, name, _), tries in relaying.tries.items():
        last_try[server, name] = max(last_try.get((server, name), -1), tries[-1].transaction.n)
    for (server, name, recipient), tries in relaying.tries.items():
        handings = relaying.handings.get((server, name, recipient), ())
        ended: list[Try] = []
        for one in sorted(tries, key=lambda t: t.transaction.n):
            begun = one.transaction.n
            before = [t for t in ended if t.end_n < begun]
            if before and begun < first_again:
                permitted = sum(handing.n < begun for handing in handings)
                if len(before) >= max(permitted, 1) and not _may_have_forgotten(facts, server, before[-1], one):
                    last = before[-1]
                    finding.occasions = max(finding.occasions, 1)
                    assert last.reply is not None
                    what = "accepted" if last.outcome == 2 else "refused"
                    finding.add_message_violation(
                        facts.trace.messages[name],
                        f"{server} tried {recipient} again at {format_seconds(one.transaction.t)}, after "
                        f"{last.transaction.server} had {what} it with {last.reply.code}",
                        begun,
                        last.reply.n,
                        row="RL-ACK-04" if last.outcome == 2 else None,
                    )
                    break
            if _has_ended_recipient(one):
                ended.append(one)
                finding.occasions += one.end_n < last_try[server, name] < first_again
    return finding


def _has_ended_recipient(one: Try) -> bool:
    """Return whether a try ended the duty to a recipient for good, and the server surely read that.

    552 to RCPT means too many recipients, and is transient (RFC 5321 4.5.3.1.10). A server of 2010 may take over what it transmitted and
    kept, so a `tracked` transaction ends nothing.
    """
    if one.reply is None or not one.is_known or one.is_unclear or one.transaction.kind == "tracked":
        return False
    return one.outcome == 2 or (one.outcome == 5 and not (one.reply.to == "RCPT" and one.reply.code == 552))


def _may_have_forgotten(facts: Facts, server: str, last: Try, again: Try) -> bool:
    """Return whether the server may have forgotten, before it tried `again`, that the try `last` had ended the recipient.

    It was wiped, or killed within `_FORGETFUL_S` of that end, or lost its power at any time: no row asks a server to sync what is
    done (RL-ACK-05 is about what was acknowledged). A kill may be recorded before it acts.
    """
    return any(
        last.transaction.n < event.n < again.transaction.n
        and (
            event.action == "wiped"
            or (event.action in _KILLED and event.t - last.end_t < _FORGETFUL_S)
            or event.detail.startswith("power cut")
        )
        for event in facts.node_events.get(server, ())
    )


@rule("RL-ACK-06")
def full_disk_is_transient(facts: Facts) -> Finding:
    """Check that a server whose disk is full refuses mail for now only, and goes on running.

    The rule judges its replies to MAIL and to contents: those of `_NOT_OF_THE_DISK` have other reasons, any other 5yz is a violation.
    An exit of the server is a violation too.
    """
    finding = Finding("while its disk is full a server refuses mail with 4yz and goes on running")
    full: dict[str, list[tuple[float, float]]] = {}
    for event in facts.trace.events_of(FaultArmed):
        if event.action.startswith("disk-full"):
            node = event.links[0].removesuffix(" disk")
            if event.healed and full.get(node):
                full[node][-1] = (full[node][-1][0], event.n)
            elif not event.healed:
                full.setdefault(node, []).append((event.n, math.inf))
    if not full:
        return finding
    for session in facts.trace.sessions.values():
        for reply in session.replies:
            if reply.to not in ("MAIL", "CONTENT") or not _was_disk_full(full, session.server, reply.n):
                continue
            finding.occasions += 1
            if reply.code // 100 == 5 and reply.code not in _NOT_OF_THE_DISK[reply.to]:
                finding.add_violation(
                    f"{session.server} answered {reply.to} with {reply.code} while its disk was full", reply.n
                )
    for node_event in facts.trace.events_of(NodeEvent):
        if node_event.action == "exited" and _was_disk_full(full, node_event.node, node_event.n):
            finding.occasions += 1
            finding.add_violation(f"{node_event.node} exited while its disk was full", node_event.n)
    return finding


def _was_disk_full(full: dict[str, list[tuple[float, float]]], server: str, n: int) -> bool:
    """Return whether a server's disk was full at event `n`; `full` has, by server, the pairs of events between which it was."""
    return any(begin < n < end for begin, end in full.get(server, ()))
