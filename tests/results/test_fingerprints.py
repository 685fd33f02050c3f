"""The hash of what kept results depend on: which files change it."""

from pathlib import Path

import pytest

from conformance import paths
from conformance.results import fingerprints

REPORTING = ("cli", "commands", "detection", "export", "listen", "mutants", "probe", "report", "smuggling", "spark")
"""The parts of the package on which no verdict depends."""

PARTS = sorted(path.parent.name for path in paths.reference().parent.glob("*/__init__.py"))
"""All parts of the package."""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with empty folders of its own, of scenarios and of fixtures."""
    for name in ("reference", "corpus", "fixtures"):
        folder = tmp_path / ("package" if name == "reference" else name) / name
        folder.mkdir(parents=True)
        monkeypatch.setattr(fingerprints.paths, name, lambda folder=folder: folder)
    return tmp_path / "package"


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("judge/cell.py", True),
        ("requirements/catalogue.yaml", True),
        ("run/shifted/shim/clocks.c", True),
        ("run/shifted/shim/shim.h", True),
        ("wire/link.py", True),
        ("report/templates/page.css", False),
        ("judge/__pycache__/cell.pyc", False),
        ("execute.py", True),
        *((f"{part}/part.py", part not in REPORTING) for part in PARTS),
    ],
)
def test_a_file_changes_the_hash_only_if_verdicts_depend_on_it(package: Path, file: str, counts: bool) -> None:
    assert set(REPORTING) < set(PARTS)
    path = package / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("before", "utf-8")
    before = fingerprints.inputs_sha256()
    path.write_text("after", "utf-8")
    assert (fingerprints.inputs_sha256() != before) is counts


@pytest.mark.parametrize("folder", ["corpus", "fixtures"])
def test_scenarios_and_fixtures_change_the_hash(package: Path, folder: str) -> None:
    found = [fingerprints.inputs_sha256()]
    for text in ("id: one", "id: two"):
        (package.parent / folder / folder / "one.yaml").write_text(text, "utf-8")
        found.append(fingerprints.inputs_sha256())
    assert len(set(found)) == 3
