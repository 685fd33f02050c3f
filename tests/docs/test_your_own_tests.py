"""The examples of docs/your-own-tests.md are whole files, pass as they stand, and fail when what they test is wrong."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite.helpers import ROOT, environment

pytestmark = pytest.mark.integration

PAGE = (ROOT / "docs/your-own-tests.md").read_text("utf-8")
FILES = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
MISTAKES = {
    "test_client.py": ("if code >= 500 or", "if"),
    "test_shop.py": ("confirmed.add(number)", "pass"),
    "test_proxy.py": ('return "451 4.4.1 the server behind is not reached"', 'return "250 2.0.0 passed on"'),
}
"""File -> what is made wrong in the code under test."""


def ran(name: str, text: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run one example with pytest, in a directory of its own."""
    (place / "conftest.py").write_text(FILES["conftest.py"], "utf-8")
    (place / name).write_text(text, "utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name]
    return subprocess.run(words, cwd=place, env=environment(), capture_output=True, text=True, timeout=240, check=False)


def test_the_page_has_three_examples():
    assert set(FILES) == {"conftest.py", *MISTAKES}
    assert PAGE.count("```python\n") == len(FILES), "each is a whole file with a name of its own"


@pytest.mark.long
@pytest.mark.parametrize("name", MISTAKES)
def test_an_example_passes_as_it_stands(name: str, tmp_path: Path):
    done = ran(name, FILES[name], tmp_path)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^\d+ passed in", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.long
@pytest.mark.parametrize("name", MISTAKES)
def test_an_example_fails_when_the_code_under_test_is_wrong(name: str, tmp_path: Path):
    right, wrong = MISTAKES[name]
    assert FILES[name].count(right) == 1
    done = ran(name, FILES[name].replace(right, wrong), tmp_path)
    assert done.returncode == 1, done.stdout
    assert re.search(r"^\d+ failed(, \d+ passed)? in", done.stdout, re.MULTILINE), done.stdout
