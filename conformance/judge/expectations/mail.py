"""Where messages arrived, how often, over which way, and what was reported about them."""

from conformance.history.events import Delivered, MessageMade, NodeEvent
from conformance.judge.expectations.check import asked, check, within
from conformance.judge.finding import Finding, View, named
from conformance.judge.sessions import Transaction
from conformance.scenarios.expectations import (
    Copies,
    DeliveredExpected,
    JournaledExpected,
    MailboxExpected,
    ReportExpected,
    RouteExpected,
    TransmittedExpected,
)


def _copies(
    finding: Finding, made: MessageMade, events: list[Delivered], wanted: Copies, who: str, what: str = "copies"
) -> None:
    finding.occasions += 1
    for event in events[: max(wanted.min, 1)]:
        finding.met(event.n, event.t, made)
    if not within(wanted, len(events)):
        finding.violated(
            f"{named(made)}: {len(events)} {what} reached {who}, not {asked(wanted)}",
            *[event.n for event in events],
            message=made.message,
            kind="missing" if len(events) < wanted.min else "surplus",
        )


@check(
    MailboxExpected,
    about={"surplus": frozenset({"SR-ENA-04", "SR-DUP-01", "SR-DUP-03", "SR-DUP-04", "SR-OUT-03", "SR-OUT-06"})},
)
def mailbox(e: MailboxExpected, view: View) -> Finding:
    """So many copies in each mailbox. That there is none is worth something once it was transmitted."""
    finding = Finding(f"{asked(e.copies)} of each message of {e.of} for {', '.join(e.who)}")
    for made in view.messages(e.of):
        for who in e.who:
            _copies(finding, made, view.deliveries_of(made.message, who), e.copies, who)
    return finding


@check(DeliveredExpected)
def delivered(e: DeliveredExpected, view: View) -> Finding:
    """So many copies at recipients outside."""
    bound = "" if e.repeats is None else ", and no more of them again than were in flight when a server was killed"
    finding = Finding(f"{asked(e.copies)} of each message of {e.of} at {e.at or 'its sink'}{bound}")
    repeats: list[int] = []
    for made in view.messages(e.of):
        outside = tuple(r for r in made.recipients if r.casefold() not in view.mailboxes)
        for who in dict.fromkeys(e.to or outside or made.recipients):
            found = [
                event
                for event in view.deliveries_of(made.message, who)
                if (e.at is None or event.sink == e.at) and (e.by is None or event.giver == e.by)
            ]
            _copies(finding, made, found, e.copies, who)
            repeats += [event.n for event in found[1:]]
    if e.repeats is not None and len(repeats) > (most := _in_flight(view)):
        finding.violated(f"{len(repeats)} copies beyond the first of each message, {most} in flight", *repeats[:20])
    return finding


def _in_flight(view: View) -> int:
    """Return how many messages may be transmitted again, since a kill took the memory of them.

    Towards a server that is killed: those whose sender had no reply to the final dot. From one: the last of each session
    that was open, since the server may not have noted the reply to it.
    """
    return sum(
        1
        for kill in view.trace.of(NodeEvent)
        for session in view.trace.sessions.values()
        if kill.action == "killed" and session.n < kill.n and (session.closed is None or session.closed.n > kill.n)
        and any(_under_way(t, kill) for t in session.transactions)
    )  # fmt: skip


def _under_way(t: Transaction, kill: NodeEvent) -> bool:
    if t.dot is None:
        return False
    if t.client == kill.node:
        return True  # a dot that passed after the death was said before it
    return t.server == kill.node and t.dot < kill.n and not any(reply.n < kill.n for reply in t.replies)


@check(TransmittedExpected)
def transmitted(e: TransmittedExpected, view: View) -> Finding:
    """How often the content went from one party to another."""
    finding = Finding(f"{asked(e.copies)} transmissions of {e.of} from {e.sender} to {e.to}")
    for made in view.messages(e.of):
        finding.occasions += 1
        found = [
            t for t in view.trace.transactions_of(made.message)
            if (t.client, t.server) == (e.sender, e.to) and t.way != "shadow"
            and (e.listener is None or t.listener == e.listener)
            and (e.recipients is None or len(t.recipients) == e.recipients)
        ]  # fmt: skip
        for t in found[:1]:
            finding.met(t.n, t.t, made)
        if not within(e.copies, len(found)):
            finding.violated(f"{named(made)}: {len(found)} transmissions", *[t.n for t in found], message=made.message)
    return finding


@check(RouteExpected)
def route(e: RouteExpected, view: View) -> Finding:
    """The servers that each message went through, in order, from the one that the sender gave it to until its sink."""
    finding = Finding(f"{e.of} for {e.to} through {', '.join(e.through)}")
    for made in view.messages(e.of):
        finding.occasions += 1
        arrived = view.deliveries_of(made.message, e.to)
        if not arrived:
            finding.violated(f"{named(made)}: it never reached {e.to}", message=made.message)
        for event in arrived:
            finding.met(event.n, event.t, made)
            way = _way(view, made.message, event)
            if way != e.through:
                finding.violated(f"{named(made)}: it went through {', '.join(way)}", event.n, message=made.message)
    return finding


def _way(view: View, message: str, event: Delivered) -> tuple[str, ...]:
    """Follow a delivery back: who gave it to whom, each by the last transmission that can have been the cause."""
    way, before = [event.giver], event.n
    while True:
        into = [
            t for t in view.trace.transactions_of(message)
            if t.server == way[0] and t.way != "shadow" and t.dot is not None and t.dot < before
            and view.same(event.recipient) in map(view.same, t.recipients)
            and (t.accepted is not None or not t.replies)
        ]  # fmt: skip
        if not into or not view.tested(into[-1].client):
            return tuple(way)
        way.insert(0, into[-1].client)
        before = into[-1].n


@check(ReportExpected, about={"missing": frozenset({"RL-DSN-01"}), "surplus": frozenset({"RL-DSN-01", "RL-DSN-02"})})
def report(e: ReportExpected, view: View) -> Finding:
    """Delivery status notifications about each message, with a null reverse-path."""
    finding = Finding(f"{asked(e.copies)} reports ({e.action}) about each message of {e.of} for {e.to}")
    for made in view.messages(e.of):
        found = [
            d for d in view.trace.of(Delivered)
            if d.digest.report == "delivery-status" and made.message_id and d.digest.about == made.message_id
            and view.same(d.recipient) == view.same(e.to) and (d.digest.action or "").casefold() == e.action
        ]  # fmt: skip
        _copies(finding, made, found, e.copies, e.to, "reports")
        for event in found:
            if event.sender:
                finding.violated(f"{named(made)}: a report from <{event.sender}>", event.n, message=made.message)
    return finding


@check(JournaledExpected)
def journaled(e: JournaledExpected, view: View) -> Finding:
    """Journal reports about each message."""
    finding = Finding(f"{asked(e.copies)} journal reports about each message of {e.of} for {e.to}")
    for made in view.messages(e.of):
        found = [
            d for d in view.trace.of(Delivered)
            if d.digest.report == "journal" and made.message_id and d.digest.about == made.message_id
            and view.same(d.recipient) == view.same(e.to)
        ]  # fmt: skip
        _copies(finding, made, found, e.copies, e.to, "journal reports")
    return finding
