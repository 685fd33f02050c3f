"""Every placeholder of the table gets its value, in a command and in a file template."""

import json
from pathlib import Path

import pytest

from conformance.candidates.availability import Availability
from conformance.candidates.description import read_description
from conformance.candidates.placeholders import PLACEHOLDERS, unknown_placeholders
from conformance.nodes.node_directory import NodeDirectory

DESCRIBED = """name: mine
kind: exec
claims: [relay]
listeners: [frontend, transport]
installed: thing
options: {mode: slow}
argv: [WORD]
files: {probe.txt: "TEMPLATE"}
commands: {redirect-messages: [WORD]}
"""
CONFIGURATION = {
    "listeners": {"frontend": {"host": "127.0.0.9", "port": 2501}, "transport": {"host": "127.0.0.8", "port": 2502}},
    "routes": [
        {"domain": "a.test", "next_hops": [{"dial": ["127.0.0.7", 2503]}]},
        {"domain": "*", "next_hops": [{"dial": ["127.0.0.6", 2504]}]},
    ],
}
HOP = '{{ (node.routes | selectattr("domain", "equalto", "*") | first).next_hops[0].dial[NUMBER] }}'
HOPS = {"next_hop.host": HOP.replace("NUMBER", "0"), "next_hop.port": HOP.replace("NUMBER", "1")}
"""Templates for the placeholders whose column shows only where the value is; of the others it shows the expression."""


def expected_values(directory: Path) -> dict[str, str]:
    """Return the expected value of each placeholder, independently of the code that fills them in."""
    return {
        "config": f"{directory}/node/node.json",
        "directory": f"{directory}/node",
        "data": f"{directory}/node/data",
        "here": str(directory),
        "installed": "/opt/thing",
        "name": "mbx1",
        "python": "/usr/bin/some-python",
        "listen.X": "2502",
        "listen.X.host": "127.0.0.8",
        "next_hop.host": "127.0.0.6",
        "next_hop.port": "2504",
        "options.X": "slow",
        "1": "mbx2",
    }


def make_node_directory(tmp_path: Path, word: str, template: str = "") -> NodeDirectory:
    path = tmp_path / "mine.yaml"
    text = DESCRIBED.replace("WORD", json.dumps(word)).replace('"TEMPLATE"', json.dumps(template))
    path.write_text(text, "utf-8")
    candidate = read_description(path)
    assert [one for one in unknown_placeholders(candidate) if not one.startswith("argv[0]: '{1}'")] == []
    presence = Availability(installed=Path("/opt/thing"))
    (tmp_path / "node").mkdir()
    node_directory = NodeDirectory("mbx1", candidate, tmp_path / "node", presence, python="/usr/bin/some-python")
    node_directory.write(CONFIGURATION)
    return node_directory


def test_every_placeholder_of_the_table_is_tested_here(tmp_path: Path):
    assert {one.name for one in PLACEHOLDERS} == set(expected_values(tmp_path))


@pytest.mark.parametrize("one", PLACEHOLDERS, ids=lambda one: one.name)
def test_a_placeholder_in_a_command_gets_its_value(tmp_path: Path, one):
    word = "{" + one.name.replace("options.X", "options.mode").replace("X", "transport") + "}"
    node_directory = make_node_directory(tmp_path, word)
    assert node_directory.fill([f"--x={word}"], ["mbx2"]) == [f"--x={expected_values(tmp_path)[one.name]}"]
    node_directory.close()


@pytest.mark.parametrize("one", [one for one in PLACEHOLDERS if one.in_files], ids=lambda one: one.name)
def test_the_file_template_of_a_placeholder_gets_the_same_value(tmp_path: Path, one):
    expression = one.in_files if one.name == "options.X" else one.in_files.replace(".X", ".transport")
    template = HOPS.get(one.name, f"{{{{ {expression.replace('options.X', 'options.mode')} }}}}")
    assert expression.replace("options.X", "options.mode") in template
    node_directory = make_node_directory(tmp_path, "x", template)
    assert (tmp_path / "node" / "probe.txt").read_text("utf-8") == expected_values(tmp_path)[one.name]
    node_directory.close()
