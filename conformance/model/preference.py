"""Judges which servers are asked for a shadow copy, in which order and how often (SR-PRF-01 to SR-PRF-06).

Theory of operation
-------------------
In a DAG that spans sites ShadowMessagePreferenceSetting says whether members in the primary's own site (local) or in other sites
(remote) are asked, and in which order; the limits MaxRetriesForRemoteSiteShadow and MaxRetriesForLocalSiteShadow say how often.
In one site, DAG or not, only the local limit counts (SR-PRF-06).

An attempt that ended before the content does not show for which message it was made, and one before MAIL may have been no attempt
but a heartbeat. So attempts are counted twice. An attempt in the wrong order is judged by all that may have been made for the
message (`_count_possible_remote_attempts`), the limit by those that were surely made for it (`_is_surely_for_message`). Too few
attempts are seen where the server gives up: `redundancy` judges acknowledgements, `enabling` refusals; both use this module's
functions.

The *effort* for a message begins with the MAIL by which the *primary* is given it, and ends with its final reply; meanwhile the
primary tries to have a copy stored by a possible *holder*. `n` is an event's number. Rulings are those of docs/rulings.md.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). Functions that take a `finding` add to it. A violation blames
its `row`, else the rule's first requirement.

A `ShadowAttempt` is a primary's (`client`) try to have a copy stored by another server; its `message` is None where it ended
before the content, or the content is of no message of the scenario. A `Transaction` is one mail transaction: `n` and `t` are
those of its MAIL, `dot_n` and `dot_t` those of its final dot (None before it), `replies` the final replies, `acceptance` the
first positive final reply or None, and `message` the scenario's name of the message or None. Its `kind` is `shadow` (a copy that
the server is to hold, 2013 and later), `tracked` (2010: mail of which the client keeps the shadow) or `plain`. A session is
*disturbed* where any fault acted in it or may have delayed it. Of a server's listeners `frontend` is for mail from outside,
`transport` for other servers, `delivery` that of its mailbox store. `facts.slack` is by how many seconds a time may miss a bound.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from conformance.model.contacts import is_lost_before_request, is_turned_away
from conformance.model.facts import Facts
from conformance.model.resending import is_resending_requested
from conformance.model.rules import rule
from conformance.trace.finding import Finding, format_times
from conformance.trace.parameters import DEFAULTS, numeric_parameter_at
from conformance.trace.sessions import Session, Transaction
from conformance.trace.shadows import ShadowAttempt

_LIMITS = ("MaxRetriesForRemoteSiteShadow", "MaxRetriesForLocalSiteShadow")
_PARAMETERS = (*_LIMITS, "ShadowMessagePreferenceSetting")

_AT_ONCE_S = 1.0
"""A server has its own report made redundant within this time of sending it. Seconds."""


@dataclass(frozen=True, slots=True)
class PermittedAttempts:
    """How many attempts a server may make with servers of other sites (`remote`) and of its own site (`local`).

    `preference` is ShadowMessagePreferenceSetting, '' where all possible holders are in the primary's site: then it does not count.
    """

    remote: int
    local: int
    preference: str


def possible_holders(facts: Facts, primary: str, n: int) -> frozenset[str]:
    """Return the other servers of the primary's boundary (DAG or site) that could hold a copy for it at event `n`.

    These are mailbox and hub servers, none of 2010, that the primary has the right to ask for shadow copies.
    """
    return frozenset(
        other
        for other in facts.topology.boundary(primary) - {primary}
        if not facts.is_2010(other)
        and facts.topology.by_name[other].role in ("mailbox", "hub")
        and True in facts.possible_rights(primary, other, "send_xshadow", n, n)
    )


def is_remote(facts: Facts, primary: str, holder: str) -> bool:
    """Return whether two servers are in different sites."""
    return facts.context.site_of(primary) != facts.context.site_of(holder)


def permitted_attempts(facts: Facts, primary: str, n: int) -> PermittedAttempts:
    """Return how many attempts the parameters permit that are in force at event `n`.

    `remote` is 0 under LocalOnly, `local` is 0 under RemoteOnly; each is 0 too where no possible holder is in such a site. Where all
    possible holders are in the primary's own site, the preference does not count, and `local` is the local limit (SR-PRF-06).
    """
    holders = possible_holders(facts, primary, n)
    limits = [int(numeric_parameter_at(facts.context, primary, name, n)) for name in _LIMITS]
    if not any(is_remote(facts, primary, holder) for holder in holders):
        return PermittedAttempts(remote=0, local=limits[1] if holders else 0, preference="")
    preference = str(facts.parameter(primary, "ShadowMessagePreferenceSetting", n))
    local = limits[1] if any(not is_remote(facts, primary, holder) for holder in holders) else 0
    return PermittedAttempts(
        remote=0 if preference == "LocalOnly" else limits[0],
        local=0 if preference == "RemoteOnly" else local,
        preference=preference,
    )


def blamed_row(facts: Facts, primary: str, permitted: PermittedAttempts, n: int, *, remote: bool) -> str:
    """Return the row broken by too many or too few attempts with servers of other sites (`remote`), or of the own site.

    Where the preference forbids such a site, that is the row of the preference. Else it is the row about the default if the limit
    has its default value at event `n`, and the row of the preference if not. `permitted` is what `permitted_attempts` gives for `n`.
    """
    name, default_row = (_LIMITS[0], "SR-PRF-04") if remote else (_LIMITS[1], "SR-PRF-05")
    by_preference: dict[str, str] = {"LocalOnly": "SR-PRF-02", "RemoteOnly": "SR-PRF-03", "": "SR-PRF-06"}
    if permitted.preference == ("LocalOnly" if remote else "RemoteOnly"):
        return by_preference[permitted.preference]
    is_default = facts.numeric_parameter(primary, name, n) == DEFAULTS[name]
    return default_row if is_default else by_preference.get(permitted.preference, "SR-PRF-01")


@rule("SR-PRF-01", "SR-PRF-02", "SR-PRF-03", "SR-PRF-04", "SR-PRF-05", "SR-PRF-06", timed=False)
def attempts_by_preference(facts: Facts) -> Finding:
    """Check each attempt against the preference, and the number of attempts for each message against the limits.

    An effort during which one of the parameters was changed is left out: it may go by the old or the new values. 2010 servers are
    left out.
    """
    finding = Finding("attempts at a shadow copy in the order and number of the preference and its limits")
    for primary, attempts in facts.shadow_attempts_by_primary.items():
        if facts.is_2010(primary):
            continue
        for attempt in attempts:
            if attempt.message is not None and attempt.server in possible_holders(facts, primary, attempt.n):
                _check_site(facts, finding, attempt, attempts)
        for given in _efforts_of(facts, primary):
            _check_number(facts, finding, given, attempts, possible_holders(facts, primary, given.n))
    return finding


def _check_site(facts: Facts, finding: Finding, attempt: ShadowAttempt, attempts: list[ShadowAttempt]) -> None:
    """Add a violation where the preference forbids an attempt at the asked server's site, or forbids it so early.

    With PreferRemote a server of the own site may be tried only after the permitted number of attempts at other sites. An attempt
    of a primary all of whose possible holders are in its own site is no occasion.
    """
    primary, message = attempt.client, facts.trace.messages[attempt.message or ""]
    since = _effort_begin(facts, attempt)
    permitted = permitted_attempts(facts, primary, attempt.n)
    if not permitted.preference or any(
        facts.is_change_offered_between(primary, name, since, attempt.n) for name in _PARAMETERS
    ):
        return
    finding.occasions += 1
    remote = is_remote(facts, primary, attempt.server)
    where = f"{attempt.server} in {'another' if remote else 'its own'} site"
    if remote and permitted.preference == "LocalOnly":
        text = f"{primary} tried {where} under LocalOnly"
        finding.add_message_violation(message, text, attempt.n, row="SR-PRF-02")
    elif not remote and permitted.preference == "RemoteOnly":
        text = f"{primary} tried {where} under RemoteOnly"
        finding.add_message_violation(message, text, attempt.n, row="SR-PRF-03")
    elif not remote and permitted.preference == "PreferRemote":
        before = _count_possible_remote_attempts(facts, attempt, attempts, since)
        if before < permitted.remote:
            finding.add_message_violation(
                message,
                f"{primary} tried {where} when it had tried servers of other sites {format_times(before)}, not "
                f"{format_times(permitted.remote)}",
                attempt.n,
                row=None if before == 0 else blamed_row(facts, primary, permitted, attempt.n, remote=True),
            )


def _effort_begin(facts: Facts, attempt: ShadowAttempt) -> int:
    """Return the number of the first event at which the effort that the attempt belongs to may have begun, -1 without one.

    That is the oldest of these: the MAILs with the message that were unanswered at the attempt (without any, the last MAIL), and
    the stored copies of the message that the primary may have promoted.
    """
    given = [
        g for g in facts.given_by_server_and_message.get((attempt.client, attempt.message or ""), ()) if g.n < attempt.n
    ]
    unanswered = [g.n for g in given if not g.replies or g.replies[0].n > attempt.n]
    held = [
        copy.stored_reply.n for copy in facts.trace.copies_of(attempt.message or "")
        if copy.holder == attempt.client and copy.stored_reply.n < attempt.n
    ]  # fmt: skip
    return min((*(unanswered or [g.n for g in given][-1:]), *held), default=-1)


def _count_possible_remote_attempts(
    facts: Facts, attempt: ShadowAttempt, attempts: list[ShadowAttempt], since: int
) -> int:
    """Return how many attempts with servers of other sites may have failed for the same message after event `since` and before this one.

    Also counted are sessions since then in which shadow copies were not offered, or that were lost, or disturbed by a fault, before a
    request for one was seen, and sessions with a shadow copy that ended in this time, or that a fault disturbed.
    """
    primary, holders = attempt.client, possible_holders(facts, attempt.client, attempt.n)
    remote = [holder for holder in holders if is_remote(facts, primary, holder)]
    count = sum(
        a.server in remote and since < a.n < attempt.n and a.message in (None, attempt.message) for a in attempts
    )
    for session in _shadow_sessions(facts, primary, remote):
        is_disturbed = facts.is_disturbed(session.name)
        ended = since < facts.end_of_session(session.name) < attempt.n or is_disturbed
        kept = session.n < attempt.n and ended and any(t.kind == "shadow" for t in session.transactions)
        in_vain = is_turned_away(session) or is_lost_before_request(session, is_disturbed=is_disturbed)
        count += kept or (since < session.n < attempt.n and in_vain)
    return count


def _shadow_sessions(facts: Facts, primary: str, holders: list[str]) -> Iterator[Session]:
    """Yield the sessions that a primary opened to the listener `transport` of these servers; copies are handed over there."""
    for holder in holders:
        yield from (
            s for s in facts.sessions_by_client_and_server.get((primary, holder), ()) if s.listener == "transport"
        )


def _efforts_of(facts: Facts, primary: str) -> Iterator[Transaction]:
    """Yield the transactions by which a primary was given a message, each only if no other with the message overlaps it.

    Those during which the primary stopped are left out, since it may begin its effort anew, and those on the listener `delivery`.
    """
    for (server, _), receipts in facts.given_by_server_and_message.items():
        for given in receipts if server == primary else ():
            end = end_of_effort(facts, given)
            alone = not any(o is not given and o.n < end and end_of_effort(facts, o) > given.n for o in receipts)
            if alone and given.listener != "delivery" and not facts.was_interrupted_between(primary, given.n, end):
                yield given


def end_of_effort(facts: Facts, given: Transaction) -> int:
    """Return the number of the event at which the effort for a message is over: its first final reply, else the session's end."""
    return given.replies[0].n if given.replies else facts.end_of_session(given.session)


def _check_number(
    facts: Facts, finding: Finding, given: Transaction, attempts: list[ShadowAttempt], holders: frozenset[str]
) -> None:
    """Add a violation where more attempts were surely made for one message than its limit permits.

    Nothing is judged without a possible holder, or if a parameter was changed meanwhile. `attempts` are all attempts of the
    primary.
    """
    primary, end = given.server, end_of_effort(facts, given)
    if not holders or any(facts.is_change_offered_between(primary, name, given.n, end) for name in _PARAMETERS):
        return
    permitted = permitted_attempts(facts, primary, given.n)
    certain = [
        a for a in attempts if given.n < a.n < end and a.server in holders and _is_surely_for_message(facts, a, given)
    ]
    finding.occasions += bool(certain)
    for remote, most in ((True, permitted.remote), (False, permitted.local)):
        made = [a for a in certain if is_remote(facts, primary, a.server) == remote]
        if 0 <= most < len(made):  # a negative limit is no limit, and should have been refused
            sites = "other sites" if remote else "its own site"
            finding.add_message_violation(
                facts.trace.messages[given.message or ""],
                f"{primary} tried servers of {sites} {format_times(len(made))} for one message, where "
                f"{format_times(most)} is permitted",
                *(a.n for a in made[:20]),
                row=blamed_row(facts, primary, permitted, given.n, remote=remote),
            )


def _is_surely_for_message(facts: Facts, attempt: ShadowAttempt, given: Transaction) -> bool:
    """Return whether an attempt was surely made for the message that the primary was given in `given`.

    An attempt with content goes by the name of the message. One that ended before its content is surely for it only if the primary
    had no other message to answer, and the attempt can have had no other purpose, such as a report or a heartbeat.
    """
    if attempt.message is not None:
        return attempt.message == given.message
    if any(
        not own.sender and own.kind != "shadow" and abs(own.t - attempt.t) <= _AT_ONCE_S
        for own in facts.transactions_by_client.get(attempt.client, ())
    ):
        return False  # it may be for a report that the server makes
    expiry = min(
        facts.parameter_numbers_between(given.server, "MessageExpirationTimeout", given.n, attempt.n), default=math.inf
    )
    if given.dot_t is not None and attempt.t >= given.dot_t + expiry - facts.slack:
        return False  # it may be for the report that the message expired; one that cannot be sent shows nowhere else
    waiting = [
        g for g in facts.transactions_by_server.get(attempt.client, ())
        if g.kind != "shadow" and g.n < attempt.n < end_of_effort(facts, g)
    ]  # fmt: skip
    return waiting == [given] and not _is_granted_request(facts, attempt) and not _has_other_purpose(facts, attempt)


def _is_granted_request(facts: Facts, attempt: ShadowAttempt) -> bool:
    """Return whether an attempt is a granted request for shadow redundancy: its session may be for later use (ruling 14)."""
    return any(
        exchange.command.n == attempt.n and exchange.reply is not None and exchange.reply.code // 100 == 2
        for session in facts.sessions_by_client_and_server.get((attempt.client, attempt.server), ())
        if session.n < attempt.n < facts.end_of_session(session.name)
        for exchange in session.exchanges
    )


def _has_mail_to_pass_on(facts: Facts, server: str, n: int) -> bool:
    """Return whether at event `n` a server had acknowledged mail that it had not passed on yet.

    An attempt at any other server may be for that mail.
    """
    normalize_all = facts.context.normalize_addresses
    for given in facts.transactions_by_server.get(server, ()):
        if given.kind == "shadow" or given.acceptance is None or given.acceptance.n > n or given.message is None:
            continue
        done = [
            recipient
            for sent in facts.transactions_by_client.get(server, ())
            if sent.message == given.message and sent.kind != "shadow" and sent.acceptance and sent.acceptance.n < n
            for recipient in sent.accepted_recipients
        ]
        if normalize_all(given.recipients) - normalize_all(done):
            return True
    return False


def _has_other_purpose(facts: Facts, attempt: ShadowAttempt) -> bool:
    """Return whether an attempt may have been made for something else than the message that the primary was given.

    It may be a heartbeat, if the client holds a copy for the asked server. It may be for a message that the client has to pass
    on, for a copy that it promoted (its primary stopped or could not be reached), or for what it makes redundant again after a
    stop of its own or, at any time of the history, a request to send messages again.
    """
    client, n = attempt.client, attempt.n
    if _has_mail_to_pass_on(facts, client, n):
        return True
    for copy in facts.copy_transactions_by_holder.get(client, ()):
        since = copy.n if copy.dot_n is None else copy.dot_n
        if since > n:
            continue
        unreachable = any(e.server == copy.client and e.n < n for e in facts.failed_connections(client, since))
        if copy.client == attempt.server or unreachable or facts.was_interrupted_between(copy.client, since, n):
            return True
    given = facts.transactions_by_server.get(client, [])
    return is_resending_requested(facts) or (bool(given) and facts.was_interrupted_between(client, given[0].n, n))
