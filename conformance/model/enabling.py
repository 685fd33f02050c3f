"""Judges the switches: nothing of shadow redundancy while it is off, and the answer to a message of which no copy could be made
(SR-ENA-02 to SR-ENA-06, SR-BND-08, SR-PRF-07, SR-TMO-01, SR-TMO-02).

With ShadowRedundancyEnabled false a server neither offers nor says a shadow verb, and holds no reply back. With it true, and no
copy made, RejectMessageOnShadowFailure decides: false, the message is accepted; true (a copy is *mandatory*), it is refused with
exactly 451 4.4.0 'Message failed to be made redundant', and not delivered. What the shadow server answered is not passed on.

`given` is the transaction in which a server, the *primary*, was given a message: MAIL is event `n`, the final dot `dot_n` at
`dot_t`, `replies` are the final replies; kind `shadow` hands over a shadow copy. `receipts` are all transactions that gave one
message to one server. `holders` are the other servers of the primary's boundary (its DAG or site) that can hold a copy. One is
*silent* where it owed the primary an answer. *Shadow verbs* are the commands of shadow redundancy, offered by keywords in the
reply to EHLO.

Each rule judges one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model`
describes. Functions that take a `finding` add to it. `row` is a requirement's id, times are documented seconds. A session is
*altered* where a fault changed, added or removed octets in it, and *disturbed* where a fault acted in it or may have delayed its
begin.
"""

from collections.abc import Mapping

from conformance.history.events import FaultFired, Reply
from conformance.model.facts import Facts, operation_name
from conformance.model.preference import PermittedAttempts, blamed_row, permitted_attempts, possible_holders
from conformance.model.redundancy import count_attempts, is_from_outside, was_any_holder_silent
from conformance.model.rules import rule
from conformance.trace.context import is_relay_only
from conformance.trace.dials import find_dials
from conformance.trace.finding import Finding, format_seconds, format_times
from conformance.trace.sessions import Session, Transaction

_SHADOW_OPERATIONS = frozenset({"request-shadow", "track-shadow", "shadow-message", "query-discard"})
_KEYWORDS = frozenset({"XSHADOW", "XSHADOWREQUEST"})
_WORDS = "message failed to be made redundant"

_PROMPT_S = 10.0
"""Documented seconds after which a final reply was held back: it waits for no other server. No document has a figure."""

_OTHER_TROUBLE = frozenset({421, 452, 552})
"""Replies with which a server refuses a message for another reason: it stops, its disk is full, the message is too large."""


@rule("SR-ENA-02")
def nothing_while_disabled(facts: Facts) -> Finding:
    """Check that a server whose redundancy is off offers, says and grants no shadow verb, and answers without delay.

    Verbs are judged in sessions that surely began while it was off, delays for messages that the server was given and answered while
    it was off; neither while a change is under way. Delays are not judged where the disk or the session met a fault. A relay without shadow redundancy is not judged.
    """
    finding = Finding("no shadow verb and no delay with ShadowRedundancyEnabled false")
    disabled = {name for name in facts.topology.by_name if _may_be_off(facts, name)}
    if is_relay_only(facts.context.claims):
        disabled = set()
    for session in facts.trace.sessions.values() if disabled else ():
        if session.client in disabled and facts.is_opened_by_tested_server(session.client, session.name):
            _check_shadow_verbs_said(facts, finding, session)
        if session.server in disabled and session.name not in facts.trace.altered_sessions:
            _check_shadow_verbs_offered(facts, finding, session)
            _check_delays(facts, finding, session)
    return finding


def _may_be_off(facts: Facts, server: str) -> bool:
    """Return whether redundancy may be off on a server at any time of the history.

    It is off from the start, or a configuration that names ShadowRedundancyEnabled was offered to the server, whatever the value
    and the answer.
    """
    return facts.is_change_offered_between(server, "ShadowRedundancyEnabled") or _is_off(facts, server, 0)


def _is_off(facts: Facts, server: str, n: int) -> bool:
    """Return whether redundancy is off on a server just before event `n`."""
    return facts.parameter(server, "ShadowRedundancyEnabled", n) is False


def _is_off_between(facts: Facts, server: str, after_n: int, before_n: int) -> bool:
    """Return whether redundancy surely is off on a server all the time from one event to another, both included.

    While a change is under way it may be on: a program takes it at a moment that no event shows.
    """
    values = facts.possible_parameter_values(server, "ShadowRedundancyEnabled", after_n, before_n)
    return all(value is False for value in values)


def _check_shadow_verbs_said(facts: Facts, finding: Finding, session: Session) -> None:
    """Add a violation for each shadow verb that the client said while its redundancy was off, and for a session without mail.

    A session without mail has no other purpose than shadow redundancy if it is with the transport listener of a server that could
    hold the client's copies, was closed and not disturbed, has no shadow verb (which is a violation of its own), and the client
    was never given a copy to hold itself. Each command said meanwhile is an occasion. Nothing is judged in a session that the client
    may have dialled while redundancy was on.
    """
    begun_n = _earliest_dial(facts, session)
    is_holder = not facts.is_2010(session.client) and session.server in possible_holders(
        facts, session.client, session.n
    )
    if (
        is_holder and session.listener == "transport" and session.keywords is not None and not session.transactions
        and session.closed is not None and not facts.is_disturbed(session.name)
        and not facts.copy_transactions_by_holder.get(session.client)
        and _is_off_between(facts, session.client, begun_n, session.n)
        and not any(operation_name(exchange) in _SHADOW_OPERATIONS for exchange in session.exchanges)
    ):  # fmt: skip
        finding.occasions += 1
        finding.add_violation(
            f"{session.client} opened a session with {session.server} in which it sent no mail (session {session.name})",
            session.n,
        )
    for exchange in session.exchanges:
        command = exchange.command
        if not _is_off_between(facts, session.client, begun_n, command.n):
            continue
        finding.occasions += 1
        if operation_name(exchange) in _SHADOW_OPERATIONS:
            finding.add_violation(
                f"{session.client} said {command.verb} to {session.server} (session {session.name})", command.n
            )


def _earliest_dial(facts: Facts, session: Session) -> int:
    """Return the number of the first event behind which the client may have dialled for a session that it opened.

    A connection is recorded once it is there, and the client dialled before: when a fault held its dial back, else at the same
    moment, at which recording order is not exact. It did not dial before it was given the message that it sent first; or, where it
    sent none and holds no copy to ask about, the first of those that it had not answered yet, if there are any.
    """
    dialled = facts.compute_once(_dials_by_end).get(session.n, session)
    moment_n = facts.first_event_at(dialled.t - facts.slack)
    sent = session.transactions[0] if session.transactions else None
    if facts.copy_transactions_by_holder.get(session.client) if sent is None else sent.message is None:
        return moment_n
    reasons = [
        given.n
        for given in facts.transactions_by_server.get(session.client, ())
        if given.n < session.n
        and (given.message == sent.message if sent else not given.replies or given.replies[0].n > session.n)
    ]
    return max(moment_n, min(reasons, default=moment_n))


def _dials_by_end(facts: Facts) -> Mapping[int, FaultFired]:
    """Return the faults that held dials back, each by the number of the event with which the dial ended."""
    return find_dials(facts.trace).ended


def _check_shadow_verbs_offered(facts: Facts, finding: Finding, session: Session) -> None:
    """Add a violation where the server offered a shadow verb, or granted one, while its redundancy was off.

    Nothing is judged in a session that began while redundancy was on.
    """
    greeted = [x.reply.n for x in session.exchanges if x.command.verb == "EHLO" and x.reply is not None]
    if (
        session.keywords is not None and session.listener == "transport"
        and _is_off_between(facts, session.server, session.n, max(greeted, default=session.n))
    ):  # fmt: skip
        finding.occasions += 1
        if offered := session.keywords & _KEYWORDS:
            finding.add_violation(
                f"{session.server} offered {min(offered)} to {session.client} (session {session.name})", session.n
            )
    for exchange in session.exchanges:
        reply = exchange.reply
        if (
            operation_name(exchange) in _SHADOW_OPERATIONS
            and reply is not None
            and _is_off_between(facts, session.server, session.n, reply.n)
        ):
            finding.occasions += 1
            if reply.code // 100 == 2:
                finding.add_violation(
                    f"{session.server} answered {reply.code} to {exchange.command.verb} of {session.client} "
                    f"(session {session.name})",
                    reply.n,
                    exchange.command.n,
                )


def _check_delays(facts: Facts, finding: Finding, session: Session) -> None:
    """Add a violation for each final reply that the server, with redundancy off, held back for more than `_PROMPT_S`.

    Left out are the listener `delivery`, disturbed sessions, servers on whose disk a fault was armed, and messages during which
    the server's node changed its state.
    """
    server = session.server
    if (
        session.listener == "delivery"
        or facts.is_disturbed(session.name)
        or facts.had_disk_trouble(server, -1, facts.end_n)
    ):
        return
    for given in session.transactions:
        if not given.replies or given.dot_n is None or given.dot_t is None:
            continue
        reply = given.replies[0]
        if not _is_off_between(facts, server, given.n, reply.n) or facts.has_node_event_between(
            server, given.n, reply.n
        ):
            continue
        finding.occasions += 1
        if reply.t - given.dot_t > _PROMPT_S + facts.slack:
            finding.add_violation(
                f"{server} answered the message of {session.client} only after {format_seconds(reply.t - given.dot_t)} "
                f"(session {session.name})",
                reply.n,
                given.dot_n,
            )


@rule("SR-ENA-04", "SR-ENA-03", "SR-ENA-05", "SR-ENA-06", "SR-BND-08", "SR-PRF-07", "SR-TMO-01", "SR-TMO-02")
def answer_without_copy(facts: Facts) -> Finding:
    """Check that a message is refused with 451 4.4.0 exactly where a shadow copy is mandatory and none could be made.

    The final reply to each message from outside the boundary is judged, where a copy is mandatory only if none was stored in time.
    A message during which a change of one of the two switches was offered is left out, and so are altered sessions, messages
    without a reply, and candidates that do not claim `shadow-2013`. A message that was refused for want of a copy must not be
    transmitted either.
    """
    finding = Finding(
        "451 4.4.0 'Message failed to be made redundant' exactly where no copy could be made and one is mandatory"
    )
    for (primary, name), receipts in (
        facts.given_by_server_and_message.items() if "shadow-2013" in facts.context.claims else ()
    ):
        for given in receipts:
            if not given.replies or given.session in facts.trace.altered_sessions or not is_from_outside(facts, given):
                continue
            reply = given.replies[0]
            if any(
                facts.is_change_offered_between(primary, switch, given.n, reply.n)
                for switch in ("ShadowRedundancyEnabled", "RejectMessageOnShadowFailure")
            ):
                continue
            if facts.parameter(primary, "ShadowRedundancyEnabled", reply.n) and facts.parameter(
                primary, "RejectMessageOnShadowFailure", reply.n
            ):
                _check_mandatory(facts, finding, given, reply)
            else:
                _check_optional(facts, finding, given, reply)
        _check_refused_is_kept_back(facts, finding, primary, name, receipts)
    return finding


def _check_optional(facts: Facts, finding: Finding, given: Transaction, reply: Reply) -> None:
    """Judge the final reply to a message for which a copy is not mandatory: it must not be refused for want of redundancy.

    Each such reply is an occasion. A server with redundancy off is judged here too.
    """
    finding.occasions += 1
    if not _is_for_redundancy(reply):
        return
    holders = possible_holders(facts, given.server, reply.n)
    row = "SR-ENA-03"
    if _is_off(facts, given.server, reply.n):
        row = "SR-ENA-06"
    elif was_any_holder_silent(facts, given, reply, holders):
        row = "SR-TMO-01"
    elif not holders:
        row = "SR-BND-08"
    words = f"{given.server} refused it with {reply.code} {reply.enhanced or ''}, though a shadow copy is not mandatory"
    finding.add_message_violation(facts.trace.messages[given.message or ""], words, reply.n, row=row)


def _is_for_redundancy(reply: Reply) -> bool:
    """Return whether a reply refuses a message because it could not be made redundant: by its status code 4.4.0, or by its words.

    False for a reply that is neither 4yz nor 5yz.
    """
    if reply.code // 100 not in (4, 5):
        return False
    return reply.enhanced == "4.4.0" or "redundan" in " ".join(reply.lines).lower()


def _check_mandatory(facts: Facts, finding: Finding, given: Transaction, reply: Reply) -> None:
    """Judge the final reply to a message for which a copy is mandatory.

    Nothing is judged where a copy was stored in time, or where the message was refused for another reason. Right is 451 4.4.0
    with the documented words, after as many attempts as are permitted or after a silent holder. Acceptance is judged here only
    where no other server could hold a copy (SR-BND-08).
    """
    primary, holders = given.server, possible_holders(facts, given.server, reply.n)
    copies = [c for c in facts.trace.copies_of(given.message or "") if c.primary == primary]
    if any(given.n < copy.transaction.n and copy.stored_reply.n < reply.n for copy in copies):
        return
    message = facts.trace.messages[given.message or ""]
    made, permitted = count_attempts(facts, given, reply, holders), permitted_attempts(facts, primary, reply.n)
    silent = was_any_holder_silent(facts, given, reply, holders)
    if reply.code // 100 == 2:
        if not holders:  # else `two-copies-at-acknowledgement` judges it
            finding.occasions += 1
            words = f"{primary}, alone in its boundary, acknowledged it without a shadow copy"
            finding.add_message_violation(message, words, reply.n, row="SR-BND-08")
        return
    tried = not holders or silent or any(made.values())
    if reply.code in _OTHER_TROUBLE or (not tried and not _is_for_redundancy(reply)):
        return  # refused for another reason
    finding.occasions += 1
    if not silent and (missing := _find_missing_attempts(made, permitted)) is not None:
        remote, times = missing
        again = any(
            g.replies and g.replies[0].n < given.n for g in facts.given_by_server_and_message[primary, message.message]
        )
        sites = "other sites" if remote else "its own site"
        finding.add_message_violation(
            message,
            f"{primary} refused it when it had tried servers of {sites} {format_times(made[remote])}, not "
            f"{format_times(times)}",
            reply.n,
            row="SR-ENA-05" if again else blamed_row(facts, primary, permitted, reply.n, remote=remote),
        )
    elif (reply.code, reply.enhanced) != (451, "4.4.0") or _WORDS not in " ".join(reply.lines).lower():
        row = "SR-ENA-05" if reply.code // 100 == 5 else "SR-TMO-02" if silent else None
        words = f"{primary} refused it with {reply.code} {' / '.join(reply.lines)}"
        finding.add_message_violation(message, words, reply.n, row=row)


def _find_missing_attempts(made: dict[bool, int], permitted: PermittedAttempts) -> tuple[bool, int] | None:
    """Return where fewer attempts were made than permitted, and how many are permitted; None where there were enough.

    The first value, as the keys of `made` (see `count_attempts`), is True for servers of other sites and False for those of the
    own site. Other sites are looked at first.
    """
    for remote, most in ((True, permitted.remote), (False, permitted.local)):
        if made[remote] < most:
            return remote, most
    return None


def _check_refused_is_kept_back(
    facts: Facts, finding: Finding, primary: str, name: str, receipts: list[Transaction]
) -> None:
    """Add a violation where a server transmits a message of which it refused every transmission with 451 4.4.0.

    Only the first such transmission is one. A message that the server may have got as a shadow copy too is left out, and one of
    which a receipt was in an altered session. No occasion is counted.
    """
    refused = [g for g in receipts if g.replies and (g.replies[0].code, g.replies[0].enhanced) == (451, "4.4.0")]
    if len(refused) < len(receipts) or any(g.session in facts.trace.altered_sessions for g in receipts):
        return
    for sent in facts.trace.transactions_of(name):
        if sent.client != primary or sent.kind == "shadow" or sent.dot_n is None:
            continue
        before = [g for g in refused if g.n < sent.dot_n]
        if not before or any(
            g.message == name and (g.dot_n or 0) < sent.n for g in facts.copy_transactions_by_holder[primary]
        ):
            continue
        finding.add_message_violation(
            facts.trace.messages[name],
            f"{primary} refused it with 451 4.4.0 and transmitted it to {sent.server} all the same",
            sent.dot_n,
            before[0].replies[0].n,
        )
        break
