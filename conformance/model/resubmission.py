"""Judges what Safety Net sends again on request (SR-SFN-04, SR-SFN-05, SR-IOP-03).

A server is asked to resubmit a mailbox database by a command, or by a database that becomes active on another server. It then
sends what it holds for the mailboxes of that database once more. `n` is an event's number, times are documented seconds.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes. Functions that take a `finding` add to it. A violation blames its `row`, else the rule's first
requirement. A `Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `replies` the final replies, `acceptance`
the first positive final reply or None, `message` the scenario's name of the message or None, and `recipients` those that were not
refused. Its `kind` is `shadow` (a copy that the server is to hold, 2013 and later), `tracked` (2010: mail of which the client
keeps the shadow) or `plain`. `facts.slack` is by how many seconds a time may miss a bound.

Records: a `Processing` is what one server was handed and has passed on of one message; a `StepEvent` is the begin or end of a
step of the scenario; a `CommandRun` is an administrator's command to a server.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from conformance.history.events import CommandRun, StepEvent
from conformance.model.facts import Facts
from conformance.model.processing import COMMIT_TIME_S, processing_of, was_queue_wiped
from conformance.model.rules import rule
from conformance.model.shadow_pairs import shadow_pairs
from conformance.trace.context import moved_databases
from conformance.trace.finding import Finding, format_seconds

_RESUBMISSION_TIME_S = 300.0
"""Within this time of the request the first of the messages is sent again. Seconds."""


@rule("SR-SFN-05", "SR-SFN-04", "SR-IOP-03")
def resubmission_of_what_is_held(facts: Facts) -> Finding:
    """Check that a server that was asked to resubmit a mailbox database sends what it holds for that once more, and nothing else.

    Each recipient is judged by itself: the server may pass a message on as often as the message was handed to it, and as often
    again for each request for the recipient's database; never again to a 2010 server. A repetition beyond that, for a recipient
    outside of the server's boundary, is blamed on SR-SFN-04. Only servers are judged that accepted a command `resubmit`.
    """
    finding = Finding("the held messages of the mailbox database sent again, and no others")
    requests: dict[str, list[CommandRun]] = defaultdict(list)
    for event in facts.trace.events_of(CommandRun):
        if event.command == "resubmit" and event.failed is None and facts.is_tested_server(event.node):
            requests[event.node].append(event)
    for server, asked in requests.items():
        for name in facts.trace.messages:
            _check_sent_again(facts, finding, server, name, asked)
    return finding


def _check_sent_again(facts: Facts, finding: Finding, server: str, name: str, asked: list[CommandRun]) -> None:
    """Add a violation where a server sent one message again without a request, or did not send it in spite of its requests `asked`.

    There is at most one of each kind for a recipient. Not judged: a message that the server promoted or took without a final
    reply, what it may have sent as a promoted copy, and histories with another command, such as a redirection.
    """
    processing = processing_of(facts, server, name)
    message = facts.trace.messages[name]
    databases = {box.address.casefold(): box for box in facts.topology.mailboxes}
    promoted = Counter(one.transmission.client for one in facts.promotions_by_message[name])[server]
    if not processing.handed or any(not t.replies for t in processing.handed) or promoted:
        return
    if any(e.command != "resubmit" for e in facts.trace.events_of(CommandRun)):
        return  # what was redirected comes back in another transaction, or is handed on
    for recipient, unsorted in processing.passed_on.items():
        times = sum(recipient in facts.context.normalize_addresses(t.recipients) for t in processing.handed)
        taken = sorted(one for one in unsorted if one[0] not in processing.unread)
        if len(taken) < times or not times:
            continue  # it is not processed yet: what follows may be the first time
        finding.occasions += 1
        box = databases.get(recipient)
        for number, (n, t, next_hop) in enumerate(taken[times:], start=1):
            to_2010 = facts.is_tested_server(next_hop) and facts.is_2010(next_hop)
            crossed = box is None or facts.topology.boundary(box.server) != facts.topology.boundary(server)
            requests = 0 if to_2010 or box is None or crossed else _count_requests(facts, asked, box.database, n)
            if (
                number > requests * times
                and any(_first_known_n(facts, request) < n for request in asked)
                and not _may_be_promotion(facts, server, name, n, t)
            ):
                finding.add_message_violation(
                    message,
                    f"{server} had passed it on to {recipient} by {format_seconds(taken[times - 1][1])}, and sent it again to "
                    f"{next_hop} at {format_seconds(t)}; it was asked for {requests} resubmissions of this",
                    n,
                    taken[times - 1][0],
                    row="SR-IOP-03" if to_2010 else "SR-SFN-04" if crossed else "SR-SFN-05",
                )
                break
        for request in asked:
            began_n, last = _first_known_n(facts, request), taken[times - 1]
            is_for_it = (
                box is not None
                and request.arguments[:1] == (box.database,)
                and not facts.is_2010(box.server)
                and facts.topology.boundary(box.server) == facts.topology.boundary(server)  # else SR-SFN-04
            )
            is_sent = any(n > began_n for n, _, _ in taken)
            if (
                is_for_it
                and last[0] < began_n
                and not is_sent
                and processing.last_reply_if_processed(facts, began_n) is not None
                and _must_send_again(facts, server, name, recipient, request, last)
            ):
                finding.add_message_violation(
                    message,
                    f"{server} was asked at {format_seconds(request.t)} to resubmit {request.arguments[0]}, held the message "
                    f"since {format_seconds(last[1])}, and did not send it to {recipient} again",
                    request.n,
                    last[0],
                )
                break


def _may_be_promotion(facts: Facts, server: str, name: str, n: int, t: float) -> bool:
    """Return whether what a server passed on by event `n` at `t` may be a copy of the message that it held for an absent primary.

    The server may be the next hop of a message of which it holds the shadow copy. What is counted as promoted elsewhere leaves out
    what a server passes on after a restart, since it may have forgotten that it had passed the message on before.
    """
    for pair in facts.compute_once(shadow_pairs):
        for held in pair.copies:
            if pair.holder != server or held.copy.transaction.message != name or held.since_n > n:
                continue
            database = pair.database_of(held)
            is_new = any(held.since_n < seen.n < n and seen.database != database for seen in pair.databases)
            if is_new or any(since_t < t for _, since_t, _ in pair.absences):
                return True
    return False


def _first_known_n(facts: Facts, request: CommandRun) -> int:
    """Return the number of the event from which a server may know of a request: the begin of its step, else its answer."""
    steps = [
        e.n for e in facts.trace.events_of(StepEvent) if (e.verb, e.phase) == ("resubmit", "began") and e.n < request.n
    ]
    earlier = [e.n for e in facts.trace.events_of(CommandRun) if e.n < request.n]
    return steps[-1] if steps and steps[-1] > max(earlier, default=-1) else request.n


def _count_requests(facts: Facts, asked: list[CommandRun], database: str | None, before_n: int) -> int:
    """Return how often a server may have been asked to resubmit a database before event `before_n`; 0 with the database None.

    `asked` are the commands to the server. A database that becomes active on another server is a failover: the servers are asked
    without a command.
    """
    if database is None:
        return 0
    count, began_n = 0, 0
    for e in facts.trace.events_of(StepEvent):
        if e.verb == "activate":
            began_n = e.n if e.phase == "began" else began_n
            count += database in moved_databases(e) and began_n < before_n
    return count + sum(r.arguments[:1] == (database,) and _first_known_n(facts, r) < before_n for r in asked)


def _must_send_again(
    facts: Facts, server: str, name: str, recipient: str, request: CommandRun, last: tuple[int, float, str]
) -> bool:
    """Return whether a server surely held a message when it was asked, and had the time and the way to send it again.

    `last` is number, time and next hop of the reply by which it was done with the recipient. A server need not deliver a
    duplicate for a mailbox of its own again. False too where the server of the mailbox had any node event since (a stop, a start), or
    did not answer EHLO, and where `server` has tried.
    """
    due = request.t + _RESUBMISSION_TIME_S + facts.slack
    hold = facts.possible_parameter_range(server, "SafetyNetHoldTime", last[0], request.n).least
    if due >= facts.end_t or request.t - last[1] > hold - facts.slack or request.t - last[1] < COMMIT_TIME_S:
        return False
    if was_queue_wiped(facts, server, last[0], facts.end_n) or facts.was_interrupted_between(server, request.n):
        return False
    hosts = set(_possible_hosts(facts, recipient))
    if server in hosts or any(
        e.n > request.n and e.node in hosts for events in facts.node_events.values() for e in events
    ):
        return False
    tried = [
        t
        for t in facts.transactions_by_client.get(server, ())
        if t.n > request.n
        and recipient in facts.context.normalize_addresses((*t.recipients, *t.refused))
        and (t.message in (None, name) or t.acceptance is None)
    ]
    return not any(t.kind != "shadow" for t in tried) and not any(
        session.client == server and session.n > request.n and session.server in hosts and session.keywords is None
        for session in facts.trace.sessions.values()
    )


def _possible_hosts(facts: Facts, recipient: str) -> Iterator[str]:
    """Yield the servers that may host a mailbox: its own, or any of its boundary if a database was made active elsewhere.

    Nothing is yielded for a recipient (normalized) without a mailbox.
    """
    moved = any(step.verb == "activate" for step in facts.trace.events_of(StepEvent))
    for box in facts.topology.mailboxes:
        if box.address.casefold() == recipient:
            yield from facts.topology.boundary(box.server) if moved else (box.server,)
