"""Where shadow copies went, when, how often they were tried, and when they may go."""

import itertools

from conformance.history.events import Attempt
from conformance.judge.finding import Finding, View, told
from conformance.scenarios.expectations import (
    ContentSame,
    Copies,
    DiscardedExpected,
    NoShadowExpected,
    NotDiscardedExpected,
    NotPromotedExpected,
    PromotedExpected,
    QueriedExpected,
    ShadowAttemptsExpected,
    ShadowExpected,
)


def within(copies: Copies, number: int) -> bool:
    """Whether a number is what was asked for."""
    return copies.min <= number and (copies.max is None or number <= copies.max)


def asked(copies: Copies) -> str:
    """Say how many were asked for."""
    if copies.max == copies.min:
        return str(copies.min)
    return f"at least {copies.min}" if copies.max is None else f"{copies.min} to {copies.max}"


def shadow(e: ShadowExpected, view: View) -> Finding:
    """A shadow copy of each message was stored where and when it had to be."""
    where = f" on {' or '.join(e.on)}" if e.on else ""
    finding = Finding(f"a shadow copy of each message of {e.of}{where}, {e.stored.replace('-', ' ')}")
    holders: set[str] = set()
    for made in view.messages(e.of):
        finding.occasions += 1
        copies = [c for c in view.trace.copies_of(made.message) if e.by is None or c.primary == e.by]
        wanted = [c for c in copies if e.on is None or c.holder in e.on]
        holders.update(copy.holder for copy in copies)
        acknowledged = next((a for a in view.attempts(made.message) if a.code == 250), None)
        sent = _final_reply(view, acknowledged) if acknowledged else None
        if not wanted:
            said = f"stored by {', '.join(c.holder for c in copies)}" if copies else "no server acknowledged one"
            at = (sent,) if sent is not None else ()
            finding.violated(f"{told(made)}: {said}", *at, message=made.message)
            continue
        first = wanted[0].stored
        finding.met(first.n, first.t)
        if e.stored == "before-acknowledgement" and acknowledged is not None and sent is not None and sent < first.n:
            finding.violated(
                f"{told(made)}: {acknowledged.server} acknowledged it with 250 (event {sent}) before {wanted[0].holder} "
                f"had stored the shadow (event {first.n}, {first.t:g} s)",
                sent,
                first.n,
                message=made.message,
            )
        if e.count is not None and len(copies) != e.count:
            evidence = [c.stored.n for c in copies]
            finding.violated(
                f"{told(made)}: {len(copies)} shadow copies were stored, not {e.count}", *evidence, message=made.message
            )
        for copy in copies:
            if e.sites is not None and view.site(copy.holder) not in e.sites:
                finding.violated(
                    f"{told(made)}: shadow stored by {copy.holder} in {view.site(copy.holder)}, not in "
                    f"{' or '.join(e.sites)}",
                    copy.stored.n,
                    message=made.message,
                )
    if e.spread is not None and len(holders) < e.spread:
        finding.violated(f"all shadows are on {', '.join(sorted(holders)) or 'no server'}, not spread over {e.spread}")
    return finding


def _final_reply(view: View, attempt: Attempt) -> int:
    """Return the number of the event with the final reply to an attempt."""
    sent = view.trace.transactions_of(attempt.message)
    replies = [t.replies[-1].n for t in sent if t.session == attempt.session and t.replies]
    return max((n for n in replies if n < attempt.n), default=attempt.n)


def no_shadow(e: NoShadowExpected, view: View) -> Finding:
    """No shadow copy was stored."""
    finding = Finding(f"no shadow copy of {e.of}" + (f" on {' or '.join(e.on)}" if e.on else ""))
    for made in view.messages(e.of):
        finding.occasions += len(view.attempts(made.message))
        for copy in view.trace.copies_of(made.message):
            if e.on is None or copy.holder in e.on:
                finding.violated(f"{told(made)}: {copy.holder} stored one", copy.stored.n, message=made.message)
    return finding


def shadow_attempts(e: ShadowAttemptsExpected, view: View) -> Finding:
    """The attempts to make a shadow, in order."""
    expected = ", ".join(e.sites) if e.sites else asked(e.count) if e.count else "as said"
    finding = Finding(f"attempts of {e.by} to make a shadow: {expected}")
    names = {made.message for made in view.messages(e.of)} if e.of else None
    first = min((a.n for a in view.trace.of(Attempt) if names and a.message in names), default=0)
    begun = min((made.n for made in view.messages(e.of)), default=0) if e.of else 0
    found = [
        a
        for a in view.trace.shadow_attempts
        if a.client == e.by and a.n >= begun and (names is None or a.message is None or a.message in names)
        and (not first or a.n <= first or a.message is not None)
    ]  # fmt: skip
    finding.occasions = 1 if (names is None or first) else 0
    finding.evidence += [a.n for a in found]
    home = view.site(e.by)
    sites = ["local" if view.site(a.server) == home else "remote" for a in found]
    if e.sites is not None:
        named = [view.site(a.server) for a in found]
        matches = len(sites) == len(e.sites) and all(
            wanted in pair for wanted, pair in zip(e.sites, zip(sites, named, strict=True), strict=True)
        )
        if not matches:
            finding.violated(
                f"{len(found)} attempts: "
                + (", ".join(f"{a.server} ({s})" for a, s in zip(found, sites, strict=True)) or "none"),
                *[a.n for a in found],
            )
    if e.count is not None and not within(e.count, len(found)):
        finding.violated(f"{len(found)} attempts", *[a.n for a in found])
    for attempt in found:
        if e.on is not None and attempt.server not in e.on:
            finding.violated(f"an attempt at {attempt.server}", attempt.n)
    if e.distinct:
        seen: set[str] = set()
        for attempt in found:
            others = {s for s in view.cell.topology.boundary(e.by) if view.site(s) == view.site(attempt.server)}
            if attempt.server in seen and others - {e.by} - seen:
                finding.violated(f"{attempt.server} was tried again before {min(others - {e.by} - seen)}", attempt.n)
            seen.add(attempt.server)
    return finding


def same_content(e: ContentSame, view: View) -> Finding:
    """Envelope and content of each shadow equal the message's."""
    finding = Finding(f"shadows of {e.of} with the same envelope and content")
    for made in view.messages(e.of):
        for copy in view.trace.copies_of(made.message):
            finding.occasions += 1
            sent = copy.transaction
            finding.evidence.append(sent.n)
            assert sent.digest is not None
            if sent.digest.stable_sha256 != made.digest.stable_sha256:
                finding.violated(
                    f"{told(made)}: the shadow on {copy.holder} has other content", sent.n, message=made.message
                )
            if sorted(map(str.casefold, sent.recipients)) != sorted(map(str.casefold, made.recipients)):
                finding.violated(
                    f"{told(made)}: the shadow on {copy.holder} is for {', '.join(sent.recipients)}, not "
                    f"{', '.join(made.recipients)}",
                    sent.n,
                    message=made.message,
                )
    return finding


def discarded(e: DiscardedExpected, view: View) -> Finding:
    """The shadow server was told to discard each shadow."""
    finding = Finding(f"discard notifications for {e.of}" + (f" to {e.on}" if e.on else ""))
    for made in view.messages(e.of):
        finding.occasions += 1
        told_of = [d for d in view.trace.discards_of(made.message) if e.on is None or d.holder == e.on]
        for discard in told_of[:1]:
            finding.met(discard.n, discard.t)
        if not told_of:
            finding.violated(f"{told(made)}: none was given", message=made.message)
        elif e.times is not None and len(told_of) != e.times:
            finding.violated(
                f"{told(made)}: told {len(told_of)} times, not {e.times}", *[d.n for d in told_of], message=made.message
            )
    return finding


def not_discarded(e: NotDiscardedExpected, view: View) -> Finding:
    """No discard notification was given up to now."""
    finding = Finding(f"no discard notification for {e.of} yet")
    for made in view.messages(e.of):
        finding.occasions += len(view.trace.copies_of(made.message))
        for discard in view.trace.discards_of(made.message):
            if e.on is None or discard.holder == e.on:
                finding.violated(
                    f"{told(made)}: {discard.primary} told {discard.holder} at {discard.t:g} s",
                    discard.n,
                    message=made.message,
                )
    return finding


def queried(e: QueriedExpected, view: View) -> Finding:
    """One server asked another for its discard status."""
    finding = Finding(f"queries of {e.by} at {e.at}")
    found = [
        q for q in view.trace.queries
        if (q.by, q.at) == (e.by, e.at) and q.n >= view.since_n and (e.answered is None or q.answered is e.answered)
    ]  # fmt: skip
    finding.occasions = 1
    finding.evidence += [q.n for q in found]
    finding.times += [q.t for q in found[:1]]
    wanted = e.times or Copies(min=1)
    if not within(wanted, len(found)):
        finding.violated(f"{len(found)} queries, not {asked(wanted)}", *[q.n for q in found])
    if e.every is not None:
        times = [view.since, *(q.t for q in found), view.trace.events[-1].t]
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        if gaps and max(gaps) > e.every + 1e-6:
            finding.violated(f"{max(gaps):g} s without a query, more than {e.every:g} s", *[q.n for q in found])
    if e.before == "quit":
        asked_in = {q.session for q in found}
        for t in view.trace.transactions:
            if (t.client, t.server, t.listener) == (e.by, e.at, "transport") and t.session not in asked_in:
                finding.violated(f"session {t.session} ended without a query", t.n)
    return finding


def promoted(e: PromotedExpected, view: View) -> Finding:
    """Holders took the shadows of each message over and transmitted it as their own."""
    finding = Finding(f"{' or '.join(e.by)} takes the shadows of {e.of} over")
    for made in view.messages(e.of):
        finding.occasions += 1
        taken = [t for t in view.trace.taken_over(made.message) if t.client in e.by]
        if not taken:
            finding.violated(f"{told(made)}: no holder transmitted it", message=made.message)
        for t in taken[:1]:
            finding.met(t.n, t.t)
    return finding


def not_promoted(e: NotPromotedExpected, view: View) -> Finding:
    """No holder of a shadow transmitted it."""
    finding = Finding(f"no holder of a shadow of {e.of} transmits it")
    for made in view.messages(e.of):
        finding.occasions += len(view.trace.copies_of(made.message))
        for t in view.trace.taken_over(made.message):
            if e.by is None or t.client in e.by:
                finding.violated(
                    f"{told(made)}: {t.client} transmitted it to {t.server} at {t.t:g} s", t.n, message=made.message
                )
    return finding
