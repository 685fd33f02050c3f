"""Conforming readings of the reference: their names, how they combine, and that cells pass with them."""

import configparser
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.description import CandidateError
from conformance.candidates.lookup import find_candidate
from conformance.execute import judge
from conformance.history.events import AnyEvent, Attempt, Command, Connected, Delivered
from conformance.judge.incremental import IncrementalJudge
from conformance.reference.components import ComponentSets
from conformance.reference.defects.catalogue import DEFECTS, apply_by_name
from conformance.reference.host import Host
from conformance.reference.readings import reading as declaration
from conformance.reference.readings.reading import EVERY, READINGS, reading
from conformance.reference.receive.verbs import MALFORMED, OUT_OF_ORDER, SessionState, ShadowVerbs
from conformance.reference.replies import Reply
from conformance.requirements.catalogue import catalogue
from conformance.run.cell import CellRunner
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.loader import read_scenarios
from conformance.verdicts import Outcome, worst_in_cell
from tests.docs.pages import ROOT
from tests.reference.hosts import CONTENT, HandClock, add_primary, run_with_host


def test_every_reading_cites_its_source_and_has_no_defect_s_name():
    assert READINGS
    assert READINGS.keys().isdisjoint(DEFECTS)
    assert EVERY not in READINGS
    rulings = re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "rulings.md").read_text("utf-8"), re.MULTILINE)
    for one in READINGS.values():
        assert one.says.endswith("."), one.name
        assert re.search(r"\brulings? \d|wire-profile\.md|\bRFC \d|\bSR-[A-Z0-9]+-\d", one.allowed_by), one.name
        assert one.allowed_by[:6] != "ruling" or set(re.findall(r"\d+", one.allowed_by)) <= set(rulings), one.name
        assert set(re.findall(r"SR-[A-Z0-9]+-\d+", one.allowed_by)) <= catalogue().ids, one.name
        pages = re.findall(r"[a-z-]+\.md", one.allowed_by)
        assert all((ROOT / "docs" / page).is_file() for page in pages), one.name


def test_readings_of_one_slot_inherit_from_each_other():
    classes = apply_by_name(ComponentSets(), "keeps-shadow-sessions+opens-shadow-sessions-early")
    names = [one.__name__ for one in classes.class_in("creation").__mro__]
    assert names.index("OpensShadowSessionsEarly") < names.index("KeepsShadowSessions") < names.index("ShadowCreation")


def test_a_reading_leaves_a_defect_in_another_slot_as_it_is_and_comes_before_one_in_its_own():
    classes = apply_by_name(ComponentSets(), "heartbeats-whatever-the-mail+never-shadows")
    assert classes.class_in("creation") is apply_by_name(ComponentSets(), "never-shadows").class_in("creation")
    assert classes.class_in("manager").__name__ == "HeartbeatsWhateverTheMail"
    both = apply_by_name(ComponentSets(), "keeps-shadow-sessions+never-shadows").class_in("creation")
    names = [one.__name__ for one in both.__mro__]
    assert names.index("KeepsShadowSessions") < names.index("NeverShadows") < names.index("ShadowCreation")


def test_the_name_every_reading_applies_all_readings():
    classes = apply_by_name(ComponentSets(), EVERY)
    assert len(READINGS) > 1
    for one in READINGS.values():
        assert one.classes, one.name
        for name, mixin in one.classes.items():
            assert issubclass(classes.class_in(name), mixin), one.name


@pytest.mark.parametrize("name", sorted(READINGS))
def test_a_reading_that_is_named_twice_is_applied_once_where_it_is_named_last(name: str):
    for names in (f"{EVERY}+{name}", f"{name}+{EVERY}+{name}", f"{EVERY}+{EVERY}+{name}"):
        classes = apply_by_name(ComponentSets(), names)
        assert all(issubclass(classes.class_in(slot), m) for r in READINGS.values() for slot, m in r.classes.items())
        for slot, mixin in READINGS[name].classes.items():
            mixins = [m for r in READINGS.values() for s, m in r.classes.items() if s == slot]
            assert next(one for one in classes.class_in(slot).__mro__ if one in mixins) is mixin, names
    again, once = (apply_by_name(ComponentSets(), names) for names in (f"{name}+{EVERY}", EVERY))
    for slot in READINGS[name].classes:
        assert [c.__name__ for c in again.class_in(slot).__mro__] == [c.__name__ for c in once.class_in(slot).__mro__]


@pytest.mark.parametrize(
    ("name", "repeated"), [("checks-the-order-first", OUT_OF_ORDER), ("checks-arguments-first", MALFORMED)]
)
def test_a_repeated_request_with_malformed_arguments_is_refused_as_the_reading_says(
    tmp_path: Path, name: str, repeated: str
):
    verbs_class = apply_by_name(ComponentSets(), name).class_in("verbs")

    async def steps(host: Host, clock: HandClock) -> None:
        state = SessionState("transport")
        state.greeted, state.peer = True, host.config.peers[0]
        verbs = verbs_class(host, state)
        (first,) = await verbs.dispatch("XSHADOWREQUEST", [state.peer.name, "a-database"])
        assert first.startswith("250 ")
        assert await verbs.dispatch("XSHADOWREQUEST", [state.peer.name]) == [repeated]
        assert await verbs.dispatch("XQDISCARD", [state.peer.name]) == [MALFORMED]

    run_with_host(tmp_path, steps)


def test_the_name_of_a_candidate_may_have_readings_and_similar_names_are_suggested(tmp_path: Path):
    assert find_candidate(f"reference+{EVERY}", tmp_path).identity == f"reference+{EVERY}"
    assert (
        find_candidate("reference+longer-shadow-ids+never-shadows", tmp_path).defect
        == "longer-shadow-ids+never-shadows"
    )
    with pytest.raises(CandidateError, match=r"\blonger-shadow-ids\b") as refused:
        find_candidate("reference+longer-shadow-idz", tmp_path)
    assert "keeps-shadow-sessions" not in str(refused.value), "it is not similar"


@pytest.mark.parametrize(
    ("name", "slot", "message"),
    [
        ("longer-shadow-ids", "verbs", "the name is taken"),
        (EVERY, "verbs", "the name is taken"),
        ("new", "no-slot", "there is no slot no-slot"),
    ],
)
def test_a_reading_needs_a_new_name_and_an_existing_slot(
    name: str, slot: str, message: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(declaration, "READINGS", dict(READINGS))
    with pytest.raises(ValueError, match=f"^reading {name}: {message}$"):
        reading(name, allowed_by="nothing", slots=(slot,))(ShadowVerbs)
    with pytest.raises(ValueError, match="^reading new: there is no slot none$"):
        reading("new", allowed_by="nothing", slots=("verbs",), also={"none": ShadowVerbs})(ShadowVerbs)
    assert declaration.READINGS == READINGS
    reading("new", allowed_by="nothing", slots=("verbs",))(ShadowVerbs)
    assert declaration.READINGS["new"].classes == {"verbs": ShadowVerbs}


@pytest.mark.parametrize("last", ["accepts", "defers"])
def test_a_message_that_was_taken_over_is_dropped_after_the_last_of_its_attempts(tmp_path: Path, last: str):
    async def steps(host: Host, clock: HandClock) -> None:
        message = add_primary(host, "victor@outside.test", "third@third.test")
        delivery: Any = host.delivery
        delivery.start_processing(message)
        first, second = delivery._attempts
        for queue in delivery._queues.values():
            queue.waiting.clear()  # the test records the outcomes
        delivery.drop_when_idle(message.id)
        await delivery.record_outcome(first, {}, takes_over_reports=False)
        assert host.messages.content(message.id) == CONTENT, "for the attempt that waits"
        replies = dict.fromkeys(second.recipients, Reply(250, "2.0.0", "taken")) if last == "accepts" else {}
        await delivery.record_outcome(second, replies, takes_over_reports=False)
        assert (host.messages.get(message.id), delivery._deferred) == (None, [])

    components = apply_by_name(ComponentSets(), "hub-drops-what-was-taken-over").for_generation("ex2010")
    run_with_host(tmp_path, steps, "hubs-one-site", components=components)


def test_the_page_and_the_tox_environments_name_every_reading():
    page = (ROOT / "docs" / "reference-transport.md").read_text("utf-8")
    published = re.findall(r"^\| `([a-z0-9-]+)` \| .+ \| .+ \|$", page, re.MULTILINE)
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", "utf-8")
    together, alone = (
        re.findall(r"--candidate reference\+([a-z0-9-]+)", tox[environment]["commands"])
        for environment in ("testenv:readings", "testenv:readings-alone")
    )
    assert sorted(published) == sorted(READINGS)
    assert together == [EVERY]
    assert sorted(alone) == sorted(READINGS)
    assert "tox run -e readings\n" in (ROOT / ".ci" / "run").read_text("utf-8")


@pytest.mark.parametrize("name", sorted(READINGS))
def test_each_reading_alone_passes_a_cell_with_shadowing(name: str, tmp_path: Path):
    (scenario, *_) = read_scenarios(paths.corpus() / "creation" / "inbound.scenario.yaml", paths.fixtures())
    cell = scenario.cells("smoke")[0]
    assignment, settings = Assignment(find_candidate(f"reference+{name}", tmp_path)), Settings(clock="virtual", seed=1)
    ran = run_without_loop(CellRunner(cell, assignment, settings, tmp_path, IncrementalJudge()).run(OWN_LOOP))
    verdicts = judge(cell, assignment, settings, ran.events, complete=ran.problem == "")
    assert worst_in_cell(one.outcome for one in verdicts) is Outcome.PASS, [v.sentence for v in verdicts if v.sentence]
    assert [one for one in ran.events if isinstance(one, Command) and " XSHADOW=" in one.line], "a shadow was made"


@pytest.mark.parametrize(
    ("file", "id_"),
    [
        ("enabling/switches", "refused-by-the-shadow-server[answer=452 4.3.1 no room here,at=MAIL,reject=no]"),
        ("boundary/where-the-boundary-runs", "with-its-site-down-no-other-site-is-asked"),
        ("timeouts/shadow-stalls", "shadow-stalls[idle-limit=30s,reject=no,silent-from=MAIL]"),
        ("preference/limits", "the-last-remote-attempts-count[failure=silent]"),
        ("exchange-2010/heartbeat", "three-failed-intervals-and-no-fewer[away=silent,retry-count=default]"),
        ("exchange-2010/heartbeat", "a-restart-is-no-failure-of-the-primary"),
        ("exchange-2010/wire", "no-2010-verbs-at-the-front-door"),
        ("enabling/switches", "disabled-shadows-nothing[reject=no,via=outside]"),
        ("exchange-2010/rights", "shadowed-over-an-authenticated-session"),
        ("exchange-2010/heartbeat", "a-session-starts-the-count-again"),
        ("exchange-2010/delayed-acknowledgement", "refused-while-it-is-withheld[refused=all]"),
    ],
)
def test_cells_that_once_required_more_than_the_contract_pass_with_all_readings_at_once(
    file: str, id_: str, tmp_path: Path
):
    passed_events(paths.corpus() / f"{file}.scenario.yaml", id_, EVERY, tmp_path)


def passed_events(file: Path, id_: str, names: str, folder: Path) -> tuple[AnyEvent, ...]:
    """Run one cell with these readings, hold that it passes, and return its history."""
    scenarios = read_scenarios(file, paths.fixtures())
    (cell,) = (cell for scenario in scenarios for cell in scenario.cells("full") if cell.id == id_)
    assignment, settings = (
        Assignment(find_candidate(f"reference{names and '+' + names}", folder)),
        Settings(clock="virtual", seed=1),
    )
    ran = run_without_loop(CellRunner(cell, assignment, settings, folder, IncrementalJudge()).run(OWN_LOOP))
    verdicts = judge(cell, assignment, settings, ran.events, complete=ran.problem == "")
    assert worst_in_cell(one.outcome for one in verdicts) is Outcome.PASS, [v.sentence for v in verdicts if v.sentence]
    return ran.events


TWO_MESSAGES = """\
id: two-messages
title: Two messages to one next hop, ten seconds after each other
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
steps:
  - send: {as: m, to: victor@outside.test, via: mta1}
  - advance: 10s
  - send: {as: n, to: victor@outside.test, via: mta1}
  - advance: 1m
  - expect: {delivered: {of: m, at: outside, copies: 1}}
  - expect: {delivered: {of: n, at: outside, copies: 1}}
"""

BACK_AFTER_A_TAKEOVER = """\
id: back-after-a-takeover
title: A server comes back with a queue that was taken over, and its next hop still defers
requirements: [RL-ACK-01]
needs: [relay]
topology: hubs-one-site
steps:
  - answer: {sink: outside, at: dot, reply: 451 4.3.0 try later}
  - send: {as: m, to: victor@outside.test, via: hub1}
  - kill: hub2
  - answer: {sink: outside, at: dot, reply: accept}
  - expect: {delivered: {of: m, at: outside, by: hub3, copies: 1, within: 20m}}
  - advance: 1m
  - answer: {sink: outside, at: dot, reply: 451 4.3.0 try later}
  - start: hub2
    label: back
  - advance: 10m
  - answer: {sink: outside, at: dot, reply: accept}
  - advance: 10m
  - expect: {delivered: {of: m, at: outside, copies: {min: 1, max: 2}}}
"""


def sessions(events: Iterable[AnyEvent], client: str, server: str, since: float = 0) -> list[str]:
    """Return the sessions of two servers that began after that time."""
    begun = (event for event in events if isinstance(event, Connected) and event.t >= since)
    return [event.session for event in begun if (event.client, event.server) == (client, server)]


@pytest.mark.parametrize(("name", "count"), [("", 2), ("keeps-sessions-with-next-hops", 1)])
def test_a_session_with_a_next_hop_is_kept_only_with_the_reading(name: str, count: int, tmp_path: Path):
    (tmp_path / "one.scenario.yaml").write_text(TWO_MESSAGES, "utf-8")
    events = passed_events(tmp_path / "one.scenario.yaml", "two-messages", name, tmp_path)
    assert len(sessions(events, "mta1", "outside")) == count


ASKS, DROPS = "hub-asks-its-senders-after-a-restart", "hub-drops-what-was-taken-over"


@pytest.mark.parametrize(("names", "asks", "copies"), [("", 0, 2), (ASKS, 1, 2), (f"{ASKS}+{DROPS}", 1, 1)])
def test_with_the_readings_a_restarted_hub_queries_its_senders_and_drops_promoted_mail(
    names: str, asks: int, copies: int, tmp_path: Path
):
    (tmp_path / "one.scenario.yaml").write_text(BACK_AFTER_A_TAKEOVER, "utf-8")
    events = passed_events(tmp_path / "one.scenario.yaml", "back-after-a-takeover", names, tmp_path)
    asking = sessions(events, "hub2", "hub1")
    said = [event.line for event in events if isinstance(event, Command) and event.session in asking]
    assert (len(asking), sum(line.startswith("XQDISCARD hub2 ") for line in said)) == (asks, asks)
    assert [event.giver for event in events if isinstance(event, Delivered)] == ["hub3", "hub2"][:copies]


def test_the_reading_refuses_what_fails_for_all_recipients_during_a_withheld_reply(tmp_path: Path):
    file = paths.corpus() / "exchange-2010" / "delayed-acknowledgement.scenario.yaml"
    name = "hub-refuses-what-fails-amid-a-withheld-reply"
    codes = [
        [event.code for event in passed_events(file, id_, names, tmp_path / f"{n}") if isinstance(event, Attempt)]
        for n, (id_, names) in enumerate(
            [(f"refused-while-it-is-withheld[refused={one}]", names) for one in ("all", "one") for names in ("", name)]
        )
    ]
    assert codes == [[250], [550], [250], [250]]


def test_the_reading_defers_mail_after_535(tmp_path: Path):
    file = paths.corpus() / "exchange-2010" / "rights.scenario.yaml"
    id_ = "shadowed-over-an-authenticated-session"
    ran = [passed_events(file, id_, names, tmp_path / f"{n}") for n, names in enumerate(("", "defers-mail-after-535"))]
    delivered, without_deferred = (
        {event.digest.message_id for event in events
         if isinstance(event, Delivered) and event.sink == "outside" and event.digest.message_id}
        for events in ran
    )  # fmt: skip
    assert without_deferred < delivered
    assert [one.partition(".")[0] for one in delivered - without_deferred] == ["n-1"]
    once, again = (len(sessions(events, "hub2", "hub4")) for events in ran)
    assert once == 1
    assert again > 2, "the message is tried again and again"
