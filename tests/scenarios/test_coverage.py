"""What the corpus varies: docs/coverage.md is up to date, detectors see what a cell does, and reasons are about real gaps."""

from pathlib import Path

import pytest

from conformance.parameters import DEFAULTS
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
KILLED = "  - kill: mbx1\n  - start: mbx1\n"
WIPED = "  - kill: mbx1\n  - wipe: mbx1\n  - start: mbx1\n"
AT_DOT = "at: {from: outside, to: mbx1, after: dot}"
MOVE = "  - activate: {database: DB1, on: mbx2}\n"
RESUBMIT = "  - resubmit: {database: DB1, on: mbx1}\n"
REDIRECT = "  - redirect: {from: mbx1, to: mbx2}\n"
REFUSED = "  - answer: {sink: outside, at: RCPT, reply: 550 5.1.1 no, recipient: victor@outside.test}\n"
SLOW = "  - disk: {node: mbx1, is: slow, lasting: 1s}\n"
FAULT = "  - fault: {as: f, from: mbx1, to: mbx2, does: drop}\n"
BOTH = "[victor@outside.test, wendy@second.test]"
LIMIT = DEFAULTS["MaxMessageSize"]
CONTENT = ("{say: DATA, code: 354}", "{message: plain, code: 250}")
OTHER = SEND.replace("as: m", "as: n")
BEHIND = SEND.replace("mbx1}", "mbx1, background: yes}")
RESEND = "  - resend: {of: m}\n"
RESEND_BEHIND = "  - resend: {of: m, background: yes}\n"
SMALLER = "  - configure: {node: all, transport: {MaxMessageSize: 1 MB}}\n"
CUT = "  - partition: {between: [mbx1, outside]}\n"
POWER = "  - power-cut: mbx1\n"
NEEDS_SAFETY_NET = "needs: [safety-net]\n"
LISTENERS = (("frontend", "transport"), ("transport", "delivery"), ("delivery", "frontend"))
HELD_UP = [
    (HELD.removesuffix(SEND), "  - answer: {sink: outside, at: dot, reply: accept}\n"),
    (CUT, "  - heal: all\n"),
    (CUT, "  - heal: partition\n"),
    (FAULT, "  - heal: f\n"),
    ("  - kill: mbx2\n", "  - start: mbx2\n"),
    ("  - stop: mbx2\n", "  - start: mbx2\n"),
    ("  - pause: mbx2\n", "  - resume: mbx2\n"),
    ("  - power-cut: mbx2\n", "  - start: mbx2\n"),
]
"""Steps that hold mail up, and steps that end that."""


def sent(more: str = "sessions: each", to: str = "victor@outside.test") -> str:
    """Return a step that sends a message to a recipient or a list, with more fields."""
    return f"  - send: {{as: m, to: {to}, via: mbx1, {more}}}\n"


def talk(*lines: str, to: str = "frontend") -> str:
    """Return a step that talks with a listener."""
    return f"  - talk: {{as: t, to: mbx1, listener: {to}, lines: [{', '.join(lines or ('{say: NOOP}',))}]}}\n"


def parallel(*steps: str) -> str:
    return "  - parallel: [" + ", ".join(f"{{{step.strip().removeprefix('- ')}}}" for step in steps) + "]\n"


def repeat(*steps: str) -> str:
    return "  - repeat: {times: 2, steps: [" + ", ".join(f"{{{s.strip().removeprefix('- ')}}}" for s in steps) + "]}\n"


def fault(does: str) -> str:
    return FAULT.replace("does: drop", f"does: {does}")


def limited(listener: str) -> str:
    """Return a step that configures a limit of a listener."""
    return f"  - configure: {{node: all, listeners: {{{listener}: {{MaxInboundConnection: 100}}}}}}\n"


def recipients(number: int) -> str:
    return f"[{', '.join(f'r{n}@outside.test' for n in range(number))}]"


VARIED = [
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
    (SEND + SEND.replace("as: m", "as: n"), SEND, "second-message"),
    (sent("count: 101"), sent("count: 100"), "more-than-100-messages"),
    (sent("count: 1001"), sent("count: 1000"), "more-than-1000-messages"),
    (sent("count: 2, concurrency: 2"), sent("count: 2, concurrency: 1"), "two-sessions-at-once"),
    (sent(to=BOTH), sent("in-turn: yes", to=BOTH), "several-recipients"),
    (sent(to=recipients(20)), sent(to=recipients(19)), "many-recipients"),
    (REFUSED + sent(to=BOTH), REFUSED + sent(to="wendy@second.test"), "some-recipients-refused"),
    (REFUSED + sent(to=BOTH), sent(to=BOTH), "partial-success"),
    (sent("notify: NEVER"), SEND, "delivery-status-requested"),
    (sent(to="victor@Outside.test"), sent(to="Victor@outside.test"), "case-of-a-domain"),
    (sent(to="Victor@outside.test"), sent(to="victor@Outside.test"), "case-of-a-local-part"),
    (SEND + "server-names: upper\n", SEND + "server-names: same\n", "case-of-a-server-name"),
    (SEND + "parameters: [default]\n", SEND + "parameters: [explicit]\n", "value-left-out"),
    (sent(f"whole: {LIMIT}"), sent(f"whole: {LIMIT - 1}"), "size-at-the-limit"),
    (SEND + KILLED, SEND + WIPED, "restart"),
    (SEND + WIPED, SEND + KILLED, "new-database"),
    (SEND + KILLED, SEND + "  - stop: mbx1\n", "kill"),
    (f"  - kill: {{node: mbx1, {AT_DOT}}}\n" + SEND, KILLED + SEND, "kill-at-a-moment"),
    (f"  - stop: {{node: mbx1, {AT_DOT}}}\n" + SEND, "  - stop: mbx1\n" + SEND, "orderly-stop-at-a-moment"),
    (SEND + RELOAD, SEND, "reload"),
    (MOVE + SEND, RESUBMIT + SEND, "mailbox-move"),
    (RESUBMIT + SEND, REDIRECT + SEND, "resubmission"),
    (REDIRECT + SEND, RESUBMIT + SEND, "redirection"),
    (RELOAD + RELOAD + SEND, RELOAD + RESUBMIT + SEND, "second-request-of-a-kind"),
    (SEND + "  - pause: mbx1\n", SEND + "  - kill: mbx1\n", "frozen-peer"),
    (SEND + SLOW, SEND + SLOW.replace("slow, lasting: 1s", "full"), "slow-peer"),
    (SEND + SEND.replace("as: m", "as: n").replace("via: mbx1", "via: mbx2"), SEND, "two-primaries"),
    (FAULT + SEND, "  - partition: {between: [mbx1, mbx2]}\n" + SEND, "fault-on-a-link"),
    (SEND, SEND.replace("send", "submit"), "listener-frontend"),
    (SEND.replace("send", "submit"), SEND, "listener-transport"),
    (sent("count: 2"), SEND, "second-message"),
    (SEND + RESEND, SEND, "second-message"),
    (talk(*CONTENT, *CONTENT), talk(*CONTENT), "second-message-of-a-session"),
    (sent("count: 2, sessions: one"), sent("sessions: one"), "second-message-of-a-session"),
    (BEHIND + BEHIND.replace("as: m", "as: n"), BEHIND + OTHER, "two-sessions-at-once"),
    (BEHIND + RESEND_BEHIND, BEHIND + RESEND, "two-sessions-at-once"),
    *((parallel(SEND, step), parallel(SEND, "  - pause: mbx2\n") + step, "two-sessions-at-once") for step in (OTHER, talk())),
    (SEND + parallel(RESEND, OTHER), SEND + parallel(RESEND), "two-sessions-at-once"),
    (sent("count: 2, concurrency: 2"), sent("count: 1, concurrency: 2"), "two-sessions-at-once"),
    (sent(to=recipients(20)), sent("in-turn: yes", to=recipients(20)), "many-recipients"),
    (REFUSED + sent(to=BOTH), REFUSED + sent("in-turn: yes", to=BOTH), "some-recipients-refused"),
    ("  - send: {as: m, from: <>, to: victor@outside.test, via: mbx1}\n", SEND, "null-sender"),
    *((sent(field), SEND, "delivery-status-requested") for field in ("ret: HDRS", "envid: x", "orcpt: rfc822;a@b", "smtputf8: yes")),
    (talk("{say: XQDISCARD MBX1 1}"), talk("{say: XQDISCARD mbx1 1}"), "case-of-a-server-name"),
    *((sent(f"headers: {{{field}}}"), sent("headers: {Subject: a, Date: 'Tue, 1 Jan 2030 00:00:00 +0000'}"), "odd-headers")
      for field in ("Date: 'Tue, 1 Jan 2030 00:00:00 +0100'", "X-A: b", 'Subject: "a\\r\\n b"')),
    *((sent(f"message: {name}"), sent("message: plain"), "odd-headers") for name in ("no-date", "no-message-id")),
    (SMALLER + sent("whole: 1 MB"), SMALLER + sent("whole: 2 MB"), "size-at-the-limit"),
    *((step + sent(to=BOTH), step + SEND, "partial-success") for step in (CUT, FAULT, "  - kill: mbx2\n", "  - stop: mbx2\n")),
    (REFUSED + sent(to="[victor@outside.test, w@outside.test]"), REFUSED + sent("in-turn: yes", to=BOTH), "partial-success"),
    (SEND + KILLED + KILLED, SEND + KILLED, "second-restart"),
    (SEND + POWER, SEND + "  - stop: mbx1\n", "kill"),
    (f"  - power-cut: {{node: mbx1, {AT_DOT}}}\n" + SEND, POWER + SEND, "kill-at-a-moment"),
    *((step + SEND + RELOAD, step + undone + SEND + RELOAD, "reload-with-something-waiting") for step, undone in HELD_UP),
    (HELD_UP[0][0] + SEND + RELOAD, HELD_UP[0][0] + RELOAD, "reload-with-something-waiting"),
    (SEND + CUT + RESEND + RELOAD, SEND + CUT + RELOAD, "reload-with-something-waiting"),
    (SEND + RELOAD + NEEDS_SAFETY_NET, RELOAD + NEEDS_SAFETY_NET, "reload-with-something-waiting"),
    (MOVE + SEND, REDIRECT + SEND, "resubmission"),
    *((step + step + SEND, step + SEND, "second-request-of-a-kind") for step in (MOVE, REDIRECT, RESUBMIT)),
    (repeat(RESUBMIT) + SEND, RESUBMIT + SEND, "second-request-of-a-kind"),
    (CUT.replace("]}", "], how: blackhole}") + SEND, CUT + SEND, "frozen-peer"),
    (fault("stall") + SEND, FAULT + SEND, "frozen-peer"),
    *((fault(does) + SEND, FAULT + SEND, "slow-peer") for does in ("throttle, rate: 100", "delay, lasting: 1s")),
    *((SEND + f"  - {verb}: mbx1\n  - {verb}: mbx2\n", SEND + f"  - {verb}: mbx1\n", "two-peers-lost-at-once")
      for verb in ("kill", "stop", "pause", "power-cut")),
    (SEND + "  - kill: mbx1\n  - inspect: mbx1\n  - wipe: mbx1\n  - pause: mbx2\n", SEND + "  - pause: mbx1\n  - resume: mbx1\n  - pause: mbx2\n", "two-peers-lost-at-once"),
    *((talk(to=listener), talk(to=other), f"listener-{listener}") for listener, other in LISTENERS),
    *((limited(listener) + talk(to=other), limited(other) + talk(to=other), f"listener-{listener}") for listener, other in LISTENERS),
]  # fmt: skip
"""Steps that vary a dimension, steps that do not, and the dimension."""


@pytest.mark.parametrize(("steps", "other", "dimension"), VARIED)
def test_a_dimension_is_found_where_it_is_varied_and_not_elsewhere(
    tmp_path: Path, steps: str, other: str, dimension: str
) -> None:
    assert dimension in dimensions_of(cell(tmp_path, steps))
    assert dimension not in dimensions_of(cell(tmp_path, other))


OWN = """\
id: a-scenario
title: A scenario for tests
requirements: [RL-ACK-01]
topology: {name: own, servers: [SERVERS]}
steps: [{advance: 1m}]
"""
HUB = "name: a, site: A, generation: ex2010, role: hub"


def boxes(*names: str) -> str:
    """Return a server with mailboxes of these names; the last brace is left to `OWN`."""
    made = ", ".join(f"{{address: {name}@corp.test, database: DB1, server: a}}" for name in names)
    return f"name: a, site: A}}], mailboxes: [{made[:-1]}"


def linked(*costs: int) -> str:
    """Return three servers whose sites are linked at these costs; the last brace is left to `OWN`."""
    links = ", ".join(f"{{between: [A, {site}], cost: {cost}}}" for site, cost in zip("BC", costs, strict=True))
    return f"name: a, site: A}}, {{name: b, site: B}}, {{name: c, site: C}}], site-links: [{links[:-1]}"


IN_TOPOLOGY = [
    (HUB.replace("hub", "edge"), HUB, "role-edge"),
    (HUB, "name: a, site: A, generation: ex2013", "generation-2010"),
    ("name: a, site: A, generation: ex2013", "name: a, site: A, generation: ex2016", "generation-2013"),
    ("name: a, site: A, generation: ex2016", "name: a, site: A, generation: ex2013", "generation-2016"),
    (boxes("ann", "annabel"), boxes("ann", "bob"), "names-that-begin-alike"),
    (linked(9, 10), linked(10, 99), "numbers-of-several-digits"),
    ("name: a1, site: A}, {name: a10, site: A", "name: a1, site: A}, {name: a20, site: A", "names-that-begin-alike"),
]
"""Servers that vary a dimension, servers that do not, and the dimension."""


@pytest.mark.parametrize(("servers", "other", "dimension"), IN_TOPOLOGY)
def test_a_dimension_of_the_topology_is_found_where_it_is_varied_and_not_elsewhere(
    tmp_path: Path, servers: str, other: str, dimension: str
) -> None:
    for named, is_varied in ((servers, True), (other, False)):
        (found,) = documents.cells(tmp_path, OWN.replace("SERVERS", f"{{{named}}}"))
        assert (dimension in dimensions_of(found)) is is_varied


@pytest.mark.parametrize(
    ("configured", "dimension", "groups"),
    [
        ("ShadowHeartbeatFrequency: 1s", "value-at-its-minimum", {"MNT", "OUT", "CFG"}),
        ("ShadowHeartbeatFrequency: 2s", "value-at-its-minimum", set()),
        ("ShadowHeartbeatRetryCount: 255", "value-at-its-maximum", {"E10", "CFG"}),
        ("SafetyNetHoldTime: 50d", "value-at-its-maximum", {"SFN", "CFG"}),
        ("MaxRetriesForLocalSiteShadow: 0", "value-zero", {"BND", "ENA", "CRE", "PRF", "CFG"}),
        ("MaxRetriesForLocalSiteShadow: 1", "value-zero", set()),
        ("SafetyNetHoldTime: 49d", "value-at-its-maximum", set()),
        ("ShadowHeartbeatRetryCount: 254", "value-at-its-maximum", set()),
    ],
)
def test_a_value_is_an_occasion_for_the_groups_that_it_can_matter_to(
    tmp_path: Path, configured: str, dimension: str, groups: set[str]
) -> None:
    steps = SEND + f"  - configure: {{node: all, transport: {{{configured}}}}}\n"
    assert groups_by_dimension(cell(tmp_path, steps))[dimension] == groups
    from_the_start = cell(tmp_path, SEND + f"configure: {{{configured}}}\n")
    assert groups_by_dimension(from_the_start)[dimension] == groups - {"CFG"}, "it is not offered to a server that runs"


@pytest.mark.parametrize(
    ("said", "dimension", "groups"),
    [
        ("XQDISCARD mbx2 0", "value-zero", {"WIR"}),
        ("XQDISCARD mbx2 1", "value-at-its-minimum", {"WIR"}),
        ("XQDISCARD mbx2 2", "value-at-its-minimum", set()),
        ("XSHADOWREQUEST mbx2 a", "value-at-its-minimum", {"WIR"}),
        (f"XSHADOWREQUEST mbx2 {'a' * 64}", "value-at-its-maximum", {"WIR"}),
        (f"XSHADOWREQUEST mbx2 {'a' * 63}", "value-at-its-maximum", set()),
    ],
)
def test_an_argument_of_a_shadow_verb_is_an_occasion_for_the_wire_profile(
    tmp_path: Path, said: str, dimension: str, groups: set[str]
) -> None:
    steps = f"  - talk: {{as: t, to: mbx1, lines: [{{say: {said}}}]}}\n"
    assert groups_by_dimension(cell(tmp_path, steps))[dimension] == groups


@pytest.mark.parametrize(
    ("cost", "dimension", "groups"),
    [
        (1, "value-at-its-minimum", {"BIF"}),
        (2, "value-at-its-minimum", set()),
        (1_000_000, "value-at-its-maximum", {"BIF"}),
        (999_999, "value-at-its-maximum", set()),
    ],
)
def test_the_cost_of_a_link_is_an_occasion_for_bifurcation(
    tmp_path: Path, cost: int, dimension: str, groups: set[str]
) -> None:
    world = f"{{name: a, site: A}}, {{name: b, site: B}}], site-links: [{{between: [A, B], cost: {cost}}}"
    (found,) = documents.cells(tmp_path, OWN.replace("SERVERS", world))
    assert groups_by_dimension(found)[dimension] == groups


def test_every_dimension_is_among_the_cases() -> None:
    of_values = {"value-at-its-minimum", "value-at-its-maximum", "value-zero"}
    assert {dimension for _, _, dimension in (*VARIED, *IN_TOPOLOGY)} | of_values == read_dimensions().dimensions.keys()


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
