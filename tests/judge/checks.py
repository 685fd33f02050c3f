"""All checks that there must be, by name, and how to blind one."""

from dataclasses import replace

import pytest

from conformance.judge import cell
from conformance.judge.expectations import CHECKS
from conformance.judge.finding import Finding
from conformance.judge.invariants.table import INVARIANTS
from conformance.scenarios import names
from conformance.scenarios.expectations import VERBS

ALL = [*(f"expect.{verb}" for verb in VERBS), *(f"invariant.{name}" for name in names.INVARIANTS)]


def blind(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a check find nothing, whatever it is shown."""
    kind, _, name = check.partition(".")
    if kind == "expect":
        seeing = replace(CHECKS[name], judged=lambda expectation, view: Finding("nothing", 1))
        monkeypatch.setattr(cell, "CHECKS", {**CHECKS, name: seeing})
    else:
        seen = (INVARIANTS[name][0], lambda case: Finding("nothing", 1))
        monkeypatch.setattr(cell, "INVARIANTS", {**INVARIANTS, name: seen})
