"""What senders were told and what recipients got; and what servers say of themselves."""

from conformance.history.events import Command, Configured, Delivered, Inspected, NodeEvent, Reply, Talked
from conformance.judge.expectations.shadows import asked, within
from conformance.judge.finding import Finding, View, told
from conformance.scenarios.expectations import (
    AdvertisedExpected,
    ConversationExpected,
    Copies,
    DeliveredExpected,
    IssuedExpected,
    LeftExpected,
    MailboxExpected,
    QueueExpected,
    RefusedExpected,
    ReplyExpected,
    ReportExpected,
    TransmittedExpected,
    WithheldExpected,
)


def reply(e: ReplyExpected, view: View) -> Finding:
    """The final reply to each message."""
    wanted = " ".join(str(part) for part in (e.code, e.enhanced, e.text) if part)
    finding = Finding(f"the reply to each message of {e.of}: {wanted}")
    for made in view.messages(e.of):
        attempts = view.attempts(made.message)
        chosen = (
            attempts
            if e.attempt == "each"
            else attempts[-1:]
            if e.attempt == "last"
            else attempts[e.attempt - 1 : e.attempt]
        )
        finding.occasions += len(chosen)
        if not chosen and e.code != "none":
            finding.occasions += 1
            finding.violated(f"{told(made)}: no transmission has ended", message=made.message)
        for attempt in chosen:
            finding.met(attempt.n, attempt.t)
            seen = (
                f"{attempt.code} {attempt.enhanced or ''} {attempt.text}" if attempt.code else f"none: {attempt.text}"
            )
            lost = attempt.outcome == "lost"
            right = (
                (e.code is None or (lost if e.code == "lost" else not lost and attempt.code == e.code))
                and (e.enhanced is None or attempt.enhanced == e.enhanced)
                and (e.text is None or e.text in attempt.text)
            )
            if not right:
                finding.violated(f"{told(made)}: {attempt.server} said {seen}", attempt.n, message=made.message)
    return finding


def _copies(finding: Finding, view: View, name: str, found: list[list[Delivered]], wanted: Copies, who: str) -> None:
    for made, events in zip(view.messages(name), found, strict=True):
        finding.occasions += 1
        for event in events[: max(wanted.min, 1)]:
            finding.met(event.n, event.t)
        if not within(wanted, len(events)):
            finding.violated(
                f"{told(made)}: {len(events)} copies reached {who}, not {asked(wanted)}",
                *[event.n for event in events],
                message=made.message,
            )


def mailbox(e: MailboxExpected, view: View) -> Finding:
    """So many copies in each mailbox."""
    finding = Finding(f"{asked(e.copies)} of each message of {e.of} for {', '.join(e.who)}")
    for who in e.who:
        found = [view.trace.deliveries_of(made.message, who) for made in view.messages(e.of)]
        _copies(finding, view, e.of, found, e.copies, who)
    return finding


def delivered(e: DeliveredExpected, view: View) -> Finding:
    """So many copies at recipients outside."""
    finding = Finding(f"{asked(e.copies)} of each message of {e.of} at {e.at or 'its sink'}")
    boxes = {mailbox.address.casefold() for mailbox in view.cell.topology.mailboxes}
    recipients: dict[str, None] = {}
    for made in view.messages(e.of):
        outside = tuple(r for r in made.recipients if r.casefold() not in boxes)
        recipients.update(dict.fromkeys(e.to or outside or made.recipients))
    for who in recipients:
        found = [
            [
                event for event in view.trace.deliveries_of(made.message, who)
                if (e.at is None or event.sink == e.at) and (e.by is None or event.giver == e.by)
            ]
            for made in view.messages(e.of)
        ]  # fmt: skip
        _copies(finding, view, e.of, found, e.copies, who)
    return finding


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
            finding.met(t.n, t.t)
        if not within(e.copies, len(found)):
            finding.violated(f"{told(made)}: {len(found)} transmissions", *[t.n for t in found], message=made.message)
    return finding


def report(e: ReportExpected, view: View) -> Finding:
    """Delivery status notifications about each message, with a null reverse-path."""
    finding = Finding(f"{asked(e.copies)} reports ({e.action}) about each message of {e.of} for {e.to}")
    for made in view.messages(e.of):
        finding.occasions += 1
        found = [
            d for d in view.trace.of(Delivered)
            if d.digest.report == "delivery-status" and d.digest.about == made.message_id
            and d.recipient.casefold() == e.to.casefold() and (d.digest.action or "").casefold() == e.action
        ]  # fmt: skip
        for event in found[:1]:
            finding.met(event.n, event.t)
        if not within(e.copies, len(found)):
            finding.violated(f"{told(made)}: {len(found)} reports", *[d.n for d in found], message=made.message)
        for event in found:
            if event.sender:
                finding.violated(f"{told(made)}: a report from <{event.sender}>", event.n, message=made.message)
    return finding


def conversation(e: ConversationExpected, view: View) -> Finding:
    """A talk went as it says."""
    finding = Finding(f"the conversation {e.conversation} goes as written")
    for event in view.trace.of(Talked):
        if event.conversation == e.conversation:
            finding.occasions += len(event.exchanges)
            finding.met(event.n, event.t)
            if event.problem:
                last = event.exchanges[-1].said if event.exchanges else ""
                finding.violated(f"after {last!r}: {event.problem}", event.n)
    return finding


def advertised(e: AdvertisedExpected, view: View) -> Finding:
    """Whether a keyword was offered."""
    finding = Finding(f"{e.by} offers {'' if e.offered else 'no '}{e.keyword} to {e.to}")
    for event in view.trace.of(Reply):
        where = view.trace.sessions[event.session]
        if event.to == "EHLO" and (where.client, where.server, where.listener) == (e.to, e.by, e.listener):
            finding.occasions += 1
            finding.met(event.n, event.t)
            offered = e.keyword.upper() in {line.split(" ")[0].upper() for line in event.lines[1:]}
            if offered is not e.offered:
                finding.violated(f"{'offered' if offered else 'not offered'} in session {event.session}", event.n)
    return finding


def issued(e: IssuedExpected, view: View) -> Finding:
    """How often a verb was used."""
    finding = Finding(f"{e.by} uses {e.verb} towards {e.to}: {asked(e.times)}", occasions=1)
    found = [
        c for c in view.trace.of(Command)
        if c.verb == e.verb.upper()
        and (view.trace.sessions[c.session].client, view.trace.sessions[c.session].server) == (e.by, e.to)
    ]  # fmt: skip
    finding.evidence += [c.n for c in found]
    if not within(e.times, len(found)):
        finding.violated(f"{len(found)} times", *[c.n for c in found])
    return finding


def withheld(e: WithheldExpected, view: View) -> Finding:
    """How long the final reply was withheld after the final dot."""
    finding = Finding(
        f"the reply to {e.of} withheld"
        + (f" for at least {e.least:g} s" if e.least is not None else "")
        + (f" and at most {e.most:g} s" if e.most is not None else "")
    )
    for made in view.messages(e.of):
        for attempt in view.attempts(made.message):
            for t in view.trace.transactions_of(made.message):
                if t.session != attempt.session or t.dot_t is None:
                    continue
                if not t.replies:
                    continue
                finding.occasions += 1
                finding.evidence.append(t.replies[-1].n)
                time = t.replies[-1].t - t.dot_t
                if (e.least is not None and time < e.least) or (e.most is not None and time > e.most):
                    finding.violated(f"{told(made)}: {time:g} s", t.replies[-1].n, message=made.message)
    return finding


def left(e: LeftExpected, view: View) -> Finding:
    """A node left with an exit code."""
    finding = Finding(f"{e.node} leaves with exit code {e.code}")
    for event in view.trace.of(NodeEvent):
        if event.node == e.node and event.action in ("stopped", "exited"):
            finding.occasions += 1
            finding.met(event.n, event.t)
            if f"exit code {e.code}" not in event.detail:
                finding.violated(event.detail, event.n)
    return finding


def refused(e: RefusedExpected, view: View) -> Finding:
    """The last configuration offered to a node was refused, or taken."""
    finding = Finding(
        f"{e.node} {'refuses' if e.refused else 'takes'} the configuration"
        + (f", naming {', '.join(e.names)}" if e.names else "")
    )
    offered = [event for event in view.trace.of(Configured) if event.node == e.node]
    for event in offered[-1:]:
        finding.occasions += 1
        finding.met(event.n, event.t)
        if (event.refused is not None) is not e.refused:
            finding.violated(f"it was {'refused: ' + event.refused if event.refused else 'taken'}", event.n)
        elif missing := [name for name in e.names if name not in (event.refused or "")]:
            finding.violated(f"the refusal names no {', '.join(missing)}: {event.refused}", event.n)
    return finding


def queue(e: QueueExpected, view: View) -> Finding:
    """What the last inspection of a node showed."""
    finding = Finding(f"{asked(e.items)} items in the {e.kind} queues of {e.on}")
    shown = [event for event in view.trace.of(Inspected) if event.node == e.on]
    for event in shown[-1:]:
        finding.occasions += 1
        finding.met(event.n, event.t)
        if e.kind == "delivered-to":
            rows = event.state.get("delivered_to", 0)
            number, queues = rows if isinstance(rows, int) else len(rows), 1
        else:
            wanted = {made.message_id for made in view.messages(e.of)} if e.of else None
            held = [
                [item for item in q["items"] if wanted is None or str(item["message_id"]).strip("<>") in wanted]
                for q in event.state["queues"]
                if q["kind"] == e.kind and (e.next_hop is None or q["next_hop"] == e.next_hop)
            ]
            number, queues = sum(map(len, held)), sum(1 for items in held if items)
        if not within(e.items, number):
            finding.violated(f"{number} items", event.n)
        if e.queues is not None and queues != e.queues:
            finding.violated(f"{queues} separate queues, not {e.queues}", event.n)
    return finding
