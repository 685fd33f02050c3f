"""docs/writing-scenarios.md: its generated reference is up to date, and its examples are valid scenarios."""

import re
from pathlib import Path

import pytest

from conformance import paths
from conformance.scenarios.loader import read_scenarios
from tests.scenarios.manual import PAGE, page

EXAMPLES = re.findall(r"^```yaml\n(id: .*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_generated_reference_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "write it anew: python -m tests.scenarios.manual"


def test_the_page_has_examples_and_each_block_with_an_id_is_one() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert EXAMPLES == [block for block in blocks if re.search("^id:", block, re.MULTILINE)]
    assert len(EXAMPLES) > 1


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.splitlines()[0])
def test_every_example_that_is_a_whole_scenario_is_valid(example: str, tmp_path: Path) -> None:
    file = tmp_path / "example.scenario.yaml"
    file.write_text(example, "utf-8")
    (scenario,) = read_scenarios(file, paths.fixtures())
    assert scenario.problems == ()
    assert scenario.cells()
