"""The built wheel in an environment of its own, outside of the checkout, used as its users would.

The tox environments `wheel` and `wheel-spark` run this, with nothing installed but the wheel, and with the extra `spark`.
"""

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import conformance
from conformance import paths
from conformance.commands.export import Format
from conformance.faults import FAULTS

CHECKOUT = Path(__file__).parents[2]
HAS_SPARK = importlib.util.find_spec("pyspark") is not None
HAS_TRACES = importlib.util.find_spec("dpkt") is not None

SERVER = """
import socket
from time import sleep
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Sink
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
Controller(Sink(), "127.0.0.1", port).start()
print(port, flush=True)
sleep(300)
"""
"""A server that accepts all mail; prints its port."""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        Path(conformance.__file__).is_relative_to(CHECKOUT / "conformance"), reason="tox -e wheel installs the wheel"
    ),
]


def command(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the installed command in the folder `cwd`, without the checkout in the path of imports."""
    installed = Path(sys.executable).with_name("conformance")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON"))}
    return subprocess.run(
        [str(installed), *words], cwd=cwd, env=plain | {"COLUMNS": "200", "NO_COLOR": "1"}, text=True,
        capture_output=True, encoding="utf-8", timeout=300, check=False,
    )  # fmt: skip


def read_footer(run: Path) -> dict[str, Any]:
    """Return the footer of a run directory, which counts its cells and their outcomes."""
    return json.loads((run / "footer.json").read_bytes())


def check_missing_part(done: subprocess.CompletedProcess[str], extra: str, package: str) -> None:
    """Check that a command has named the extra that it needs, and that this extra of the wheel brings the package."""
    assert done.returncode == 2
    assert f"pip install 'smtp-conformance[{extra}]'" in done.stderr
    requirements = importlib.metadata.requires("smtp-conformance") or []
    assert [one for one in requirements if re.match(rf"{package}\b.*\bextra == ['\"]{extra}['\"]", one)]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run of one scenario of the corpus, made by the installed command."""
    folder = tmp_path_factory.mktemp("user")
    done = command(
        "run", "-k", "inbound-acknowledged", "--candidate", "reference", "-n", "2", "--run-dir", "run", cwd=folder
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    return folder


@pytest.mark.parametrize(("folder", "installed"), [("scenarios", paths.corpus()), ("fixtures", paths.fixtures())])
def test_corpus_and_fixtures_come_with_the_wheel(folder: str, installed: Path):
    of_wheel, of_checkout = (
        {path.relative_to(place): path.read_bytes() for path in place.rglob("*") if path.is_file()}
        for place in (installed, CHECKOUT / folder)
    )
    assert installed.is_relative_to(Path(conformance.__file__).parent)
    assert set(of_wheel) == set(of_checkout)
    assert [path for path in of_checkout if of_wheel[path] != of_checkout[path]] == []
    assert of_checkout


def test_every_scenario_of_the_corpus_is_listed(tmp_path: Path):
    listed = command("list", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    texts = [path.read_text("utf-8") for path in (CHECKOUT / "scenarios").rglob("*.scenario.yaml")]
    ids = {name for text in texts for name in re.findall(r"^id: (\S+)$", text, re.MULTILINE)}
    assert ids
    assert ids - {line.split()[0].partition("[")[0] for line in listed.stdout.splitlines() if line} == set()


def test_a_run_is_reported(ran: Path):
    done = command("report", "run", "--out", "site", cwd=ran)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (ran / "site" / "index.html").read_text("utf-8")
    passed = read_footer(ran / "run")["outcomes"]["pass"]
    assert passed > 0
    assert "inbound-acknowledged-after-shadow" in page
    assert f" {passed} pass</span>" in page


def test_an_error_in_a_users_own_scenario_is_reported_with_its_place(tmp_path: Path):
    (tmp_path / "mine.scenario.yaml").write_text("id: mine\ntitle: Mine\nsteps:\n  - sned: x\n", "utf-8")
    done = command("validate", "mine.scenario.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "mine.scenario.yaml:1:1: the key 'requirements' is missing" in done.stdout + done.stderr
    assert "mine.scenario.yaml:4:5: unknown verb 'sned'" in done.stdout + done.stderr


def test_published_schemas_are_printed(tmp_path: Path):
    published = sorted((CHECKOUT / "docs" / "schema").glob("*.json"))
    assert published
    for path in published:
        done = command("schema", path.stem, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == json.loads(path.read_text("utf-8")), path.stem


def test_a_new_candidate_description_is_checked_and_run(tmp_path: Path):
    made = command("candidate", "new", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    (tmp_path / "mine.yaml").write_text(made.stdout, "utf-8")
    checked = command("candidate", "check", "mine.yaml", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert re.search(r"^ok +claim relay$", checked.stdout, re.MULTILINE), checked.stdout
    judged = command(
        "run",
        "-k",
        "content-passes-unchanged and plain",
        "--candidate",
        "./mine.yaml",
        "--run-dir",
        "run",
        cwd=tmp_path,
    )
    assert judged.returncode == 1, judged.stdout + judged.stderr
    assert "RL-CNT-01 is violated" in judged.stdout
    footer = read_footer(tmp_path / "run")
    assert footer["outcomes"]["fail"] == footer["cells"] > 0


def test_runs_are_aggregated_or_the_missing_part_is_named(ran: Path):
    done = command("aggregate", "run", "--out", "tables", cwd=ran)
    if HAS_SPARK:
        assert done.returncode == 0, done.stdout + done.stderr
        assert ",inbound-acknowledged-after-shadow," in (ran / "tables" / "tables" / "matrix.csv").read_text("utf-8")
    else:
        check_missing_part(done, "spark", "pyspark")


def test_a_cell_is_exported_in_every_format_or_the_missing_part_is_named(ran: Path):
    name = min((ran / "run" / "cells").glob("*.gz")).name.partition(".")[0]
    assert set(get_args(Format)) == {"perfetto", "scenario", "pcapng"}
    for out_format in ("perfetto", "scenario"):
        done = command("export", "run", "--cell", name, "--format", out_format, "--out", f"cell.{out_format}", cwd=ran)
        assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((ran / "cell.perfetto").read_bytes())["traceEvents"]
    assert (ran / "cell.scenario").read_text("utf-8").startswith("id: inbound-acknowledged-after-shadow")
    missing = command("export", "run", "--cell", name, "--format", "pcapng", "--out", "cell.pcapng", cwd=ran)
    if HAS_TRACES:
        assert missing.returncode == 0, missing.stdout + missing.stderr
        assert (ran / "cell.pcapng").read_bytes().startswith(b"\x0a\x0d\x0d\x0a")  # a section header block
    else:
        check_missing_part(missing, "traces", "dpkt")


def test_shards_are_merged(tmp_path: Path):
    for shard in ("1/2", "2/2"):
        words = ("-k", "inbound-acknowledged", "--candidate", "reference", "--shard", shard)
        done = command("run", *words, "--run-dir", f"shard{shard[0]}", cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    merged = command("merge", "shard1", "shard2", "--out", "whole", cwd=tmp_path)
    assert merged.returncode == 0, merged.stdout + merged.stderr
    shards, (whole,) = (
        [read_footer(tmp_path / name)["cells"] for name in names] for names in (("shard1", "shard2"), ("whole",))
    )
    assert min(shards) > 0
    assert whole == sum(shards)
    one, other, both = (
        {path.name for path in (tmp_path / run / "cells").glob("*.gz")} for run in ("shard1", "shard2", "whole")
    )
    assert both == one | other
    assert one.isdisjoint(other)


def test_a_results_site_is_built_or_the_missing_part_is_named(ran: Path):
    done = command("site", "run", "--out", "results", cwd=ran)
    if HAS_SPARK:
        assert done.returncode == 0, done.stdout + done.stderr
        assert 'href="servers/reference.html"' in (ran / "results" / "index.html").read_text("utf-8")
        assert (ran / "results" / "servers" / "reference.html").is_file()
    else:
        check_missing_part(done, "spark", "pyspark")


@pytest.mark.parametrize("name", ["test_client.py", "test_proxy.py"])
def test_the_documented_tests_of_a_client_and_a_proxy_pass_in_a_folder_of_their_own(name: str, tmp_path: Path):
    page = (CHECKOUT / "docs" / "your-own-tests.md").read_text("utf-8")
    files = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    for file in ("conftest.py", name):
        (tmp_path / file).write_text(files[file], "utf-8")
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "PYTHON"))}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name]
    done = subprocess.run(words, cwd=tmp_path, env=plain, text=True, capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def test_a_server_that_runs_is_probed(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", SERVER], cwd=tmp_path, text=True, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            done = command("probe", f"127.0.0.1:{port}", "--json", cwd=tmp_path)
        finally:
            server.kill()
    assert done.returncode in (0, 1), done.stdout + done.stderr
    outcomes = {row["outcome"] for row in json.loads(done.stdout)}
    assert outcomes >= {"pass"}
    assert done.returncode == ("fail" in outcomes)


def test_the_reference_runs_as_a_program(tmp_path: Path):
    done = command(
        "run",
        "-k",
        "content-passes-unchanged and plain",
        "--candidate",
        "exec:reference",
        "--run-dir",
        "run",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    footer = read_footer(tmp_path / "run")
    assert footer["outcomes"]["pass"] == footer["cells"] > 0
    header = json.loads((tmp_path / "run" / "run.json").read_bytes())
    assert [(one["name"], one["kind"]) for one in header["candidates"]] == [("reference", "exec")]


def test_a_next_hop_lists_its_misbehaviour_and_says_that_no_client_came(tmp_path: Path):
    listed = command("listen", "--list", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    patterns = {line.strip().partition("  ")[0].partition("-[")[0] for line in listed.stdout.splitlines()}
    assert patterns >= {"PLACE-CODE", "silent[-PLACE]", *FAULTS} - {
        "replace",
        "answer",
    }  # these two give a reply: PLACE-CODE
    listened = command("listen", "0", "--for", "100ms", cwd=tmp_path)
    assert listened.returncode == 3, listened.stdout + listened.stderr
    assert "no client has connected" in listened.stdout
