"""CI runs some of the tests marked `long`; every one of them is drawn by some commit."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import is_drawn

ROOT = Path(__file__).parents[2]


def test_each_long_test_is_drawn_by_some_seed_and_about_one_in_eight_by_each():
    ids = [f"tests/suite/test_shards.py::test_{number}" for number in range(400)]
    drawn = {seed: {name for name in ids if is_drawn(name, str(seed), 8)} for seed in range(80)}
    assert set.union(*drawn.values()) == set(ids)
    assert all(25 <= len(names) <= 85 for names in drawn.values())


def test_only_long_tests_are_left_out(tmp_path: Path):
    (tmp_path / "test_both.py").write_text(
        "import pytest\n@pytest.mark.long\n@pytest.mark.parametrize('n', range(64))\ndef test_long(n): ...\ndef test_short(): ...\n",
        "utf-8",
    )
    counts = {words: _passed(tmp_path, *words) for words in ((), ("--one-in", "8"), ("--one-in", "8", "--draw", "9"))}
    assert counts[()] == 65
    assert all(2 <= counts[words] <= 32 for words in list(counts)[1:])
    assert _passed(tmp_path, "--one-in", "1000000000") == 1, "the one that is not long"


def _passed(directory: Path, *words: str) -> int:
    """Run the directory's tests with the project's options and these words; return how many passed."""
    ran = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-c", ROOT / "pyproject.toml", "--rootdir", ROOT,
            "-p", "no:cacheprovider", *words, directory,
        ],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(ran.stdout.split(" passed")[0].split()[-1])
