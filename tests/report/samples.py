"""Deterministic cells and runs with the events and verdicts of the worked example, as input of reports."""

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
from conformance.report.run_summary import RunSummary, summarize_cell
from conformance.requirements.catalogue import catalogue
from conformance.results.schema import CandidateRecord, CellHeader, RunFooter, RunHeader
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


class HistoryBuilder:
    """Records a history as a run does; `now` is its clock (seconds), which tests set."""

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
        return self.put(Reply, session=session, to=verb, code=code, lines=lines, operation=operations.get("answered"))

    def content(self, session: str, digest: Digest, code: int, text: str, answered: Operation | None = None) -> int:
        self.put(Content, session=session, digest=digest)
        return self.put(Reply, session=session, to="CONTENT", code=code, lines=(text,), operation=answered)

    def step(self, path: str, verb: str, line: int, phase: str = "began", detail: str = "") -> None:
        self.put(StepEvent, phase=phase, path=path, verb=verb, line=line, detail=detail)


def digest(name: str = "m1") -> Digest:
    return Digest(
        size=412, sha256="a" * 64, body_sha256="b" * 64, stable_sha256="c" * 64, message_id=f"<{name}@outside.test>"
    )


def early_acknowledgement(messages: int = 1, hostile: str = "OK") -> tuple[HistoryBuilder, int, int]:
    """Return a history in which the 250 came before the shadow, with the numbers of the two replies of the last one."""
    history = HistoryBuilder()
    history.put(NodeEvent, node="mbx1", action="ready")
    history.put(NodeEvent, node="mbx2", action="ready")
    history.put(FaultArmed, fault="slow-shadow", action="delay", links=("mbx1 -> mbx2",))
    history.step("1", "send", 3)
    early = stored = 0
    for number in range(1, messages + 1):
        early, stored = _one_message(history, number, hostile)
    history.step("1", "send", 3, "ended")
    for path, verb, line in (("2", "reply", 4), ("3", "shadow", 5)):
        history.step(path, verb, line, "reached")
        history.step(path, verb, line, "ended")
    history.step("4", "kill", 6)
    history.put(NodeEvent, node="mbx1", action="killed", detail="SIGKILL")
    history.step("4", "kill", 6, "ended")
    history.step("5", "advance", 7)
    history.put(StepEvent, after=2 * 3600 + 58 * 60, phase="ended", path="5", verb="advance", line=7)
    lmtp = history.session("mbx2", "mbx2-store", "lmtp")
    history.say(lmtp, "MAIL FROM:<alice@outside.test>", 250)
    history.put(
        Delivered,
        sink="mbx2-store",
        giver="mbx2",
        recipient="bob@corp.test",
        sender="alice@outside.test",
        digest=digest(),
        session=lmtp,
    )
    history.content(lmtp, digest(), 250, "2.0.0 delivered")
    history.put(Closed, session=lmtp, by="client", how="fin")
    history.step("6", "mailbox", 8, "reached")
    history.step("6", "mailbox", 8, "ended")
    history.put(Drained, quiet=True, waited=240.0)
    history.put(Lag, seconds=0.0)
    return history, early, stored


def _one_message(history: HistoryBuilder, number: int, hostile: str) -> tuple[int, int]:
    name, shadow_id = f"m#{number}", f"shadow-{number:04d}"
    history.put(
        MessageMade,
        message=name,
        message_id=f"<m{number}@outside.test>",
        sender="alice@outside.test",
        recipients=("bob@corp.test",),
        digest=digest(f"m{number}"),
    )
    front = history.session("outside", "mbx1", "frontend")
    history.say(front, "MAIL FROM:<alice@outside.test> SIZE=412", 250, (f"2.1.0 {hostile}",))
    history.say(front, "RCPT TO:<bob@corp.test>", 250, ("2.1.5 OK",))
    history.say(front, "DATA", 354, ("go on",))
    early = history.content(front, digest(f"m{number}"), 250, "2.6.0 Queued mail for delivery")
    history.put(
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
    shadow = history.session("mbx1", "mbx2", "transport")
    history.say(
        shadow,
        "XSHADOWREQUEST mbx1 db-1",
        250,
        ("2.0.0 mbx2 db-2",),
        asked=Operation(name="request-shadow", server="mbx1", database="db-1"),
        answered=Operation(name="request-shadow", server="mbx2", database="db-2"),
    )
    history.say(
        shadow,
        f"MAIL FROM:<alice@outside.test> XSHADOW={shadow_id}",
        250,
        ("2.1.0 OK",),
        asked=Operation(name="shadow-message", shadow_id=shadow_id),
    )
    history.say(shadow, "RCPT TO:<bob@corp.test>", 250, ("2.1.5 OK",))
    history.say(shadow, "DATA", 354, ("go on",))
    history.put(
        FaultFired, fault="slow-shadow", action="delay", session=shadow, client="mbx1", server="mbx2", detail="30s"
    )
    history.now += 30
    stored = history.content(
        shadow,
        digest(f"m{number}"),
        250,
        "2.6.0 Queued mail for redundancy",
        Operation(name="shadow-stored", shadow_id=shadow_id),
    )
    history.say(
        shadow,
        "XQDISCARD mbx2 100",
        250,
        ("2.0.0 database db-1", "2.0.0 end 0"),
        asked=Operation(name="query-discard", server="mbx2", limit=100),
        answered=Operation(name="discard-list", database="db-1", left=0),
    )
    history.say(shadow, "QUIT", 221, ("2.0.0 bye",))
    history.put(Closed, session=shadow, by="client", how="fin")
    history.say(front, "QUIT", 221, ("2.0.0 bye",))
    history.put(Closed, session=front, by="client", how="fin")
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


def cell_view(
    *, messages: int = 1, verdicts: tuple[Verdict, ...] | None = None, hostile: str = "OK", **changes: Any
) -> CellView:
    """Return the cell of the worked example, judged as a violation unless other verdicts are given."""
    history, early, stored = early_acknowledgement(messages, hostile)
    given = (early_verdict(early, stored), passed()) if verdicts is None else verdicts
    return CellView(
        header=cell_header(**changes),
        events=tuple(history.recorder.events),
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


REFERENCE = "reference"


def good(**changes: Any) -> CellView:
    """Return a passed cell of the reference that judged every requirement in force."""
    every = tuple(row.id for row in catalogue().requirements)
    return cell_view(**({"verdicts": (passed("expect.all", *every),), "candidate": REFERENCE} | changes))


def judged(outcome: Outcome, *requirements: str, **changes: Any) -> CellView:
    """Return a cell of the reference with one verdict of this outcome about these requirements."""
    verdict = Verdict(check="expect.x", outcome=outcome, requirements=requirements, sentence=f"it is {outcome}")
    return cell_view(**({"verdicts": (verdict,), "candidate": REFERENCE} | changes))


def run_summary(*cells: CellView, planned: int | None = None, ended: bool = True, **changes: Any) -> RunSummary:
    """Return the summary of a run of these cells; without an end it has no footer."""
    names = tuple(dict.fromkeys(cell.header.candidate for cell in cells)) or (REFERENCE,)
    count = len(cells) if planned is None else planned
    footer = RunFooter(
        finished="2026-01-02T03:05:05Z",
        outcomes=dict.fromkeys(Outcome, 0),
        cells=count,
        wall_seconds=1,
        cells_per_second=1,
        simulated_per_wall_second=1,
        cpu_per_cell=0,
        interrupted=changes.pop("interrupted", False),
    )
    entries = tuple(summarize_cell(cell, f"cell-{number}") for number, cell in enumerate(cells))
    return RunSummary(run_header(cells=count, candidates=names, **changes), footer if ended else None, entries)
