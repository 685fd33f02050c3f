"""The descriptions that come with the harness: whole, in the published schema, and with what they name."""

from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.description import read_description

SHIPPED = sorted((paths.fixtures() / "candidates").glob("*.yaml"))
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_description_is_valid_and_named_after_its_file(path: Path):
    candidate = read_description(path)
    assert candidate.name == path.stem
    assert candidate.title
    assert "relay" in candidate.claims


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_a_description_wants_installed_is_what_install_knows(path: Path):
    wanted = read_description(path).installed
    known = (paths.fixtures() / "candidates" / "install").read_text("utf-8")
    assert wanted is None or f"install_{wanted}()" in known
