"""The Atom feed (RFC 4287) of verdicts that changed from one run to the next: an entry for each run and server.

A *change* is a row of the table `row_changes`: a requirement whose verdict differs from that of the latest earlier run, or that a
cell violates which no earlier run has. `pages` writes the feed. Links are relative to the feed's own address, which the site does
not know.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from uuid import NAMESPACE_URL, uuid5
from xml.etree import ElementTree as ET

from markupsafe import escape

from conformance import PROJECT_URL
from conformance.report.cell_pages import file_stem
from conformance.report.escaping import visible
from conformance.report.results_site.model import Results, Row
from conformance.verdicts.changes import ChangeKind

_ATOM = "http://www.w3.org/2005/Atom"
MAX_ENTRIES = 100
"""Entries of the feed, the newest ones."""


def atom_feed(results: Results) -> bytes:
    """Return the feed as XML: the newest `MAX_ENTRIES` entries.

    The ids of feed and entries are made of names and times of runs and of servers and versions, so that they stay the same when
    the site is built again with more runs.
    """
    ET.register_namespace("", _ATOM)
    feed = ET.Element(f"{{{_ATOM}}}feed")
    _add(feed, "title", "Mail conformance: changed verdicts")
    first, last = (results.runs[0], results.runs[-1]) if results.runs else ({}, {})
    _add(feed, "id", _urn(first.get("run", ""), first.get("started", "")))
    _add(feed, "updated", last.get("started", "1970-01-01T00:00:00Z"))
    _add(_add(feed, "author"), "name", "smtp-conformance")
    _add(feed, "link", rel="self", href="feed.xml")
    _add(feed, "link", rel="alternate", href="index.html")
    for entry in _entries(results.changes):
        feed.append(entry)
    xml: bytes = ET.tostring(feed, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def change_text(change: Row) -> str:
    """Return a change as a line of text: `RL-ACK-01: pass before, fail now (regression)`.

    Where the earlier run was of another version, the line has `in version 1.0` in place of `before`.
    """
    version = change["before_version"]
    before = f" in version {version}" if version and version != change["version"] else " before"
    return f"{change['requirement']}: {change['before']}{before}, {change['outcome']} now ({change['change']})"


def _entries(changes: Sequence[Row]) -> Iterator[ET.Element]:
    """Yield an entry for each run and server (a version of it), `MAX_ENTRIES` at most.

    `changes` has the newest first, with those of one run and server together.
    """
    grouped = groupby(
        changes, key=lambda change: (change["started"], change["run"], change["candidate"], change["version"])
    )
    for count, ((started, run, candidate, version), group) in enumerate(grouped):
        if count == MAX_ENTRIES:
            return
        rows = sorted(group, key=lambda change: str(change["requirement"]))
        kinds = [row["change"] for row in rows]
        summary = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ChangeKind if kind in kinds)
        entry = ET.Element(f"{{{_ATOM}}}entry")
        _add(entry, "title", f"{candidate} {version}: {summary}")
        _add(entry, "id", _urn(run, started, candidate, version))
        _add(entry, "updated", started)
        _add(entry, "link", rel="alternate", href=f"servers/{file_stem(candidate)}.html")
        items = "".join(f"<li>{escape(visible(change_text(row)))}</li>" for row in rows)
        _add(entry, "content", f"<p>Run {escape(visible(run))}</p><ul>{items}</ul>", type="html")
        yield entry


def _add(parent: ET.Element, name: str, text: str = "", **attributes: str) -> ET.Element:
    """Append an element of Atom to `parent` and return it; its text is made printable, its attributes are not."""
    child = ET.SubElement(parent, f"{{{_ATOM}}}{name}", attributes)
    if text:
        child.text = visible(text)
    return child


def _urn(*parts: str) -> str:
    """Return an id in the form of a URN that is always the same for the same texts."""
    return uuid5(NAMESPACE_URL, "\n".join((PROJECT_URL, *parts))).urn
