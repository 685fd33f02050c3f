"""A selector that tells events in the order in which sockets were registered."""

import select
from collections.abc import Mapping
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, SelectorKey
from typing import Any

Ready = list[tuple[SelectorKey, int]]

_TOLD_AT_ONCE = 4096
"""Events that one look brings at most; the rest comes with the next."""


class OrderedSelector(BaseSelector):
    """epoll tells ready descriptors in the order in which they became ready, which depends on when the kernel happened to
    run its softirqs. The order of registration depends on nothing but the program.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._registered = 0
        self._order: dict[int, int] = {}
        self._keys: dict[int, SelectorKey] = {}
        self._later: dict[int, None] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """See selectors.BaseSelector."""
        descriptor = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if descriptor in self._keys:
            raise KeyError(f"{fileobj!r} is registered already")
        self._epoll.register(descriptor, _mask(events))
        return self._know(SelectorKey(fileobj, descriptor, events, data))

    def register_later(self, descriptor: int, events: int, data: Any) -> None:
        """Register a descriptor that is not registered; the kernel hears of it when it is asked for the first time."""
        self._later[descriptor] = None
        self._know(SelectorKey(descriptor, descriptor, events, data))

    def _know(self, key: SelectorKey) -> SelectorKey:
        self._registered += 1
        self._order[key.fd] = self._registered
        self._keys[key.fd] = key
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """See selectors.BaseSelector."""
        before = self.get_key(fileobj)
        if events != before.events and before.fd not in self._later:
            self._epoll.modify(before.fd, _mask(events))
        key = self._keys[before.fd] = SelectorKey(fileobj, before.fd, events, data)
        return key

    def unregister(self, fileobj: Any) -> SelectorKey:
        """See selectors.BaseSelector; the descriptor has to be open still."""
        key = self.get_key(fileobj)
        del self._keys[key.fd], self._order[key.fd]
        if key.fd in self._later:
            del self._later[key.fd]
        else:
            self._epoll.unregister(key.fd)
        return key

    def get_key(self, fileobj: Any) -> SelectorKey:
        """See selectors.BaseSelector."""
        return self._keys[fileobj if isinstance(fileobj, int) else fileobj.fileno()]

    def get_map(self) -> Mapping[Any, SelectorKey]:
        """Return the keys by descriptor."""
        return self._keys

    def close(self) -> None:
        """See selectors.BaseSelector."""
        self._epoll.close()
        self._keys.clear()
        self._order.clear()
        self._later.clear()

    def select(self, timeout: float | None = None) -> Ready:
        """See selectors.BaseSelector."""
        return self.poll(timeout)

    def poll(self, timeout: float | None) -> Ready:
        """Ask the kernel, waiting up to `timeout` real seconds (None: for ever)."""
        for descriptor in self._later:
            self._epoll.register(descriptor, _mask(self._keys[descriptor].events))
        self._later.clear()
        told = self._epoll.poll(timeout, _TOLD_AT_ONCE)
        if len(told) > 1:
            told.sort(key=self._place)
        ready = []
        for descriptor, mask in told:
            key = self._keys[descriptor]
            ready.append((key, (EVENT_READ if mask == select.EPOLLIN else _meaning(mask)) & key.events))
        return ready

    def in_order(self, keys: list[SelectorKey]) -> Ready:
        """Return registered sockets as readable, without asking the kernel."""
        keys.sort(key=self._order_of)
        return [(key, EVENT_READ) for key in keys]

    def _order_of(self, key: SelectorKey) -> int:
        return self._order[key.fd]

    def _place(self, told: tuple[int, int]) -> int:
        return self._order[told[0]]


def _mask(events: int) -> int:
    return (select.EPOLLIN if events & EVENT_READ else 0) | (select.EPOLLOUT if events & EVENT_WRITE else 0)


def _meaning(mask: int) -> int:
    """Return what an event means: an error or a hang-up is for whoever reads and for whoever writes."""
    return (EVENT_READ if mask & ~select.EPOLLOUT else 0) | (EVENT_WRITE if mask & ~select.EPOLLIN else 0)
