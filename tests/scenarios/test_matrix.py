"""Cells of a scenario: axes, `${axis}`, `when`, `exclude`, `implied`, hashes and stable ids."""

import re
import shutil
from pathlib import Path

import pytest

from conformance import paths
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.loader import read_corpus, read_scenarios, scenario_files
from conformance.scenarios.steps.action import Expect, Parallel, Repeat
from conformance.scenarios.steps.nodes import Configure
from conformance.scenarios.steps.sending import Send
from conformance.scenarios.steps.timing import Advance
from conformance.suite.selection import read_id
from tests.scenarios.documents import HEAD, SEND, cells, problems, written


def test_a_scenario_without_axes_is_one_cell(tmp_path: Path) -> None:
    (cell,) = cells(tmp_path, HEAD + "steps:\n" + SEND)
    assert cell.id == "a-scenario"
    assert cell.axes == {}


def test_cells_are_ordered_by_axis_names_and_then_values(tmp_path: Path) -> None:
    text = HEAD + (
        "axes: {b: [two, one], a: [1s, 20s]}\nsteps:\n  - advance: '${a}'\n  - send: {as: m, to: '${b}', via: mbx1}\n"
    )
    assert [cell.id for cell in cells(tmp_path, text)] == [
        "a-scenario[a=1s,b=two]",
        "a-scenario[a=1s,b=one]",
        "a-scenario[a=20s,b=two]",
        "a-scenario[a=20s,b=one]",
    ]


def test_an_axis_value_keeps_its_type(tmp_path: Path) -> None:
    text = HEAD + (
        "axes: {n: [3], to: [[a@x.test, b@x.test]], offers: [yes], text: ['12']}\n"
        "configure: {A: '${n}', B: '${text}'}\n"
        "steps:\n"
        "  - send: {as: m, to: '${to}', via: mbx1, count: '${n}', offers-xshadow: '${offers}'}\n"
    )
    (cell,) = cells(tmp_path, text)
    send = cell.steps[0].action
    assert isinstance(send, Send)
    assert (send.count, send.to, send.offers_xshadow) == (3, ("a@x.test", "b@x.test"), True)
    assert cell.topology.transport == {"A": 3, "B": "12"}
    assert cell.axes == {"n": "3", "offers": "yes", "text": "12", "to": "a@x.test+b@x.test"}


def test_a_step_exists_where_its_condition_holds(tmp_path: Path) -> None:
    text = HEAD + (
        "axes: {reject: [no, yes, maybe]}\n"
        "steps:\n" + SEND + "  - expect: {reply: {of: m, code: 250}}\n    when: {reject: [no, maybe]}\n"
        "  - expect: {reply: {of: m, code: 451}}\n    when: {reject: yes}\n"
    )
    paths_of = {cell.axes["reject"]: [step.path for step in cell.steps] for cell in cells(tmp_path, text)}
    assert paths_of == {"no": ["1", "2"], "yes": ["1", "3"], "maybe": ["1", "2"]}


def test_a_condition_of_several_axes_holds_where_all_of_them_do_also_inside_a_block(tmp_path: Path) -> None:
    text = HEAD + (
        "axes: {a: [1s, 2s], b: [mbx1, mbx2]}\n"
        "steps:\n  - advance: '${a}'\n  - kill: '${b}'\n    when: {a: 1s, b: [mbx1]}\n"
        "  - repeat:\n      times: 2\n      steps:\n"
        "        - advance: 1m\n        - advance: 2m\n          when: {a: 2s, b: mbx2}\n"
    )
    paths_of = {"".join(cell.axes.values()): [step.path for step in cell.all_steps] for cell in cells(tmp_path, text)}
    assert paths_of == {
        "1smbx1": ["1", "2", "3", "3.1"],
        "1smbx2": ["1", "3", "3.1"],
        "2smbx1": ["1", "3", "3.1"],
        "2smbx2": ["1", "3", "3.1", "3.2"],
    }


def test_excluded_combinations_have_no_cell(tmp_path: Path) -> None:
    text = HEAD + (
        "axes: {a: [1s, 2s, 3s], b: [mbx1, mbx2]}\n"
        "exclude: [{a: 1s, b: mbx2}, {a: [2s, 3s], b: mbx1}]\n"
        "steps:\n  - advance: '${a}'\n  - kill: '${b}'\n"
    )
    assert [cell.axes for cell in cells(tmp_path, text)] == [
        {"a": "1s", "b": "mbx1"},
        {"a": "2s", "b": "mbx2"},
        {"a": "3s", "b": "mbx2"},
    ]


def test_the_topology_and_its_parameters_may_be_axes(tmp_path: Path) -> None:
    text = HEAD.replace("two-servers-one-dag", "'${world}'") + (
        "axes: {world: [two-servers-one-dag, one-site-no-dag], limit: [30s, 10m], reject: [no, yes]}\n"
        "configure: {SendConnectionInactivityTimeout: '${limit}', RejectMessageOnShadowFailure: '${reject}', X: 1.5}\n"
        "steps:\n" + SEND
    )
    found = cells(tmp_path, text)
    seconds, switches = {"30s": 30, "10m": 600}, {"no": False, "yes": True}
    assert len(found) == len({tuple(cell.axes.items()) for cell in found}) == 2 * len(seconds) * len(switches)
    for cell in found:
        assert cell.topology.name == cell.axes["world"]
        assert cell.topology.transport == {
            "SendConnectionInactivityTimeout": seconds[cell.axes["limit"]],
            "RejectMessageOnShadowFailure": switches[cell.axes["reject"]],
            "X": 1.5,
        }


def test_steps_inside_blocks_have_their_own_paths_and_lines(tmp_path: Path) -> None:
    text = HEAD + (
        "steps:\n"
        "  - parallel:\n"
        "      - advance: 1s\n"
        "      - repeat: {times: 3, steps: [{advance: 2s}]}\n"
        "        label: thrice\n"
        "  - expect:\n"
        "      left: {node: mbx1, code: 0}\n"
    )
    (cell,) = cells(tmp_path, text)
    block, expectation = cell.steps
    assert isinstance(block.action, Parallel)
    first, second = block.action.steps
    assert (first.path, first.line, second.path, second.line, second.label) == ("1.1", 7, "1.2", 8, "thrice")
    assert isinstance(second.action, Repeat)
    assert second.action.times == 3
    assert (second.action.steps[0].path, second.action.steps[0].line) == ("1.2.1", 8)
    assert second.action.steps[0].action == Advance(by=2.0)
    assert isinstance(expectation.action, Expect)
    assert (expectation.verb, expectation.action.verb, expectation.line) == ("expect", "left", 11)


def test_the_parameters_of_a_configure_step_are_parsed(tmp_path: Path) -> None:
    step = (
        "  - configure:\n      node: mbx1\n"
        "      transport: {A: yes, B: 2m, C: 10MB, D: LocalOnly, E: '12', F: 1500ms}\n"
        "      listeners: {frontend: {A: no, B: 3m}, delivery: {C: 2KB}}\n"
        "      unknown: {A: 4m}\n"
    )
    (cell,) = cells(tmp_path, HEAD + "steps:\n" + step)
    action = cell.steps[0].action
    assert isinstance(action, Configure)
    assert action.transport == {"A": True, "B": 120, "C": 10 * 1024**2, "D": "LocalOnly", "E": "12", "F": 1.5}
    assert action.listeners == {"frontend": {"A": False, "B": 180}, "delivery": {"C": 2048}}
    assert action.unknown == {"A": 240}


def test_the_hash_covers_the_document_the_topology_and_the_messages(tmp_path: Path) -> None:
    def sha256(text: str, fixtures: Path) -> str:
        (scenario,) = read_scenarios(written(tmp_path, text), fixtures)
        return scenario.cells()[0].sha256

    whole = HEAD + (
        f"steps:\n{SEND}{SEND.replace('as: m', 'as: n, message: dots')}"
        "  - parallel: [{send: {as: o, message: multipart, to: bob@corp.test, via: mbx1}}]\n"
        "  - submit: {as: s, message: empty-body, to: bob@corp.test, via: mbx1}\n"
        "  - talk: {as: t, to: mbx1, lines: [{message: eight-bit}]}\n"
    )
    usual = sha256(whole, paths.fixtures())
    assert sha256(whole + "# a comment\n", paths.fixtures()) == usual
    changes = {"for the tests": "for these tests", "to: bob@": "to: carol@", "steps:": "drain: 2h\nsteps:"}
    assert [old for old, new in changes.items() if sha256(whole.replace(old, new), paths.fixtures()) == usual] == []
    sent = [f"messages/{name}.yaml" for name in ("plain", "dots", "multipart", "empty-body", "eight-bit")]
    for changed in (None, "topologies/two-servers-one-dag.yaml", *sent, "messages/no-date.yaml"):
        fixtures = tmp_path / str(changed).replace("/", "-")
        shutil.copytree(paths.fixtures(), fixtures)
        if changed:
            text = (fixtures / changed).read_text("utf-8")
            (fixtures / changed).write_text(re.sub("title: .*", "title: Another", text, count=1), "utf-8")
        same = changed in (None, "messages/no-date.yaml")  # which the scenario does not send
        assert (sha256(whole, fixtures) == usual) is same, changed


def test_the_hash_of_a_document_does_not_change_with_what_the_language_gains(tmp_path: Path) -> None:
    """A field that was added to documents or topologies counts only where a document has it."""
    text = (
        "id: a-scenario\ntitle: A scenario for the tests\nrequirements: [SR-CRE-01]\n"
        "topology: {name: alone, servers: [{name: mbx1, site: Main}]}\nsteps: [{advance: 1m}]\n"
    )
    (cell,) = cells(tmp_path, text)
    assert cell.sha256 == "7bea141df3874102ee679d773059349a5e1d13884b4c6508ec1d03b8a616bdb4"
    for having in (text + "server-names: upper\n", text.replace("alone,", "alone, server-names: upper,")):
        assert cells(tmp_path, having)[0].sha256 != cell.sha256, "it has the field"


def test_a_scenario_with_problems_has_no_cells(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"a\.scenario\.yaml:5:1: unknown key 'tag' \(did you mean 'tags'\?\)"):
        cells(tmp_path, HEAD + "tag: [x]\nsteps:\n" + SEND)


def test_every_scenario_of_the_corpus_is_valid_and_cell_ids_are_unique() -> None:
    scenarios = read_corpus([paths.corpus()], paths.fixtures())
    ids = [cell.id for scenario in scenarios for cell in scenario.cells("full")]
    assert ids
    assert len(set(ids)) == len(ids)


def test_a_file_that_is_read_twice_gives_the_same_cells() -> None:
    file = scenario_files([paths.corpus()])[0]
    once, again = (read_scenarios(file, paths.fixtures()) for _ in range(2))
    assert any(one.cells() for one in once)
    assert [cell for one in once for cell in one.cells()] == [cell for one in again for cell in one.cells()]


@pytest.mark.parametrize("folder", ["", "relay", "relay/more"])
def test_the_path_of_a_cell_is_relative_to_the_corpus(folder: str, tmp_path: Path) -> None:
    (file,) = scenario_files([paths.corpus() / "interoperation" / "hub-2010.scenario.yaml"])
    assert read_scenarios(file, paths.fixtures())[0].cells()[0].path == "interoperation/hub-2010.scenario.yaml"
    shutil.copytree(paths.fixtures() / "topologies", tmp_path / "fixtures" / "topologies")
    shutil.copytree(paths.fixtures() / "messages", tmp_path / "fixtures" / "messages")
    within = Path("scenarios", folder)  # the corpus is beside its fixtures
    (tmp_path / within).mkdir(parents=True)
    file = written(tmp_path / within, HEAD + "steps:\n" + SEND)
    (scenario,) = read_scenarios(file, tmp_path / "fixtures")
    assert f"scenarios/{scenario.cells()[0].path}" == (within / "a.scenario.yaml").as_posix()


PARAMETERS = "parameters: [explicit, default]\n"


def test_the_axis_of_parameters_keeps_the_ids_of_existing_cells(tmp_path: Path) -> None:
    text = HEAD + "axes: {z: [1, 2]}\nsteps:\n  - send: {as: m, to: bob@corp.test, via: mbx1, count: '${z}'}\n"
    (one, two) = cells(tmp_path, text)
    now = cells(tmp_path, text.replace("axes:", PARAMETERS + "axes:"))
    assert [(cell.id, cell.parameters) for cell in now] == [
        (one.id, "explicit"),
        (two.id, "explicit"),
        ("a-scenario[parameters=default,z=1]", "default"),
        ("a-scenario[parameters=default,z=2]", "default"),
    ]
    assert now[0].implied == {"parameters": "explicit"}
    assert read_id("a-scenario[parameters=explicit,z=1]").matches(now[0])
    text = HEAD + (
        "axes: {offers: [no, yes]}\nimplied: {offers: no}\n"
        "steps:\n  - send: {as: m, to: bob@corp.test, via: mbx1, offers-xshadow: '${offers}'}\n"
    )
    before = [cell.id for cell in cells(tmp_path, text)]
    assert before == ["a-scenario", "a-scenario[offers=yes]"]
    now = cells(tmp_path, text.replace("axes:", PARAMETERS + "axes:"))
    assert [cell.id for cell in now if cell.parameters == "explicit"] == before, (
        "beside an implied value of the document"
    )


def test_the_axis_of_parameters_is_known_to_conditions_and_exclusions(tmp_path: Path) -> None:
    text = (
        HEAD
        + PARAMETERS
        + (
            "axes: {z: [1, 2]}\nexclude: [{parameters: default, z: 2}]\n"
            "steps:\n  - send: {as: m, to: bob@corp.test, via: mbx1, count: '${z}'}\n"
            "  - advance: 1m\n    when: {parameters: default}\n"
        )
    )
    assert [(cell.id, len(cell.steps)) for cell in cells(tmp_path, text)] == [
        ("a-scenario[z=1]", 1),
        ("a-scenario[z=2]", 1),
        ("a-scenario[parameters=default,z=1]", 2),
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("parameters: [default, default]", "has the value 'default' twice"),
        ("parameters: [none]", "5:14: expected 'default' or 'explicit', not 'none'"),
        ("parameters: [default]\naxes: {parameters: [a, b]}", "makes the axis 'parameters' itself"),
    ],
)
def test_a_wrong_axis_of_parameters_is_refused(tmp_path: Path, line: str, why: str) -> None:
    found = problems(tmp_path, HEAD + f"{line}\nsteps:\n" + SEND + "    when: {parameters: default}\n")
    assert why in " ".join(str(problem) for problem in found)


def test_adding_an_implied_axis_keeps_the_existing_cell_ids(tmp_path: Path) -> None:
    steps = "steps:\n  - send: {as: m, to: '${b}', via: mbx1, offers-xshadow: '${offers}'}\n"
    before = [
        cell.id for cell in cells(tmp_path, HEAD + "axes: {b: [two, one]}\n" + steps.replace("'${offers}'", "no"))
    ]
    text = HEAD + "axes: {b: [two, one], offers: [no, yes]}\nimplied: {offers: no}\n" + steps
    now = cells(tmp_path, text)
    assert [cell.id for cell in now if not cell.axes.get("offers")] == before
    assert [cell.id for cell in now if cell.axes.get("offers")] == [
        "a-scenario[b=two,offers=yes]",
        "a-scenario[b=one,offers=yes]",
    ]
    assert {cell.steps[0].action.offers_xshadow for cell in now if cell.id in before} == {False}
    assert read_id("a-scenario[b=two,offers=no]").matches(now[0])
    assert not read_id("a-scenario[offers=yes]").matches(now[0])


@pytest.mark.parametrize(
    ("implied", "why"),
    [("{offer: no}", "no axis 'offer' (did you mean 'offers'?)"), ("{offers: maybe}", "value of the axis 'offers':")],
)
def test_an_implied_value_that_is_no_value_of_an_axis_is_refused(tmp_path: Path, implied: str, why: str) -> None:
    text = HEAD + (
        f"axes: {{offers: [no, yes]}}\nimplied: {implied}\n"
        "steps:\n  - send: {as: m, to: bob@corp.test, via: mbx1, offers-xshadow: '${offers}'}\n"
    )
    with pytest.raises(InvalidFile) as error:
        cells(tmp_path, text)
    assert why in str(error.value)


NAMES = "server-names: '${names}'\n"


def test_an_axis_can_say_how_configurations_write_the_names_of_servers(tmp_path: Path) -> None:
    text = HEAD + "axes: {names: [same, upper]}\nimplied: {names: same}\n" + NAMES + "steps:\n" + SEND
    assert [(cell.id, cell.topology.server_names) for cell in cells(tmp_path, text)] == [
        ("a-scenario", "same"),
        ("a-scenario[names=upper]", "upper"),
    ]


def test_how_names_of_servers_are_written_is_one_of_two_words(tmp_path: Path) -> None:
    text = HEAD + "axes: {names: [same, upper, lower]}\n" + NAMES + "steps:\n" + SEND
    assert [problem.message for problem in problems(tmp_path, text)] == ["`server-names` is same or upper, not 'lower'"]
