"""Judges when shadow copies are made, and how many of a message (SR-CRE-02, SR-BND-04, SR-CRE-09).

Theory of operation
-------------------
A server of 2013 or later has a reason to make a shadow copy of a message

- while it has been given the message and has not answered it (SR-CRE-01),
- once it promotes a copy that it holds for another server (SR-BND-03),
- once it begins anew after a stop, or its copy was on a server that stopped since: it may no longer know of the copy, or
  may no longer rely on it,
- once an administrator or a step of the scenario had messages transmitted again.

Each reason is good for one copy (SR-CRE-09). Where none of them holds, the message is answered, and the copy comes too late
(SR-CRE-02), or is superfluous because every next hop has the message (SR-BND-04).

`given` is a transaction in which the server, the *primary*, was given the message: MAIL is its event `n`, the final dot `dot_n`,
`replies` are its final replies. `sent` is a transaction of kind `shadow`, by which the primary hands a copy to a *holder*; a
`ShadowCopy` is one that the holder stored. `name` is the scenario's name of the message. A primary *promotes* a copy when it
takes over the message that it held for another.

Each rule judges one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model`
describes (`timed=False`: it compares no times). A session is *altered* where a fault changed, added or removed octets in it.
"""

from collections.abc import Iterator

from conformance.model.facts import Facts
from conformance.model.resending import resending_requests
from conformance.model.rules import rule
from conformance.model.server_facts import STOPPING_ACTIONS
from conformance.trace.finding import Finding
from conformance.trace.sessions import Transaction
from conformance.trace.shadows import ShadowCopy


@rule("SR-CRE-02", "SR-BND-04", timed=False)
def copy_while_message_unanswered(facts: Facts) -> Finding:
    """Check that each transmission of a shadow copy begins while the message is unanswered, or for another of the four reasons.

    Only copies by a server that had been given the message before are occasions. Sessions that the harness opened or a fault
    altered are left out.
    """
    finding = Finding("a shadow copy is sent while the sender waits, or of what the server took over")
    for name, message in facts.trace.messages.items():
        for sent in _sent_copies(facts, name):
            given_before = [g for g in facts.given_by_server_and_message.get((sent.client, name), ()) if g.n < sent.n]
            if not given_before:
                continue  # taken over, or made by the server itself
            finding.occasions += 1
            if _had_reason_to_send_copy(facts, name, sent, given_before):
                continue
            answered = max(given_before, key=lambda given: given.replies[0].n).replies[0]
            passed_on = _was_accepted_for_all_recipients(facts, name, sent, given_before)
            what = "after every next hop had accepted it" if passed_on else "after it had answered it"
            finding.add_message_violation(
                message,
                f"{sent.client} sent a shadow copy {sent.shadow_id} to {sent.server} {what} with {answered.code}",
                sent.n,
                answered.n,
                row="SR-BND-04" if passed_on else None,
            )
    return finding


@rule("SR-CRE-09", timed=False)
def one_copy_at_a_time(facts: Facts) -> Finding:
    """Check that no more shadow copies of a message are stored for a server than it had reasons to make.

    Left out are copies that the primary had no reason to send (`copy_while_message_unanswered` judges these), and those of which
    it may not know that they are stored. There is one occasion, and at most one violation, for each message and primary.
    """
    finding = Finding("one shadow copy of a message at a time")
    for name, message in facts.trace.messages.items():
        by_primary: dict[str, list[ShadowCopy]] = {}
        for copy in facts.trace.copies_of(name):
            sent = copy.transaction
            given = facts.given_by_server_and_message.get((copy.primary, name), [])
            if (
                sent.kind == "shadow"
                and facts.is_opened_by_tested_server(copy.primary, sent.session)
                and facts.is_known_to_primary(copy)
                and _had_reason_to_send_copy(
                    facts, name, sent, [g for g in given if g.n < sent.n]
                )  # else it is too late
            ):
                by_primary.setdefault(copy.primary, []).append(copy)
        for primary, copies in by_primary.items():
            copies.sort(key=lambda copy: copy.transaction.n)
            finding.occasions += 1
            reasons = sorted(_events_giving_reason(facts, name, primary, copies))
            for number, copy in enumerate(copies, 1):
                if number > 1 and sum(n < copy.transaction.n for n in reasons) < number:
                    finding.add_message_violation(
                        message,
                        f"{primary} had another shadow copy stored on {copy.holder}, when {copies[number - 2].holder} "
                        "had stored one already",
                        copy.stored_reply.n,
                        copies[number - 2].stored_reply.n,
                    )
                    break
    return finding


def _sent_copies(facts: Facts, name: str) -> Iterator[Transaction]:
    """Yield each transaction in which a server under test sent a shadow copy of a message with its content.

    Sessions that the harness opened or a fault altered are left out. Servers of 2013 and later alone send such copies (kind
    `shadow`); what one of 2010 keeps itself is of kind `tracked`.
    """
    for sent in facts.trace.transactions_of(name):
        if (
            sent.kind == "shadow"
            and facts.is_opened_by_tested_server(sent.client, sent.session)
            and sent.session not in facts.trace.altered_sessions
        ):
            yield sent


def _had_reason_to_send_copy(facts: Facts, name: str, sent: Transaction, given: list[Transaction]) -> bool:
    """Return whether the client of a shadow copy had one of the four reasons to send it (see the module's docstring).

    `sent` is the copy's transaction, `given` are those by which the client had been given the message before. It had a reason too
    where `given` is empty, or where one of them has no reply: a message that lost its reply is the server's (SR-TMO-03).
    """
    if not given or any(not one.replies or one.replies[0].n > sent.n for one in given):
        return True
    since = given[-1].n
    if any(n < sent.n for n in _events_of_receiving_copy(facts, name, sent.client)):
        return True
    earlier = [c for c in facts.trace.copies_of(name) if c.primary == sent.client and c.stored_reply.n < sent.n]
    return any(since < n < sent.n for n in _events_permitting_another_copy(facts, sent.client, earlier))


def _events_of_receiving_copy(facts: Facts, name: str, holder: str) -> Iterator[int]:
    """Yield the number of each dot by which a server was given a shadow copy of a message that it may have stored."""
    for given in facts.trace.transactions_of(name):
        taken = given.acceptance is not None or not given.replies
        if given.kind == "shadow" and given.server == holder and given.dot_n is not None and taken:
            yield given.dot_n


def _events_permitting_another_copy(facts: Facts, primary: str, copies: list[ShadowCopy]) -> Iterator[int]:
    """Yield the number of each event after which a primary may make another copy of a message of which it has `copies` already.

    These are stops of the primary or of a holder, commands of an administrator, and steps after which messages are sent again, in
    the whole history and not in order.
    """
    for server in {primary, *(copy.holder for copy in copies)}:
        yield from (e.n for e in facts.node_events.get(server, ()) if e.action in STOPPING_ACTIONS)
    yield from (request.n for request in resending_requests(facts))


def _events_giving_reason(facts: Facts, name: str, primary: str, copies: list[ShadowCopy]) -> Iterator[int]:
    """Yield the number of each event that gave a primary a reason to have one shadow copy of a message stored; not in order.

    The reasons are that it was given the message, that it promoted a copy, and what `_events_permitting_another_copy` yields. The
    promotion is not seen: its receipt of the copy stands for it. A number of the last kind comes once for each time that the
    primary had received the message or a copy before.
    """
    given = [g.n for g in facts.given_by_server_and_message.get((primary, name), ())]
    held = list(_events_of_receiving_copy(facts, name, primary))
    yield from given
    yield from held
    for n in _events_permitting_another_copy(facts, primary, copies):
        # what it was given several times it may hold several times, and send again as often
        yield from [n] * sum(received < n for received in (*given, *held))


def _was_accepted_for_all_recipients(facts: Facts, name: str, sent: Transaction, given: list[Transaction]) -> bool:
    """Return whether a next hop had accepted the message before `sent` for each recipient of `given`.

    `sent` is the transaction of a shadow copy, `given` are those by which its client was given the message.
    """
    normalize = facts.context.normalize_addresses
    wanted = set().union(*(normalize(one.recipients) for one in given))
    done: set[str] = set()
    for passed in facts.trace.transactions_of(name):
        if (
            passed.client == sent.client
            and passed.kind != "shadow"
            and passed.replies
            and passed.replies[-1].n < sent.n
        ):
            done |= normalize(passed.accepted_recipients)
    return wanted <= done
