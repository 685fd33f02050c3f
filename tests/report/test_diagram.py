"""The diagram: rows that are drawn, and rows that are folded; the page is self-contained and hostile text is inert."""

import base64
import hashlib
import itertools
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from conformance.report.cell_page import cell_page
from conformance.report.diagram.layout import lay_out
from conformance.report.diagram.rows import diagram_rows, party_columns
from conformance.report.diagram.svg import draw_section
from conformance.report.rendering import write_style_sheet
from conformance.verdicts import Outcome, Verdict
from tests.report.samples import cell_view

VOID = {"meta", "link", "br", "hr", "input", "img"}


class Strict(HTMLParser):
    """Reads a page and refuses elements that are not closed in order; keeps all attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(page: str) -> Strict:
    reader = Strict()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def test_evidence_and_operations_have_rows_in_the_order_of_events() -> None:
    usual = cell_view()
    routine = next(event.n for event in usual.events if getattr(event, "verb", None) == "RCPT")
    evidence = (routine, *usual.verdicts[0].evidence)
    for cell in (usual, cell_view(verdicts=(usual.verdicts[0].model_copy(update={"evidence": evidence}),))):
        rows = diagram_rows(cell)
        drawn = [row.numbers[0] for row in rows if row.kind in ("arrow", "note")]
        assert drawn == sorted(drawn)
        assert {row.numbers for row in rows if row.marked} == {(number,) for number in cell.verdicts[0].evidence}
        assert set(cell.verdicts[0].evidence) <= set(drawn)
        said = {event.n for event in cell.events if getattr(event, "operation", None) is not None}
        assert said
        assert said <= {row.numbers[0] for row in rows if row.kind == "arrow"}


def test_uneventful_exchanges_are_folded_and_each_long_pause_is_one_row() -> None:
    rows = diagram_rows(cell_view())
    assert [row.text for row in rows if row.kind == "fold"] == [
        "connect, greeting, EHLO, MAIL, RCPT, DATA",
        "connect, greeting, EHLO",
        "MAIL, RCPT, DATA",
        "QUIT, close",
        "QUIT, close",
        "connect, greeting, EHLO, MAIL",
    ]
    assert [row.text for row in rows if row.kind == "gap"] == ["… 30 s …", "… 2 h 58 m …"]


def test_folding_does_not_hide_evidence_that_is_an_ordinary_greeting() -> None:
    greeting = next(event.n for event in cell_view().events if getattr(event, "to", None) == "GREETING")
    verdict = Verdict(check="expect.reply", outcome=Outcome.FAIL, sentence="no", evidence=(greeting,))
    rows = diagram_rows(cell_view(verdicts=(verdict,)))
    assert [row.numbers for row in rows if row.marked] == [(greeting,)]


def test_senders_stand_left_servers_in_the_topologys_order_and_sinks_right() -> None:
    for servers in (["mbx1", "mbx2"], ["mbx2", "mbx1"]):
        assert party_columns(cell_view().events, servers) == ("outside", *servers, "mbx2-store")


def test_rows_of_a_diagram_of_several_sections_do_not_overlap_and_stay_within_their_section() -> None:
    cell = cell_view(messages=20)
    diagram = lay_out(diagram_rows(cell), party_columns(cell.events, ["mbx1", "mbx2"]), cell.events)
    assert len(diagram.sections) > 1
    for section in diagram.sections:
        middles = [placed.y for placed in section.placed]
        assert all(later - earlier >= 30 for earlier, later in itertools.pairwise(middles))
        half = 16  # of the height of a row's background
        assert half <= min(middles) < max(middles) <= section.height - half
        assert all(0 < placed.x1 < diagram.width and 0 < placed.x2 < diagram.width for placed in section.placed)


def test_a_killed_nodes_line_is_broken_from_there_on() -> None:
    """In its own section, and in a second one, which has further rows after the kill."""
    cell = cell_view()
    rows, columns = diagram_rows(cell), party_columns(cell.events, ["mbx1", "mbx2"])
    killed = next(event.n for event in cell.events if event.kind == "node" and event.action == "killed")
    after = [row for row in rows if row.numbers > (killed,)]
    diagram = lay_out([*rows, *after * 10], columns, cell.events)
    section, later = diagram.sections
    (place,) = (placed.y for placed in section.placed if placed.row.numbers == (killed,))
    down = [[(piece.x, piece.top, piece.bottom) for piece in one.lifelines if piece.down] for one in (section, later)]
    top = min(piece.top for piece in later.lifelines)
    x = diagram.columns["mbx1"]
    assert down == [[(x, place, section.height)], [(x, top, later.height)]]
    assert str(draw_section(diagram, section)).count('class="life down"') == 1


def test_findings_link_to_their_evidence() -> None:
    page = cell_page(cell_view())
    reader = read(page)
    ids = {value for _, name, value in reader.attributes if name == "id"}
    links = [value for _, name, value in reader.attributes if name == "href" and value.startswith("#e")]
    assert set(links) == {f"#e{number}" for number in cell_view().verdicts[0].evidence}
    assert {link[1:] for link in links} <= ids
    tabbed = [value for tag, name, value in reader.attributes if (tag, name, value) == ("g", "tabindex", "0")]
    assert len(tabbed) == 2
    each = tuple(
        cell_view().verdicts[0].model_copy(update={"evidence": (n,)}) for n in cell_view().verdicts[0].evidence
    )
    _, *cards = cell_page(cell_view(verdicts=each)).split('aria-label="Finding ')
    assert [re.findall('href="(#e[0-9]+)"', card.partition("</section>")[0]) for card in cards] == [
        [f"#e{one.evidence[0]}"] for one in each
    ]


def test_nothing_is_loaded_and_only_our_own_script_may_run() -> None:
    page = cell_page(cell_view(), home="../index.html")
    reader = read(page)
    policy = next(value for _, name, value in reader.attributes if name == "content" and "default-src" in value)
    allowed = {"default-src": "'none'", "img-src": "'self'", "base-uri": "'none'", "form-action": "'none'"}
    for tag in ("style", "script"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        allowed[f"{tag}-src"] = f"'sha256-{digest}'"
    assert dict(directive.split(" ", 1) for directive in policy.split("; ")) == allowed
    assert not [one for one in reader.attributes if one[1] in ("src", "style") or one[1].startswith("on")]
    assert not re.search(r"https?://|url\(|@import|<link", page)


def test_a_cell_page_links_to_a_shared_style_and_keeps_its_script(tmp_path: Path) -> None:
    write_style_sheet(tmp_path / "assets")
    (sheet,) = (tmp_path / "assets").iterdir()
    alone, page = cell_page(cell_view()), cell_page(cell_view(), shared="../assets")
    assert f'<link rel="stylesheet" href="../assets/{sheet.name}">' in page
    assert "<style>" not in page
    assert sheet.read_text("utf-8") in alone
    policy = next(value for _, name, value in read(page).attributes if name == "content" and "default-src" in value)
    scripts = [re.findall("<script>(.+?)</script>", text, re.DOTALL) for text in (alone, page)]
    assert scripts[0] == scripts[1]
    (script,) = scripts[1]
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'self'; script-src 'sha256-{allowed}'")
    assert len(alone) - len(page) > 0.9 * sheet.stat().st_size


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ('"><img src=x onerror=alert(1)>', "&gt;&lt;img src=x onerror=alert(1)&gt;"),
        ("\x1b]0;x\x07", r"\x1b]0;x\x07"),
        ("</svg></title>\u202e", r"&lt;/svg&gt;&lt;/title&gt;\u202e"),
    ],
)
def test_hostile_replies_are_shown_and_do_not_become_markup(hostile: str, shown: str) -> None:
    cell = cell_view(hostile=hostile)
    reply = next(event.n for event in cell.events if hostile in str(getattr(event, "lines", "")) or event.n == 10)
    verdict = Verdict(check="c", outcome=Outcome.FAIL, sentence=hostile, seen=hostile, evidence=(reply,))
    hostile_cell = cell_view(hostile=hostile, verdicts=(verdict,), title=hostile)
    page = cell_page(hostile_cell)
    reader = read(page)
    assert not [one for one in reader.attributes if one[0] == "img" or one[1] == "onerror"]
    assert shown in page
    assert re.search(r"2\.1\.0 (&#34;)?" + re.escape(shown), page), "in the reply itself"
    assert page.count("<script>") == 1
    assert all(line.isprintable() for line in page.splitlines())


def test_a_cell_without_any_event_has_a_page() -> None:
    empty = cell_view(verdicts=(Verdict(check="harness.capabilities", outcome=Outcome.NOT_APPLICABLE),))
    cell = type(empty)(header=empty.header, events=(), verdicts=empty.verdicts)
    assert "Nothing was recorded." in cell_page(cell)
