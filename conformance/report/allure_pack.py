"""Packs a site of Allure's so that it opens without a server and stays small.

Allure writes a JSON file for each result, which its program asks a server for; without a server it wants all data inside
of one page. Here the files are put together into parts, compressed, each a script that hands its files over. The page
loads a part when something in it is looked at, which browsers also do from the disk. What the page needs for that is
`templates/allure_data.js`, which takes the place of Allure's own data: its program finds each file, by its path, in
`window.allureReportData`.
"""

import base64
import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOADER = Path(__file__).with_name("templates") / "allure_data.js"

_ANALYTICS = re.compile(
    r"<script\b[^>]*\bsrc=[\"'][^\"'>]*(?:googletagmanager|google-analytics)[^>]*>\s*</script>"
    r"|<script>\s*window\.dataLayer\b(?:(?!</script>).)*</script>",
    re.DOTALL | re.IGNORECASE,
)
_HEAD = "<head>"
_SCHEMES = 'new Set(["http:","https:","mailto:","tel:"])'
_UNUSED = "data/history/"
"""Whole earlier runs that Allure writes and its program does not read: each result has its own history."""
_RESULTS = "data/test-results/"

Resolve = Callable[[str], str | None]


class UnknownSite(Exception):
    """The site is not as the pinned Allure writes it; the text says where."""


def pack_site(site: Path, resolve: Resolve) -> None:
    """Pack a site in place: its data into parts, its page without analytics.

    `resolve` returns for the address of a result's link the one that leads there from the site's page, or None for a
    link that is left out. Raises UnknownSite.
    """
    parts: dict[str, dict[str, str | list[str]]] = {}
    for path in sorted(path for folder in ("data", "widgets") for path in (site / folder).rglob("*") if path.is_file()):
        key = path.relative_to(site).as_posix()
        if not key.startswith(_UNUSED):
            content = path.read_bytes()
            parts.setdefault(part_name(key), {})[key] = _shown(
                _linked(content, resolve) if key.startswith(_RESULTS) else content
            )
    for folder in ("data", "widgets"):
        shutil.rmtree(site / folder, ignore_errors=True)
    (site / "data").mkdir()
    for name, files in parts.items():
        (site / "data" / f"{name}.js").write_text(part_script(name, files), "ascii")
    _patch(site)


def part_name(key: str) -> str:
    """Return the part that a file is in: the widgets are one, the rest goes by the first two characters of its name."""
    folder, _, name = key.rpartition("/")
    return name[:2] if folder.startswith("data") else "widgets"


def part_script(name: str, files: dict[str, str | list[str]]) -> str:
    """Return a part as a script: text as it is, octets that are no UTF-8 as a list of one word in base 64."""
    packed = gzip.compress(json.dumps(files, ensure_ascii=False, separators=(",", ":")).encode(), mtime=0)
    return f'allurePart("{name}","{base64.b64encode(packed).decode()}");\n'


def unpack_site(site: Path) -> dict[str, str | list[str]]:
    """Return all files of a packed site by their keys."""
    found: dict[str, str | list[str]] = {}
    for path in sorted((site / "data").glob("*.js")):
        packed = path.read_text("ascii").split('"')[3]
        found |= json.loads(gzip.decompress(base64.b64decode(packed)))
    return found


def without_analytics(page: str) -> str:
    """Return a page of Allure's without the script that reports its readers to an analytics service."""
    return _ANALYTICS.sub("", page)


def _shown(content: bytes) -> str | list[str]:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return [base64.b64encode(content).decode()]


def _linked(content: bytes, resolve: Resolve) -> bytes:
    result: dict[str, Any] = json.loads(content)
    links = [(link, resolve(link["url"])) for link in result.get("links", [])]
    result["links"] = [link | {"url": url} for link, url in links if url is not None]
    return json.dumps(result, ensure_ascii=False).encode()


def _patch(site: Path) -> None:
    """Put the loader in front of Allure's program, and let that follow links to files too. Raises UnknownSite."""
    index = site / "index.html"
    page = without_analytics(index.read_text("utf-8"))
    if _HEAD not in page:
        raise UnknownSite("allure made a page without a head")
    index.write_text(page.replace(_HEAD, f"{_HEAD}\n<script>\n{LOADER.read_text('utf-8')}</script>", 1), "utf-8")
    programs = [path for path in site.glob("app-*.js") if _SCHEMES in path.read_text("utf-8")]
    if not programs:
        raise UnknownSite("allure's program does not have the list of schemes that its links may have")
    for path in programs:
        path.write_text(
            path.read_text("utf-8").replace(_SCHEMES, _SCHEMES.replace('"tel:"', '"tel:","file:"')), "utf-8"
        )
