"""The run: one invocation of pytest with cells. Writes its header and footer, executes its cells, and prints its summary.

A *cell* is one scenario with one value for each of its axes, run with one candidate: one item of pytest.

A cell's result is compared with the *baseline* of its candidate, the list of its known failures. `compared.known` says
that all its failures are in there, or that the cell is newer than the baseline; `compared.text` is then the baseline's
comment, else its complaint or ''.
"""

import os
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.clocks import CLOCKS
from conformance.execute import CellResult, execute, utc_timestamp
from conformance.records import candidate_record, cell_header
from conformance.report import allure_run_files
from conformance.report.cell_view import CellView
from conformance.report.failure_text import failure_text
from conformance.report.root_causes import find_root_causes
from conformance.report.run_summary import RunSummary, read_run_summary
from conformance.report.terminal import report_to_github, terminal_summary
from conformance.results.fingerprints import environment_sha256, suite_sha256
from conformance.results.layout import RunDirectoryError
from conformance.results.schema import CellHeader, RunHeader
from conformance.results.writer import begin_run, finish_run, move_first_attempt
from conformance.run.cell_loop import OWN_LOOP, SHARED_LOOP, CellLoop, run_without_loop
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.sending import Send
from conformance.shortage import describe_harness_error
from conformance.suite.baseline import (
    NEW_CELL,
    WRITE,
    Baseline,
    BaselineError,
    BaselineResult,
    compare_with_baseline,
    read_baselines,
    write_drafts,
)
from conformance.suite.job_pool import JobPool
from conformance.suite.options import Options
from conformance.suite.run_directory import DIRECTORY, allure_results, is_worker
from conformance.suite.workflow_commands import STOPPED
from conformance.verdicts import Outcome, Reason, Verdict

_HEAVY_MESSAGES = 50
"""Of cells that send as many, only some run at a time: a real server takes a second of processor time for a hundred messages."""


@dataclass(frozen=True, slots=True)
class CollectedCell:
    """A cell that was collected: its node id, its scenario file, and the candidates that take the servers' places."""

    nodeid: str
    file: Path
    cell: Cell
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class CellReport:
    """A cell's result, compared with the baseline, and the view of it that reports show."""

    result: CellResult
    compared: BaselineResult
    view: CellView

    @property
    def remark(self) -> str:
        """The baseline's complaint about the cell (an entry that is stale or could not be judged), or ''."""
        return self.compared.text if not self.compared.known else ""

    @property
    def text(self) -> str:
        """The text for the terminal: the baseline's complaint, if any, and the failure."""
        return "\n\n".join(part for part in (self.remark, failure_text(self.view)) if part)


@dataclass(frozen=True, slots=True)
class _ExecutedCell:
    """A cell that was run and judged, compared with the baseline."""

    header: CellHeader
    result: CellResult
    compared: BaselineResult


class PytestRun:
    """One invocation in one process: the only one, or a worker of xdist.

    `_pool` is None if cells run one by one; `_header` is that of the run, `_baselines` are by candidate. An *assignment*
    says which candidate (implementation under test) plays each server of a cell.
    """

    def __init__(self, directory: Path, options: Options, header: RunHeader, *, worker: bool) -> None:
        self.directory = directory
        self._options = options
        self._header = header
        self._worker = worker
        self._began = time.monotonic()
        self._baselines = _read_baselines(options)
        self._pool: JobPool[_ExecutedCell] | None = None

    @classmethod
    def begin(
        cls, config: pytest.Config, options: Options, cells: Sequence[CollectedCell], *, filtered: bool
    ) -> "PytestRun":
        """Write the run's header, unless another worker has, and return the run.

        `filtered`: the cells are not all of the corpus. `begin_run` returns the header that was written first, by any
        worker. Starts the candidates' programs to ask for their versions. With Allure its files about the run are written too.
        Raises pytest.UsageError; exits pytest if the header cannot be written.
        """
        directory = config.stash[DIRECTORY]
        header = RunHeader(
            run=directory.name,
            started=utc_timestamp(),
            seed=options.settings.seed,
            clock=options.settings.clock,
            scale=options.settings.scale,
            grid=options.settings.grid,
            candidates=tuple(
                candidate_record(assignment, (one.cell for one in cells if one.assignment == assignment))
                for assignment in options.assignments
            ),
            suite_sha256=suite_sha256(one.cell.sha256 for one in cells),
            environment_sha256=environment_sha256(),
            command=("conformance", "run", *map(str, config.invocation_params.args)),
            filtered=filtered,
            cells_planned=len(cells),
        )
        try:
            written = begin_run(directory, header)
        except RunDirectoryError as error:
            raise pytest.UsageError(str(error)) from error
        except OSError as error:
            pytest.exit(describe_harness_error(error), pytest.ExitCode.INTERNAL_ERROR)
        if (results := allure_results(config)) is not None:
            allure_run_files.write_run_files(results, written, os.environ)
        run = cls(directory, options, written, worker=is_worker(config))
        run.prepare_pool(cells)
        return run

    def prepare_pool(self, cells: Sequence[CollectedCell]) -> None:
        """Have several cells run at a time if the options ask for it.

        With a clock that jumps to the next timer (virtual, shifted), cells run one by one. No cell is begun here.
        """
        limit = self._options.cells
        if limit > 1 and not CLOCKS[self._options.settings.clock].jumps:
            jobs = [(collected.nodeid, partial(self._run, collected, SHARED_LOOP)) for collected in cells]
            heavy = [collected.nodeid for collected in cells if _messages_of(collected.cell) >= _HEAVY_MESSAGES]
            self._pool = JobPool(jobs, limit, chunks=self._worker, needs_rerun=self._needs_rerun, heavy=heavy)

    @property
    def running_cells(self) -> tuple[str, ...]:
        """The node ids of the cells that run now, () if cells run one by one."""
        return tuple(self._pool.running) if self._pool is not None else ()

    def execute(self, collected: CollectedCell) -> CellReport:
        """Run and judge a cell (or block until the pool has), and return its result with the comparison and the view for reports."""
        done = (
            self._pool.result(collected.nodeid)
            if self._pool is not None
            else run_without_loop(self._run(collected, OWN_LOOP))
        )
        result, compared = done.result, done.compared
        view = CellView(
            header=done.header,
            events=result.events,
            verdicts=result.verdicts,
            file=result.file,
            source=collected.file.read_text("utf-8").splitlines(),
            logs=result.logs,
            known=compared.text if compared.known else "",
        )
        return CellReport(result, compared, view)

    async def _run(self, collected: CollectedCell, cell_loop: CellLoop) -> _ExecutedCell:
        """Run, judge and compare a cell. `execute` asks for the comparison once, before it writes the cell's footer."""
        compared: list[BaselineResult] = []

        def find_known_failure(outcome: Outcome, verdicts: tuple[Verdict, ...]) -> str:
            """Compare with the baseline, keep the comparison, and return the text of a known failure, '' for any other cell."""
            compared.append(self._compare(collected, outcome, verdicts))
            return compared[-1].text if compared[-1].known else ""

        header = self._cell_header(collected)
        result = await execute(
            collected.cell,
            collected.assignment,
            self._options.settings,
            header,
            self.directory,
            cell_loop=cell_loop,
            find_known_failure=find_known_failure,
        )
        return _ExecutedCell(header, result, compared[-1])

    def _needs_rerun(self, done: _ExecutedCell) -> bool:
        """Return whether a cell has to be run again alone, and move its files aside if so.

        That is so if it is inconclusive because the harness was late: other cells may have taken its processor time.
        """
        late = any(verdict.reason is Reason.LATE for verdict in done.result.verdicts)
        rerun = done.compared.outcome is Outcome.INCONCLUSIVE and late
        if rerun:
            move_first_attempt(self.directory, done.header.nodeid)
        return rerun

    def _compare(self, collected: CollectedCell, outcome: Outcome, verdicts: tuple[Verdict, ...]) -> BaselineResult:
        """Return a cell's outcome, compared with the baseline of its candidate if there is one."""
        baseline = self._baselines.get(collected.assignment.identity)
        if baseline is None:
            return BaselineResult(outcome=outcome)
        fail = self._options.new_cells == "fail"
        return compare_with_baseline(baseline, collected.cell, outcome, verdicts, new_cells_fail=fail)

    def _cell_header(self, collected: CollectedCell) -> CellHeader:
        """Return the header of a cell's file, with the command that runs the cell again."""
        repeat = self.rerun_command(collected.nodeid, collected.assignment, collected.file)
        return cell_header(
            collected.cell,
            collected.assignment,
            self._options.settings,
            run=self._header.run,
            nodeid=collected.nodeid,
            environment_sha256=self._header.environment_sha256,
            repeat=repeat,
        )

    def rerun_command(self, nodeid: str, assignment: Assignment, file: Path) -> str:
        """Return the command that runs one cell again, from the present directory, with the same seed and most options.

        `--cell-timeout`, `--keep`, `--baseline`, `--new-cells`, `--cells` and options of pytest are left out.
        """
        settings = self._options.settings
        place = os.path.relpath(file) + "::" + nodeid.partition("::")[2]
        word = self._options.words[self._options.assignments.index(assignment)]
        words = ["conformance", "run", place, "--candidate", word, "--clock", settings.clock]
        if CLOCKS[settings.clock].scaled:
            words += ["--scale", f"{settings.scale:g}"]
        if settings.disk is not None:
            words += ["--disk", settings.disk]
        for host in self._options.hosts:
            words += ["--allow-hosts", host]
        if "fault=" in nodeid:  # a cell of a fault grid, which may be in one size of grid only
            words += ["--grid", settings.grid]
        if settings.should != "warn":
            words += ["--should", settings.should]
        return shlex.join([*words, "--seed", str(settings.seed)])

    def finish(self, *, interrupted: bool) -> None:
        """Cancel the cells that still run, wait for their end, and write the footer; in xdist the controller writes it, not a worker."""
        if self._pool is not None:
            self._pool.close()
        if not self._worker:
            finish_run(self.directory, wall_seconds=time.monotonic() - self._began, interrupted=interrupted)


def _messages_of(cell: Cell) -> int:
    """Return how many messages the steps of a cell send."""
    return sum(step.action.count for step in cell.all_steps if isinstance(step.action, Send))


def print_summary(
    directory: Path, terminal: pytest.TerminalReporter, results: Path | None, baselines: Sequence[str] = ()
) -> None:
    """Print the inconclusive cells, the matrix of outcomes, new failures, and the paths of what was written.

    Prints annotations under GitHub Actions. Writes drafts of baselines with `--baseline write`, and Allure's categories if `results`,
    the directory of Allure's results, is not None. `baselines` are the values of `--baseline`.
    """
    for report in terminal.getreports("inconclusive"):  # the category that the plugin gives such a cell
        terminal.write_sep("_", "inconclusive")
        terminal.write_line(report.longreprtext)
    terminal.write_sep("=", "conformance")
    run_summary = read_run_summary(directory, corpus=paths.corpus())
    terminal.write(terminal_summary(run_summary, width=terminal._tw.fullwidth, colour=terminal._tw.hasmarkup))
    stopped = terminal.config.stash.get(STOPPED, None)
    with stopped.resumed() if stopped else nullcontext():
        for line in report_to_github(run_summary, os.environ):
            terminal.write_line(line)
    terminal.write_line(f"run        {directory}")
    for line in _new_failures(run_summary):
        terminal.write_line(line)
    for path in write_drafts(directory, read_baselines(baselines)) if WRITE in baselines else ():
        terminal.write_line(f"baseline   {path}")
    if results is not None:
        allure_run_files.write_categories(results, find_root_causes(run_summary.cells))
        terminal.write_line(f"allure     {results}")
    terminal.write_line(f"pages      conformance report {directory} --out {directory / 'site'}")


def _new_failures(run_summary: RunSummary) -> Iterator[str]:
    """Yield lines about failures in cells that a baseline does not list: `new since 0.1.0: 4 cells fail`, and the cells."""
    new = [cell for cell in run_summary.cells if cell.known.startswith(NEW_CELL)]
    for since, count in Counter(cell.known for cell in new).items():
        yield f"{since}: {count} cell{'s' if count > 1 else ''} fail{'' if count > 1 else 's'}"
    yield from (f"  {cell.name}  {cell.header.candidate}" for cell in new)


def _read_baselines(options: Options) -> dict[str, Baseline]:
    """Return the baselines that `--baseline` names, by candidate. Raises pytest.UsageError."""
    try:
        return read_baselines(options.baselines)
    except BaselineError as error:
        raise pytest.UsageError(str(error)) from error


RUN = pytest.StashKey[PytestRun]()
"""The run of this process; absent if no cell was collected, and in xdist's controller."""
