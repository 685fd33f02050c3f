"""docs/probing.md: its commands are run against a miniature server, and its tables name what there is."""

import re
import shlex
from pathlib import Path

import pytest

from conformance.cli import main
from conformance.probe import topics
from conformance.probe.checks import CHECKS
from conformance.probe.end_of_data import VARIANTS
from conformance.registry import import_submodules, submodule_names
from conformance.smuggling.matrix import Passage
from conformance.testing import BackgroundLoop
from tests.docs.pages import ROOT, commands
from tests.probe.miniature import OFFERS, Miniature, serve

import_submodules(topics)

PAGE = ROOT / "docs" / "probing.md"
SMUGGLING = ROOT / "tests" / "smuggling" / "test_matrix.py"
"""It runs the command that starts real servers."""


class WithoutTls(Miniature):
    offers = tuple(offer for offer in OFFERS if offer != "STARTTLS")


def test_its_probe_commands_end_with_0_on_a_server_without_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    background = BackgroundLoop()
    server = serve(WithoutTls)
    host, port = background.run(server.__aenter__())
    try:
        assert commands(PAGE)
        for command in commands(PAGE):
            if command.text.startswith("conformance smuggling "):
                words = re.findall(r"postfix\S*", command.text)
                assert f'"smuggling", "{words[0]}", "{words[1]}", "--out"' in SMUGGLING.read_text("utf-8")
                continue
            words = shlex.split(command.text.replace("127.0.0.1:2525", f"{host}:{port}"))
            with pytest.raises(SystemExit) as left:
                main(words[1:])
            assert left.value.code == 0, capsys.readouterr().out
    finally:
        background.run(server.__aexit__(None, None, None))
        background.close()
    assert (tmp_path / "probe.xml").exists()


def test_it_names_every_module_of_checks():
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \| RFC", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == list(submodule_names(topics))


def test_it_names_every_passage():
    section = PAGE.read_text("utf-8").partition("## Smuggling between")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == list(map(str, Passage))


def test_every_check_that_it_names_exists():
    text = PAGE.read_text("utf-8")
    findings = text.partition("## What it finds")[2]
    names = {
        name
        for row in re.findall(r"^\| [^|]+ \| (`[^|]+`) \|", findings, re.MULTILINE)
        for name in re.findall("`(.+?)`", row)
    }
    assert names
    with_hyphens = set(re.findall("`([a-z0-9]+(?:-[a-z0-9]+)+)`", text))
    assert sorted((names | with_hyphens - set(VARIANTS) - set(map(str, Passage))) - set(CHECKS)) == []
