"""`conformance site`: from run directories to pages, with a later call that adds runs."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("pyspark")

from conformance import cli
from conformance.spark.session import open_session
from tests.spark.synthetic import MadeCell, make_run

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ATOM = "{http://www.w3.org/2005/Atom}"
LOST = MadeCell("one", "nothing-acknowledged-is-lost")


def site(*words: str | Path) -> object:
    with pytest.raises(SystemExit) as left:
        cli.main(["site", *map(str, words)])
    return left.value.code


def test_a_site_is_made_and_a_later_call_adds_runs(tmp_path: Path) -> None:
    first = make_run(tmp_path / "first", [MadeCell("one")], started="2026-01-01T00:00:00Z", version="1.0")
    second = make_run(tmp_path / "second", [LOST], started="2026-01-02T00:00:00Z", version="1.1")
    out = tmp_path / "site"
    with open_session("local[1]"):
        assert site(first, "--out", out) == 0
        assert ET.parse(out / "feed.xml").findall(f"{ATOM}entry") == []
        assert site(second, "--out", out) == 0
    (entry,) = ET.parse(out / "feed.xml").findall(f"{ATOM}entry")
    assert entry.findtext(f"{ATOM}title") == "made-up 1.1: 1 regression"
    page = (out / "rows" / "RL-ACK-01.html").read_text("utf-8")
    assert page.index(">1.1<") < page.index(">1.0<"), "the newest version is first"
    assert "nothing-acknowledged-is-lost is violated" in page
    assert (out / "data" / "tables" / "standings.csv").is_file()
    assert (out / "badges" / "made-up-shadow-2013.svg").is_file()


def test_what_is_no_run_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with open_session("local[1]"):
        assert site(tmp_path, "--out", tmp_path / "site") == 2
    assert "is not a run directory" in capfd.readouterr().err
    assert not (tmp_path / "site" / "index.html").exists()
