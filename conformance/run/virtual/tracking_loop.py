"""An asyncio event loop that notes every socket in the in-flight tracker, and calls timers in a reproducible order.

It differs from `asyncio.SelectorEventLoop` in these points, for which it overrides private methods (`asyncio_compat`):

- A turn polls the sockets only when there is nothing else to do, after MAX_TURNS_WITHOUT_POLL turns, and with
  `polls_every_turn`. asyncio queues the callbacks of ready sockets for later in the turn; here they are called at once, by
  `_serve_sockets`.
- Timers of equal times are called in the order in which they were made, or after `shuffle_ties` in a drawn one.
- Transports are `TrackedTransport`s, and connecting, accepting and listening are noted in `tracker`.
- While a child process runs, time is held: what it does cannot be seen.

How sockets are polled, and what time is, the subclasses decide: the loops of the virtual and of the shifted clock. They
implement the methods that raise NotImplementedError here. While time is *held*, it does not jump. A *turn* is one pass over the
callbacks that are ready (`_ready`). `_timers` is a heap of (when, place among the timers of that time, handle). `_shuffle` draws
places after `shuffle_ties`, and is None before. `_holds_of_children` has the contexts that hold time, by the id of a child process.
"""

import asyncio
import contextlib
import heapq
import re
import socket
from asyncio import sslproto
from collections.abc import Callable, Coroutine
from random import Random
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Self

from conformance.run.virtual.asyncio_compat import FastHandle, FastTimerHandle, ReadHandle, incompatibilities
from conformance.run.virtual.errors import UnsupportedPython
from conformance.run.virtual.in_flight import InFlightTracker
from conformance.run.virtual.selector import OrderedSelector, Ready
from conformance.run.virtual.transport import TrackedTransport

_IPV4_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")

MAX_TURNS_WITHOUT_POLL = 100
"""Turns of a loop with callbacks to run between two polls: a poll costs as much as several callbacks. A fixed number, so
that the order of events depends on nothing else."""

_MIN_CANCELLED_TIMERS = 100
"""Cancelled timers are removed from the heap when there are more of them than this, and than half of all timers."""


class TrackingEventLoop(asyncio.SelectorEventLoop):
    """The abstract base of the loops of the virtual and of the shifted clock.

    Of asyncio it uses `_ready`, the queue of handles to be called, `_stopping` and `_closed`. `_timers` is a heap of
    (when, place among the timers of that time, handle); no two have the same place. `sockets` is the selector, `tracker` knows
    what is in flight. `timer_may_be_due` is False where a check for due timers can be skipped. `_shuffle` draws orders, None
    where they are not drawn. `_holds_of_children` keep time from jumping while a child process runs, by its id;
    `_ended_children` are those that ended before they could be held.
    """

    time_passes = True
    """Whether `time()` increases by itself, so that timers become due."""

    def __new__(cls, *args: Any, **named: Any) -> Self:
        """Return a new loop; raise UnsupportedPython, where this Python's asyncio does not fit, before anything has to be closed."""
        if unknown := incompatibilities():
            raise UnsupportedPython(unknown)
        return super().__new__(cls)

    def __init__(self) -> None:
        self.sockets = OrderedSelector()
        super().__init__(self.sockets)
        self.tracker = InFlightTracker(self.sockets.get_map())
        self.polls_every_turn = False
        """True polls even in turns with callbacks to run, so that closing sockets are seen sooner."""
        self.timer_may_be_due = True
        """False skips the check for due timers; a subclass that sets the time sets it to True."""
        self._turns_since_poll = 0
        self.callbacks_called = 0
        """The number of callbacks called so far, without those of sockets."""
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_made = self._timers_cancelled = 0
        self._shuffle: Random | None = None
        # asyncio uses a WeakValueDictionary, whose every access costs as much as a call
        self._transports: dict[int, Any] = {}
        self._holds_of_children: dict[int, contextlib.ExitStack] = {}
        self._ended_children: set[int] = set()
        # Timers up to this much later are called together. asyncio takes the resolution of time.monotonic(), 1e-9, which is
        # less than the distance of neighbouring floats once the clock is past 8e6 s: a timer would never be due.
        self._clock_resolution = 1e-6

    def shuffle_ties(self, seed: int) -> None:
        """Draw from a seed the order of timers for equal times, and of sockets that become ready together.

        asyncio promises neither. The order of `call_soon` is promised, and stays.
        """
        self._shuffle = Random(seed)  # noqa: S311  # it draws an order and protects no secret
        self.sockets.shuffle(seed)

    def hold_time(self, reason: str) -> contextlib.AbstractContextManager[None]:
        """Do not jump while the context lasts: something is under way that the loop cannot see. `reason` names it."""
        raise NotImplementedError

    def wait_for_delivery(self) -> None:
        """Block until the kernel has delivered everything that endpoints of this loop have sent to each other."""
        raise NotImplementedError

    def note_spurious_wakeup(self) -> None:
        """Note that a socket was served as readable and was not: the next poll must ask the kernel."""
        raise NotImplementedError

    def cannot_accept(self, error: OSError) -> None:
        """Handle that a connection could not be accepted because of `error`; asyncio tries again later."""
        raise NotImplementedError

    def poll_sockets(self, turns: int, *, may_wait: bool) -> Ready:
        """Return the sockets that are ready. `turns` is the number of turns since the last poll.

        `may_wait` says that the loop has nothing else to do: the method may block, or let time jump.
        """
        raise NotImplementedError

    # turns and timers

    def _run_once(self) -> None:
        """Make one turn: serve the sockets unless there is something else to do, then call what is ready and due.

        Serving them may block, and may let time jump. An exception of a callback goes to the loop's exception handler; SystemExit and
        KeyboardInterrupt are raised.
        """
        ready = self._ready
        self._turns_since_poll += 1
        if not ready or self._turns_since_poll >= MAX_TURNS_WITHOUT_POLL or self.polls_every_turn:
            self._serve_sockets()
        if self.timer_may_be_due:
            due = self.time() + self._clock_resolution
            while self._timers and self._timers[0][0] < due:
                ready.append(heapq.heappop(self._timers)[2])
            self.timer_may_be_due = self.time_passes
        self.callbacks_called += len(ready)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                try:
                    handle._context.run(handle._callback, *handle._args)
                except BaseException as error:  # noqa: BLE001
                    self._report_callback_error(handle, error)

    def _serve_sockets(self) -> None:
        """Poll and call the callbacks of ready sockets; repeat until a callback, a timer or a stop is to be handled.

        A poll with something else to do does not wait; any other may block, or let time jump.
        """
        turns, self._turns_since_poll = self._turns_since_poll, 0
        busy = self._ready or self._stopping
        busy = busy or (self.timer_may_be_due and self._timers and self._timers[0][0] <= self.time())
        ready = self.poll_sockets(turns, may_wait=not busy)
        while True:
            for key, events in ready:
                reader, writer = key.data  # each a handle or None
                if events & EVENT_READ and reader is not None and not reader._cancelled:
                    reader._run()
                if events & EVENT_WRITE and writer is not None and not writer._cancelled:
                    writer._run()
            if self._ready or self.timer_may_be_due or self._stopping:
                break
            ready = self.poll_sockets(1, may_wait=True)

    def _report_callback_error(self, handle: asyncio.Handle, error: BaseException) -> None:
        """Pass an exception of a callback to the exception handler; raise SystemExit and KeyboardInterrupt again."""
        if isinstance(error, SystemExit | KeyboardInterrupt):
            raise error
        self.call_exception_handler(
            {"message": f"Exception in callback {handle!r}", "exception": error, "handle": handle}
        )

    def next_timer(self) -> float | None:
        """Return when the next timer is due, in seconds of `time()`; None when there is no timer.

        Cancelled timers do not count, and are removed from the front of the heap.
        """
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._timers_cancelled -= 1
        return timers[0][0] if timers else None

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:
        """Have `callback(*args)` called after all that is ready already, as asyncio.loop.call_soon does; return its handle.

        Raises RuntimeError when the loop is closed.
        """
        if self._closed:
            self._check_closed()
        handle: asyncio.Handle = FastHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Have `callback(*args)` called at `when`, seconds of `time()`, as asyncio.loop.call_at does; return its handle.

        It comes after the timers that were made before for that time; after `shuffle_ties` their order is drawn. Raises
        RuntimeError when the loop is closed.
        """
        if self._closed:
            self._check_closed()
        self._timers_made += 1
        self.timer_may_be_due = self.timer_may_be_due or when <= self.time() + self._clock_resolution
        timer = FastTimerHandle(when, callback, args, self, context)
        drawn = self._shuffle.getrandbits(32) << 64 if self._shuffle is not None else 0
        heapq.heappush(self._timers, (when, drawn + self._timers_made, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Count a cancelled timer, and remove all cancelled ones from the heap when they are too many."""
        self._timers_cancelled += 1
        if self._timers_cancelled > _MIN_CANCELLED_TIMERS and self._timers_cancelled > len(self._timers) // 2:
            self._timers = [timer for timer in self._timers if not timer[2]._cancelled]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    # watching sockets

    def start_reading(self, descriptor: int, on_readable: Callable[[], None]) -> None:
        """Call `on_readable` whenever a socket is readable, until `unwatch_readable`; cheaper than `watch_readable`.

        The socket must not be watched yet, not even for writing.
        """
        self.sockets.register_later(descriptor, EVENT_READ, (ReadHandle(on_readable), None))

    def watch_readable(self, descriptor: int, on_readable: Callable[[], None]) -> None:
        """Call `on_readable` whenever a socket is readable, until `unwatch_readable`; it may be watched for writing already."""
        self._add_reader(descriptor, on_readable)

    def unwatch_readable(self, descriptor: int) -> None:
        """Stop watching a socket for reading; do nothing if it is not watched."""
        self._remove_reader(descriptor)

    def watch_writable(self, descriptor: int, on_writable: Callable[[], None]) -> None:
        """Call `on_writable` whenever a socket can be written to, until `unwatch_writable`."""
        self._add_writer(descriptor, on_writable)

    def unwatch_writable(self, descriptor: int) -> None:
        """Stop watching a socket for writing; do nothing if it is not watched."""
        self._remove_writer(descriptor)

    def _remove_reader(self, fd: int) -> bool:
        """Stop watching a descriptor for reading and return whether it was watched for that.

        Done with one look-up when it is not watched for writing too.
        """
        key = self.sockets.get_map().get(fd)
        if key is None or key.data[0] is None:
            return False
        if key.data[1] is not None:
            return super()._remove_reader(fd)  # type: ignore[no-any-return]
        self.sockets.unregister(fd)
        key.data[0].cancel()
        return True

    # connections

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **named: Any
    ) -> tuple[Any, Any]:
        """Connect and return (transport, protocol), as asyncio.loop.create_connection does.

        An IPv4 address without options needs no look-up and no extra turns. Raises OSError when the connection is refused.
        """
        if named or not isinstance(host, str) or not _IPV4_ADDRESS.fullmatch(host):
            return await super().create_connection(protocol_factory, host, port, **named)
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            await self.sock_connect(sock, (host, port))
            protocol = protocol_factory()
            return self._make_socket_transport(sock, protocol), protocol
        except BaseException:
            sock.close()
            raise

    def _make_socket_transport(
        self,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None = None,
        *,
        extra: Any = None,
        server: Any = None,
    ) -> TrackedTransport:
        """Return a new transport of a connected socket, which the loop keeps until `forget_transport`.

        It is started: the protocol's connection_made was called. `waiter`, if any, is resolved at once; `extra` is not used.
        """
        transport = TrackedTransport(self, sock, protocol, self.tracker.take_endpoint(sock), server)
        self._transports[sock.fileno()] = transport
        transport.start()
        if waiter is not None:
            waiter.set_result(None)
        return transport

    def forget_transport(self, descriptor: int) -> None:
        """Remove the transport of a descriptor that is about to be closed from those that the loop serves."""
        del self._transports[descriptor]

    def _make_ssl_transport(
        self,
        rawsock: socket.socket,
        protocol: asyncio.BaseProtocol,
        sslcontext: Any,
        waiter: Any = None,
        *,
        extra: Any = None,
        server: Any = None,
        **rest: Any,
    ) -> Any:
        """Return the transport of a connection that begins with TLS; asyncio would not use a TrackedTransport below it.

        STARTTLS needs no override: it upgrades a transport that exists.
        """
        tls = sslproto.SSLProtocol(self, protocol, sslcontext, waiter, **rest)
        self._make_socket_transport(rawsock, tls, server=server)
        return tls._app_transport

    def _accept_connection(
        self, protocol_factory: Any, sock: socket.socket, sslcontext: Any = None, server: Any = None, *rest: Any
    ) -> None:
        """Accept one connection and start its transport in the same turn; if there is another one, the next poll reports it.

        With TLS (`sslcontext`) asyncio's own method accepts. If there is no connection to accept, only note that the next poll
        must ask the kernel. At any other error, such as when no descriptors are left, call `cannot_accept`, then asyncio's own
        method, which tries again later.
        """
        if sslcontext is not None:
            super()._accept_connection(protocol_factory, sock, sslcontext, server, *rest)
            return
        try:
            connection, remote = self._accept(sock)
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            self.note_spurious_wakeup()
            return
        except OSError as error:  # no descriptors are left: asyncio logs that and tries again later
            self.cannot_accept(error)
            super()._accept_connection(protocol_factory, sock, sslcontext, server, *rest)
            return
        connection.setblocking(False)
        self.tracker.note_accepted(connection, remote)
        try:
            self._make_socket_transport(connection, protocol_factory(), server=server)
        except BaseException:
            connection.close()
            raise

    def _accept(self, listener: socket.socket) -> tuple[socket.socket, Any]:
        """Accept a connection and return its socket and the peer's address; block while the kernel has one to deliver.

        Raises BlockingIOError when there is none.
        """
        try:
            return listener.accept()
        except BlockingIOError:
            self.wait_for_delivery()
            return listener.accept()

    def _accept_connection2(
        self, protocol_factory: Any, conn: socket.socket, extra: Any, *rest: Any, **named: Any
    ) -> Coroutine[Any, Any, None]:
        """Note a connection that was accepted for TLS in the tracker, and return the coroutine that serves it."""
        self.tracker.note_accepted(
            conn, extra["peername"]
        )  # not when the coroutine runs: the connection has left the listener's queue
        return super()._accept_connection2(protocol_factory, conn, extra, *rest, **named)  # type: ignore[no-any-return]

    def _start_serving(self, protocol_factory: Any, sock: socket.socket, *rest: Any, **named: Any) -> None:
        """Accept connections of a listener from now on, note it in the tracker, and set TCP_NODELAY for what it accepts."""
        self.tracker.note_listening(sock)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted connections inherit it
        super()._start_serving(protocol_factory, sock, *rest, **named)

    # child processes

    async def _make_subprocess_transport(self, *args: Any, **named: Any) -> Any:
        """Start a child process and return its transport; hold time until the process has ended, or until `stop_holding_for`."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.hold_time("a subprocess"))
            transport = await super()._make_subprocess_transport(*args, **named)
            pid = transport.get_pid()
            if pid in self._ended_children:
                self._ended_children.discard(pid)  # leaving the context lets time go on
            else:
                self._holds_of_children[pid] = stack.pop_all()
        return transport

    def _child_watcher_callback(self, pid: int, returncode: int, transp: Any) -> None:
        """Have a child's end handled by the loop, in its own thread; Python 3.11 calls this method in another one."""
        super()._child_watcher_callback(pid, returncode, transp)
        self.call_soon_threadsafe(self._on_child_ended, pid)

    def _on_child_ended(self, pid: int) -> None:
        """End the hold on time for a child that has ended; if its transport is not made yet, note the end for when it is."""
        if (hold := self._holds_of_children.pop(pid, None)) is not None:
            hold.close()
        else:
            self._ended_children.add(pid)

    def stop_holding_for(self, pid: int) -> None:
        """End the hold on time for a child process that runs; do nothing if it has ended."""
        if (hold := self._holds_of_children.get(pid)) is not None:
            hold.close()
