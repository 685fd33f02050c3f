"""The pytest plugin: hooks only; `conformance.suite` has what they call.

pytest calls these functions: an ini key of `conformance.activation` or the command `conformance run` loads this module.
A *cell* is one pytest item, an *item* may also be a Python test. With xdist the *controller* is the process that was
started, and *workers* run the items.
"""

import gc
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from conformance.clocks import CLOCKS
from conformance.report import allure_content
from conformance.results.layout import RUN_FILE, cell_files
from conformance.results.writer import finish_run
from conformance.shortage import describe_harness_error, shortage_of
from conformance.suite.collect import (
    OPTIONS,
    UNFILTERED,
    ScenarioFile,
    collect_file,
    deselect_cells,
    is_filtered,
    move_ids_to_only,
    narrow_paths,
    put_long_cells_first,
)
from conformance.suite.item import CellItem, outcome_of
from conformance.suite.junit import JUnitCompletion
from conformance.suite.options import add_options, read_options
from conformance.suite.progress import show_progress
from conformance.suite.run import RUN, PytestRun, print_summary
from conformance.suite.run_directory import (
    DIRECTORY,
    allure_results,
    is_worker,
    pass_to_worker,
    prepare_run_directory,
    release_run_directory,
    runs_nothing,
)
from conformance.verdicts.outcome import OUTCOME_DISPLAY

STARTED = pytest.StashKey[float]()

MANY_CELLS = 2000
"""Cells of a run above which the end of the run says that it writes the tables: that takes some 5 ms for each of them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the harness."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the marks, read the options, narrow the paths by `--only`, and choose and lock the run's directory.

    A worker gets paths and directory from the controller instead. The controller, or the only process, also registers the plugin
    that completes a JUnit file. Raises pytest.UsageError for wrong options and for a directory in use; exits pytest where the
    directory cannot be written.
    """
    for mark in (
        "requirement(id): a row of the requirement catalogue that the cell judges",
        "fault(name): a cell of a fault grid",
        "candidate(name): the candidate that is judged",
        "slow: takes more than a few seconds",
        "docker: needs a Docker engine",
    ):
        config.addinivalue_line("markers", mark)
    move_ids_to_only(config)
    config.stash[OPTIONS] = options = read_options(config)
    if not is_worker(config):
        narrow_paths(config, options)
    config.stash[STARTED] = time.monotonic()
    config.add_cleanup(gc.unfreeze)  # added first, so called last: the collector skips what is frozen until then
    prepare_run_directory(config, options)
    if not is_worker(config):
        config.pluginmanager.register(JUnitCompletion())


def pytest_sessionstart(session: pytest.Session) -> None:
    """Register the plugin that shows progress, at a terminal or in a log; the run, once begun, says which cells run now."""
    config = session.config
    show_progress(
        config, lambda: run.running_cells if (run := config.stash.get(RUN, None)) else (), config.stash[DIRECTORY]
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Release the run's directory, and remove it if it is empty and the run never began."""
    release_run_directory(config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """Return a collector for `*.scenario.yaml`; None leaves any other file to other plugins."""
    return collect_file(file_path, parent)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, object, object]:
    """Deselect the cells that `--only` and `--requirement` exclude; `items` is changed in place.

    After all other plugins, the items of other shards (parts of the run for other machines, `--shard`) are deselected as well, and
    workers put long cells first. UNFILTERED notes, for the run's header, whether no item but those of other shards was deselected.
    """
    options, collected = config.stash[OPTIONS], len(items)
    deselect_cells(config, options, items)
    result = yield
    config.stash[UNFILTERED] = len(items) == collected
    place, count = options.shard
    others = [item for number, item in enumerate(items) if number % count != place - 1]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = items[place - 1 :: count]
    if hasattr(config, "workerinput"):  # in a worker of xdist, each of which collects all items
        put_long_cells_first(items)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Begin the run if cells were collected and are to be executed.

    If the machine runs out of something while reports are written, exit pytest with a message instead of a traceback.
    """
    config = session.config
    cells = [item.collected for item in session.items if isinstance(item, CellItem)]
    if cells and not runs_nothing(config):
        filtered = is_filtered(config, [cell.file for cell in cells])
        config.stash[RUN] = PytestRun.begin(config, config.stash[OPTIONS], cells, filtered=filtered)
        # What is loaded now lives to the end of the process, so the garbage collector need not visit it (a tenth of the
        # CPU). Objects of a cell live as long as its history or are freed at once, so rarer collections suffice (a twentieth).
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)
    try:
        return (yield)
    except Exception as error:
        if shortage_of(error):
            pytest.exit(describe_harness_error(error), pytest.ExitCode.INTERNAL_ERROR)
        raise


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the run's directory and the paths to collect to a worker of xdist."""
    pass_to_worker(node.config, node.workerinput)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduling by chunks, if each worker of xdist runs several cells at a time; None for xdist's own.

    `--cells` is how many at a time. On a clock that jumps each cell has an event loop of its own, and they run in turn.
    """
    options = config.stash[OPTIONS]
    if options.cells == 1 or CLOCKS[options.settings.clock].jumps:
        return None
    from conformance.suite.chunks import ChunkScheduling  # importing xdist takes time

    return ChunkScheduling(config, log, options.cells)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add Allure's description of a cell before any reporter gets the report.

    `item.report` has the cell as reports see it, and what the baseline says of it; None when the cell was not executed. It is set
    to None here.
    """
    report = yield
    if isinstance(item, CellItem) and call.when == "call" and item.report is not None:
        allure_content.describe_cell(item.report.view, remark=item.report.remark)
        item.report = None  # frees the history, which may be large and is written
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Return category, letter and word of a cell's outcome for the terminal.

    None leaves the report to pytest: a known failure (xfail), another phase, a test that is no cell.
    """
    outcome = outcome_of(report) if isinstance(report, pytest.TestReport) else None
    if outcome is None:
        return None
    display = OUTCOME_DISPLAY[outcome]
    return display.category, display.letter, display.category.upper()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the run's footer, after the last worker of xdist has ended.

    Under xdist the controller has no RUN: it writes the footer from the files that the workers wrote.
    """
    config = session.config
    directory = config.stash.get(DIRECTORY, None)
    interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if directory is not None and terminal is not None and not is_worker(config):
        cells = len(cell_files(directory))
        if cells > MANY_CELLS:
            terminal.ensure_newline()
            terminal.write_line(f"writing the tables of {cells:,} cells")
    try:
        if (run := config.stash.get(RUN, None)) is not None:
            run.finish(interrupted=interrupted)
        elif directory is not None and not is_worker(config) and (directory / RUN_FILE).exists():
            finish_run(directory, wall_seconds=time.monotonic() - config.stash[STARTED], interrupted=interrupted)
    except OSError as error:
        if not shortage_of(error):
            raise
        pytest.exit(f"the run has no footer: {describe_harness_error(error)}", pytest.ExitCode.INTERNAL_ERROR)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the summary of the run, if it has begun."""
    directory = config.stash[DIRECTORY]
    if not runs_nothing(config) and (directory / RUN_FILE).exists():
        print_summary(directory, terminalreporter, allure_results(config), config.stash[OPTIONS].baselines)
