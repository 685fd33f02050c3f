"""An event loop on real loopback sockets whose clock jumps to the next timer when nothing is ready or in flight.

Theory of operation. asyncio calls `time()` for the current time and waits in the selector until the next timer is due. Here
`time()` is a number that this module sets. When a turn of the loop finds nothing to call (`poll_sockets`), there are three
cases:

1. Something is in flight on the loopback (`in_flight`): the loop waits until the kernel has delivered it, in real time and
   for `kernel_timeout` seconds at most.
2. Something is under way that the loop cannot see, such as a child process (`hold_time`): the loop blocks in the selector.
3. Else nothing can happen before the next timer: time jumps to it. Without a timer, the tasks would wait for ever (Deadlock).

All that was sent is delivered before any of it is served, and sockets are served in the order of their registration, or in one
drawn from a seed (`shuffle_ties`). So the order of events does not depend on the kernel, and the same program does the same
things in the same order.

Octets, connections and closes are *in flight* while one end has sent them and the other has not yet seen them. A *turn* is one
pass of the loop over its callbacks. *Progress* is an event that the program's user waits for: in a cell, a recorded event. When
time cannot go on, the loop *reports* a ClockError: it passes the error to the innermost handler, or raises it. `sockets` is the
selector, `tracker` finds what is in flight, and `_holds` are the reasons for which time is *held*, that is, does not jump.
"""

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

from conformance.run.virtual.errors import ClockError, Deadlock, Exhausted, Runaway, Stall, describe_tasks
from conformance.run.virtual.selector import Ready
from conformance.run.virtual.tracking_loop import TrackingEventLoop

BACKLOG = 4096
"""The length of a listener's queue: when one overflows, the kernel takes real seconds to retransmit."""

_KERNEL_POLL_S = 0.0005
"""Real seconds between two checks whether something is still in flight."""

_CHECKS_WITHOUT_SLEEP = 20
"""The number of first checks without a pause: what another core delivers takes microseconds."""


class VirtualClockEventLoop(TrackingEventLoop):
    """Runs a program at the times it asks for, without waiting for them.

    - Time stands still while a callback is ready, something is in flight on the loopback, or `hold_time` is in force. Else
      it jumps to the next timer, and `time()` is exactly the float of that timer.
    - What would run in a thread (`run_in_executor`, `asyncio.to_thread`, `getaddrinfo`) runs at once and blocks the loop.
    - Octets that a receiver does not read, since it has paused reading, are not in flight.
    - Only stream transports are supported. Datagrams and the raw `sock_*` methods raise NotImplementedError, except
      `sock_connect`; for other processes and threads time must be held.

    The base class calls `poll_sockets`, mostly when it has nothing else to do. It has the selector (`sockets`), the
    tracker of what is in flight (`tracker`) and the timers; `timer_may_be_due` has it look for due timers. `_holds`
    are the reasons not to jump. `_now` is the virtual time, seconds. `_jumps_since_progress`, `_turns` and
    `_progress_since_jump` are the counts that end in Runaway. `_error_handlers` get a ClockError, the last one first.
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
        """Make a loop whose first `time()` is `start`, seconds.

        `max_jumps` limits the jumps between two calls of `note_progress`, `max_turns` the turns without a jump or such a call,
        and `max_progress` these calls without a jump (Runaway). `kernel_timeout` is how many real seconds something may be in
        flight (Stall).
        """
        super().__init__()
        self._now = start
        self._max_jumps = max_jumps
        self._max_turns = max_turns
        self._max_progress = max_progress
        self.kernel_timeout = kernel_timeout
        self._jumps_since_progress = self._turns = self._progress_since_jump = 0
        self._holds: dict[object, str] = {}
        self._error_handlers: list[Callable[[ClockError], None]] = []
        self._woken_spuriously = False
        self.before_waiting: Callable[[], None] | None = None
        """Called whenever nothing is left to do at the current time."""
        self.jumps = 0
        """The number of jumps so far."""
        self.kernel_waits = 0
        """The number of checks so far that found something in flight."""

    def __repr__(self) -> str:
        held = f" held by {', '.join(self._holds.values())}" if self._holds else ""
        state = "closed" if self.is_closed() else "running" if self.is_running() else "stopped"
        return f"<{type(self).__name__} {state} t={self.time()!r} jumps={self.jumps}{held}>"

    def time(self) -> float:
        """Return the virtual time, seconds."""
        return self._now

    def note_progress(self) -> None:
        """Note that the program has done something that it is run for: restart the counts of turns and jumps that end in Runaway.

        Too many such calls without a jump end in Runaway too.
        """
        self._jumps_since_progress = self._turns = 0
        self._progress_since_jump += 1

    @contextlib.contextmanager
    def hold_time(self, reason: str) -> Iterator[None]:
        """Do not jump, but block in the selector, while the context lasts: a process or thread is under way.

        Contexts may overlap: time is held until the last one ends.
        """
        hold = object()
        self._holds[hold] = reason
        try:
            yield
        finally:
            del self._holds[hold]

    @contextlib.contextmanager
    def handling_clock_errors(self, handler: Callable[[ClockError], None]) -> Iterator[None]:
        """Have `handler` called with the ClockError when time cannot go on in this context.

        The first error goes to the handler of the innermost context, the next one to that of the context around it: each is
        called once at most. The loop goes on afterwards, so that the handler's task can clean up. Without a handler the loop
        raises the error.
        """
        self._error_handlers.append(handler)
        try:
            yield
        finally:
            if handler in self._error_handlers:
                self._error_handlers.remove(handler)

    # methods that asyncio calls

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Call `func(*args)` now, in this thread, and return a future that is done: it has the result or the exception.

        Other threads would race with the clock and with each other.
        """
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  # raised where the future is awaited
            future.set_exception(error)
        return future

    async def create_server(self, *args: Any, backlog: int = BACKLOG, **named: Any) -> asyncio.Server:
        """Do what asyncio.loop.create_server does, with a default backlog that does not overflow."""
        return await super().create_server(*args, backlog=backlog, **named)

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connect a socket and note the connection in the tracker; block while the loopback's answer is in flight.

        For a host that does not answer, wait on the loop. Raises OSError when the connection is refused.
        """
        if isinstance(address, tuple):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        error = sock.connect_ex(address)
        if error in (0, errno.EINPROGRESS) and self.tracker.note_connected(sock):
            return  # the most frequent case
        try:
            with self.tracker.connecting(sock, address):
                if not self._wait_for_answer(sock, address, error):
                    await super().sock_connect(sock, address)
        finally:  # also when cancelled: what the kernel has established will be accepted
            self.tracker.note_connected(sock)

    def _wait_for_answer(self, sock: socket.socket, address: Any, error: int) -> bool:
        """Block while the answer to a connect is in flight, up to `kernel_timeout` real seconds; return whether it has come.

        `error` is the error number that the first connect_ex returned. False: the caller has to wait on the loop, as for a host
        that does not answer. Raises OSError for a refusal.
        """
        if error == errno.EINPROGRESS:
            error = sock.connect_ex(address)
        waited = 0.0
        while (
            error == errno.EALREADY and waited < self.kernel_timeout and self.tracker.is_connect_pending(sock, address)
        ):
            time.sleep(_KERNEL_POLL_S)
            waited += _KERNEL_POLL_S
            error = sock.connect_ex(address)
        if error in (errno.EALREADY, errno.EAGAIN):
            return False
        if error:
            raise OSError(error, f"connecting to {address} failed: {os.strerror(error)}")
        return True

    async def _refuse(self, *args: Any, **named: Any) -> Any:
        """Raise NotImplementedError: what raw sockets and datagrams have in flight cannot be tracked."""
        raise NotImplementedError("virtual time supports stream transports only")

    sock_sendall = sock_sendto = sock_accept = sock_sendfile = create_datagram_endpoint = _refuse
    sock_recv = sock_recv_into = sock_recvfrom = sock_recvfrom_into = _refuse

    # polling and jumping

    def poll_sockets(self, turns: int, *, may_wait: bool) -> Ready:
        """Return the sockets to serve; if there are none, wait or let time jump. Reports a Runaway.

        Sockets that the tracker's counters predict to be readable are returned without asking the kernel, except in the poll
        after `note_spurious_wakeup` and while `polls_every_turn`. Otherwise the kernel is asked; where the counters cannot say
        what is readable, or it has not come yet, block until what is in flight is delivered. `turns` is the number of turns
        since the last poll. Without `may_wait` the method neither waits for processes nor jumps, as there are callbacks to run.
        """
        self._turns += turns
        if self._turns > self._max_turns:
            description = f"{self._max_turns} turns of the loop without a jump, and no progress:"
            self._handle_error(Runaway(self._with_state(description)))
        if self._progress_since_jump > self._max_progress:
            description = f"more than {self._max_progress} things have happened, and no time passes:"
            self._handle_error(Runaway(self._with_state(description)))
        predicted = self.tracker.predict_readable()
        if predicted and not self._woken_spuriously and not self.polls_every_turn:
            return self.sockets.as_readable(predicted) if len(predicted) > 1 else [(predicted[0], EVENT_READ)]
        self._woken_spuriously = False
        ready = self.sockets.poll(0)
        # nothing is known, or something predicted has not come yet
        if predicted is None or (predicted and not {key.fd for key, _ in ready}.issuperset(k.fd for k in predicted)):
            self._wait_for_kernel(nothing_readable=False)
            ready = self.sockets.poll(0)
        return ready if ready or not may_wait else self._wait_or_jump()

    def cannot_accept(self, error: OSError) -> None:
        """Report Exhausted, a ClockError.

        A connection that is not accepted counts as in flight, so time would stand still for ever.
        """
        failure = Exhausted(self._with_state(f"a connection cannot be accepted ({error.strerror}):"))
        failure.__cause__ = error
        self._handle_error(failure)

    def note_spurious_wakeup(self) -> None:
        """Have the next poll ask the kernel, as a socket was served as readable and was not."""
        self._woken_spuriously = True

    def _wait_or_jump(self) -> Ready:
        """Block while time is held or something is in flight, and return the sockets that became ready; else jump and return none.

        The loop calls this when no socket is ready and no callback is to be run. Calls `before_waiting` first. While time is
        held it blocks until a socket is ready, without limit. Reports a ClockError and returns none when time cannot jump either.
        """
        if self.before_waiting is not None:
            self.before_waiting()  # flushes the recorded events, say
        if self._holds:
            return self.sockets.poll(None)
        if not self.tracker.idle and (ready := self._wait_for_kernel(nothing_readable=True) or self.sockets.poll(0)):
            return ready
        when = self.next_timer()
        if when is None or math.isinf(when):
            self._handle_error(Deadlock(self._with_state("nothing is left to happen, and these wait:")))
        elif self._jumps_since_progress >= self._max_jumps:
            description = f"{self._jumps_since_progress} jumps of the clock, and no progress:"
            self._handle_error(Runaway(self._with_state(description)))
        elif when > self._now:
            self._now = when
            self.timer_may_be_due = True
            self.jumps += 1
            self._jumps_since_progress += 1
            self._turns = self._progress_since_jump = 0
        return []

    def wait_for_delivery(self) -> None:
        """Block until the kernel has delivered everything that is in flight; octets in a receive queue are delivered."""
        self._wait_for_kernel(nothing_readable=False)

    def _wait_for_kernel(self, *, nothing_readable: bool) -> Ready:
        """Block until nothing is in flight, or report Stall after `kernel_timeout`, and forget what was in flight then.

        `nothing_readable`: the caller's poll has just found no socket readable; then return sockets as soon as one becomes ready.
        Otherwise, and when none became ready, return [].
        """
        checks, waited = 0, 0.0
        while not self.tracker.idle and (pending := self.tracker.find_pending(nothing_readable)):
            checks += 1
            self.kernel_waits += 1
            pause = _KERNEL_POLL_S if checks > _CHECKS_WITHOUT_SLEEP else 0.0
            waited += pause  # added up, not measured: while a machine is suspended, nothing is waited for
            if waited > self.kernel_timeout:
                description = f"after {waited:.1f} real seconds the kernel has not delivered {pending}:"
                self._handle_error(Stall(self._with_state(description)))
                self.tracker.clear()
                return []
            if not nothing_readable:
                time.sleep(pause)
            elif ready := self.sockets.poll(pause):
                return ready
        return []

    def _handle_error(self, error: ClockError) -> None:
        """Pass an error to the innermost handler, which is removed, or raise it when there is none.

        Restart the counts of Runaway.
        """
        self._jumps_since_progress = self._turns = self._progress_since_jump = 0
        if not self._error_handlers:
            raise error
        self._error_handlers.pop()(error)

    def _with_state(self, description: str) -> str:
        """Return a description with the time, all tasks and the next timer."""
        when = self.next_timer()
        timer = "no timer" if when is None or math.isinf(when) else f"next timer in {when - self.time():.6g} s"
        return f"at {self.time():.6f} s {description}\n{describe_tasks(asyncio.all_tasks(self))}\n  {timer}"
