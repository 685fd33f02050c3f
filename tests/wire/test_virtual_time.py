"""Links in virtual time: faults last exactly as long as documented, and every run has the same history."""

import asyncio

import pytest

from conformance.history.events import FaultFired, Reply
from conformance.history.recorder import Recorder
from conformance.run.virtual.loop import VirtualClockEventLoop
from conformance.scenarios.steps.breaking import Fault, Partition
from conformance.wire.links import Links
from conformance.wire.sender import Recipient, Sender, Transmission
from conformance.wire.sinks import open_sink

FAULTS = (
    {"as": "late", "from": "a", "to": "out", "does": "stall", "at": "dot", "when": "after", "lasting": "5m"},
    {"as": "slow", "from": "a", "to": "out", "does": "throttle", "at": "body", "rate": 1000, "nth": 2},
    {"as": "mute", "from": "a", "to": "out", "does": "mute", "at": "connect", "nth": 2},
    {"as": "bits", "from": "a", "to": "out", "does": "split", "at": "MAIL", "times": None},
)
ONE = Transmission("a@b", (Recipient("x@out.test"),), b"Message-ID: <1@x>\r\n\r\n" + b"y" * 4977 + b"\r\n")


class LoopTime:
    def elapsed(self) -> float:
        return asyncio.get_running_loop().time()


async def play() -> Recorder:
    recorder = Recorder(LoopTime())
    links = Links(recorder)
    sink = await open_sink("out", "smtp", recorder, links)
    await links.open("a", "out", "smtp", sink.address)
    for fault in FAULTS:
        links.arm(Fault.model_validate(fault))
    sender = Sender(links.address("a", "out", "smtp"), session_behind=links.session_behind)
    for _ in range(2):
        assert (await sender.send(ONE)).code == 250
    await sender.quit()
    assert (await Sender(links.address("a", "out", "smtp")).send(ONE)).text == "silent for too long"
    links.partition(Partition.model_validate({"between": ["a", "out"], "how": "blackhole"}))
    sender = Sender(links.address("a", "out", "smtp"))
    late = asyncio.ensure_future(sender.send(ONE))
    await asyncio.sleep(60)
    links.heal("all")
    assert (await late).code == 250
    await sender.quit()
    await links.close()
    await sink.close()
    return recorder


def history() -> Recorder:
    with asyncio.Runner(loop_factory=VirtualClockEventLoop) as runner:
        return runner.run(play())


def test_a_stall_a_throttle_and_a_black_hole_last_exactly_as_long_as_documented() -> None:
    recorder = history()
    fired = {e.fault: e.t for e in recorder.events if isinstance(e, FaultFired)}
    finals = [e.t for e in recorder.events if isinstance(e, Reply) and e.to == "CONTENT"]
    assert fired["late"] == 0.0
    assert finals[0] == 300.0
    assert finals[1] == pytest.approx(305.0, rel=0, abs=1e-9)  # 5,000 octets at 1,000 a second, then the dot
    # the reply timeout of the muted client, then a black hole for a minute
    assert finals[2] == pytest.approx(fired["mute"] + 305 + 60, rel=0, abs=1e-9)


def test_twenty_runs_give_the_same_history() -> None:
    recorded = [history().events for _ in range(20)]
    assert {e.fault for e in recorded[0] if isinstance(e, FaultFired)} >= {fault["as"] for fault in FAULTS}
    assert len({"\n".join(map(repr, events)) for events in recorded}) == 1
