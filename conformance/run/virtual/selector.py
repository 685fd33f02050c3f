"""A selector that asks before it waits, and tells events in the order in which sockets were registered."""

import selectors
from collections.abc import Callable
from typing import Any

Ready = list[tuple[selectors.SelectorKey, int]]

BUSY = 100
"""Turns of a loop that is busy with itself, without a look at the sockets in between: a fixed number, so that the order
of things depends on nothing else. A look costs as much as a handful of callbacks."""


class AskingSelector(selectors.EpollSelector):
    """Polls without waiting; when the loop would wait and nothing is ready, it asks `idle` instead of the kernel.

    While the loop is `busy`, with callbacks of its own to run, it is not kept from them by a look at its sockets.
    `before_poll` is told how many turns the loop has made since the last one.

    epoll tells ready descriptors in the order in which they became ready, which depends on when the kernel happened to
    run its softirqs. The order of registration depends on nothing but the program.
    """

    def __init__(self) -> None:
        super().__init__()
        self.before_poll: Callable[[int], None] = lambda turns: None
        self.busy: Callable[[], bool] = lambda: False
        self.idle: Callable[[], Ready] = list
        self._turns = 0
        self._registered = 0
        self._order: dict[int, int] = {}
        self._interest: dict[int, int] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """See selectors.BaseSelector."""
        key = super().register(fileobj, events, data)
        self._registered += 1
        self._order[key.fd] = self._registered
        self._interest[key.fd] = events
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """See selectors.BaseSelector."""
        key = super().modify(fileobj, events, data)
        self._interest[key.fd] = events
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """See selectors.BaseSelector."""
        key = super().unregister(fileobj)
        del self._interest[key.fd]
        return key

    def select(self, timeout: float | None = None) -> Ready:
        """See selectors.BaseSelector; `timeout` only says whether the loop would wait."""
        self._turns += 1
        if self._turns < BUSY and self.busy():
            return []
        turns, self._turns = self._turns, 0
        self.before_poll(turns)
        ready = self.poll(0)
        return ready if ready or (timeout is not None and timeout <= 0) else self.idle()

    def poll(self, timeout: float | None) -> Ready:
        """Ask the kernel, waiting up to `timeout` real seconds (None: for ever)."""
        ready = super().select(timeout)
        return sorted(ready, key=lambda event: self._order[event[0].fd]) if len(ready) > 1 else ready

    def interest(self, descriptor: int) -> int:
        """Return the events that a descriptor is registered for; 0 when it is not."""
        return self._interest.get(descriptor, 0)
