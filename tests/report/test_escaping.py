"""Text of a peer in the terminal, Markdown and GitHub's annotations: it is shown, and never interpreted."""

import html
import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conformance.report.escaping import code_span, escape_annotation, escape_markdown, visible

SPECIAL = st.sampled_from("`*_[]{}()#+-.!|~<>&\\:,%\r\n\t\x1b\u2028")
ANYTHING = st.text(st.one_of(SPECIAL, st.characters(categories=("L", "M", "N", "P", "S", "Z", "C"))))


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\r\nb\tc\x00", "a\\r\\nb\\tc\\x00"),
        ("\u202eevil", "\\u202eevil"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("\udcff", "\\xff"),
        ("\ud800", "\\ud800"),
        ("\u0085\u2028\u00a0", "\\u0085\\u2028\\u00a0"),
        ("e\u0301\u0301", "e\\u0301\\u0301"),
        ("\u3164\U000e0041", "\\u3164\\U000e0041"),
        ("Grüße, 東京", "Grüße, 東京"),
    ],
)
def test_invisible_characters_are_shown_as_escapes(hostile: str, shown: str) -> None:
    assert visible(hostile) == shown


@given(ANYTHING)
def test_escaped_text_is_printable_on_one_line_and_is_not_escaped_again(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert not any(unicodedata.category(character)[0] in "MC" for character in shown)
    assert visible(shown) == shown
    shown.encode("utf-8")


@given(ANYTHING, st.integers(0, 50))
def test_text_beyond_a_limit_is_cut_and_the_missing_characters_are_counted(text: str, limit: int) -> None:
    note = f"… (+{len(text) - limit} characters)" if len(text) > limit else ""
    assert visible(text, limit) == visible(text[:limit]) + note


@given(ANYTHING)
def test_markdown_has_no_live_markup(text: str) -> None:
    """Without the escaped characters and the entities, no character is left that Markdown or HTML gives a meaning."""
    escaped = escape_markdown(text)
    live = re.sub(r"\\[!-/:-@\[-`{-~]|&(?:amp|lt|gt);", "", escaped)
    assert not set(live) & set("\\`*_{}[]()#+-.!|~<>&\r\n")
    assert re.sub(r"\\(.)", r"\1", html.unescape(escaped)) == visible(text), "and what a reader sees is the text"


@given(ANYTHING)
@example("ends with `")
@example("` begins with one")
@example("`` has two ` in a row")
def test_a_code_span_is_closed_only_by_its_own_fence(text: str) -> None:
    span = code_span(text)
    fence = span[: len(span) - len(span.lstrip("`"))]
    assert fence
    assert span.endswith(fence)
    inner = span[len(fence) : -len(fence)]
    runs = [run for run in "".join(c if c == "`" else " " for c in inner).split() if run]
    assert fence not in runs
    assert not inner.startswith("`")
    assert not inner.endswith("`"), "the closing fence would be longer"
    assert inner in (visible(text), f" {visible(text)} "), "and what a reader sees is the text"


@given(ANYTHING)
def test_an_annotation_is_one_line_and_its_properties_end_neither_themselves_nor_the_command(text: str) -> None:
    assert len(escape_annotation(text).splitlines()) <= 1
    shown = escape_annotation(text, is_property=True)
    assert len(shown.splitlines()) <= 1
    assert ":" not in shown
    assert "," not in shown
    lines = "\n".join(map(visible, text.splitlines()))
    for escaped in (escape_annotation(text), shown.replace("%3A", ":").replace("%2C", ",")):
        assert escaped.replace("%0A", "\n").replace("%25", "%") == lines, "and what GitHub shows is the text"
