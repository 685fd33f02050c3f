"""What the corpus varies: docs/coverage.md is up to date, detectors see what a cell does, and reasons are about real gaps."""

from pathlib import Path

import pytest

from conformance.requirements.catalogue import catalogue
from conformance.scenarios.coverage.__main__ import current_page
from conformance.scenarios.coverage.detection import dimensions_of
from conformance.scenarios.coverage.table import pairs, read_dimensions
from conformance.scenarios.document import Cell
from tests.docs.pages import ROOT
from tests.scenarios import documents

HEAD = "id: a-scenario\ntitle: A scenario for tests\nrequirements: [SR-PRF-01]\ntopology: two-servers-one-dag\nsteps:\n"
SEND = "  - send: {as: m, to: victor@outside.test, via: mbx1}\n"


def cell(folder: Path, steps: str) -> Cell:
    return documents.cells(folder, HEAD + steps)[0]


def test_the_page_is_up_to_date() -> None:
    written = (ROOT / "docs" / "coverage.md").read_text("utf-8")
    assert written == current_page(), "write it anew: python -m conformance.scenarios.coverage docs/coverage.md"


@pytest.mark.parametrize(
    ("steps", "dimension"),
    [
        (SEND + "  - configure: {node: all, transport: {SafetyNetHoldTime: 3h}}\n", "reload-with-something-waiting"),
        (SEND + "  - stop: mbx1\n  - start: mbx1\n", "orderly-stop"),
        (SEND + "  - repeat: {times: 2, steps: [{kill: mbx1}, {start: mbx1}]}\n", "second-restart"),
        ("  - send: {as: m, count: 2, to: victor@outside.test, via: mbx1, sessions: one}\n", "second-message-of-a-session"),
        (SEND + "  - repeat: {times: 11, steps: [{resend: {of: m}}]}\n", "numbers-of-several-digits"),
        ("  - send: {as: m, from: '', to: Victor@outside.test, via: mbx1}\n", "null-sender"),
        ("  - kill: mbx1\n  - pause: mbx2\n", "two-peers-lost-at-once"),
    ],
)  # fmt: skip
def test_a_dimension_is_found_where_it_is_varied_and_not_elsewhere(tmp_path: Path, steps: str, dimension: str) -> None:
    before = "" if steps.startswith(SEND) or "send:" in steps else SEND
    assert dimension in dimensions_of(cell(tmp_path, before + steps))
    assert dimension not in dimensions_of(cell(tmp_path, SEND))


def test_a_reason_for_what_a_cell_varies_is_refused(tmp_path: Path) -> None:
    dimensions = read_dimensions().model_copy(update={"not_varied": {"listener-frontend": {"PRF": "it is not"}}})
    with pytest.raises(ValueError, match="PRF has a reason for listener-frontend, and a cell that varies it"):
        pairs(catalogue(), dimensions, [cell(tmp_path, SEND)])


def test_reasons_are_about_known_dimensions_and_groups() -> None:
    dimensions = read_dimensions()
    assert {group for reasons in dimensions.not_varied.values() for group in reasons} <= catalogue().groups.keys()
    assert dimensions.not_varied.keys() <= dimensions.dimensions.keys()
