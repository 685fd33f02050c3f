"""Work that the loop cannot track: it runs inline, holds time, or is refused."""

import asyncio
import contextlib
import hashlib
import socket
import sqlite3
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conformance.run.cell_loop import Clock, run_with_clock
from conformance.run.virtual.loop import VirtualClockEventLoop


def virtual_loop() -> VirtualClockEventLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualClockEventLoop)
    return loop


def test_executor_calls_run_inline() -> None:
    async def main(clock: Clock) -> tuple[int, int, int, float]:
        called: list[str] = []
        future = virtual_loop().run_in_executor(None, called.append, "at once")
        assert (called, future.done()) == (["at once"], True), "before anything awaits it"
        with ThreadPoolExecutor(1) as pool:
            there = await virtual_loop().run_in_executor(pool, threading.get_ident)
        return threading.get_ident(), await asyncio.to_thread(threading.get_ident), there, clock.elapsed()

    here, to_thread, executor, elapsed = run_with_clock(main, "virtual")
    assert here == to_thread == executor
    assert elapsed == 0


def test_an_exception_of_an_executor_call_is_raised_to_its_caller() -> None:
    async def main(clock: Clock) -> None:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        called = virtual_loop().run_in_executor(None, lambda: 1 / 0)  # raises nothing: the caller awaits it later
        with pytest.raises(ZeroDivisionError):
            await called

    run_with_clock(main, "virtual")


def test_names_are_resolved_inline(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved: list[tuple[str, int]] = []
    resolve = socket.getaddrinfo

    def noting(host: str, *given: Any, **options: Any) -> object:
        resolved.append((host, threading.get_ident()))
        return resolve("127.0.0.1", *given, **options)

    monkeypatch.setattr(socket, "getaddrinfo", noting)

    async def main(clock: Clock) -> tuple[list[object], float]:
        found = await virtual_loop().getaddrinfo("mx.test", 25, type=socket.SOCK_STREAM)
        return [address for *_, address in found], clock.elapsed()

    assert run_with_clock(main, "virtual") == ([("127.0.0.1", 25)], 0.0)
    assert resolved == [("mx.test", threading.get_ident())]


def test_sqlite_calls_take_no_virtual_time(tmp_path: Path) -> None:
    async def main(clock: Clock) -> list[tuple[int, float]]:
        with contextlib.closing(sqlite3.connect(tmp_path / "queue.db")) as database:
            database.execute("create table queue (number integer, at real)")

            async def write(number: int) -> None:
                for _ in range(20):
                    await clock.sleep(60)
                    with database:
                        database.execute("insert into queue values (?, ?)", (number, clock.elapsed()))

            async with asyncio.TaskGroup() as group:
                for number in range(4):
                    group.create_task(write(number))
            return list(database.execute("select number, at from queue order by rowid"))

    assert run_with_clock(main, "virtual") == [(number, 60.0 * (turn + 1)) for turn in range(20) for number in range(4)]


def test_time_does_not_jump_while_it_is_held_for_a_thread() -> None:
    async def main(clock: Clock) -> tuple[float, float]:
        loop = virtual_loop()
        done: asyncio.Future[float] = loop.create_future()

        def work() -> None:
            hashlib.pbkdf2_hmac("sha256", b"a while", b"without the interpreter's lock", 100_000)
            loop.call_soon_threadsafe(lambda: done.set_result(loop.time()))

        thread = threading.Thread(target=work)
        with loop.hold_time("a thread"):
            assert "held by a thread" in repr(loop)
            thread.start()
            async with asyncio.timeout(60):
                at = await done
        thread.join()
        await clock.sleep(60)
        return at, clock.elapsed()

    assert run_with_clock(main, "virtual") == (0.0, 60.0)


@pytest.mark.integration
def test_a_subprocess_holds_time_until_it_has_ended() -> None:
    async def main(clock: Clock) -> tuple[bytes, int | None, float, float]:
        said_and_closed = "print('ready', flush=True); os.close(1)"  # its output ends before it does
        program = f"import os, time; time.sleep(0.1); {said_and_closed}; time.sleep(0.1)"
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
        async with asyncio.timeout(1):  # virtual
            said, _ = await process.communicate()
        ended = clock.elapsed()
        jumps = virtual_loop().jumps
        await clock.sleep(3600)
        assert virtual_loop().jumps == jumps + 1, "time goes on by jumps again"
        return said, process.returncode, ended, clock.elapsed()

    assert run_with_clock(main, "virtual") == (b"ready\n", 0, 0.0, 3600.0)


@pytest.mark.integration
def test_a_released_subprocess_leaves_no_record_for_a_later_one_with_its_id() -> None:
    """Children that hold time, and those that ended before they could, are remembered by ids that the system uses again."""

    async def main(clock: Clock) -> tuple[list[int], list[int]]:
        loop = virtual_loop()
        process = await asyncio.create_subprocess_exec("sleep", "60")
        assert list(loop._holds_of_children) == [process.pid]
        with loop.hold_time("the test waits for it"):
            loop.stop_holding_for(process.pid)
            process.kill()
            await process.wait()
            await asyncio.sleep(0)
        return list(loop._ended_children), list(loop._holds_of_children)

    assert run_with_clock(main, "virtual") == ([], [])


@pytest.mark.integration
def test_a_subprocess_that_cannot_be_started_does_not_hold_time() -> None:
    async def main(clock: Clock) -> float:
        with pytest.raises(FileNotFoundError):
            await asyncio.create_subprocess_exec("/nonexistent/program")
        assert "held" not in repr(virtual_loop()), "else the sleep would never end"
        await clock.sleep(3600)
        return clock.elapsed()

    assert run_with_clock(main, "virtual") == 3600


def test_datagrams_and_every_operation_on_raw_sockets_but_connecting_are_refused() -> None:
    async def main(clock: Clock) -> None:
        loop = virtual_loop()
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            refused: dict[str, tuple[Any, ...]] = {
                "sock_recv": (near, 1),
                "sock_recv_into": (near, bytearray(1)),
                "sock_recvfrom": (near, 1),
                "sock_recvfrom_into": (near, bytearray(1)),
                "sock_sendall": (near, b"x"),
                "sock_sendto": (near, b"x", "there"),
                "sock_accept": (near,),
                "sock_sendfile": (near, None),
                "create_datagram_endpoint": (asyncio.DatagramProtocol, ("127.0.0.1", 0)),
            }
            raw = {name for name in dir(asyncio.AbstractEventLoop) if name.startswith("sock_")}
            assert refused.keys() == raw - {"sock_connect"} | {"create_datagram_endpoint"}
            for name, arguments in refused.items():
                with pytest.raises(NotImplementedError, match="stream transports only"):
                    await getattr(loop, name)(*arguments)
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        with socket.socket() as connecting:
            connecting.setblocking(False)
            await loop.sock_connect(connecting, server.sockets[0].getsockname())
            assert connecting.getpeername() == server.sockets[0].getsockname()
        server.close()

    run_with_clock(main, "virtual")


def test_the_representation_has_time_and_jumps() -> None:
    async def main(clock: Clock) -> str:
        await clock.sleep(120)
        return repr(virtual_loop())

    assert run_with_clock(main, "virtual") == "<VirtualClockEventLoop running t=120.0 jumps=1>"
