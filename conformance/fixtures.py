"""Fixtures for other people's tests, and nothing else: no option, no collection of scenario files.

`pytest_plugins = ["conformance.fixtures"]` in a conftest.py makes them known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conformance.execute import CellResult
    from conformance.testing import Link, MailBench, MailNode, MailSink

    RunScenario = Callable[..., tuple[CellResult, ...]]


@pytest.fixture
def run_scenario(tmp_path: Path) -> RunScenario:
    """Run all cells of a scenario file against a candidate and return their results, in the order of the file.

    `run_scenario(file, candidate="reference", clock=..., scale=..., seed=...)`: `candidate` is what `--candidate` takes; the
    others are those of `conformance.run.settings.Settings`. What is run is written below the test's `tmp_path`, in `run`. A
    result has an `outcome` ("pass", "fail", "inconclusive", "not-applicable" or "error"), `verdicts`, `events`, the `file` of
    its history, and the `logs` of the nodes. Raises ScenarioErrors, CandidateError.
    """

    def run(file: str | Path, candidate: str = "reference", **settings: object) -> tuple[CellResult, ...]:
        # Imported here, since a test session that runs no scenario need not pay for it.
        from conformance import paths
        from conformance.candidates.assignment import read_assignment
        from conformance.execute import execute
        from conformance.records import cell_header, item_name
        from conformance.results.fingerprints import environment_sha256
        from conformance.run.cell_loop import run_without_loop
        from conformance.run.settings import Settings
        from conformance.scenarios.loader import read_corpus

        assignment = read_assignment(candidate, paths.fixtures() / "candidates")
        how = Settings(**settings)  # type: ignore[arg-type]  # what it is given is the caller's to know
        results = []
        for scenario in read_corpus([Path(file)], paths.fixtures()):
            for cell in scenario.cells(how.grid):
                name = f"{Path(file).name}::{cell.id}::{item_name(cell, assignment)}"
                header = cell_header(
                    cell, assignment, how, run="run", nodeid=name, environment_sha256=environment_sha256(), repeat=""
                )
                results.append(run_without_loop(execute(cell, assignment, how, header, tmp_path / "run")))
        return tuple(results)

    return run


@pytest.fixture
def mail_bench() -> Iterator[MailBench]:
    """Make any number of sinks and links: `mail_bench.sink(name, "smtp" or "lmtp")`, `mail_bench.link(name, (host, port))`."""
    from conformance.testing import MailBench

    bench = MailBench()
    try:
        yield bench
    finally:
        bench.close()


@pytest.fixture
def smtp_sink(mail_bench: MailBench) -> MailSink:
    """An SMTP server that takes all mail, or answers as it is told: `host`, `port`, `answer`, `fault`, `messages`, `wait_for`."""
    return mail_bench.sink("smtp-sink", "smtp")


@pytest.fixture
def lmtp_sink(mail_bench: MailBench) -> MailSink:
    """An LMTP server (RFC 2033) that takes all mail, or answers as it is told, each recipient by itself."""
    return mail_bench.sink("lmtp-sink", "lmtp")


@pytest.fixture
def smtp_link(mail_bench: MailBench) -> Callable[[str, int], Link]:
    """Lay a link to a server that runs: `smtp_link(host, port)` has a `host` and `port` to dial instead, records what passes, and
    can be broken with `fault`."""
    return lambda host, port: mail_bench.link(f"server-{port}", (host, port))


@pytest.fixture
def mail_node(tmp_path: Path) -> Iterator[Callable[[str], MailNode]]:
    """Start a mail server by the name or file of its description: `mail_node("postfix")` has a `host` and `port`, and a sink
    `next_hop` at which everything arrives. It can be killed and started again."""
    from conformance.testing import MailNodes

    nodes = MailNodes(tmp_path / "nodes")
    try:
        yield nodes.start
    finally:
        nodes.close()
