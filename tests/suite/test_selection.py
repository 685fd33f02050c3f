"""Cells are selected by id, requirement and keyword; a name that matches nothing is a usage error with suggestions."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from conformance import __version__, paths
from conformance.candidates.description import CandidateError
from conformance.candidates.lookup import find_candidate
from conformance.results.reader import read_header, read_run
from conformance.scenarios.loader import SUFFIX, read_corpus
from conformance.suite.baseline import cell_id
from conformance.suite.options import declare_options
from conformance.suite.selection import (
    SelectionError,
    as_keywords,
    check_requirements,
    covers_corpus,
    find_scenarios,
    read_id,
    select,
)
from tests.scenarios import documents
from tests.suite.helpers import ROOT, conformance_command

CELLS = tuple(cell for one in read_corpus([paths.corpus() / "timeouts"], paths.fixtures()) for cell in one.cells())
STALLS = "shadow-stalls[idle-limit=2m,reject=yes,silent-from=dot]"
DEFECT = "reference+acknowledges-before-shadow"
CAUGHT = "inbound-acknowledgement-waits-for-the-shadow"


def chosen(only: list[str] = [], requirements: list[str] = []) -> list[str]:  # noqa: B006  # never changed
    return [cell.id for cell, wanted in zip(CELLS, select(CELLS, only, requirements), strict=True) if wanted]


def test_an_id_selects_one_cell_and_an_axis_value_all_cells_that_have_it(tmp_path: Path):
    assert chosen([STALLS]) == [STALLS]
    axes = "axes: {n: [1, 2], to: [a@x.test, b@x.test]}\nimplied: {n: 1}\n"
    step = "  - send: {as: m, to: '${to}', via: mbx1, count: '${n}'}\n"
    cells = documents.cells(tmp_path, f"{documents.HEAD}{axes}steps:\n{step}")
    one = "a-scenario[to=a@x.test]"
    assert [cell.id for cell, wanted in zip(cells, select(cells, [one], []), strict=True) if wanted] == [one]
    assert {cell.id for cell in cells} > {one, "a-scenario[n=2,to=a@x.test]"}
    assert read_id(STALLS).axes["silent-from"] == "dot"
    some = chosen(["shadow-stalls[reject=yes]"])
    assert len(some) > 1
    assert set(some) == {cell.id for cell in CELLS if cell.scenario == "shadow-stalls" and cell.axes["reject"] == "yes"}
    assert set(chosen(["shadow-stalls"])) == {cell.id for cell in CELLS if cell.scenario == "shadow-stalls"}


def test_a_requirement_and_a_group_select_the_cells_that_judge_them():
    of_row = {cell.id for cell in CELLS if "SR-TMO-01" in cell.judged_requirements}
    of_group = {cell.id for cell in CELLS if any("-TMO-" in row for row in cell.judged_requirements)}
    assert set() < of_row < of_group
    assert set(chosen(requirements=["SR-TMO-01"])) == of_row
    assert set(chosen(requirements=["TMO"])) == of_group
    assert chosen(["shadow-stalls"], ["SR-MNT-03"]) == []


def test_the_middle_of_an_id_selects_a_part_of_the_rows_that_bind_any_relay():
    check_requirements(["RTY"])
    of_part = {cell.id for cell in CELLS if any(row.startswith("RL-RTY-") for row in cell.judged_requirements)}
    assert set() < of_part < set(chosen(requirements=["RLY"]))
    assert set(chosen(requirements=["RTY"])) == of_part


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("shadow-stals", "no scenario 'shadow-stals' (did you mean 'shadow-stalls'?)"),
        ("shadow-stalls[rejct=yes]", "no axis 'rejct' (did you mean 'reject'?)"),
        ("shadow-stalls[reject=maybe]", "no value of the axis 'reject': 'maybe' (there is no, yes)"),
        ("shadow-stalls[reject]", "write SCENARIO or SCENARIO[AXIS=VALUE,...]"),
        ("whatever-breaks-on-the-way-out[fault=mail-heard-drop]", "not in the smoke grid; add --grid full"),
    ],
)
def test_an_id_of_no_cell_is_refused_with_a_suggestion(word: str, why: str):
    with pytest.raises(SelectionError) as error:
        find_scenarios([word], [paths.corpus()], "smoke")
    assert why in str(error.value)


def test_an_unknown_requirement_is_refused_with_a_suggestion():
    with pytest.raises(SelectionError, match=r"no row or group 'SR-MNT-3' \(did you mean 'SR-MNT-"):
        check_requirements(["MNT", "SR-MNT-3"])


def test_an_id_is_resolved_to_the_file_of_its_scenario():
    assert find_scenarios([STALLS], [paths.corpus()], "smoke") == (
        (paths.corpus() / f"timeouts/shadow-stalls{SUFFIX}", "shadow-stalls"),
    )


def test_a_keyword_may_contain_an_equals_sign():
    assert as_keywords("stalls and not reject=yes") == "stalls and not reject:yes"
    assert as_keywords("reject=yes") in as_keywords(STALLS)


def test_an_unchanged_copy_of_the_whole_corpus_covers_it(tmp_path: Path):
    files = list(paths.corpus().rglob(f"*{SUFFIX}"))
    copies = [tmp_path / f"{number}{SUFFIX}" for number in range(len(files))]
    for file, copy in zip(files, copies, strict=True):
        copy.write_bytes(file.read_bytes())
    assert covers_corpus(copies)
    assert not covers_corpus(copies[1:])
    copies[0].write_bytes(copies[0].read_bytes() + b"# changed\n")
    assert not covers_corpus(copies)


def test_an_unknown_defect_or_candidate_is_refused_with_a_suggestion():
    with pytest.raises(CandidateError, match="did you mean 'acknowledges-before-shadow'"):
        find_candidate("reference+acknowledge-before-shadow", paths.fixtures() / "candidates")
    with pytest.raises(CandidateError, match="did you mean 'postfix'"):
        find_candidate("postfx", paths.fixtures() / "candidates")


@pytest.mark.long
@pytest.mark.integration
def test_ids_that_list_prints_are_run(tmp_path: Path):
    listed = conformance_command("list", "--only", "shadow-stalls[reject=yes]", "--requirement", "TMO", cwd=tmp_path)
    ids = [line.partition("  ")[0] for line in listed.stdout.splitlines()]
    assert STALLS in ids
    others = [word for one in ids if one != STALLS for word in ("--only", one)]
    ran = conformance_command("run", STALLS, *others, "-n", "2", "--run-dir", "run", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    stored = [cell.header for cell in read_run(tmp_path / "run").cells()]
    assert sorted(cell_id(one.scenario, one.axes) for one in stored) == sorted(ids)
    assert len(stored) > 2
    assert read_header(tmp_path / "run").filtered
    keyword = conformance_command("run", "-k", "stalls and reject=yes", "--collect-only", "-q", cwd=tmp_path)
    lines = [line for line in keyword.stdout.splitlines() if "::" in line]
    assert [line for line in lines if "reject=yes" not in line or "stalls" not in line] == []
    assert any(STALLS.partition("[")[2][:-1] in line for line in lines)


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--candidate", "reference+typo"), "no defect 'typo'"),
        (("-k", "no-such-word"), "no cell was found: none matches -k no-such-word"),
        (("no-such-scenario",), "--only no-such-scenario: no scenario 'no-such-scenario'"),
        (("--requirement", "SR-MNT-3"), "--requirement SR-MNT-3: no row or group 'SR-MNT-3'"),
        (("--candidate", "postfx"), "--candidate postfx: no such candidate"),
    ],
    ids=["defect", "keyword", "id", "requirement", "candidate"],
)
def test_a_name_that_matches_nothing_is_reported_once_as_a_usage_error(
    tmp_path: Path, arguments: tuple[str, ...], why: str
):
    ran = conformance_command("run", *arguments, cwd=tmp_path)
    assert ran.returncode == 2
    assert (ran.stdout + ran.stderr).count(why) == 1
    assert not (tmp_path / "reports").exists()


@pytest.mark.integration
def test_the_version_and_the_options_of_the_harness_are_printed(tmp_path: Path):
    assert conformance_command("--version", cwd=tmp_path).stdout == f"conformance {__version__}\n"
    text = conformance_command("run", "-h", cwd=tmp_path).stdout
    declared: list[str] = []
    declare_options(SimpleNamespace(addoption=lambda *names, **_: declared.extend(names)))
    assert "--candidate" in declared
    options = ["--spark", "--conf", *declared]
    assert [option for option in options if not re.search(rf"^  {option}\b", text, re.MULTILINE)] == []
    assert text.index("--candidate") < text.index("--junitxml")


@pytest.mark.long
@pytest.mark.integration
def test_an_invalid_document_does_not_stop_a_valid_one_of_its_file(tmp_path: Path):
    good = (paths.corpus() / f"creation/inbound{SUFFIX}").read_text("utf-8")
    (tmp_path / f"mine{SUFFIX}").write_text(f"{good}\n---\nid: wrong\ntitle: [x\n", "utf-8")
    where = (f"mine{SUFFIX}", "--run-dir", "run", "--fresh")
    ran = conformance_command("run", *where, "-k", CAUGHT, "-n", "2", cwd=tmp_path)
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert "not valid YAML" in ran.stdout
    assert "1 passed" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr
    violated = conformance_command("run", *where, "-k", CAUGHT, "--candidate", DEFECT, cwd=tmp_path)
    assert violated.returncode == 1, violated.stdout


@pytest.mark.integration
def test_a_cell_of_a_file_outside_of_the_root_has_a_relative_node_id(tmp_path: Path):
    (tmp_path / "here").mkdir()
    (tmp_path / f"mine{SUFFIX}").write_bytes((paths.corpus() / f"creation/inbound{SUFFIX}").read_bytes())
    ran = conformance_command("run", f"../mine{SUFFIX}", "-k", CAUGHT, "--run-dir", "run", cwd=tmp_path / "here")
    assert ran.returncode == 0, ran.stdout
    (cell,) = read_run(tmp_path / "here/run").cells()
    assert cell.header.nodeid == f"../mine{SUFFIX}::{CAUGHT}::candidate=reference"


@pytest.mark.long
@pytest.mark.integration
def test_a_run_of_a_copy_of_the_corpus_is_unfiltered(tmp_path: Path):
    """The corpus of a checkout, run by an installed package; the conftest skips all cells but one."""
    (tmp_path / "conftest.py").write_text(
        "def pytest_runtest_protocol(item, nextitem):\n    return None if 'shadow-is-on-disk' in item.nodeid else True\n"
    )
    (tmp_path / "copy").mkdir()
    for number, file in enumerate(sorted((ROOT / "scenarios").rglob(f"*{SUFFIX}"))):
        (tmp_path / "copy" / f"{number}{SUFFIX}").write_bytes(file.read_bytes())
    ran = conformance_command("run", "copy", "--run-dir", "run", cwd=tmp_path)
    assert (tmp_path / "run").is_dir(), ran.stdout + ran.stderr
    assert not read_header(tmp_path / "run").filtered
    part = conformance_command("run", "copy", "--run-dir", "part", "--ignore", f"copy/0{SUFFIX}", cwd=tmp_path)
    assert read_header(tmp_path / "part").filtered, part.stdout


@pytest.mark.integration
def test_a_cell_is_run_once_when_another_plugin_runs_its_item_twice(tmp_path: Path):
    (tmp_path / "conftest.py").write_text(
        "from pathlib import Path\n"
        "from _pytest.runner import runtestprotocol\n"
        "def written():\n"
        "    return [(path, path.stat().st_mtime_ns) for path in Path('run/cells').iterdir()]\n"
        "def pytest_runtest_protocol(item, nextitem):\n"
        "    runtestprotocol(item, nextitem=nextitem, log=False)\n"
        "    before = written()\n"
        "    for report in runtestprotocol(item, nextitem=nextitem, log=False):\n"
        "        item.ihook.pytest_runtest_logreport(report=report)\n"
        "    assert written() == before != []\n"
        "    return True\n"
    )
    ran = conformance_command("run", CAUGHT, "--candidate", DEFECT, "--run-dir", "run", cwd=tmp_path)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "1 failed" in ran.stdout
    assert "RunDirectoryError" not in ran.stdout
    assert len(list(read_run(tmp_path / "run").cells())) == 1


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize(
    "option", ["--fixtures", "--fixtures-per-test", "--setup-only", "--setup-plan", "--markers", "--cache-show=*"]
)
def test_an_option_that_only_prints_something_makes_no_run_directory(tmp_path: Path, option: str):
    ran = conformance_command("run", option, CAUGHT, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout
    assert [path for path in tmp_path.iterdir() if path.name != ".pytest_cache"] == []
