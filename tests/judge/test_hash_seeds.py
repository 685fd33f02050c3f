"""What is judged depends on the history alone, and not on the order in which a process iterates over a set of strings."""

import os
import subprocess
import sys

import pytest

from tests.judge.miniature import miniatures
from tests.suite.helpers import ROOT

PRINT_ALL = """
from tests.judge.miniature import miniatures
print(hash("a set of strings"))
for one in miniatures():
    print(*one.all_verdicts(), sep="\\n")
"""


@pytest.mark.long
def test_all_verdicts_of_all_miniatures_are_the_same_under_three_hash_seeds() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PRINT_ALL],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in "123"
    ]
    printed = [process.communicate()[0].splitlines() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len({lines.pop(0) for lines in printed}) == 3, "the seeds had their effect"
    first, *others = printed
    assert len(first) > len(miniatures()), "several verdicts of each"
    for other in others:
        assert [pair for pair in zip(first, other, strict=True) if pair[0] != pair[1]] == []
