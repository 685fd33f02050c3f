"""`--keep failed`: the nodes' directories of failed cells stay, for their owner alone and without secrets."""

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from conformance.results.kept_nodes import keep_node_directories, kept_directory
from tests.suite.helpers import conformance_command

CELL = "inbound-acknowledgement-waits-for-the-shadow"


def test_kept_directories_have_no_secrets_and_only_their_owner_may_read_them(tmp_path: Path):
    node = tmp_path / "cells" / "a-cell" / "mta1"
    (node / "data" / "spool").mkdir(parents=True)
    (node / "data" / "spool" / "1.msg").write_bytes(b"AUTH PLAIN is a word of this message")
    document = {"peers": [{"name": "mbx2", "secret": "hunter2"}, {"name": "mbx3", "secret": None}]}
    document["submission"] = {"users": {"alice": {"secret": "hunter2"}}}
    (node / "node.json").write_text(json.dumps(document), "utf-8")
    (node / "node.log").write_bytes(b"S: 250-AUTH PLAIN\nC: AUTH PLAIN AGFsaWNlAGh1bnRlcjI=\nC: auth login YWxpY2U=\n")
    mechanisms = (b"CRAM-MD5", b"EXTERNAL", b"XOAUTH2", b"SCRAM-SHA-256", b"X_OWN")
    (node / "errors.log").write_bytes(b"".join(b"AUTH %b aHVudGVyMg==\n" % name for name in mechanisms))
    for path in [node, *node.rglob("*")]:
        path.chmod(0o777)
    cell = tmp_path / "cells" / "a-cell.jsonl"
    keep_node_directories(cell, cell.with_suffix(""))
    kept = kept_directory(cell)
    assert kept == tmp_path / "kept" / "a-cell"
    assert {oct(path.stat().st_mode & 0o777) for path in [kept.parent, kept, *kept.rglob("*")] if path.is_dir()} == {
        "0o700"
    }
    assert {oct(path.stat().st_mode & 0o777) for path in kept.rglob("*") if path.is_file()} == {"0o600"}
    assert (kept / "mta1/data/spool/1.msg").read_bytes() == b"AUTH PLAIN is a word of this message"
    redacted = json.loads((kept / "mta1/node.json").read_bytes())
    assert [one["secret"] for one in redacted["peers"]] == ["***", None]
    assert redacted["submission"] == {"users": {"alice": {"secret": "***"}}}
    assert (kept / "mta1/errors.log").read_bytes() == b"".join(b"AUTH %b ***\n" % name for name in mechanisms)
    assert (kept / "mta1/node.log").read_bytes() == b"S: 250-AUTH PLAIN\nC: AUTH PLAIN ***\nC: auth login ***\n"


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize("kind", ["", "exec:"], ids=["in this process", "as a program"])
def test_node_directories_of_a_failed_cell_are_kept_and_named_in_terminal_page_and_allure(tmp_path: Path, kind: str):
    wrong = f"{kind}reference+acknowledges-before-shadow"
    words = ("--candidate", f"{kind}reference", "--candidate", wrong, "--run-dir", "run")
    ran = conformance_command("run", CELL, *words, "--keep", "failed", cwd=tmp_path)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    (kept,) = (tmp_path / "run" / "kept").iterdir()
    assert "acknowledges" in kept.name, "and not the cell that passed"
    assert f"kept      {kept}" in ran.stdout
    assert {node.name for node in kept.iterdir()} == {"mbx1", "mbx2"}
    assert all(any(path.is_file() for path in (node / "data").rglob("*")) for node in kept.iterdir())
    assert list((tmp_path / "run" / "cells").rglob("data")) == []
    reported = conformance_command("report", "run", "--out", "site", cwd=tmp_path)
    assert reported.returncode == 0, reported.stdout + reported.stderr
    (page,) = (tmp_path / "site/cells").rglob("*.html")
    (link,) = re.findall(r'<a href="([^"]+)">kept</a>', page.read_text("utf-8"))
    assert (page.parent / unquote(link)).resolve() == kept
    results = [json.loads(one.read_bytes()) for one in (tmp_path / "run/allure-results").glob("*-result.json")]
    links = {one["name"]: [link["url"] for link in one["links"] if link["type"] == "kept"] for one in results}
    assert sorted(links.values()) == [[], [f"cell-kept:{kept.name}"]]
    again = conformance_command("run", CELL, *words, "--fresh", cwd=tmp_path)
    assert again.returncode == 1, again.stdout + again.stderr
    assert not (tmp_path / "run" / "kept").exists(), "without --keep nothing is kept"
