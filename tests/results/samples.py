"""Headers, events and verdicts to write: one small cell, in which one message is shadowed and delivered."""

from conformance.history.events import AnyEvent, Command, Connected, Delivered, Drained, Reply
from conformance.history.values import Digest
from conformance.results.schema import CandidateRecord, CellHeader, RunHeader
from conformance.verdicts import Outcome, Verdict

DIGEST = Digest(size=120, sha256="a" * 64, body_sha256="b" * 64, stable_sha256="c" * 64, message_id="m1@outside.test")

EVENTS: tuple[AnyEvent, ...] = (
    Connected(n=0, t=0.0, session="s1", client="outside", server="mbx1", listener="frontend"),
    Command(n=1, t=0.001, session="s1", verb="MAIL", line="MAIL FROM:<a\u2028\x1b[31m\r\n@outside.test>"),
    Reply(n=2, t=0.002, session="s1", to="MAIL", code=250, enhanced="2.1.0", lines=("2.1.0 ok", "\x00 \u202e")),
    Delivered(
        n=3, t=1.5, sink="mbx1-store", giver="mbx1", recipient="b@corp.test", sender="a@outside.test", digest=DIGEST
    ),
    Drained(n=4, t=3600.0, quiet=True, waited=3598.5),
)

VERDICTS = (
    Verdict(check="expect.mailbox", outcome=Outcome.PASS, requirements=("RL-ACK-04",), occasions=1, evidence=(3,)),
    Verdict(check="invariant.content-unchanged", outcome=Outcome.FAIL, requirements=("RL-CNT-01",), sentence="changed"),
)


def run_header(run: str = "r1", *, cells: int = 1, suite: str = "5" * 64, seed: int = 1) -> RunHeader:
    """Return the header of a run of the reference."""
    return RunHeader(
        run=run,
        started="2026-01-02T03:04:05Z",
        seed=seed,
        clock="virtual",
        candidates=(CandidateRecord(name="reference", kind="python", version="1", sha256="d" * 64, claims=("relay",)),),
        suite_sha256=suite,
        environment_sha256="e" * 64,
        command=("conformance", "run"),
        cells_planned=cells,
    )


def cell_header(
    nodeid: str = "a.scenario.yaml::one[x=1]", *, run: str = "r1", scenario_sha256: str = "5" * 64
) -> CellHeader:
    """Return the header of a cell."""
    return CellHeader(
        run=run,
        nodeid=nodeid,
        scenario="one",
        path="a.scenario.yaml",
        axes={"x": "1"},
        candidate="reference",
        scenario_sha256=scenario_sha256,
        candidate_sha256="d" * 64,
        environment_sha256="e" * 64,
        seed=1,
        clock="virtual",
        started="2026-01-02T03:04:05Z",
        topology={"name": "two", "servers": [{"name": "mbx1", "site": "NewYork", "dag": None}]},
    )
