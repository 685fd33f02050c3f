"""An ordinary relay is not blamed on rows that bind shadow servers only, nor for extensions that it does not offer."""

from dataclasses import replace
from typing import Any

import pytest

from conformance import paths
from conformance.generations import SHADOW_CAPABILITIES
from conformance.history.events import Talked
from conformance.history.values import TalkExchange
from conformance.judge.cell import JudgeSettings, judge_cell
from conformance.requirements.catalogue import catalogue
from conformance.scenarios.document import LACKS, Cell
from conformance.scenarios.expectations import EXPECTATIONS
from conformance.scenarios.fixtures import load_topology
from conformance.scenarios.loader import Scenario, read_corpus
from conformance.scenarios.steps.action import Expect, Step, flattened
from conformance.trace.context import RELAY_CAPABILITIES
from conformance.verdicts import Outcome, Verdict
from tests.judge.history import History, Mail
from tests.judge.lines import add_lines
from tests.judge.miniature import miniatures

RELAY = frozenset({"relay", "dsn"})
CORPUS = read_corpus([paths.corpus()], paths.fixtures())


def of_relays(scenario: Scenario) -> bool:
    """Return whether an ordinary relay supports everything that the scenario needs."""
    return all(set(cell.needs) <= RELAY_CAPABILITIES | set(LACKS) for cell in scenario.cells("smoke", None))


@pytest.mark.parametrize("scenario", [one for one in CORPUS if of_relays(one)], ids=lambda one: one.id)
def test_scenarios_for_ordinary_relays_name_a_row_that_binds_relays(scenario: Scenario) -> None:
    cells = scenario.cells("smoke", None)
    assert cells
    for cell in cells:
        expected = [step.action.expectation for step in flattened(cell.steps) if isinstance(step.action, Expect)]
        for rows in [cell.requirements, *(one.requirements for one in expected if one.requirements)]:
            assert any(catalogue()[row].profile == "relay" for row in rows), rows


def judged(
    history: str, *, requirements: tuple[str, ...] = ("RL-ACK-03",), claims: frozenset[str] = RELAY, greeted: str = "",
    offered: tuple[str, ...] | None = None, **expect: Any,
) -> tuple[Verdict, ...]:  # fmt: skip
    """Judge a history of the topology `relay` with one expectation at its end.

    `greeted` is the reply to EHLO in a talk `t` that did not go as written; '' for no talk. `offered` are the keywords of the
    server, None for the usual ones.
    """
    topology = load_topology(paths.fixtures() / "topologies" / "relay.yaml")
    built = History(topology)
    built.add_message(Mail("m", ("victor@outside.test",), sender="alice@outside.test"))
    if offered is not None:
        built.keywords["mta1", "frontend"] = offered
    add_lines(built, history)
    if greeted:
        session = built.session("outside", "mta1").name
        exchanges = (TalkExchange(said="EHLO x", code=250, text=greeted),)
        built.add(Talked, conversation="t", client="outside", server="mta1", listener="frontend", session=session,
                  exchanges=exchanges, problem="expected 502")  # fmt: skip
    ((verb, fields),) = expect.items()
    action = Expect(verb=verb, expectation=EXPECTATIONS[verb].model_validate(fields))
    built.step("reached", "1", "expect")
    built.step("ended", "1", "expect")
    cell = Cell(
        scenario="s", title="a scenario", path="x.yaml", line=1, axes={}, requirements=requirements, needs=(),
        topology=topology, drain=60.0, sha256="0" * 64, steps=(Step(path="1", line=2, verb="expect", action=action),),
    )  # fmt: skip
    return judge_cell(cell, built.events, JudgeSettings("virtual", 0.0, claims, complete=True))


WRONG = """
outside > mta1  m: 250
outside > mta1  hears 250 2.0.0 again
mta1 > outside  m altered: 250
mta1 > outside  m altered: 250
drained
"""


def test_no_row_of_shadow_servers_is_blamed_on_a_relay() -> None:
    of_relay, of_shadow_server = (
        [v for v in judged(WRONG, claims=claims, delivered={"of": "m"}) if v.outcome is Outcome.FAIL]
        for claims in (RELAY, RELAY | SHADOW_CAPABILITIES)
    )
    assert {verdict.check for verdict in of_relay} >= {"invariant.content-unchanged", "invariant.one-final-reply"}
    assert {row for verdict in of_relay for row in verdict.requirements if not row.startswith("RL-")} == set()
    assert any(row.startswith("SR-") for verdict in of_shadow_server for row in verdict.requirements)
    broken = [
        verdict
        for one in miniatures()
        if len(one.cell.topology.servers) == 1
        for verdict in judge_cell(one.cell, one.history.events, replace(one.setting, claims=RELAY))
        if verdict.outcome is Outcome.FAIL
    ]
    assert len({verdict.check for verdict in broken}) > 30, "the same for whatever else a single server does wrong"
    assert {row for verdict in broken for row in verdict.requirements if not row.startswith("RL-")} == set()


def test_a_shadow_server_is_blamed_on_both_rows_and_a_relay_on_its_own() -> None:
    rows = ("SR-TMO-03", "RL-ACK-03")
    of_shadow_server = judged(WRONG, requirements=rows, claims=RELAY | SHADOW_CAPABILITIES, delivered={"of": "m"})[0]
    of_relay = judged(WRONG, requirements=rows, delivered={"of": "m"})[0]
    assert (of_shadow_server.outcome, of_shadow_server.requirements) == (Outcome.FAIL, rows)
    assert (of_relay.outcome, of_relay.requirements) == (Outcome.FAIL, ("RL-ACK-03",))
    for claims, blamed in ((RELAY | SHADOW_CAPABILITIES, rows), (RELAY, ("RL-ACK-03",))):
        verdict = judged(WRONG, claims=claims, delivered={"of": "m", "requirements": rows})[0]
        assert (verdict.outcome, verdict.requirements) == (Outcome.FAIL, blamed), "the expectation names its rows"


@pytest.mark.parametrize(
    ("keyword", "text", "outcome"),
    [
        ("ENHANCEDSTATUSCODES", "5.3.4 too big", Outcome.PASS),
        ("ENHANCEDSTATUSCODES", "too big", Outcome.FAIL),
        ("ENHANCEDSTATUSCODES", "5.7.1 too big", Outcome.FAIL),
        ("8BITMIME", "too big", Outcome.PASS),
        ("8BITMIME", "5.7.1 too big", Outcome.PASS),
    ],
)
def test_an_enhanced_code_is_required_only_where_it_is_offered(keyword: str, text: str, outcome: Outcome) -> None:
    history, expected = f"outside > mta1  m: 552 {text}\ndrained", {"of": "m", "code": 552, "enhanced": "5.3.4"}
    assert judged(history, offered=("SIZE", keyword), reply=expected)[0].outcome is outcome


@pytest.mark.parametrize(
    ("offers", "outcome"),
    [("SIZE", Outcome.FAIL), ("8BITMIME", Outcome.NOT_APPLICABLE), ("nothing", Outcome.NOT_APPLICABLE)],
)
def test_an_expectation_about_a_keyword_applies_only_where_it_is_offered(offers: str, outcome: Outcome) -> None:
    history = f"mta1 offers {offers} at frontend\noutside > mta1  m: 250\nmta1 > outside  m: 250\ndrained"
    assert judged(history, reply={"of": "m", "code": 552, "where": "SIZE"})[0].outcome is outcome


@pytest.mark.parametrize(
    ("offers", "greeted", "outcome"),
    [
        ("SIZE", "mta1", Outcome.FAIL),
        ("8BITMIME", "mta1 8BITMIME", Outcome.NOT_APPLICABLE),
        ("nothing", "mta1", Outcome.NOT_APPLICABLE),
        ("nothing", "mta1 SIZE 100", Outcome.FAIL),
    ],
    ids=["on the wire", "another one", "nowhere", "within TLS"],
)
def test_an_expectation_about_a_conversation_applies_only_where_its_keyword_is_offered(
    offers: str, greeted: str, outcome: Outcome
) -> None:
    expected = {"conversation": "t", "where": "SIZE"}
    verdict = judged(f"mta1 offers {offers} at frontend", greeted=greeted, conversation=expected)[0]
    assert verdict.outcome is outcome


@pytest.mark.parametrize(
    ("code", "outcome"),
    [("451 4.3.0 later", Outcome.INCONCLUSIVE), ("nothing", Outcome.INCONCLUSIVE), ("250", Outcome.FAIL)],
)
def test_an_unacknowledged_message_is_not_lost(code: str, outcome: Outcome) -> None:
    verdicts = judged(f"outside > mta1  m: {code}\ndrained", requirements=("RL-ACK-01",), delivered={"of": "m"})
    assert verdicts[0].outcome is outcome
    blaming = {"expect.delivered", "invariant.nothing-acknowledged-is-lost"} if outcome is Outcome.FAIL else set()
    assert {verdict.check for verdict in verdicts if verdict.outcome is Outcome.FAIL} == blaming
