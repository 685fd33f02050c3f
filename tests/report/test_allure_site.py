"""Finding and installing the pinned Allure: once, completely or not at all, without install scripts of packages."""

import json
import re
import tomllib
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from conformance.report.allure_site import (
    HISTORY,
    AllureMissing,
    _points_in_file,
    _points_of_runs,
    allure_script,
    build_allure,
    ensure_allure_installed,
    find_node,
    trim_trend_point,
)
from tests.report.samples import cell_view, write_run
from tests.suite.helpers import ROOT, conformance_command

NPM = """#!/bin/sh
echo "$@" >> {log}
test -f package.json || exit 9
test "{fails}" = yes && {{ printf 'npm error code E404\\nnpm error no such registry\\nnpm error more\\n' >&2; exit 7; }}
mkdir -p node_modules/allure
: > node_modules/allure/cli.js
: > node_modules/.package-lock.json
"""


@pytest.fixture
def pinned(tmp_path: Path) -> Path:
    folder = tmp_path / "pinned"
    folder.mkdir()
    (folder / "package.json").write_text("{}")
    (folder / "package-lock.json").write_text('{"lockfileVersion": 3}')
    return folder


def with_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails: str = "no") -> Path:
    """Put a stand-in for Node and npm into the path, and return the file to which npm writes its arguments."""
    tools, log = tmp_path / "tools", tmp_path / "npm.log"
    tools.mkdir()
    for name, text in (("node", "#!/bin/sh\necho v20.1.0\n"), ("npm", NPM.format(log=log, fails=fails))):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    return log


def test_allure_is_installed_once_into_the_cache_without_install_scripts(
    tmp_path: Path, pinned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, cache = with_node(tmp_path, monkeypatch), tmp_path / "cache"
    first = ensure_allure_installed(pinned, cache)
    assert first.is_relative_to(cache)
    assert (ensure_allure_installed(pinned, cache), allure_script(pinned, cache)) == (first, first)
    assert [folder.stat().st_mode & 0o077 for folder in first.parents[:3]] == [0o055] * 3, "other users can read it"
    assert [line.partition(" --fetch")[0] for line in log.read_text().splitlines()] == [
        "ci --ignore-scripts --no-audit --no-fund"
    ]
    assert len(list(cache.iterdir())) == 1, "nothing but the installation is left"


def test_a_changed_lock_file_leads_to_another_installation(
    tmp_path: Path, pinned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = with_node(tmp_path, monkeypatch)
    first = ensure_allure_installed(pinned, tmp_path / "cache")
    (pinned / "package-lock.json").write_text('{"lockfileVersion": 3, "name": "later"}')
    second = ensure_allure_installed(pinned, tmp_path / "cache")
    assert (second != first, second.is_file(), len(log.read_text().splitlines())) == (True, True, 2)


def test_a_failed_installation_leaves_no_files(tmp_path: Path, pinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_node(tmp_path, monkeypatch, fails="yes")
    with pytest.raises(AllureMissing, match="could not install the pinned Allure: E404: no such registry$"):
        ensure_allure_installed(pinned, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_installation_beside_the_lock_file_is_preferred_once_it_is_complete(
    tmp_path: Path, pinned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_node(tmp_path, monkeypatch)
    cached = ensure_allure_installed(pinned, tmp_path / "cache")
    (pinned / "node_modules/allure").mkdir(parents=True)
    (pinned / "node_modules/allure/cli.js").touch()
    assert allure_script(pinned, tmp_path / "cache") == cached
    with pytest.raises(AllureMissing, match="--install-allure"):
        allure_script(pinned, tmp_path / "empty")
    (pinned / "node_modules/.package-lock.json").touch()
    assert allure_script(pinned, tmp_path / "cache").is_relative_to(pinned)


def test_without_node_the_error_names_the_extra_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(AllureMissing) as missing:
        find_node()
    (name, extra) = re.findall(r"`pip install '([a-z-]+)\[([a-z]+)\]'`", str(missing.value))[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert name == project["name"]
    (package,) = (re.split(r"[^a-z-]", one)[0] for one in project["optional-dependencies"][extra])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "node").touch()
    spec = ModuleSpec(package.replace("-", "_"), None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec if name == spec.name else None)
    assert find_node().node == tmp_path / "bin" / "node", "the package of the extra is the one that is looked for"


@pytest.mark.parametrize("version", ["v18.20.4", "v19.9.0", "v9.11.2"])
def test_a_node_that_is_too_old_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    with_node(tmp_path, monkeypatch)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert find_node()
    (tmp_path / "tools" / "node").write_text(f"#!/bin/sh\necho {version}\n")
    with pytest.raises(AllureMissing, match="Node 20 or later"):
        find_node()


@pytest.mark.long
@pytest.mark.parametrize(("option", "code"), [("--with-allure", 0), ("--install-allure", 2)])
def test_an_allure_that_cannot_be_installed_is_reported_in_one_line(tmp_path: Path, option: str, code: int) -> None:
    run = write_run(tmp_path / "run", (cell_view(),))
    (run / "allure-results").mkdir()
    offline = {"npm_config_registry": "http://127.0.0.1:9", "npm_config_cache": str(tmp_path / "npm")}
    ran = conformance_command(
        "report", str(run), "--out", str(tmp_path / "site"), option, cwd=tmp_path,
        XDG_CACHE_HOME=str(tmp_path / "cache"), **offline,
    )  # fmt: skip
    assert ran.returncode == code, ran.stdout + ran.stderr
    said = [line for line in (ran.stdout + ran.stderr).splitlines() if "Allure" in line]
    assert len(said) == 1, ran.stdout + ran.stderr
    assert "npm error" not in ran.stdout + ran.stderr, "not npm's own lines"
    assert "npm could not install" in said[0] or "Node 20 or later" in said[0]
    assert (tmp_path / "site" / "index.html").is_file() == (code == 0)


def test_a_point_of_the_trend_has_short_messages_and_no_labels_or_traces() -> None:
    result = {"status": "failed", "message": "m" * 900, "trace": "t", "labels": [{"name": "x", "value": "y"}]}
    made = json.loads(
        trim_trend_point(json.dumps({"uuid": "u", "testResults": {"a": result, "b": {"status": "passed"}}}).encode())
    )
    assert made["testResults"]["a"] == {"status": "failed", "message": "m" * 300, "labels": []}
    assert made["testResults"]["b"]["message"] is None


POINT = b'{"uuid": "u%d", "testResults": {}}'


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"uuid": "u", "testRes', b"not JSON", b"[]", b"7", b"{}", b'{"uuid": 7, "testResults": {}}',
        b'{"uuid": "u", "testResults": []}', b'{"uuid": "\xff", "testResults": {}}', b"\xef\xbb\xbf" + POINT % 2, b"[" * 100_000,
    ],
    ids=["truncated", "text", "list", "number", "empty", "uuid", "results", "not-utf-8", "byte-order-mark", "deep"],
)  # fmt: skip
def test_a_damaged_history_file_is_named_with_its_line_and_stays_as_it_is(
    tmp_path: Path, pinned: Path, monkeypatch: pytest.MonkeyPatch, damaged: bytes
) -> None:
    with_node(tmp_path, monkeypatch)
    ensure_allure_installed(pinned, tmp_path / "cache")
    run, history = tmp_path / "run", tmp_path / "history.jsonl"
    (run / "allure-results").mkdir(parents=True)
    content = POINT % 1 + b"\n" + damaged + b"\n"
    history.write_bytes(content)
    with pytest.raises(AllureMissing, match=r"history\.jsonl:2: the line is damaged.*delete the line"):
        build_allure(
            run,
            tmp_path / "site",
            pinned=pinned,
            cache=tmp_path / "cache",
            candidates=(),
            resolve=str,
            history_file=history,
        )
    assert history.read_bytes() == content


def test_each_point_of_a_history_file_has_a_line_of_its_own(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    history.write_bytes(b"\n" + POINT % 1 + b"\r\n\n" + POINT % 2 + b"\n" + POINT % 3)
    assert _points_in_file(history, "u2") == [POINT % 1 + b"\n", POINT % 3 + b"\n"]


def test_a_damaged_point_of_an_earlier_run_is_left_out_with_a_note(tmp_path: Path) -> None:
    notes: list[str] = []
    runs = [tmp_path / name for name in ("one", "two", "three")]
    for run, content in zip(runs, (POINT % 1, b'{"uuid": "u', POINT % 3 + b"\n"), strict=True):
        run.mkdir()
        (run / HISTORY).write_bytes(content)
    assert _points_of_runs(runs, notes.append) == [POINT % 1 + b"\n", POINT % 3 + b"\n"]
    assert notes == [f"Allure's trend lacks {runs[1]}: {HISTORY} there is damaged"]
