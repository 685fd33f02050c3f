"""The checks on a client: pure functions of what a listener has seen. Each returns a tally for every clause that it checks.

A *tally* counts the occasions to violate a clause, and has what is wrong or cannot be decided (`checks.tally`).
"""

from collections.abc import Callable

from conformance.listen.checks import delivery, syntax, timeouts, waiting
from conformance.listen.checks.tally import Tally
from conformance.listen.record import ListenRecord
from conformance.listen.transcript import session_transcript
from conformance.live_checks import LiveFinding
from conformance.trace.trace import Trace

CHECKS: tuple[Callable[[ListenRecord, Trace], list[Tally]], ...] = (
    syntax.check_commands,
    syntax.check_parameters,
    syntax.check_contents,
    waiting.check_hello,
    waiting.check_waits,
    waiting.check_quit,
    timeouts.check_timeouts,
    delivery.check_delivery,
)


def judge_client(record: ListenRecord) -> list[LiveFinding]:
    """Return one finding for each clause, in the order of `CHECKS`; a finding that names a session has its transcript too."""
    trace = Trace(record.events)
    findings = [tally.finding() for check in CHECKS for tally in check(record, trace)]
    return [
        finding.with_transcript(session_transcript(record.events, finding.session)) if finding.session else finding
        for finding in findings
    ]
