"""CI runs some of the tests marked `long`; every one of them is drawn by some commit."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import is_drawn

ROOT = Path(__file__).parents[2]


def test_each_of_400_names_is_drawn_by_some_of_80_seeds_and_about_one_in_eight_by_each():
    ids = [f"tests/suite/test_shards.py::test_{number}" for number in range(400)]
    drawn = {seed: {name for name in ids if is_drawn(name, str(seed), 8)} for seed in range(80)}
    assert set.union(*drawn.values()) == set(ids)
    assert all(25 <= len(names) <= 85 for names in drawn.values())


def test_only_long_tests_are_left_out(tmp_path: Path):
    (tmp_path / "test_some.py").write_text(
        "import pytest\n@pytest.mark.long\ndef test_long(): assert 0\ndef test_short(): ...\n", "utf-8"
    )
    (tmp_path / "test_whole.py").write_text(
        "import pytest\npytestmark = pytest.mark.long\ndef test_first(): assert 0\ndef test_second(): assert 0\n",
        "utf-8",
    )
    ran = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-c", ROOT / "pyproject.toml", "--rootdir", ROOT,
            "-p", "no:cacheprovider", "--one-in", "1000000000", tmp_path,
        ],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "1 passed, 3 deselected" in ran.stdout, "the long ones would fail"
