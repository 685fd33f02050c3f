"""Made-up run directories: seeded, as big as wanted, with the misbehaviour that is asked for.

Each cell is a small world: messages from outside for a mailbox, shadowed by a second server, delivered, discarded.
A *defect* makes exactly one thing of it wrong, and is named after the invariant that must find it.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.history.events import (
    AnyEvent,
    Attempt,
    Closed,
    Command,
    Connected,
    ConnectFailed,
    Content,
    Delivered,
    Drained,
    FaultFired,
    MessageMade,
    NodeEvent,
    Reply,
)
from conformance.history.recorder import Recorder
from conformance.history.values import Digest, Operation
from conformance.results.schema import CandidateRecord, CellHeader, RunHeader
from conformance.results.writer import CellWriter, begin_run, finish_run
from conformance.verdicts import Outcome, Verdict, worst_in_cell

DEFECTS = (
    "nothing-acknowledged-is-lost",
    "two-copies-at-acknowledgement",
    "shadow-inside-boundary",
    "no-discard-before-delivery",
    "no-duplicate-in-mailbox",
    "no-duplicate-without-cause",
    "content-unchanged",
    "one-final-reply",
)

TOPOLOGY: dict[str, Any] = {
    "name": "synthetic",
    "servers": [
        {"name": "mbx1", "generation": "ex2016", "role": "mailbox", "site": "NewYork", "dag": "DAG1"},
        {"name": "mbx2", "generation": "ex2016", "role": "mailbox", "site": "London", "dag": "DAG1"},
        {"name": "mbx3", "generation": "ex2016", "role": "mailbox", "site": "London", "dag": None},
    ],
    "mailboxes": [{"address": "bob@corp.test", "database": "DB1", "server": "mbx1"}],
    "sinks": [{"name": "outside", "domains": ["*"]}],
}


class _ManualClock:
    """A clock that moves only when its `now` is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def elapsed(self) -> float:
        return self.now


@dataclass
class World:
    """Makes the history of one cell."""

    random: random.Random
    defect: str | None = None
    messages: int = 3
    excused: bool = False
    starved: bool = False
    _clock: _ManualClock = field(default_factory=_ManualClock)
    _sessions: int = 0

    def history(self) -> Sequence[AnyEvent]:
        """Make it."""
        self._recorder = Recorder(self._clock)
        if self.excused:
            self._excuse()
        for number in range(1, self.messages + 1):
            self._one_message(number, self.defect if number == self.messages else None)
        if self.excused and self.defect == "nothing-acknowledged-is-lost":  # SR-BND-09: both servers lost their queues
            for node in ("mbx1", "mbx2"):
                self._record(NodeEvent, node=node, action="wiped")
        if self.starved:
            self._record(NodeEvent, node="mbx1", action="starved", detail="no process could be started")
        self._record(Drained, quiet=True, waited=300.0)
        return self._recorder.events

    def _excuse(self) -> None:
        """Record, before anything else, what excuses the defect."""
        match self.defect:
            case "two-copies-at-acknowledgement":  # SR-ENA-03: no shadow could be made
                self._record(ConnectFailed, client="mbx1", server="mbx2", listener="transport", reason="refused")

    def _one_message(self, number: int, defect: str | None) -> None:
        name, key = f"m#{number}", f"{number}.{self.random.getrandbits(40):x}@outside.test"
        recipient = "victor@away.test" if defect == "no-duplicate-without-cause" else "bob@corp.test"
        digest = self._digest(key)
        self._record(
            MessageMade, message=name, message_id=key, sender="a@outside.test", recipients=(recipient,), digest=digest
        )
        session = self._open("outside", "mbx1", "frontend")
        self._send(session, recipient, digest)
        holder = "mbx3" if defect == "shadow-inside-boundary" else "mbx2"
        shadow_id = f"S{number}"
        late = defect == "two-copies-at-acknowledgement"
        if not late:
            self._shadow(holder, shadow_id, recipient, digest)
        if defect == "shadow-inside-boundary":
            self._shadow("mbx2", f"{shadow_id}b", recipient, digest)
        self._final(session)
        if defect == "one-final-reply":
            self._final(session)
        self._close(session)
        self._record(
            Attempt, message=name, attempt=1, client="outside", server="mbx1", listener="frontend", session=session,
            outcome="answered", code=250, accepted=(recipient,), dot_sent=True,
        )  # fmt: skip
        if late:
            self._shadow(holder, shadow_id, recipient, digest)
        early = defect == "no-discard-before-delivery"
        if early:
            self._discard("mbx2", shadow_id)
        copies = {"nothing-acknowledged-is-lost": 0, "no-duplicate-in-mailbox": 2, "no-duplicate-without-cause": 2}
        for place in range(copies.get(defect or "", 1)):
            if place and self.excused:
                self._record(NodeEvent, node="mbx1", action="killed")
            self._deliver(recipient, self._digest(key, b"x") if defect == "content-unchanged" else digest)
        if not early and defect != "nothing-acknowledged-is-lost":
            self._discard(holder, shadow_id)

    def _shadow(self, holder: str, shadow_id: str, recipient: str, digest: Digest) -> None:
        session = self._open("mbx1", holder, "transport")
        asked = Operation(name="request-shadow", server="mbx1", database="D1")
        self._command(session, "XSHADOWREQUEST", "XSHADOWREQUEST mbx1 D1", operation=asked)
        given = Operation(name="request-shadow", server=holder, database="D2")
        self._reply(session, "XSHADOWREQUEST", operation=given)
        self._send(session, recipient, digest, shadow_id=shadow_id)
        self._final(session, operation=Operation(name="shadow-stored"))
        self._close(session)

    def _deliver(self, recipient: str, digest: Digest) -> None:
        sink = "mbx1-store" if recipient == "bob@corp.test" else "outside"
        session = self._open("mbx1", sink, "lmtp" if sink == "mbx1-store" else "smtp")
        if self.excused and self.defect == "content-unchanged":
            self._record(FaultFired, fault="f1", action="garble", session=session, client="mbx1", server=sink)
        self._send(session, recipient, digest)
        self._record(
            Delivered, sink=sink, giver="mbx1", recipient=recipient, sender="a@outside.test", digest=digest,
            session=session,
        )  # fmt: skip
        self._final(session, recipient=recipient if sink == "mbx1-store" else None)
        self._close(session)

    def _discard(self, holder: str, shadow_id: str) -> None:
        self._pass(self.random.uniform(10, 120))
        session = self._open(holder, "mbx1", "transport")
        query = Operation(name="query-discard", server=holder, limit=100)
        self._command(session, "XQDISCARD", f"XQDISCARD {holder} 100", operation=query)
        listed = Operation(name="discard-list", database="D1", shadow_ids=(shadow_id,), left=0)
        self._reply(session, "XQDISCARD", operation=listed)
        self._close(session)

    def _send(self, session: str, recipient: str, digest: Digest, shadow_id: str | None = None) -> None:
        marked = Operation(name="shadow-message", shadow_id=shadow_id) if shadow_id else None
        self._command(session, "MAIL", "MAIL FROM:<a@outside.test>", operation=marked)
        self._command(session, "RCPT", f"RCPT TO:<{recipient}>")
        self._command(session, "DATA", "DATA")
        self._reply(session, "MAIL")
        self._reply(session, "RCPT")
        self._reply(session, "DATA", code=354)
        self._record(Content, session=session, digest=digest)

    def _final(self, session: str, **more: Any) -> None:
        self._pass(self.random.expovariate(50))
        self._reply(session, "CONTENT", **more)

    def _open(self, client: str, server: str, listener: str) -> str:
        self._sessions += 1
        session = f"s{self._sessions}"
        self._record(Connected, session=session, client=client, server=server, listener=listener)
        self._reply(session, "GREETING", code=220)
        return session

    def _close(self, session: str) -> None:
        self._record(Closed, session=session, by="client", how="fin")

    def _command(self, session: str, verb: str, line: str, **more: Any) -> None:
        self._record(Command, session=session, verb=verb, line=line, **more)

    def _reply(self, session: str, to: str, *, code: int = 250, **more: Any) -> None:
        self._record(Reply, session=session, to=to, code=code, lines=("ok",), **more)

    def _record(self, kind: Any, **fields: Any) -> None:
        self._pass(0.0005)
        self._recorder.record(kind, **fields)

    def _pass(self, seconds: float) -> None:
        self._clock.now += seconds

    def _digest(self, key: str, change: bytes = b"") -> Digest:
        mark = f"{key}{change.decode()}"
        return Digest(
            size=900, sha256=mark, body_sha256=mark, stable_sha256=mark, message_id=key, date="2026-01-02T03:04:05Z"
        )


def verdicts_of(defect: str | None, *, agree: bool = True) -> tuple[Verdict, ...]:
    """Return a verdict for each invariant, as an honest judge would give it (or, not agreeing, as a blind one)."""
    return tuple(
        Verdict(
            check=f"invariant.{name}",
            outcome=Outcome.FAIL if name == defect and agree else Outcome.PASS,
            requirements=("RL-ACK-01",),
            sentence=f"{name} is violated" if name == defect else "",
            evidence=(1,),
            occasions=1,
        )
        for name in DEFECTS
    )


REMARK = Verdict(
    check="invariant.polite", outcome=Outcome.PASS, requirements=("SR-HB-01",), sentence="a should is broken",
    evidence=(4, 2), message="m#1", moment=0.5, remark=True,
)  # fmt: skip


@dataclass(frozen=True)
class MadeCell:
    """A cell to make: `cut` leaves its footer away; `excused` has a reason for its defect, `waived` says it is none,
    `starved` ran out of something; `remark` adds a broken `should`."""

    name: str
    defect: str | None = None
    agree: bool = True
    cut: bool = False
    excused: bool = False
    waived: bool = False
    starved: bool = False
    scenario_sha256: str = "5" * 64
    messages: int = 3
    axes: dict[str, str] = field(default_factory=dict)
    remark: bool = False


def make_run(
    run_dir: Path,
    cells: Sequence[MadeCell],
    *,
    seed: int = 1,
    started: str = "2026-01-01T00:00:00Z",
    candidate_sha256: str = "c" * 64,
    environment_sha256: str = "e" * 64,
    version: str = "unknown",
    whole: bool = True,
) -> Path:
    """Write a run directory; without `whole` it has no footer, as if the run had been killed."""
    candidate = CandidateRecord(
        name="made-up",
        kind="python",
        version=version,
        sha256=candidate_sha256,
        claims=("duplicate-detection", "shadow-2013"),
    )
    begin_run(
        run_dir,
        RunHeader(
            run=run_dir.name, started=started, seed=seed, clock="virtual", candidates=(candidate,),
            suite_sha256="5" * 64, environment_sha256=environment_sha256, cells_planned=len(cells),
        ),
    )  # fmt: skip
    for cell in cells:
        header = CellHeader(
            run=run_dir.name, nodeid=f"made.scenario.yaml::{cell.name}", scenario=cell.name.partition("[")[0],
            axes=cell.axes, path="made.scenario.yaml", candidate="made-up", generations=("ex2016",), requirements=("RL-ACK-01",),
            scenario_sha256=cell.scenario_sha256, candidate_sha256=candidate_sha256,
            environment_sha256=environment_sha256, seed=seed, clock="virtual", started=started, topology=TOPOLOGY,
            waive={cell.defect: "made so"} if cell.waived and cell.defect else {},
        )  # fmt: skip
        world = World(random.Random(f"{seed} {cell.name}"), cell.defect, cell.messages, cell.excused, cell.starved)
        verdicts = verdicts_of(cell.defect, agree=cell.agree) + (REMARK,) * cell.remark
        with CellWriter(run_dir, header) as writer:
            for event in world.history():
                writer.add_event(event)
            for verdict in verdicts:
                writer.write_verdict(verdict)
            if not cell.cut:
                outcome = worst_in_cell(verdict.outcome for verdict in verdicts)
                writer.finish(outcome, "", wall_seconds=0.01, cpu_seconds=0.01, simulated_seconds=300)
    if whole:
        finish_run(run_dir, wall_seconds=1.0)
    return run_dir
