"""Traces of stored cells: valid trace events, and the slices and moments in them."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from conformance.export.perfetto import as_perfetto
from conformance.history.events import Connected, Delivered, Reply
from conformance.results.reader import StoredCell, read_run
from conformance.results.schema import CellHeader
from conformance.topology import Topology
from conformance.verdicts import Outcome
from tests.export.readers import MAX_TRACE_OCTETS, read_trace
from tests.judge.history import History, Mail
from tests.suite.helpers import conformance_command

pytestmark = pytest.mark.integration


def trace(cell: StoredCell) -> list[dict[str, Any]]:
    """Return the events of a cell's trace, which is valid by the schema."""
    return read_trace(as_perfetto(cell))


def test_every_trace_is_valid_and_every_slice_ends(cells: list[StoredCell]):
    ended = 0
    for cell in cells:
        open_slices: dict[tuple[str, str], int] = {}
        for event in trace(cell):
            if event["ph"] == "b":
                assert (event["cat"], event["id"]) not in open_slices, cell.slug
                open_slices[event["cat"], event["id"]] = event["ts"]
            elif event["ph"] == "e":
                assert open_slices.pop((event["cat"], event["id"])) <= event["ts"]
                ended += 1
        assert not open_slices
    assert ended > len(cells)


def test_a_trace_shows_sessions_deliveries_copies_and_failures(cells: list[StoredCell]):
    wrong = next(
        cell
        for cell in cells
        if "acknowledges-before-shadow" in cell.slug and cell.footer and cell.footer.outcome == "fail"
    )
    events = trace(wrong)
    names = [event["name"] for event in events]
    deliveries = sorted(f"delivered to {event.recipient}" for event in wrong.events if isinstance(event, Delivered))
    assert sorted(name for name in names if name.startswith("delivered to")) == deliveries != []
    copies = {event["id"] for event in events if event.get("cat") == "copy" and event["ph"] == "b"}
    stored = [
        event
        for event in wrong.events
        if isinstance(event, Reply) and event.operation is not None and event.operation.name == "shadow-stored"
    ]
    assert len(copies) == sum(event.code == 250 for event in stored) > 1
    failed = sorted(f"fail: {v.sentence}"[:300] for v in wrong.verdicts if v.outcome is Outcome.FAIL)
    assert sorted(name for name in names if name.startswith("fail: ")) == failed
    assert len(failed) > 1
    assert any(name.startswith("fail: SR-") for name in names)
    sessions = {event.session for event in wrong.events if isinstance(event, Connected)}
    slices = [event for event in events if event.get("cat") == "session" and event["ph"] == "b"]
    merged = [int(event["name"].rsplit(": ")[-1].split()[0]) for event in slices if event["name"].endswith(" sessions")]
    assert {event["id"] for event in slices} <= sessions
    assert len(slices) - len(merged) + sum(merged) == len(sessions)
    parties = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert {event.client for event in wrong.events if isinstance(event, Connected)} <= parties


@pytest.mark.parametrize(("generation", "holder"), [("ex2013", "mbx2"), ("ex2010", "mbx1")])
def test_a_copy_is_on_its_holder_until_the_holder_may_discard_it(generation: str, holder: str):
    """Another server gets a list with its id before, and a second copy is never discarded: it ends with the cell."""
    servers = [{"name": name, "generation": generation, "site": "NewYork"} for name in ("mbx1", "mbx2", "mbx3")]
    history = History(Topology.model_validate({"name": "three", "servers": servers}))
    history.add_message(Mail("m"))
    for shadow in ("s1", "s2"):
        history.transmit("mbx1", "mbx2", "m", shadow=shadow)
        history.final("mbx1", "mbx2", 250)
    for asking, history.t in (("mbx3", 30.0), (holder, 60.0)):
        history.query(asking, "mbx1" if holder == "mbx2" else "mbx2", ["s1"])
    history.t = 90.0
    history.step("began", "1", "advance")
    header = CellHeader.model_construct(nodeid="three", repeat="")
    events = trace(StoredCell(Path("three.jsonl"), header, tuple(history.events), (), None, ()))
    parties = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    copies = [(e["name"], e["ph"], parties[e["pid"]], e["ts"]) for e in events if e.get("cat") == "copy"]
    assert copies == [
        ("copy s1", "b", holder, 0),
        ("copy s1", "e", holder, 60_000_000),
        ("copy s2", "b", holder, 0),
        ("copy s2", "e", holder, 90_000_000),
    ]


def test_each_session_is_counted_in_one_slice_and_some_slices_are_of_several(cells: list[StoredCell]):
    merged_by_cell = []
    for cell in cells:
        sessions = Counter((e.client, f"to {e.server}, {e.listener}") for e in cell.events if isinstance(e, Connected))
        events = trace(cell)
        parties = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        slices = [event for event in events if event.get("cat") == "session" and event["ph"] == "b"]
        counted = Counter[tuple[str, str]]()
        for one in slices:
            name, _, several = one["name"].partition(": ")
            counted[parties[one["pid"]], name] += int(several.removesuffix(" sessions") or 1)
        assert counted == sessions, cell.slug
        merged_by_cell.append(sessions.total() - len(slices))
    assert any(merged_by_cell)


def test_an_eventful_session_has_a_slice_of_its_own_between_the_merged_ones():
    servers = [{"name": name, "site": "NewYork"} for name in ("mbx1", "mbx2")]
    history = History(Topology.model_validate({"name": "two", "servers": servers}))
    history.add_message(Mail("m"))
    for answer in ([], [], [], ["s1"], [], []):
        history.query("mbx1", "mbx2", answer)
        history.t += 10
    history.transmit("mbx1", "mbx2", "m")
    history.t += 5
    history.final("mbx1", "mbx2", 250)
    header = CellHeader.model_construct(nodeid="two", repeat="")
    events = trace(StoredCell(Path("two.jsonl"), header, tuple(history.events), (), None, ()))
    began, ended = (
        [event for event in events if event.get("cat") == "session" and event["ph"] == phase] for phase in "be"
    )
    slices = [event["name"] for event in began]
    one = slices[1]
    assert slices == [f"{one}: 3 sessions", one, f"{one}: 2 sessions", one]
    times = [(b["ts"] // 1_000_000, e["ts"] // 1_000_000) for b, e in zip(began, ended, strict=True)]
    assert times == [(0, 20), (30, 30), (40, 50), (60, 65)]


WEEKS = """\
id: held-for-49-days
title: A shadow copy is held for 49 days, because its primary waits for a next hop that is away
requirements: [SR-CRE-11]
needs: [shadow-2013]
topology: two-servers-one-dag
configure: {MessageExpirationTimeout: 60d, MessageRetryInterval: 1d, ShadowHeartbeatFrequency: 30m, ShadowMessageAutoDiscardInterval: 90d}
steps:
  - answer: {sink: outside, at: dot, reply: 451 4.3.0 try later}
  - send: {as: m, to: victor@outside.test, via: mbx1}
  - advance: 49d
  - expect: {not-promoted: {of: m}}
  - answer: {sink: outside, at: dot, reply: accept}
  - expect: {delivered: {of: m, at: outside, by: mbx1, copies: 1, within: 2d}}
"""


@pytest.mark.long
def test_the_trace_of_49_days_of_heartbeats_is_small(tmp_path: Path):
    (tmp_path / "weeks.scenario.yaml").write_text(WEEKS, "utf-8")
    words = ("run", "weeks.scenario.yaml", "--candidate", "reference", "--run-dir", "run")
    ran = conformance_command(*words, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (cell,) = read_run(tmp_path / "run").cells()
    assert sum(isinstance(event, Connected) for event in cell.events) > 1000
    assert max(event.t for event in cell.events) > 49 * 86400
    trace(cell)
    assert len(as_perfetto(cell)) < MAX_TRACE_OCTETS
