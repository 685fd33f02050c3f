"""A power cut in a scenario: a server that syncs before it acknowledges passes, another fails, on each kind of disk."""

from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.lookup import find_candidate
from conformance.execute import judge
from conformance.history.events import NodeEvent
from conformance.judge.incremental import IncrementalJudge
from conformance.nodes.disks import layer, loop
from conformance.nodes.disks.node_disk import NodeDisk
from conformance.run.cell import CellRunner
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.loader import read_scenarios
from conformance.scenarios.steps.nodes import SurvivingNames
from conformance.verdicts import Outcome

UNSYNCED = """
import sys
from conformance.reference.node import Node
start = Node.start
async def start_without_sync(node):
    await start(node)
    await node._db.commit()
    node._db._connection.execute("PRAGMA synchronous = OFF")
Node.start = start_without_sync
from conformance.reference.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The reference, except that it acknowledges messages that it has not synced."""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        bool(layer.unavailable_reason()), reason=layer.unavailable_reason() or "-"
    ),  # the shifted clock needs it as well
]


@pytest.fixture(
    params=[
        "layer",
        pytest.param("loop", marks=pytest.mark.skipif(bool(loop.unavailable_reason()), reason="needs root")),
    ]
)
def disk_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "layer":
        monkeypatch.setattr(loop, "unavailable_reason", lambda: "needs root")
    kind: str = request.param
    return kind


@pytest.mark.parametrize("syncs", [True, False])
def test_a_power_cut_loses_acknowledged_mail_only_of_a_server_without_sync(
    tmp_path: Path, disk_kind: str, monkeypatch: pytest.MonkeyPatch, syncs: bool
) -> None:
    cut_by: list[str] = []
    cut_power = NodeDisk.cut_power

    async def noting(disk: NodeDisk, surviving: SurvivingNames) -> None:
        cut_by.append("loop" if disk._loop else "layer")
        await cut_power(disk, surviving)

    monkeypatch.setattr(NodeDisk, "cut_power", noting)
    corpus = read_scenarios(paths.corpus() / "faults" / "disks.scenario.yaml", paths.fixtures())
    cell = next(cell for scenario in corpus for cell in scenario.cells() if cell.id.endswith("synced[messages=1]"))
    candidate = find_candidate("exec:reference", Path())
    if not syncs:
        program = tmp_path / "unsynced.py"
        program.write_text(UNSYNCED)
        candidate = candidate.model_copy(update={"argv": ("{python}", str(program), "--config", "{config}")})
    assignment, settings = Assignment(candidate), Settings(clock="shifted")
    ran = run_without_loop(CellRunner(cell, assignment, settings, tmp_path, IncrementalJudge()).run(OWN_LOOP))
    assert ran.problem == ""
    assert cut_by == [disk_kind]
    assert any(isinstance(e, NodeEvent) and e.detail.startswith("power cut") for e in ran.events)
    verdicts = judge(cell, assignment, settings, ran.events, complete=True)
    # the rules of the model see the same loss in their own ways
    failed = {v.check for v in verdicts if v.outcome is Outcome.FAIL and not v.check.startswith("model.")}
    about_loss = {"expect.delivered", "invariant.nothing-acknowledged-is-lost"}
    assert failed == (set() if syncs else about_loss)
    assert not syncs or about_loss <= {v.check for v in verdicts if v.outcome is Outcome.PASS}
