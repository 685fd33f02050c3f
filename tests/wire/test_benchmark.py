"""The benchmark of links (`benchmarks.links`) runs and gives every row."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("arrangement", ["server", "both", "harness", "three", "one"])
def test_the_benchmark_gives_a_positive_rate_for_every_size_and_number_of_sessions(
    arrangement: str, tmp_path: Path
) -> None:
    output = tmp_path / "rows.json"
    options = ("--only", arrangement, "--rounds", "1", "--seconds", "0.01", "--json", str(output))
    subprocess.run([sys.executable, "-m", "benchmarks.links", *options], cwd=ROOT, check=True, capture_output=True)
    ((name, rows),) = json.loads(output.read_text("utf-8")).items()
    assert name == arrangement
    assert [(row["size"], row["sessions"]) for row in rows] == [("2 KB", 1), ("2 KB", 10), ("1 MB", 1), ("1 MB", 10)]
    assert all(row[way] > 0 for row in rows for way in ("direct", "bare", "linked"))
