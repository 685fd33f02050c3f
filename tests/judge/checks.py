"""The names of all declared checks, and a way to disable one."""

from dataclasses import replace

import pytest

from conformance.invariants import INVARIANTS
from conformance.judge import cell
from conformance.judge.expectations import EXPECTATION_CHECKS
from conformance.judge.finding import Finding
from conformance.judge.invariants import INVARIANT_CHECKS
from conformance.scenarios.expectations import EXPECTATIONS

ALL = [*(f"expect.{verb}" for verb in EXPECTATIONS), *(f"invariant.{name}" for name in INVARIANTS)]


def blind(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace a check by one that finds an occasion and no violation."""
    kind, _, name = check.partition(".")
    nothing = lambda *_: Finding("nothing", 1)  # noqa: E731
    if kind == "expect":
        checks = {**EXPECTATION_CHECKS, name: replace(EXPECTATION_CHECKS[name], check=nothing)}
        monkeypatch.setattr(cell, "EXPECTATION_CHECKS", checks)
    else:
        invariants = {**INVARIANT_CHECKS, name: replace(INVARIANT_CHECKS[name], check=nothing)}
        monkeypatch.setattr(cell, "INVARIANT_CHECKS", invariants)
