"""Checks shadow copies: where and when they were stored, how often that was tried, and what is in them.

`expected` is what the scenario's author wrote under the verb; `of` names the messages, `by` the *primary* that asks for
copies, `on` the *holders* that store them. A message is *acknowledged* when the harness, its sender, gets the positive final
reply; the primary sends the copy to the holder while that sender waits. Rulings are those of docs/rulings.md. `n` is an
event's number.

The judge (`conformance.judge.cell`) calls a check when the step of its expectation has ended. `context` is the history up to
then. The check returns a `Finding`: `occasions` counts how often it could have failed; a confirmation is an event that shows
what was expected, whose time the judge compares with `after` and `within`; `evidence` has the events that are shown. The
`kind` of a violation selects the requirements to blame: `rows_by_kind` of the decorator, else its `fallback_rows`.
Violations of `explaining_kinds` are listed before the failures that may follow from them.
"""

from collections.abc import Sequence

from conformance.history.events import Attempt, MessageMade, Reply
from conformance.judge.checks import expectation_check
from conformance.scenarios.expectations import (
    NoShadowExpected,
    ShadowAttemptsExpected,
    ShadowExpected,
)
from conformance.trace.context import ExpectationContext
from conformance.trace.finding import (
    Finding,
    ViolationKind,
    format_count,
    format_seconds,
    format_time,
    format_times,
    is_expected_count,
)
from conformance.trace.shadows import ShadowAttempt, ShadowCopy

_ROWS_STORED = frozenset(
    {
        "SR-CRE-01", "SR-CRE-03", "SR-CRE-07", "SR-CRE-10", "SR-ENA-01", "SR-BND-03", "SR-BND-05", "SR-TMO-03",
        "SR-E10-02", "SR-E10-03", "SR-IOP-02",
    }
)  # fmt: skip
_ROWS_PLACED = frozenset(
    {
        "SR-BND-01", "SR-BND-02", "SR-BND-05", "SR-PRF-01", "SR-PRF-02", "SR-PRF-03", "SR-PRF-04", "SR-PRF-05",
        "SR-PRF-06", "SR-E10-10",
    }
)  # fmt: skip
_FALLBACK_ROW = {False: "SR-CRE-01", True: "SR-E10-03"}
"""The row that asks for a copy which a scenario takes for granted; True: where all servers are of 2010."""


@expectation_check(
    ShadowExpected,
    rows_by_kind={
        "missing": _ROWS_STORED,
        "late": _ROWS_STORED,
        "elsewhere": _ROWS_PLACED,
        "surplus": frozenset({"SR-CRE-09", "SR-E10-03"}),
        "early": frozenset({"SR-CRE-02"}),
    },
    explaining_kinds=("elsewhere", "early"),
    fallback_rows={"missing": _FALLBACK_ROW, "late": _FALLBACK_ROW},
)
def shadow(expected: ShadowExpected, context: ExpectationContext) -> Finding:
    """Check where each message's copies were stored, when, how many they are, and over how many holders they spread.

    `by`, where given, leaves out the copies of other primaries. One copy on one of the servers `on` suffices; all copies must be in
    `sites`, and each message must have `count` of them. The copies of all messages together must be on at least `spread` servers.
    Each message is an occasion.
    """
    where = f" on {' or '.join(expected.on)}" if expected.on else ""
    finding = Finding(f"a shadow copy of each message of {expected.of}{where}, {expected.stored.replace('-', ' ')}")
    holders: set[str] = set()
    for message in context.messages(expected.of):
        finding.occasions += 1
        copies = [
            c for c in context.trace.copies_of(message.message) if expected.by is None or c.primary == expected.by
        ]
        holders.update(copy.holder for copy in copies)
        _check_first_copy(finding, expected, context, message, copies)
        if expected.count is not None and len(copies) != expected.count:
            finding.add_message_violation(
                message,
                f"{len(copies)} shadow copies were stored, not {expected.count}",
                *[c.stored_reply.n for c in copies],
                kind="missing" if len(copies) < expected.count else "surplus",
            )
        for copy in copies:
            if expected.sites is not None and context.site_of(copy.holder) not in expected.sites:
                sentence = (
                    f"shadow stored by {copy.holder} in {context.site_of(copy.holder)}, not in "
                    f"{' or '.join(expected.sites)}"
                )
                finding.add_message_violation(message, sentence, copy.stored_reply.n, kind="elsewhere")
    if expected.spread is not None and len(holders) < expected.spread:
        names = ", ".join(sorted(holders)) or "no server"
        finding.add_violation(f"all shadows are on {names}, not spread over {expected.spread}")
    return finding


def _check_first_copy(
    finding: Finding,
    expected: ShadowExpected,
    context: ExpectationContext,
    message: MessageMade,
    copies: Sequence[ShadowCopy],
) -> None:
    """Confirm by the first copy on one of the servers `on` (None: any); without such a copy add a violation, unless `count` is 0.

    The violation is `elsewhere` if there are copies on other servers, else `missing`. If the message was acknowledged, and
    `stored` or `mail` ask for it, add a violation where the copy was stored or sent too late, or too early.
    """
    attempt = next((a for a in context.attempts(message.message) if a.code is not None and a.code // 100 == 2), None)
    acknowledgement = _last_final_reply(context, attempt) if attempt else None
    wanted = [copy for copy in copies if expected.on is None or copy.holder in expected.on]
    if not wanted:
        until = format_seconds(context.trace.events[-1].t)
        holders = ", ".join(copy.holder for copy in copies)
        seen = f"stored by {holders}" if copies else f"no server had stored one by {until}"
        evidence = (
            (acknowledgement.n,) if acknowledgement is not None else tuple(copy.stored_reply.n for copy in copies)
        )
        if expected.count != 0:
            kind: ViolationKind = "elsewhere" if copies else "missing"
            finding.add_message_violation(message, seen, *evidence, kind=kind)
        return
    copy, stored = wanted[0], wanted[0].stored_reply
    finding.add_confirmation(stored.n, stored.t, message)
    if attempt is None or acknowledgement is None:
        return
    if expected.mail == "in-transaction":
        _check_mail_in_transaction(finding, context, message, copy, attempt, acknowledgement)
    if expected.stored == "before-acknowledgement" and acknowledgement.n < stored.n:
        sentence = (
            f"{attempt.server} acknowledged it with {acknowledgement.code} "
            f"{format_time(acknowledgement)} before {copy.holder} had stored the shadow {format_time(stored)}"
        )
        finding.add_message_violation(message, sentence, acknowledgement.n, stored.n, kind="late")


def _check_mail_in_transaction(
    finding: Finding,
    context: ExpectationContext,
    message: MessageMade,
    copy: ShadowCopy,
    attempt: Attempt,
    acknowledgement: Reply,
) -> None:
    """Add a violation where the copy's MAIL lies outside of the sender's transaction (SR-CRE-02).

    The sender's transaction lasts from its MAIL to `acknowledgement`. The session of the copy may have been opened before (ruling
    14). A copy in whose session nothing happened while the sender waited is late as a whole, which is the subject of SR-CRE-01:
    no violation here. A violation is of the kind `early`, also for a MAIL that came too late.
    """
    given = [
        t
        for t in context.trace.transactions_of(message.message)
        if t.session == attempt.session and t.n < acknowledgement.n
    ]
    if not given:
        return
    session = context.trace.sessions[copy.transaction.session]
    activity = [session.n, *(exchange.command.n for exchange in session.exchanges)]
    if copy.transaction.n < given[-1].n:
        when = "before the sender's own"
    elif copy.transaction.n > acknowledgement.n and any(given[-1].n < n < acknowledgement.n for n in activity):
        when = f"only after the sender's reply {format_time(acknowledgement)}"
    else:
        return
    sentence = f"{copy.primary} sent the copy's MAIL to {copy.transaction.server} {when}"
    finding.add_message_violation(message, sentence, copy.transaction.n, acknowledgement.n, kind="early")


def _last_final_reply(context: ExpectationContext, attempt: Attempt) -> Reply | None:
    """Return the last final reply to an attempt's last transaction as it passed the link, None where none was recorded.

    An `Attempt` is recorded when it has ended, after its transaction.
    """
    transactions = context.trace.transactions_of(attempt.message)
    sent = [t for t in transactions if t.session == attempt.session and t.n < attempt.n]
    return sent[-1].replies[-1] if sent and sent[-1].replies else None


@expectation_check(NoShadowExpected, explaining_kinds=("surplus",))
def no_shadow(expected: NoShadowExpected, context: ExpectationContext) -> Finding:
    """Check that no copy was stored by `on` (None: any); each transaction with the whole message is an occasion."""
    finding = Finding(f"no shadow copy of {expected.of}" + (f" on {' or '.join(expected.on)}" if expected.on else ""))
    for message in context.messages(expected.of):
        finding.occasions += len(context.trace.transactions_of(message.message))
        for copy in context.trace.copies_of(message.message):
            if expected.on is None or copy.holder in expected.on:
                sentence = f"{copy.holder} stored one for {copy.primary} {format_time(copy.stored_reply)}"
                finding.add_message_violation(message, sentence, copy.stored_reply.n, kind="surplus")
    return finding


@expectation_check(
    ShadowAttemptsExpected,
    rows_by_kind={"elsewhere": _ROWS_PLACED, "near": frozenset({"SR-PRF-05"}), "far": frozenset({"SR-PRF-04"})},
    explaining_kinds=("elsewhere", "near", "far"),
)
def shadow_attempts(expected: ShadowAttemptsExpected, context: ExpectationContext) -> Finding:
    """Check the attempts of a primary to have a copy stored: their number, their sites in order, and their servers.

    Each is checked where the expectation asks for it (`count`, `sites`, `on`, `distinct`). With `of` there is no occasion until a
    transmission of one of these messages has ended. Nothing confirms, so no times are compared.
    """
    count = format_count(expected.count) if expected.count else "as the scenario says"
    wanted = ", ".join(expected.sites) if expected.sites else count
    finding = Finding(f"attempts of {expected.by} to make a shadow: {wanted}")
    attempts = _find_attempts(expected, context, finding)
    if not finding.occasions:
        return finding
    numbers = [attempt.n for attempt in attempts]
    finding.evidence += numbers
    if expected.sites is not None and not _are_in_sites(context, expected.by, attempts, expected.sites):
        sites = ", ".join(f"{a.server} ({_local_or_remote(context, expected.by, a)})" for a in attempts) or "none"
        kind = _site_violation_kind(context, expected.by, attempts, expected.sites)
        finding.add_violation(f"{len(attempts)} attempts: {sites}", *numbers, kind=kind)
    if expected.count is not None and not is_expected_count(expected.count, len(attempts)):
        finding.add_violation(f"tried {format_times(len(attempts))}", *numbers, kind="" if attempts else "missing")
    for attempt in attempts:
        if expected.on is not None and attempt.server not in expected.on:
            finding.add_violation(f"an attempt at {attempt.server}", attempt.n, kind="elsewhere")
    if expected.distinct:
        _check_distinct(finding, context, expected.by, attempts)
    return finding


def _find_attempts(
    expected: ShadowAttemptsExpected, context: ExpectationContext, finding: Finding
) -> list[ShadowAttempt]:
    """Return the primary's attempts for the messages `of`, or all its attempts without `of`; set the finding's occasions to one.

    Attempts before the sender's first MAIL are left out: they were for a session that is kept ready for any message (ruling
    14). One that ended before its own MAIL names no message: it counts if it came before the first transmission of the messages
    ended. While none has ended, return [] and set no occasion.
    """
    attempts = [attempt for attempt in context.trace.shadow_attempts if attempt.client == expected.by]
    if expected.of is None:
        finding.occasions = 1
        return attempts
    messages = context.messages(expected.of)
    names = {message.message for message in messages}
    end = min((a.n for name in names for a in context.attempts(name)), default=None)
    if end is None:
        return []
    finding.occasions = 1
    begin = min(_first_mail(context, message) for message in messages)
    return [
        attempt
        for attempt in attempts
        if attempt.n >= begin and (attempt.message in names if attempt.message is not None else attempt.n <= end)
    ]


def _first_mail(context: ExpectationContext, message: MessageMade) -> int:
    """Return the number of the sender's first MAIL for a message, or that of the message's event where there is none.

    That is the first MAIL after the message was made, in the sessions in which the harness sent it.
    """
    sessions = [
        context.trace.sessions[a.session]
        for a in context.attempts(message.message)
        if a.session in context.trace.sessions
    ]
    return min((t.n for session in sessions for t in session.transactions if t.n > message.n), default=message.n)


def _local_or_remote(context: ExpectationContext, primary: str, attempt: ShadowAttempt) -> str:
    """Return `local` for an attempt at a server in the primary's own site, else `remote`."""
    return "local" if context.site_of(attempt.server) == context.site_of(primary) else "remote"


def _are_in_sites(
    context: ExpectationContext, primary: str, attempts: Sequence[ShadowAttempt], sites: Sequence[str]
) -> bool:
    """Return whether there is one attempt for each of the sites (names, `local` or `remote`), in this order."""
    return len(attempts) == len(sites) and all(
        site in (_local_or_remote(context, primary, attempt), context.site_of(attempt.server))
        for site, attempt in zip(sites, attempts, strict=True)
    )


def _site_violation_kind(
    context: ExpectationContext, primary: str, attempts: Sequence[ShadowAttempt], sites: Sequence[str]
) -> ViolationKind:
    """Return what is wrong with attempts that are not in the expected sites.

    `missing`: there are no attempts; `far`: another number of remote ones than expected, where some are expected and some were
    made; `near`: another number of local ones; `elsewhere`: anything else, such as other sites or another order, or remote
    attempts where none are expected. Where sites are expected by name, it is `missing` or `elsewhere`.
    """
    if not attempts:
        return "missing"
    if set(sites) <= {"local", "remote"}:
        seen = [_local_or_remote(context, primary, attempt) for attempt in attempts]
        if seen.count("remote") != sites.count("remote"):
            return "far" if "remote" in sites and "remote" in seen else "elsewhere"
        if seen.count("local") != sites.count("local"):
            return "near"
    return "elsewhere"


def _check_distinct(
    finding: Finding, context: ExpectationContext, primary: str, attempts: Sequence[ShadowAttempt]
) -> None:
    """Add a violation for each second attempt at a server while another in the same site and boundary was not tried."""
    tried: set[str] = set()  # `boundary`: the servers that may hold the primary's copies
    for attempt in attempts:
        boundary = context.cell.topology.boundary(primary)
        same_site = {s for s in boundary if context.site_of(s) == context.site_of(attempt.server)}
        untried = same_site - {primary} - tried
        if attempt.server in tried and untried:
            finding.add_violation(f"{attempt.server} was tried again before {min(untried)}", attempt.n)
        tried.add(attempt.server)
