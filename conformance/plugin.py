"""The pytest plugin: hooks only."""

import gc
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from conformance.clocks import CLOCKS
from conformance.report import allure_content
from conformance.results.layout import RUN_FILE
from conformance.results.writer import finish_run
from conformance.shortage import describe_harness_error, shortage_of
from conformance.suite.collect import (
    OPTIONS,
    UNFILTERED,
    ScenarioFile,
    collect_file,
    is_filtered,
    keep_wanted,
    narrow,
    take_ids,
)
from conformance.suite.item import CellItem, outcome_of
from conformance.suite.junit import JUnitCauses
from conformance.suite.options import add_options, read_options
from conformance.suite.progress import show_progress
from conformance.suite.run import RUN, PytestRun, summarise
from conformance.suite.run_directory import (
    DIRECTORY,
    allure_results,
    hand_to_worker,
    is_worker,
    prepare,
    runs_nothing,
    tidy,
)
from conformance.verdicts.outcome import OUTCOME_DISPLAY

STARTED = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--candidate` and its company."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the marks and read the options."""
    for mark in (
        "requirement(id): a row of the requirement catalogue that the cell judges",
        "fault(name): a cell of a fault grid",
        "candidate(name): who is judged",
        "slow: takes more than a few seconds",
        "docker: needs a Docker engine",
    ):
        config.addinivalue_line("markers", mark)
    take_ids(config)
    config.stash[OPTIONS] = options = read_options(config)
    if not is_worker(config):
        narrow(config, options)
    config.stash[STARTED] = time.monotonic()
    config.add_cleanup(gc.unfreeze)  # the first that is added is done last: nobody looks through what was frozen
    prepare(config, options)
    if not is_worker(config):
        config.pluginmanager.register(JUnitCauses())


def pytest_sessionstart(session: pytest.Session) -> None:
    """Show what runs and what waits."""
    config = session.config
    show_progress(
        config, lambda: run.running_cells if (run := config.stash.get(RUN, None)) else (), config.stash[DIRECTORY]
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind of a run that never began."""
    tidy(config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """Collect `*.scenario.yaml`."""
    return collect_file(file_path, parent)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, object, object]:
    """Keep the cells that are wanted; of these, after everything else has chosen, those of `--shard`."""
    options, collected = config.stash[OPTIONS], len(items)
    keep_wanted(config, options, items)
    result = yield
    config.stash[UNFILTERED] = len(items) == collected
    place, count = options.shard
    left = [item for number, item in enumerate(items) if number % count != place - 1]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = items[place - 1 :: count]
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Begin the run once something is run; pytest does not come here when it only shows what there is.

    Where a reporter finds the disk full, the session ends with a sentence; what has ended stays.
    """
    config = session.config
    cells = [item.collected for item in session.items if isinstance(item, CellItem)]
    if cells and not runs_nothing(config):
        filtered = is_filtered(config, [one.file for one in cells])
        config.stash[RUN] = PytestRun.begin(config, config.stash[OPTIONS], cells, filtered=filtered)
        # What was loaded stays to the end: no collection has to look at it again (a tenth of the CPU). What a cell makes is
        # kept in its history, or gone at once: so it need not be looked through after every 700 objects (a twentieth).
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
    """Tell a worker of xdist where the run is, and what is run."""
    hand_to_worker(node.config, node.workerinput)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker of xdist as many cells at a time as it may have in flight."""
    options = config.stash[OPTIONS]
    if options.cells == 1 or CLOCKS[options.settings.clock].jumps:
        return None
    from conformance.suite.chunks import ChunkScheduling  # xdist need not be installed

    return ChunkScheduling(config, log, options.cells)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what a cell's reports show, before any reporter looks."""
    report = yield
    if isinstance(item, CellItem) and call.when == "call" and item.told is not None:
        allure_content.describe_cell(item.told.material, remark=item.told.remark)
        item.told = None  # a history may be large, and it is written
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Tell the five verdicts apart in the terminal."""
    outcome = outcome_of(report) if isinstance(report, pytest.TestReport) else None
    if outcome is None:
        return None
    words = OUTCOME_DISPLAY[outcome]
    return words.category, words.letter, words.category.upper()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the run's footer, after the last worker of xdist has ended."""
    config = session.config
    directory = config.stash.get(DIRECTORY, None)
    interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
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
    """Print the matrix and where everything is."""
    directory = config.stash[DIRECTORY]
    if not runs_nothing(config) and (directory / RUN_FILE).exists():
        summarise(directory, terminalreporter, allure_results(config), config.stash[OPTIONS].baselines)
