"""The benchmarks of `--cells` and of the disks: a comparison of verdicts, and the checkout that an environment uses."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import conformance
from benchmarks.disk import checkout_of

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


@pytest.mark.long
def test_the_cells_benchmark_finds_the_same_verdicts_in_both_runs():
    words = ["--candidate", "reference", "--only", "lost-before-the-final-dot", "--cells", "4"]
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), *words], cwd=BENCHMARK.parents[1], capture_output=True, text=True, check=True
    )
    assert re.search(r", [1-9]\d* cells\b", done.stdout)
    assert done.stdout.endswith("the same verdicts\n")


def test_differing_verdicts_of_two_runs_are_listed(
    cells: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    one = {"a": ("pass",), "b": ("fail", "expect.reply/X"), "c": ("pass",)}
    other = {"a": ("pass",), "b": ("fail", "expect.reply/Y"), "d": ("pass",)}
    assert cells.differences(one, one) == []
    assert cells.differences(one, other) == [
        "b: fail expect.reply/X; together: fail expect.reply/Y",
        "c: pass; together: not run",
        "d: not run; together: pass",
    ]
    runs = [cells.Measured(one, 1.0, 1.0), cells.Measured(other, 1.0, 1.0)]
    monkeypatch.setattr(cells, "_measure", lambda *_: runs.pop(0))
    assert cells.main([]) == 1
    assert capsys.readouterr().out.splitlines()[-3:] == cells.differences(one, other)


def test_the_checkout_of_an_environment_does_not_depend_on_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conformance").mkdir()
    (tmp_path / "conformance" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    assert checkout_of(Path(sys.executable)) == Path(conformance.__file__).parent.parent
