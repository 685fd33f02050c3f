"""Explorations made by hand: a header, a summary with one finding, and the files that it names."""

from typing import Any

from conformance.results.exploration import (
    ExplorationHeader,
    ExplorationSummary,
    FaultCounts,
    FindingRecord,
    PlanSize,
)
from conformance.results.schema import CandidateRecord

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e'\""
FILE, ORIGINAL = "lost-1.scenario.yaml", "original/lost-1-original.scenario.yaml"
FILES = {FILE: f"id: lost-1\nsteps: []  # {HOSTILE}\n", ORIGINAL: "id: lost-1-original\nsteps: [much]\n" * 40}


def header(**changes: Any) -> ExplorationHeader:
    """Return the header of an exploration by random plans."""
    values: dict[str, Any] = {
        "exploration": "found", "started": "2026-11-25T10:00:00Z", "seconds": 75.0, "method": "random", "seed": 5, "clock": "virtual",
        "candidate": CandidateRecord(name="reference", kind="python", version="1.2", sha256="a"),
        "environment_sha256": "b", "inputs_sha256": "c",
    }  # fmt: skip
    return ExplorationHeader(**values | changes)


def finding(**changes: Any) -> FindingRecord:
    """Return a finding in a random plan."""
    values: dict[str, Any] = {
        "file": FILE, "original": ORIGINAL, "check": "invariant.nothing-acknowledged-is-lost", "requirement": "RL-ACK-01",
        "plan": "random plan 7 of seed 5", "sentence": HOSTILE, "plans": 2,
        "size": PlanSize(steps=2, faults=1, messages=1, servers=1),
        "original_size": PlanSize(steps=30, faults=4, messages=6, servers=5),
    }  # fmt: skip
    return FindingRecord(**values | changes)


def summary(*findings: FindingRecord, **changes: Any) -> ExplorationSummary:
    """Return what came of 60 plans."""
    values: dict[str, Any] = {
        "enumerated": 0, "pruned": {}, "not_run": 0, "plans": 60, "outcomes": {"sound": 57, "unfinished": 1, "violated": 2},
        "unfinished": {"mbx1 is down": 1}, "fired": 58, "faults": FaultCounts(drawn=84, fired=82),
        "states": 491, "transitions": 564, "states_seen_once": 392, "new_states_per_100_plans": 653.3,
        "curve": ((0, 0), (30, 400), (60, 491)),
        "sometimes": {"a shadow copy was promoted": 12, "two servers were down at once": 0}, "never_seen": ("two servers were down at once",),
        "findings": findings,
    }  # fmt: skip
    return ExplorationSummary(**values | changes)
