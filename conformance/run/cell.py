"""Runs one cell: starts its nodes, runs its steps, heals and drains, ends everything, and returns the recorded history.

`conformance.execute` calls it for each cell of a run, in the process that runs pytest; trials of defects, of candidates and of
plans call it for one cell each. A *world* is all parties of a cell: nodes, sinks and the links between them. The *drain* is the
time after the last step in which outstanding messages arrive. At the end the secrets of the cell are removed from the files
that its nodes have left.
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
from conformance.run.deadline import CellTimeout, LoopBlocked, cell_timeout, describe_wait, real_deadline
from conformance.run.drain import drain
from conformance.run.settings import Settings
from conformance.run.shifted.shim_library import CannotShift, UnshiftedWait
from conformance.run.step_runner import ExpectationHolds, StepRunner
from conformance.run.steps import HANDLERS
from conformance.run.virtual.errors import ClockError
from conformance.run.world import World
from conformance.scenarios.document import Cell
from conformance.shortage import shortage_of
from conformance.untrusted.tree import PinnedDirectory, delete_tree, read_at, walk

_HARNESS_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, BufferError, LookupError, MemoryError, OSError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip
"""What a mistake of the harness raises when a scenario or a node does something unforeseen."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The history of a cell, and why the run is not complete or not applicable; each reason is a sentence, or "".

    `problem`: why the cell could not be run to its end; `node_failed`: whether that is a node's failure. `wrong_state`:
    which step found a node in another state than the step needs; the steps ended there, and the cell was drained all the
    same. `timed_out`: what the cell was waiting for at its limit of real time. `inapplicable`: why the clock does not reach
    the candidate, or the layer under its disk does not see what it does. `simulated` is how long the cell took by its clock,
    documented seconds; `logs` has the log file of each node.
    """

    events: tuple[AnyEvent, ...]
    problem: str
    simulated: float
    logs: dict[str, Path]
    wrong_state: str = ""
    timed_out: str = ""
    inapplicable: str = ""
    node_failed: bool = False

    @property
    def complete(self) -> bool:
        """Whether there was no `problem` and no timeout, so that the history is whole, though maybe with steps that were not run.

        Means nothing with `inapplicable`.
        """
        return not self.problem and not self.timed_out


@dataclass(frozen=True, slots=True)
class CellRunner:
    """Runs one cell with an assignment of candidates to its servers.

    The nodes' data and logs go to `directory`, in a directory for each server. `holds` is the judge, which decides
    whether an expectation holds already, so that a step need not wait any more. `on_event` is called with each event
    when it is recorded, and `flush` afterwards, before any time passes.
    """

    cell: Cell
    assignment: Assignment
    settings: Settings
    directory: Path
    holds: ExpectationHolds
    on_event: Callable[[AnyEvent], None] = lambda event: None
    flush: Callable[[], None] = lambda: None

    async def run(self, cell_loop: CellLoop) -> RecordedRun:
        """Prepare the candidates, run the cell on `cell_loop` and return what was recorded; OWN_LOOP blocks until the cell has ended.

        A failure of a node, the scenario or the harness is described in the result, and so is a clock that does not reach a
        candidate. Raises the KeyboardInterrupt of a user (its subclass LoopBlocked becomes a result), OSError when files cannot
        be deleted or redacted at the end, what a preparation raises other than NodeError, and exceptions of the cell of types
        that neither this method nor `_run_on_clock` turns into a result.
        """
        events: list[AnyEvent] = []
        try:
            for candidate in self.assignment.candidates:
                await cell_loop.call(node_class(candidate.kind).prepare, candidate)
            return await cell_loop.run(lambda clock: self._run_on_clock(clock, Recorder(clock, events)), self.settings)
        except NodeError as error:
            return RecordedRun(events=(), problem=str(error), simulated=0.0, logs={}, node_failed=True)
        except (CannotShift, UnshiftedWait) as error:
            reason = self._unshifted_reason(error)
            return RecordedRun(events=tuple(events), problem="", simulated=0.0, logs={}, inapplicable=reason)
        except ClockError as error:
            return self._result_of_broken_run(events, problem=f"time cannot go on: {error}")
        except LoopBlocked as error:
            _delete_data((server.name for server in self.cell.topology.servers), self.settings, self.directory)
            stopped = _describe_time_limit(cell_timeout(self.cell, self.settings))
            return self._result_of_broken_run(events, timed_out=f"{stopped}: this code did not return: {error}")
        except Leftovers as error:
            return self._result_of_broken_run(events, problem=f"a node did not end: {error}")

    def _unshifted_reason(self, error: Exception) -> str:
        """Return the sentence about a clock that does not reach a candidate: `error` is a CannotShift or an UnshiftedWait."""
        return f"--clock {self.settings.clock}: {error}"

    def _result_of_broken_run(self, events: list[AnyEvent], problem: str = "", timed_out: str = "") -> RecordedRun:
        """Return the result of a run that an exception of its loop has ended: with the events so far and the reason.

        Its length (`simulated`) is the time of the last event, 0 without events.
        """
        elapsed = events[-1].t if events else 0.0
        return RecordedRun(tuple(events), problem, simulated=elapsed, logs=self._find_logs(), timed_out=timed_out)

    def _find_logs(self) -> dict[str, Path]:
        """Return the log file of each node that has written one, by the name of its server."""
        paths = {server.name: self.directory / server.name / "node.log" for server in self.cell.topology.servers}
        return {name: path for name, path in paths.items() if path.exists()}

    async def _run_on_clock(self, clock: Clock, recorder: Recorder) -> RecordedRun:
        """Start the nodes, run the steps, drain, end everything, delete the data, redact secrets, and return the result.

        Entering the world starts the nodes, leaving it ends everything. An exception becomes one of the reasons of the
        result, by its type: `inapplicable`, `timed_out`, `wrong_state` or `problem`. One of any other type, such as ClockError,
        is raised, and the data stay. Raises OSError when files cannot be deleted or redacted.
        """
        clock.flush_with(self.flush)
        recorder.subscribe(self.on_event)
        recorder.subscribe(lambda event: clock.note_progress())
        world = World(self.cell, self.assignment, self.settings, clock, recorder, self.directory)
        problem = wrong_state = timed_out = inapplicable = ""
        node_failed = False
        limit = cell_timeout(self.cell, self.settings)
        try:
            async with real_deadline(limit), world:
                wrong_state = await _run_steps(world, self.holds)
                await drain(world)
        except* (CannotShift, UnshiftedWait) as errors:
            inapplicable = self._unshifted_reason(next(_flatten(errors)))
        except* UnobservedDisk as errors:
            inapplicable = "cannot be run: " + "; ".join(dict.fromkeys(map(str, _flatten(errors))))
        except* CellTimeout:
            timed_out = f"{_describe_time_limit(limit)}: waiting for {describe_wait(recorder.events)}"
        except* WrongNodeState as errors:  # of an action at a moment of the protocol: the steps and the drain went on
            wrong_state = "; ".join(filter(None, (wrong_state, describe_errors(errors))))
        except* NodeError as errors:
            problem, node_failed = describe_errors(errors), True
        except* _HARNESS_ERRORS as errors:  # a mistake of the harness spoils this cell, and the run goes on
            problem = describe_errors(errors)
            if shortage := shortage_of(errors):
                problem = f"the machine ran out of something: {shortage}: {problem}"
                world.record_shortage(shortage)
        await asyncio.to_thread(_delete_data, world.supervisors, self.settings, self.directory)
        await asyncio.to_thread(redact_files, self.directory, recorder.secrets)
        problem = recorder.secrets.redact(problem)
        return RecordedRun(
            events=tuple(recorder.events),
            problem=problem,
            simulated=clock.elapsed(),
            logs=self._find_logs(),
            wrong_state=wrong_state,
            timed_out=timed_out,
            inapplicable=inapplicable,
            node_failed=node_failed,
        )


def _describe_time_limit(limit: float) -> str:
    """Return the beginning of the sentence about a cell that was stopped at its limit of real seconds."""
    return f"stopped after {limit:g} s of real time (--cell-timeout)"


def _delete_data(servers: Iterable[str], settings: Settings, directory: Path) -> None:
    """Delete the data of servers, which are below the cell's `directory`; with `settings.keep` do nothing.

    `conformance.execute` deletes them then, after it has copied those of a failed cell. Raises OSError.
    """
    for name in servers if settings.keep is None else ():
        delete_tree(directory / name / "data")


async def _run_steps(world: World, holds: ExpectationHolds) -> str:
    """Run the steps of the cell; return "", or the sentence about a node in a wrong state, because of which the rest was not run.

    Raises any other exception of a step.
    """
    reason = ""
    try:
        await StepRunner(world, HANDLERS, holds).run(world.cell.steps)
    except* WrongNodeState as errors:
        reason = describe_errors(errors)
    return reason


def describe_errors(errors: BaseExceptionGroup[Exception]) -> str:
    """Return the sentences about the exceptions of a group and of the groups in it, each once, separated by semicolons."""
    return "; ".join(dict.fromkeys(_describe_error(error) for error in _flatten(errors)))


def _describe_error(error: Exception) -> str:
    """Return an error as a sentence: the text of a NodeError, which is one; of any other error its type and its text.

    For an error without a text the sentence says that, for a TimeoutError that something took too long.
    """
    if isinstance(error, NodeError):
        return str(error)
    if str(error):
        return f"{type(error).__name__}: {error}"
    if isinstance(error, TimeoutError):
        return "something took longer than the harness waits for it (TimeoutError)"
    return f"{type(error).__name__} without a message"


def _flatten(errors: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    """Yield the exceptions of a group, and of the groups in it."""
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flatten(error)
        else:
            yield error


_MAX_OCTETS = 64 * 2**20
"""Octets of the largest file that is redacted: more than a log may have."""


def redact_files(directory: Path, secrets: Secrets) -> None:
    """Replace secrets in all files of the nodes' directories, except their data and files of more than _MAX_OCTETS.

    `directory` is that of the cell, in which each node has its own. The nodes must have ended. Do nothing without secrets, or
    without the directory. Raises OSError.
    """
    if not secrets or not directory.is_dir():
        return
    pinned = PinnedDirectory(directory)
    try:
        for entry in walk(pinned.handle):
            # `above` are the directories that have the entry: the node's comes first
            if DATA in entry.above[1:2] or not entry.is_file or entry.status.st_size > _MAX_OCTETS:
                continue
            handle = entry.open()
            try:
                octets = read_at(handle, 0, _MAX_OCTETS)
            finally:
                os.close(handle)
            if (cleaned := secrets.redact_octets(octets)) is not octets:
                entry.replace(cleaned)
    finally:
        pinned.close()
