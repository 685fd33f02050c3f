"""`conformance run`: pytest with the plugin, the corpus by default, and exit codes that tell why."""

import shutil
from pathlib import Path

import pytest
import typer

from conformance import paths
from conformance.commands.cluster import is_asked, run_on_cluster
from conformance.shortage import describe_harness_error
from conformance.suite.collect import explain_empty
from conformance.suite.item import outcome_of
from conformance.suite.options import options_help
from conformance.suite.run_directory import ALLURE_BY_DEFAULT
from conformance.verdicts import Outcome

USAGE, UNJUDGED, VIOLATED = 2, 3, 1

HELP = """usage: conformance run [PATH | ID ...] [OPTIONS] [any option of pytest]

Run scenarios: files, folders, or cells by the ids that `conformance list` prints; without any, the corpus of the harness.

{options}
on a cluster, at the virtual clock:
  --spark MASTER        let a cluster run the cells
  --conf spark.x=y      a setting of Spark's; repeatable

of pytest's own options (all: `conformance run --help`), often used:
  -n N                  run on N cores (pytest-xdist)
  -k EXPRESSION         only cells whose id contains words: -k "shadow and reject=yes"
  -x, -v, -q            stop at the first failure; say more; say less
  --junitxml=FILE       results as JUnit XML

Exit codes: 0 all as expected, 1 violations, 2 usage or input, 3 inconclusive or harness errors only."""


PLUGIN = ("-p", "conformance.plugin")
"""What makes pytest load the plugin, whatever its ini file says."""
_FOREIGN = ("-p", "no:hypothesispytest")
"""Plugins that may be installed beside ours, for tests in Python: this one takes 0.2 s to be loaded."""


class _Door:
    """Sets the defaults, and counts what decides the exit code."""

    def __init__(self) -> None:
        self.violations = 0
        self.unjudged = 0
        self.unread = 0
        self.empty = ""

    @property
    def code(self) -> int:
        """The exit code of a run in which anything failed: a violation before wrong input, that before the rest."""
        if self.violations:
            return VIOLATED
        if self.unread:
            return USAGE
        return UNJUDGED if self.unjudged else VIOLATED

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Let Allure's results go into the run's directory; run the corpus where no path is given, and of a file with a
        wrong document the others."""
        config.stash[ALLURE_BY_DEFAULT] = True
        config.option.continue_on_collection_errors = True
        if config.args_source is not config.ArgsSource.ARGS:
            config.args[:] = [str(paths.corpus())]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Keep why there was no cell."""
        self.empty = explain_empty(session.config)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a document that is wrong, or a file that cannot be read."""
        self.unread += report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a report that failed."""
        if report.failed:
            outcome = outcome_of(report)
            violated = outcome is Outcome.FAIL or (outcome is None and report.when == "call")
            self.violations += violated
            self.unjudged += not violated


def run_pytest(arguments: list[str]) -> int:
    """Run pytest and return the exit code of the command."""
    if "-h" in arguments:
        typer.echo(HELP.format(options=options_help(shutil.get_terminal_size().columns)))
        return 0
    if is_asked(arguments):
        return run_on_cluster(arguments)
    door = _Door()
    # The root holds for the node ids: in them, and in the command that repeats a cell, paths begin at the start.
    words = [*PLUGIN, *_FOREIGN, "--rootdir", str(Path.cwd()), *arguments]
    try:
        code = pytest.main(words, plugins=[door])
    except Exception as error:  # noqa: BLE001  # whatever breaks, the exit code says that it was no violation
        typer.echo(describe_harness_error(error), err=True)
        return VIOLATED if door.violations else UNJUDGED
    match code:
        case pytest.ExitCode.OK:
            return 0
        case pytest.ExitCode.TESTS_FAILED:
            return door.code
        case pytest.ExitCode.INTERNAL_ERROR:
            return UNJUDGED
        case pytest.ExitCode.NO_TESTS_COLLECTED:
            typer.echo(door.empty)
    return USAGE
