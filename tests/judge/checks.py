"""The names of all declared checks, and a way to disable one."""

from dataclasses import replace

import pytest

from conformance.judge import cell
from conformance.judge.expectations import EXPECTATION_CHECKS
from conformance.model import RULES
from conformance.scenarios.expectations import EXPECTATIONS
from conformance.trace.finding import Finding

ALL = [*(f"expect.{verb}" for verb in EXPECTATIONS), *RULES]


def blind(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace a check by one that finds an occasion and no violation."""
    kind, _, name = check.partition(".")
    nothing = lambda *_: Finding("nothing", 1)  # noqa: E731
    if kind == "expect":
        checks = {**EXPECTATION_CHECKS, name: replace(EXPECTATION_CHECKS[name], check=nothing)}
        monkeypatch.setattr(cell, "EXPECTATION_CHECKS", checks)
    else:
        monkeypatch.setattr(cell, "RULES", {**RULES, check: replace(RULES[check], check=nothing)})
