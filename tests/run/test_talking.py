"""The step `talk` records each exchange."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.history.dialects import PROFILE_1
from conformance.history.events import Talked
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
    recorded: list[Talked] = []

    async def main() -> None:
        async with asyncio.timeout(4000), scripted_server(b"220 x\r\n", answer) as (address, _):
            clock: Any = _Clock()
            recorder = Recorder(clock)
            recorder.subscribe(lambda event: recorded.append(event) if isinstance(event, Talked) else None)
            link = SimpleNamespace(address=address, dialect=PROFILE_1)
            links = SimpleNamespace(link=lambda *pair: link, session_behind=lambda port, dialled: None)
            world: Any = SimpleNamespace(
                links=links, clock=clock, recorder=recorder, settings=SimpleNamespace(tolerance=0.25)
            )
            lines = [{"code": 220}, {"say": "NOOP", "code": 250}]
            await talk(world, Talk.model_validate({"as": "t", "to": "mbx1", "lines": lines}))

    with asyncio.Runner(loop_factory=VirtualClockEventLoop) as runner:
        runner.run(main())
    (talked,) = recorded
    assert [(one.said, one.code) for one in talked.exchanges] == [("", 220), ("NOOP", None)]
    assert [one.closed for one in talked.exchanges] == [False, closed]
    assert talked.exchanges[-1].text
