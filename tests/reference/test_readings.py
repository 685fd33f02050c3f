"""Readings that conform as well: known by name, combined with others, and published."""

import configparser
import re
from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.cast import Cast
from conformance.candidates.description import CandidateError
from conformance.candidates.grammar import find
from conformance.execute import judge
from conformance.judge.verdicts import Outcome, worst
from conformance.judge.waiting import Waiting
from conformance.reference.defects.catalogue import DEFECTS, spoiled
from conformance.reference.parts import Parts
from conformance.reference.readings.reading import EVERY, READINGS, reading
from conformance.reference.receive.verbs import ShadowVerbs
from conformance.run.cell import run_cell
from conformance.run.settings import Settings
from conformance.scenarios.loader import read
from tests.docs.pages import ROOT


def test_there_are_enough_of_them_and_none_is_called_as_a_defect():
    assert len(READINGS) >= 16
    assert READINGS.keys().isdisjoint(DEFECTS)
    assert EVERY not in READINGS
    for one in READINGS.values():
        assert one.says.endswith("."), one.name
        assert re.search(r"ruling|wire\.md|RFC|SR-", one.allowed_by), one.name


def test_readings_of_one_part_are_put_in_front_of_each_other():
    parts = spoiled(Parts(), "keeps-shadow-sessions+opens-shadow-sessions-early")
    names = [one.__name__ for one in parts.creation.__mro__]
    assert names.index("OpensEarly") < names.index("KeepsShadowSessions") < names.index("ShadowCreation")


def test_a_reading_goes_with_a_defect_and_hides_nothing_of_it():
    parts = spoiled(Parts(), "heartbeats-whatever-the-mail+never-shadows")
    assert parts.creation is spoiled(Parts(), "never-shadows").creation
    assert parts.manager.__name__ == "HeartbeatsWhateverTheMail"


def test_all_at_once_is_every_one():
    parts = spoiled(Parts(), EVERY)
    for one in READINGS.values():
        for name, mixin in one.parts.items():
            assert issubclass(getattr(parts, name), mixin), one.name


def test_the_command_line_knows_them_and_tells_what_it_does_not_know(tmp_path: Path):
    assert find(f"reference+{EVERY}", tmp_path).identity == f"reference+{EVERY}"
    assert find("reference+longer-shadow-ids+never-shadows", tmp_path).defect == "longer-shadow-ids+never-shadows"
    with pytest.raises(CandidateError, match="longer-shadow-id"):
        find("reference+longer-shadow-idz", tmp_path)


@pytest.mark.parametrize(("name", "part"), [("longer-shadow-ids", "verbs"), (EVERY, "verbs"), ("new", "no-part")])
def test_a_name_is_taken_once_and_a_part_must_be_there(name: str, part: str):
    with pytest.raises(ValueError, match="the name is taken, or there is no part"):
        reading(name, allowed_by="nothing", parts=(part,))(ShadowVerbs)


def test_the_page_and_the_tox_environment_name_every_one():
    page = (ROOT / "docs" / "reference-transport.md").read_text("utf-8")
    published = re.findall(r"^\| `([a-z0-9-]+)` \| .+ \| .+ \|$", page, re.MULTILINE)
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", "utf-8")
    run = re.findall(r"--candidate reference\+([a-z0-9-]+)", tox["testenv:readings"]["commands"])
    assert sorted(published) == sorted(READINGS)
    assert sorted(run) == sorted([*READINGS, EVERY])


@pytest.mark.parametrize("name", sorted(READINGS))
def test_each_alone_shadows_and_delivers(name: str, tmp_path: Path):
    (scenario, *_) = read(paths.corpus() / "creation" / "inbound.scenario.yaml", paths.fixtures())
    cell = scenario.cells("smoke")[0]
    cast, settings = Cast(find(f"reference+{name}", tmp_path)), Settings(clock="virtual", seed=1)
    ran = run_cell(cell, cast, settings, tmp_path, lambda event: None, Waiting())
    verdicts = judge(cell, cast, settings, ran.events, complete=ran.problem == "")
    assert worst(one.outcome for one in verdicts) is Outcome.PASS, [v.sentence for v in verdicts if v.sentence]
