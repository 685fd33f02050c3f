"""A node replies with markup, terminal escapes, bidi marks and invalid UTF-8: every output shows that text, none interprets it."""

import base64
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser

from conformance.report.escaping import visible
from tests.ci.runner import executed_commands
from tests.report.conftest import PATIENCE
from tests.report.hostile import MARK, SCENARIO, SERVER
from tests.results.stored import plain
from tests.suite.helpers import conformance_command

pytestmark = [pytest.mark.integration, pytest.mark.long]

PARTS = ('<script>alert("1")</script>', "\\x1b[2J\\x1b]0;pwned\\x07", "\\u202eevil\\u2066", "\\xff\\xfe\\xc0\\xaf")
"""Pieces of the hostile text, escaped, that every output shows."""


@dataclass
class Text:
    """A page as a browser parses it: its text, its scripts, its tags, and attributes that could start a script."""

    shown: str = ""
    scripts: list[str] = field(default_factory=list)
    handlers: list[str] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)


def read(page: str) -> Text:
    """Parse a page."""
    found = Text()

    class Reader(HTMLParser):
        inside = ""

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.tags.add(tag)
            self.inside = tag
            for name, value in attrs:
                if name.startswith("on") or (value or "").strip().lower().startswith("javascript:"):
                    found.handlers.append(f"{tag} {name}={value}")
                found.shown += f" {value}" if name in ("aria-label", "title") else ""

        def handle_endtag(self, tag: str) -> None:
            self.inside = ""

        def handle_data(self, data: str) -> None:
            if self.inside == "script":
                found.scripts.append(data)
            elif self.inside != "style":
                found.shown += data

    Reader().feed(page)
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, allure: Path | None) -> Path:
    """Run the hostile node, make every kind of output, and return the folder with all of them."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "node.py").write_text(SERVER, "utf-8")
    (folder / "taken.scenario.yaml").write_text(SCENARIO, "utf-8")
    description = {
        "name": "hostile",
        "kind": "exec",
        "claims": ["relay"],
        "argv": ["{python}", str(folder / "node.py"), "{config}"],
    }
    (folder / "hostile.yaml").write_text(json.dumps(description), "utf-8")
    commands = {
        "terminal": (
            "run",
            "taken.scenario.yaml",
            "--candidate",
            "hostile.yaml",
            "--run-dir",
            "run",
            "--junitxml",
            "j.xml",
        ),
        "report": ("report", "run", "--out", "site"),
        "judge": ("judge", "run", "--scenarios", "taken.scenario.yaml"),
        "diff": ("diff", "run", "run"),
    }
    for name, words in commands.items():
        ran = conformance_command(
            *words, cwd=folder, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(folder / "step.md")
        )
        (folder / f"{name}.txt").write_bytes((ran.stdout + ran.stderr).encode("utf-8", "surrogateescape"))
    return folder


def outputs(run: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every output that is text; fail where one is not valid UTF-8."""
    for pattern in (
        "*.txt", "j.xml", "step.md", "run/run.json", "run/footer.json", "run/cells/*.jsonl.gz", "run/allure-results/*",
        "site/index.html", "site/cells/**/*.html", "site/statements/*",
    ):  # fmt: skip
        files = sorted(run.glob(pattern))
        assert files, pattern
        yield from ((str(file.relative_to(run)), plain(file).decode()) for file in files)


def test_no_text_output_but_the_history_has_a_control_or_bidi_character(run: Path) -> None:
    harmless = "\n\t"
    in_history: set[str] = set()
    for name, text in outputs(run):
        bad = {
            character
            for character in set(text) - set(harmless)
            if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        }
        if name.endswith(".jsonl.gz"):  # the record itself: JSON, and lossless
            in_history |= bad
        else:
            assert bad == set(), (name, sorted(map(ascii, bad)))
    assert in_history >= {"\x7f", "\u202e", "\u2066", "\u2028"}


@pytest.mark.parametrize(
    ("pattern", "how"),
    [
        ("terminal.txt", "text"),
        ("j.xml", "xml"),
        ("step.md", "markdown"),
        ("run/allure-results/*-result.json", "json"),
        ("run/cells/*.jsonl.gz", "json"),
        ("site/index.html", "html"),
        ("site/cells/**/*.html", "html"),
        ("site/statements/hostile.html", "html"),
        ("site/statements/hostile.md", "markdown"),
        ("site/statements/hostile.json", "json"),
    ],
)
def test_the_hostile_text_is_shown(run: Path, pattern: str, how: str) -> None:
    texts = [text for name, text in outputs(run) if Path(name).match(pattern) and MARK.removeprefix("Grüße") in text]
    assert texts, "the hostile text is in no output"
    for text in texts:
        match how:
            case "html":
                seen = read(text).shown
            case "xml":
                seen = "".join(ElementTree.fromstring(text).itertext())
            case "markdown":
                seen = re.sub(
                    r"\\(?=[^\w\s])", "", text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
                )
                seen = seen.replace("\\\\", "\\")
            case "json":
                strings = re.findall(r'"(?:[^"\\]|\\.)*"', text)
                seen = visible(" ".join(json.loads(one) for one in strings))
            case _:
                seen = text
        flat = " ".join(seen.split())
        for part in PARTS:
            assert part in flat, (part, flat[flat.find("HOSTILE") :][:400])


def test_no_page_but_allure_s_has_a_script_other_than_its_own(run: Path) -> None:
    pages = {str(page.relative_to(run)) for page in run.rglob("*.html")} - {"site/allure/index.html"}
    assert {name for name, _ in outputs(run) if name.endswith(".html")} == pages
    for name, text in outputs(run):
        if name.endswith(".html"):
            page = read(text)
            assert page.handlers == [], name
            assert len(page.scripts) == text.count("<script") == 1, name
            assert "pwned" not in page.scripts[0]
            digest = base64.b64encode(hashlib.sha256(page.scripts[0].encode()).digest()).decode()
            assert f"script-src 'sha256-{digest}'; " in text, "the one that the policy allows"
            assert "img" not in page.tags, name
            assert "'unsafe" not in text
            assert re.search(r"Content-Security-Policy\" content=\"default-src 'none'", text), name


def test_github_executes_no_command_in_the_output_but_the_annotation(run: Path) -> None:
    printed = (run / "terminal.txt").read_text("utf-8")
    assert "##[add-mask]" in printed
    assert list(executed_commands(printed)) == ["error"]
    (line,) = (line for line in printed.splitlines() if line.startswith("::error"))
    assert line.startswith("::error file=taken.scenario.yaml,line=8,")
    assert "HOSTILE<script>" in line
    for command in ("report", "judge", "diff"):
        assert list(executed_commands((run / f"{command}.txt").read_text("utf-8"))) == [], command


def test_markdown_has_no_live_html_or_link_and_no_further_table_cell(run: Path) -> None:
    for file in (run / "step.md", run / "site/statements/hostile.md"):
        lines = [line for line in file.read_text("utf-8").splitlines() if "HOSTILE" in line]
        assert any("](javascript" in line.replace("\\", "") for line in lines)
        for line in lines:
            assert "<" not in line
            assert not re.search(r"(?<!\\)\]\(javascript", line)
            if line.startswith("|"):
                assert len(re.findall(r"(?<!\\)\|", line)) == 5, line
    assert any(line.startswith("|") for line in lines), "the statement has it in a table"


def test_a_browser_shows_the_hostile_text_and_runs_none_of_it(run: Path, browser: Browser, allure: Path | None) -> None:
    context = browser.new_context(offline=True)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    alarms: list[str] = []
    page.on("dialog", lambda dialog: (alarms.append(dialog.message), dialog.dismiss()))
    page.on("console", lambda message: alarms.append(message.text))
    page.on("pageerror", lambda error: alarms.append(str(error)))
    page.on("request", lambda asked: alarms.append(asked.url) if asked.url.startswith("http") else None)
    files = sorted((run / "site").rglob("*.html"))
    assert files
    for file in files:
        page.goto(file.as_uri())
        page.wait_for_load_state("networkidle")
        if file.parent.name == "allure":
            page.get_by_text("taken ·").first.click()
            page.get_by_test_id("test-result-error").first.wait_for()
        assert "HOSTILE<script>alert" in page.inner_text("body"), file.name
    assert alarms == []
    assert allure is None or (run / "site/allure/index.html").is_file()
    context.close()


@pytest.mark.spark
def test_the_hostile_text_is_escaped_in_the_tables_and_on_their_page(run: Path) -> None:
    ran = conformance_command("aggregate", "run", "--out", "tables", cwd=run, timeout=500)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (run / "tables" / "index.html").is_file()
    shown: set[str] = set()
    for file in sorted(
        path for path in (run / "tables").rglob("*") if path.suffix in (".csv", ".json", ".html", ".md")
    ):
        text = file.read_text("utf-8")
        shown |= {file.suffix} if "HOSTILE" in text else set()
        assert not {
            c for c in set(text) - set("\r\n\t") if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        }, file
        if file.suffix == ".html":
            assert read(text).handlers == []
            assert all("pwned" not in script for script in read(text).scripts)
    assert shown > {".html"}
