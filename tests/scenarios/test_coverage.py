"""What the corpus varies: docs/coverage.md is up to date, detectors see what a cell does, and reasons are about real gaps."""

from pathlib import Path

import pytest

from conformance.requirements.catalogue import catalogue
from conformance.scenarios.coverage.__main__ import corpus_cells, current_page
from conformance.scenarios.coverage.detection import dimensions_of, groups_by_dimension
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


HELD = "  - answer: {sink: outside, at: dot, reply: 451 4.3.0 later}\n" + SEND
RELOAD = "  - configure: {node: all, transport: {SafetyNetHoldTime: 3h}}\n"


@pytest.mark.parametrize(
    ("steps", "other", "dimension"),
    [
        (HELD + RELOAD, SEND + RELOAD, "reload-with-something-waiting"),
        (SEND + "  - stop: mbx1\n  - start: mbx1\n", SEND, "orderly-stop"),
        (
            SEND + "  - repeat: {times: 2, steps: [{kill: mbx1}, {start: mbx1}]}\n",
            SEND + "  - kill: [mbx1, mbx2]\n  - start: mbx1\n  - start: mbx2\n",
            "second-restart",
        ),
        (
            "  - send: {as: m, count: 2, to: victor@outside.test, via: mbx1, sessions: one}\n",
            "  - send: {as: m, count: 2, to: victor@outside.test, via: mbx1}\n",
            "second-message-of-a-session",
        ),
        (
            "  - send: {as: m, count: 21, to: victor@outside.test, via: mbx1}\n",
            "  - send: {as: m, count: 20, to: victor@outside.test, via: mbx1}\n" + SEND.replace("as: m", "as: n"),
            "more-than-20-messages",
        ),
        (SEND + "  - repeat: {times: 11, steps: [{resend: {of: m}}]}\n", SEND, "numbers-of-several-digits"),
        ("  - send: {as: m, from: '', to: Victor@outside.test, via: mbx1}\n", SEND, "null-sender"),
        (
            "  - send: {as: m, to: victor@outside.test, via: mbx1, headers: {Date: null}}\n",
            "  - send: {as: m, to: victor@outside.test, via: mbx1, headers: {Message-ID: <a@b>}}\n",
            "odd-headers",
        ),
        (
            "  - send: {as: m, to: dave@corp.test, via: mbx1}\n",
            "  - send: {as: m, to: bob@corp.test, via: mbx1}\n",
            "listener-delivery",
        ),
        (SEND + "  - kill: mbx1\n  - pause: mbx2\n", SEND + "  - kill: mbx1\n  - start: mbx1\n  - pause: mbx2\n", "two-peers-lost-at-once"),
    ],
)  # fmt: skip
def test_a_dimension_is_found_where_it_is_varied_and_not_elsewhere(
    tmp_path: Path, steps: str, other: str, dimension: str
) -> None:
    assert dimension in dimensions_of(cell(tmp_path, steps))
    assert dimension not in dimensions_of(cell(tmp_path, other))


@pytest.mark.parametrize(
    ("configured", "dimension", "groups"),
    [
        ("ShadowHeartbeatFrequency: 1s", "value-at-its-minimum", {"MNT", "OUT", "CFG"}),
        ("ShadowHeartbeatFrequency: 2s", "value-at-its-minimum", set()),
        ("ShadowHeartbeatRetryCount: 255", "value-at-its-maximum", {"E10", "CFG"}),
        ("SafetyNetHoldTime: 50d", "value-at-its-maximum", {"SFN", "CFG"}),
        ("MaxRetriesForLocalSiteShadow: 0", "value-zero", {"BND", "ENA", "CRE", "PRF", "CFG"}),
        ("MaxRetriesForLocalSiteShadow: 1", "value-zero", set()),
    ],
)
def test_a_value_is_an_occasion_for_the_groups_that_it_can_matter_to(
    tmp_path: Path, configured: str, dimension: str, groups: set[str]
) -> None:
    steps = SEND + f"  - configure: {{node: all, transport: {{{configured}}}}}\n"
    assert groups_by_dimension(cell(tmp_path, steps))[dimension] == groups


def test_a_pair_with_a_reason_does_not_count_as_covered(tmp_path: Path) -> None:
    cells = [cell(tmp_path, SEND)]
    dimensions = read_dimensions()
    reasoned = dimensions.model_copy(update={"no_occasion": {"listener-frontend": {"PRF": "it cannot matter"}}})
    for read, is_covered, reason in ((dimensions, True, ""), (reasoned, False, "it cannot matter")):
        found = {(pair.dimension, pair.group): pair for pair in pairs(catalogue(), read, cells)}
        pair = found["listener-frontend", "PRF"]
        assert (pair.is_covered, pair.reason) == (is_covered, reason)


LACKING = {
    "more-than-100-messages BIF",
    "more-than-100-messages IOP",
    "more-than-100-messages TMO",
    "more-than-1000-messages BIF",
    "more-than-1000-messages IOP",
    "more-than-1000-messages TMO",
    "value-at-its-maximum IOP",
    "value-at-its-minimum IOP",
    "value-zero DUP",
    "value-zero IOP",
    "value-zero MNT",
    "value-zero OUT",
    "value-zero RLY",
    "value-zero SFN",
    "value-zero TMO",
}
"""The pairs that no cell covers yet, though the dimension can matter to the group."""


def test_only_the_listed_pairs_of_a_dimension_and_a_group_that_it_can_matter_to_have_no_cell() -> None:
    found = pairs(catalogue(), read_dimensions(), corpus_cells())
    assert {f"{pair.dimension} {pair.group}" for pair in found if not pair.is_covered and not pair.reason} == LACKING


def test_reasons_are_about_known_dimensions_and_groups() -> None:
    dimensions = read_dimensions()
    groups = {group for reasons in dimensions.no_occasion.values() for group in reasons}
    assert groups
    assert groups <= catalogue().groups.keys()
    assert dimensions.no_occasion.keys() <= dimensions.dimensions.keys()
