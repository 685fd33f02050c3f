"""Shows the progress of a run: at a terminal a status line below pytest's lines, in a log a line every 25 seconds.

The status line is erased before pytest writes and drawn again afterwards: every hook in which pytest's reporter writes is
wrapped (`_erased`). A thread redraws it each second, so all drawing is done under a lock. A *cell* is one scenario with one value
for each of its axes, run with one candidate: one item of pytest.
"""

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len, set_cell_size

from conformance.report.escaping import visible
from conformance.report.event_text import rounded_duration
from conformance.results.layout import CELLS_FOLDER, LATE_FOLDER, RUN_FILE, cell_files, slug_of
from conformance.suite.item import outcome_of
from conformance.suite.run_directory import is_worker, runs_nothing
from conformance.verdicts import Outcome
from conformance.verdicts.outcome import OUTCOME_DISPLAY, OVER_CELLS


@dataclass(frozen=True, slots=True)
class ProgressState:
    """The progress of a run: `planned` cells, and how many `ended` with each outcome.

    `running` has the name of each cell that runs, and for how many seconds of real time it has.
    """

    planned: int
    ended: Mapping[Outcome, int]
    running: Sequence[tuple[str, float]]

    @property
    def waiting(self) -> int:
        """The number of cells that have not begun."""
        return max(self.planned - sum(self.ended.values()) - len(self.running), 0)


def status_line(state: ProgressState, width: int) -> str:
    """Return the status line, in printable characters and at most `width` columns wide: `✗ 1 ✓ 3  4 waiting  1 running: ...`."""
    ended = " ".join(
        f"{OUTCOME_DISPLAY[outcome].sign} {state.ended[outcome]}" for outcome in OVER_CELLS if state.ended.get(outcome)
    )
    names = ", ".join(f"{visible(name)} {rounded_duration(int(seconds))}" for name, seconds in state.running)
    running = f"{len(state.running)} running" + (f": {names}" if names else "")
    line = "  ".join(part for part in (ended, f"{state.waiting} waiting", running) if part)
    return line if cell_len(line) <= width else set_cell_size(line, max(width - 1, 0)).rstrip() + "…"


_TICK = 1.0
"""Seconds of real time after which the line is drawn again when nothing has happened."""


LOG_INTERVAL = 25.0
"""Seconds of real time between two lines of a log; a busy machine may be later."""
_LOG_WIDTH = 240


class Progress:
    """A pytest plugin that shows the status line; writes to a duplicate of stdout, which pytest does not capture.

    `running_cells` returns the node ids of cells that run concurrently, which pytest need not have come to yet.
    `_since` has the real time at which each running cell began, `_reached` the cells that pytest has come to, `_ended`
    the outcomes so far. `_drawn`: the line is on the terminal. `_over` is set at the session's end.
    """

    interval = _TICK

    def __init__(self, terminal: pytest.TerminalReporter, running_cells: Callable[[], Collection[str]]) -> None:
        self._began = time.monotonic()
        self._terminal = terminal
        self._running_cells = running_cells
        self._stream = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", errors="replace")
        self._planned = 0
        self._ended: Counter[Outcome] = Counter()
        self._since: dict[str, float] = {}
        self._reached: set[str] = set()
        self._drawn = False
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the number of collected items; a larger number that a worker of xdist has reported stays."""
        self._planned = max(self._planned, len(session.items))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Start the thread that redraws; also in xdist's controller, which collects nothing itself."""
        self._ticker.start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Note the number of items that a worker of xdist has collected; each worker collects all of them."""
        self._planned = len(ids)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> Generator[None, None, None]:
        """Note that a cell has begun."""
        with self._lock:  # the thread iterates over these
            self._reached.add(nodeid)
            self._since.setdefault(nodeid, time.monotonic())
        with self._erased():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, None, None]:
        """Count the outcome of a cell's call phase, and as an error any other report of a failure.

        Known failures (xfail) and Python tests that passed are not counted.
        """
        outcome = outcome_of(report)
        if outcome is not None or report.failed:
            with self._lock:
                self._ended[outcome or Outcome.ERROR] += 1
                self._since.pop(report.nodeid, None)
        with self._erased():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> Generator[None, None, None]:
        """Note that a cell has ended."""
        with self._lock:
            self._since.pop(nodeid, None)
        with self._erased():
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Stop the thread, erase the line and close the stream."""
        self._over.set()
        if self._ticker.is_alive():
            self._ticker.join()
        with self._lock:
            self._clear()
            self._stream.close()

    def _tick(self) -> None:
        """Draw the progress every `interval` seconds until the session ends (in the thread)."""
        while not self._over.wait(self.interval):
            self._refresh()

    def _refresh(self) -> None:
        """Draw the progress of this moment in place of what is drawn."""
        with self._lock:
            self._clear()
            self._draw()

    @contextmanager
    def _erased(self) -> Iterator[None]:
        """Erase the line, and draw it again after the block; the block runs under the lock."""
        with self._lock:
            self._clear()
            yield
            self._draw()

    def _clear(self) -> None:
        """Erase the status line if it is drawn, and return the cursor to pytest's line."""
        if self._drawn:
            # one line down, to its beginning, erase it, one line up
            self._write(f"\x1b[1B\r\x1b[2K\x1b[1A{self._return_cursor()}")
            self._drawn = False

    def _draw(self) -> None:
        """Draw the status line below pytest's line, unless the session has ended."""
        if not self._over.is_set():
            self._write(f"\n\r\x1b[2K{self._line()}\x1b[1A{self._return_cursor()}")
            self._drawn = True

    def _line(self) -> str:
        """Return the status line of this moment, one column narrower than the terminal, so that it does not wrap."""
        return status_line(self._state(), self._terminal._tw.fullwidth - 1)

    def _state(self) -> ProgressState:
        """Return the progress of this moment, after updating `_since` for cells that run before pytest has come to them.

        Those that have begun are added, and those that have ended removed; the hooks do that for all other cells. The caller holds
        the lock.
        """
        now, running_cells = time.monotonic(), self._running_cells()
        for name in running_cells:
            if name not in self._reached:
                self._since.setdefault(name, now)
        for name in [name for name in self._since if name not in self._reached and name not in running_cells]:
            del self._since[name]  # it has ended, but pytest has not reported it yet
        running = [(name.partition("::")[2] or name, now - since) for name, since in list(self._since.items())]
        return ProgressState(self._planned, self._ended, running)

    def _return_cursor(self) -> str:
        """Return the escape sequence that moves the cursor to the column where pytest left it."""
        column = self._terminal._tw.width_of_current_line
        return f"\r\x1b[{column}C" if column else "\r"

    def _write(self, text: str) -> None:
        """Write to the terminal at once, after what pytest has written."""
        sys.stdout.flush()
        self._stream.write(text)
        self._stream.flush()


class ProgressLog(Progress):
    """A pytest plugin that writes a line every `LOG_INTERVAL`: the time so far, and how many cells have begun and ended.

    pytest reports cells in their order, which hides those that ended after one that still runs; so the cells that have begun
    are counted by their files in the run's directory.

    `_column` is that of pytest's line when the last line was written.
    """

    def __init__(
        self, terminal: pytest.TerminalReporter, running_cells: Callable[[], Collection[str]], directory: Path
    ) -> None:
        super().__init__(terminal, running_cells)
        self.interval = LOG_INTERVAL
        self._directory = directory
        self._column = 0

    @contextmanager
    def _erased(self) -> Iterator[None]:
        """Run the block under the lock; a log has nothing to erase."""
        with self._lock:
            yield

    def _refresh(self) -> None:
        """Write another line of progress to the log; none before the run has begun."""
        if not (self._directory / RUN_FILE).exists():
            return  # the run has not begun, or only Python tests have run so far
        with self._lock:
            begun = count_begun(self._directory, self._planned)
            so_far = f"[{rounded_duration(int(time.monotonic() - self._began))}] {begun}; reported: "
            column = self._terminal._tw.width_of_current_line
            fresh = "\n" if column not in (0, self._column) else ""  # pytest does not know that the last line has ended
            self._column = column
            self._write(f"{fresh}{so_far}{status_line(self._state(), _LOG_WIDTH - len(so_far))}\n")


def count_begun(run_dir: Path, planned: int) -> str:
    """Return how many cells of a run have begun, in words: `7 of 10 cells begun, 2 of them wait to be run again alone`.

    The latter were late; their first attempts are in the folder `late`. `planned` is 0 if it is not known yet.
    """
    begun, late = ({slug_of(path) for path in cell_files(run_dir, folder)} for folder in (CELLS_FOLDER, LATE_FOLDER))
    waiting = len(late - begun)
    again = f", {waiting} of them wait{'s' * (waiting == 1)} to be run again alone" if waiting else ""
    return f"{len(begun | late)} of {planned or '?'} cells begun{again}"


def show_progress(config: pytest.Config, running_cells: Callable[[], Collection[str]], directory: Path) -> None:
    """Register the plugin that shows progress: at a terminal a status line (not with `-q` or `-s`), elsewhere a log.

    Nothing is registered for a worker of xdist, if no test is run, without pytest's reporter, or with `-qq`.
    `running_cells` returns the node ids of cells that run although pytest has not come to them yet; `directory` is the run's.
    """
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or is_worker(config) or runs_nothing(config) or terminal.verbosity < -1:
        return
    drawn = terminal.isatty and os.environ.get("TERM", "dumb") != "dumb"
    if not drawn:
        config.pluginmanager.register(ProgressLog(terminal, running_cells, directory), "conformance-progress")
    elif terminal.verbosity >= 0 and config.option.capture != "no":
        config.pluginmanager.register(Progress(terminal, running_cells), "conformance-progress")
