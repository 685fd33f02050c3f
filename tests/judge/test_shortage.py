"""What a machine that ran out of something excuses, and what it leaves as it is."""

from conformance.history.events import NodeEvent
from conformance.judge.shortage import excuse_shortage
from conformance.verdicts import Outcome, Reason, Verdict

STARVED = NodeEvent(n=1, t=1, kind="node", node="mbx1", action="starved", detail="a process was killed")


def test_a_failure_beside_a_shortage_is_inconclusive_and_a_pass_stays_one() -> None:
    verdicts = [Verdict(check=f"expect.{one}", outcome=one, sentence="as seen") for one in Outcome]
    found = {one.check.removeprefix("expect."): one.outcome for one in excuse_shortage(verdicts, [STARVED])}
    assert found.pop("fail") is Outcome.INCONCLUSIVE
    assert [one.reason for one in excuse_shortage(verdicts, [STARVED])].count(Reason.SHORTAGE) == 1
    assert all(was == now for was, now in found.items())
