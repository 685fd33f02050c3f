"""The published schemas are those of the models; each has an address, of which the beginning is declared once."""

import json
import subprocess
import tomllib

import pytest
from jsonschema import Draft202012Validator

from conformance import PROJECT_URL
from conformance.commands.schemas import NAMES, published_schema
from tests.docs.pages import ROOT

USES = {
    "conformance/__init__.py", "pyproject.toml", "tests/docs/test_schemas.py",
    *(f"docs/schema/{name}.json" for name in NAMES), "examples/minimal-shadow-node/node.schema.json",
}  # fmt: skip
"""Every file that has the address of the project, to be written again when there is one."""


@pytest.mark.parametrize("name", NAMES)
def test_a_published_schema_is_up_to_date(name: str):
    published = json.loads((ROOT / f"docs/schema/{name}.json").read_text("utf-8"))
    assert published == json.loads(json.dumps(published_schema(name))), (
        f"write it again: conformance schema {name} --out docs/schema/{name}.json"
    )
    assert published["$id"] == f"{PROJECT_URL}schema/{name}.json"
    Draft202012Validator.check_schema(published)


def test_every_schema_is_published():
    assert {path.stem for path in (ROOT / "docs" / "schema").glob("*.json")} == set(NAMES)


def test_the_address_of_the_project_stands_in_these_files_only():
    found = subprocess.run(
        ["git", "grep", "-l", "--untracked", "smtp-conformance.example"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert set(found) == USES
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert metadata["project"]["urls"]["Homepage"] == PROJECT_URL
