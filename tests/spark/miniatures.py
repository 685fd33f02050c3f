"""The judge's miniatures as a run: histories written by hand, with the verdicts that the judge gives them."""

from pathlib import Path

from conformance.results.schema import CandidateRecord, CellHeader, RunHeader
from conformance.results.writer import CellWriter, begin_run, finish_run
from conformance.verdicts import worst_in_cell
from tests.judge.miniature import Miniature, miniatures

UNSEEN = {
    "invariant.two-copies-at-acknowledgement::vacuous: the only other server offers it no shadow": "not-applicable",
    "invariant.nothing-acknowledged-is-lost::good: its time was up, and then that of its report": "pass",
    "invariant.nothing-acknowledged-is-lost::good: it was refused, and so was its report before it named a recipient": "pass",
    "invariant.nothing-acknowledged-is-lost::good: the hop announces a smaller SIZE, and the reverse-path is null": "pass",
    "model.RL-BDA-02::good: an empty last chunk behind the last one is refused": "pass",
}
"""The histories that the second oracle judges otherwise, with the recorded outcome: its layers hold neither the replies to EHLO nor
the lifetime of messages, nor refused reports, nor that a message had ended before a last chunk.
"""

STARTED = "2026-01-01T00:00:00Z"


def make_miniatures(run_dir: Path) -> Path:
    """Write all miniatures of whole histories into a run directory, and return it."""
    chosen = [one for one in miniatures() if one.setting.complete]
    candidate = CandidateRecord(name="miniature", kind="python", sha256="c" * 64)
    header = RunHeader(
        run=run_dir.name, started=STARTED, seed=1, clock="virtual", candidates=(candidate,), suite_sha256="5" * 64,
        environment_sha256="e" * 64, cells_planned=len(chosen),
    )  # fmt: skip
    begin_run(run_dir, header)
    for number, one in enumerate(chosen):
        _write(run_dir, number, one)
    finish_run(run_dir, wall_seconds=1)
    return run_dir


def _write(run_dir: Path, number: int, one: Miniature) -> None:
    header = CellHeader(
        run=run_dir.name, nodeid=f"{one.file}.yaml::{one.check}::{one.kind}: {one.title}", scenario=f"miniature-{number}",
        path="miniature.yaml", candidate="miniature", generations=("ex2016",), requirements=("RL-ACK-02",),
        scenario_sha256="5" * 64, candidate_sha256="c" * 64, environment_sha256="e" * 64, seed=1, clock="virtual",
        started=STARTED, topology=one.cell.topology.model_dump(mode="json", by_alias=True),
        claims=tuple(sorted(one.setting.claims)),
    )  # fmt: skip
    verdicts = [verdict for verdict in one.all_verdicts() if verdict.check.startswith("invariant.")]
    with CellWriter(run_dir, header) as writer:
        for event in one.history.events:
            writer.add_event(event)
        for verdict in verdicts:
            writer.write_verdict(verdict)
        writer.finish(
            worst_in_cell(verdict.outcome for verdict in verdicts),
            "",
            wall_seconds=0,
            cpu_seconds=0,
            simulated_seconds=0,
        )
