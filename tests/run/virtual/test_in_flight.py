"""The virtual clock never jumps while octets are in flight: on a common loopback, under load, and on one that delivers late.

A Linux loopback delivers before `send` returns, so that hardly any mistake would show. With receive packet steering in a
network namespace of its own the other core delivers, later: the proof that it does is that a loop without the tracker
jumps falsely there.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.run.cell_loop import Clock, run_with_clock
from conformance.run.virtual import tcp
from tests.run.virtual.churn import ENDINGS, NO_DIALOGUE, Speaker, churn

ROOT = Path(__file__).parents[3]
_STEER = (
    'mount -t sysfs sysfs /sys && echo 2 > /sys/class/net/lo/queues/rx-0/rps_cpus && ip link set lo up && exec "$@"'
)


def _no_namespace() -> str:
    """Return why there can be no namespace here; empty when there can."""
    if os.geteuid() != 0:
        return "a network namespace needs root"
    if len(os.sched_getaffinity(0) & {0, 1}) < 2:
        return "late delivery needs the cores 0 and 1"
    if not all(map(shutil.which, ("unshare", "mount", "ip"))):
        return "needs unshare, mount and ip"
    tried = subprocess.run(["unshare", "-n", "-m", "sh", "-c", _STEER, "sh", "true"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"no steered namespace: {tried.stderr.strip()}"


def figures(module: str, *arguments: str, steered: bool = False) -> dict[str, int]:
    command = [sys.executable, "-m", module, *arguments]
    if steered:
        command = ["unshare", "-n", "-m", "sh", "-c", _STEER, "sh", *command, "--cpu", "0"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=True)
    print(f"{module} {' '.join(arguments)}: {ran.stdout}")  # noqa: T201  # the measured figure, with pytest -s or -rP
    found: dict[str, int] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_no_ending_of_a_connection_takes_virtual_time(seed: int) -> None:
    count, loop = churn(120, seed=seed, endings=tuple(ENDINGS))
    assert (count.dialogues, count.false_jumps) == (120, 0)
    assert count.by_ending == dict.fromkeys((*ENDINGS, *NO_DIALOGUE), 0), "each ending was tried"
    assert loop.jumps > 15, "time passed between the dialogues"
    assert loop.tracker.idle, "nothing is kept of connections that are gone"
    assert not loop.tracker._endpoints


def test_everything_sent_is_read_before_time_passes() -> None:
    """2000 octets of each end, each sent by itself."""

    async def main(clock: Clock) -> tuple[int, int, float]:
        loop = asyncio.get_running_loop()
        served: asyncio.Future[Speaker] = loop.create_future()
        server = await loop.create_server(lambda: Speaker(served.set_result), "127.0.0.1", 0)
        transport, client = await loop.create_connection(Speaker, *server.sockets[0].getsockname())
        speaker = await served
        for _ in range(2000):
            transport.write(b"z")
            speaker.transport.write(b"z")
        await clock.sleep(1e-6)
        read = speaker.received, client.received
        transport.close()
        await speaker.eof
        speaker.transport.close()
        server.close()
        return *read, clock.elapsed()

    assert run_with_clock(main, "virtual") == (2000, 2000, 1e-6)


@pytest.mark.parametrize(
    ("octets", "waits", "closes"), [(1, False, False), (20_000_000, True, False), (1_000_000, False, True)]
)
def test_a_reader_that_pauses_does_not_stop_time(octets: int, waits: bool, closes: bool) -> None:
    """What a receiver leaves unread may stay so for hours: a slow peer is an occasion, not a stall.

    `waits`: the kernel does not take all of it, and the sender waits for room. `closes`: it takes all, and the sender closes
    its socket; the FIN comes only after what is unread.
    """

    async def main(clock: Clock) -> tuple[bool, bool, int, int, float]:
        loop = asyncio.get_running_loop()
        served: asyncio.Future[Speaker] = loop.create_future()
        server = await loop.create_server(lambda: Speaker(served.set_result), "127.0.0.1", 0)
        transport, client = await loop.create_connection(Speaker, *server.sockets[0].getsockname())
        speaker = await served
        speaker.transport.pause_reading()
        transport.write(b"y" * octets)
        if closes:
            transport.close()
        await clock.sleep(7200)
        stuck, early = transport.get_write_buffer_size() > 0, speaker.received
        state = tcp.info(speaker.transport.get_extra_info("socket")).state
        fin_waits = client.lost.done() and state == tcp.ESTABLISHED
        speaker.transport.resume_reading()
        transport.close()
        await speaker.eof
        at = clock.elapsed()
        speaker.transport.close()
        server.close()
        return stuck, fin_waits, early, speaker.received, at

    assert run_with_clock(main, "virtual") == (waits, closes, 0, octets, 7200.0)


def test_closing_a_listener_resets_connections_that_were_not_accepted() -> None:
    async def main(clock: Clock) -> tuple[list[type], float]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        listening = server.sockets[0]
        loop.remove_reader(listening.fileno())  # connections stay in the queue, not accepted
        clients = [(await loop.create_connection(Speaker, *listening.getsockname()))[1] for _ in range(3)]
        await clock.sleep(60)  # a queued connection does not hold time
        server.close()
        return [type(await client.lost) for client in clients], clock.elapsed()

    assert run_with_clock(main, "virtual") == ([ConnectionResetError] * 3, 60.0)


def test_the_state_and_the_octets_of_connections_and_the_queue_of_a_listener_are_read_from_tcp_info() -> None:
    async def main(clock: Clock) -> None:
        loop = asyncio.get_running_loop()
        served: asyncio.Future[Speaker] = loop.create_future()
        server = await loop.create_server(lambda: Speaker(served.set_result), "127.0.0.1", 0, backlog=7)
        listening = server.sockets[0]
        transport, client = await loop.create_connection(Speaker, *listening.getsockname())
        speaker = await served
        transport.write(b"1234567")
        await speaker.say(b"89", client)
        near, far = (tcp.info(end.get_extra_info("socket")) for end in (transport, speaker.transport))
        assert (near.state, near.sent, near.received) == (tcp.ESTABLISHED, 7, 3)
        assert (far.state, far.sent, far.received, far.unsent) == (tcp.ESTABLISHED, 3, 7, 0)
        speaker.transport.pause_reading()
        transport.write(b"x" * 20_000_000)  # more than the kernel takes
        near = tcp.info(transport.get_extra_info("socket"))
        assert near.unsent > 0
        taken = 20_000_000 - transport.get_write_buffer_size()
        assert near.sent - near.retransmitted + near.unsent == 7 + taken
        speaker.transport.resume_reading()
        assert tcp.info(listening)[1:3] == (0, 7), "the queue is empty, and has room for seven"
        loop.remove_reader(listening.fileno())
        for queued in (1, 2):
            await loop.create_connection(asyncio.Protocol, *listening.getsockname())
            assert tcp.info(listening)[1:3] == (queued, 7)
        transport.write_eof()
        await speaker.eof
        assert tcp.info(transport.get_extra_info("socket")).state in tcp.FIN_SENT
        speaker.transport.close()
        await client.eof
        transport.close()
        server.close()

    run_with_clock(main, "virtual")


@pytest.mark.slow
@pytest.mark.integration
def test_a_million_exchanges_beside_a_busy_core_take_no_virtual_time(busy: None) -> None:
    found = figures("tests.run.virtual.pings", "--exchanges", "1000000")
    assert found["exchanges"] == 1_000_000
    assert found["false_jumps"] == 0
    assert found["jumps"] > 500


@pytest.mark.slow
@pytest.mark.integration
def test_time_waits_for_a_loopback_that_delivers_late(busy: None) -> None:
    if reason := _no_namespace():
        pytest.skip(reason)
    bare = figures("tests.run.virtual.churn", "--dialogues", "2000", "--small", "--no-guard", steered=True)
    assert bare["false_jumps"] > 0, (
        "without the tracker it jumps falsely, or nothing is late here and this proves nothing"
    )
    small = figures("tests.run.virtual.churn", "--dialogues", "20000", "--small", steered=True)
    large = figures("tests.run.virtual.churn", "--dialogues", "2000", "--seed", "2", steered=True)
    assert (small["false_jumps"], large["false_jumps"]) == (0, 0)
    assert small["naps"] > 0, "it had to wait for the kernel"
