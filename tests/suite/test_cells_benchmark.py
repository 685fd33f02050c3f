"""The benchmark of `--cells` runs, and tells where two runs came to different verdicts."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "cells.py"


@pytest.fixture(scope="module")
def cells() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cells", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cells"] = module
    spec.loader.exec_module(module)
    return module


def test_it_measures_both_and_compares_them():
    words = ["--candidate", "reference", "--only", "lost-before-the-final-dot", "--cells", "4"]
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), *words], cwd=BENCHMARK.parents[1], capture_output=True, text=True, check=True
    )
    assert "3 cells" in done.stdout
    assert done.stdout.endswith("the same verdicts\n")


def test_it_tells_what_came_to_something_else(cells: ModuleType):
    one = {"a": ("pass",), "b": ("fail", "expect.reply/X"), "c": ("pass",)}
    other = {"a": ("pass",), "b": ("fail", "expect.reply/Y"), "d": ("pass",)}
    assert cells.differences(one, one) == []
    assert cells.differences(one, other) == [
        "b: fail expect.reply/X; together: fail expect.reply/Y",
        "c: pass; together: not run",
        "d: not run; together: pass",
    ]
