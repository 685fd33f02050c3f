"""A selector that reports events in the order in which sockets were registered, or in a shuffled one.

The event loops of the virtual and of the shifted clock poll it. A *key* is what selectors keep of a registered socket: the
object, its descriptor, the events that are waited for, and the loop's data. The *place* of a key (`_order`) says where its
socket comes among those that one poll reports. A registration is *deferred* until the next poll passes it to epoll.
"""

import select
from collections.abc import Mapping
from random import Random
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, SelectorKey
from typing import Any

Ready = list[tuple[SelectorKey, int]]
"""Sockets that are ready, each with its events (EVENT_READ | EVENT_WRITE)."""

_MAX_EVENTS = 4096
"""Events of one poll; more are reported by the next one."""


class OrderedSelector(BaseSelector):
    """epoll, whose events are sorted by the order of registration, which depends on the program alone.

    epoll itself reports descriptors in the order in which they became ready, which depends on when the kernel ran its
    softirqs. `_deferred` are descriptors that the next poll gives to epoll. `_order` is the place of each descriptor; with
    `_shuffle` places are drawn at random.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._registrations = 0
        self._order: dict[int, tuple[int, int]] = {}
        self._shuffle: Random | None = None
        self._keys: dict[int, SelectorKey] = {}
        self._deferred: dict[int, None] = {}

    def shuffle(self, seed: int) -> None:
        """Give sockets that are registered from now on random places, drawn from a seed, instead of the order of registration.

        A socket keeps its place while it is registered: how often the kernel is asked changes nothing.
        """
        self._shuffle = Random(seed)  # noqa: S311  # it draws an order and protects no secret

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """Wait for events (EVENT_READ | EVENT_WRITE) of a socket or descriptor from now on; return its new key, with `data`.

        Raises KeyError when it is registered already.
        """
        descriptor = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if descriptor in self._keys:
            raise KeyError(f"{fileobj!r} is registered already")
        self._epoll.register(descriptor, _epoll_mask(events))
        return self._add(SelectorKey(fileobj, descriptor, events, data))

    def register_later(self, descriptor: int, events: int, data: Any) -> None:
        """Register a descriptor, with the system call deferred until the next poll; it must not be registered, which is not checked."""
        self._deferred[descriptor] = None
        self._add(SelectorKey(descriptor, descriptor, events, data))

    def _add(self, key: SelectorKey) -> SelectorKey:
        """Add a key, with the next place in the order of registration, or after `shuffle` one at random; return the key."""
        self._registrations += 1
        drawn = self._shuffle.getrandbits(32) if self._shuffle is not None else 0
        self._order[key.fd] = (drawn, self._registrations)
        self._keys[key.fd] = key
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """Replace the events and the data of a registered socket; return its new key. Raises KeyError when it is not registered."""
        before = self.get_key(fileobj)
        if events != before.events and before.fd not in self._deferred:
            self._epoll.modify(before.fd, _epoll_mask(events))
        key = self._keys[before.fd] = SelectorKey(fileobj, before.fd, events, data)
        return key

    def unregister(self, fileobj: Any) -> SelectorKey:
        """Remove a socket, which must not be closed yet, and return its key. Raises KeyError when it is not registered."""
        key = self.get_key(fileobj)
        del self._keys[key.fd], self._order[key.fd]
        if key.fd in self._deferred:
            del self._deferred[key.fd]
        else:
            self._epoll.unregister(key.fd)
        return key

    def get_key(self, fileobj: Any) -> SelectorKey:
        """Return the key of a socket or descriptor. Raises KeyError when it is not registered."""
        return self._keys[fileobj if isinstance(fileobj, int) else fileobj.fileno()]

    def get_map(self) -> Mapping[Any, SelectorKey]:
        """Return the keys by descriptor; the mapping follows later changes."""
        return self._keys

    def close(self) -> None:
        """Close the epoll descriptor and forget all sockets."""
        self._epoll.close()
        self._keys.clear()
        self._order.clear()
        self._deferred.clear()

    def select(self, timeout: float | None = None) -> Ready:
        """Return what `poll` does, under the name that asyncio calls."""
        return self.poll(timeout)

    def poll(self, timeout: float | None) -> Ready:
        """Return the sockets that are ready, sorted by place; block up to `timeout` real seconds until one is (None: no limit).

        Return [] after the timeout. 0 does not block.
        """
        for descriptor in self._deferred:
            self._epoll.register(descriptor, _epoll_mask(self._keys[descriptor].events))
        self._deferred.clear()
        events = self._epoll.poll(timeout, _MAX_EVENTS)
        if len(events) > 1:
            events.sort(key=lambda event: self._order[event[0]])
        ready = []
        for descriptor, mask in events:
            key = self._keys[descriptor]
            ready.append((key, (EVENT_READ if mask == select.EPOLLIN else _events_of(mask)) & key.events))
        return ready

    def as_readable(self, keys: list[SelectorKey]) -> Ready:
        """Return registered sockets as if a poll had found them readable, in the order of their places; sorts `keys` itself."""
        keys.sort(key=lambda key: self._order[key.fd])
        return [(key, EVENT_READ) for key in keys]


def _epoll_mask(events: int) -> int:
    """Return the epoll mask of selector events."""
    return (select.EPOLLIN if events & EVENT_READ else 0) | (select.EPOLLOUT if events & EVENT_WRITE else 0)


def _events_of(mask: int) -> int:
    """Return the selector events of an epoll mask; an error or a hang-up counts as both readable and writable."""
    return (EVENT_READ if mask & ~select.EPOLLOUT else 0) | (EVENT_WRITE if mask & ~select.EPOLLIN else 0)
