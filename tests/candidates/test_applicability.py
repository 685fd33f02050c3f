"""Which cells apply to which assignment: needed claims by generation and role, named servers, generations, clocks."""

from functools import cache

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment, read_assignment
from conformance.candidates.cell_needs import (
    claimed_capabilities,
    servers_needing,
    unclaimed_needs,
    with_described_generations,
)
from conformance.candidates.description import REFERENCE, Candidate, read_description
from conformance.commands import candidate as command
from conformance.history.dialects import PROFILE_1, Dialect
from conformance.records import candidate_record
from conformance.run.applicability import inapplicable_reason
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_corpus, read_scenarios
from conformance.scenarios.steps.action import Expect, flattened
from conformance.scenarios.steps.breaking import Answer
from conformance.scenarios.steps.nodes import Kill

SETTINGS = Settings(clock="shifted")


@cache
def corpus() -> dict[str, Cell]:
    """Return the first cell of each scenario of the corpus, by the scenario's id."""
    return {
        one.id: one.cells("smoke", REFERENCE.own_timers)[0] for one in read_corpus([paths.corpus()], paths.fixtures())
    }


def candidate(*claimed: str, **changes: object) -> Candidate:
    return REFERENCE.model_copy(update={"name": "mine", "kind": "exec", "claims": claimed, **changes})


HUB = candidate("relay", "shadow-2010")
MAILBOX_SERVER = candidate("relay", "shadow-2013", "lmtp-delivery", "duplicate-detection")
INTEROPERATION = sorted(cell.scenario for cell in corpus().values() if cell.path.startswith("interoperation/"))
TO_A_MAILBOX_BEHIND_THE_HUB = {"mail-to-a-2010-mailbox-is-shadowed-for-it", "nothing-is-resubmitted-to-a-2010-mailbox"}


@pytest.mark.parametrize("scenario", INTEROPERATION)
def test_a_2010_hub_needs_only_shadow_2010_and_lmtp_delivery_for_a_mailbox_of_its_own(scenario: str):
    def reason_with(*claims: str) -> str:
        return inapplicable_reason(corpus()[scenario], Assignment(REFERENCE, {"hub1": candidate(*claims)}), SETTINGS)

    needs_delivery = scenario in TO_A_MAILBOX_BEHIND_THE_HUB
    assert reason_with("shadow-2010") == ("not claimed: mine: lmtp-delivery" if needs_delivery else "")
    assert reason_with("shadow-2010", "lmtp-delivery") == ""
    assert reason_with("lmtp-delivery") == "not claimed: mine: shadow-2010"


@pytest.mark.parametrize("scenario", INTEROPERATION)
def test_a_2016_server_needs_the_claim_shadow_2013_and_not_shadow_2010(scenario: str):
    """Only mbx1 is inspected and gets the command to resubmit, so mbx2 needs the claim of neither command."""
    for claim, said in (("shadow-2013", ""), ("shadow-2010", "not claimed: mine: shadow-2013")):
        mine = candidate("relay", "safety-net", "lmtp-delivery", "duplicate-detection", claim)
        assert inapplicable_reason(corpus()[scenario], Assignment(REFERENCE, {"mbx2": mine}), SETTINGS) == said


def test_a_run_claims_what_all_candidates_in_its_cells_claim():
    mine = candidate("relay", "dsn", "shadow-2030")
    assignment = Assignment(REFERENCE, {"mta1": mine})
    assert candidate_record(assignment, [corpus()["each-message-once"]]).claims == ("dsn", "relay", "shadow-2030")
    assert candidate_record(assignment, corpus().values()).claims == ("dsn", "relay")
    assert candidate_record(assignment).claims == ("dsn", "relay")


@pytest.mark.parametrize("claim", ["shadow-2013", "shadow-2010"])
def test_a_cell_that_needs_shadow_needs_the_claim_of_either_generation(claim: str):
    cell = corpus()["idle-session-is-closed"]
    assert unclaimed_needs(cell, Assignment(candidate("relay"))) == ("mine: shadow-2013 or shadow-2010",)
    assert unclaimed_needs(cell, Assignment(candidate("relay", claim))) == ()


@pytest.mark.parametrize(
    ("scenario", "lacks"),
    [
        ("transient-failures-are-outlived", "queue"),
        ("given-up-at-its-own-time", "queue"),
        ("each-message-once", "routes"),
        ("an-alternative-next-hop-is-used", "routes"),
        ("an-alternative-next-hop-is-used", "alternatives"),
        ("replies-keep-their-order", "routes"),
    ],
)
def test_cells_that_need_what_a_description_lacks_are_not_applicable(scenario: str, lacks: str):
    cell = corpus()[scenario]
    assert inapplicable_reason(cell, Assignment(candidate("relay", "dsn")), SETTINGS) == ""
    reason = inapplicable_reason(cell, Assignment(candidate("relay", "dsn", lacks=(lacks,))), SETTINGS)
    assert reason.startswith(f"not claimed: mine: {lacks} (its description says")


@pytest.mark.parametrize(
    ("fault", "scale", "applies"),
    [
        ("greeting-after-stall", 60, False),
        ("connect-before-mute", 60, False),
        ("dot-before-stall", 60, False),
        ("greeting-after-stall", 1, True),
        ("dot-after-stall", 60, True),
        ("mail-after-replace", 60, True),
        ("none", 60, True),
    ],
)
def test_a_scaled_clock_cannot_show_a_real_wait_for_a_silent_next_hop(fault: str, scale: float, applies: bool):
    patient = Assignment(candidate("relay", waits_for_silence=300.0))
    settings = Settings(clock="scaled" if scale != 1 else "real", seed=1, scale=scale)
    scenario = next(
        one
        for one in read_scenarios(paths.corpus() / "relay" / "relay.scenario.yaml", paths.fixtures())
        if one.id == "whatever-breaks-on-the-way-out"
    )
    (cell,) = (one for one in scenario.cells("full") if one.axes == {"fault": fault})
    reason = "" if applies else (
        "a scaled clock cannot show it: mta1 (mine) waits 5m of real time for a silent next hop"
    )  # fmt: skip
    assert inapplicable_reason(cell, patient, settings) == reason
    assert inapplicable_reason(cell, Assignment(candidate("relay")), settings) == ""


def cell_of(file: str, scenario: str) -> Cell:
    found = read_scenarios(paths.corpus() / "relay" / file, paths.fixtures())
    return next(iter(next(one for one in found if one.id == scenario).cells("full")))


@pytest.mark.parametrize(
    ("file", "scenario", "scale", "applies"),
    [
        ("relay.scenario.yaml", "killed-as-it-acknowledges", 60, False),
        ("losses.scenario.yaml", "killed-under-load", 60, False),
        ("relay.scenario.yaml", "killed-as-it-acknowledges", 1, True),
        ("delayed-acknowledgement.scenario.yaml", "acknowledged-means-handed-on", 60, True),
        ("relay.scenario.yaml", "transient-failures-are-outlived", 60, True),
    ],
)
def test_a_scaled_clock_cannot_show_a_real_wait_after_a_kill(file: str, scenario: str, scale: float, applies: bool):
    claims = ("relay", "dsn", "delayed-acknowledgement")
    slow = Assignment(candidate(*claims, waits_after_a_kill=465.0))
    settings = Settings(clock="scaled" if scale != 1 else "real", seed=1, scale=scale)
    cell = cell_of(file, scenario)
    reason = "" if applies else (
        "a scaled clock cannot show it: mta1 (mine) may leave a message alone for 7m45s of real time after a kill"
    )  # fmt: skip
    assert inapplicable_reason(cell, slow, settings) == reason
    assert inapplicable_reason(cell, Assignment(candidate(*claims)), settings) == ""


@pytest.mark.parametrize(
    ("file", "scenario", "scale", "applies"),
    [
        ("relay.scenario.yaml", "transient-failures-are-outlived", 60, False),
        ("relay.scenario.yaml", "a-next-hop-that-was-away", 60, False),
        ("relay.scenario.yaml", "transient-failures-are-outlived", 1, True),
        ("relay.scenario.yaml", "permanent-failure-is-reported-once", 60, True),
        ("losses.scenario.yaml", "whatever-breaks-on-the-way-to-a-relay", 60, True),
    ],
)
def test_a_scaled_clock_cannot_show_a_real_wait_between_two_attempts(
    file: str, scenario: str, scale: float, applies: bool
):
    claims = ("relay", "dsn", "lmtp-delivery")
    settings = Settings(clock="scaled" if scale != 1 else "real", seed=1, scale=scale)
    cell = cell_of(file, scenario)
    reason = "" if applies else "a scaled clock cannot show it: mta1 (mine) waits 30s of real time between two attempts"
    assert inapplicable_reason(cell, Assignment(candidate(*claims, waits_between_attempts=30.0)), settings) == reason
    assert inapplicable_reason(cell, Assignment(candidate(*claims)), settings) == ""


@cache
def bounds_after_a_kill() -> dict[str, float]:
    """Return the shortest bound of the expectations of each relay scenario that kills a server with deferred mail, by its id."""
    found: dict[str, float] = {}
    for file in sorted((paths.corpus() / "relay").glob("*.yaml")):
        for scenario in read_scenarios(file, paths.fixtures()):
            for cell in scenario.cells("full"):
                steps = [step.action for step in flattened(cell.steps)]
                defers = any(isinstance(one, Answer) and one.reply.startswith("4") for one in steps)
                if defers and any(isinstance(one, Kill) for one in steps):
                    bounds = [one.expectation.within for one in steps if isinstance(one, Expect)]
                    shortest = min(bound for bound in bounds if bound is not None)
                    found[scenario.id] = min(shortest, found.get(scenario.id, shortest))
    return found


def test_relay_cells_that_kill_a_server_with_deferred_mail_wait_longer_than_any_shipped_server_then_does():
    shipped = (paths.fixtures() / "candidates").glob("*.yaml")
    longest = max(read_description(path).waits_after_a_kill or 0.0 for path in shipped)
    assert longest > 0
    assert bounds_after_a_kill()
    assert {scenario: bound for scenario, bound in bounds_after_a_kill().items() if bound <= longest} == {}


def test_cells_that_need_neither_queue_nor_routes_apply_to_a_relay_without_them():
    bare = Assignment(candidate("relay", lacks=("queue", "routes")))
    assert inapplicable_reason(corpus()["content-passes-unchanged"], bare, SETTINGS) == ""
    assert inapplicable_reason(corpus()["lost-before-the-final-dot"], bare, SETTINGS) == ""
    # its recipient has the route for all domains only
    assert inapplicable_reason(corpus()["too-large-is-refused"], bare, SETTINGS) == ""


def test_a_server_without_2010_cannot_play_the_hub():
    cell = corpus()["no-xshadow-for-a-2010-hub"]
    assert inapplicable_reason(cell, Assignment(MAILBOX_SERVER), SETTINGS) == "not claimed: mine: shadow-2010"
    assert inapplicable_reason(cell, Assignment(candidate(*MAILBOX_SERVER.claims, "shadow-2010")), SETTINGS) == ""


def test_a_claim_that_fits_no_server_s_generation_is_needed_of_all_servers():
    cell = corpus()["no-xshadow-for-a-2010-hub"]
    alone = cell.model_copy(
        update={"topology": cell.topology.model_copy(update={"servers": cell.topology.servers[:2]})}
    )
    assert [server.name for server in servers_needing("shadow-2010", alone)] == ["mbx1", "mbx2"]
    for lacking in ({"mbx1": MAILBOX_SERVER}, {"mbx2": MAILBOX_SERVER}):
        assert unclaimed_needs(alone, Assignment(REFERENCE, lacking)) == ("mine: shadow-2010",)
    assert unclaimed_needs(alone, Assignment(REFERENCE)) == ()


def test_a_mixed_assignment_claims_what_the_servers_that_need_a_claim_have():
    cell = corpus()["a-2010-hub-keeps-no-shadow-of-what-it-sends-to-2016"]
    mixed = claimed_capabilities(cell, Assignment(REFERENCE, {"hub1": HUB}))
    assert {"shadow-2013", "shadow-2010", "duplicate-detection", "safety-net"} <= mixed
    assert "dsn" not in mixed
    assert claimed_capabilities(cell, Assignment(HUB)) == {"relay", "shadow-2010"}


def test_a_cell_whose_topology_lacks_an_assigned_server_is_not_applicable():
    cell = next(cell for cell in corpus().values() if cell.topology.name == "two-servers-one-dag")
    hub = read_assignment("hub1=exec:reference", paths.fixtures() / "candidates")
    assert inapplicable_reason(cell, hub, SETTINGS) == "not in this topology: hub1 (reference)"
    assert inapplicable_reason(cell, read_assignment("hub1=reference", paths.fixtures()), SETTINGS).startswith(
        "not in this topology"
    )
    both = Assignment(REFERENCE, {"hub1": HUB, "mbx1": MAILBOX_SERVER})
    assert inapplicable_reason(cell, both, SETTINGS) == "not in this topology: hub1 (mine)"
    assert inapplicable_reason(cell, Assignment(REFERENCE, {"hub1": HUB, "mbx1": HUB}), SETTINGS).startswith(
        "not claimed"
    )
    assert inapplicable_reason(cell, Assignment(REFERENCE, {"hub1": REFERENCE, "mbx1": REFERENCE}), SETTINGS) == ""


def test_a_cell_with_another_generation_of_the_server_is_not_applicable():
    of_2016 = candidate(*REFERENCE.claims, generations=("ex2016",))
    cell = corpus()["no-xshadow-for-a-2010-hub"]
    assert (
        inapplicable_reason(cell, Assignment(of_2016), SETTINGS)
        == "not of this generation: mine is ex2016, hub1 is ex2010"
    )
    assert inapplicable_reason(cell, Assignment(REFERENCE, {"mbx1": of_2016}), SETTINGS) == ""
    of_2013 = candidate(*REFERENCE.claims, generations=("ex2010", "ex2013"))
    assert inapplicable_reason(cell, Assignment(REFERENCE, {"mbx1": of_2013}), SETTINGS) == (
        "not of this generation: mine is ex2010 or ex2013, mbx1 is ex2016"
    )


def test_a_server_without_a_needed_generation_gets_that_of_its_candidate():
    of_2010 = Assignment(candidate("relay", "shadow-2010", generations=("ex2010",)))
    relayed = next(cell for cell in corpus().values() if cell.topology.name == "relay" and cell.needs == ("relay",))
    taken = with_described_generations(relayed, of_2010)
    assert [server.generation for server in taken.topology.servers] == ["ex2010"]
    assert inapplicable_reason(taken, of_2010, SETTINGS) == ""
    assert with_described_generations(relayed, Assignment(REFERENCE)) is relayed
    (server,) = relayed.topology.servers
    named = server.model_copy(update={"generation": server.generation})
    topology = relayed.topology.model_copy(update={"servers": (named,)})
    for needing in ({"topology": topology}, {"requirements": ("SR-BND-01",)}):
        changed = relayed.model_copy(update=needing)
        assert with_described_generations(changed, of_2010) is changed
    shadowed = next(cell for cell in corpus().values() if cell.needs == ("shadow-2013",))
    assert with_described_generations(shadowed, of_2010) is shadowed


def test_a_probe_starts_a_server_as_the_first_described_generation_that_has_the_claim(monkeypatch: pytest.MonkeyPatch):
    probed: dict[str, set[str]] = {}

    def noting(cell: Cell, *_: object) -> str:
        """Note the generations of a cell that a check is about to run, and keep it from being run."""
        probed[cell.scenario.removeprefix("probe-")] = {server.generation for server in cell.topology.servers}
        return "only looked at"

    monkeypatch.setattr(command, "inapplicable_reason", noting)
    for generations, of_relay in ((("ex2013", "ex2010"), "ex2013"), (("ex2010", "ex2013"), "ex2010")):
        list(command.check(candidate(*REFERENCE.claims, generations=generations)))
        assert probed.keys() == set(REFERENCE.claims)
        assert probed["relay"] == {of_relay}
        assert (probed["shadow-2013"], probed["shadow-2010"]) == ({"ex2013"}, {"ex2010"})
    list(command.check(REFERENCE))
    assert probed["relay"] == {"ex2016"}


def test_a_moved_clock_makes_the_default_candidate_of_a_mixed_assignment_a_program():
    assignment = Assignment(REFERENCE, {"hub1": HUB})
    assert assignment.default.kind == "python"
    assert {one.kind for one in assignment.with_feature("moved-clock").candidates} == {"exec"}
    assert assignment.with_feature("moved-clock").identity == assignment.identity
    assert Assignment(REFERENCE).with_feature("moved-clock") == Assignment(REFERENCE)


FOREIGN = Dialect.model_validate({"name": "foreign", "commands": [], "replies": [], "keywords": {"follow": "XSHADOW"}})


@pytest.mark.parametrize(
    ("scenario", "axes", "said"),
    [
        ("malformed-shadow-verbs", {}, "spelled as in profile-1: mbx1 (mine) has the dialect foreign"),
        ("xshadowrequest-is-offered-where-it-may-be", {}, ""),
        (
            "no-delay-for-who-keeps-a-shadow",
            {"tracks": "yes"},
            "spelled as in profile-1: hub2 (mine) has the dialect foreign",
        ),
        ("no-delay-for-who-keeps-a-shadow", {"tracks": "no"}, ""),
    ],
)
def test_cells_with_verbs_of_profile_1_do_not_apply_to_a_server_with_another_dialect(
    scenario: str, axes: dict[str, str], said: str
):
    path = paths.corpus() / corpus()[scenario].path
    (cell,) = [
        cell
        for one in read_scenarios(path, paths.fixtures())
        for cell in one.cells("full", REFERENCE.own_timers)
        if (cell.scenario, cell.axes) == (scenario, axes)
    ]
    foreign = candidate(*REFERENCE.claims, dialect=FOREIGN)
    assert inapplicable_reason(cell, Assignment(foreign), SETTINGS) == said
    assert inapplicable_reason(cell, Assignment(candidate(*REFERENCE.claims)), SETTINGS) == ""
    others = {name: foreign for name in cell.topology.by_name if f": {name} (" not in said}
    assert others
    assert inapplicable_reason(cell, Assignment(REFERENCE, others), SETTINGS) == "", "none of them gets these verbs"


def test_the_dialect_between_two_servers_is_the_server_s_and_then_the_client_s():
    """A client that uses its own verbs with a server of another dialect is recognised."""
    commands = [
        {"operation": "track-shadow", "pattern": r"^FOLLOW (?P<server>\S+)$"},
        {"operation": "request-shadow", "pattern": r"^XQDISCARD (?P<server>\S+) \d+$"},
    ]
    theirs = Dialect.model_validate({"name": "foreign", "commands": commands, "replies": []})
    assignment = Assignment(REFERENCE, {"hub1": candidate(dialect=theirs)})
    assert assignment.dialect_between("hub2", "hub3") is PROFILE_1
    for client, server in (("hub1", "hub2"), ("hub2", "hub1")):
        spoken = assignment.dialect_between(client, server)
        for line in ("FOLLOW hub1", "XSHADOW hub2 db-1"):
            assert (said := spoken.parse_command(line)) is not None
            assert said.name == "track-shadow"
    for server, operation in (("hub1", "request-shadow"), ("hub2", "query-discard")):
        client = "hub2" if server == "hub1" else "hub1"
        both_know = assignment.dialect_between(client, server).parse_command("XQDISCARD hub2 5")
        assert both_know is not None
        assert both_know.name == operation, "the server's meaning counts"


@pytest.mark.parametrize(
    ("changes", "scale", "reason"),
    [
        ({}, 60, ""),
        ({"contract": 1}, 1, ""),
        ({"contract": 1}, 60, "has contract 1, which names no scale"),
        ({"argv": ("mine", "{directory}/main.cf")}, 1, "does not read the harness's file itself"),
        ({"files": {"main.cf": "{{ node.transport.MaxMessageSize }}"}}, 1, "does not read the harness's file itself"),
    ],
)
def test_defaults_are_asked_for_only_where_the_node_itself_reads_the_file(
    changes: dict[str, object], scale: float, reason: str
):
    scenarios = read_scenarios(paths.corpus() / "exchange-2010" / "sessions.scenario.yaml", paths.fixtures())
    cells = next(one for one in scenarios if one.id == "idle-session-at-a-hub-is-closed").cells("smoke")
    explicit, default = (cell for cell in cells if cell.axes["listener"] == "frontend")
    settings = Settings(clock="scaled" if scale != 1 else "real", scale=scale)
    assignment = Assignment(REFERENCE, {"hub1": candidate("relay", "shadow-2010", **changes)})
    expected = f"its defaults cannot be asked for: hub1 (mine) {reason}" if reason else ""
    assert inapplicable_reason(default, assignment, settings) == expected
    assert inapplicable_reason(explicit, assignment, settings) == ""
