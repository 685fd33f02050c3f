"""docs/reading-reports.md: every command in it is run, in order, and the results have what the page says of them.

The commands that need npm's registry have a test of their own, which is skipped where it cannot be reached.
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.docs.pages import commands
from tests.report.conftest import allure, unavailable
from tests.suite.helpers import ROOT, conformance_command

PAGE = ROOT / "docs" / "reading-reports.md"
COMMANDS = [command.text for command in commands(PAGE)]
WITH_NPM = "--install-allure"

__all__ = ["allure"]  # a fixture: pytest finds it by its name in this module

pytestmark = [pytest.mark.integration, pytest.mark.long]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all commands of the page in a folder that has the scenarios; return it."""
    folder = tmp_path_factory.mktemp("reading")
    (folder / "scenarios").symlink_to(ROOT / "scenarios")
    for number, command in enumerate(COMMANDS):
        words = shlex.split(command)[1:]
        if WITH_NPM in words:
            continue
        ran = conformance_command(*words, cwd=folder)
        violated = words[0] in ("run", "judge")
        assert ran.returncode == int(violated), (command, ran.stdout + ran.stderr)
        (folder / f"{number}.txt").write_text(ran.stdout, "utf-8")
    return folder


def test_the_page_has_the_five_commands_it_is_about() -> None:
    assert {command.split()[1] for command in COMMANDS} == {"run", "report", "diff", "judge", "export"}


def test_the_failure_text_has_what_the_table_says(place: Path) -> None:
    text = (place / "0.txt").read_text("utf-8")
    table = PAGE.read_text("utf-8").partition("| part |")[2].partition("\n\n")[0]
    words = {word for row in table.splitlines() for word in re.findall(r"`([^`]+)`", row.split("|")[1])} - {"file:line"}
    assert {"✗ VIOLATION", "violates", "message", "by", "repeat", "history"} <= words
    begins = {word: re.search(rf"^ {{0,2}}{re.escape(word)}(?=\s)", text, re.MULTILINE) for word in words}
    assert [word for word, line in begins.items() if line is None] == []
    assert re.search(r"step \d+  \S+\.scenario\.yaml:\d+", text)


def test_the_commands_write_the_pages_that_the_text_names(place: Path) -> None:
    site = place / "reports/reading/site"
    text = PAGE.read_text("utf-8").partition("## The pages")[2].partition("\n## ")[0]
    names = re.findall(r"^- \*\*`([^`]+)`", text, re.MULTILINE)
    assert "index.html" in names
    for name in names:
        name = name.replace("/AXES", "")  # the cell has no axes
        found = list(site.glob(re.sub(r"<\w+>|[A-Z]{2,}", "*", name)))
        assert bool(found) is not name.endswith(".svg"), f"{name}: a run with a violation has all pages, and no badge"
    assert {path.suffix for path in (site / "statements").iterdir()} == {".html", ".md", ".json"}
    assert (place / "reports/reading-in-ci.xml").read_text("utf-8").count("VIOLATION") >= 1


def test_the_allure_site_is_where_the_text_says(place: Path, allure: Path | None) -> None:
    if allure is None:
        unavailable("no Allure: it needs Node 20 or later, and npm's registry")
    for command in (command for command in COMMANDS if WITH_NPM in command):
        ran = conformance_command(*shlex.split(command)[1:], cwd=place)
        assert ran.returncode == 0, (command, ran.stdout + ran.stderr)
    (page,) = re.findall(r"^`([^`]+)` opens without a server", PAGE.read_text("utf-8"), re.MULTILINE)
    assert page == "site/allure/index.html"
    assert (place / "reports/reading" / page).is_file()


def test_the_comparison_of_two_equal_runs_finds_no_change(place: Path) -> None:
    number = next(number for number, command in enumerate(COMMANDS) if command.split()[1] == "diff")
    text = (place / f"{number}.txt").read_text("utf-8")
    assert re.findall(r"^(\S.*): (\d+)$", text, re.MULTILINE) == [("unchanged", "1")]
