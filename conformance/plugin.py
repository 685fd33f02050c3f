"""The pytest plugin: hooks only."""

from collections.abc import Generator
from pathlib import Path

import pytest

from conformance.suite.collect import OPTIONS, ScenarioFile, collect_file
from conformance.suite.item import CellItem, outcome_of
from conformance.suite.options import add_options, read_options
from conformance.suite.outcomes import LETTERS
from conformance.suite.run import RUN, Run


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--candidate` and its company."""
    add_options(parser)


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
    config.stash[OPTIONS] = read_options(config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """Collect `*.scenario.yaml`."""
    return collect_file(file_path, parent)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin the run once it is known which cells are in it; nothing is started by `--collect-only`."""
    cells = [item for item in session.items if isinstance(item, CellItem)]
    if cells and not session.config.option.collectonly:
        run = Run.begin(session.config, session.config.stash[OPTIONS], cells)
        session.config.stash[RUN] = run


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what a cell's reports show, before any reporter looks."""
    report = yield
    if isinstance(item, CellItem) and call.when == "call" and item.result is not None:
        item.config.stash[RUN].decorate(item.nodeid, item.cell, item.cast, item.result, item.path)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Tell the five verdicts apart in the terminal."""
    outcome = outcome_of(report) if isinstance(report, pytest.TestReport) else None
    return LETTERS[outcome] if outcome is not None else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the run's footer."""
    run = session.config.stash.get(RUN, None)
    if run is not None:
        run.finish()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the matrix and where everything is."""
    run = config.stash.get(RUN, None)
    if run is not None:
        run.summarise(terminalreporter)
