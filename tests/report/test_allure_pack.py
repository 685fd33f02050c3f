"""A packed site has all files that Allure's program reads, in a few scripts, and only links that can be resolved."""

import json
from pathlib import Path

import pytest

from conformance.report.allure_pack import UnknownSite, pack_site, part_name, without_analytics
from tests.report.samples import unpack_site

PROGRAM = 'a=new Set(["http:","https:","mailto:","tel:"]),b'
PAGE = "<html><head><title>x</title></head><body><script src='app-1.js'></script></body></html>"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Write the files of the pinned Allure that matter for packing, and return their folder."""
    result = {"id": "ab12", "links": [{"url": "cell-page:one", "name": "p"}, {"url": "cell-page:gone", "name": "q"}]}
    files = {
        "index.html": PAGE,
        "app-1.js": PROGRAM,
        "data/test-results/ab12.json": json.dumps(result),
        "data/test-env-groups/ab99.json": '{"group": 1}',
        "data/attachments/cd34.svg": "<svg>é</svg>",
        "data/history/ef56.json": "[]",
        "widgets/tree.json": '{"leaves": 1}',
        "widgets/candidate-1/tree.json": "{}",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    (tmp_path / "data/attachments/cd77.bin").write_bytes(b"\xff\x00")
    return tmp_path


def resolve(address: str) -> str | None:
    return {"cell-page:one": "../cells/one.html"}.get(address)


def test_a_packed_site_has_all_data_files_but_earlier_runs_and_only_links_that_resolve(site: Path) -> None:
    paths = (path for path in site.rglob("*") if path.is_file() and path.parent != site)
    written = {path.relative_to(site).as_posix(): path.read_bytes() for path in paths}
    pack_site(site, resolve)
    assert sorted(path.name for path in (site / "data").iterdir()) == ["ab.js", "cd.js", "widgets.js"]
    assert not (site / "widgets").exists()
    found = unpack_site(site)
    assert found.keys() == written.keys() - {"data/history/ef56.json"}, "only whole earlier runs are left out"
    result = json.loads(str(found["data/test-results/ab12.json"]))
    unchanged = found.keys() - {"data/test-results/ab12.json", "data/attachments/cd77.bin"}
    assert {key: found[key] for key in unchanged} == {key: written[key].decode() for key in unchanged}
    assert found["data/attachments/cd77.bin"] == ["/wA="]
    assert result["links"] == [{"url": "../cells/one.html", "name": "p"}]
    assert set(map(part_name, found)) == {"ab", "cd", "widgets"}


def test_the_page_defines_its_data_before_the_program_which_accepts_file_links(site: Path) -> None:
    pack_site(site, resolve)
    page = (site / "index.html").read_text("utf-8")
    assert page.index("window.allureReportData = ") < page.index("app-1.js")
    assert '"tel:","file:"])' in (site / "app-1.js").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [("index.html", "<html></html>", "without a head"), ("app-1.js", "other", "does not have the list of schemes")],
)
def test_a_site_whose_page_or_program_is_not_that_of_the_pinned_allure_is_refused(
    site: Path, name: str, text: str, reason: str
) -> None:
    (site / name).write_text(text, "utf-8")
    with pytest.raises(UnknownSite, match=reason):
        pack_site(site, resolve)


def test_only_the_analytics_scripts_are_removed() -> None:
    own = "<script>app('gtag(')</script><script src='app-1.js'></script>"
    page = (
        '<script async src="https://www.googletagmanager.com/gtag/js?id=G-1"></script>\n<script>\n'
        "  window.dataLayer = window.dataLayer || [];\n  gtag('js');\n</script>\n"
        "<script src='https://www.google-analytics.com/analytics.js'></script>" + own
    )
    assert without_analytics(page).strip() == own
