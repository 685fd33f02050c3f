"""`conformance run`: pytest with the conformance plugin, the corpus by default, and exit codes that say why a run failed."""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import typer

from conformance import paths
from conformance.commands.shards import run_on_cluster, wants_cluster
from conformance.operating_system import CAN_RUN_CELLS, NEEDS_LINUX
from conformance.shortage import describe_harness_error
from conformance.suite.collect import explain_empty
from conformance.suite.item import outcome_of
from conformance.suite.options import options_help
from conformance.suite.run_directory import ALLURE_BY_DEFAULT
from conformance.suite.workflow_commands import stop_workflow_commands
from conformance.verdicts import Outcome

USAGE, UNJUDGED, VIOLATED = 2, 3, 1
OUTPUT_CLOSED = 128 + signal.SIGPIPE
"""The exit code that a shell gives to a program that SIGPIPE ended."""

HELP = """usage: conformance run [PATH | ID ...] [OPTIONS] [any option of pytest]

Run scenarios: files, folders, or cells by the ids that `conformance list` prints; without any, the corpus of the harness.

{options}
on a Spark cluster, with the virtual clock:
  --spark MASTER        run the cells on a Spark cluster
  --conf spark.x=y      a Spark setting; repeatable

often used options of pytest (all of them: `conformance run --help`):
  -n N                  run on N cores (pytest-xdist)
  -k EXPRESSION         only cells whose id contains words: -k "shadow and reject=yes"
  -x, -v, -q            stop at the first failure; print more; print less
  --junitxml=FILE       results as JUnit XML

Exit codes: 0 all as expected, 1 violations, 2 usage or input, 3 inconclusive or harness errors only."""


PLUGIN = ("-p", "conformance.plugin")
"""Makes pytest load the plugin, whatever its ini file says."""
_WITHOUT_SLOW_PLUGINS = ("-p", "no:hypothesispytest")
"""Hypothesis' plugin, where it is installed, takes 0.2 s to load and has nothing to do with scenarios."""


class _ExitCodePlugin:
    """A pytest plugin that sets the command's defaults, and counts the failures that decide its exit code.

    `violations` counts cells that failed, and failed tests of other kinds; `unjudged` cells that could not be judged;
    `invalid` documents and files that cannot be collected. `empty_reason` says after the run why no cell was collected.
    """

    def __init__(self) -> None:
        self.violations = 0
        self.unjudged = 0
        self.invalid = 0
        self.empty_reason = ""

    @property
    def exit_code(self) -> int:
        """The exit code of a run with failures: 1 for any violation, else 2 for any invalid document, else 3.

        Failures of which none was counted here give 1.
        """
        if self.violations:
            return VIOLATED
        if self.invalid:
            return USAGE
        return UNJUDGED if self.unjudged else VIOLATED

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Set the defaults of the command before pytest begins.

        Allure's results go into the run directory, the corpus is run where no path is given, and the valid documents of a file are
        run although it also has invalid ones.
        """
        config.stash[ALLURE_BY_DEFAULT] = True
        config.option.continue_on_collection_errors = True
        if config.args_source is not config.ArgsSource.ARGS:
            config.args[:] = [str(paths.corpus())]

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Keep GitHub Actions from executing lines of the output as its workflow commands; pytest's reporter exists by now."""
        stop_workflow_commands(config, os.environ)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Remember the message for the case that no cell was collected."""
        self.empty_reason = explain_empty(session.config)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count an invalid document, or a file that cannot be read."""
        self.invalid += report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a failed cell, as a violation or as not judged. A failed test without a cell counts as a violation.

        A failure outside the call phase (setup, teardown) counts as not judged.
        """
        if report.failed:
            outcome = outcome_of(report)
            violated = outcome is Outcome.FAIL or (outcome is None and report.when == "call")
            self.violations += violated
            self.unjudged += not violated


def run_pytest(arguments: list[str]) -> int:
    """Run pytest, in this process or with `--spark` on a cluster, and return the exit code of the command. Blocks.

    0: all is as expected; 1: violations; 2: wrong usage or input, an interrupted run, or no cell; 3: only cells that could not be
    judged and errors of the harness; 141: nothing reads the output any more. `-h` prints the help instead, and returns 0.
    """
    if "-h" in arguments:
        typer.echo(HELP.format(options=options_help(shutil.get_terminal_size().columns)))
        return 0
    if wants_cluster(arguments):
        return run_on_cluster(arguments)
    if not CAN_RUN_CELLS:
        typer.echo(NEEDS_LINUX, err=True)
        return USAGE
    plugin = _ExitCodePlugin()
    # Node ids, and the commands that repeat a cell, have paths relative to pytest's root.
    words = [*PLUGIN, *_WITHOUT_SLOW_PLUGINS, "--rootdir", str(Path.cwd()), *arguments]
    try:
        code = pytest.main(words, plugins=[plugin])
    except BrokenPipeError:  # what reads the output has ended, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OUTPUT_CLOSED
    except Exception as error:  # noqa: BLE001  # an unexpected error is not a violation
        typer.echo(describe_harness_error(error), err=True)
        return VIOLATED if plugin.violations else UNJUDGED
    match code:
        case pytest.ExitCode.OK:
            return 0
        case pytest.ExitCode.TESTS_FAILED:
            return plugin.exit_code
        case pytest.ExitCode.INTERNAL_ERROR:
            return UNJUDGED
        case pytest.ExitCode.NO_TESTS_COLLECTED:
            typer.echo(plugin.empty_reason)
    return USAGE
