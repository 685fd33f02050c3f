"""A violated expectation is blamed on the row that it is about, not on the scenario's first row by default."""

import re
from pathlib import Path

import pytest

from conformance import judge, model, paths
from conformance.judge.blame import ViolationKind
from conformance.judge.cell import JudgeSettings, judge_cell
from conformance.judge.expectations import EXPECTATION_CHECKS
from conformance.model import RULES
from conformance.requirements.catalogue import catalogue
from conformance.scenarios.document import Cell
from conformance.scenarios.expectations import EXPECTATIONS
from conformance.scenarios.fixtures import load_topology
from conformance.scenarios.steps.action import Expect, Step
from conformance.topology import Topology
from conformance.verdicts import Outcome
from tests.judge.history import History, Mail
from tests.judge.lines import add_lines


@pytest.mark.parametrize(
    ("verb", "kind", "rows", "first"),
    [
        ("promoted", "early", ("SR-MNT-09", "SR-MNT-10"), "SR-MNT-10"),
        ("promoted", "late", ("SR-MNT-10", "SR-MNT-09"), "SR-MNT-09"),
        ("shadow", "missing", ("SR-PRF-01", "SR-BND-01", "SR-CRE-01"), "SR-CRE-01"),
        ("shadow", "elsewhere", ("SR-CRE-01", "SR-PRF-01"), "SR-PRF-01"),
        ("not-discarded", "", ("SR-BND-03", "SR-MNT-01"), "SR-MNT-01"),
        ("reply", "missing", ("SR-ENA-03", "SR-ENA-04"), "SR-ENA-04"),
        ("reply", "surplus", ("SR-ENA-04", "SR-ENA-03"), "SR-ENA-03"),
        ("shadow-attempts", "far", ("SR-PRF-01", "SR-PRF-04"), "SR-PRF-04"),
        ("shadow-attempts", "near", ("SR-PRF-04", "SR-PRF-05"), "SR-PRF-05"),
        ("shadow", "early", ("SR-CRE-01", "SR-CRE-02"), "SR-CRE-02"),
        ("not-discarded", "early", ("SR-MNT-07", "SR-E10-04"), "SR-E10-04"),
        ("promoted", "partly", ("SR-OUT-01", "SR-OUT-08"), "SR-OUT-08"),
        ("report", "missing", ("RL-RTY-01", "RL-DSN-01"), "RL-DSN-01"),
        ("reply", "size", ("RL-ACK-04", "RL-CNT-02"), "RL-CNT-02"),
    ],
)
def test_the_kind_of_violation_decides_which_row_is_blamed_first(
    verb: str, kind: ViolationKind, rows: tuple[str, ...], first: str
):
    found = EXPECTATION_CHECKS[verb].blame.order_rows(kind, rows, all_2010=False)
    assert found[0] == first
    assert sorted(found) == sorted(rows)


@pytest.mark.parametrize(
    ("verb", "kind"), [("left", ""), ("promoted", "early"), ("reply", "missing"), ("not-discarded", "early")]
)
@pytest.mark.parametrize("rows", [("SR-CFG-03", "SR-CFG-01"), ("SR-CFG-01", "SR-CFG-03")])
def test_without_a_matching_row_the_scenarios_order_stays(verb: str, kind: ViolationKind, rows: tuple[str, ...]):
    assert EXPECTATION_CHECKS[verb].blame.order_rows(kind, rows, all_2010=False) == rows


@pytest.mark.parametrize(
    ("all_2010", "row", "topology", "server"),
    [
        (False, "SR-CRE-01", "mixed-organisation", "mbx1"),  # some of its servers are of 2010
        (True, "SR-E10-03", "hubs-one-site", "hub1"),
    ],
)
def test_a_missing_shadow_is_blamed_on_its_own_row_where_the_scenario_names_none(
    all_2010: bool, row: str, topology: str, server: str
):
    blame = EXPECTATION_CHECKS["shadow"].blame
    assert blame.order_rows("missing", ("SR-OUT-03",), all_2010=all_2010) == (row, "SR-OUT-03")
    named = blame.order_rows("missing", ("SR-OUT-03", "SR-CRE-01"), all_2010=all_2010)
    assert named == ("SR-CRE-01", "SR-OUT-03"), "where the scenario names one"
    servers = load_topology(paths.fixtures() / "topologies" / f"{topology}.yaml")
    lines = f"outside > {server}  m: 250\ndrained"
    assert blamed(lines, ("shadow", {"of": "m"}), rows=("SR-OUT-03",), topology=servers)[0] == row, "in a cell"


def test_checks_blame_rows_of_the_catalogue_only():
    named = set()
    for verb, check in EXPECTATION_CHECKS.items():
        rows = {row for rows in check.blame.rows_by_kind.values() for row in rows}
        rows |= {row for both in check.blame.fallback_rows.values() for row in both.values()}
        assert rows <= catalogue().ids, verb
        named |= {verb} if rows else set()
    assert {"shadow", "shadow-attempts", "promoted", "not-promoted", "discarded", "not-discarded", "reply"} <= named
    sources = [path for package in (judge, model) for path in Path(package.__file__).parent.rglob("*.py")]
    written = {row for path in sources for row in re.findall(r'"((?:SR|RL)-\w+-\w+)"', path.read_text("utf-8"))}
    of_rules = {row for rule in RULES.values() for row in rule.requirements}
    assert of_rules | {"SR-OUT-07", "RL-RPL-02"} <= written <= catalogue().ids, "of rules, violations and adjustments"


CROSS_SITE = load_topology(paths.fixtures() / "topologies" / "cross-site-dag.yaml")


def blamed(
    history: str,
    *expected: tuple[str, dict[str, object]],
    rows: tuple[str, ...],
    topology: Topology = CROSS_SITE,
) -> list[str]:
    """Return the rows of the violations of a cell, in their order."""
    made = History(topology)
    made.add_message(Mail("m"))
    add_lines(made, history)
    steps = []
    for number, (verb, fields) in enumerate(expected, 1):
        steps.append(
            Step(
                path=str(number), line=number, verb="expect",
                action=Expect(verb=verb, expectation=EXPECTATIONS[verb].model_validate(fields)),
            )
        )  # fmt: skip
        made.step("reached", str(number), "expect")
        made.step("ended", str(number), "expect")
    cell = Cell(
        scenario="s", title="t", path="", line=1, axes={}, requirements=rows, needs=(), topology=topology, drain=1,
        steps=tuple(steps), sha256="0",
    )  # fmt: skip
    setting = JudgeSettings("virtual", 0.0, frozenset({"shadow-2013"}), True)
    return [one.requirements[0] for one in judge_cell(cell, made.events, setting) if one.outcome is Outcome.FAIL]


@pytest.mark.parametrize(
    ("fields", "said", "first"),
    [
        ({"code": 450}, "250", "SR-ENA-04"),  # a refusal is missing
        ({"classes": [4, 5]}, "250", "SR-ENA-04"),
        ({"enhanced": "4.4.0"}, "250", "SR-ENA-04"),
        ({"classes": [2], "text": "stored"}, "250", "RL-RPL-01"),  # accepted as expected, with another text
        ({"text": "stored"}, "250", "RL-RPL-01"),
        ({"code": 250}, "451", "SR-ENA-03"),  # a refusal too many
        ({"classes": [2]}, "451", "SR-ENA-03"),
        ({"classes": [2, 5]}, "451", "RL-RPL-01"),
        ({"code": 250}, "nothing", "SR-ENA-03"),
        ({"code": 450}, "nothing", "RL-RPL-01"),
        ({"code": 450}, "451", "SR-ENA-04"),  # another refusal of the class
        ({"classes": [4], "text": "stored"}, "451", "SR-ENA-04"),
        ({"code": 450}, "550", "RL-RPL-01"),
    ],
)
def test_rows_about_refusals_are_blamed_only_where_a_refusal_is_missing_or_another_or_one_too_many(
    fields: dict[str, object], said: str, first: str
):
    lines = f"outside > mbx1  m: {said}"
    assert blamed(lines, ("reply", {"of": "m"} | fields), rows=("RL-RPL-01", "SR-ENA-03", "SR-ENA-04"))[0] == first


SHADOW = ("shadow", {"of": "m", "by": "mbx1", "on": ["mbx2", "mbx3"], "stored": "before-acknowledgement"})
ATTEMPTS = ("shadow-attempts", {"of": "m", "by": "mbx1", "sites": ["remote", "remote", "remote", "remote", "local"]})


@pytest.mark.parametrize(
    ("servers", "first"),
    [
        ("mbx4 mbx4 mbx4 mbx4", "SR-PRF-05"),  # too few in its own site
        ("mbx4 mbx4 mbx4 mbx2", "SR-PRF-04"),  # too few in another site
        ("mbx2 mbx4 mbx4 mbx4 mbx4", "SR-PRF-01"),  # in another order
    ],
)
def test_attempts_at_wrong_sites_are_blamed_before_the_missing_shadow(servers: str, first: str):
    attempts = "".join(f"mbx1 >< {server}\n" for server in servers.split())
    lines = f"outside > mbx1  m\n{attempts}outside < mbx1  250\nmbx1 > mbx1-store  m: 250\ndrained"
    rows = ("SR-PRF-01", "SR-PRF-04", "SR-PRF-05")
    assert blamed(lines, SHADOW, ATTEMPTS, rows=rows) == [first, "SR-CRE-01", "SR-CRE-01"]


@pytest.mark.parametrize("attempts_first", [False, True])
@pytest.mark.parametrize("asked", [{"sites": ATTEMPTS[1]["sites"]}, {"sites": ["London", "NewYork"]}, {"count": 5}])
def test_without_attempts_the_missing_shadow_is_blamed_first(asked: dict[str, object], attempts_first: bool):
    lines = "outside > mbx1  m\noutside < mbx1  250\nmbx1 > mbx1-store  m: 250\ndrained"
    attempts = ("shadow-attempts", {"of": "m", "by": "mbx1"} | asked)
    expected = (attempts, SHADOW) if attempts_first else (SHADOW, attempts)
    assert blamed(lines, *expected, rows=("SR-PRF-01", "SR-PRF-04")) == ["SR-CRE-01", "SR-CRE-01", "SR-PRF-01"]
