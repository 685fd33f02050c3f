"""Arms and heals faults and partitions, freezes parties, and applies all of it to the sessions of the links.

A *relay* is one session over a link, a *lane* one of its two directions. A *unit* is what is forwarded as a whole: a command
line, a reply, a part of a content or its end. A *point* is a place in the protocol such as `before DATA`. A *moment* is a
point at which a function is called, such as one that kills a server.

Theory of operation
-------------------

Relays ask the injector at three points: for a new connection (`admit`), for each unit before it is forwarded
(`intercept`), and for each unit whose octets were written (`after_write`). At each, the faults in force are tried in
the order in which they were armed; each that acts at this point counts an occurrence, and the first that is due fires.
Others that are due fire at their next occurrence, unless the first is due then too.

What stops a session does so by named holds: a lane with a hold forwards nothing, a relay with a hold on dialling does not
connect to the server. Each fault, partition, frozen party and moment has a hold reason of its own, so several can hold one
session, and healing one (`_release_everywhere`) leaves the holds of the others.

A fault at an offset of the content (`at: body`) needs the content split there: `_intercept_content` forwards the
octets before the nearest offset and requeues the rest. Each fault counts each content once, however often its octets
are examined. `Relay.content_position` counts the session's contents, and the octets of the present one that came before.

A moment runs a coroutine in a task. One with `arrived` acts before the unit is forwarded, and holds its lane until the task
has ended; other moments act after the unit was written. An exception of such a task is kept, and raised by `close`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from conformance.faults import FAULTS
from conformance.history.events import FaultArmed, FaultFired
from conformance.history.recorder import Recorder
from conformance.scenarios.steps.breaking import Fault, Partition
from conformance.scenarios.steps.nodes import Moment
from conformance.wire.fault_plan import (
    ActivePartition,
    ArmedFault,
    AwaitedMoment,
    check_fault,
    points_on_arrival,
    points_when_forwarded,
)
from conformance.wire.faults import FaultContext, apply, apply_after, apply_to_connection, describe_unit
from conformance.wire.interfaces import Pair
from conformance.wire.lane import Lane
from conformance.wire.link import Link
from conformance.wire.relay import Relay
from conformance.wire.units import ContentEnd, ContentPart, Unit


class FaultInjector:
    """All faults, partitions, frozen parties and moments of a cell's links.

    `duration` converts documented seconds (the scenario's) to seconds of the event loop; `links` returns the links that are
    open. `_faults` and `_partitions` are those in force, by name; `_frozen` has names of parties; `_moments` are those that
    have not come yet. `_tasks` are those of moments, `_failures` their exceptions.
    """

    def __init__(
        self, recorder: Recorder, duration: Callable[[float], float], links: Callable[[], Iterable[Link]]
    ) -> None:
        self._recorder = recorder
        self._duration = duration
        self._links = links
        self._faults: dict[str, ArmedFault] = {}
        self._partitions: dict[str, ActivePartition] = {}
        self._frozen: set[str] = set()
        self._moments: list[AwaitedMoment] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []

    # called for the steps of a scenario

    def arm(self, fault: Fault, session: str | None = None) -> None:
        """Arm a fault, on one session or (None) on all, after healing the fault or partition of the same name.

        Raises ValueError, and changes nothing, if the fault makes no sense or matches no open link.
        """
        check_fault(fault)
        pairs = self._matching_pairs(lambda pair: _concerns(fault, pair), f"fault {fault.name}")
        armed = ArmedFault(fault, pairs, session)
        self._heal_one(fault.name)
        self._faults[fault.name] = armed
        self._record_armed(fault.name, fault.does, armed.pairs, healed=False)

    def partition(self, partition: Partition) -> None:
        """Put a partition in force, also for open sessions, after healing the fault or partition of the same name.

        It is between two groups of parties; with `one_way` only links from the first to the second cross it.
        Raises ValueError if no link crosses it.
        """
        near, far = (frozenset(group) for group in partition.between)
        pairs = self._matching_pairs(
            lambda pair: (
                (pair.client in near and pair.server in far)
                or (not partition.one_way and pair.client in far and pair.server in near)
            ),
            f"partition {partition.name}",
        )
        self._heal_one(partition.name)
        active = ActivePartition(partition.name, partition.how, pairs)
        self._partitions[active.name] = active
        self._record_armed(active.name, active.action, pairs, healed=False)
        for link in self._links():
            if link.pair in pairs:
                for relay in tuple(link.relays):
                    self._interrupt(active, link, relay)

    def heal(self, name: str) -> None:
        """Heal the fault or partition of this name, or with `all` every one, if any. Raises ValueError if none has the name."""
        names = [*self._faults, *self._partitions] if name == "all" else [name]
        for each in names:
            if not self._heal_one(each):
                raise ValueError(f"no fault or partition {each!r} is in force")

    def freeze(self, party: str, *, frozen: bool) -> None:
        """Hold every session from or to a party, open or new (`frozen` True), or release those holds (False).

        An attempt to dial the server that has begun goes on; what the session then carries is held.
        """
        reason = f"frozen {party}"
        if frozen:
            self._frozen.add(party)
            for link in self._links():
                if party in (link.pair.client, link.pair.server):
                    for relay in link.relays:
                        _hold_open(relay, reason)
        else:
            self._frozen.discard(party)
            self._release_everywhere(reason)

    def run_at_moment(self, moment: Moment, do: Callable[[], Awaitable[None]], name: str) -> None:
        """Have `do` called once, in a task, when the moment comes; `name` is its name in the history."""
        self._moments.append(AwaitedMoment(moment, do, name))

    async def close(self) -> None:
        """Disarm everything without undoing it; cancel the tasks of moments and wait for their end.

        Raises the first exception that such a task has raised.
        """
        for armed in self._faults.values():
            armed.cancel_timers()
        self._faults.clear()
        self._partitions.clear()
        self._moments.clear()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        failures, self._failures = self._failures, []
        if failures:
            raise failures[0]

    # called by links and relays (conformance.wire.interfaces.Interceptor)

    def may_act_on(self, pair: Pair) -> bool:
        """Whether a fault that is not spent, or a moment, may concern the link. Partitions and frozen parties do not count."""
        if not self._faults and not self._moments:  # the usual case, tested first since this is called for every read
            return False
        return any(pair in armed.pairs and not armed.spent for armed in self._faults.values()) or any(
            awaited.concerns(pair) for awaited in self._moments
        )

    def admit(self, link: Link, relay: Relay) -> None:
        """Apply partitions, frozen parties and the first due fault at `connect` to a client's new connection.

        A partition that refuses ends the connection, and nothing after it is applied.
        """
        for partition in self._partitions.values():
            if link.pair in partition.pairs:
                self._record_fired(partition.name, partition.action, relay, "at connect")
                if partition.how == "refuse":
                    link.refuse(relay, partition.hold_reason)
                    return
                _hold_lanes(relay, partition.hold_reason)
                relay.dial_holds.add(partition.hold_reason)
        for party in (link.pair.client, link.pair.server):
            if party in self._frozen:
                _hold_lanes(relay, f"frozen {party}")
                relay.dial_holds.add(f"frozen {party}")
        acting = (
            armed
            for armed in self._faults.values()
            if armed.fault.at == "connect" and armed.concerns(link.pair, relay.name)
        )
        if (due := _first_due(acting)) is not None:
            apply_to_connection(self._context(due, relay, relay.to_server), link)

    def intercept(self, relay: Relay, lane: Lane, unit: Unit, skip: int) -> Unit | None:
        """Return the unit to forward; None if a moment or a fault holds, answers or drops it.

        Every armed fault whose point this is counts an occurrence. `skip` is the number of octets at the unit's start that the
        lane has written already. A unit that a moment holds is requeued with `examined=False`: it comes here again.
        """
        for awaited in tuple(self._moments):
            if awaited.moment.arrived and awaited.count_unit(relay.pair, unit):
                self._moments.remove(awaited)
                lane.requeue(unit, skip, examined=False)
                self._record_fired(awaited.name, "moment", relay, describe_unit(unit))
                self._start_action(awaited, lane)
                return None
        if isinstance(unit, ContentPart):
            return self._intercept_content(relay, lane, unit, skip)
        due = _first_due(armed for armed in self._faults.values() if self._acts_at(armed, relay, unit, skip))
        return unit if due is None else apply(self._context(due, relay, lane), unit, skip)

    def after_write(self, relay: Relay, lane: Lane, unit: Unit) -> None:
        """Apply the first due fault that acts after the unit was forwarded, and start the moments that come with it."""
        points = points_when_forwarded(unit)
        acting = (
            armed for armed in self._faults.values() if armed.concerns(relay.pair, relay.name) and armed.point in points
        )
        if (due := _first_due(acting)) is not None:
            apply_after(self._context(due, relay, lane), unit)
        for awaited in tuple(self._moments):
            if not awaited.moment.arrived and awaited.count_unit(relay.pair, unit):
                self._moments.remove(awaited)
                self._record_fired(awaited.name, "moment", relay, describe_unit(unit))
                self._start_action(awaited, None)

    def _acts_at(self, armed: ArmedFault, relay: Relay, unit: Unit, skip: int) -> bool:
        """Return whether a fault acts at a unit that arrives, of which `skip` octets were written before.

        A fault at an octet of the body acts here only if the content ends at that offset. `note_reached` returns True
        only at its first call for a content, so the fault does not act there twice. A command or reply of which octets have
        passed cannot be answered or replaced: the other party would take what comes instead for the rest of that line.
        """
        if not armed.concerns(relay.pair, relay.name):
            return False
        if armed.fault.at == "body":
            count, octets = relay.content_position
            at_end = isinstance(unit, ContentEnd) and armed.offset == octets
            return at_end and armed.note_reached((relay.name, count))
        # of the final dot octets may have passed: without the rest of it the server has no end of the content
        if skip and FAULTS[armed.fault.does].required_field == "reply" and not isinstance(unit, ContentEnd):
            return False
        return armed.point in points_on_arrival(unit)

    def _intercept_content(self, relay: Relay, lane: Lane, part: ContentPart, skip: int) -> Unit | None:
        """Apply the fault whose offset is at the part's start; else return the octets before the nearest offset.

        A part with no fault's offset in it is returned whole. What follows the returned octets is requeued, to be examined
        again; so is a whole part at whose start faults have their offset and none is due, and None is returned. None means
        that nothing is to be forwarded now. Each fault counts one occurrence in a content, which is identified by the
        session's name and its number in the session.
        """
        count, start = relay.content_position
        content = (relay.name, count + (start == 0))  # the relay counts a content with its first part
        near = [
            armed
            for armed in self._faults.values()
            if armed.fault.at == "body"
            and armed.concerns(relay.pair, relay.name)
            and start <= armed.offset < start + len(part.raw)
            and not armed.has_reached(content)
        ]
        if not near:
            return part
        at = min(armed.offset for armed in near) - start
        if at > 0:
            lane.requeue(ContentPart(part.raw[at:], part.stuffed), max(0, skip - at), examined=False)
            return ContentPart(part.raw[:at], part.stuffed)
        due = _first_due(armed for armed in near if armed.offset == start and armed.note_reached(content))
        if due is not None:
            later = [armed.offset - start for armed in near if armed.offset > start]
            if later:  # what this fault lets pass must not carry the octets behind the next offset with it
                at = min(later)
                lane.requeue(ContentPart(part.raw[at:], part.stuffed), max(0, skip - at), examined=False)
                part, skip = ContentPart(part.raw[:at], part.stuffed), min(skip, at)
            return apply(self._context(due, relay, lane), part, skip)
        lane.requeue(part, skip, examined=False)
        return None

    # helpers

    def _matching_pairs(self, matches: Callable[[Pair], bool], subject: str) -> frozenset[Pair]:
        """Return the pairs of the open links that match. Raises ValueError, whose text begins with `subject`, if none does."""
        pairs = frozenset(link.pair for link in self._links() if matches(link.pair))
        if not pairs:
            raise ValueError(f"{subject} concerns no link: none of those parties dials another of them")
        return pairs

    def _interrupt(self, partition: ActivePartition, link: Link, relay: Relay) -> None:
        """Apply a new partition to a session that is open already: `blackhole` holds it, `refuse` resets it.

        A client whose server is not reached yet is refused instead.
        """
        self._record_fired(partition.name, partition.action, relay, "cut while open")
        if partition.how == "blackhole":
            _hold_open(relay, partition.hold_reason)
        elif relay.name:
            relay.close_with_rst(by="link")
        else:  # the server is not reached yet: the client's attempt to connect fails
            link.refuse(relay, partition.hold_reason)

    def _heal_one(self, name: str) -> bool:
        """Heal the fault and the partition of this name, record that, and release their holds; return whether there was one."""
        armed, partition = self._faults.pop(name, None), self._partitions.pop(name, None)
        if armed is not None:
            self._record_armed(name, armed.fault.does, armed.pairs, healed=True)
            armed.heal()
            self._release_everywhere(armed.hold_reason)
        if partition is not None:
            self._record_armed(name, partition.action, partition.pairs, healed=True)
            self._release_everywhere(partition.hold_reason)
        return armed is not None or partition is not None

    def _release_everywhere(self, reason: str) -> None:
        """Release the holds of a reason in every session, on its lanes and on dialling; what they kept back then proceeds."""
        for link in self._links():
            for relay in tuple(link.relays):
                for lane in (relay.to_server, relay.to_client):
                    lane.release(reason)
                    lane.flush_partial_line()
                link.allow_dialling(relay, reason)

    def _context(self, armed: ArmedFault, relay: Relay, lane: Lane) -> FaultContext:
        """Return what the handlers of a fault get when it fires in a lane of a session."""

        def record(detail: str) -> None:
            """Record the event `fault-fired` of this fault in this session, with a detail."""
            self._record_fired(armed.fault.name, armed.fault.does, relay, detail)

        return FaultContext(armed, relay, lane, record, self._duration)

    def _start_action(self, awaited: AwaitedMoment, held: Lane | None) -> None:
        """Call a moment's function in a task; the lane `held`, if any, is held until the task has ended."""

        async def run() -> None:
            """Call the function, keep an exception of it for `close`, and release the lane in any case."""
            try:
                await awaited.do()
            except Exception as error:  # noqa: BLE001  # raised by close(), when the cell ends
                self._failures.append(error)
            finally:
                if held is not None:
                    held.release(awaited.hold_reason)

        if held is not None:
            held.hold(awaited.hold_reason)
        coroutine: Coroutine[Any, Any, None] = run()
        task = asyncio.get_running_loop().create_task(coroutine, name=f"at {awaited.moment.after}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _record_fired(self, name: str, action: str, relay: Relay, detail: str) -> None:
        """Record that a fault, partition or moment acts on a session; one whose server is not reached has no name."""
        self._recorder.record(
            FaultFired,
            fault=name,
            action=action,
            session=relay.name or None,
            client=relay.pair.client,
            server=relay.pair.server,
            detail=detail,
        )

    def _record_armed(self, name: str, action: str, pairs: frozenset[Pair], *, healed: bool) -> None:
        """Record that a fault or partition was armed or (`healed`) healed."""
        links = tuple(sorted(str(pair) for pair in pairs))
        self._recorder.record(FaultArmed, fault=name, action=action, links=links, healed=healed)


def _first_due(acting: Iterable[ArmedFault]) -> ArmedFault | None:
    """Count an occurrence of each fault; return the first that is due, and count that it fires; None if none is due.

    `acting` must have every fault that acts at this point, in the order in which they were armed.
    """
    due = [armed for armed in acting if armed.count_occurrence()]
    if not due:
        return None
    due[0].fired += 1
    return due[0]


def _concerns(fault: Fault, pair: Pair) -> bool:
    """Whether a fault's `from`, `to` and `listener` match a link; `*` matches any party, no listener any listener."""
    return (
        fault.sender in ("*", pair.client)
        and fault.to in ("*", pair.server)
        and fault.listener in (None, pair.listener)
    )


def _hold_lanes(relay: Relay, reason: str) -> None:
    """Hold both directions of a session until the reason is released."""
    relay.to_server.hold(reason)
    relay.to_client.hold(reason)


def _hold_open(relay: Relay, reason: str) -> None:
    """Hold a session that was admitted before, until the reason is released: also dialling, if something else holds it."""
    _hold_lanes(relay, reason)
    if relay.dial_holds:
        relay.dial_holds.add(reason)
