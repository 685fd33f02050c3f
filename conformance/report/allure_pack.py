"""Packing of Allure's site, so that it opens from a disk without a web server, and stays small.

Allure writes a JSON file for each result, and its program requests them from a web server. Browsers refuse such requests
for pages on the disk; Allure's own alternative puts all data into one huge page. Here:

1. All data files are distributed over parts, by the first two characters of their names. A part is a JSON object from
   paths to contents, compressed with gzip and written as a script, `data/PART.js`. Browsers load scripts from the disk.
2. `templates/allure_data.js` is put into the page before Allure's program. It defines `window.allureReportData`, where
   the program looks for files before it requests them, and loads the part of a file when the file is first needed.
3. Addresses of links in results are replaced by URLs that work from the site, and `file:` URLs are permitted.
4. The script that reports readers to an analytics service is removed from the page.

`allure_site` calls `pack_site` on the site that Allure wrote. A *key* is the path of a data file below the site.
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
"""Whole earlier runs, which Allure writes but its program does not read, since each result has its own history."""
_RESULTS = "data/test-results/"

Resolve = Callable[[str], str | None]
"""A function from the address of a result's link to its URL, or None for a link that is left out."""


class UnknownSite(Exception):
    """The site differs from what the pinned Allure writes; the message says where."""


def pack_site(site: Path, resolve: Resolve) -> None:
    """Pack a site in place, as the module describes; `resolve` gives the URLs of links, relative to the site's page.

    The folders `data` and `widgets` are replaced by the folder `data` with the parts; `data/history/` is left out. Raises
    UnknownSite where the page or Allure's program is not as expected; the folders are replaced already then.
    """
    parts: dict[str, dict[str, str | list[str]]] = {}
    for path in sorted(path for folder in ("data", "widgets") for path in (site / folder).rglob("*") if path.is_file()):
        key = path.relative_to(site).as_posix()
        if not key.startswith(_UNUSED):
            content = path.read_bytes()
            parts.setdefault(part_name(key), {})[key] = _json_value(
                _with_resolved_links(content, resolve) if key.startswith(_RESULTS) else content
            )
    for folder in ("data", "widgets"):
        shutil.rmtree(site / folder, ignore_errors=True)
    (site / "data").mkdir()
    for name, files in parts.items():
        (site / "data" / f"{name}.js").write_text(part_script(name, files), "ascii")
    _patch_page(site)


def part_name(key: str) -> str:
    """Return the part of a file: `widgets` for a widget, else the first two characters of the file's name."""
    folder, _, name = key.rpartition("/")
    return name[:2] if folder.startswith("data") else "widgets"


def part_script(name: str, files: dict[str, str | list[str]]) -> str:
    """Return the part `name` as JavaScript that passes its compressed files to `allurePart`, a function of `allure_data.js`.

    `files` has the contents by key: text, or for a file that is not UTF-8 a list of one string in base 64.
    """
    packed = gzip.compress(json.dumps(files, ensure_ascii=False, separators=(",", ":")).encode(), mtime=0)
    return f'allurePart("{name}","{base64.b64encode(packed).decode()}");\n'


def without_analytics(page: str) -> str:
    """Return Allure's page without the scripts of its analytics service."""
    return _ANALYTICS.sub("", page)


def _json_value(content: bytes) -> str | list[str]:
    """Return a file's content for JSON: text, or for octets that are not UTF-8 a list of one string in base 64."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return [base64.b64encode(content).decode()]


def _with_resolved_links(content: bytes, resolve: Resolve) -> bytes:
    """Return the JSON of a result with the URLs that `resolve` returns for its links, without links for which that is None."""
    result: dict[str, Any] = json.loads(content)
    links = [(link, resolve(link["url"])) for link in result.get("links", [])]
    result["links"] = [link | {"url": url} for link, url in links if url is not None]
    return json.dumps(result, ensure_ascii=False).encode()


def _patch_page(site: Path) -> None:
    """Insert the loader before Allure's program, remove analytics, and permit links to `file:` URLs.

    Raises UnknownSite where the page has no head, or no program has the list of permitted schemes.
    """
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
