"""Pages that are generated from the code are up to date."""

import json
import re

from conformance.parameters import DEFAULTS, parameter_table
from conformance.requirements.catalogue import catalogue
from conformance.requirements.coverage import page
from tests.docs.pages import ROOT


def test_the_page_of_requirements_is_up_to_date():
    written = (ROOT / "docs" / "requirements.md").read_text("utf-8")
    assert written == page(catalogue()), "write it anew: conformance requirements --write docs/requirements.md"


def test_the_table_of_parameters_is_up_to_date():
    written = (ROOT / "docs" / "node-contract.md").read_text("utf-8")
    tables = re.findall(r"^\| parameter \|.*\n(?:\|.*\n)*", written, re.MULTILINE)
    assert tables == [parameter_table()], f"write it anew:\n{parameter_table()}"
    example = re.findall(r"^```json\n(.*?)^```$", written, re.MULTILINE | re.DOTALL)[0]
    assert json.loads(example)["transport"] == DEFAULTS
