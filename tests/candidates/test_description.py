"""Descriptions: a closed schema, every error reported with its place, and the names of candidates on the command line."""

import asyncio
import json
import re
from pathlib import Path

import pytest
import yaml
from jinja2 import Environment, nodes
from jsonschema import Draft202012Validator

import conformance
from conformance import paths
from conformance.candidates.assignment import read_assignment
from conformance.candidates.availability import Availability
from conformance.candidates.description import REFERENCE, Candidate, CandidateError, read_description
from conformance.candidates.lookup import find_candidate
from conformance.candidates.placeholders import (
    PLACEHOLDERS,
    fill_argv,
    placeholder_table,
    render_file,
    seconds,
    unknown_placeholders,
)
from conformance.nodes.kinds import node_class
from conformance.nodes.node_directory import NodeDirectory
from tests.docs.conversing import EXAMPLES

SHIPPED = paths.fixtures() / "candidates"
SHIPPED_FILES = sorted(SHIPPED.glob("*.yaml"))
ROOT = Path(__file__).parents[2]

MINE = """
name: mine
kind: exec
claims: [relay]
argv: [/bin/true, "{config}"]
"""

EMPTY = "name: x, commands: [], replies: []"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_schema_is_closed():
    schema = Candidate.model_json_schema()
    Draft202012Validator.check_schema(schema)
    closed = {name: part.get("additionalProperties") for name, part in {"": schema, **schema["$defs"]}.items()}
    assert closed == dict.fromkeys(closed, False)
    assert "Container" in closed


@pytest.mark.parametrize("path", SHIPPED_FILES, ids=lambda path: path.stem)
def test_a_shipped_description_is_valid_under_the_published_schema_and_named_after_its_file(path: Path):
    schema = json.loads((ROOT / "docs/schema/candidate.json").read_text("utf-8"))
    Draft202012Validator(schema).validate(yaml.safe_load(path.read_text("utf-8")))
    candidate = read_description(path)
    assert candidate.name == path.stem
    assert candidate.title
    assert "relay" in candidate.claims


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("clams: [relay]", ":6:1: unknown key 'clams' (did you mean 'claims'?)"),
        ("claims: [teleport]", ":5:10: expected 'delayed-acknowledgement', 'dsn'"),
        ("argv: []", ":3:1: kind: the kind exec needs 'argv'"),
        ("kind: python", ":5:1: kind: the kind python needs 'factory'"),
        ("kind: docker", ":5:1: kind: the kind docker needs 'container'"),
        ("kind: remote", ":5:1: kind: the kind remote needs 'addresses'"),
        ("commands: {explode: [x]}", ":6:1: commands: there is no 'explode'"),
        ("flush-to-retry: true", ":6:1: flush-to-retry: needs the command 'flush'"),
        ("private-root: true", ":6:1: private-root: needs 'installed'"),
        ("listeners: [delivery]", ":6:1: listeners: every server has a frontend"),
        ("name: [", ":6:1: not valid YAML"),
        ("claims: [relai]", ":5:10: expected 'delayed-acknowledgement'"),
        ("claims: [relai]", "not 'relai' (did you mean 'relay'?)"),
        ("commands: {flsh: [x]}", ":6:1: commands: there is no 'flsh' (did you mean 'flush'?)"),
        ("exit-codes: [0, many]", ":6:17: expected a whole number, not 'many'"),
        ("contract: 3", ":6:11: expected 1 or 2, not 3"),
        (f"dialect: {{{EMPTY}, keyword: {{}}}}", ":6:47: unknown key 'keyword' (did you mean 'keywords'?)"),
        (f"dialect: {{{EMPTY}, verbs: {{A: XQDISCRD}}}}", ":6:58: expected 'XQDISCARD'"),
        (f"dialect: {{{EMPTY}, verbs: {{mail: XSHADOW}}}}", ":6:54: MAIL is a verb of SMTP itself"),
        ("dialect: {name: x, replies: []}", ":6:10: the key 'commands' is missing"),
        ("dialect: profile-2", ":6:10: expected 'profile-1' or a mapping, not 'profile-2' (did you mean 'profile-1'?)"),
    ],
)
def test_an_error_in_a_description_is_reported_with_its_place(tmp_path: Path, change: str, said: str):
    key = change.partition(":")[0]
    kept = "\n".join(line for line in MINE.splitlines() if not line.startswith(f"{key}:"))
    with pytest.raises(CandidateError) as caught:
        read_description(written(tmp_path, f"{kept}\n{change}\n"))
    assert said in str(caught.value)
    assert re.search(r"mine\.yaml:\d+:\d+: ", str(caught.value))
    assert "not a mapping" not in str(caught.value)


def test_each_form_of_a_candidate_s_name_finds_its_candidate(tmp_path: Path):
    mine = str(written(tmp_path, MINE))
    assert find_candidate("reference", SHIPPED) == find_candidate("python:reference", SHIPPED) == REFERENCE
    assert find_candidate("exec:reference", SHIPPED) == REFERENCE.model_copy(update={"kind": "exec"})
    for defects in ("acknowledges-before-shadow", "acknowledges-before-shadow+every-reading"):
        for word, kind in (("reference", "python"), ("exec:reference", "exec")):
            changed = REFERENCE.model_copy(update={"kind": kind, "defect": defects})
            assert find_candidate(f"{word}+{defects}", SHIPPED) == changed
            assert changed.identity == f"reference+{defects}"
    assert find_candidate(mine, SHIPPED) == read_description(Path(mine))
    short = Path(mine).rename(tmp_path / "mine.yml")
    assert find_candidate(str(short), SHIPPED) == read_description(short)
    assert find_candidate("postfix", SHIPPED) == read_description(SHIPPED / "postfix.yaml")
    image = find_candidate("docker:mine:1.2", SHIPPED)
    assert image.kind == "docker"
    assert image.container is not None
    assert image.container.image == "mine:1.2"
    digest = f"registry.test/mine@sha256:{'a' * 64}"
    long = find_candidate(f"docker:{digest}", SHIPPED)
    assert long.container is not None
    assert long.container.image == digest
    assert long.name.startswith("registry.test-mine-sha256-aaaa")
    remote = find_candidate("tcp:127.0.0.1:2525", SHIPPED)
    assert remote.kind == "remote"
    assert remote.addresses["frontend"].at == ("127.0.0.1", 2525)


def test_the_reference_has_the_harness_s_own_version_in_its_process_and_as_a_program():
    for word in ("reference", "exec:reference"):
        candidate = find_candidate(word, SHIPPED)
        assert asyncio.run(node_class(candidate.kind).version(candidate)) == conformance.__version__


def test_a_file_may_have_a_plus_in_its_name(tmp_path: Path):
    path = tmp_path / "mine+2.yaml"
    path.write_text(MINE, encoding="utf-8")
    assert find_candidate(str(path), SHIPPED).name == "mine"


@pytest.mark.parametrize(
    "word",
    [
        "no-such-server",
        "tcp:nowhere",
        "tcp:host:0",
        "docker:",
        "docker:_x",
        "remote:reference",
        "mine+defect",
        "postfix+acknowledges-before-shadow",
        "reference+no-such-defect",
        "reference+acknowledges-before-shadow+no-such-defect",
        "./none.yaml",
    ],
)
def test_words_that_name_no_candidate_are_refused(word: str):
    with pytest.raises(CandidateError, match="--candidate"):
        find_candidate(word, SHIPPED)


def test_a_mixed_assignment_gives_each_server_its_candidate(tmp_path: Path):
    mine = written(tmp_path, MINE)
    assignment = read_assignment(f"mbx1={mine},mbx2=postfix", SHIPPED)
    assert [assignment.candidate_for(f"mbx{n}").name for n in (1, 2, 3)] == ["mine", "postfix", "reference"]


def test_a_program_that_is_not_installed_is_named(tmp_path: Path):
    assignment = read_assignment(str(written(tmp_path, MINE + "programs: [sh, no-such-program]\n")), SHIPPED)
    assert assignment.unavailable(("mta1",)) == ("mine: no-such-program is not installed",)


def test_known_placeholders_are_filled_in_and_a_command_keeps_unknown_ones():
    assert fill_argv(["{config}", "{other}", "{1}"], {"config": "/c"}, ["x"]) == ["/c", "{other}", "x"]
    text = "{% for r in node.routes %}{{ r.domain }} {% endfor %}{{ seconds(0.3) }} {{ data }}"
    assert render_file("f", text, {"routes": [{"domain": "a.test"}]}, {"data": "/d", "listen.frontend": "1"}) == (
        "a.test 1 /d"
    )
    assert seconds(61.2) == 62


def test_an_error_in_a_file_template_is_reported_with_the_file_and_one_of_syntax_with_its_line():
    with pytest.raises(CandidateError, match=r"^files: main\.cf: 'nonsense' is undefined$"):
        render_file("main.cf", "{{ nonsense }}", {}, {})
    with pytest.raises(CandidateError, match=r"files: main\.cf:2: "):
        render_file("main.cf", "\n{% if %}", {}, {})
    with pytest.raises(CandidateError, match=r"files: main\.cf: TypeError: "):
        render_file("main.cf", "{{ seconds('soon') }}", {}, {})
    with pytest.raises(CandidateError, match=r"files: main\.cf: ZeroDivisionError: "):
        render_file("main.cf", "{{ 1 / node.zero }}", {"zero": 0}, {})


BASE = """
name: base
kind: exec
claims: [relay, dsn]
argv: [serve, "{config}"]
files: {a.conf: "mode = {{ options.get('mode', 'plain') }}"}
"""


def test_a_description_inherits_from_the_one_that_like_names(tmp_path: Path):
    (tmp_path / "base.yaml").write_text(BASE, "utf-8")
    (tmp_path / "another.yaml").write_text(BASE.replace("serve", "another").replace("plain", "other"), "utf-8")
    variant = tmp_path / "variant.yaml"
    variant.write_text("{like: base, name: variant, kind: exec, claims: [relay], options: {mode: slow}}", "utf-8")
    candidate = read_description(variant)
    assert (candidate.name, candidate.claims, candidate.argv) == ("variant", ("relay",), ("serve", "{config}"))
    rendered = [
        render_file("a.conf", one.files["a.conf"], {}, {}, one.options)
        for one in (candidate, read_description(tmp_path / "base.yaml"))
    ]
    assert rendered == ["mode = slow", "mode = plain"]


def test_an_error_in_an_inherited_field_is_reported_with_its_place_in_the_other_description(tmp_path: Path):
    base, variant = tmp_path / "base.yaml", tmp_path / "variant.yaml"
    own = "{like: base, name: variant, kind: exec, claims: [relay], scale: x}"
    variant.write_text(own, "utf-8")
    base.write_text(f"{BASE}clams: [x]\nready-within: soon\n", "utf-8")
    with pytest.raises(CandidateError) as caught:
        read_description(variant)
    assert [line.partition(": ")[0] for line in str(caught.value).splitlines()] == [
        f"{variant}:1:{own.index('x}') + 1}",
        f"{base}:7:1",
        f"{base}:8:15",
    ]
    variant.write_text(own.replace(", scale: x", ""), "utf-8")
    base.write_text(f"{BASE}commands: {{explode: [x]}}\n", "utf-8")
    with pytest.raises(CandidateError, match=f"^{re.escape(str(base))}:7:1: commands: there is no 'explode'"):
        read_description(variant)
    base.write_text("argv: [serve]\n", "utf-8")
    assert read_description(variant).argv == ("serve",), "what it lacks is no error if the variant has it"


@pytest.mark.parametrize("other", ["{like: third, name: base, kind: exec, claims: [relay]}", "[no description]"])
def test_a_description_cannot_inherit_from_one_that_inherits_or_is_invalid(tmp_path: Path, other: str):
    (tmp_path / "third.yaml").write_text(BASE.replace("name: base", "name: third"), "utf-8")
    (tmp_path / "base.yaml").write_text(other, "utf-8")
    (tmp_path / "variant.yaml").write_text("{like: base, name: variant, kind: exec, claims: [relay]}", "utf-8")
    with pytest.raises(CandidateError, match="like: base must be a description without a 'like' of its own"):
        read_description(tmp_path / "variant.yaml")


def test_all_unknown_keys_and_wrong_values_of_a_description_are_reported_at_once(tmp_path: Path):
    wrong = "clams: [x]\nready-within: soon\nexit-codes: [0, many, more]\ndialect: {name: x, keyword: {}}\nlist: y\n"
    with pytest.raises(CandidateError) as caught:
        read_description(written(tmp_path, MINE + wrong))
    assert [line.partition("mine.yaml")[2].split(" ")[0] for line in str(caught.value).splitlines()] == [
        ":6:1:",
        ":7:15:",
        ":8:17:",
        ":8:23:",
        ":9:10:",
        ":9:10:",
        ":9:20:",
        ":10:1:",
    ]


def test_options_and_the_description_s_folder_are_placeholders_of_commands(tmp_path: Path):
    text = MINE.replace('"{config}"', '"{options.mode}", "{here}/serve"') + "options: {mode: slow}\n"
    candidate = read_description(written(tmp_path, text))
    directory = NodeDirectory("mbx1", candidate, tmp_path / "node", Availability())
    assert directory.fill(candidate.argv) == ["/bin/true", "slow", f"{tmp_path}/serve"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('argv: [x, "{confg}"]', "argv[1]: '{confg}': unknown placeholder 'confg' (did you mean 'config'?)"),
        ('argv: ["{listen.fronted}"]', "unknown placeholder 'listen.fronted' (did you mean 'listen.frontend'?)"),
        ('argv: ["{options.mod}"]\noptions: {mode: x}', "(did you mean 'options.mode'?)"),
        (
            'argv: [x]\ncommands: {stop: ["{1}"]}',
            "commands.stop[0]: '{1}': unknown placeholder '1' (known placeholders: config, data, directory, here, installed, "
            "listen.delivery, listen.delivery.host, listen.frontend, listen.frontend.host, listen.transport, "
            "listen.transport.host, name, next_hop.host, next_hop.port, python)",
        ),
    ],
)
def test_an_unknown_placeholder_is_reported_with_the_most_similar_one_or_with_all(tmp_path: Path, text: str, said: str):
    kept = "\n".join(line for line in MINE.splitlines() if not line.startswith("argv:"))
    (problem,) = unknown_placeholders(read_description(written(tmp_path, f"{kept}\n{text}\n")))
    assert said in problem


@pytest.mark.parametrize("path", SHIPPED_FILES, ids=lambda path: path.stem)
def test_shipped_descriptions_have_no_unknown_placeholder(path: Path):
    """The names in a file are looked up in the whole template too, since rendering it leaves some branches out."""
    candidate = read_description(path)
    assert list(unknown_placeholders(candidate)) == []
    values = {one.name: one.name for one in PLACEHOLDERS if one.in_files and "." not in one.name}
    known = {*values, "node", "options", "seconds", "loop"}
    for name, template in candidate.files.items():
        names = list(Environment().parse(template).find_all(nodes.Name))  # noqa: S701  # nothing is rendered by it
        own = {one.name for one in names if one.ctx == "store"}
        assert {one.name for one in names} - own - known == set(), name
        assert render_file(name, template, EXAMPLES[0], values, candidate.options), name


def test_the_page_has_the_table_of_placeholders():
    assert placeholder_table() in (ROOT / "docs/testing-your-server.md").read_text("utf-8")
