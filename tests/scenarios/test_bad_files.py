"""Problems that the loader reports about invalid files; `bad_files.txt` has contents with the exact reports."""

import os
import re
import shutil
import time
from pathlib import Path

import pytest

from conformance import paths
from conformance.scenarios import cells, matrix
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.loader import check_corpus, read_scenarios
from conformance.scenarios.values import parse_size
from conformance.scenarios.yaml_nodes import MAX_NODES, MAX_OCTETS

CASES = {
    name: content.split("#### is refused\n")
    for name, content in re.findall(
        r"^#### (\S+)\n(.*?)(?=\n#### (?!is refused)|\Z)",
        (Path(__file__).parent / "bad_files.txt").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    if name != "is"
}
"""Name -> the content of a file, and every problem that is reported about it, word for word."""


def write_case(name: str, folder: Path) -> Path:
    """Write the content of a case as `NAME.yaml`; return the path."""
    file = folder / f"{name}.yaml"
    file.write_text(CASES[name][0], "utf-8")
    return file


def problems_of(path: Path) -> str:
    """Return what is wrong with a file, as `conformance validate` prints it, the path cut to its name."""
    problems = [problem for scenario in read_scenarios(path, paths.fixtures()) for problem in scenario.problems]
    return "".join(f"{problem}\n" for problem in problems).replace(str(path), path.name)


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_problems_of_an_invalid_file_are_reported_with_their_places(name: str, tmp_path: Path) -> None:
    _, expected = CASES[name]
    assert expected.strip()
    assert problems_of(write_case(name, tmp_path)).rstrip("\n") == expected.rstrip("\n")


def test_one_bad_scenario_does_not_hide_the_others(tmp_path: Path) -> None:
    file = write_case("one-of-three", tmp_path)
    text = file.read_text("utf-8")
    good, separator, _ = text.partition("\n---\n")
    file.write_text(text + separator + good.replace("a-scenario", "another-scenario"), "utf-8")
    first, second, third, fourth = read_scenarios(file, paths.fixtures())
    assert [cell.id for one in (first, fourth) for cell in one.cells()] == ["a-scenario", "another-scenario"]
    for bad, word in ((second, "not valid YAML"), (third, "used twice")):
        with pytest.raises(InvalidFile, match=word):
            bad.cells()


@pytest.mark.parametrize("character", sorted({chr(n) for n in (*range(32), *range(127, 160))} - set("\t\n\r\x85")))
def test_a_control_character_is_refused(character: str, tmp_path: Path) -> None:
    file = tmp_path / "x.scenario.yaml"
    file.write_text(f'id: a\ntitle: "a{character}b"\n', "utf-8")
    assert problems_of(file) == f"x.scenario.yaml:2:1: not valid YAML: the character {character!a} is not allowed\n"


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.scenario.yaml"
    file.write_bytes(b"id: a\ntitle: \xff\n")
    assert problems_of(file) == "x.scenario.yaml:2:1: not valid UTF-8: octet 13 is 0xff\n"


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.scenario.yaml"
    file.write_bytes(b"#" * (MAX_OCTETS + 1))
    assert f"at most {MAX_OCTETS} octets are read" in problems_of(file)
    file.write_bytes(b"#" * MAX_OCTETS)
    assert "there is no scenario in this file" in problems_of(file)


def test_a_document_of_too_many_values_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.scenario.yaml"
    too_many = f"more than {MAX_NODES} values in one document"
    file.write_text(f"tags: [{'a,' * (MAX_NODES - 2)}]\n")  # the document, the list, and its items
    assert too_many not in problems_of(file)
    file.write_text(f"tags: [{'a,' * (MAX_NODES - 1)}]\n")
    assert too_many in problems_of(file)


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "loop", "missing"])
def test_what_is_not_a_regular_file_is_not_read(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "x.scenario.yaml"
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "directory":
        file.mkdir()
    elif kind != "missing":
        file.symlink_to("/dev/zero" if kind == "device" else file)
    (scenario,) = read_scenarios(file, paths.fixtures())
    (problem,) = scenario.problems
    why = {"loop": "Too many levels of symbolic links", "missing": "No such file or directory"}
    assert problem.message == f"cannot be read: {why.get(kind, 'not a regular file')}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("drain: " + "9" * 8000, "a number of more than 40 digits"),
        ("drain: " + "1" * 8000 + "m" * 8000, "is not a valid duration"),
        ("drain: " + "9" * 39 + "d", "is too long: a duration is at most 3650d"),
        ("drain: 0x" + "f" * 8000, "a number of more than 40 digits"),
        ("drain: 0x" + "f" * 30, "is too long: a duration is at most 3650d"),
        (f"configure: {{a: '{'9' * 8000}'}}\ndrain: {'9' * 8000}s", "is not a valid duration"),
    ],
)
def test_huge_values_are_refused_quickly_with_a_short_message(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "x.scenario.yaml"
    steps = "steps: [{send: {as: m, to: bob@corp.test, via: mta1}}]"
    file.write_text(
        f"{line}\nid: x\ntitle: a title of enough words\nrequirements: [RL-ACK-01]\ntopology: relay\n{steps}\n"
    )
    started = time.process_time()
    said = problems_of(file)
    assert time.process_time() - started < 1  # quadratic work over 8,000 characters took 15 s
    assert message in said
    assert len(said) < 300


def test_a_size_of_more_than_a_gigabyte_is_refused() -> None:
    assert parse_size("1024MB") == 1024**3
    for size in (str(1024**3 + 1), "9" * 30 + "MB"):
        with pytest.raises(ValueError, match="at most 1024MB"):
            parse_size(size)


MATRIX = "id: x\ntitle: a title of enough words\nrequirements: [RL-ACK-01]\ntopology: relay\naxes: {{a: [{axis}]}}\n"
SEND = '{send: {as: m, to: bob@corp.test, via: mta1, count: "${a}"}}'


@pytest.mark.parametrize(("count", "limit", "refused"), [(5000, 0, True), (9, 2168, True), (9, 2169, False)])
def test_a_matrix_whose_cells_have_too_many_steps_is_refused(
    count: int, limit: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit:  # a million values take a minute to read
        monkeypatch.setattr(cells, "MAX_VALUES", limit)
    file = tmp_path / "x.scenario.yaml"
    axis = ",".join(map(str, range(1, count + 1)))
    file.write_text(f"{MATRIX.format(axis=axis)}steps: [{','.join([SEND] * 40)}]\n")
    said = f"{count} cells with steps of 241 values each; all cells together have at most {limit or 1000000}"
    assert (said in problems_of(file)) is refused


@pytest.mark.parametrize(("rules", "limit", "refused"), [(1999, 0, True), (21, 20, True), (20, 20, False)])
def test_a_matrix_with_too_many_exclusions_is_refused(
    rules: int, limit: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit:
        monkeypatch.setattr(matrix, "MAX_RULES", limit)
    file = tmp_path / "x.scenario.yaml"
    head = MATRIX.format(axis=",".join(map(str, range(1, rules + 2))))
    excluded = ",".join(f"{{a: {value}}}" for value in range(1, rules + 1))
    file.write_text(f"{head}exclude: [{excluded}]\nsteps: [{SEND}]\n")
    problems = problems_of(file)
    assert (f"{rules} rules; `exclude` has at most {limit or 1000}" in problems) is refused
    assert bool(problems) is refused


def test_an_id_that_is_used_twice_in_the_corpus_is_reported(tmp_path: Path) -> None:
    good = (paths.corpus() / "creation" / "inbound.scenario.yaml").read_text("utf-8")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.scenario.yaml").write_text(good)
    problems = check_corpus([tmp_path], paths.fixtures())
    assert len(problems) == len(re.findall("^id: ", good, re.MULTILINE)) > 1
    assert {problem.path for problem in problems} == {str(tmp_path / "b" / "x.scenario.yaml")}
    first = f"is used already, by {tmp_path / 'a' / 'x.scenario.yaml'}"
    assert [problem for problem in problems if f"{first}:{problem.line}" not in problem.message] == []


def test_a_problem_of_a_topology_is_reported_at_its_place_in_the_topology(tmp_path: Path) -> None:
    fixtures = tmp_path / "fixtures"
    shutil.copytree(paths.fixtures(), fixtures)
    (fixtures / "topologies" / "broken.yaml").write_text("name: broken\nservers: [{name: a, sight: X, site: Y}]\n")
    file = tmp_path / "x.scenario.yaml"
    file.write_text(
        "id: a-scenario\ntitle: In a broken topology\nrequirements: [SR-CRE-01]\ntopology: broken\n"
        "steps:\n  - advance: 1m\n"
    )
    (scenario,) = read_scenarios(file, fixtures)
    (problem,) = scenario.problems
    assert str(problem) == f"{fixtures / 'topologies' / 'broken.yaml'}:2:21: unknown key 'sight' (did you mean 'site'?)"
