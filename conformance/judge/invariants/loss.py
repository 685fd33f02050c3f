"""Nothing that was acknowledged is lost (RL-ACK-01, SR-BND-03)."""

from conformance.history.events import (
    Attempt,
    Command,
    Connected,
    ConnectFailed,
    Delivered,
    Drained,
    FaultArmed,
    MessageMade,
    NodeEvent,
)
from conformance.judge.finding import Case, Finding, at, moment, named
from conformance.judge.invariants.check import invariant
from conformance.judge.parameters import seconds
from conformance.judge.sessions import Session, address


@invariant("nothing-acknowledged-is-lost", "RL-ACK-01", "SR-BND-03")
def nothing_acknowledged_is_lost(case: Case) -> Finding:
    """What was acknowledged has arrived at each accepted recipient, or was reported to its sender as failed for him.

    Not judged is what SR-BND-09 lets be lost: a message all of whose servers lost their queues. A transport that was
    still at it when the harness ceased to wait may yet bring it.
    """
    finding = Finding("every acknowledged message arrives, or is reported")
    _out_of_reach(case, finding)
    drained = case.trace.of(Drained)
    for attempt in case.trace.of(Attempt):
        if attempt.code is None or attempt.code // 100 != 2 or not attempt.dot_sent:
            continue
        made = case.trace.messages[attempt.message]
        for recipient in attempt.accepted:
            if _arrived(case, made, recipient) or not _destroyed(case, attempt):
                finding.occasions += 1
            if _arrived(case, made, recipient) or _excused(case, made, recipient) or _destroyed(case, attempt):
                continue
            sentence = (
                f"{named(made)}: {attempt.server} acknowledged it by {moment(attempt.t)} (event {attempt.n}), and it never "
                f"reached {recipient}"
            )
            if not drained:
                finding.untold(f"{sentence}; the history ends before the drain", attempt.n, message=made.message)
            elif not drained[-1].quiet and (busy := _under_way(case, made, recipient, drained[-1])):
                finding.untold(f"{sentence}; but {busy}", attempt.n, message=made.message)
            else:
                finding.violated(sentence, attempt.n, message=made.message)
    return finding


def _out_of_reach(case: Case, finding: Finding) -> None:
    """Note every server that did not start again on a queue that it had acknowledged mail into.

    Not while its disk was broken, and not on an empty queue: then there is nothing that it must have.
    """
    took: dict[str, tuple[int, str]] = {}
    broken: set[str] = set()
    for event in case.trace.events:
        match event:
            case Attempt(code=int(code), dot_sent=True) if code // 100 == 2:
                took.setdefault(event.server, (event.n, event.message))
            case FaultArmed(action=action, links=(link,)) if action.startswith("disk-"):
                (broken.discard if event.healed else broken.add)(link.removesuffix(" disk"))
            case NodeEvent(action="wiped", node=node):
                took.pop(node, None)
            case NodeEvent(action="failed", node=node) if node in took and node not in broken:
                n, message = took[node]
                finding.occasions += 1
                finding.violated(
                    f"{node} acknowledged {named(case.trace.messages[message])} (event {n}), and did not start again on "
                    f"its own queue {at(event)}: {event.detail}",
                    event.n,
                    n,
                    message=message,
                )
            case _:
                pass


def _arrived(case: Case, made: MessageMade, recipient: str) -> bool:
    return bool(case.deliveries_of(made.message, recipient))


def _excused(case: Case, made: MessageMade, recipient: str) -> bool:
    """Whether the sender was told of the failure, or nobody had to be told, or it was dropped as a duplicate."""
    who = case.same(recipient)
    for report in case.trace.of(Delivered):
        digest = report.digest
        if digest.report != "delivery-status" or digest.about is None or digest.about != made.message_id:
            continue
        failed = {case.same(address) for address in digest.failed}
        about_him = who in failed if failed else digest.action == "failed"
        if about_him and case.same(report.recipient) == case.same(made.sender):
            return True
    return _unreportable(case, made, who) or _duplicate(case, made, who)


def _unreportable(case: Case, made: MessageMade, who: str) -> bool:
    """Whether it has a null reverse-path and was refused for good: no report may be made of that (RL-DSN-02)."""
    if made.sender:
        return False
    return any(
        case.tested(t.client) and who in map(case.same, (*t.recipients, *t.refused))
        and any(reply.code // 100 == 5 for reply in case.trace.sessions[t.session].replies if reply.n > t.n)
        for t in case.trace.transactions
        if not t.sender
    )  # fmt: skip


def _duplicate(case: Case, made: MessageMade, who: str) -> bool:
    """Whether the mailbox holds another message with the same Message-ID and Date: this one is dropped (SR-DUP-01)."""
    return who in case.mailboxes and any(case.deliveries_of(name, who) for name in case.trace.twins(made))


def _destroyed(case: Case, attempt: Attempt) -> bool:
    """Whether every server that ever took the message, or kept its shadow, lost its queue after that (SR-BND-09)."""
    trace = case.trace
    took: dict[str, int] = {attempt.server: attempt.n}
    for copy in trace.copies_of(attempt.message):
        took[copy.holder] = max(took.get(copy.holder, 0), copy.stored.n)
    for t in trace.transactions_of(attempt.message):
        if t.way != "shadow" and t.accepted is not None and case.tested(t.server):
            took[t.server] = max(took.get(t.server, 0), t.accepted.n)
    wiped = {event.node: event.n for event in trace.of(NodeEvent) if event.action == "wiped"}
    return all(wiped.get(server, -1) > n for server, n in took.items())


def _under_way(case: Case, made: MessageMade, recipient: str, drained: Drained) -> str:
    """Say what the transport was still doing for a message when the drain reached its bound; nothing, if nothing."""
    trace = case.trace
    retry = max(seconds(case, name, "MessageRetryInterval", drained.n) for name in case.cell.topology.by_name)
    if drained.waited < 2 * retry:
        return f"the drain lasted {moment(drained.waited)}, less than two retry intervals"
    since = drained.t - drained.waited / 2
    for event in reversed(trace.events):
        if event.t < since:
            break
        if isinstance(event, Command) and event.verb == "RCPT":
            session = trace.sessions[event.session]
            if case.acts(session.client, session.name) and case.same(address(event.line)) == case.same(recipient):
                return f"{session.client} still tried to send mail to {recipient} at {moment(event.t)}"
        elif isinstance(event, ConnectFailed) and case.tested(event.client) and not case.tested(event.server):
            return f"{event.client} still tried to reach {event.server} at {moment(event.t)}"
        elif (
            isinstance(event, Connected)
            and case.acts(event.client, event.session)
            and (deferring := _may_defer(trace.sessions[event.session]))
        ):
            return f"{event.client} was in a session with {event.server} at {moment(event.t)}, and {deferring}"
    return ""


def _may_defer(session: Session) -> str:
    """Say why a client may have put mail off in a session in which none was seen; nothing, if nothing.

    After 535 a server may defer its mail (ruling 27). What is said behind STARTTLS passes the link unseen.
    """
    if any(reply.code == 535 for reply in session.replies):
        return "put its mail off after 535"
    if session.closed is not None and session.closed.how == "secured":
        return "what it said behind STARTTLS was not seen"
    return ""
