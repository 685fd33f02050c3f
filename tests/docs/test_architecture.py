"""ARCHITECTURE.md names existing files, and the layers of the import contract."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`([a-z0-9_/*]+(?:\.py|/))`", PAGE)))


def test_every_file_and_folder_that_it_names_exists() -> None:
    assert NAMED
    assert [name for name in NAMED if not any((ROOT / "conformance").glob(name.rstrip("/")))] == []


def test_its_layers_are_those_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    modules = {part.strip().removeprefix("conformance.") for layer in layers for part in layer.split("|")}
    section = PAGE.partition("## Layers")[2].partition("\n## ")[0].partition("Outside of the layers")[0]
    assert {
        name.rstrip("/").removesuffix(".py") for name in re.findall(r"`([a-z_]+(?:\.py|/))`", section)
    } == modules - {"registry"}
