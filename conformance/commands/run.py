"""`conformance run`: pytest with the plugin, the corpus by default, and exit codes that tell why."""

from pathlib import Path

import pytest
import typer

from conformance import paths
from conformance.commands.cluster import NOTHING, is_asked, run_on_cluster
from conformance.judge.verdicts import Outcome
from conformance.scenarios.loader import SUFFIX
from conformance.suite.directory import ALLURE_BY_DEFAULT
from conformance.suite.item import outcome_of

USAGE, UNJUDGED, VIOLATED = 2, 3, 1

HELP = """usage: conformance run [PATH ...] [OPTIONS] [any option of pytest]

Run scenarios; without a path, the corpus of the harness. `conformance run --help` shows all options of pytest, those
of the group "conformance of mail transports" among them: --candidate, --clock, --scale, --grid, --run-dir, --fresh,
--baseline, --seed, --shard.

--spark MASTER (and --conf spark.x=y) lets a cluster run the cells, at the virtual clock.

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

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Let Allure's results go into the run's directory; run the corpus where no path is given."""
        config.stash[ALLURE_BY_DEFAULT] = True
        if config.args_source is not config.ArgsSource.ARGS:
            config.args[:] = [str(paths.corpus())]

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
        typer.echo(HELP)
        return 0
    if is_asked(arguments):
        return run_on_cluster(arguments)
    door = _Door()
    # The root holds for the node ids: in them, and in the command that repeats a cell, paths begin at the start.
    code = pytest.main([*PLUGIN, *_FOREIGN, "--rootdir", str(Path.cwd()), *arguments], plugins=[door])
    match code:
        case pytest.ExitCode.OK:
            return 0
        case pytest.ExitCode.TESTS_FAILED:
            return VIOLATED if door.violations or not door.unjudged else UNJUDGED
        case pytest.ExitCode.INTERNAL_ERROR:
            return UNJUDGED
        case pytest.ExitCode.NO_TESTS_COLLECTED:
            typer.echo(f"{NOTHING}: name files that end in {SUFFIX}, or folders of them")
    return USAGE
