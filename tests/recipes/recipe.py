"""The recipes of docs/contributing.md, followed in a copy of the package."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "contributing.md"
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
_FILE = re.compile(r"`(conformance/[\w/]+\.py)`")


def code_of(heading: str) -> list[tuple[str, str]]:
    """Return the pieces of code under a heading, each with the file that the text before it names last."""
    text = PAGE.read_text("utf-8").partition(f"### {heading}\n")[2]
    text = re.split(r"^##", text, maxsplit=1, flags=re.MULTILINE)[0]
    pieces, at = [], 0
    for block in _BLOCK.finditer(text):
        files = _FILE.findall(text[at : block.start()])
        pieces.append((_target(files, block[1]), block[1]))
        at = block.end()
    return pieces


def _target(files: list[str], code: str) -> str:
    """Return the file that a piece goes to: a whole module is a new file, others go to one that is there."""
    new = "import" in code
    return next(file for file in files if (ROOT / file).is_file() is not new)


@dataclass(frozen=True)
class Copy:
    """A checkout with a package of its own; `touched` are the code files that differ."""

    root: Path

    @classmethod
    def make(cls, root: Path) -> "Copy":
        """Copy the package, and link what it reads beside it."""
        shutil.copytree(ROOT / "conformance", root / "conformance", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", root)
        for folder in ("fixtures", "scenarios", "reports"):
            (root / folder).symlink_to(ROOT / folder)
        return cls(root)

    def append(self, file: str, code: str) -> None:
        """Add code to the end of a file, or make it."""
        path = self.root / file
        before = path.read_text("utf-8") + "\n\n" if path.is_file() else '"""Made by a recipe."""\n\n'
        path.write_text(before + code, "utf-8")

    def insert(self, file: str, behind: str, code: str) -> None:
        """Add code behind a line of a file."""
        path = self.root / file
        text = path.read_text("utf-8")
        assert text.count(behind) == 1
        path.write_text(text.replace(behind, behind + code), "utf-8")

    @property
    def touched(self) -> list[str]:
        """Return the code files that are not as they were, and the new ones."""
        files = sorted(str(path.relative_to(self.root)) for path in (self.root / "conformance").rglob("*.py"))
        return [file for file in files if not _same(ROOT / file, self.root / file)]

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the interpreter on the copy."""
        return subprocess.run(
            [sys.executable, *words], cwd=self.root, env=os.environ | {"PYTHONPATH": str(self.root)}, text=True,
            capture_output=True, check=False, timeout=120,
        )  # fmt: skip

    def run(self, steps: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run a scenario of these steps on the reference."""
        (self.root / "tried.scenario.yaml").write_text(SCENARIO + steps, "utf-8")
        return self.python(
            "-m", "conformance", "run", "tried.scenario.yaml", "--candidate", "reference", "--run-dir", "run", "--fresh",
            *options,
        )  # fmt: skip

    def history(self) -> list[dict[str, Any]]:
        """Return the events of the one cell that was run last."""
        (file,) = (self.root / "run" / "cells").glob("*.jsonl.gz")
        return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def _same(one: Path, other: Path) -> bool:
    return one.is_file() and one.read_bytes() == other.read_bytes()


SCENARIO = """\
id: tried-by-a-recipe
title: What a recipe of the contributor's page adds does what it says
requirements: [RL-ACK-01]
needs: [relay]
topology: two-servers-one-dag
steps:
"""
