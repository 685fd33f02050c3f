"""Every page of docs/ is named in its index, and every link leads to an existing file and heading."""

import re
from itertools import count
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, name_of

INDEX = ROOT / "docs" / "README.md"
OTHERS = ("ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md", "docs/changelog.d/README.md", "reports/README.md")
LINKED = [*PAGES, *(ROOT / name for name in OTHERS)]

_FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.*?)(?: +#+)?$", re.MULTILINE)
_LINK = re.compile(r"\]\(((?!https?:|mailto:)[^)\s]+)\)")


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page: a repeated one gets -1, -2 and so on."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCED.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.add(next(one for number in count() if (one := f"{slug}-{number}" if number else slug) not in found))
    return found


def links(text: str) -> list[str]:
    """Return the targets of a page's links to files and headings of the project."""
    return _LINK.findall(re.sub(r"`[^`\n]*`", "", _FENCED.sub("", text)))


def broken(page: Path, text: str) -> list[str]:
    """Return the links of a page that lead nowhere."""
    wrong = []
    for target in links(text):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        known = file.suffix == ".md" and file.exists() and anchors(text if file == page else file.read_text("utf-8"))
        if not file.exists() or (anchor and anchor not in (known or ())):
            wrong.append(target)
    return wrong


def test_anchors_are_those_of_github():
    text = "# One: `two`\n## 3. A [page](x.md)\n```text\n# no heading\n```\n### a_b - C\n## One: two\n"
    assert anchors(text) == {"one-two", "3-a-page", "a_b---c", "one-two-1"}


@pytest.mark.parametrize(
    ("link", "wrong"),
    [
        ("node-contract.md", False),
        ("node-contract.md#contract-1", False),
        ("node-contract.md#contract-3", True),
        ("no-page.md", True),
        ("schema/node.json", False),
        ("#here", False),
        ("#there", True),
    ],
)
def test_a_broken_link_is_found(link: str, wrong: bool):
    assert broken(INDEX, f"# Here\n\n[it]({link})\n") == [link] * wrong


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_links_lead_to_existing_files_and_headings(page: Path):
    assert broken(page, page.read_text("utf-8")) == []


def test_some_links_lead_to_headings():
    assert any("#" in link for page in LINKED for link in links(page.read_text("utf-8")))


def test_every_page_and_every_schema_is_named_in_the_index_once():
    named = [link for link in links(INDEX.read_text("utf-8")) if not link.startswith("../")]
    there = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "schema").glob("*.json")]
    assert sorted(named) == sorted(path.relative_to(ROOT / "docs").as_posix() for path in there if path != INDEX)


def test_the_readme_links_to_the_index():
    assert "docs/README.md" in links((ROOT / "README.md").read_text("utf-8"))


def test_links_of_changelog_fragments_lead_somewhere_from_the_root() -> None:
    """The release moves their text into CHANGELOG.md."""
    fragments = [path for path in sorted((ROOT / "docs" / "changelog.d").glob("*.md")) if path.name != "README.md"]
    assert any(links(path.read_text("utf-8")) for path in fragments)
    assert {
        path.name: wrong for path in fragments if (wrong := broken(ROOT / path.name, path.read_text("utf-8")))
    } == {}
