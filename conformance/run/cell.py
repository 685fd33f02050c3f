"""One cell from start to history: build the world, play the steps, heal, drain, take everything down. At the end the
secrets of the cell are taken out of the files that its nodes have left.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance.candidates.assignment import Assignment
from conformance.history.events import AnyEvent
from conformance.history.recorder import Recorder
from conformance.history.secrets import Secrets
from conformance.nodes.contract import NodeError, WrongNodeState
from conformance.nodes.disks.layer import UnobservedDisk
from conformance.nodes.kinds import node_class
from conformance.nodes.node_directory import DATA
from conformance.run.cell_loop import CellLoop, Leftovers
from conformance.run.clocks.interface import Clock
from conformance.run.deadline import CellTimeout, LoopBlocked, awaited, cell_timeout, real_deadline
from conformance.run.drain import drain
from conformance.run.settings import Settings
from conformance.run.shifted.shim_library import CannotShift, UnshiftedWait
from conformance.run.step_runner import Holds, Script
from conformance.run.steps import HANDLERS
from conformance.run.virtual.errors import ClockError
from conformance.run.world import World
from conformance.scenarios.document import Cell
from conformance.shortage import shortage_of
from conformance.untrusted.tree import PinnedDirectory, delete_tree, read_at, walk

_OWN_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, BufferError, LookupError, MemoryError, OSError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip
"""What the harness raises where a scenario or a node has brought it to something that it does not know."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What a cell left: its history; `problem` says why it could not be run to its end, for a reader.

    `wrong_state` says which step found a node in another state than the scenario meant it to be in; the cell was drained
    all the same. `timed_out` says what it was waiting for when its real time was used up. `inapplicable` says why the
    clock that was asked for does not reach the candidate, or its disk's layer does not see what it does.
    """

    events: tuple[AnyEvent, ...]
    problem: str
    simulated: float
    logs: dict[str, Path]
    wrong_state: str = ""
    timed_out: str = ""
    inapplicable: str = ""

    @property
    def complete(self) -> bool:
        """Whether the history is whole: the cell came to the end of its drain."""
        return not self.problem and not self.timed_out


def _no_one(event: AnyEvent) -> None:
    pass


@dataclass(frozen=True, slots=True)
class CellRunner:
    """One cell that is to be run: the cell, who plays it, on which clock, and where what it makes is left.

    `directory` takes the nodes' data and logs. `holds` is the judge, asked while the cell waits, whether an expectation
    holds by now. `seen` is called with each event as it happens, and `flush` before any time passes after it.
    """

    cell: Cell
    assignment: Assignment
    settings: Settings
    directory: Path
    holds: Holds
    seen: Callable[[AnyEvent], None] = _no_one
    flush: Callable[[], None] = lambda: None

    async def run(self, cell_loop: CellLoop) -> RecordedRun:
        """Run the cell and return its history.

        What a node or the scenario does wrong is told in `problem`; only KeyboardInterrupt and the like pass through.
        """
        events: list[AnyEvent] = []
        try:
            for candidate in self.assignment.candidates:
                await cell_loop.call(node_class(candidate.kind).prepare, candidate)
            return await cell_loop.run(lambda clock: self._on(clock, Recorder(clock, events)), self.settings)
        except NodeError as error:
            return RecordedRun((), str(error), 0.0, {})
        except (CannotShift, UnshiftedWait) as error:
            return RecordedRun(tuple(events), "", 0.0, {}, inapplicable=f"--clock {self.settings.clock}: {error}")
        except ClockError as error:
            return self._broken_off(events, f"time cannot go on: {error}")
        except LoopBlocked as error:
            _forget_data((server.name for server in self.cell.topology.servers), self.settings, self.directory)
            blocked = f"{_stopped(cell_timeout(self.cell, self.settings))}: this code did not return: {error}"
            return self._broken_off(events, "", timed_out=blocked)
        except Leftovers as error:
            return self._broken_off(events, f"a node did not end: {error}")

    def _broken_off(self, events: list[AnyEvent], problem: str, timed_out: str = "") -> RecordedRun:
        elapsed = events[-1].t if events else 0.0
        return RecordedRun(tuple(events), problem, elapsed, logs(self.cell, self.directory), timed_out=timed_out)

    async def _on(self, clock: Clock, recorder: Recorder) -> RecordedRun:
        """Build the world, play the steps, drain, and take everything down."""
        clock.flush_with(self.flush)
        recorder.subscribe(self.seen)
        recorder.subscribe(lambda event: clock.note_progress())
        world = World(self.cell, self.assignment, self.settings, clock, recorder, self.directory)
        problem = wrong_state = timed_out = inapplicable = ""
        limit = cell_timeout(self.cell, self.settings)
        try:
            async with real_deadline(limit), world:
                wrong_state = await _play(world, self.holds)
                await drain(world)
        except* UnobservedDisk as errors:
            inapplicable = "cannot be run: " + "; ".join(dict.fromkeys(map(str, _leaves(errors))))
        except* CellTimeout:
            timed_out = f"{_stopped(limit)}: waiting for {awaited(recorder.events)}"
        except* WrongNodeState as errors:  # of a step that waited for its moment: the steps and the drain went on
            wrong_state = "; ".join(filter(None, (wrong_state, _told(errors))))
        except* NodeError as errors:
            problem = _told(errors)
        except* _OWN_ERRORS as errors:  # whatever it is, it is told of this cell, and the others go on
            problem = _told(errors)
            if words := shortage_of(errors):
                problem = f"the machine ran out of something: {words}: {problem}"
                world.note_shortage(words)
        await asyncio.to_thread(_forget_data, world.supervisors, self.settings, self.directory)
        await asyncio.to_thread(redact_files, self.directory, recorder.secrets)
        problem = recorder.secrets.redact(problem)
        return RecordedRun(
            tuple(recorder.events), problem, clock.elapsed(), world.logs, wrong_state, timed_out, inapplicable
        )


def logs(cell: Cell, directory: Path) -> dict[str, Path]:
    """Return where the nodes' logs are, of those that have written one."""
    places = {server.name: directory / server.name / "node.log" for server in cell.topology.servers}
    return {name: log for name, log in places.items() if log.exists()}


def _stopped(limit: float) -> str:
    return f"stopped after {limit:g} s of real time (--cell-timeout)"


def _forget_data(servers: Iterable[str], settings: Settings, directory: Path) -> None:
    """Delete the data of servers, unless it is to be kept."""
    for name in servers if settings.keep is None else ():
        delete_tree(directory / name / "data")


async def _play(world: World, holds: Holds) -> str:
    """Play the steps; return why they could not all be taken, or nothing."""
    wrong_state = ""
    try:
        await Script(world, HANDLERS, holds).play(world.cell.steps)
    except* WrongNodeState as errors:
        wrong_state = _told(errors)
    return wrong_state


def _told(errors: BaseExceptionGroup[Exception]) -> str:
    """Return what went wrong, one line for each exception, innermost words first."""
    return "; ".join(dict.fromkeys(_in_words(error) for error in _leaves(errors)))


def _in_words(error: Exception) -> str:
    """Return an error as a sentence: its words, after its name where they are no sentence of ours."""
    if isinstance(error, NodeError):
        return str(error)
    if not str(error):
        waited = "something took longer than the harness waits for it"
        return (
            f"{waited} (TimeoutError)" if isinstance(error, TimeoutError) else f"{type(error).__name__}, without words"
        )
    return f"{type(error).__name__}: {error}"


def _leaves(errors: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    """Yield the exceptions of a group, and of the groups in it."""
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


_LARGEST = 64 * 2**20
"""Octets of a file that is looked through: more than a log may have."""


def redact_files(directory: Path, secrets: Secrets) -> None:
    """Rewrite each file of the nodes' directories below that has a secret in it; what is in queues stays as it is.

    The nodes must be dead. Raises OSError.
    """
    if not secrets or not directory.is_dir():
        return
    pinned = PinnedDirectory(directory)
    try:
        for entry in walk(pinned.handle):
            if DATA in entry.above[1:2] or not entry.is_file or entry.status.st_size > _LARGEST:
                continue
            handle = entry.open()
            try:
                octets = read_at(handle, 0, _LARGEST)
            finally:
                os.close(handle)
            if (cleaned := secrets.redact_octets(octets)) is not octets:
                entry.replace(cleaned)
    finally:
        pinned.close()
