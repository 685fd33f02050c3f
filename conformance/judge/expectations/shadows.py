"""Where shadow copies went, when they were stored, how often they were tried, and what was in them."""

from collections.abc import Sequence

from conformance.history.events import Attempt, MessageMade, Reply
from conformance.judge.blame import Kind
from conformance.judge.expectations.check import asked, check, times, within
from conformance.judge.finding import Finding, View, at, moment, named
from conformance.judge.trace import Copy, ShadowAttempt
from conformance.scenarios.expectations import (
    NoShadowExpected,
    SameContentExpected,
    ShadowAttemptsExpected,
    ShadowExpected,
)

_MADE = frozenset(
    {
        "SR-CRE-01", "SR-CRE-03", "SR-CRE-07", "SR-CRE-10", "SR-ENA-01", "SR-BND-03", "SR-BND-05", "SR-TMO-03",
        "SR-E10-02", "SR-E10-03", "SR-IOP-02",
    }
)  # fmt: skip
_PLACED = frozenset(
    {
        "SR-BND-01", "SR-BND-02", "SR-BND-05", "SR-PRF-01", "SR-PRF-02", "SR-PRF-03", "SR-PRF-04", "SR-PRF-05",
        "SR-PRF-06", "SR-E10-10",
    }
)  # fmt: skip
_SHADOW_IN = {False: "SR-CRE-01", True: "SR-E10-03"}
"""The row of a shadow that a scenario takes for granted."""


@check(
    ShadowExpected,
    about={
        "missing": _MADE,
        "late": _MADE,
        "elsewhere": _PLACED,
        "surplus": frozenset({"SR-CRE-09", "SR-E10-03"}),
        "early": frozenset({"SR-CRE-02"}),
    },
    explains=("elsewhere", "early"),
    granted={"missing": _SHADOW_IN, "late": _SHADOW_IN},
)
def shadow(e: ShadowExpected, view: View) -> Finding:
    """A shadow copy of each message was stored where and when it had to be."""
    where = f" on {' or '.join(e.on)}" if e.on else ""
    finding = Finding(f"a shadow copy of each message of {e.of}{where}, {e.stored.replace('-', ' ')}")
    holders: set[str] = set()
    for made in view.messages(e.of):
        finding.occasions += 1
        copies = [c for c in view.trace.copies_of(made.message) if e.by is None or c.primary == e.by]
        holders.update(copy.holder for copy in copies)
        _stored(finding, e, view, made, copies)
        if e.count is not None and len(copies) != e.count:
            evidence = [c.stored.n for c in copies]
            finding.violated(
                f"{named(made)}: {len(copies)} shadow copies were stored, not {e.count}",
                *evidence,
                message=made.message,
                kind="missing" if len(copies) < e.count else "surplus",
            )
        for copy in copies:
            if e.sites is not None and view.site(copy.holder) not in e.sites:
                finding.violated(
                    f"{named(made)}: shadow stored by {copy.holder} in {view.site(copy.holder)}, not in "
                    f"{' or '.join(e.sites)}",
                    copy.stored.n,
                    message=made.message,
                    kind="elsewhere",
                )
    if e.spread is not None and len(holders) < e.spread:
        finding.violated(f"all shadows are on {', '.join(sorted(holders)) or 'no server'}, not spread over {e.spread}")
    return finding


def _stored(finding: Finding, e: ShadowExpected, view: View, made: MessageMade, copies: Sequence[Copy]) -> None:
    acknowledged = next((a for a in view.attempts(made.message) if a.code is not None and a.code // 100 == 2), None)
    told = _final_reply(view, acknowledged) if acknowledged else None
    wanted = [copy for copy in copies if e.on is None or copy.holder in e.on]
    if not wanted:
        until = moment(view.trace.events[-1].t)
        said = f"stored by {', '.join(c.holder for c in copies)}" if copies else f"no server had stored one by {until}"
        evidence = (told.n,) if told is not None else tuple(c.stored.n for c in copies)
        if e.count != 0:
            kind: Kind = "elsewhere" if copies else "missing"
            finding.violated(f"{named(made)}: {said}", *evidence, message=made.message, kind=kind)
        return
    first = wanted[0].stored
    finding.met(first.n, first.t, made)
    if e.mail == "in-transaction" and acknowledged is not None and told is not None:
        _mail_in_transaction(finding, view, made, wanted[0], acknowledged, told)
    if e.stored == "before-acknowledgement" and acknowledged is not None and told is not None and told.n < first.n:
        finding.violated(
            f"{named(made)}: {acknowledged.server} acknowledged it with {told.code} {at(told)} before {wanted[0].holder} "
            f"had stored the shadow {at(first)}",
            told.n,
            first.n,
            message=made.message,
            kind="late",
        )


def _mail_in_transaction(
    finding: Finding, view: View, made: MessageMade, copy: Copy, acknowledged: Attempt, told: Reply
) -> None:
    """Hold the copy's MAIL against the sender's transaction (SR-CRE-02, ruling 14: a kept session may be used).

    Where nothing was begun while the sender waited, the copy came too late as a whole: that is SR-CRE-01.
    """
    given = [t for t in view.trace.transactions_of(made.message) if t.session == acknowledged.session and t.n < told.n]
    session = view.trace.sessions[copy.transaction.session]
    if not given:
        return
    begun = [session.n, *(exchange.command.n for exchange in session.exchanges)]
    if copy.transaction.n < given[-1].n:
        when = "before the sender's own"
    elif copy.transaction.n > told.n and any(given[-1].n < n < told.n for n in begun):
        when = f"only after the sender's reply {at(told)}"
    else:
        return
    finding.violated(
        f"{named(made)}: {copy.primary} sent the copy's MAIL to {copy.transaction.server} {when}",
        copy.transaction.n,
        told.n,
        message=made.message,
        kind="early",
    )


def _final_reply(view: View, attempt: Attempt) -> Reply | None:
    """Return the final reply to an attempt, as it passed over the wire."""
    sent = [t for t in view.trace.transactions_of(attempt.message) if t.session == attempt.session and t.n < attempt.n]
    return sent[-1].replies[-1] if sent and sent[-1].replies else None


@check(NoShadowExpected, explains=("surplus",))
def no_shadow(e: NoShadowExpected, view: View) -> Finding:
    """No shadow copy was stored. There was occasion for one where a server had the whole message."""
    finding = Finding(f"no shadow copy of {e.of}" + (f" on {' or '.join(e.on)}" if e.on else ""))
    for made in view.messages(e.of):
        finding.occasions += len(view.trace.transactions_of(made.message))
        for copy in view.trace.copies_of(made.message):
            if e.on is None or copy.holder in e.on:
                finding.violated(
                    f"{named(made)}: {copy.holder} stored one for {copy.primary} {at(copy.stored)}",
                    copy.stored.n,
                    message=made.message,
                    kind="surplus",
                )
    return finding


@check(
    ShadowAttemptsExpected,
    about={"elsewhere": _PLACED, "near": frozenset({"SR-PRF-05"}), "far": frozenset({"SR-PRF-04"})},
    explains=("elsewhere", "near", "far"),
)
def shadow_attempts(e: ShadowAttemptsExpected, view: View) -> Finding:
    """The attempts to make a shadow, in order."""
    expected = ", ".join(e.sites) if e.sites else asked(e.count) if e.count else "as said"
    finding = Finding(f"attempts of {e.by} to make a shadow: {expected}")
    found = _attempts(e, view, finding)
    finding.evidence += [attempt.n for attempt in found]
    if e.sites is not None and not _in_sites(view, e.by, found, e.sites):
        sites = ", ".join(f"{a.server} ({_distance(view, e.by, a)})" for a in found) or "none"
        kind = _amiss(view, e.by, found, e.sites)
        finding.violated(f"{len(found)} attempts: {sites}", *[a.n for a in found], kind=kind)
    if e.count is not None and not within(e.count, len(found)):
        finding.violated(f"tried {times(len(found))}", *[a.n for a in found], kind="" if found else "missing")
    for attempt in found:
        if e.on is not None and attempt.server not in e.on:
            finding.violated(f"an attempt at {attempt.server}", attempt.n, kind="elsewhere")
    if e.distinct:
        _distinct(finding, view, e.by, found)
    return finding


def _attempts(e: ShadowAttemptsExpected, view: View, finding: Finding) -> list[ShadowAttempt]:
    """Return the attempts for the messages: from the sender's MAIL until the first transmission has ended.

    A connection in vain before MAIL was for a session that is kept ready for any message (ruling 14).
    """
    mine = [attempt for attempt in view.trace.shadow_attempts if attempt.client == e.by]
    if e.of is None:
        finding.occasions = 1
        return mine
    messages = view.messages(e.of)
    names = {made.message for made in messages}
    ended = min((a.n for name in names for a in view.attempts(name)), default=None)
    if ended is None:
        return []
    finding.occasions = 1
    begun = min(_begun(view, made.message, made.n) for made in messages)
    return [
        attempt
        for attempt in mine
        if attempt.n >= begun and (attempt.message in names if attempt.message is not None else attempt.n <= ended)
    ]


def _begun(view: View, message: str, made: int) -> int:
    """Return the number of the sender's first MAIL for a message, or `made` where it never came so far."""
    sessions = [view.trace.sessions[a.session] for a in view.attempts(message) if a.session in view.trace.sessions]
    return min((t.n for session in sessions for t in session.transactions if t.n > made), default=made)


def _distance(view: View, home: str, attempt: ShadowAttempt) -> str:
    return "local" if view.site(attempt.server) == view.site(home) else "remote"


def _in_sites(view: View, by: str, found: Sequence[ShadowAttempt], sites: Sequence[str]) -> bool:
    return len(found) == len(sites) and all(
        wanted in (_distance(view, by, attempt), view.site(attempt.server))
        for wanted, attempt in zip(sites, found, strict=True)
    )


def _amiss(view: View, by: str, found: Sequence[ShadowAttempt], sites: Sequence[str]) -> Kind:
    """Return what is wrong with attempts that are not the wanted ones: none at all, their number here or there, or where."""
    if not found:
        return "missing"
    if set(sites) <= {"local", "remote"}:
        seen = [_distance(view, by, attempt) for attempt in found]
        if seen.count("remote") != sites.count("remote"):
            return "far" if "remote" in sites and "remote" in seen else "elsewhere"
        if seen.count("local") != sites.count("local"):
            return "near"
    return "elsewhere"


def _distinct(finding: Finding, view: View, by: str, found: Sequence[ShadowAttempt]) -> None:
    seen: set[str] = set()
    for attempt in found:
        near = {s for s in view.cell.topology.boundary(by) if view.site(s) == view.site(attempt.server)}
        untried = near - {by} - seen
        if attempt.server in seen and untried:
            finding.violated(f"{attempt.server} was tried again before {min(untried)}", attempt.n)
        seen.add(attempt.server)


@check(SameContentExpected, about={"": frozenset({"SR-CRE-06", "RL-CNT-01"})})
def same_content(e: SameContentExpected, view: View) -> Finding:
    """Envelope and content of each shadow equal the message's."""
    finding = Finding(f"shadows of {e.of} with the same envelope and content")
    for made in view.messages(e.of):
        for copy in view.trace.copies_of(made.message):
            finding.occasions += 1
            sent = copy.transaction
            finding.evidence.append(sent.n)
            assert sent.digest is not None
            what = f"{named(made)}: the shadow on {copy.holder}"
            if sent.digest.stable_sha256 != made.digest.stable_sha256:
                finding.violated(f"{what} has other content", sent.n, message=made.message)
            if view.same(sent.sender) != view.same(made.sender):
                finding.violated(f"{what} is from <{sent.sender}>, not <{made.sender}>", sent.n, message=made.message)
            if sorted(map(view.same, sent.recipients)) != sorted(map(view.same, made.recipients)):
                finding.violated(
                    f"{what} is for {', '.join(sent.recipients)}, not {', '.join(made.recipients)}",
                    sent.n,
                    message=made.message,
                )
    return finding
