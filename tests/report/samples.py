"""Made-up cells and runs of the kind that reports are made of: realistic in shape, deterministic."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

from conformance.history.events import (
    Attempt,
    Closed,
    Command,
    Connected,
    Content,
    Delivered,
    Drained,
    FaultArmed,
    FaultFired,
    Lag,
    MessageMade,
    NodeEvent,
    Reply,
    StepEvent,
)
from conformance.history.recorder import Recorder
from conformance.history.values import Digest, Operation
from conformance.report.cell_view import CellView
from conformance.results.schema import CandidateRecord, CellHeader, RunHeader
from conformance.results.writer import CellWriter, begin_run, finish_run
from conformance.topology import Server, Topology
from conformance.verdicts import Outcome, Verdict

SOURCE = (
    "id: inbound-acknowledged-after-shadow",
    "steps:",
    "  - send: {as: m, count: 1, to: bob@corp.test, via: mbx1}",
    "  - expect: {reply: {of: m, code: 250}}",
    "  - expect: {shadow: {of: m, on: mbx2, by: mbx1, stored: before-acknowledgement}}",
    "  - kill: mbx1",
    "  - advance: 2h58m",
    "  - expect: {mailbox: {of: m, who: bob@corp.test, copies: 1, within: 1m}}",
)


class Pen:
    """Writes a history as a run would: a recorder with a clock that is moved by hand (seconds)."""

    def __init__(self) -> None:
        self.now = 0.0
        self.recorder = Recorder(self)
        self._sessions = 0

    def elapsed(self) -> float:
        return self.now

    def put(self, kind: Any, after: float = 0.001, **fields: Any) -> int:
        """Record an event and return its number."""
        self.now += after
        return int(self.recorder.record(kind, **fields).n)

    def session(self, client: str, server: str, listener: str) -> str:
        self._sessions += 1
        name = f"s{self._sessions}"
        self.put(Connected, session=name, client=client, server=server, listener=listener)
        self.put(Reply, session=name, to="GREETING", code=220, lines=(f"{server} ESMTP",))
        self.say(name, f"EHLO {client}", 250, (server, "PIPELINING", "8BITMIME", "ENHANCEDSTATUSCODES"))
        return name

    def say(self, session: str, line: str, code: int, lines: tuple[str, ...] = ("2.0.0 OK",), **operations: Any) -> int:
        verb = line.split(" ")[0].upper()
        self.put(Command, session=session, verb=verb, line=line, operation=operations.get("asked"))
        return self.put(Reply, session=session, to=verb, code=code, lines=lines, operation=operations.get("told"))

    def content(self, session: str, digest: Digest, code: int, text: str, told: Operation | None = None) -> int:
        self.put(Content, session=session, digest=digest)
        return self.put(Reply, session=session, to="CONTENT", code=code, lines=(text,), operation=told)

    def step(self, path: str, verb: str, line: int, phase: str = "began", detail: str = "") -> None:
        self.put(StepEvent, phase=phase, path=path, verb=verb, line=line, detail=detail)


def digest(name: str = "m1") -> Digest:
    return Digest(
        size=412, sha256="a" * 64, body_sha256="b" * 64, stable_sha256="c" * 64, message_id=f"<{name}@outside.test>"
    )


def early_acknowledgement(messages: int = 1, hostile: str = "OK") -> tuple[Pen, int, int]:
    """Return a history in which the 250 came before the shadow, with the numbers of the two replies of the last one."""
    pen = Pen()
    pen.put(NodeEvent, node="mbx1", action="ready")
    pen.put(NodeEvent, node="mbx2", action="ready")
    pen.put(FaultArmed, fault="slow-shadow", action="delay", links=("mbx1 -> mbx2",))
    pen.step("1", "send", 3)
    early = stored = 0
    for number in range(1, messages + 1):
        early, stored = _one_message(pen, number, hostile)
    pen.step("1", "send", 3, "ended")
    for path, verb, line in (("2", "reply", 4), ("3", "shadow", 5)):
        pen.step(path, verb, line, "reached")
        pen.step(path, verb, line, "ended")
    pen.step("4", "kill", 6)
    pen.put(NodeEvent, node="mbx1", action="killed", detail="SIGKILL")
    pen.step("4", "kill", 6, "ended")
    pen.step("5", "advance", 7)
    pen.put(StepEvent, after=2 * 3600 + 58 * 60, phase="ended", path="5", verb="advance", line=7)
    lmtp = pen.session("mbx2", "mbx2-store", "lmtp")
    pen.say(lmtp, "MAIL FROM:<alice@outside.test>", 250)
    pen.put(
        Delivered,
        sink="mbx2-store",
        giver="mbx2",
        recipient="bob@corp.test",
        sender="alice@outside.test",
        digest=digest(),
        session=lmtp,
    )
    pen.content(lmtp, digest(), 250, "2.0.0 delivered")
    pen.put(Closed, session=lmtp, by="client", how="fin")
    pen.step("6", "mailbox", 8, "reached")
    pen.step("6", "mailbox", 8, "ended")
    pen.put(Drained, quiet=True, waited=240.0)
    pen.put(Lag, seconds=0.0)
    return pen, early, stored


def _one_message(pen: Pen, number: int, hostile: str) -> tuple[int, int]:
    name, shadow_id = f"m#{number}", f"shadow-{number:04d}"
    pen.put(
        MessageMade,
        message=name,
        message_id=f"<m{number}@outside.test>",
        sender="alice@outside.test",
        recipients=("bob@corp.test",),
        digest=digest(f"m{number}"),
    )
    front = pen.session("outside", "mbx1", "frontend")
    pen.say(front, "MAIL FROM:<alice@outside.test> SIZE=412", 250, (f"2.1.0 {hostile}",))
    pen.say(front, "RCPT TO:<bob@corp.test>", 250, ("2.1.5 OK",))
    pen.say(front, "DATA", 354, ("go on",))
    early = pen.content(front, digest(f"m{number}"), 250, "2.6.0 Queued mail for delivery")
    pen.put(
        Attempt,
        message=name,
        attempt=1,
        client="outside",
        server="mbx1",
        listener="frontend",
        session=front,
        outcome="answered",
        code=250,
        accepted=("bob@corp.test",),
        dot_sent=True,
    )
    shadow = pen.session("mbx1", "mbx2", "transport")
    pen.say(
        shadow,
        "XSHADOWREQUEST mbx1 db-1",
        250,
        ("2.0.0 mbx2 db-2",),
        asked=Operation(name="request-shadow", server="mbx1", database="db-1"),
        told=Operation(name="request-shadow", server="mbx2", database="db-2"),
    )
    pen.say(
        shadow,
        f"MAIL FROM:<alice@outside.test> XSHADOW={shadow_id}",
        250,
        ("2.1.0 OK",),
        asked=Operation(name="shadow-message", shadow_id=shadow_id),
    )
    pen.say(shadow, "RCPT TO:<bob@corp.test>", 250, ("2.1.5 OK",))
    pen.say(shadow, "DATA", 354, ("go on",))
    pen.put(FaultFired, fault="slow-shadow", action="delay", session=shadow, client="mbx1", server="mbx2", detail="30s")
    pen.now += 30
    stored = pen.content(
        shadow,
        digest(f"m{number}"),
        250,
        "2.6.0 Queued mail for redundancy",
        Operation(name="shadow-stored", shadow_id=shadow_id),
    )
    pen.say(
        shadow,
        "XQDISCARD mbx2 100",
        250,
        ("2.0.0 database db-1", "2.0.0 end 0"),
        asked=Operation(name="query-discard", server="mbx2", limit=100),
        told=Operation(name="discard-list", database="db-1", left=0),
    )
    pen.say(shadow, "QUIT", 221, ("2.0.0 bye",))
    pen.put(Closed, session=shadow, by="client", how="fin")
    pen.say(front, "QUIT", 221, ("2.0.0 bye",))
    pen.put(Closed, session=front, by="client", how="fin")
    return early, stored


def early_verdict(early: int, stored: int) -> Verdict:
    return Verdict(
        check="expect.shadow",
        outcome=Outcome.FAIL,
        requirements=("SR-CRE-01", "SR-CRE-02"),
        sentence=f"Message m#1 was acknowledged (#{early}) 30 seconds before its shadow was stored (#{stored}).",
        expected="a shadow of m#1 stored on mbx2 before the final reply",
        seen="the final reply 250, and 30.013 s later the shadow",
        evidence=(early, stored),
        occasions=1,
        step="3",
        line=5,
        message="m#1",
        moment=0.02,
    )


def passed(check: str = "invariant.nothing-lost", *requirements: str) -> Verdict:
    return Verdict(check=check, outcome=Outcome.PASS, requirements=requirements or ("SR-BND-03",), occasions=1)


def material(
    *, messages: int = 1, verdicts: tuple[Verdict, ...] | None = None, hostile: str = "OK", **changes: Any
) -> CellView:
    """Return the cell of the worked example, judged as a violation unless other verdicts are given."""
    pen, early, stored = early_acknowledgement(messages, hostile)
    given = (early_verdict(early, stored), passed()) if verdicts is None else verdicts
    return CellView(
        header=cell_header(**changes),
        events=tuple(pen.recorder.events),
        verdicts=given,
        file=Path("reports/r1/cells/inbound.jsonl"),
        source=SOURCE,
    )


def cell_header(**changes: Any) -> CellHeader:
    axes = changes.pop("axes", {"messages": "1"})
    scenario = changes.pop("scenario", "inbound-acknowledged-after-shadow")
    candidate = changes.pop("candidate", "reference+acknowledges-before-shadow")
    name = ",".join([f"candidate={candidate}", *(f"{k}={v}" for k, v in axes.items())])
    path = changes.pop("path", "creation/inbound.scenario.yaml")
    nodeid = f"scenarios/{path}::{scenario}::{name}"
    fields: dict[str, Any] = {
        "run": "r1",
        "nodeid": nodeid,
        "scenario": scenario,
        "title": "Mail from outside is acknowledged only after its shadow is stored",
        "path": path,
        "axes": axes,
        "candidate": candidate,
        "generations": ("ex2016",),
        "requirements": ("SR-CRE-01", "SR-CRE-02"),
        "scenario_sha256": "5" * 64,
        "candidate_sha256": "d" * 64,
        "environment_sha256": "e" * 64,
        "seed": 7,
        "clock": "virtual",
        "started": "2026-01-02T03:04:05Z",
        "repeat": f"conformance run '{nodeid}' --candidate {candidate} --clock virtual --seed 7",
        "topology": topology().model_dump(mode="json", by_alias=True),
    }
    return CellHeader(**(fields | changes))


def topology() -> Topology:
    return Topology(name="two", servers=tuple(Server(name=n, site="NewYork", dag="DAG1") for n in ("mbx1", "mbx2")))


def run_header(run: str = "r1", *, cells: int, candidates: tuple[str, ...], **changes: Any) -> RunHeader:
    fields: dict[str, Any] = {
        "run": run,
        "started": "2026-01-02T03:04:05Z",
        "seed": 7,
        "clock": "virtual",
        "candidates": tuple(
            CandidateRecord(name=name, kind="python", version="0.1.0", sha256="d" * 64, claims=("relay", "shadow-2013"))
            for name in candidates
        ),
        "suite_sha256": "5" * 64,
        "environment_sha256": "e" * 64,
        "command": ("conformance", "run", "scenarios"),
        "cells_planned": cells,
    }
    return RunHeader(**(fields | changes))


def write_run(directory: Path, cells: tuple[CellView, ...], *, interrupted: bool = False, **changes: Any) -> Path:
    """Write a run directory of these cells through the writer that real runs use, and return it."""
    candidates = tuple(dict.fromkeys(one.header.candidate for one in cells))
    run = changes.pop("run", "r1")
    begin_run(directory, run_header(run, cells=len(cells), candidates=candidates, **changes))
    for one in cells:
        with CellWriter(directory, one.header) as writer:
            for event in one.events:
                writer.add_event(event)
            for verdict in one.verdicts:
                writer.write_verdict(verdict)
            if not one.cut_short:
                sentence = one.findings[0].sentence if one.findings else ""
                writer.finish(one.outcome, sentence, wall_seconds=0.1, cpu_seconds=0.05, simulated_seconds=10800)
    finish_run(directory, wall_seconds=2.0, interrupted=interrupted)
    return directory


def unpack_site(site: Path) -> dict[str, str | list[str]]:
    """Return path -> content of all files of a packed site."""
    found: dict[str, str | list[str]] = {}
    for path in sorted((site / "data").glob("*.js")):
        packed = path.read_text("ascii").split('"')[3]
        found |= json.loads(gzip.decompress(base64.b64decode(packed)))
    return found
