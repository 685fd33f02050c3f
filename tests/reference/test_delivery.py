"""Delivery queues: two redirections at a time, and what is queued while the node stops."""

import asyncio
from pathlib import Path

import pytest

from conformance.reference.host import Host
from conformance.reference.queue.hop_queue import HopQueue
from conformance.reference.routing.next_hop import NextHop
from tests.reference.hosts import HandClock, add_primary, run_ready_tasks, run_with_host


def test_a_second_redirection_waits_for_the_first(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        seen: list[str] = []
        end = asyncio.Event()

        async def redirect_all(target: NextHop) -> None:
            seen.append(f"{target.name} began")
            await end.wait()
            await asyncio.sleep(0)
            seen.append(f"{target.name} ended")

        host.delivery.redirect_all = redirect_all  # type: ignore[method-assign]
        both = [asyncio.create_task(host.redirection.redirect(name)) for name in ("mbx2", "mbx3")]
        await run_ready_tasks()
        assert seen == ["mbx2 began"]
        end.set()
        assert await asyncio.gather(*both) == [{"redirected": 0, "kept": 0}] * 2
        assert seen == ["mbx2 began", "mbx2 ended", "mbx3 began", "mbx3 ended"]

    run_with_host(tmp_path, steps, "three-servers-one-dag")


@pytest.mark.parametrize("stopping", [True, False])
def test_a_queue_that_is_made_while_the_node_stops_starts_nothing(tmp_path: Path, stopping: bool):
    async def steps(host: Host, clock: HandClock) -> None:
        message = add_primary(host)
        if stopping:
            await host.delivery.stop(0)
        host.delivery._queue_attempts(message, message.envelope.recipients)
        (queue,) = host.delivery._queues.values()
        assert isinstance(queue, HopQueue)
        assert (len(queue.waiting), bool(queue.workers)) == (1, not stopping)

    run_with_host(tmp_path, steps)
