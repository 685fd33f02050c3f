"""Scenarios exported from stored cells: the loader accepts them, and without faults the reference answers as recorded."""

from dataclasses import replace
from pathlib import Path

import pytest

from conformance import paths
from conformance.export.scenario import NoSession, as_scenario
from conformance.history.events import Connected, FaultFired
from conformance.results.reader import StoredCell, read_run
from conformance.scenarios.loader import read_corpus
from conformance.verdicts import Outcome
from tests.suite.helpers import conformance_command

pytestmark = pytest.mark.integration


def undisturbed(cell: StoredCell) -> bool:
    """Whether the cell is the reference's, and no fault or kill had an influence on the replies."""
    return cell.header.candidate == "reference" and not any(
        isinstance(event, FaultFired) or (event.kind == "node" and event.action == "killed") for event in cell.events
    )


def write_scenarios(cells: list[StoredCell], folder: Path) -> None:
    """Write the scenario of each cell, with an id of its own, into a folder."""
    for number, cell in enumerate(cells):
        text = as_scenario(cell).replace(b"-as-seen", f"-{number}".encode(), 1)
        (folder / f"{number}.scenario.yaml").write_bytes(text)


@pytest.mark.long
def test_the_loader_accepts_every_exported_scenario(cells: list[StoredCell], tmp_path: Path):
    write_scenarios(cells, tmp_path)
    scenarios = read_corpus([tmp_path], paths.fixtures())
    assert [str(problem) for scenario in scenarios for problem in scenario.problems] == []
    assert [len(scenario.cells()) for scenario in scenarios] == [1] * len(cells)


@pytest.mark.long
def test_the_reference_answers_an_undisturbed_cells_scenario_as_recorded(cells: list[StoredCell], tmp_path: Path):
    chosen = [cell for cell in cells if undisturbed(cell)][::4]
    assert len(chosen) > 3
    write_scenarios(chosen, tmp_path)
    ran = conformance_command(
        "run", str(tmp_path), "--candidate", "reference", "--should", "fail", "--run-dir", "run", cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stdout
    footer = read_run(tmp_path / "run").footer
    assert footer is not None
    assert footer.outcomes[Outcome.PASS] == len(chosen)


@pytest.mark.long
def test_a_reply_that_differs_from_the_recorded_one_fails(cells: list[StoredCell], tmp_path: Path):
    text = next(text for text in map(as_scenario, filter(undisturbed, cells)) if b"code: 354" in text)
    assert b"enhanced: 2.1.0" in text
    (tmp_path / "code.scenario.yaml").write_bytes(text.replace(b"code: 354", b"code: 451", 1))
    other = text.replace(b"-as-seen", b"-enhanced", 1).replace(b"enhanced: 2.1.0", b"enhanced: 2.1.9", 1)
    (tmp_path / "enhanced.scenario.yaml").write_bytes(other)
    ran = conformance_command(
        "run", str(tmp_path), "--candidate", "reference", "--should", "fail", "--run-dir", "run", cwd=tmp_path
    )
    assert ran.returncode == 1, ran.stdout
    assert "expected 451, but 354 " in ran.stdout
    assert "expected enhanced status code 2.1.9, but 250 2.1.0 " in ran.stdout


def test_parameters_of_a_run_that_did_not_record_them_are_those_of_its_topology(
    cells: list[StoredCell], tmp_path: Path
):
    cell = cells[0]
    first, *others = cell.header.topology["servers"]
    assert others
    own = {"ShadowHeartbeatFrequency": 88, "MessageRetryInterval": 66}
    topology = {
        **cell.header.topology,
        "transport": {"ShadowHeartbeatFrequency": 77},
        "servers": [{**first, "transport": own}, *others],
    }
    header = cell.header.model_copy(update={"topology": topology, "parameters": {}})
    (tmp_path / "one.scenario.yaml").write_bytes(as_scenario(replace(cell, header=header)))
    (scenario,) = read_corpus([tmp_path], paths.fixtures())
    (exported,) = scenario.cells()
    for_all = {"ShadowHeartbeatFrequency": 77}
    assert {server.name: server.transport for server in exported.topology.servers} == {
        first["name"]: own,
        **{other["name"]: for_all for other in others},
    }
    recorded = {
        server.name: {**server.transport, "ShadowHeartbeatFrequency": 55} for server in exported.topology.servers
    }
    header = header.model_copy(update={"parameters": recorded})
    (tmp_path / "one.scenario.yaml").write_bytes(as_scenario(replace(cell, header=header)))
    ((exported,),) = (one.cells() for one in read_corpus([tmp_path], paths.fixtures()))
    assert {server.transport.get("ShadowHeartbeatFrequency") for server in exported.topology.servers} == {55}


def test_a_cell_without_a_session_of_the_harness_is_refused(cells: list[StoredCell]):
    silent = replace(
        cells[0], events=tuple(e for e in cells[0].events if not (isinstance(e, Connected) and e.client == "outside"))
    )
    assert 0 < len(silent.events) < len(cells[0].events)
    assert as_scenario(cells[0])
    with pytest.raises(NoSession, match="held no session"):
        as_scenario(silent)
