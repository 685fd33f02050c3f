"""The run: one invocation, its directory, and what is told about it while it goes on and at its end. The JUnit file
gets the causes of its violations.
"""

import os
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.clocks import CLOCKS
from conformance.execute import CellResult, execute, utc_timestamp
from conformance.records import candidate_record, cell_header
from conformance.report import allure_content
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
from conformance.verdicts import Outcome, Reason, Verdict


@dataclass(frozen=True, slots=True)
class CollectedCell:
    """A cell as it was collected: what it is called in the run, in which file it stands, and who plays it."""

    nodeid: str
    file: Path
    cell: Cell
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class CellReport:
    """A cell's result, what the baseline makes of it, and the whole of what reports show."""

    result: CellResult
    reading: BaselineResult
    material: CellView

    @property
    def remark(self) -> str:
        """What the baseline has against the cell, or ''."""
        return self.reading.text if not self.reading.known else ""

    @property
    def text(self) -> str:
        """What the terminal shows: the baseline's complaint first, where there is one."""
        return "\n\n".join(part for part in (self.remark, failure_text(self.material)) if part)


@dataclass(frozen=True, slots=True)
class _Done:
    """A cell that was run and judged, and what the baseline makes of it."""

    header: CellHeader
    result: CellResult
    reading: BaselineResult


class PytestRun:
    """One invocation as one process sees it: the only one, or one of xdist's workers."""

    def __init__(self, directory: Path, options: Options, header: RunHeader, *, worker: bool) -> None:
        self.directory = directory
        self._options = options
        self._header = header
        self._worker = worker
        self._began = time.monotonic()
        self._baselines = _baselines(options)
        self._pool: JobPool[_Done] | None = None

    @classmethod
    def begin(
        cls, config: pytest.Config, options: Options, cells: Sequence[CollectedCell], *, filtered: bool
    ) -> "PytestRun":
        """Write the header (the first worker does) and return the run; `filtered` says that these are not all cells of
        the corpus. Raises pytest.UsageError."""
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
            held = begin_run(directory, header)
        except RunDirectoryError as error:
            raise pytest.UsageError(str(error)) from error
        except OSError as error:
            pytest.exit(describe_harness_error(error), pytest.ExitCode.INTERNAL_ERROR)
        if (results := allure_results(config)) is not None:
            allure_content.write_static(results, held, os.environ)
        run = cls(directory, options, held, worker=is_worker(config))
        run.plan(cells)
        return run

    def plan(self, cells: Sequence[CollectedCell]) -> None:
        """Let several cells be in flight at once, where the options say so; time that jumps has one at a time."""
        most = self._options.cells
        if most > 1 and not CLOCKS[self._options.settings.clock].jumps:
            jobs = [(one.nodeid, partial(self._run, one, SHARED_LOOP)) for one in cells]
            self._pool = JobPool(jobs, most, chunks=self._worker, needs_rerun=self._needs_rerun)

    @property
    def running_cells(self) -> tuple[str, ...]:
        """The node ids of the cells that are in flight beside each other."""
        return tuple(self._pool.running) if self._pool is not None else ()

    def execute(self, one: CollectedCell) -> CellReport:
        """Run and judge one cell, or wait for it where it is in flight, and hold it against the baseline."""
        done = self._pool.result(one.nodeid) if self._pool is not None else run_without_loop(self._run(one, OWN_LOOP))
        result, reading = done.result, done.reading
        material = CellView(
            header=done.header,
            events=result.events,
            verdicts=result.verdicts,
            file=result.file,
            source=one.file.read_text("utf-8").splitlines(),
            logs=result.logs,
            known=reading.text if reading.known else "",
        )
        return CellReport(result, reading, material)

    async def _run(self, one: CollectedCell, cell_loop: CellLoop) -> _Done:
        readings: list[BaselineResult] = []

        def known(outcome: Outcome, verdicts: tuple[Verdict, ...]) -> str:
            readings.append(self._read(one, outcome, verdicts))
            return readings[-1].text if readings[-1].known else ""

        header = self._cell_header(one)
        result = await execute(
            one.cell,
            one.assignment,
            self._options.settings,
            header,
            self.directory,
            cell_loop=cell_loop,
            find_known_failure=known,
        )
        return _Done(header, result, readings[-1])

    def _needs_rerun(self, done: _Done) -> bool:
        """Whether a cell has to be run once more, without others beside it: it could not be judged, or not be held against
        the baseline, since the harness was late, as it may be when others take its time. What came of it is put aside."""
        late = any(verdict.reason is Reason.LATE for verdict in done.result.verdicts)
        spoilt = done.reading.outcome is Outcome.INCONCLUSIVE and late
        if spoilt:
            move_first_attempt(self.directory, done.header.nodeid)
        return spoilt

    def _read(self, one: CollectedCell, outcome: Outcome, verdicts: tuple[Verdict, ...]) -> BaselineResult:
        baseline = self._baselines.get(one.assignment.identity)
        return BaselineResult(outcome=outcome) if baseline is None else self._hold(baseline, one, outcome, verdicts)

    def _hold(
        self, baseline: Baseline, one: CollectedCell, outcome: Outcome, verdicts: tuple[Verdict, ...]
    ) -> BaselineResult:
        fail = self._options.new_cells == "fail"
        return compare_with_baseline(baseline, one.cell, outcome, verdicts, new_cells_fail=fail)

    def _cell_header(self, one: CollectedCell) -> CellHeader:
        repeat = self.repeat(one.nodeid, one.assignment, one.file)
        return cell_header(
            one.cell,
            one.assignment,
            self._options.settings,
            run=self._header.run,
            nodeid=one.nodeid,
            environment_sha256=self._header.environment_sha256,
            repeat=repeat,
        )

    def repeat(self, nodeid: str, assignment: Assignment, file: Path) -> str:
        """Return the command that runs this one cell again, exactly, from the directory that this one was run in."""
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
        if "fault=" in nodeid:
            words += ["--grid", settings.grid]
        if settings.should != "warn":
            words += ["--should", settings.should]
        return shlex.join([*words, "--seed", str(settings.seed)])

    def finish(self, *, interrupted: bool) -> None:
        """End what is still in flight and write the footer; of xdist's processes the controller does."""
        if self._pool is not None:
            self._pool.close()
        if not self._worker:
            finish_run(self.directory, wall_seconds=time.monotonic() - self._began, interrupted=interrupted)


def summarise(
    directory: Path, terminal: pytest.TerminalReporter, results: Path | None, baselines: Sequence[str] = ()
) -> None:
    """Print what could not be judged, the matrix, and where everything is; draft baselines where they are to be."""
    for report in terminal.getreports("inconclusive"):
        terminal.write_sep("_", "inconclusive")
        terminal.write_line(report.longreprtext)
    terminal.write_sep("=", "conformance")
    book = read_run_summary(directory, corpus=paths.corpus())
    terminal.write(terminal_summary(book, width=terminal._tw.fullwidth, colour=terminal._tw.hasmarkup))
    for line in report_to_github(book, os.environ):
        terminal.write_line(line)
    terminal.write_line(f"run        {directory}")
    for line in _new_failures(book):
        terminal.write_line(line)
    for path in write_drafts(directory, read_baselines(baselines)) if WRITE in baselines else ():
        terminal.write_line(f"baseline   {path}")
    if results is not None:
        allure_content.write_categories(results, find_root_causes(book.cells))
        terminal.write_line(f"allure     {results}")
    terminal.write_line(f"pages      conformance report {directory} --out {directory / 'site'}")


def _new_failures(book: RunSummary) -> Iterator[str]:
    """Yield what failed in cells that a baseline does not list: `new since 0.1.0: 4 cells fail`, and their ids."""
    news = [cell for cell in book.cells if cell.known.startswith(NEW_CELL)]
    for since, count in Counter(cell.known for cell in news).items():
        yield f"{since}: {count} cell{'s' if count > 1 else ''} fail{'' if count > 1 else 's'}"
    yield from (f"  {cell.name}  {cell.header.candidate}" for cell in news)


def _baselines(options: Options) -> dict[str, Baseline]:
    try:
        return read_baselines(options.baselines)
    except BaselineError as error:
        raise pytest.UsageError(str(error)) from error


RUN = pytest.StashKey[PytestRun]()
"""The run of this process; none where no cell was collected, and in xdist's controller."""
