"""A plan is reduced to the steps, messages, servers and parameters that matter, and stays a valid scenario."""

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.description import REFERENCE
from conformance.explore import campaign
from conformance.explore.documents import problems_of
from conformance.explore.shrink import shrink
from conformance.explore.sweep import Plan, as_step, numbered, without_faults
from conformance.explore.trial import PlanResult, PlanRun, Violation
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.breaking import Fault, Heal
from conformance.scenarios.steps.sending import Send
from conformance.topology import Topology
from tests.explore.test_explore import SETTINGS, cell_of


def sending(*, to: str = "victor@outside.test") -> Cell:
    """Return a cell of three servers in two sites, with parameters for all and for one, in which one message is sent."""
    topology = Topology.model_validate(
        {
            "name": "three",
            "servers": [
                {"name": "mbx1", "site": "NewYork", "dag": "DAG1", "transport": {"MessageRetryInterval": 60}},
                {"name": "mbx2", "site": "London", "dag": "DAG1"},
                {"name": "mbx3", "site": "London", "dag": "DAG1"},
            ],
            "mailboxes": [
                {"address": "bob@corp.test", "database": "DB2", "server": "mbx2"},
                {"address": "dave@corp.test", "database": "DB3", "server": "mbx3"},
            ],
            "sinks": [{"name": "outside", "domains": ["outside.test"]}],
            "routes": [
                {"domain": "*", "next-hops": ["outside"], "servers": ["mbx3"]},
                {"domain": "*", "next-hops": ["outside"]},
            ],
            "site-links": [{"between": ["NewYork", "London"], "cost": 10}],
            "rights": [{"server": "mbx1", "peer": "mbx3"}],
            "transport": {"ShadowHeartbeatFrequency": 30, "SafetyNetHoldTime": 3600},
        }
    )
    send = as_step(Send.model_validate({"as": "m", "to": to, "via": "mbx1"}))
    return without_faults(cell_of("each-message-once")).model_copy(
        update={"topology": topology, "steps": numbered([send])}
    )


def test_a_plan_is_reduced_to_the_steps_that_matter() -> None:
    cell = without_faults(cell_of("each-message-once"))
    (send,) = [step for step in cell.steps if isinstance(step.action, Send)]
    first, second = (
        send.model_copy(update={"action": send.action.model_copy(update={"count": 3, "name": name})})
        for name in ("first", "second")
    )
    plan = Plan("many", cell.model_copy(update={"steps": numbered([send, first, send, send, second, send, send])}))

    def shrunk(*needed: str) -> list[tuple[str, str | None, int]]:
        """Return the steps that are left of a plan that fails as long as it has those with the needed names."""

        def fails(candidate: Plan) -> bool:
            return {*needed} <= {step.action.name for step in candidate.cell.steps}

        return [(step.path, step.action.name, step.action.count) for step in shrink(plan, fails).cell.steps]

    assert shrunk("second") == [("1", "second", 1)]
    assert shrunk("first", "second") == [("1", "first", 1), ("2", "second", 1)], "also of two that stand apart"


def test_several_messages_and_recipients_become_one_of_each_with_few_runs() -> None:
    cell = without_faults(cell_of("each-message-once"))
    (send,) = [step for step in cell.steps if isinstance(step.action, Send)]
    to = tuple(f"victor{number}@outside.test" for number in range(4))
    action = send.action.model_copy(update={"count": 3, "to": to})
    plan = Plan("many", cell.model_copy(update={"steps": numbered([send.model_copy(update={"action": action})])}))
    tried: list[tuple[int, tuple[str, ...]]] = []

    def fails(candidate: Plan) -> bool:
        (step,) = candidate.cell.steps
        assert isinstance(step.action, Send)
        if candidate.cell.topology == plan.cell.topology:
            tried.append((step.action.count, step.action.to))
        return to[1] in step.action.to

    (reduced,) = shrink(plan, fails).cell.steps
    assert isinstance(reduced.action, Send)
    assert (reduced.action.count, reduced.action.to) == (1, to[1:2])
    assert tried[:3] == [(1, to), (1, to[:1]), (1, to[1:2])]
    assert len(tried) == 3


def test_servers_that_do_not_matter_are_left_out_with_what_belongs_to_them() -> None:
    plan = Plan("one", sending())
    topology = shrink(plan, lambda plan: "mbx1" in plan.cell.topology.by_name).cell.topology
    assert list(topology.by_name) == ["mbx1"]
    assert (topology.mailboxes, topology.rights, topology.site_links) == ((), (), ())
    assert [(route.domain, route.servers) for route in topology.routes] == [("*", ())]
    two = shrink(plan, lambda plan: {"mbx1", "mbx3"} <= plan.cell.topology.by_name.keys()).cell.topology
    assert list(two.by_name) == ["mbx1", "mbx3"]
    assert [mailbox.address for mailbox in two.mailboxes] == ["dave@corp.test"]
    whole = plan.cell.topology
    assert (two.rights, two.site_links, two.routes) == (whole.rights, whole.site_links, whole.routes), "of what stays"


def test_the_server_of_a_mailbox_that_is_written_to_is_kept() -> None:
    topology = shrink(Plan("one", sending(to="Dave@corp.test")), lambda plan: True).cell.topology
    assert list(topology.by_name) == ["mbx3"]
    assert [mailbox.address for mailbox in topology.mailboxes] == ["dave@corp.test"]


@pytest.mark.long
def test_parameters_that_do_not_matter_get_their_defaults() -> None:
    def fails(plan: Plan) -> bool:
        return (
            "SafetyNetHoldTime" in plan.cell.topology.transport
            and {"mbx1", "mbx2"} <= plan.cell.topology.by_name.keys()
        )

    topology = shrink(Plan("one", sending()), fails).cell.topology
    assert topology.transport == {"SafetyNetHoldTime": 3600}
    assert [(server.name, server.transport) for server in topology.servers] == [("mbx1", {}), ("mbx2", {})]
    assert shrink(Plan("one", sending()), lambda plan: True).cell.topology.transport == {}


def test_what_a_left_out_step_defines_is_a_problem_of_those_that_refer_to_it() -> None:
    fault = Fault.model_validate({"as": "f", "from": "outside", "to": "mbx1", "does": "drop", "at": "MAIL"})
    cell = sending()
    whole = numbered([as_step(fault), *cell.steps, as_step(Heal(what="f"))])
    assert problems_of(cell.model_copy(update={"steps": whole}), paths.fixtures()) == ()
    (problem,) = problems_of(cell.model_copy(update={"steps": numbered(whole[1:])}), paths.fixtures())
    assert problem.message.startswith("no fault or partition armed before: 'f'"), "that of `heal`"
    without = numbered(whole[1:-1])
    assert problems_of(cell.model_copy(update={"steps": without}), paths.fixtures()) == ()


def test_a_finding_is_reduced_to_a_valid_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault.model_validate({"as": "f", "from": "outside", "to": "mbx1", "does": "drop", "at": "MAIL"})
    cell = sending()
    steps = numbered([as_step(fault), *cell.steps, as_step(Heal(what="f"))])
    plan = Plan("one", cell.model_copy(update={"steps": steps}))
    lost = (Violation(check="lost", requirement="RL-ACK-01", sentence="lost"),)

    def violated_by_heal(plan: Plan, *_: object) -> PlanRun:
        heals = any(step.verb == "heal" for step in plan.cell.steps)
        return PlanRun(plan, PlanResult(plan.name, "violated", violations=lost if heals else ()), events=())

    monkeypatch.setattr(campaign, "run_plan", violated_by_heal)
    found = campaign.Campaign({0: violated_by_heal(plan).result})
    (finding,) = campaign.reduce_findings(found, [plan], Assignment(REFERENCE), SETTINGS)
    assert [step.verb for step in finding.reduced.cell.steps] == ["fault", "heal"]
    assert problems_of(finding.reduced.cell, paths.fixtures()) == ()
