"""All checks that there must be, by name, and how to blind one."""

from dataclasses import replace

import pytest

from conformance.invariants import INVARIANTS
from conformance.judge import cell
from conformance.judge.expectations import CHECKS
from conformance.judge.finding import Finding
from conformance.judge.invariants import CHECKS as INVARIANT_CHECKS
from conformance.scenarios.expectations import EXPECTATIONS

ALL = [*(f"expect.{verb}" for verb in EXPECTATIONS), *(f"invariant.{name}" for name in INVARIANTS)]


def blind(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a check find nothing, whatever it is shown."""
    kind, _, name = check.partition(".")
    if kind == "expect":
        seeing = replace(CHECKS[name], judged=lambda expectation, view: Finding("nothing", 1))
        monkeypatch.setattr(cell, "CHECKS", {**CHECKS, name: seeing})
    else:
        seen = (INVARIANT_CHECKS[name][0], lambda case: Finding("nothing", 1))
        monkeypatch.setattr(cell, "INVARIANT_CHECKS", {**INVARIANT_CHECKS, name: seen})
