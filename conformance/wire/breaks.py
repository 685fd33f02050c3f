"""What breaks links: the faults and partitions that are in force, frozen parties, and moments that are waited for."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from conformance.history.events import FaultArmed, FaultFired
from conformance.history.recorder import Recorder
from conformance.scenarios.steps.breaking import Fault, Partition
from conformance.scenarios.steps.nodes import Moment
from conformance.wire.fault_plan import Armed, Watch, check_fault, passed_points, points
from conformance.wire.faults import FaultContext, apply, apply_after, apply_to_connection, describe_unit
from conformance.wire.lane import Lane
from conformance.wire.link import Link
from conformance.wire.relay import Relay
from conformance.wire.roles import Cut, Pair
from conformance.wire.units import ContentEnd, ContentPart, Unit


class Breaks:
    """Everything in force, in the order in which it was armed; the first that is due strikes."""

    def __init__(
        self, recorder: Recorder, duration: Callable[[float], float], links: Callable[[], Iterable[Link]]
    ) -> None:
        self._recorder = recorder
        self._duration = duration
        self._links = links
        self._faults: dict[str, Armed] = {}
        self._cuts: dict[str, Cut] = {}
        self._frozen: set[str] = set()
        self._watches: list[Watch] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []

    # what a scenario asks for

    def arm(self, fault: Fault) -> None:
        """Arm a fault; one of the same name is healed first. Raises ValueError."""
        check_fault(fault)
        armed = Armed(fault, self._chosen(lambda pair: _concerns(fault, pair), f"fault {fault.name}"))
        self._heal_one(fault.name)
        self._faults[fault.name] = armed
        self._note(fault.name, fault.does, armed.pairs, healed=False)

    def partition(self, partition: Partition) -> None:
        """Put a partition in force at once. Raises ValueError."""
        near, far = (frozenset(group) for group in partition.between)
        pairs = self._chosen(
            lambda pair: (
                (pair.client in near and pair.server in far)
                or (not partition.one_way and pair.client in far and pair.server in near)
            ),
            f"partition {partition.name}",
        )
        self._heal_one(partition.name)
        cut = Cut(partition.name, partition.how, pairs)
        self._cuts[cut.name] = cut
        self._note(cut.name, cut.action, pairs, healed=False)
        for link in self._links():
            if link.pair in pairs:
                for relay in tuple(link.relays):
                    self._cut_open(cut, link, relay)

    def heal(self, what: str) -> None:
        """Take one away by name, or `all`. Raises ValueError."""
        names = [*self._faults, *self._cuts] if what == "all" else [what]
        for name in names:
            if not self._heal_one(name):
                raise ValueError(f"no fault or partition {name!r} is in force")

    def freeze(self, party: str, *, frozen: bool) -> None:
        """Hold every session from or to a party, or let them go on."""
        reason = f"frozen {party}"
        if frozen:
            self._frozen.add(party)
            for link in self._links():
                if party in (link.pair.client, link.pair.server):
                    for relay in link.relays:
                        _hold(relay, reason)
        else:
            self._frozen.discard(party)
            self._let_go(reason)

    def run_at_moment(self, moment: Moment, do: Callable[[], Awaitable[None]], name: str) -> None:
        """Wait for a moment."""
        self._watches.append(Watch(moment, do, name))

    async def close(self) -> None:
        """Forget everything; whatever is still being done at a moment is cancelled. Raises its first failure."""
        for armed in self._faults.values():
            armed.cancel_timers()
        self._faults.clear()
        self._cuts.clear()
        self._watches.clear()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        failures, self._failures = self._failures, []
        if failures:
            raise failures[0]

    # what links ask (conformance.wire.link.Gatekeeper)

    def watches(self, pair: Pair) -> bool:
        """Whether a fault or moment may concern a link."""
        if not self._faults and not self._watches:  # asked with every read: this is the usual case
            return False
        return any(pair in armed.pairs and not armed.spent for armed in self._faults.values()) or any(
            watch.concerns(pair) for watch in self._watches
        )

    def admit(self, link: Link, relay: Relay) -> None:
        """See Gatekeeper.admit."""
        for cut in self._cuts.values():
            if link.pair in cut.pairs:
                self._fire(cut.name, cut.action, relay, "at connect")
                if cut.how == "refuse":
                    link.refuse(relay, cut.reason)
                    return
                _hold(relay, cut.reason)
                relay.barred.add(cut.reason)
        for party in (link.pair.client, link.pair.server):
            if party in self._frozen:
                _hold(relay, f"frozen {party}")
                relay.barred.add(f"frozen {party}")
        for armed in self._faults.values():
            if armed.fault.at == "connect" and link.pair in armed.pairs and armed.occurs():
                apply_to_connection(self._context_of(armed, relay, relay.up), link, self._let_go)
                return

    def examine(self, relay: Relay, lane: Lane, unit: Unit, skip: int) -> Unit | None:
        """See Breaker.examine."""
        for watch in tuple(self._watches):
            if watch.moment.arrived and watch.sees(relay.pair, unit):
                self._watches.remove(watch)
                lane.put_back(unit, skip, examined=False)
                self._fire(watch.name, "moment", relay, describe_unit(unit))
                self._do(watch, lane)
                return None
        if isinstance(unit, ContentPart):
            return self._examine_body(relay, lane, unit, skip)
        due = [armed for armed in self._faults.values() if self._meets(armed, relay, unit) and armed.occurs()]
        return apply(self._context_of(due[0], relay, lane), unit, skip) if due else unit

    def passed(self, relay: Relay, lane: Lane, unit: Unit) -> None:
        """See Breaker.passed."""
        names = passed_points(unit)
        for armed in self._faults.values():
            if relay.pair in armed.pairs and armed.point in names and armed.occurs():
                apply_after(self._context_of(armed, relay, lane), unit)
                break
        for watch in tuple(self._watches):
            if not watch.moment.arrived and watch.sees(relay.pair, unit):
                self._watches.remove(watch)
                self._fire(watch.name, "moment", relay, describe_unit(unit))
                self._do(watch, None)

    def _meets(self, armed: Armed, relay: Relay, unit: Unit) -> bool:
        if relay.pair not in armed.pairs:
            return False
        if armed.fault.at == "body":
            at_end = isinstance(unit, ContentEnd) and armed.offset == relay.content_passed
            return at_end and armed.first_in((relay.name, relay.contents))
        return armed.point in points(unit)

    def _examine_body(self, relay: Relay, lane: Lane, unit: ContentPart, skip: int) -> Unit | None:
        """Let the octets before the nearest fault pass, and strike there."""
        start = relay.content_passed
        near = [
            armed
            for armed in self._faults.values()
            if armed.fault.at == "body"
            and relay.pair in armed.pairs
            and start <= armed.offset < start + len(unit.raw)
            and not armed.was_in((relay.name, relay.contents + (start == 0)))
        ]
        if not near:
            return unit
        at = min(armed.offset for armed in near) - start
        if at > 0:
            lane.put_back(ContentPart(unit.raw[at:], unit.stuffed), max(0, skip - at), examined=False)
            return ContentPart(unit.raw[:at], unit.stuffed)
        content = (relay.name, relay.contents + (start == 0))
        due = [armed for armed in near if armed.offset == start and armed.first_in(content) and armed.occurs()]
        if due:
            return apply(self._context_of(due[0], relay, lane), unit, skip)
        lane.put_back(unit, skip, examined=False)
        return None

    # how it is done

    def _chosen(self, wanted: Callable[[Pair], bool], what: str) -> frozenset[Pair]:
        pairs = frozenset(link.pair for link in self._links() if wanted(link.pair))
        if not pairs:
            raise ValueError(f"{what} concerns no link: nobody of those parties dials another")
        return pairs

    def _cut_open(self, cut: Cut, link: Link, relay: Relay) -> None:
        """Put a partition in force for a session that was there before it."""
        self._fire(cut.name, cut.action, relay, "cut while open")
        if cut.how == "blackhole":
            _hold(relay, cut.reason)
        elif relay.name:
            relay.reset("link")
        else:
            link.refuse(relay, cut.reason)

    def _heal_one(self, name: str) -> bool:
        armed, cut = self._faults.pop(name, None), self._cuts.pop(name, None)
        if armed is not None:
            self._note(name, armed.fault.does, armed.pairs, healed=True)
            armed.heal()
            self._let_go(armed.reason)
        if cut is not None:
            self._note(name, cut.action, cut.pairs, healed=True)
            self._let_go(cut.reason)
        return armed is not None or cut is not None

    def _let_go(self, reason: str) -> None:
        """Let go what was held for a reason, wherever it was."""
        for link in self._links():
            for relay in tuple(link.relays):
                for lane in (relay.up, relay.down):
                    lane.release(reason)
                    lane.relax()
                link.unbar(relay, reason)

    def _context_of(self, armed: Armed, relay: Relay, lane: Lane) -> FaultContext:
        def fired(detail: str) -> None:
            self._fire(armed.fault.name, armed.fault.does, relay, detail)

        return FaultContext(armed, relay, lane, fired, self._duration)

    def _do(self, watch: Watch, held: Lane | None) -> None:
        """Begin what is to be done at a moment; a lane is held until it is done."""

        async def do() -> None:
            try:
                await watch.do()
            except Exception as error:  # noqa: BLE001  # raised by close(), when the cell ends
                self._failures.append(error)
            finally:
                if held is not None:
                    held.release(watch.reason)

        if held is not None:
            held.hold(watch.reason)
        coroutine: Coroutine[Any, Any, None] = do()
        task = asyncio.get_running_loop().create_task(coroutine, name=f"at {watch.moment.after}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _fire(self, name: str, action: str, relay: Relay, detail: str) -> None:
        self._recorder.record(
            FaultFired,
            fault=name,
            action=action,
            session=relay.name or None,
            client=relay.pair.client,
            server=relay.pair.server,
            detail=detail,
        )

    def _note(self, name: str, action: str, pairs: frozenset[Pair], *, healed: bool) -> None:
        links = tuple(sorted(str(pair) for pair in pairs))
        self._recorder.record(FaultArmed, fault=name, action=action, links=links, healed=healed)


def _concerns(fault: Fault, pair: Pair) -> bool:
    return (
        fault.sender in ("*", pair.client)
        and fault.to in ("*", pair.server)
        and fault.listener in (None, pair.listener)
    )


def _hold(relay: Relay, reason: str) -> None:
    relay.up.hold(reason)
    relay.down.hold(reason)
