"""The step `talk` records each exchange, and lag only where the harness was late."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.history.dialects import PROFILE_1
from conformance.history.events import Event, Lag, Talked
from conformance.history.recorder import Recorder
from conformance.run.steps.talking import talk
from conformance.run.virtual.loop import VirtualClockEventLoop
from conformance.scenarios.steps.talking import Talk
from tests.wire.scripted_server import scripted_server


class _Clock:
    def now(self) -> float:
        return 0.0

    def elapsed(self) -> float:
        return 0.0

    def duration(self, seconds: float) -> float:
        return seconds


@pytest.mark.parametrize(("answer", "closed"), [(b"nonsense\r\n", False), (b"", False), (None, True)])
def test_only_a_session_that_has_ended_is_recorded_as_closed(answer: bytes | None, closed: bool) -> None:
    """A server that says nothing has not ended the session: the wait for its reply is over after an hour of virtual time."""
    (talked,) = _record_talk((b"220 x\r\n", answer), {"code": 220}, {"say": "NOOP", "code": 250})
    assert isinstance(talked, Talked)
    assert [(one.said, one.code) for one in talked.exchanges] == [("", 220), ("NOOP", None)]
    assert [one.closed for one in talked.exchanges] == [False, closed]
    assert talked.exchanges[-1].text


def test_rounding_of_the_times_of_waits_is_not_recorded_as_lag_and_a_late_wait_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noop = {"say": "NOOP", "code": 250, "wait": 0.8}
    assert (0.8 + 0.8 + 0.8) - (0.8 + 0.8) - 0.8 > 0
    turns, lines = (b"220 x\r\n", b"250 ok\r\n", b"250 ok\r\n"), ({"code": 220, "wait": 0.8}, noop, noop)
    (talked,) = _record_talk(turns, *lines)
    assert isinstance(talked, Talked)
    assert talked.problem == ""
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: sleep(seconds + 0.125))
    lag, late = _record_talk(turns, *lines)
    assert isinstance(lag, Lag)
    assert lag.seconds == pytest.approx(3 * 0.125)
    assert isinstance(late, Talked)
    assert late.problem == ""


def _record_talk(turns: tuple[bytes | None, ...], *lines: dict[str, Any]) -> list[Event]:
    """Do a step `talk` in virtual time with a server that replies from a list; return the `Talked` and `Lag` events."""
    recorded: list[Event] = []

    async def main() -> None:
        async with asyncio.timeout(4000), scripted_server(*turns) as (address, _):
            clock: Any = _Clock()
            recorder = Recorder(clock)
            recorder.subscribe(lambda event: recorded.append(event) if isinstance(event, Talked | Lag) else None)
            link = SimpleNamespace(address=address, dialect=PROFILE_1)
            links = SimpleNamespace(link=lambda *pair: link, session_behind=lambda port, dialled: None)
            world: Any = SimpleNamespace(
                links=links, clock=clock, recorder=recorder, settings=SimpleNamespace(tolerance=0.25)
            )
            await talk(world, Talk.model_validate({"as": "t", "to": "mbx1", "lines": lines}))

    with asyncio.Runner(loop_factory=VirtualClockEventLoop) as runner:
        runner.run(main())
    return recorded
