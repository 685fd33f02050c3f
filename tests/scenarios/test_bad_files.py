"""What the loader says of files that are wrong: `bad/NAME.yaml` and, word for word, `bad/NAME.txt`."""

import shutil
from pathlib import Path

import pytest

from conformance import paths
from conformance.scenarios.errors import Problems
from conformance.scenarios.loader import check_corpus, read
from conformance.scenarios.yaml_nodes import MAX_NODES, MAX_OCTETS

BAD = Path(__file__).parent / "bad"


def told(path: Path) -> str:
    """Return what is wrong with a file, as `conformance validate` prints it, the path cut to its name."""
    problems = [problem for scenario in read(path, paths.fixtures()) for problem in scenario.problems]
    return "".join(f"{problem}\n" for problem in problems).replace(str(path), path.name)


@pytest.mark.parametrize("name", sorted(path.stem for path in BAD.glob("*.yaml")))
def test_every_problem_is_told_with_its_place(name: str) -> None:
    assert told(BAD / f"{name}.yaml") == (BAD / f"{name}.txt").read_text("utf-8")


def test_every_bad_file_has_its_words() -> None:
    assert {path.stem for path in BAD.glob("*.yaml")} == {path.stem for path in BAD.glob("*.txt")}
    assert all(path.read_text("utf-8").strip() for path in BAD.glob("*.txt"))


def test_one_bad_scenario_does_not_hide_the_others() -> None:
    first, second, third = read(BAD / "one-of-three.yaml", paths.fixtures())
    assert len(first.cells()) == 1
    for bad, word in ((second, "no YAML"), (third, "used twice")):
        with pytest.raises(Problems, match=word):
            bad.cells()


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "x.scenario.yaml"
    file.write_bytes(b"id: a\ntitle: \xff\n")
    assert told(file) == "x.scenario.yaml:2:1: no UTF-8: octet 13 is 0xff\n"


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    file = tmp_path / "x.scenario.yaml"
    file.write_bytes(b"#" * (MAX_OCTETS + 1))
    assert f"at most {MAX_OCTETS} are read" in told(file)


def test_a_document_of_too_many_values(tmp_path: Path) -> None:
    file = tmp_path / "x.scenario.yaml"
    file.write_text(f"tags: [{'a,' * MAX_NODES}]\n")
    assert f"more than {MAX_NODES} values in one document" in told(file)


def test_an_id_is_used_once_in_the_corpus(tmp_path: Path) -> None:
    good = (paths.corpus() / "interoperation" / "hub-2010.scenario.yaml").read_text("utf-8")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.scenario.yaml").write_text(good)
    (problem, *_) = check_corpus([tmp_path], paths.fixtures())
    assert problem.path == str(tmp_path / "b" / "x.scenario.yaml")
    assert "is used already, by " + str(tmp_path / "a" / "x.scenario.yaml") in problem.message


def test_a_bad_topology_is_told_at_its_own_place(tmp_path: Path) -> None:
    fixtures = tmp_path / "fixtures"
    shutil.copytree(paths.fixtures(), fixtures)
    (fixtures / "topologies" / "broken.yaml").write_text("name: broken\nservers: [{name: a, sight: X, site: Y}]\n")
    file = tmp_path / "x.scenario.yaml"
    file.write_text(
        "id: a-scenario\ntitle: In a broken topology\nrequirements: [SR-CRE-01]\ntopology: broken\n"
        "steps:\n  - advance: 1m\n"
    )
    (scenario,) = read(file, fixtures)
    (problem,) = scenario.problems
    assert str(problem) == f"{fixtures / 'topologies' / 'broken.yaml'}:2:21: unknown key 'sight' (did you mean 'site'?)"
