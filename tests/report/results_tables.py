"""Rows of the tables that a results site is made of, made by hand."""

from typing import Any

RELAY = "dsn relay"


def standing(candidate: str, version: str, requirement: str, outcome: str, run: str = "r1") -> dict[str, Any]:
    counts = dict.fromkeys(("passed", "failed", "inconclusive", "not_applicable", "errors"), 0)
    counts[{"pass": "passed", "fail": "failed", "not-applicable": "not_applicable"}[outcome]] = 2
    key = {"candidate": candidate, "version": version, "requirement": requirement}
    return {**key, **counts, "cells": 2, "outcome": outcome, "run": run, "started": "2026-01-01T00:00:00Z"}


def candidate(run: str, name: str, version: str, claims: str = RELAY) -> dict[str, Any]:
    return {"run": run, "candidate": name, "kind": "exec", "version": version, "claims": claims}


def change(run: str, day: int, name: str, requirement: str, **other: Any) -> dict[str, Any]:
    started = f"2026-01-{day:02}T00:00:00Z"
    key = {"run": run, "started": started, "candidate": name, "version": "2", "requirement": requirement}
    known = {"before_run": "r1", "before_version": "1", "cells": 2}
    return {**key, **known, "before": "pass", "outcome": "fail", "change": "regression", **other}


def tables(**more: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Two servers: exim with two versions, and postfix, which fails RL-ACK-02."""
    rows: dict[str, list[dict[str, Any]]] = {
        "runs": [{"run": f"r{day}", "started": f"2026-01-0{day}T00:00:00Z"} for day in (1, 2)],
        "candidates": [candidate("r1", "exim", "4.96"), candidate("r2", "exim", "4.97"), candidate("r1", "postfix", "3.7")],
        "standings": [
            standing("exim", "4.96", "RL-ACK-01", "fail"),
            standing("exim", "4.97", "RL-ACK-01", "pass", "r2"),
            standing("exim", "4.97", "RL-ACK-02", "pass", "r2"),
            standing("exim", "4.97", "RL-ACK-03", "not-applicable", "r2"),
            standing("exim", "4.97", "RL-ACK-04", "pass", "r2"),
            standing("postfix", "3.7", "RL-ACK-01", "pass"),
            standing("postfix", "3.7", "RL-ACK-02", "fail"),
            standing("postfix", "3.7", "RL-ACK-03", "pass"),
        ],
        "row_changes": [change("r2", 2, "exim", "RL-ACK-01", version="4.97", before_version="4.96", before="fail", outcome="pass", change="fixed")],
        "failures": [],
    }  # fmt: skip
    return rows | more
