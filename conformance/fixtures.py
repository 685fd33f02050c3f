"""Fixtures for tests outside this project, and nothing else: no option, no collection of scenario files.

`pytest_plugins = ["conformance.fixtures"]` in a conftest.py makes them available (docs/your-own-tests.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conformance.clocks import ClockName
    from conformance.execute import CellResult
    from conformance.testing import MailBench, MailLink, MailNode, MailSink

    RunScenario = Callable[..., tuple[CellResult, ...]]


@pytest.fixture
def run_scenario(tmp_path: Path) -> RunScenario:
    """A function that runs all cells of a scenario file against a candidate, and returns their results in the file's order.

    `run_scenario(file, candidate="reference", clock=..., allow_hosts=[...], scale=..., seed=...)`: `candidate` has the syntax
    of `--candidate`; `allow_hosts` are the hosts other than this machine at which candidates may be; the other keywords are the fields of `conformance.run.settings.Settings`. As on the command line, a clock that is not named is the
    first one that suits the candidate, with its own default scale. The run directory is `run` in the test's `tmp_path`. A
    result has an `outcome` ("pass", "fail", "inconclusive", "not-applicable" or "error"), `verdicts`, `events`, the `file` of
    its history, and the `logs` of the nodes. Raises InvalidFile; CandidateError, also for a clock that does not suit the candidate,
    and for a host that is not allowed.
    """

    def run(
        file: str | Path,
        candidate: str = "reference",
        clock: ClockName | None = None,
        *,
        allow_hosts: Collection[str] = (),
        **settings: object,
    ) -> tuple[CellResult, ...]:
        """Run all cells of the file, one after another, and return their results."""
        # These imports are slow, and many test sessions run no scenario.
        from conformance import paths
        from conformance.candidates.assignment import check_hosts, choose_clock, read_assignment
        from conformance.candidates.cell_needs import cells_for
        from conformance.clocks import default_scale
        from conformance.execute import execute
        from conformance.records import cell_header, item_name
        from conformance.results.fingerprints import environment_sha256
        from conformance.run.cell_loop import run_without_loop
        from conformance.run.settings import Settings
        from conformance.scenarios.loader import read_corpus
        from conformance.testing import ALLOW_HOSTS

        named = read_assignment(candidate, paths.fixtures() / "candidates")
        check_hosts(named.candidates, allow_hosts, ALLOW_HOSTS)
        chosen_clock, (assignment,) = choose_clock([named], clock)
        chosen = Settings(**{"clock": chosen_clock, "scale": default_scale(chosen_clock), **settings})  # type: ignore[arg-type]  # the caller's keywords are not checked statically
        results = []
        for scenario in read_corpus([Path(file)], paths.fixtures()):
            for cell in cells_for(scenario, chosen.grid, assignment):
                name = f"{Path(file).name}::{cell.id}::{item_name(cell, assignment)}"
                header = cell_header(
                    cell, assignment, chosen, run="run", nodeid=name, environment_sha256=environment_sha256(), repeat=""
                )
                results.append(run_without_loop(execute(cell, assignment, chosen, header, tmp_path / "run")))
        return tuple(results)

    return run


@pytest.fixture
def mail_bench() -> Iterator[MailBench]:
    """An object that makes sinks and links: `mail_bench.sink(name, "smtp" or "lmtp")`, `mail_bench.link(name, (host, port))`.

    All are closed after the test. The first exception that a sink met is raised then.
    """
    from conformance.testing import MailBench

    bench = MailBench()
    try:
        yield bench
    finally:
        bench.close()


@pytest.fixture
def smtp_sink(mail_bench: MailBench) -> MailSink:
    """An SMTP server that accepts all mail unless `answer` or `fault` says otherwise; see `conformance.testing.MailSink`."""
    return mail_bench.sink("smtp-sink", "smtp")


@pytest.fixture
def lmtp_sink(mail_bench: MailBench) -> MailSink:
    """An LMTP server (RFC 2033), which answers for each recipient; otherwise like `smtp_sink`."""
    return mail_bench.sink("lmtp-sink", "lmtp")


@pytest.fixture
def smtp_link(mail_bench: MailBench) -> Callable[[str, int], MailLink]:
    """A function that opens a link to a running server: `smtp_link(host, port)` returns it.

    A client dials the link's own `host` and `port`; what passes is recorded, and `fault` breaks it.
    """
    return lambda host, port: mail_bench.link(f"server-{port}", (host, port))


@pytest.fixture
def mail_node(tmp_path: Path) -> Iterator[Callable[..., MailNode]]:
    """A function that starts a mail server by the name or file of its description: `mail_node("postfix")` returns the server.

    It has a `host` and `port`, and a sink `next_hop` to which it relays all mail, unless `mail_node("postfix", next_hop=(host, port))`
    names another server. It can be killed and started again. A description with a host that is not this machine needs
    `mail_node("mine.yaml", allow_hosts=["mail.example.test"])`; without it CandidateError is raised.
    """
    from conformance.testing import MailNodes

    nodes = MailNodes(tmp_path / "nodes")
    try:
        yield nodes.start
    finally:
        nodes.close()
