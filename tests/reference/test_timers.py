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


def test_an_alarm_that_nothing_refers_to_is_forgotten_and_one_that_is_set_is_not() -> None:
    called: list[str] = []

    async def steps() -> None:
        alarms = Alarms(Clock(), lambda error: None)
        alarms.new(lambda: called.append("unset"))
        alarms.new(lambda: called.append("set")).set(999.0)
        kept = alarms.new(lambda: called.append("kept"))
        assert len(alarms._alarms) == 2
        await asyncio.sleep(0.01)
        kept.set(999.0)
        alarms.cancel()
        await asyncio.sleep(0.01)

    asyncio.run(steps())
    assert called == ["set"]
