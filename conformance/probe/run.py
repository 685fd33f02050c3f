"""Runs the checks of the probe, several at a time, and makes a finding of each.

`conformance probe` calls `probe_with_sink`. A check gets the server under probe, holds sessions of its own, and returns
a judgement; a *finding* is a judgement with the check's name and clause.
"""

import asyncio
from collections.abc import Collection

from conformance.live_checks import LiveFinding, LiveOutcome
from conformance.probe import topics
from conformance.probe.checks import CHECKS, Check, Judgement
from conformance.probe.server import NotApplicable, Server
from conformance.probe.session import ServerClosed, ServerSilent, Unanswered
from conformance.probe.sink import open_sink
from conformance.registry import import_submodules
from conformance.shortage import shortage_of
from conformance.wire.sockets import describe_error

import_submodules(topics)

SESSIONS = 4
"""Checks that run at the same time: few, since servers limit the sessions of one client."""

LAST_SHARE = 0.7
"""The part of the time that checks with sessions have; the others wait for mail that comes to the sink."""


async def probe_with_sink(server: Server, port: int | None, within: float, names: Collection[str]) -> list[LiveFinding]:
    """Make the checks with a sink at a loopback port, or for None without one, and return the findings, as `probe` does.

    Sets `server.sink` if there is one. Raises SinkError if the sink cannot listen, and what `probe` raises.
    """
    if port is None:
        return await probe(server, within, names)
    async with open_sink(port) as server.sink:
        return await probe(server, within, names)


async def probe(server: Server, within: float, names: Collection[str] = ()) -> list[LiveFinding]:
    """Make all checks, or those of these names, on a server within `within` seconds, and return a finding for each.

    Checks with sessions have 70 % of the time; those marked `last` judge all sessions, and run after them.
    What is not finished by then is inconclusive. Where all `names` are of checks marked `last`, the others run too, but have no
    finding. Sets `server.keywords`, unless a first session fails. Raises OSError if there is no connection to the server.
    """
    deadline = asyncio.get_running_loop().time() + within * LAST_SHARE
    try:
        async with server.session() as session:
            server.keywords = session.keywords
    except (NotApplicable, ServerClosed, ServerSilent, Unanswered):
        pass  # each check says so for itself
    semaphore = asyncio.Semaphore(SESSIONS)

    async def run(check: Check) -> LiveFinding:
        """Make a check when fewer than `SESSIONS` run, and return its finding, inconclusive after the deadline."""
        try:
            async with asyncio.timeout_at(deadline), semaphore:
                return _make_finding(check, await _judge(check, server))
        except TimeoutError:
            sentence = f"it was not finished after {within * LAST_SHARE:g} s"
            return _make_finding(check, Judgement(LiveOutcome.INCONCLUSIVE, sentence))

    checks = [check for check in CHECKS.values() if not names or check.name in names]
    # What all sessions have shown can only be judged after them: the checks `last` alone would see one session.
    sessions = checks if any(not check.last for check in checks) else list(CHECKS.values())
    judged = await asyncio.gather(*(run(check) for check in sessions if not check.last))
    kept = [finding for finding in judged if not names or finding.check in names]
    return kept + [_make_finding(check, await _judge(check, server)) for check in checks if check.last]


async def _judge(check: Check, server: Server) -> Judgement:
    """Run a check and return its judgement, or one that says what it raised.

    NotApplicable is *not applicable*; a session that cannot be opened or go on is inconclusive; a command without a reply is a
    failure. Raises OSError where this machine has run out of something.
    """
    try:
        return await check.function(server)
    except NotApplicable as reason:
        return Judgement(LiveOutcome.NOT_APPLICABLE, str(reason))
    except Unanswered as missing:
        return Judgement(LiveOutcome.FAIL, f"{missing}: every command has exactly one reply (RFC 5321 4.2)")
    except (ServerClosed, ServerSilent) as problem:
        return Judgement(LiveOutcome.INCONCLUSIVE, str(problem))
    except OSError as error:
        if shortage_of(error):
            raise
        return Judgement(LiveOutcome.INCONCLUSIVE, f"no connection: {describe_error(error)}")


def _make_finding(check: Check, judgement: Judgement) -> LiveFinding:
    """Return the finding for a judgement."""
    return LiveFinding(
        check=check.name,
        clause=check.clause,
        outcome=judgement.outcome,
        sentence=judgement.sentence,
        requirement=check.requirement,
    )
