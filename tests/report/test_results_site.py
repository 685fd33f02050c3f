"""The results site, from rows of tables made by hand: scores, pages whose links lead somewhere, feed and badges."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

import pytest

from conformance.report.results_site.feed import MAX_ENTRIES, atom_feed
from conformance.report.results_site.model import Results, read_results
from conformance.report.results_site.pages import write_results_site
from conformance.requirements.catalogue import catalogue
from conformance.requirements.profiles import PROFILES, rows_of_profile
from conformance.results.atomic_write import write_atomically
from tests.report.results_tables import candidate, change, standing, tables

ATOM = "{http://www.w3.org/2005/Atom}"
HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e'\"&"


def results(**more: list[dict[str, Any]]) -> Results:
    return read_results(tables(**more), catalogue())


def test_the_newest_version_of_a_server_is_that_of_the_latest_run():
    found = {server.name: server.versions for server in results().servers}
    assert found == {"exim": ("4.97", "4.96"), "postfix": ("3.7",)}
    downgraded = results(
        candidates=[candidate("r1", "exim", "4.97"), candidate("r2", "exim", "4.96")],
        standings=[standing("exim", "4.97", "RL-ACK-01", "pass"), standing("exim", "4.96", "RL-ACK-01", "pass", "r2")],
    )
    assert [server.versions for server in downgraded.servers] == [("4.96", "4.97")]
    again = results(
        runs=[{"run": f"r{day}", "started": f"2026-01-0{day}T00:00:00Z"} for day in (1, 2, 3)],
        standings=[
            standing("exim", "4.97", "RL-ACK-01", "pass", "r3"),
            standing("exim", "4.96", "RL-ACK-01", "pass", "r2"),
            standing("exim", "4.97", "RL-ACK-02", "pass", "r1"),
        ],
    )
    assert [server.versions for server in again.servers] == [("4.97", "4.96")], "its latest run counts, in any order"


def test_a_row_counts_when_every_server_that_claims_the_profile_passes_it():
    """RL-ACK-02 fails in one of the two, RL-ACK-03 is not applicable to one, RL-ACK-04 was not judged in the other."""
    (score,) = results().scores
    assert (score.profile, score.passed, score.servers) == ("relay", 2, ("exim", "postfix"))
    assert score.total == len(rows_of_profile("relay", catalogue())) > 10
    for row, counts in (("RL-ACK-01", 1), ("RL-ACK-02", 0), ("RL-ACK-03", 1), ("RL-ACK-04", 0)):
        others = [one for one in tables()["standings"] if one["requirement"] != row]
        assert results(standings=others).scores[0].passed == 2 - counts, row
    for outcome, passed in (("not-applicable", 2), ("pass", 3)):
        both = [
            standing(name, version, "RL-ACK-05", outcome) for name, version in (("exim", "4.97"), ("postfix", "3.7"))
        ]
        found = results(standings=[*tables()["standings"], *both]).scores[0].passed
        assert found == passed, "some server has to pass it"


def test_a_server_that_does_not_claim_the_profile_does_not_lower_its_score():
    rows = tables()
    rows["candidates"].append(candidate("r2", "msa", "1", "dsn"))
    rows["standings"].append(standing("msa", "1", "RL-ACK-01", "fail", "r2"))
    (score,) = read_results(rows, catalogue()).scores
    assert score.passed == 2
    rows["candidates"][-1] = candidate("r2", "msa", "1")
    (lowered,) = read_results(rows, catalogue()).scores
    assert lowered.passed < 2, "it claims the profile"


def test_every_row_that_must_or_should_hold_is_in_a_profile():
    in_profiles = {row.id for profile in PROFILES for row in rows_of_profile(profile, catalogue())}
    binding = {row.id for row in catalogue().requirements if row.level != "may" and row.retired is None}
    assert in_profiles == binding
    assert {row.profile for row in rows_of_profile("relay", catalogue())} == {"relay"}


@pytest.mark.parametrize(
    ("name", "text", "colour"),
    [("exim", "3 of {} rows pass", "735500"), ("postfix", "2 of {} rows pass, 1 fail", "a83a00")],
)
def test_badges_say_what_passes_and_what_fails(name: str, text: str, colour: str, tmp_path: Path):
    write_results_site(tmp_path, tables(), catalogue(), write_atomically)
    endpoint = json.loads((tmp_path / "badges" / f"{name}-relay.json").read_text("utf-8"))
    total = len(rows_of_profile("relay", catalogue())) - (name == "exim")  # one row is not applicable to it
    assert endpoint["message"] == text.format(total)
    assert endpoint["color"] == colour
    assert endpoint["message"] in (tmp_path / "badges" / f"{name}-relay.svg").read_text("utf-8")


class Links(HTMLParser):
    """Collects the addresses and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: set[str] = set()
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.addresses.add(value)
            elif name == "id" and value:
                self.anchors.add(value)


def read_links(page: Path) -> Links:
    links = Links()
    links.feed(page.read_text("utf-8"))
    return links


def test_every_link_of_every_page_leads_somewhere(tmp_path: Path):
    write_results_site(tmp_path, tables(), catalogue(), write_atomically)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "index.html").touch()  # the aggregation writes it
    pages = {page.resolve(): read_links(page) for page in tmp_path.rglob("*.html")}
    assert {page.relative_to(tmp_path).as_posix() for page in pages} >= {"servers/exim.html", "rows/RL-ACK-02.html"}
    checked = 0
    for page, links in pages.items():
        for address in links.addresses:
            parts = urlsplit(address)
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert target.is_file(), f"{page}: {address}"
            assert not parts.fragment or parts.fragment in pages[target].anchors, f"{page}: {address}"
            checked += 1
    assert checked > 20


def test_hostile_texts_are_shown_escaped_on_every_page_and_in_the_feed(tmp_path: Path):
    failure = {"run": HOSTILE, "candidate": HOSTILE, "requirement": "RL-ACK-02", "sentence": HOSTILE, "nodeid": HOSTILE}
    versions = {"version": HOSTILE, "before_version": f"{HOSTILE}1", "before_run": HOSTILE}
    rows = tables(
        runs=[{"run": HOSTILE, "started": "2026-01-01T00:00:00Z"}],
        candidates=[candidate(HOSTILE, HOSTILE, HOSTILE)],
        standings=[standing(HOSTILE, HOSTILE, "RL-ACK-02", "fail", HOSTILE)],
        row_changes=[change(HOSTILE, 1, HOSTILE, "RL-ACK-02", **versions)],
        failures=[{**failure, "event": 3, "repeat": HOSTILE}],
    )
    write_results_site(tmp_path, rows, catalogue(), write_atomically)
    texts = {path: path.read_text("utf-8") for path in tmp_path.rglob("*.*ml")}
    assert len(texts) == 4
    for path, text in texts.items():
        assert "<script>alert" not in text, path
        assert "\x1b" not in text, path
        assert "\u202e" not in text, path
    in_html = r"&lt;script&gt;alert(1)&lt;/script&gt;\x1b[2J\u202e&#39;&#34;&amp;"
    feed = texts.pop(tmp_path / "feed.xml")
    content = ET.fromstring(feed).findtext(f"{ATOM}entry/{ATOM}content") or ""
    assert content.count(in_html) == content.count("alert(1)") == 2, "the run, and the version before"
    for path, text in texts.items():
        assert text.count(in_html) == text.count("alert(1)") > 0, path
    in_text = r"&lt;script&gt;alert(1)&lt;/script&gt;\x1b[2J\u202e'" + '"&amp;'
    assert feed.count(in_text) == feed.count("alert(1)") - 2 > 0


def entries(results: Results) -> list[ET.Element]:
    return ET.fromstring(atom_feed(results)).findall(f"{ATOM}entry")


def test_the_feed_has_the_elements_that_rfc_4287_requires():
    feed = ET.fromstring(atom_feed(results()))
    for element in (feed, *feed.findall(f"{ATOM}entry")):  # 4.1.1, 4.1.2: exactly one each
        for name in ("id", "title", "updated"):
            (found,) = element.findall(f"{ATOM}{name}")
            assert found.text
    assert feed.find(f"{ATOM}author/{ATOM}name") is not None
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert all(re.fullmatch(stamp, found.text or "") for found in feed.iter(f"{ATOM}updated"))
    ids = [found.text for found in feed.iter(f"{ATOM}id")]
    assert len(ids) == len(set(ids)) == 2
    assert all(urlsplit(found or "").scheme for found in ids), "an id is an IRI (4.2.6)"


def test_an_entry_names_the_rows_that_changed_and_both_versions():
    versions = {"version": "4.97", "before_version": "4.96"}
    fixed, failed = tables()["row_changes"][0], change("r2", 2, "exim", "RL-ACK-02", **versions)
    (entry,) = entries(results(row_changes=[fixed, failed]))
    assert entry.findtext(f"{ATOM}title") == "exim 4.97: 1 regression, 1 fixed"
    content = entry.findtext(f"{ATOM}content") or ""
    assert "RL-ACK-01: fail in version 4.96, pass now (fixed)" in content
    assert "RL-ACK-02: pass in version 4.96, fail now (regression)" in content


def test_the_ids_of_entries_stay_when_runs_are_added():
    changes = [*tables()["row_changes"], change("r2", 2, "postfix", "RL-ACK-03")]
    before = [entry.findtext(f"{ATOM}id") for entry in entries(results(row_changes=changes))]
    changes += [change("r3", 3, "postfix", "RL-ACK-01"), change("r3", 3, "postfix", "RL-ACK-02")]
    runs = [*tables()["runs"], {"run": "r3", "started": "2026-01-03T00:00:00Z"}]
    first, *others = entries(results(runs=runs, row_changes=changes))
    assert first.findtext(f"{ATOM}title") == "postfix 2: 2 regression"
    assert [entry.findtext(f"{ATOM}id") for entry in others] == before
    assert len(before) == 2


def test_the_feed_keeps_the_newest_entries():
    many = [change(f"r{day}", day, f"s{n}", "RL-ACK-01") for day in range(1, 13) for n in range(10)]
    found = entries(results(row_changes=many))
    assert len(found) == MAX_ENTRIES
    days = [int((one.findtext(f"{ATOM}updated") or "")[8:10]) for one in found]
    assert days == [day for day in range(12, 2, -1) for _ in range(10)]


def test_without_any_run_there_is_still_a_site(tmp_path: Path):
    write_results_site(tmp_path, {name: [] for name in tables()}, catalogue(), write_atomically)
    assert "0 servers" in (tmp_path / "index.html").read_text("utf-8")
    assert ET.parse(tmp_path / "feed.xml").findall(f"{ATOM}entry") == []
