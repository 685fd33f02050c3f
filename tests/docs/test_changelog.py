"""The changes of the next version: each file of `docs/changelog.d` is one that towncrier takes."""

import re
import subprocess
import sys
import tomllib

from conformance import __version__
from tests.docs.pages import ROOT

FRAGMENTS = ROOT / "docs" / "changelog.d"
TYPES = {
    one["directory"] for one in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]["type"]
}


def test_every_fragment_has_a_topic_and_a_known_type():
    names = [path.name for path in FRAGMENTS.iterdir() if path.name != "README.md"]
    assert names
    assert [name for name in names if not re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(TYPES)})\.md", name)] == []


def test_the_draft_contains_every_fragment():
    draft = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next"],
        cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=True,
    ).stdout  # fmt: skip
    assert "## next (" in draft
    fragments = [path for path in FRAGMENTS.iterdir() if path.name != "README.md"]
    assert fragments
    for path in fragments:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
        assert any(lines), path.name
        assert [line for line in lines if line not in draft] == []


def test_the_change_log_has_the_version_of_the_package():
    assert f"\n## {__version__} (" in (ROOT / "CHANGELOG.md").read_text("utf-8")
