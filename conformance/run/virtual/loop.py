"""An event loop on real loopback sockets whose clock jumps to the next timer when nothing is under way."""

import asyncio
import contextlib
import errno
import math
import os
import socket
import time
from collections.abc import Callable, Iterator
from selectors import EVENT_READ
from typing import Any

from conformance.run.virtual.asyncio_compat import TrackingEventLoop
from conformance.run.virtual.errors import ClockError, Deadlock, Exhausted, Runaway, Stall, describe_tasks
from conformance.run.virtual.selector import Ready

BACKLOG = 4096
"""Connections that may wait to be accepted: an overflowing queue costs seconds of real retransmission."""

_ONLY_STREAMS = "virtual time follows stream transports only: nobody could tell what a raw socket has under way"

_NAP = 0.0005
"""Real seconds between two looks at what the kernel owes."""

_EAGER = 20
"""Looks without a nap in between: what another core delivers takes microseconds."""


class VirtualClockEventLoop(TrackingEventLoop):
    """Runs one program at the times it asks for, without waiting for them.

    - Time stands while anything is ready to be done, or under way: octets sent and not read, a connection not yet
      answered or accepted, a FIN or RST not yet seen, work held with `hold`.
    - Else it jumps to the next timer, exactly (`time()` is then the timer's own float).
    - The same program does the same things in the same order: sockets are told in the order of their registration,
      after all that is under way has come; timers of equal times in the order in which they were made.
    - Whatever would run in a thread (`run_in_executor`, `asyncio.to_thread`, `getaddrinfo`) runs at once, inline.

    `start` is the first `time()`, seconds. `max_jumps` and `max_turns` limit the jumps, and the turns of the loop
    without a jump, between two calls of `progress`, and `max_progress` these calls between two jumps (Runaway).
    `patience` is how many real seconds the kernel may owe something (Stall). Unread octets of a receiver that does not read (paused, or never started) are not under way.

    Only stream transports are followed. Datagrams and the raw `sock_*` calls are refused with NotImplementedError,
    except connecting; other processes and threads have to be held.
    """

    time_passes = False

    def __init__(
        self,
        *,
        start: float = 0.0,
        max_jumps: int = 100_000,
        max_turns: int = 1_000_000,
        max_progress: int = 100_000,
        kernel_timeout: float = 5.0,
    ) -> None:
        super().__init__()
        self._now = start
        self._max_jumps = max_jumps
        self._max_turns = max_turns
        self._max_progress = max_progress
        self.kernel_timeout = kernel_timeout
        self._since_progress = self._turns = self._since_jump = 0
        self._holds: dict[object, str] = {}
        self._guards: list[Callable[[ClockError], None]] = []
        self._woken_spuriously = False
        self.before_waiting: Callable[[], None] | None = None
        """What is called whenever nothing is left to be done at this time."""
        self.jumps = 0
        """Jumps so far."""
        self.kernel_waits = 0
        """Looks so far at which the kernel still owed something."""

    def __repr__(self) -> str:
        held = f" held by {', '.join(self._holds.values())}" if self._holds else ""
        state = "closed" if self.is_closed() else "running" if self.is_running() else "stopped"
        return f"<{type(self).__name__} {state} t={self._now!r} jumps={self.jumps}{held}>"

    def time(self) -> float:
        """Return the virtual time, seconds since `start` was 0."""
        return self._now

    def note_progress(self) -> None:
        """Say that something has happened that the program is run for: the counts of what leads nowhere begin anew."""
        self._since_progress = self._turns = 0
        self._since_jump += 1

    @contextlib.contextmanager
    def hold_time(self, reason: str) -> Iterator[None]:
        """Let time stand, and really wait, while something the loop cannot see is under way: a process, a thread."""
        hold = object()
        self._holds[hold] = reason
        try:
            yield
        finally:
            del self._holds[hold]

    @contextlib.contextmanager
    def handling_clock_errors(self, told: Callable[[ClockError], None]) -> Iterator[None]:
        """Have `told` called, once, when time cannot go on; without a guard the loop itself raises the error.

        The innermost guard is told first. The loop goes on, so that whoever was told can clean up.
        """
        self._guards.append(told)
        try:
            yield
        finally:
            if told in self._guards:
                self._guards.remove(told)

    # what asyncio asks

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Call `func(*args)` now, on this thread: threads would race with the clock and with each other."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  # whoever awaits the future gets it
            future.set_exception(error)
        return future

    async def create_server(self, *args: Any, backlog: int = BACKLOG, **named: Any) -> asyncio.Server:
        """See asyncio.loop.create_server; with a queue that does not overflow."""
        return await super().create_server(*args, backlog=backlog, **named)

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """See asyncio.loop.sock_connect; whatever is on the loopback answers at once."""
        if isinstance(address, tuple):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        error = sock.connect_ex(address)
        if error in (0, errno.EINPROGRESS) and self.tracker.note_connected(sock):
            return  # as nearly always
        try:
            with self.tracker.connecting(sock, address):
                if not self._answered(sock, address, error):
                    await super().sock_connect(sock, address)
        finally:  # given up or not: once the kernel has established it, it has to be accepted
            self.tracker.note_connected(sock)

    def _answered(self, sock: socket.socket, address: Any, error: int) -> bool:
        """Wait for an answer to a connect that is under way; return whether there was one. Raises OSError."""
        if error == errno.EINPROGRESS:
            error = sock.connect_ex(address)
        waited = 0.0
        while (
            error == errno.EALREADY and waited < self.kernel_timeout and self.tracker.is_connect_pending(sock, address)
        ):
            time.sleep(_NAP)
            waited += _NAP
            error = sock.connect_ex(address)
        if error in (errno.EALREADY, errno.EAGAIN):
            return False
        if error:
            raise OSError(error, f"connecting to {address} failed: {os.strerror(error)}")
        return True

    async def sock_sendall(self, sock: socket.socket, data: Any) -> None:
        """Refused, as all of its kind: the ledger would not know."""
        raise NotImplementedError(_ONLY_STREAMS)

    async def sock_sendto(self, sock: socket.socket, data: Any, address: Any) -> int:
        """Refused."""
        raise NotImplementedError(_ONLY_STREAMS)

    async def sock_accept(self, sock: socket.socket) -> tuple[socket.socket, Any]:
        """Refused."""
        raise NotImplementedError(_ONLY_STREAMS)

    async def sock_sendfile(self, *args: Any, **named: Any) -> int:
        """Refused."""
        raise NotImplementedError(_ONLY_STREAMS)

    async def create_datagram_endpoint(self, *args: Any, **named: Any) -> Any:
        """Refused."""
        raise NotImplementedError(_ONLY_STREAMS)

    # when to jump

    def poll_sockets(self, turns: int, *, may_wait: bool) -> Ready:
        """See TrackingEventLoop. All that was sent has come then: the order of events does not depend on when it came."""
        self._turns += turns
        if self._turns > self._max_turns:
            self._report(
                Runaway(self._describe_state(f"{self._max_turns} turns of the loop without a jump, and no progress:"))
            )
        if self._since_jump > self._max_progress:
            self._report(
                Runaway(
                    self._describe_state(f"more than {self._max_progress} things have happened, and no time passes:")
                )
            )
        due = self.tracker.predict_readable()
        if due and not self._woken_spuriously and not self.polls_every_turn:
            return self.sockets.in_order(due) if len(due) > 1 else [(due[0], EVENT_READ)]
        self._woken_spuriously = False
        ready = self.sockets.poll(0)
        if due is None or (due and not {key.fd for key, _ in ready}.issuperset(key.fd for key in due)):
            self._wait_for_kernel(final=False)
            ready = self.sockets.poll(0)
        return ready if ready or not may_wait else self._wait_or_jump()

    def cannot_accept(self, error: OSError) -> None:
        """See TrackingEventLoop. The connection stays owed, so that time would stand for ever."""
        failure = Exhausted(self._describe_state(f"a connection cannot be accepted ({error.strerror}):"))
        failure.__cause__ = error
        self._report(failure)

    def note_spurious_wakeup(self) -> None:
        """See TrackingEventLoop."""
        self._woken_spuriously = True

    def _wait_or_jump(self) -> Ready:
        """Nothing is ready: really wait for what is under way, or else jump."""
        if self.before_waiting is not None:
            self.before_waiting()
        if self._holds:
            return self.sockets.poll(None)
        if not self.tracker.idle and (ready := self._wait_for_kernel(final=True) or self.sockets.poll(0)):
            return ready
        when = self.next_timer()
        if when is None or math.isinf(when):
            self._report(Deadlock(self._describe_state("nothing is left to happen, and these wait:")))
        elif self._since_progress >= self._max_jumps:
            self._report(Runaway(self._describe_state(f"{self._since_progress} jumps of the clock, and no progress:")))
        elif when > self._now:
            self._now = when
            self.timer_may_be_due = True
            self.jumps += 1
            self._since_progress += 1
            self._turns = self._since_jump = 0
        return []

    def wait_for_delivery(self) -> None:
        """See TrackingEventLoop."""
        self._wait_for_kernel(final=False)

    def _wait_for_kernel(self, *, final: bool) -> Ready:
        """Wait until the kernel owes nothing; when `final`, return what became ready meanwhile at once."""
        looks, waited = 0, 0.0
        while not self.tracker.idle and (debt := self.tracker.find_pending(final)):
            looks += 1
            self.kernel_waits += 1
            nap = _NAP if looks > _EAGER else 0.0
            waited += nap  # counted, not measured: a machine that was suspended has not waited
            if waited > self.kernel_timeout:
                self._report(
                    Stall(self._describe_state(f"after {waited:.1f} real seconds the kernel still owes {debt}:"))
                )
                self.tracker.clear()
                return []
            if not final:
                time.sleep(nap)
            elif ready := self.sockets.poll(nap):
                return ready
        return []

    def _report(self, error: ClockError) -> None:
        self._since_progress = self._turns = self._since_jump = 0
        if not self._guards:
            raise error
        self._guards.pop()(error)

    def _describe_state(self, what: str) -> str:
        when = self.next_timer()
        timer = "no timer" if when is None or math.isinf(when) else f"next timer in {when - self._now:.6g} s"
        return f"at {self._now:.6f} s {what}\n{describe_tasks(asyncio.all_tasks(self))}\n  {timer}"
