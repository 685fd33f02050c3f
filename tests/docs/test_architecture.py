"""ARCHITECTURE.md names existing files, and the layers of the import contract."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`([\w.*-]+(?:/[\w.*-]*)+|\w+\.(?:py|toml|yaml|md|ini))`", PAGE)))
"""Paths from the package or from the root of the project."""


def test_every_file_and_folder_that_it_names_exists() -> None:
    assert {"cli/", "execute.py", "pyproject.toml", "docs/coverage.md"} <= set(NAMED)
    found = {name: [*(ROOT / "conformance").glob(name.rstrip("/")), *ROOT.glob(name.rstrip("/"))] for name in NAMED}
    assert [name for name, paths in found.items() if not paths] == []
    assert [name for name, paths in found.items() if name.endswith("/") and not paths[0].is_dir()] == []


def test_its_layers_are_those_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    remaining = [{part.strip().removeprefix("conformance.") for part in layer.split("|")} for layer in layers]
    section = PAGE.partition("## Layers")[2].partition("\n## ")[0].partition("Outside of the layers")[0]
    items = re.split(r"^\d+\. ", section, flags=re.MULTILINE)[1:]
    assert len(items) > 1
    for item in items:  # each has the modules of one layer or more, from the top
        named = {name.rstrip("/").removesuffix(".py") for name in re.findall(r"`([a-z_]+(?:\.py|/))`", item)}
        assert named
        taken: set[str] = set()
        while remaining and taken < named:
            taken |= remaining.pop(0)
        assert named == taken
    assert remaining == [{"registry"}]
