"""Alarms of a node: an exception of a callback is a failure of the node, and not only a line in asyncio's log."""

import asyncio

from conformance.reference.timers import Alarms


class Clock:
    def now(self) -> float:
        return 1000.0


def test_the_exception_of_an_alarm_s_callback_is_passed_on() -> None:
    failures: list[BaseException] = []
    called: list[str] = []

    def fail() -> None:
        raise IndexError("nothing is due")

    async def steps() -> None:
        alarms = Alarms(Clock(), failures.append)
        alarms.new(fail).set(1000.0)
        other = alarms.new(lambda: called.append("other"))
        other.set(999.0)
        await asyncio.sleep(0.01)
        assert other.due is None

    asyncio.run(steps())
    assert [str(failure) for failure in failures] == ["nothing is due"]
    assert called == ["other"]
