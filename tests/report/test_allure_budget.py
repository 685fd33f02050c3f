"""Allure's results and site of a large run with many failures stay small."""

from pathlib import Path

import pytest

from conformance import paths
from conformance.report.allure_run_files import write_run_files
from conformance.report.allure_site import build_allure
from tests.report.conftest import unavailable
from tests.report.samples import run_header, unpack_site
from tests.report.test_allure_content import HOOK

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.integration

CELLS = 600
BUDGET = 30 * 1024 * 1024
ITEM = f"""
import pytest
from conformance.report.failure_text import failure_text
from tests.report.samples import cell_view, passed

class Cell(pytest.Item):
    def runtest(self):
        if self.function.args[0].findings:
            raise AssertionError(failure_text(self.function.args[0]))

    def repr_failure(self, excinfo, style=None):
        return str(excinfo.value)

class Cells(pytest.File):
    def collect(self):
        for number in range({CELLS}):
            axes = {{"number": str(number)}}
            verdicts = None if number % 2 else (passed(),)
            cell = Cell.from_parent(self, name=f"cell={{number}}")
            cell.function = type("Function", (), {{"args": (cell_view(axes=axes, verdicts=verdicts),), "named": {{}}}})
            yield cell

def pytest_collect_file(file_path, parent):
    return Cells.from_parent(parent, path=file_path) if file_path.name == "cells.txt" else None
"""


def on_disk(folder: Path) -> int:
    """Return the octets that a folder takes on the disk, whole blocks as `du` counts them."""
    return sum(path.lstat().st_blocks * 512 for path in (folder, *folder.rglob("*")))


@pytest.mark.long
def test_600_cells_of_which_300_fail_stay_within_the_budget(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, allure: Path | None
) -> None:
    if allure is None:
        unavailable("no Allure: it needs Node 20 or later, and npm")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makeconftest(HOOK + ITEM)
    (pytester.path / "cells.txt").touch()
    results = pytester.path / "run" / "allure-results"
    pytester.runpytest_subprocess(
        "-p", "no:conformance", "-p", "no:cacheprovider", "-q", "--tb=no", f"--alluredir={results}", "cells.txt"
    )
    write_run_files(results, run_header(cells=CELLS, candidates=("reference+acknowledges-before-shadow",)), {})
    page = build_allure(
        results.parent, pytester.path / "site", pinned=paths.allure(), cache=allure.parents[3],
        candidates=["reference+acknowledges-before-shadow"], resolve=lambda _: "../cells/one.html",
    )  # fmt: skip
    files = unpack_site(page.parent)
    assert len([key for key in files if key.startswith("data/test-results/")]) == CELLS
    assert len([key for key in files if key.endswith(".svg")]) == CELLS // 2
    assert on_disk(results) + on_disk(page.parent) <= BUDGET
    assert max(path.stat().st_size for path in page.parent.rglob("*.html")) < 50_000, "no page has the data in it"
