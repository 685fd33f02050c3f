"""The glossary has every term of the project once, in order: declared words, and what pages emphasise when they introduce it."""

import re
from pathlib import Path

import pytest

import conformance.candidates.description
from conformance.candidates.kind import KINDS
from conformance.clocks import CLOCKS
from conformance.generations import ROLES
from conformance.verdicts import Outcome, Reason
from tests.docs.pages import PAGES, ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
SECTIONS = GLOSSARY.read_text("utf-8").split("\n## ")[1:]
TERMS = [re.findall(r"^\| (?!term \|)([^|-][^|]*) \|", section, re.MULTILINE) for section in SECTIONS]
ALL = [term for terms in TERMS for term in terms]

EMPHASISED = re.compile(r"(?<![*\w])\*([A-Za-z][^*\n]{0,40})\*(?![*\w])")
STRESSED = {"or", "not", "own", "either", "another", "smaller", "greater", "ends", "transmitted", "N cells were run once more, alone", "Ingest", "Views", "Tables", "CFG-01", "detected", "n"}  # fmt: skip
"""Words that a page stresses, or quotes, and that are no terms."""


def known(term: str) -> bool:
    """Return whether the glossary has a term: as an entry, as words of one, or emphasised in its meaning as another word for one."""
    word = term.lower().rstrip(".")
    words = re.compile(rf"\b{re.escape(word)}\b|^{re.escape(word.removesuffix('s'))}$")
    text = GLOSSARY.read_text("utf-8").lower()
    return any(words.search(entry.lower()) for entry in ALL) or f"*{word}*" in text


def unknown_terms(text: str) -> list[str]:
    """Return the words that a page emphasises, outside of code, and that the glossary does not have."""
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    return sorted(term for term in set(EMPHASISED.findall(prose)) - STRESSED if not known(term))


def test_terms_are_unique_and_in_alphabetical_order():
    assert TERMS
    lowered = [term.lower() for term in ALL]
    assert [term for term in lowered if lowered.count(term) > 1] == []
    for terms in TERMS:
        assert terms
        assert terms == sorted(terms, key=str.lower)


@pytest.mark.parametrize(("kind", "word"), [(type(one).__name__, one.value) for one in (*Outcome, *Reason)])
def test_every_outcome_and_reason_is_a_term(kind: str, word: str):
    entry = rf"^\| {word.replace('-', ' ')} \|.*\b{kind}: \w"
    assert re.search(entry, GLOSSARY.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("word", ["clock", "generation", "kind", "role"])
def test_clock_generation_kind_and_role_are_terms(word: str):
    assert word in ALL


@pytest.mark.parametrize("word", sorted([*CLOCKS, *KINDS, *ROLES]))
def test_every_clock_kind_and_role_is_named(word: str):
    assert f"`{word}`" in GLOSSARY.read_text("utf-8")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "SECURITY.md"], ids=lambda page: page.name)
def test_a_term_that_a_page_introduces_is_in_the_glossary(page: Path):
    assert unknown_terms(page.read_text("utf-8")) == []


def test_a_term_that_the_glossary_lacks_is_found() -> None:
    assert unknown_terms("A *cell* is no *zebra*, `*giraffe*` is code, and **this** is bold.") == ["zebra"]


def test_the_package_names_the_glossary():
    assert "docs/glossary.md" in (conformance.__doc__ or "")
